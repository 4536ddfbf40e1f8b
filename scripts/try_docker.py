"""Build the Docker image and run every notebook in it: alone with a Kafka and a Spark of its own, and beside the cluster's.

    make docker                 # both, some 25 minutes
    make docker ARGS=alone      # or: cluster

This is no part of `make test`, which needs no Docker: it needs an engine, Compose 2.17 or newer and a network. What it makes
(containers, volumes, the image's own name stays) belongs to a project of its own, and goes at the end. Beside the cluster just
those notebooks may have cells that end with an error which docs/ways_in.md names; each of them has to say that a broker is not the kit's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WAYS = ROOT / "docs" / "ways_in.md"
COMPOSE = ["docker", "compose", "--project-name", "delivery-lab-trial"]
WAYS_OF = {"alone": [], "cluster": ["--env-file", "cluster.env"]}
NOT_OURS = "not the kit's"
PROMISE = re.compile(r"Some cells of notebooks ([\w, ]+?) and (\w+) then end with an error")

# In the container: run one notebook after the other, each a line of JSON with the errors of its cells.
RUN_ALL = r"""
import json, pathlib, re, subprocess, tempfile, time
for path in sorted(pathlib.Path("/lab/work").glob("*.ipynb")):
    begun, out = time.monotonic(), pathlib.Path(tempfile.mkdtemp())
    command = ["jupyter", "nbconvert", "--to", "notebook", "--execute", "--allow-errors", "--output-dir", out, path]
    ended = subprocess.run(command, capture_output=True, text=True)
    errors = [] if ended.returncode == 0 else [ended.stderr[-300:]]
    for found in out.glob("*.ipynb"):
        outputs = [o for cell in json.loads(found.read_text())["cells"] for o in cell.get("outputs", [])]
        errors += [re.sub(r"\x1b\[[0-9;]*m", "", f"{o['ename']}: {o['evalue']}") for o in outputs if o["output_type"] == "error"]
    print(json.dumps([path.stem, time.monotonic() - begun, errors]), flush=True)
"""


def promised() -> set[str]:
    """The notebooks that docs/ways_in.md says need the kit's own Kafka: {"07b", ...}."""
    [(some, last)] = PROMISE.findall(WAYS.read_text(encoding="utf-8"))
    return {*some.split(", "), last}


def try_one(way: str) -> list[str]:
    """Start one of the two ways, run all notebooks in it, and end it; what is not as promised, a sentence each."""
    compose = [*COMPOSE, *WAYS_OF[way]]
    troubles, seen = [], set()
    try:
        subprocess.run([*compose, "up", "--build", "--wait"], cwd=ROOT, check=True)
        inside = [*compose, "exec", "-T", "jupyter", "python", "-c", RUN_ALL]
        with subprocess.Popen(inside, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout
            for line in running.stdout:
                name, seconds, errors = json.loads(line)
                chapter = name.split("_")[0]
                seen.add(chapter)
                told = f", {len(errors)} errors, the first: {errors[0]:.200}" if errors else ""
                print(f"{way}: {name}, {seconds:.0f} s{told}", flush=True)
                may_fail = way == "cluster" and chapter in promised()
                if bool(errors) is not may_fail or (errors and NOT_OURS not in errors[0]):
                    troubles.append(f"{way}: {name} {'had no error' if may_fail and not errors else errors[0]}")
        if missing := {path.name.split("_")[0] for path in (ROOT / "notebooks").glob("*.ipynb")} - seen:
            troubles.append(f"{way}: {', '.join(sorted(missing))} did not run")
    finally:
        subprocess.run([*compose, "down", "--volumes", "--timeout", "5"], cwd=ROOT, check=False)
    return troubles


def main(ways: list[str]) -> int:
    """Try each way that is named, all without a name; the exit code."""
    if unknown := set(ways) - WAYS_OF.keys():
        print(f"docker: there is no way {', '.join(sorted(unknown))}; there are {' and '.join(WAYS_OF)}.", file=sys.stderr)
        return 2
    os.environ.setdefault("KIT_UID", str(os.getuid()))
    os.environ.setdefault("KIT_GID", str(os.getgid()))
    try:
        troubles = [each for way in ways or WAYS_OF for each in try_one(way)]
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"docker: {error}. An engine that runs and Compose 2.17 or newer are needed.", file=sys.stderr)
        return 5
    except KeyboardInterrupt:
        return 130
    for trouble in troubles:
        print(f"docker: NOT as promised: {trouble}", file=sys.stderr)
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
