"""`make setup`: interrupted anywhere, it is completed by the next run (the setup part of row 7 of the faults).

The real bootstrap script works here on a project of one package: setuptools, packed into a wheel from
what is installed, so that all stages are walked through in seconds and without a network.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, wait_for, within

STAGES = ["1/4 a virtual environment", "2/4 setuptools", "3/4 the 1 packages", "4/4 this package", "the environment is ready"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel of the installed setuptools."""
    folder = tmp_path_factory.mktemp("wheels")
    version = importlib.metadata.version("setuptools")
    with zipfile.ZipFile(folder / f"setuptools-{version}-py3-none-any.whl", "w") as wheel:
        for file in importlib.metadata.files("setuptools") or ():
            path = Path(str(file.locate()))
            if ".." not in file.parts and file.suffix != ".pyc" and path.is_file():
                wheel.write(path, str(file))
    return folder


@pytest.fixture
def project(tmp_path: Path, wheels: Path) -> Path:
    """A project with the real bootstrap script, a lock of one package, jars that are there, and an archive of their classes."""
    root = tmp_path / "das Projekt"
    (root / "kitlib" / "lab").mkdir(parents=True)
    (root / "scripts").mkdir()
    shutil.copy(REPOSITORY / "scripts" / "bootstrap.py", root / "scripts")
    shutil.copy(REPOSITORY / "Makefile", root)
    [wheel] = wheels.iterdir()
    version = wheel.name.split("-")[1]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (root / "requirements.lock").write_text(f"setuptools=={version} \\\n    --hash=sha256:{digest}\n")
    (root / "pyproject.toml").write_text(
        f'[build-system]\nrequires = ["setuptools=={version}"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "kit-try"\nversion = "1"\n[tool.setuptools]\npackages = ["kitlib", "kitlib.lab"]\n'
    )
    for package in ("kitlib", "kitlib/lab"):
        (root / package / "__init__.py").touch()
    (root / "kitlib" / "lab" / "jars.py").write_text("def main():\n    print('jars looked at')\n    return 0\n")
    (root / "kitlib" / "lab" / "class_archive_maker.py").write_text(
        "def main(arguments):\n    print('archive looked at')\n    return 0\n"
    )
    return root


def environment(project: Path, wheels: Path) -> dict[str, str]:
    """An environment in which pip has no index, and in which somebody's settings point pip elsewhere."""
    path = os.pathsep.join(folder for folder in os.environ["PATH"].split(os.pathsep) if not Path(folder, "uv").exists())
    return {
        **os.environ, "PATH": path, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels.as_uri(), "PIP_USER": "1",
        "PIP_TARGET": str(project / "elsewhere"), "PYTHONPATH": str(project / "elsewhere"),
    }  # fmt: skip


def bootstrap(project: Path, wheels: Path, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "scripts/bootstrap.py"], cwd=project, env=environment(project, wheels) | more,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert output.split("\n") == ["jars looked at", "archive looked at", ""]
    return errors


def stamp(project: Path) -> Path:
    return project / ".venv" / ".kit-ready"


@pytest.mark.alone
@pytest.mark.slow
def test_setup_first_and_second_run(project: Path, wheels: Path) -> None:
    """The first run walks through all stages; the second is done within a second, touches no package and needs no network."""
    errors = finish(bootstrap(project, wheels))
    assert [stage for stage in STAGES if stage in errors] == STAGES
    assert not (project / "elsewhere").exists()
    assert json.loads(stamp(project).read_text())["root"] == str(project)
    begun = time.monotonic()
    assert finish(bootstrap(project, wheels, PIP_FIND_LINKS="", KIT_OFFLINE="1")) == ""
    assert time.monotonic() - begun < within(1)
    for change in ("requirements.lock", "pyproject.toml"):
        (project / change).write_text((project / change).read_text() + "\n")
        errors = finish(bootstrap(project, wheels))
        assert "4/4" in errors
        assert "1/4" not in errors, "what is there is brought up to date, not thrown away"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "stages"), [(signal.SIGINT, STAGES[:-1]), (signal.SIGKILL, STAGES[2:3])], ids=["Ctrl-C", "kill -9"]
)
def test_setup_interrupted_at_each_stage_is_completed_by_the_next_run(
    project: Path, wheels: Path, number: signal.Signals, stages: list[str]
) -> None:
    """Ctrl-C or a kill at any stage leaves nothing that is taken for whole, no process, and the next run completes it."""
    for stage in stages:
        process = bootstrap(project, wheels)
        assert process.stderr is not None
        for line in process.stderr:
            if stage in line:
                break
        os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == (130 if number is signal.SIGINT else -number)
        assert not stamp(project).exists()
        assert "Traceback" not in errors
        if number is signal.SIGINT:
            assert "run `make setup` again" in errors
        assert wait_for(lambda group=process.pid: not group_exists(group), 10)
    errors = finish(bootstrap(project, wheels))
    assert "unfinished" in errors
    assert stamp(project).exists()
    assert not (project / ".venv.old").exists()


