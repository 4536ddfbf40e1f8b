"""`kit test-notebooks`, plain nbval, and what docs/ci.md promises to a team."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest

from kitlib.errors import KnobError
from kitlib.lab import progress
from kitlib.lab.notebook_tests import chosen, compare, never_run
from tests.conftest import REPOSITORY, mentions, our_processes, wait_for
from tests.notebooks.test_harness import edited, saved, written

pytestmark = [pytest.mark.notebooks, pytest.mark.timeout(180)]
PAGE = (REPOSITORY / "docs" / "ci.md").read_text(encoding="utf-8")
SAMPLES = REPOSITORY / "docs" / "samples"


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "kitlib", "test-notebooks", *map(str, arguments)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a notebook that gives its saved outputs, below it one that prints an escape sequence instead."""
    folder = tmp_path_factory.mktemp("pair")
    saved(folder / "good.ipynb", "print(1 + 1, object())")
    (folder / "more").mkdir()
    saved(folder / "more" / "bad.ipynb", "print(2)")
    edited(folder / "more" / "bad.ipynb", lambda cell: cell.update(source="print('\\x1b[31mred')"))
    return folder


@pytest.mark.kafka
def test_command_says_what_differs_and_writes_junit(pair: Path, broker: Any, tmp_path: Path) -> None:
    """Exit code 1, the difference on stdout with the cell as Jupyter counts it, no escape sequence, and a case for each cell."""
    out = tmp_path / "results" / "junit.xml"
    done = subprocess.run(command(pair, "--junit", out), capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1, done.stderr
    assert f"otebook {pair}/good.ipynb: 2 cells, no difference" in done.stderr and f"otebook {pair}/more/bad.ipynb: 1 problem" in done.stderr
    assert "1 of 2 notebooks give their saved outputs" in done.stderr
    assert "In [2]: stdout: saved: 2, now: red\n" in done.stdout and "In [1]" not in done.stdout
    good, bad = root = ElementTree.parse(out).getroot()
    assert bad.get("file") == f"{pair}/more/bad.ipynb" and "x1b" not in out.read_text().lower()
    for element, parts in ((root, [good, bad]), (good, list(good)), (bad, list(bad))):
        assert float(element.get("time")) == pytest.approx(sum(float(part.get("time")) for part in parts), abs=0.0011)
    assert [(case.get("name"), len(case)) for case in good] == [("In [1]", 0), ("In [2]", 0)]
    assert [(case.get("name"), [each.tag for each in case]) for case in bad] == [("In [1]", []), ("In [2]", ["failure"])]
    assert (bad.get("tests"), bad.get("failures"), good.get("failures")) == ("2", "1", "0")


@pytest.mark.kafka
@pytest.mark.parametrize(("signal_number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)], ids=["Ctrl-C", "killed"])
def test_command_that_is_ended_leaves_nothing_behind(
    signal_number: int, exit_code: int, pair: Path, broker: Any, tmp_path: Path
) -> None:
    """Ctrl-C ends it with 130 and one word; killed or interrupted, the notebook's kernel ends too."""
    cell = "Path('begun').touch(); threading.Event().wait(100)"
    path = edited(Path(shutil.copy(pair / "good.ipynb", tmp_path / "waits.ipynb")), lambda last: last.update(source=cell))
    junit = tmp_path / "junit.xml"
    process = subprocess.Popen(
        command(path, "--junit", junit), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert wait_for((tmp_path / "begun").exists, 60)
    began = time.monotonic()
    process.send_signal(signal_number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == exit_code, said
    assert "Traceback" not in said and (exit_code != 130 or said.endswith("kit: stopped.\n"))
    assert wait_for(lambda: not [each for each in our_processes() if mentions(each, "waits.ipynb") or mentions(each, str(tmp_path))], 15)
    assert time.monotonic() - began < 30 and not junit.exists()


def test_notebook_saved_without_a_run_fails(tmp_path: Path) -> None:
    """A cell that was never run is a failure, unless nobody wants it compared."""
    path = written(tmp_path / "new.ipynb", "print(2)", "print(3)")
    assert compare(path).problems == [
        "the notebook: saved without a run, so there is nothing to compare. Run the notebook from top to bottom and save it."
    ]
    notebook = nbformat.read(path, as_version=4)
    for number, cell in enumerate(notebook.cells[1:3], 1):
        cell.execution_count = number
    nbformat.write(notebook, path)
    [problem] = compare(path).problems
    assert problem.startswith("In [3]: saved without a run")
    ignored = edited(path, lambda cell: cell.metadata.update(tags=["nbval-ignore-output"]))
    assert never_run(nbformat.read(ignored, as_version=4)) == []


def test_path_that_names_no_notebook_is_refused(tmp_path: Path) -> None:
    """A folder without notebooks and a missing file get their sentence, a file that is none fails alone; a folder's are found below it."""
    with pytest.raises(KnobError, match="no notebook is in it"):
        chosen([tmp_path])
    with pytest.raises(KnobError, match="there is no such file"):
        chosen([tmp_path / "none.ipynb"])
    (tmp_path / "text.ipynb").write_text("text")
    [text] = chosen([tmp_path])
    found = compare(text)
    assert not found.passed and "text.ipynb is not a notebook" in found.report
    (tmp_path / "text.ipynb").unlink()
    (tmp_path / "below" / ".ipynb_checkpoints").mkdir(parents=True)
    here, below = written(tmp_path / "a.ipynb"), written(tmp_path / "below" / "b.ipynb")
    written(tmp_path / "below" / ".ipynb_checkpoints" / "c.ipynb")
    assert chosen([here, tmp_path]) == [here, below]


@pytest.mark.kafka
def test_plain_nbval_knows_what_differs_from_run_to_run(broker: Any, tmp_path: Path) -> None:
    """`pytest --nbval` with the kit's own settings passes where an address, a port or a topic is another one, and knows its notebook.

    A learner's progress is neither read nor changed: a third run in the same workspace gives what the first one gave.
    """
    volatile = "print(object(), '127.0.0.1:' + str(os.getpid() % 9000 + 1000), f'kit.trial.{os.getpid()}')"
    tried = "progress.change('smallest_bound', lambda row: row.tried(str(os.getpid()), False)).tries"
    before = progress.load()
    path = saved(tmp_path / "plain.ipynb", volatile, "os.environ['KIT_NOTEBOOK']", f"from kitlib.lab import progress; {tried}")
    plain = [sys.executable, "-m", "pytest", "--nbval", str(path), "-c", str(REPOSITORY / "pyproject.toml"), "-p", "no:cacheprovider"]
    done = subprocess.run(plain, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "4 passed" in done.stdout, done.stdout
    assert progress.load() == before


@pytest.mark.kafka
def test_the_sample_tests_a_producer_behind_the_proxy(broker: Any) -> None:
    """The notebook that docs/ci.md shows gives its saved outputs on the real broker, with the kept promise and the broken one."""
    path = SAMPLES / "producer_under_faults.ipynb"
    text = path.read_text(encoding="utf-8")
    assert "3 answers lost; 2,000 sent: 0 lost, 0 duplicated, 0 out of order" in text
    assert "without idempotence: some orders are duplicated and 0 are lost" in text
    comparison = compare(path, seconds=120)
    assert comparison.passed, comparison.report


def test_the_page_shows_what_the_sample_runs() -> None:
    """The lines of Python on the page are of the notebook, and its paths and options are those of the command."""
    code = "".join("".join(cell["source"]) + "\n" for cell in nbformat.read(SAMPLES / "producer_under_faults.ipynb", as_version=4).cells)
    [shown] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    rule = "answers_lost = " + re.findall(r"Rule\(.*?\)", shown)[0]
    assert rule in code
    runs = [line.strip() for line in shown.splitlines() if "subprocess" in line]
    assert runs and all(line in code for line in runs)
    told = subprocess.run(command("--help"), capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r" (--[a-z]+) ", PAGE)) - {"--python", "--nbval", "--help"} <= set(re.findall(r"--[a-z]+", told))


def test_the_workflow_follows_the_schema(tmp_path: Path) -> None:
    """notebooks.yml is valid by GitHub's schema for workflows, a slip in it would be found, and it runs the page's commands."""
    tool, workflow = Path(sys.executable).with_name("check-jsonschema"), SAMPLES / "notebooks.yml"
    text = workflow.read_text(encoding="utf-8")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(text.replace("runs-on:", "runs-at:"))
    codes = [
        subprocess.run([tool, "--builtin-schema", "vendor.github-workflows", each], capture_output=True, check=False).returncode
        for each in (workflow, wrong)
    ]
    assert codes == [0, 1]
    shown = [line.split("  #")[0].strip() for line in PAGE.partition("## A workflow")[2].partition("```sh\n")[2].partition("```")[0].splitlines()]
    assert len(shown) == 3 and all(f"- run: {line}\n" in text for line in shown)
