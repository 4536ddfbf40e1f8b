"""Ask OSV, the open vulnerability database, about every package and jar of the bill of materials.

    make audit

It sends names and versions (what `make bom` writes) and nothing else. Known vulnerabilities are printed, one line each, and
the exit code is 1; 0 when there is none, 5 when OSV cannot be reached.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator

from write_bom import bom

OSV = "https://api.osv.dev/v1/querybatch"
MOST = 1_000  # packages that OSV takes in one question
TIMEOUT_S = 60.0


def vulnerabilities(purls: list[str], url: str) -> Iterator[tuple[str, str]]:
    """(package, id of a vulnerability) as OSV knows them; OSError or ValueError when it gives no answer."""
    questions = [{"package": {"purl": purl}} for purl in purls]
    while questions:
        asked, questions = questions[:MOST], questions[MOST:]
        body = json.dumps({"queries": asked}).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            results = json.load(answer)["results"]
        for question, result in zip(asked, results, strict=True):
            yield from ((question["package"]["purl"], known["id"]) for known in result.get("vulns", ()))
            if token := result.get("next_page_token"):
                questions.append({**question, "page_token": token})


def main(arguments: list[str]) -> int:
    """Print what is known of the locked versions; the exit code."""
    purls = sorted(component["purl"] for component in bom()["components"])
    try:
        found = sorted(set(vulnerabilities(purls, arguments[0] if arguments else OSV)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"audit: OSV gave no answer ({error}). Run `make audit` where it can be reached.", file=sys.stderr)
        return 5
    for purl, known in found:
        print(f"{purl}  {known}")
    print(f"audit: {len(purls)} packages and jars, {len(found)} known vulnerabilities", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
