"""The wheel: it holds the notebooks, and where only it is installed, `kit lab` opens them from any folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.lab.labs import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built without a network from what the project needs for it."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source / name)
    for name in ("kitlib", "notebooks"):
        shutil.copytree(REPOSITORY / name, source / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(out), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    [built] = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of its own in which only the wheel is installed; what it needs is that of the tests."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=False)
    [packages] = home.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    python = home / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel)],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return python


def test_wheel_holds_every_notebook_what_they_read_and_nothing_of_the_tests(wheel: Path) -> None:
    """All notebooks with their sums, the data beside them, the package's JavaScript and recordings; no tests, no learner's copies."""
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {name.rpartition("share/delivery-lab/notebooks/")[2] for name in names if "share/delivery-lab" in name}
    wanted = {path.name for path in REPOSITORY.glob("notebooks/*.ipynb")} | {"data/guarantees.jsonl", ".sha256"}
    wanted |= {f"answers/{path.name}" for path in REPOSITORY.glob("notebooks/answers/*.md")}
    assert shipped == wanted
    held = [path for path in (REPOSITORY / "kitlib").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {str(path.relative_to(REPOSITORY)) for path in held} == {name for name in names if name.startswith("kitlib/")}
    assert not [name for name in names if name.startswith(("tests/", "work/", "scripts/", "build/"))]


def test_lab_of_the_wheel_opens_the_notebooks_from_an_empty_folder(python: Path, new_home: Path, tmp_path: Path) -> None:
    """Without checkout or network, trusted copies of the notebooks lie in the workspace; nothing is written beside the wheel."""
    shipped = python.parent.parent / "share" / "delivery-lab"
    before = {path: path.stat().st_mtime_ns for path in shipped.rglob("*")}
    command = [str(python), "-m", "kitlib", "lab", "--no-browser"]
    (tmp_path / "project").mkdir()
    lab = Lab(new_home, command=command, env={"KIT_OFFLINE": "1", "PATH": os.environ["PATH"]}).open()
    try:
        assert f"Your notebooks are in {new_home / 'work'}" in lab.said
        code, copy = lab.ask("api/contents/00_start_here.ipynb")
        assert code == 200 and all(cell["metadata"]["trusted"] for cell in copy["content"]["cells"] if cell["cell_type"] == "code")
        kernel = lab.kernel("08c_what_is_promised.ipynb")
        assert kernel.run("import kitlib; from pathlib import Path; print(kitlib.__file__, Path('data/guarantees.jsonl').is_file())") == (
            f"{next(python.parent.parent.glob('lib/python*/site-packages'))}/kitlib/__init__.py True"
        )
    finally:
        lab.end()
    assert {path: path.stat().st_mtime_ns for path in shipped.rglob("*")} == before
    assert not list((tmp_path / "project").iterdir())
