"""What every command has in common: help, one line for an error, exit codes, and an output that goes away."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main

import kitlib
from kitlib import cli, errors, experiments
from kitlib.errors import DiskError, KitError, KnobError, LabError, SupplyError, TraceError
from tests.cli.conftest import CommandLine

KIT = [sys.executable, "-m", "kitlib"]


@pytest.fixture(autouse=True)
def no_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--debug` sets KIT_DEBUG for the rest of the process, which is the end of a command but not of the tests."""
    monkeypatch.setenv("KIT_DEBUG", "")


@pytest.fixture
def kit(command_line: CommandLine) -> CommandLine:
    """Runs `kit` in this process: exit code, stdout, stderr."""
    return command_line


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every command and group."""
    yield path
    for name, command in sorted(getattr(group, "commands", {}).items()):
        yield from commands(command, (*path, name))


cli.load([])
EVERY_COMMAND = list(commands(typer.main.get_command(cli.app)))
EXPERIMENTS = [path for path in EVERY_COMMAND if path[:1] == ("run",) and len(path) == 2]


def test_every_command_is_in_the_module_that_is_imported_for_it() -> None:
    """The table that says which module has a command names each command once."""
    found: dict[str, set[str]] = {}
    for path in EVERY_COMMAND:
        if len(path) == 1:
            found.setdefault(next(module for module, names in cli.COMMANDS.items() if path[0] in names), set()).add(path[0])
    assert found == {module: set(names) for module, names in cli.COMMANDS.items()}


@pytest.mark.parametrize("arguments", [["--version"], ["status"], ["up", "--help"], ["trial", "--help"], ["proxy", "--help"]], ids=" ".join)
def test_a_command_loads_neither_experiments_nor_pictures_that_it_does_not_need(arguments: list[str]) -> None:
    """Whoever asks how the broker is does not wait for the experiments."""
    code = f"import atexit, sys; atexit.register(lambda: print(*sorted(sys.modules))); from kitlib.cli import main; main({arguments})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    loaded = set(run.stdout.splitlines()[-1].split())
    assert "kitlib.cli" in loaded and not {"kitlib.experiments", "kitlib.views", "pandas", "pyspark", "pytest"} & loaded


@pytest.mark.parametrize("path", [path for path in EVERY_COMMAND if path not in EXPERIMENTS], ids=lambda path: " ".join(path) or "kit")
def test_help_of_every_command_ends_with_0(kit: Callable[..., Any], path: tuple[str, ...]) -> None:
    """-h and --help are understood everywhere, go to stdout, and say what the command does."""
    code, out, err = kit(*path, "-h" if len(path) == 1 else "--help")
    assert (code, err) == (0, "")
    assert "Usage: kit" in out and " ".join(path) in " ".join(out.split())


@pytest.mark.parametrize("name", experiments.names())
def test_help_of_an_experiment_names_every_knob(kit: Callable[..., Any], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each knob is an option with its help and its range."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("TERMINAL_WIDTH", "300")
    code, out, err = kit("run", name, "--help")
    told = " ".join(out.split())
    assert (code, err) == (0, "") and f"Usage: kit run {name}" in told
    for knob in experiments.get(name).knobs:
        assert f"--{knob.name.replace('_', '-')}" in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dance"], "No such command 'dance'"), (["run", "dance"], "No such command 'dance'"), (["--dance"], "--dance"),
        (["run", "happy_path", "--dance", "5"], "--dance"), (["audit"], "Missing argument"), (["run", "happy_path", "5"], "5"),
        (["run", "happy_path", "--seed", "x"], "--seed"), (["run", "happy_path", "--records"], "--records"),
    ],
)  # fmt: skip
def test_wrong_usage_ends_with_2(kit: Callable[..., Any], arguments: list[str], words: str) -> None:
    """What is not understood ends with 2, says so on stderr and prints nothing else."""
    code, out, err = kit(*arguments)
    assert (code, out) == (2, "") and words in err and "Traceback" not in err


# An error that a command may raise -> its exit code.
CODES = [(KitError, 1), (KnobError, 2), (LabError, 3), (TraceError, 4), (SupplyError, 5), (DiskError, 74)]


@pytest.mark.parametrize(("kind", "code"), CODES)
def test_error_is_one_line_and_its_exit_code(
    kit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, kind: type[KitError], code: int
) -> None:
    """A KitError becomes one line on stderr and its own exit code; with --debug the error itself comes through."""

    def broken(*_: Any, **__: Any) -> Any:
        raise kind("this is broken. Do that.")

    monkeypatch.setattr(experiments.experiment.Experiment, "run", broken)
    assert kit("run", "happy_path") == (code, "", "kit: this is broken. Do that.\n")
    with pytest.raises(kind):
        cli.main(["--debug", "run", "happy_path"])


def test_every_kind_of_error_has_an_exit_code_of_its_own() -> None:
    """Scripts can tell the kinds apart, and none of them looks like success or a signal; what is late is a part of the lab."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, KitError)]
    kinds.remove(errors.LateError)
    assert errors.LateError.exit_code == errors.LabError.exit_code
    assert sorted(kind.exit_code for kind in kinds) == sorted(code for _, code in CODES)
    assert all(0 < kind.exit_code < 126 for kind in kinds)


