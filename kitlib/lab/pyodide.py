"""Pyodide, which is CPython in WebAssembly: exactly the locked package, for the pages of `kit page`.

Its package comes from npm's registry, and lies beside the jars.
"""

from __future__ import annotations

import importlib.resources
import json
import shutil
import tarfile
from pathlib import Path

from kitlib.errors import SupplyError
from kitlib.lab import jars, workspace
from kitlib.lab.jars import Jar, Progress

LICENSE = "Pyodide: Mozilla Public License 2.0, github.com/pyodide/pyodide. CPython inside it: Python Software Foundation License."
# What a browser loads of it. The rest of the package is for other programs than a browser.
FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")


def _load() -> Jar:
    text = importlib.resources.files("kitlib.lab").joinpath("pyodide.lock.json").read_text(encoding="utf-8")
    return Jar(**json.loads(text))


LOCK = _load()


def ensure(progress: Progress | None = None) -> Path:
    """The package's file, as `kitlib.lab.jars.ensure` gives it: compared with its sha256, fetched when it is missing or damaged."""
    return jars.ensure([LOCK], "Pyodide", progress)[0]


def unpack(package: Path, folder: Path) -> list[Path]:
    """Write the files that a browser loads into `folder`, and their licenses; their paths.

    SupplyError when one of them is not in the package, DiskError when there is no room.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(package) as archive:
            for name in FILES:
                member = archive.extractfile(f"package/{name}")
                if member is None:
                    raise KeyError(name)
                with member, (folder / name).open("wb") as file:
                    shutil.copyfileobj(member, file)
        (folder / "LICENSES.txt").write_text(LICENSE + "\n", encoding="utf-8")
    except (KeyError, EOFError, tarfile.TarError) as error:
        raise SupplyError(f"{package} cannot be unpacked ({error}). Delete it and try again.") from error
    except OSError as error:
        raise workspace.disk_error(f"{folder} could not be written", error, folder) from error
    return [folder / name for name in FILES]
