"""Shipped notebooks show their pictures at once; others are opened untrusted."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from kitlib.lab import copies, notebook_trust, notebooks

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one notebook, noted as shipped."""
    path = tmp_path / "notebooks" / "00_start_here.ipynb"
    path.parent.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")]), path)
    notebook_trust.write_sums(tmp_path, [path])
    return tmp_path


def is_trusted(path: Path, data_dir: Path) -> bool:
    notary = NotebookNotary(data_dir=str(data_dir))
    try:
        return bool(notary.check_signature(nbformat.read(path, as_version=4)))
    finally:
        notary.store.close()


def test_sign_shipped_a_changed_notebook_stays_untrusted(project: Path, tmp_path: Path) -> None:
    """One that is as it was saved is signed for this JupyterLab; one that somebody changed is not, nor is a copy of it."""
    assert notebook_trust.sign_shipped(copies.desk(project), tmp_path / "before") == 1
    assert is_trusted(project / "notebooks" / "00_start_here.ipynb", tmp_path / "before")
    path = project / "notebooks" / "00_start_here.ipynb"
    changed = nbformat.read(path, as_version=4)
    html = nbformat.v4.new_output("display_data", data={"text/html": "<script>alert(1)</script>"})
    changed.cells[0].outputs = [html]
    nbformat.write(changed, path)
    copies.make(copies.desk(project), print)
    assert notebook_trust.sign_shipped(copies.desk(project), tmp_path / "data") == 0
    assert not is_trusted(path, tmp_path / "data")


def test_sign_shipped_a_copy_is_trusted_until_somebody_changes_it(project: Path, tmp_path: Path) -> None:
    """A copy of a shipped notebook is signed as long as it is what the kit wrote, to the last byte."""
    desk = copies.desk(project)
    copies.make(desk, print)
    assert notebook_trust.sign_shipped(desk, tmp_path / "data") == 2
    path = project / "work" / "00_start_here.ipynb"
    assert is_trusted(path, tmp_path / "data")
    changed = nbformat.read(path, as_version=4)
    changed.metadata["title"] = "a stranger was here"
    nbformat.write(changed, path)
    assert notebook_trust.sign_shipped(desk, tmp_path / "data") == 1
    assert not is_trusted(path, tmp_path / "data")


def test_list_of_shipped_notebooks_is_up_to_date() -> None:
    """Every notebook of this project is noted as it is now: `kit notebooks` was the last to write it."""
    assert notebook_trust.shipped(ROOT) == notebooks.find(ROOT)
