"""Write the locks of npm's packages anew: the Pyodide that `kit page` takes, and the axe-core of the browser tests.

Run by `make lock` when a version below changes. npm compares what it fetches with the registry's own checksum.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {
    "pyodide@314.0.7": ROOT / "kitlib" / "lab" / "pyodide.lock.json",
    "axe-core@4.14.1": ROOT / "tests" / "browser" / "axe.lock.json",
}


def main() -> None:
    for coordinate, lock in LOCKS.items():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["npm", "pack", coordinate, "--silent", "--ignore-scripts"], cwd=folder, check=True, stdout=sys.stderr)
            (package,) = Path(folder).iterdir()
            content = package.read_bytes()
            about = {"coordinate": coordinate, "file": package.name, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        lock.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        print(f"{lock.name}: {coordinate}, {len(content):,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
