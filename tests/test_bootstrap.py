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
from contextlib import suppress
from pathlib import Path

import packaging.tags
import pytest

from tests.conftest import REPOSITORY, wait_for, within

LAST = "jars looked at"
JARS = f"import sys\ndef main():\n    print({LAST!r}, file=sys.stderr)\n"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel of the installed setuptools, and one of a developers' tool that holds nothing."""
    folder = tmp_path_factory.mktemp("wheels")
    pack("setuptools", folder)
    with zipfile.ZipFile(folder / "kit_tool-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("kit_tool-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: kit-tool\nVersion: 1\n")
        wheel.writestr("kit_tool-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("kit_tool-1.dist-info/RECORD", "")
    return folder


def pack(name: str, folder: Path) -> Path:
    """A wheel, in `folder`, of a package that is installed here."""
    files = [(file, Path(str(file.locate()))) for file in importlib.metadata.files(name) or ()]
    tag = "py3-none-any" if name == "setuptools" else next(packaging.tags.sys_tags()).__str__()
    place = folder / f"{name}-{importlib.metadata.version(name)}-{tag}.whl"
    with zipfile.ZipFile(place, "w") as wheel:
        for file, path in files:
            if path.parent.name == "bin":
                wheel.write(path, f"{place.name.rsplit('-', 3)[0]}.data/scripts/{path.name}")
            elif ".." not in file.parts and file.suffix != ".pyc" and path.is_file():
                wheel.write(path, str(file))
    return place


def locked(name: str, wheel: Path) -> str:
    version = wheel.name.split("-")[1]
    return f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


def make_project(root: Path, wheels: Path) -> Path:
    """A project with the real bootstrap script, a lock of one package, and jars that are there."""
    (root / "kitlib" / "lab").mkdir(parents=True)
    (root / "scripts").mkdir()
    shutil.copy(REPOSITORY / "scripts" / "bootstrap.py", root / "scripts")
    shutil.copy(REPOSITORY / "Makefile", root)
    for wheel in wheels.iterdir():
        name, version = wheel.name.split("-")[:2]
        lock = root / ("requirements.lock" if name == "setuptools" else "requirements-dev.lock")
        lock.write_text(locked(name, wheel))
    (root / "pyproject.toml").write_text(
        f'[build-system]\nrequires = ["setuptools=={version}"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "kit-try"\nversion = "1"\n[tool.setuptools]\npackages = ["kitlib", "kitlib.lab"]\n'
    )
    for package in ("kitlib", "kitlib/lab"):
        (root / package / "__init__.py").touch()
    (root / "kitlib" / "lab" / "jars.py").write_text(JARS)
    return root


@pytest.fixture
def project(tmp_path: Path, wheels: Path) -> Path:
    """A project that was never set up."""
    return make_project(tmp_path / "das Projekt", wheels)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> tuple[Path, str]:
    """The one first setup that all tests share which begin with a finished one: its project, and what it said."""
    root = make_project(tmp_path_factory.mktemp("first") / "das Projekt", wheels)
    return root, finish(bootstrap(root, wheels))


@pytest.fixture
def finished(project: Path, first: tuple[Path, str]) -> Path:
    """A project whose setup came to its end."""
    take_over(first[0], project)
    return project


def take_over(done: Path, project: Path) -> None:
    """Let a project have the environment of another one, as if it had been made here."""
    shutil.rmtree(project / ".venv", ignore_errors=True)
    shutil.copytree(done / ".venv", project / ".venv", symlinks=True, copy_function=os.link)  # pip never writes into a file that is there
    stamp(project).unlink()
    stamp(project).write_text(json.dumps(json.loads(stamp(done).read_text()) | {"root": str(project)}))


def environment(project: Path, wheels: Path) -> dict[str, str]:
    """An environment in which pip has no index, and in which somebody's settings point pip elsewhere."""
    path = os.pathsep.join(folder for folder in os.environ["PATH"].split(os.pathsep) if not Path(folder, "uv").exists())
    return {
        **os.environ, "PATH": path, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels.as_uri(), "PIP_USER": "1",
        "PIP_TARGET": str(project / "elsewhere"), "PYTHONPATH": str(project / "elsewhere"),
    }  # fmt: skip


def bootstrap(project: Path, wheels: Path, *options: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "scripts/bootstrap.py", *options], cwd=project, env=environment(project, wheels) | more,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    """What a setup that succeeds has said before its last line, which is the last word on jars."""
    assert process.stdout is not None and process.stderr is not None
    with process:
        errors, output = process.stderr.read(), process.stdout.read()
    assert process.returncode == 0, errors
    assert output == ""
    said, last = errors.removesuffix("\n").rpartition("\n")[::2]
    assert last == LAST
    return said


def stamp(project: Path) -> Path:
    return project / ".venv" / ".kit-ready"


@pytest.mark.slow
def test_setup_first_run_installs_what_is_locked_and_this_package(first: tuple[Path, str]) -> None:
    """A first setup makes the environment in .venv, whatever somebody's settings of pip and Python say."""
    project, said = first
    assert "the environment is ready" in said
    assert not (project / "elsewhere").exists()
    assert json.loads(stamp(project).read_text())["root"] == str(project)
    where = [project / ".venv/bin/python", "-c", "import kitlib; print(kitlib.__file__)"]
    answer = subprocess.run(where, cwd=project, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == str(project / "kitlib" / "__init__.py")


@pytest.mark.slow
def test_setup_installs_with_uv_where_the_index_has_it(project: Path, wheels: Path, tmp_path: Path) -> None:
    """uv comes from the lock with its hash, takes over pip's index and wheel folder, and installs the packages."""
    folder = tmp_path / "wheels with uv"
    shutil.copytree(wheels, folder)
    wheel = pack("uv", folder)
    with (project / "requirements.lock").open("a") as lock:
        lock.write(locked("uv", wheel))
    said = finish(bootstrap(project, folder))
    assert "Bytecode compiled" in said and " + kit-try==1" in said, "these are uv's words"


def test_setup_second_run_is_done_in_a_moment(finished: Path, wheels: Path) -> None:
    """It touches no package and needs no network."""
    begun = time.monotonic()
    assert finish(bootstrap(finished, wheels, PIP_FIND_LINKS="", KIT_OFFLINE="1")) == ""
    assert time.monotonic() - begun < within(3)


@pytest.mark.slow
def test_setup_brings_developers_tools_to_those_who_ask_and_keeps_them(
    first: tuple[Path, str], finished: Path, wheels: Path
) -> None:
    """A learner's setup leaves them out, --dev adds them to what is there, and a learner's setup after it removes nothing."""

    def has_tool() -> bool:
        return any((finished / ".venv").glob("lib/python*/site-packages/kit_tool-1.dist-info"))

    assert "the packages of requirements.lock into" in first[1]
    assert not has_tool()
    _, errors = bootstrap(finished, wheels, "--dev", KIT_OFFLINE="1").communicate(timeout=30)
    assert "lacks packages of requirements.lock and requirements-dev.lock" in errors
    added = finish(bootstrap(finished, wheels, "--dev"))
    assert "the packages of requirements.lock and requirements-dev.lock into" in added and "making it anew" not in added
    assert has_tool()
    assert finish(bootstrap(finished, wheels, KIT_OFFLINE="1")) == "", "a learner's setup has nothing to do"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sign", "number"), [("pip/__init__.py", signal.SIGKILL), ("site-packages/kit_tool*", signal.SIGINT)]
)
def test_setup_interrupted_is_completed_by_the_next_run(project: Path, wheels: Path, sign: str, number: signal.Signals) -> None:
    """Ctrl-C or a kill while it works leaves nothing that is taken for complete, no process, and the next run completes it."""
    process = bootstrap(project, wheels, "--dev")
    assert wait_for(lambda: is_there(project / ".venv", sign), 60)
    os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == (130 if number is signal.SIGINT else -number)
    assert "Traceback" not in errors
    assert not stamp(project).exists()
    if number is signal.SIGINT:
        assert "run `make setup` again" in errors
    assert wait_for(lambda: not group_exists(process.pid), 10)
    assert "unfinished" in finish(bootstrap(project, wheels))
    assert stamp(project).exists()


def is_there(folder: Path, sign: str) -> bool:
    """Whether something below matches, where files come and go meanwhile."""
    with suppress(FileNotFoundError):
        return any(folder.rglob(sign))
    return False


def group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_setup_a_wrong_hash_is_refused(finished: Path, wheels: Path) -> None:
    """A package whose hash is not the locked one is not installed, and pip's reason is shown."""
    lock = finished / "requirements-dev.lock"  # pip looks at the hash of what is not installed yet
    lock.write_text(lock.read_text()[:-5] + "0000\n")
    process = bootstrap(finished, wheels, "--dev")
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 5
    assert "DO NOT MATCH THE HASHES" in errors
    assert "setup: pip ended with 1" in errors
    assert not stamp(finished).exists()
    assert not any((finished / ".venv").glob("lib/python*/site-packages/kit_tool*"))


@pytest.mark.slow
def test_setup_a_moved_project_makes_its_environment_anew(finished: Path, wheels: Path) -> None:
    """An environment that was moved with its project is made anew instead of half working."""
    moved = finished.with_name("moved")
    finished.rename(moved)
    assert "making it anew" in finish(bootstrap(moved, wheels))


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


def test_make_lab_ended_by_ctrl_c_says_nothing_of_its_own(tmp_path: Path) -> None:
    """What `kit lab` says is the last line: no `make: *** Error 130` after a clean end."""
    fake_python(tmp_path, "kit", 130)
    (tmp_path / "kit").write_text("#!/bin/sh\ntrap 'echo All stopped.; exit 130' INT\necho up\nwhile :; do sleep 0.1; done\n")
    command = ["make", "-o", "setup", "lab", f"BIN={tmp_path}"]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=REPOSITORY, text=True, start_new_session=True, **pipe) as made:
        assert made.stdout is not None and made.stdout.readline() == "up\n"
        os.killpg(made.pid, signal.SIGINT)
        assert made.stdout.read().strip() == "All stopped."


def fake_python(folder: Path, name: str, code: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\nexit {code}\n")
    (folder / name).chmod(0o755)


def test_make_finds_a_python_that_is_new_enough_or_says_what_to_install(project: Path, tmp_path: Path) -> None:
    """Where `python3` is missing, broken or too old, one with its version in the name is found; where there is none, one line says so."""
    fake_python(tmp_path / "bin", "python3", 1)
    answer = make(project, "setup", path=str(tmp_path / "bin"))
    assert answer.returncode != 0 and "no Python 3.11 or newer" in answer.stderr
    fake_python(tmp_path / "bin", "python3.12", 0)
    assert "python3.12 scripts/bootstrap.py" in make(project, "--dry-run", "setup", path=str(tmp_path / "bin")).stdout


def test_make_clean_removes_what_make_made_and_nothing_else(project: Path) -> None:
    """`make clean` removes its own environment and the caches, keeps everything else, and says where the user's data are."""
    (project / ".venv").mkdir()
    assert "was not made by make" in make(project, "clean", path=os.environ["PATH"]).stdout
    (project / ".venv" / ".kit-ready").touch()
    for folder in (".pytest_cache", "build", "kitlib/__pycache__", "work"):
        (project / folder).mkdir()
    (project / "work" / "00_start_here.ipynb").touch()
    answer = make(project, "clean", path=os.environ["PATH"])
    assert answer.returncode == 0, answer.stderr
    assert not any((project / name).exists() for name in (".venv", ".pytest_cache", "build", "kitlib/__pycache__"))
    assert (project / "kitlib" / "lab" / "jars.py").exists() and (project / "work" / "00_start_here.ipynb").exists()
    assert "they stay" in answer.stdout
