"""Which notebooks JupyterLab shows with their pictures before anybody has run them.

JupyterLab hides the pictures of a notebook that it does not trust, and it trusts what was run or signed
on this machine. The notebooks that come with the kit are known by their sha256, so the lab signs those
that are byte for byte as they were saved by `kit notebooks`, and the copies of these that are byte for byte as
they were made. A notebook that came from elsewhere, or was changed by anything but running it here, stays untrusted.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path

import nbformat
from nbformat.sign import NotebookNotary

from kitlib.lab import copies, workspace

SUMS = "notebooks/.sha256"  # hidden, so that JupyterLab does not list it


def write_sums(root: Path, notebooks: list[Path]) -> None:
    """Note the sha256 of each notebook, as `sha256sum` does."""
    lines = (f"{_sha256(path)}  {path.relative_to(root).as_posix()}\n" for path in sorted(notebooks))
    workspace.write_atomic(root / SUMS, "".join(lines))


def shipped(root: Path) -> list[Path]:
    """The notebooks that are still as they were saved; none when there is no list."""
    try:
        lines = (root / SUMS).read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    noted = (line.partition("  ") for line in lines)
    return [root / name for digest, _, name in noted if (root / name).is_file() and _sha256(root / name) == digest]


def sign_shipped(desk: copies.Desk, data_dir: Path) -> int:
    """Sign the shipped notebooks and their copies for the JupyterLab whose data folder this is; how many."""
    originals = shipped(desk.root)
    new = [desk.copy_of(original) for original in originals if copies.is_as_made(desk, original)]
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    notary = NotebookNotary(data_dir=str(data_dir))  # type: ignore[no-untyped-call]
    with closing(notary.store):
        for path in originals + new:
            notary.sign(nbformat.read(path, as_version=4))  # type: ignore[no-untyped-call]
    return len(originals + new)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