def group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_setup_a_wrong_hash_is_refused(project: Path, wheels: Path) -> None:
    """A package whose hash is not the locked one is not installed, and pip's reason is shown."""
    lock = project / "requirements.lock"
    lock.write_text(lock.read_text()[:-5] + "0000\n")
    process = bootstrap(project, wheels)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 5
    assert "DO NOT MATCH THE HASHES" in errors
    assert "setup: pip ended with 1" in errors
    assert not stamp(project).exists()


@pytest.mark.slow
def test_setup_a_moved_project_makes_its_environment_anew(project: Path, wheels: Path) -> None:
    """An environment that was moved with its project, or whose Python is gone, is made anew instead of half working."""
    finish(bootstrap(project, wheels))
    moved = project.with_name("moved")
    project.rename(moved)
    assert "1/4" in finish(bootstrap(moved, wheels))
    (moved / ".venv" / "bin" / "python").unlink()
    assert "1/4" in finish(bootstrap(moved, wheels))


@pytest.mark.slow
def test_setup_two_at_once_make_one_environment(project: Path, wheels: Path) -> None:
    """Of two setups at once, one works and the other waits and finds it done."""
    both = [bootstrap(project, wheels) for _ in range(2)]
    told = [finish(process) for process in both]
    assert sorted("1/4" in errors for errors in told) == [False, True]
    assert any("waiting" in errors for errors in told)


def test_setup_an_old_python_is_told_what_is_needed() -> None:
    """A Python older than 3.11 ends with one line that says what is needed."""
    code = "import sys, runpy; sys.version_info = (3, 8, 20); runpy.run_path('scripts/bootstrap.py', run_name='__main__')"
    answer = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert answer.returncode == 5
    assert "3.11 or newer is needed" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_setup_offline_without_an_environment_says_so(project: Path, wheels: Path) -> None:
    """With KIT_OFFLINE=1 and no environment, setup says that a network is needed once, and leaves nothing."""
    process = bootstrap(project, wheels, KIT_OFFLINE="1")
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 5
    assert "once with a network" in errors
    assert not (project / ".venv").exists()


def make(project: Path, *arguments: str, path: str = os.defpath) -> subprocess.CompletedProcess[str]:
    program = shutil.which("make")
    if program is None:
        pytest.skip("make is not installed")
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(
        [program, *arguments], cwd=project, env={**environment, "PATH": path}, capture_output=True, text=True, check=False
    )


def test_make_without_a_target_lists_all_of_them() -> None:
    """`make` alone lists every target with one line of help, and does nothing."""
    answer = make(REPOSITORY, path=os.environ["PATH"])
    assert answer.returncode == 0
    for target in ("help", "setup", "lab", "test", "bench", "notebooks", "lint", "lock", "clean"):
        assert f"make {target}" in answer.stdout


def fake_python(folder: Path, name: str, code: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\nexit {code}\n")
    (folder / name).chmod(0o755)


def test_make_finds_a_python_with_a_versioned_name(project: Path, tmp_path: Path) -> None:
    """Where `python3` is missing, broken or too old, a newer one with its version in the name is found."""
    folder = tmp_path / "bin"
    fake_python(folder, "python3", 1)
    fake_python(folder, "python3.12", 0)
    answer = make(project, "--dry-run", "setup", path=str(folder))
    assert "python3.12 scripts/bootstrap.py" in answer.stdout


def test_make_without_any_python_says_what_to_install(project: Path, tmp_path: Path) -> None:
    """Where there is no Python 3.11 or newer at all, make says so in one line."""
    folder = tmp_path / "bin"
    fake_python(folder, "python3", 1)
    answer = make(project, "setup", path=str(folder))
    assert answer.returncode != 0
    assert "no Python 3.11 or newer" in answer.stderr


def test_make_clean_removes_what_make_made_and_nothing_else(project: Path) -> None:
    """`make clean` removes the environment and the caches, keeps everything else, and says where the user's data are."""
    (project / ".venv").mkdir()
    (project / ".venv" / ".kit-ready").touch()
    for folder in (".pytest_cache", "build", "kitlib/__pycache__", "work"):
        (project / folder).mkdir()
    (project / "work" / "00_start_here.ipynb").touch()
    answer = make(project, "clean", path=os.environ["PATH"])
    assert answer.returncode == 0, answer.stderr
    assert not any((project / name).exists() for name in (".venv", ".pytest_cache", "build", "kitlib/__pycache__"))
    assert (project / "kitlib" / "lab" / "jars.py").exists() and (project / "work" / "00_start_here.ipynb").exists()
    assert "they stay" in answer.stdout


def test_make_clean_leaves_an_environment_of_somebody_else(project: Path) -> None:
    """An environment in .venv that make did not make stays."""
    (project / ".venv").mkdir()
    answer = make(project, "clean", path=os.environ["PATH"])
    assert (project / ".venv").exists()
    assert "was not made by make" in answer.stdout
