"""Pyodide's package, which is had as jars are (test_jars.py), and what a browser gets of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitlib.errors import DiskError, SupplyError
from kitlib.lab import pyodide


def test_unpack_gives_a_browser_what_it_loads_and_nothing_else(tmp_path: Path) -> None:
    """The five files and the licenses are written; what is no package of Pyodide is refused."""
    try:
        package = pyodide.ensure().read_bytes()
    except SupplyError as error:
        pytest.skip(f"Pyodide cannot be had here: {error}")
    (tmp_path / "good.tgz").write_bytes(package)
    pyodide.unpack(tmp_path / "good.tgz", tmp_path / "out")
    assert {entry.name for entry in (tmp_path / "out").iterdir()} == {*pyodide.FILES, "LICENSES.txt"}
    assert (tmp_path / "out" / "pyodide.asm.wasm").read_bytes()[:4] == b"\0asm"
    (tmp_path / "bad.tgz").write_bytes(package[:5000])
    with pytest.raises(SupplyError, match="cannot be unpacked"):
        pyodide.unpack(tmp_path / "bad.tgz", tmp_path / "other")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DiskError, match="could not be written"):
        pyodide.unpack(tmp_path / "good.tgz", tmp_path / "file")
