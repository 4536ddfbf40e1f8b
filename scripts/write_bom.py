"""Write build/bom.json: everything that a learner's install brings, with versions and hashes, as a CycloneDX bill of materials.

    make bom

It is read off the locks, so it names what is installed, not what happens to be installed here. It has no time and no
serial number: the same locks give the same file.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "build" / "bom.json"
JARS = ROOT / "kitlib" / "lab" / "jars.lock.json"
PYODIDE = ROOT / "kitlib" / "lab" / "pyodide.lock.json"
PIN = re.compile(r"^([\w.-]+)==(\S+).*\n((?:    --hash=\S+.*\n)*)", re.MULTILINE)


def components() -> Iterator[dict[str, Any]]:
    """Each package, jar and npm package; a Python package has the hashes of all of its wheels, of which one is installed."""
    for name, version, hashes in PIN.findall((ROOT / "requirements.lock").read_text(encoding="utf-8")):
        yield _component(name, version, f"pkg:pypi/{name}@{version}", re.findall(r"sha256:(\w+)", hashes))
    jars = json.loads(JARS.read_text(encoding="utf-8"))
    for jar in {each["file"]: each for some in jars.values() for each in some}.values():
        group, artifact, version = jar["coordinate"].split(":")[:3]
        yield _component(f"{group}:{artifact}", version, f"pkg:maven/{group}/{artifact}@{version}", [jar["sha256"]])
    pyodide = json.loads(PYODIDE.read_text(encoding="utf-8"))
    name, _, version = pyodide["coordinate"].partition("@")
    yield _component(name, version, f"pkg:npm/{name}@{version}", [pyodide["sha256"]])


def _component(name: str, version: str, purl: str, sha256: list[str]) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": each} for each in sha256]
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "hashes": hashes}


def bom() -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    licences = [{"license": {"id": project["license"]}}]
    own = {"type": "application", "name": project["name"], "version": project["version"], "licenses": licences}
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": own}, "components": list(components())}


def main() -> None:
    FILE.parent.mkdir(exist_ok=True)
    told = bom()
    FILE.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print(f"{FILE.relative_to(ROOT)}: {len(told['components'])} packages and jars", file=sys.stderr)


if __name__ == "__main__":
    main()
