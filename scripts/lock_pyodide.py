"""Write kitlib/lab/pyodide.lock.json anew: which Pyodide `kit page` takes, and its sha256.

Run by `make lock` when the version below changes. npm compares what it fetches with the registry's own checksum.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = Path(__file__).resolve().parent.parent / "kitlib" / "lab" / "pyodide.lock.json"
PYODIDE = "pyodide@314.0.7"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", PYODIDE, "--silent", "--ignore-scripts"], cwd=folder, check=True, stdout=sys.stderr)
        (package,) = Path(folder).iterdir()
        content = package.read_bytes()
        lock = {"coordinate": PYODIDE, "file": package.name, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    LOCK.write_text(json.dumps(lock, indent=1) + "\n", encoding="utf-8")
    print(f"{LOCK.name}: {PYODIDE}, {len(content):,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
