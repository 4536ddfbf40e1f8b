"""`make setup`: interrupted anywhere, it is completed by the next run (the setup part of row 7 of the faults).

The real bootstrap script works here on a project of one package: setuptools, packed into a wheel from
what is installed, so that all stages are walked through in seconds and without a network.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import io
import json
import os
import re
import runpy
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import REPOSITORY, wait_for, within

STAGES = ["1/5 a virtual environment", "2/5 setuptools", "3/5 packages", "4/5 this package", "the environment is ready"]
LAST = "setup: archive looked at"
REWRITE = "\r\x1b[K"
COLUMNS = 60
FAR_FUTURE_S = 2e9


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel of the installed setuptools, and one of a developers' tool that holds nothing."""
    folder = tmp_path_factory.mktemp("wheels")
    version = importlib.metadata.version("setuptools")
    with zipfile.ZipFile(folder / f"setuptools-{version}-py3-none-any.whl", "w") as wheel:
        for file in importlib.metadata.files("setuptools") or ():
            path = Path(str(file.locate()))
            if ".." not in file.parts and file.suffix != ".pyc" and path.is_file():
                wheel.write(path, str(file))
    with zipfile.ZipFile(folder / "kit_tool-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("kit_tool-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: kit-tool\nVersion: 1\n")
        wheel.writestr("kit_tool-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("kit_tool-1.dist-info/RECORD", "")
    return folder


def make_project(root: Path, wheels: Path) -> Path:
    """A project with the real bootstrap script, a lock of one package, jars that are there, and an archive of their classes."""
    (root / "kitlib" / "lab").mkdir(parents=True)
    (root / "scripts").mkdir()
    shutil.copy(REPOSITORY / "scripts" / "bootstrap.py", root / "scripts")
    shutil.copy(REPOSITORY / "Makefile", root)
    for wheel in wheels.iterdir():
        name, version = wheel.name.split("-")[:2]
        lock = root / ("requirements.lock" if name == "setuptools" else "requirements-dev.lock")
        lock.write_text(f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
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
    """What a setup that succeeds has said before its last line, which is the last word on jars and archive."""
    assert process.stdout is not None and process.stderr is not None
    with process:
        errors, output = process.stderr.read(), process.stdout.read()
    assert process.returncode == 0, errors
    assert output == ""
    said, last = errors.removesuffix("\n").rpartition("\n")[::2]
    assert last == LAST
    return said


def read_until(process: subprocess.Popen[str], word: str) -> str:
    """What a setup says up to the line with `word` in it."""
    said = ""
    assert process.stderr is not None
    for line in process.stderr:
        said += line
        if word in line:
            return said
    raise AssertionError(f"{word!r} is not in {said!r}")


def stamp(project: Path) -> Path:
    return project / ".venv" / ".kit-ready"


@pytest.mark.slow
def test_setup_first_run_walks_through_all_stages(first: tuple[Path, str]) -> None:
    """In their order, into .venv and nowhere else; the stamp says of which folder the environment is."""
    project, said = first
    assert [stage for stage in STAGES if stage in said] == STAGES
    assert not (project / "elsewhere").exists()
    assert json.loads(stamp(project).read_text())["root"] == str(project)


@pytest.mark.alone
def test_setup_second_run_is_done_within_a_second(finished: Path, wheels: Path) -> None:
    """It touches no package and needs no network."""
    begun = time.monotonic()
    assert finish(bootstrap(finished, wheels, PIP_FIND_LINKS="", KIT_OFFLINE="1")) == ""
    assert time.monotonic() - begun < within(1)


@pytest.mark.slow
def test_setup_brings_developers_tools_to_those_who_ask_and_keeps_them(
    first: tuple[Path, str], finished: Path, wheels: Path
) -> None:
    """A learner's setup leaves them out, --dev adds them to what is there, and a learner's setup after it removes nothing."""

    def has_tool() -> bool:
        return any((finished / ".venv").glob("lib/python*/site-packages/kit_tool-1.dist-info"))

    assert "the 1 packages of requirements.lock go" in first[1]
    assert not has_tool()
    _, errors = bootstrap(finished, wheels, "--dev", KIT_OFFLINE="1").communicate(timeout=30)
    assert "lacks the developers' tools" in errors
    added = finish(bootstrap(finished, wheels, "--dev"))
    assert "the 2 packages of requirements.lock and requirements-dev.lock go" in added and "1/5" not in added
    assert has_tool()
    assert finish(bootstrap(finished, wheels, KIT_OFFLINE="1")) == "", "a learner's setup has nothing to do"


@pytest.mark.slow
def test_setup_interrupted_at_each_stage_is_completed_by_the_next_run(
    first: tuple[Path, str], project: Path, wheels: Path
) -> None:
    """Ctrl-C or a kill at any stage leaves nothing that is taken for whole, no process, and the next run completes it."""

    def interrupt(stage: str, number: signal.Signals) -> str:
        process = bootstrap(project, wheels)
        said = read_until(process, stage)
        os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == (130 if number is signal.SIGINT else -number)
        assert not stamp(project).exists()
        assert "Traceback" not in errors
        if number is signal.SIGINT:
            assert "run `make setup` again" in errors
        assert wait_for(lambda: not group_exists(process.pid), 10)
        return said

    assert "unfinished" not in interrupt(STAGES[0], signal.SIGINT)
    at = [(STAGES[1], signal.SIGINT), (STAGES[2], signal.SIGINT), (STAGES[3], signal.SIGINT), (STAGES[2], signal.SIGKILL)]
    for stage, number in at:
        take_over(first[0], project)
        stamp(project).unlink()  # so that there is something to do, yet no virtual environment to make
        assert STAGES[0] not in interrupt(stage, number)
        anew = interrupt(STAGES[0], signal.SIGINT) if number is signal.SIGINT else finish(bootstrap(project, wheels))
        assert "unfinished" in anew
    assert [stage for stage in STAGES if stage in anew] == STAGES
    assert stamp(project).exists()
    assert not (project / ".venv.old").exists()


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
    """An environment that was moved with its project, or whose Python is gone, is made anew instead of half working."""
    moved = finished.with_name("moved")
    finished.rename(moved)
    assert "1/5" in finish(bootstrap(moved, wheels))
    (moved / ".venv" / "bin" / "python").unlink()
    process = bootstrap(moved, wheels)
    assert "making it anew" in read_until(process, "1/5")
    os.killpg(process.pid, signal.SIGKILL)  # from here on it is a setup like any other
    process.communicate(timeout=30)


@pytest.mark.slow
@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_setup_two_at_once_bring_one_environment_up_to_date(finished: Path, wheels: Path, changed: str) -> None:
    """Of two setups at once, one installs what a change asks for into what is there; the other waits and finds it done."""
    (finished / changed).write_text((finished / changed).read_text() + "\n")
    word = hold_jars(finished)
    one = bootstrap(finished, wheels)
    said = read_until(one, "2/5")
    other = bootstrap(finished, wheels)
    read_until(other, "waiting")
    word.write_text("go on")
    said += finish(one)
    assert "4/5" in said
    assert "1/5" not in said, "what is there is brought up to date, not thrown away"
    word.write_text("go on")
    assert "4/5" not in finish(other)


class Terminal:
    """A setup in a terminal of COLUMNS columns, and all that it has written there."""

    def __init__(self, project: Path, wheels: Path) -> None:
        self.screen, terminal = os.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        self.text = ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", FOREGROUND, sys.executable, "scripts/bootstrap.py"], cwd=project,
            env=environment(project, wheels) | {"TERM": "xterm"}, stdin=terminal, stdout=terminal, stderr=terminal,
            start_new_session=True,
        )  # fmt: skip
        os.close(terminal)

    def read_until(self, word: str | None) -> None:
        """Read until `word` has been written; to the end for None."""
        while word is None or word not in self.text:
            try:
                more = os.read(self.screen, 65536)
            except OSError:  # how Linux says that nobody has the terminal any more
                more = b""
            if not more:
                assert word is None, f"{word!r} is not in {self.text!r}"
                break
            self.text += more.decode()

    def end(self) -> int:
        self.read_until(None)
        os.close(self.screen)
        return self.process.wait(60)

    def left(self) -> list[str]:
        """The lines that one sees in the end."""
        return [line.rpartition(REWRITE)[2] for line in self.text.split("\r\n")]


# The terminal of its standard input becomes that of its session, so that Ctrl-C there is a signal to it.
FOREGROUND = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


def hold_jars(project: Path) -> Path:
    """Let the jars tell how far they are and then wait for a word in the pipe that is returned."""
    os.mkfifo(project / "go on")
    (project / "kitlib" / "lab" / "jars.py").write_text(
        "def main():\n    print('fetched 1 of 3 MB', flush=True)\n    open('go on').read()\n    return 0\n"
    )
    return project / "go on"


@pytest.mark.slow
def test_setup_on_a_terminal_is_one_line_that_moves(project: Path, wheels: Path) -> None:
    """In a terminal one line says which step is done, what in it, how far and for how long; what stays are three sentences."""
    word = hold_jars(project)
    terminal = Terminal(project, wheels)
    terminal.read_until("5/5 jars: fetched 1 of 3 MB")
    word.write_text("go on")
    assert terminal.end() == 0
    packages, ready, *others = terminal.left()
    assert "the 1 packages of requirements.lock" in packages
    assert re.fullmatch(r"setup: the environment is ready after \d+ s", ready)
    assert others == [LAST, ""]
    moving = [frame.split("\r\n")[0] for frame in terminal.text.split(REWRITE) if re.match(r"setup: \d/5", frame)]
    assert sorted({frame[7:10] for frame in moving}) == ["1/5", "2/5", "3/5", "4/5", "5/5"]
    assert all(re.search(r"  \d:\d\d$", frame) and len(frame) < COLUMNS for frame in moving)


@pytest.mark.slow
def test_setup_ctrl_c_on_a_terminal_leaves_one_clean_line(finished: Path, wheels: Path) -> None:
    """Ctrl-C wipes the moving line, says how to go on, and leaves no process."""
    hold_jars(finished)
    terminal = Terminal(finished, wheels)
    terminal.read_until("5/5 jars: fetched 1 of 3 MB")
    os.write(terminal.screen, b"\x03")
    assert terminal.end() == 130
    assert terminal.left() == ["setup: stopped; run `make setup` again to complete it", ""]
    assert not group_exists(terminal.process.pid)


def the_script() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(REPOSITORY / "scripts" / "bootstrap.py")))