def test_version_is_the_packages(kit: Callable[..., Any]) -> None:
    """--version prints the kit's and Python's version."""
    assert kit("--version") == (0, f"kit {kitlib.__version__} (Python {sys.version.split()[0]})\n", "")


def test_knob_written_as_in_a_notebook_is_understood(kit: Callable[..., Any]) -> None:
    """--max-offset-behind 5, --max_offset_behind=5 and the max_offset_behind=5 of scripts are the same."""
    dashed = kit("run", "happy_path", "--json", "--max-offset-behind", "5")
    assert dashed == kit("run", "happy_path", "--json", "--max_offset_behind=5") == kit(
        "run", "happy_path", "--json", "--max_offset_behind", "5"
    ) == kit("run", "happy_path", "max_offset_behind=5", "--json")
    assert json.loads(dashed[1])["knobs"]["max_offset_behind"] == 5


def process(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*KIT, *arguments], capture_output="stdout" not in more, text=True, timeout=60, check=False, **more)


def test_error_in_a_process_is_one_line_and_a_traceback_only_with_debug() -> None:
    """The traceback is shown with --debug or KIT_DEBUG, and never else."""
    plain = process("run", "happy_path", "--records", "0")
    assert (plain.returncode, plain.stdout) == (2, "")
    assert plain.stderr == "kit: records is '0', expected 1 to 5,000 records. How many records the topic holds at the start.\n"
    debug = process("--debug", "run", "happy_path", "--records", "0")
    assert debug.returncode == 1 and debug.stderr.startswith("Traceback") and "KnobError: records is '0'" in debug.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this platform has no /dev/full")
@pytest.mark.parametrize("arguments", [["run", "happy_path"], ["--version"]], ids=" ".join)
def test_output_without_room_ends_with_74_and_one_line(arguments: list[str]) -> None:
    """A full disk behind stdout is told in one line, and the exit code says that the output is not whole."""
    with open("/dev/full", "w") as full:
        ended = process(*arguments, stdout=full, stderr=subprocess.PIPE)
    assert ended.returncode == 74 and "Traceback" not in ended.stderr and "Exception ignored" not in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1 and "No space left" in ended.stderr


@pytest.mark.parametrize("arguments", [["run", "happy_path", "--json"], ["conform", "partition_manager"]], ids=" ".join)
def test_output_that_nobody_reads_ends_in_silence(arguments: list[str]) -> None:
    """`kit ... | head` does not end in a traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        ended = process(*arguments, stdout=closed, stderr=subprocess.PIPE)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_ctrl_c_ends_with_130_and_one_line() -> None:
    """SIGINT in the middle of a replay ends the process with 130 and one line, without a traceback."""
    command = [*KIT, "conform", "partition_manager", *[str(cli.conform.bundled("storm", "pm_scenarios.jsonl.gz"))] * 500]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdout and started.stderr
        ready, _, _ = select.select([started.stdout], [], [], 30)
        assert ready
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=30)
    assert (started.returncode, err) == (130, "kit: stopped.\n")


@pytest.mark.parametrize("err", [False, True], ids=["stdout", "stderr"])
def test_all_that_is_printed_goes_through_the_door(err: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever way it is printed, only lines and tabs are left as they are; the streams are the process's own again afterwards."""
    before = sys.stdout, sys.stderr

    def shows(*_: object, **__: object) -> None:
        typer.echo("a\x07\tb\nc", err=err)
        print("d\u202e", file=sys.stderr if err else sys.stdout)

    monkeypatch.setattr(cli, "app", shows)
    with pytest.raises(SystemExit):
        cli.main(["status"])
    assert capsys.readouterr()[err] == "a\\x07\tb\nc\nd\\u202e\n" and (sys.stdout, sys.stderr) == before
