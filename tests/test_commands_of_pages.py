"""Every command that README and docs name works after `make lab` alone: in an install with the learner's packages and no others."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name
from typer.main import get_command

from kitlib.cli import app, load
from tests.conftest import REPOSITORY, format_home, make_home
from tests.lab.labs import Lab

PAGES = [REPOSITORY / "README.md", REPOSITORY / "notebooks" / "README.md", *sorted(REPOSITORY.glob("docs/*.md"))]
# What stands in capitals on a page, and figures that a test makes smaller.
MEANT = {
    r"\bNOTEBOOK\b": "02b", r"\bNAME\b": "poison_record", r"\bNN\b": "02", r"\bFILE\b": "page.html", r"\bN\b": "0", r"\bMODEL\b": "acker",
    r"\bPATH\.\.\.": "one.ipynb", r"--check$": "--check work/incident-7", r"--answers": "--answers --out spare", r"--all": "--all --yes",
    r"--seconds 30|--seconds 20": "--seconds 3", r"--at 5=": "--at 1=", r"--seeds 100": "--seeds 2", r"1\.\.20": "1..2",
    r"^kit lab": "kit lab --no-browser", r"^kit notebooks$": "kit notebooks --check 04c", r"^kit purge$": "kit purge --yes",
    r"^kit bench partition_manager": r"\g<0> --rounds 1", r"--kill 100": "--kill 30 --records 60",
    r"notebooks/01a_\w+": "notebooks/04c_the_timeout",
    r"java .*|(?<=consumer -- )CMD": "python my_consumer.py", r"(?<=producer -- )CMD": "python my_producer.py",
}  # fmt: skip
# Minutes at their smallest (54 producers of 800 records; works of several sizes): their own tests run their parts.
# The others are run with other options or values here, and with these by tests of their own.
READ_ONLY = ("kit guarantees", "kit desk --rate", "kit proxy --help")
SERVES = {"lab": "/lab", "proxy": "127.0.0.1:", "page": "Open http"}  # until Ctrl-C, and what each says once it does
MADE = {"RUN": ("happy_path", "{}"), "GROUP": ("auto_commit", "kit.{}")}  # by a run on the broker, of this experiment
TWO = {"output_type": "execute_result", "execution_count": 1, "data": {"text/plain": "2"}, "metadata": {}}
ONE = {"cell_type": "code", "id": "one", "execution_count": 1, "metadata": {}, "source": "1 + 1", "outputs": [TWO]}
CODES = {name: {0, 1} for name in ("doctor", "offsets", "watch", "incident", "bench")}  # 1: something is not as it should be, and is named


def commands() -> list[str]:
    """Each command of a fenced block or between backticks, in the order of the pages; of those that mean the same here, the first."""
    found: dict[str, str] = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.replace("\\\n", " ").splitlines()]
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for line in [*blocks, *re.findall(r"`((?:\.venv/bin/)?(?:kit|pytest) [^`]+)`", prose)]:
            bare = re.sub(r"\s#\s.*", "", line)
            for part in re.split(r"; |&& ", bare):
                if match := re.match(r"(?:\S*\.venv/bin/)?((?:kit|pytest) .*)", part.strip()):
                    found.setdefault(meant(match[1].strip()), match[1].strip())
    return list(found.values())


def meant(command: str) -> str:
    for pattern, value in MEANT.items():
        command = re.sub(pattern, value, command)
    return command


ENDS = ["kit down", "kit lab", "kit reset --all"]  # the broker and Spark, which the others share: those come last
COMMANDS = sorted(commands(), key=lambda command: ENDS.index(command) if command in ENDS else -1)
# One of each kind is run, on the model and on a broker; the others are read as the command line reads them.
ABLE = [command for command in COMMANDS if not command.startswith(READ_ONLY) and "--port" not in command]
FIRST = {(*meant(command).split()[:2], "--backend" in command): command for command in reversed(ABLE)}
RUN = [command for command in COMMANDS if command in FIRST.values()]
READ = [command for command in COMMANDS if command not in RUN]


@pytest.fixture(scope="session")
def learner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Python with everything that is installed here except what only requirements-dev.lock has."""
    home = tmp_path_factory.mktemp("learner")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    lock = (REPOSITORY / "requirements-dev.lock").read_text(encoding="utf-8")
    tools = {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    here = Path(sysconfig.get_path("purelib"))
    theirs = {
        file.parts[0]
        for distribution in importlib.metadata.distributions(path=[str(here)]) if canonicalize_name(distribution.name) in tools
        for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")
    }  # fmt: skip
    assert {"hypothesis", "playwright"} <= theirs and "pytest" not in theirs
    [site] = home.glob("lib/python*/site-packages")
    for entry in here.iterdir():
        if entry.name not in theirs:
            (site / entry.name).symlink_to(entry)
    yield home / "bin" / "python"


@pytest.fixture(scope="session")
def home(kit_home: Path, learner: Path, formatted: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The learner's workspace: `kit reset` would find there what the other tests have left in theirs."""
    home = make_home(tmp_path_factory.mktemp("learners") / "home", (kit_home / "jars").resolve())
    format_home(home, formatted)
    run(learner, home, "kit up --spark", home)
    yield home
    run(learner, home, "kit down", home)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader stands: the kit's notebooks, one of their own in two places, rules for it, and the programs of docs/trial.md."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "notebooks").symlink_to(REPOSITORY / "notebooks")
    for place in (folder, folder / "tests" / "notebooks"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "one.ipynb").write_text(json.dumps({"cells": [ONE], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")
    programs = re.findall(r"```python\n(import os.*?)```", (REPOSITORY / "docs" / "trial.md").read_text(encoding="utf-8"), re.DOTALL)
    for name, program in zip(("my_consumer.py", "my_producer.py"), programs, strict=True):
        (folder / name).write_text(program, encoding="utf-8")
    (folder / "rules.cfg").write_text("[digits]\nregex: 3\nreplace: 2\n", encoding="utf-8")
    return folder


def run(learner: Path, home: Path, command: str, folder: Path, seconds: float = 170) -> subprocess.CompletedProcess[str]:
    name, *arguments = shlex.split(command.partition(" > ")[0])
    module = {"kit": "kitlib", "pytest": "pytest"}[name]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {"KIT_HOME": str(home)}
    return subprocess.run(
        [learner, "-m", module, *arguments], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=seconds, check=False, env=environment | {"PATH": f"{learner.parent}{os.pathsep}{os.environ['PATH']}"},
    )  # fmt: skip


def test_the_pages_name_commands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is not empty because of a changed layout, no page names a package that is not the kit's, and what is not run is read."""
    assert len(COMMANDS) > 60 and len(RUN) > 20 and any(command.startswith("pytest ") for command in COMMANDS)
    assert not [page for page in PAGES if "delivery-lab[" in page.read_text(encoding="utf-8")]
    monkeypatch.chdir(folder)
    load([])
    group: Any = get_command(app)
    for command in READ:
        words = shlex.split(meant(command).partition(" > ")[0])
        assert words[0] == "pytest" or words[-1] == "--help" or group.commands[words[1]].make_context(words[1], words[2:]), command


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", RUN)
def test_a_command_of_the_pages_works_in_a_learners_install(learner: Path, home: Path, command: str, folder: Path) -> None:
    """It ends with the code that its page promises, and without a traceback; what serves says where, and ends at Ctrl-C."""
    words = meant(command)
    if (serves := words.split()[1]) in SERVES and not words.endswith("--help"):
        server = Lab(home, command=[str(learner), "-m", "kitlib", *words.split()[1:]])
        server.wait_for_words(SERVES[serves], 250)
        assert server.end() == 130, server.said
        return
    if asks := re.search(r"\b(RUN|GROUP)\b", words):
        experiment, named = MADE[asks[1]]
        told = run(learner, home, f"kit run {experiment} --backend kafka", folder).stdout
        words = words.replace(asks[1], named.format(told.partition("kit audit ")[2].partition("`")[0]))
    place = make_home(folder / "purged", folder / "jars") if serves == "purge" else home
    done = run(learner, place, words, REPOSITORY if words.startswith("pytest --nbval notebooks/") else folder)
    assert done.returncode in CODES.get(command.split()[1], {0}), done.stdout[-2_000:] + done.stderr[-2_000:]
    assert "Traceback" not in done.stderr