PIP = [
    ("Ignoring colorama: markers 'sys_platform == \"win32\"' don't match your environment", ""),
    ("Collecting anyio==4.16.0 (from -r requirements.lock (line 7))", "fetching 1 of 4, anyio"),
    ("  Downloading anyio-4.16.0-py3-none-any.whl (134 kB)", "fetching 1 of 4, anyio"),
    ("Collecting pyspark==4.2.0 (from -r requirements.lock (line 1898))", "fetching 2 of 4, pyspark"),
    ("  Downloading pyspark-4.2.0.tar.gz (450.1 MB)", "fetching 2 of 4, pyspark, 1.5 of 450.1 MB"),
    ("  Preparing metadata (pyproject.toml): started", "unpacking 2 of 4, pyspark"),
    ("Collecting pytest==9.2.0 (from -r requirements.lock (line 1900))", "fetching 3 of 4, pytest"),
    ("  Using cached pytest-9.2.0-py3-none-any.whl (411 kB)", "fetching 3 of 4, pytest"),
    ("Requirement already satisfied: six==1.17.0 in .venv/lib (from -r requirements.lock (line 3))", "found 4 of 4, six"),
    ("Building wheels for collected packages: pyspark", "found 4 of 4, six"),
    ("  Building wheel for pyspark (pyproject.toml): started", "building pyspark"),
    ("Installing collected packages: pytest, pyspark, anyio", "installing 2 of 3, pyspark"),
]


def test_setup_the_counts_are_those_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown follows pip's own lines, the bytes of the file that it writes, and the packages that it has made whole."""
    room = tmp_path / "pip-unpack-abc"
    room.mkdir()
    (room / "pyspark-4.2.0.tar.gz").write_bytes(bytes(1_500_000))
    records = [tmp_path / f"lib/python3.11/site-packages/{name}.dist-info/RECORD" for name in ("pytest-9.2.0", "old-1.0")]
    for record in records:
        record.parent.mkdir(parents=True)
        record.touch()
    os.utime(records[0], (FAR_FUTURE_S, FAR_FUTURE_S))
    os.utime(records[1], (0, 0))
    script = the_script()
    monkeypatch.setitem(script.Installed.doing.__globals__, "ENVIRONMENT", tmp_path)
    progress = script.Installed(5, tmp_path)
    shown = []
    for line, _ in PIP:
        progress.take(line.strip())
        shown.append((line, progress.doing()))
    assert shown == PIP


def test_setup_without_a_terminal_repeats_no_line_that_brings_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe there is a line for each step, one every ten seconds when there is news, and one a minute when there is none."""
    now = 0.0
    line = the_script().Line(lambda: now)
    line.begin(3, "packages")
    for second in range(200):
        now = float(second)
        line.show(f"fetching {min(second // 4, 10)} of 147")
    assert capsys.readouterr().err.splitlines() == [
        "setup: 3/5 packages  0:00",
        "setup: 3/5 packages: fetching 2 of 147  0:10",
        "setup: 3/5 packages: fetching 5 of 147  0:20",
        "setup: 3/5 packages: fetching 7 of 147  0:30",
        "setup: 3/5 packages: fetching 10 of 147  0:40",
        "setup: 3/5 packages: fetching 10 of 147  1:40",
        "setup: 3/5 packages: fetching 10 of 147  2:40",
    ]


def test_setup_ctrl_c_while_the_line_is_written_wipes_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that comes as soon as the line is on the screen, before `show` has returned, leaves nothing of it there."""

    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

        def fileno(self) -> int:
            return 0

        def write(self, text: str, /) -> int:
            super().write(text)
            if "5/5" in text:
                raise KeyboardInterrupt
            return len(text)

    monkeypatch.setattr(sys, "stderr", screen := Screen())
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((COLUMNS, 24)))
    monkeypatch.setenv("TERM", "xterm")
    line = the_script().Line()
    with pytest.raises(KeyboardInterrupt):
        line.begin(5, "jars")
    line.clear()
    assert screen.getvalue().endswith(REWRITE)


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
