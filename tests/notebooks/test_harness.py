"""The notebooks' judge, judged: it must fail where a careless one is green."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import psutil
import pytest

from kitlib.lab import notebooks
from kitlib.lab.notebook_tests import compare, junit, shown_path
from kitlib.lab.notebooks import run, save, tidy
from tests.conftest import mentions, our_processes
from tests.notebooks.checks import problems

pytestmark = [pytest.mark.notebooks, pytest.mark.timeout(180)]
IMPORTS = "import os, signal, subprocess, sys, threading, time\nfrom pathlib import Path"


def written(path: Path, *sources: str) -> Path:
    """A notebook with a heading, an import cell and the given code cells, not yet run."""
    cells = [nbformat.v4.new_markdown_cell("# A trial"), nbformat.v4.new_code_cell(IMPORTS)]
    cells += [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def saved(path: Path, *sources: str) -> Path:
    """The same, run and saved as `kit notebooks` does it."""
    result = run(written(path, *sources))
    assert result.problem is None
    save(tidy(result.notebook), path)
    return path


def edited(path: Path, change: Callable[[Any], None]) -> Path:
    """The notebook with its last code cell changed."""
    notebook = nbformat.read(path, as_version=4)
    change(notebook.cells[-1])
    nbformat.write(notebook, path)
    return path


def test_notebook_with_its_own_outputs_passes(tmp_path: Path) -> None:
    """A saved notebook passes, with addresses and durations that differ from run to run; saving it again changes nothing."""
    path = saved(tmp_path / "good.ipynb", "print(1 + 1, object())", "f'took {time.monotonic():.3f} s'", "{'a': [1, 2]}")
    assert not problems(path)
    comparison = compare(path)
    assert comparison.passed, comparison.report
    assert comparison.seconds > 0
    assert not save(tidy(run(path).notebook, notebooks.load(path)), path)


def test_notebook_with_any_name_is_run(clean: Path, tmp_path: Path) -> None:
    """Brackets and colons, which pytest reads as parts of a name, and terminal escapes: it alone is run, and its JUnit is XML."""
    path = tmp_path / "build[1]" / "a[1]::b\x1b[31m\n\u202ered.ipynb"
    path.parent.mkdir()
    shutil.copy(clean, path)
    written(path.with_name("other.ipynb"), "1 / 0")
    comparison = compare(path)
    assert comparison.passed and comparison.cells == 2, comparison.report
    [suite] = ElementTree.fromstring(ElementTree.tostring(junit({shown_path(path): comparison.cases}, "notebooks")))
    assert len(suite) == 2


def test_notebook_with_a_widget_passes_by_its_text(tmp_path: Path) -> None:
    """A widget's identity is not stored; the text beside it is, and is compared."""
    path = saved(tmp_path / "widget.ipynb", "from ipywidgets import IntSlider; IntSlider(3)")
    assert "widget-view" not in path.read_text() and "IntSlider(value=3)" in path.read_text()
    assert compare(path).passed


# (what the notebook had when it was saved, what it has now, what the report must say)
CHANGES = (
    ("print(2)", "print(3)", "stdout: saved: 2, now: 3"),
    ("print(2)", "", "stdout: saved: 2, now: nothing"),
    ("2;", "2", "result: saved: nothing, now: 2"),
    ("print(2)", "2", "result: saved: nothing, now: 2"),
    ("print(2)", "print(2); print('warning', file=sys.stderr)", "stderr: saved: nothing, now: warning"),
    ("print(2)", "print(2); 1 / 0", "error: saved: nothing, now: ZeroDivisionError: division by zero"),
    ("import ipywidgets; ipywidgets.IntSlider(3)", "import ipywidgets; ipywidgets.IntSlider(4)", "result: saved: IntSlider(value=3), now"),
    ("print(2)", "print(2); sys.exit(0)", "SystemExit"),
    ("print('a\\nb\\nc')", "print('a\\nB\\nc')", "stdout:\n--- saved\n+++ now\n@@ -2 +2 @@\n-b\n+B"),
    ("print('red')", "print('\\x1b[31mblue\\x1b[0m')", "stdout: saved: red, now: blue"),
    ("display(1); print(2)", "print(2); display(1)", "the order of outputs: saved: display, stdout; now: stdout, display"),
    ("shown = display(1, display_id=True)\nshown.update(2)", "shown = display(1, display_id=True)\nshown.update(3)", "display: saved: 2, now: 3"),
    ("display(1)", "out = __import__('ipywidgets').Output()\nwith out:\n    display(1)", "display: saved: 1, now: nothing"),
    ("1", "# raises-exception", "an error is expected (raises-exception), now: none"),
)


def tagged(path: Path) -> Path:
    """The notebook with the tag that Jupyter knows on the cells that name it."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.metadata.update({"tags": ["raises-exception"]} if "raises-exception" in cell.source else {})
    nbformat.write(notebook, path)
    return path


def test_notebook_with_another_outcome_fails_in_each_cell(tmp_path: Path) -> None:
    """A changed, new or missing output, a warning, an error, a missing error, another order and an exit fail; each is listed."""
    path = saved(tmp_path / "bad.ipynb", *[before for before, _, _ in CHANGES])
    notebook = nbformat.read(path, as_version=4)
    for cell, (_, now, _) in zip(notebook.cells[2:], CHANGES, strict=True):
        cell.source = now
    nbformat.write(notebook, path)
    comparison = compare(tagged(path))
    assert len(comparison.problems) == len(CHANGES)
    for number, (said, (_, now, words)) in enumerate(zip(comparison.problems, CHANGES, strict=True), 2):
        assert said.startswith(f"In [{number}]: ") and words in said, (now, said)
    assert "\x1b" not in ElementTree.tostring(junit({"bad": comparison.cases}, "notebooks"), encoding="unicode")


def test_what_an_output_widget_has_captured_is_compared(tmp_path: Path) -> None:
    """Where a notebook was saved with its widgets' state, also inside a box; a picture is counted, and said to be not compared."""
    box = "import ipywidgets\nout = ipywidgets.Output()\nwith out:\n    print('inside')\nipywidgets.VBox([out])"
    picture = "display({'image/png': 'AAAA', 'text/plain': 'a dot'}, raw=True)"
    path = written(tmp_path / "box.ipynb", box, picture)
    nbformat.write(run(path).notebook, path)
    found = compare(path)
    assert (found.problems, found.pictures) == ([], 1)
    path.write_text(path.read_text().replace("'inside'", "'outside'"))
    assert compare(path).problems == ["In [2]: stdout: saved: inside, now: outside"]


# What gives the same saved outputs each time, and would not if messages were compared.
SAME = (
    "numbers = [1, 2]\nnumbers;",
    "41 + 1\n_ = 7\nlen(In) > 1",
    "from IPython.display import clear_output\nfor batch in range(3):\n    clear_output(wait=True)\n    print(batch)",
    "shown = display('sending', display_id=True)",
    "shown.update('sent')",
    "import ipywidgets\nfor _ in range(30):\n    out = ipywidgets.Output()\n    display(out)\n    with out:\n        print('inside')",
    "ipywidgets.interact(lambda bound: print('bound', bound), bound=(0, 10));",
    "print('10 %', end='\\r'); print('100 %', end='\\rx\\n')",
    "print('out'); print('err', file=sys.stderr); print('out')",
    "raise KeyError('as shown')  # raises-exception",
    "# NBVAL_IGNORE_OUTPUT\ntime.time()",
)


def test_notebook_that_saves_the_same_again_passes(tmp_path: Path) -> None:
    """History, `clear_output`, updated displays, captured output, overwritten lines and an expected error come out as Jupyter saves them."""
    path = tagged(written(tmp_path / "same.ipynb", *SAME))
    notebook = nbformat.read(path, as_version=4)
    assert notebooks.execute(notebook, path) is None  # it keeps each message of a stream, as Jupyter and not as `kit notebooks` does
    nbformat.write(notebook, path)
    comparison = compare(path)
    assert comparison.passed and comparison.cells == len(SAME) + 1, comparison.report
    edited(path, lambda cell: cell.update(source="1 / 0  # NBVAL_IGNORE_OUTPUT"))
    assert "ZeroDivisionError" in compare(path).report


def test_notebook_whose_kernel_dies_fails(clean: Path, tmp_path: Path) -> None:
    """A kernel that ends in the middle is a failure, even when it printed all it should and ended with 0."""
    path = edited(Path(shutil.copy(clean, tmp_path)), lambda cell: cell.update(source="print(2); os._exit(0)"))
    assert compare(path).problems == ["In [2]: the kernel died."]
    notebook = nbformat.read(clean, as_version=4)
    notebook.cells[1].source = "import os; os._exit(0)"
    nbformat.write(notebook, path)
    assert compare(path).problems == ["In [1]: the kernel died.", "the notebook: 1 of 2 code cells were run."]


def kernels() -> set[int]:
    """The kernels of this session; other tests may have some open."""
    return {process.pid for process in our_processes() if mentions(process, "ipykernel_launcher")}


def test_notebook_with_a_hung_cell_fails_in_time(clean: Path, tmp_path: Path) -> None:
    """A cell that hangs and cannot be interrupted fails the comparison, and its kernel is gone."""
    hung = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: threading.Event().wait(1)"
    path = edited(Path(shutil.copy(clean, tmp_path)), lambda cell: cell.update(source=hung))
    before = kernels()
    comparison = compare(path, seconds=3)
    assert comparison.problems == ["In [2]: stopped after 3 s, which is all that the notebook may take."]
    assert kernels() <= before


def test_notebook_that_leaves_a_process_is_cleaned_up(tmp_path: Path) -> None:
    """What a notebook's kernel started and left is gone after the comparison."""
    path = saved(tmp_path / "leak.ipynb", "subprocess.Popen(['sleep', '1000'], start_new_session=True).pid > 0")
    assert compare(path).passed
    assert not [process for process in our_processes() if mentions(process, "sleep 1000")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda cell: cell.update(execution_count=None), "not run from its first cell"),
        (lambda cell: cell.update(source="x = 1\n" * 26), "more than 25 lines"),
        (lambda cell: cell.update(source="time.sleep(1)"), "sleeps"),
        (lambda cell: cell.update(source="open('/home/me/x')"), "absolute path"),
        (lambda cell: cell.update(source="x = 1\nimport json"), "imports below its first lines"),
        (lambda cell: cell.update(source="import os\nx = 1"), "imports os again"),
        (lambda cell: cell.update(source="!ls"), "plain Python"),
        (lambda cell: cell.update(source="%pip install x"), "installs"),
        (lambda cell: cell.update(metadata={"collapsed": True}), "holds metadata"),
        (lambda cell: cell.update(metadata={"tags": ["nbval-skip"]}), "not run by the tests"),
        (lambda cell: cell.update(outputs=[nbformat.v4.new_output("error", ename="E", evalue="e")]), "stored the error"),
        (lambda cell: cell.update(outputs=[nbformat.v4.new_output("stream", name="stderr", text="w")]), "to stderr"),
        (lambda cell: cell.update(outputs=[output({"text/html": "<script>1</script>"})]), "script"),
        (lambda cell: cell.update(outputs=[output({"image/svg+xml": "<svg onload='x()'/>"})]), "script"),
        (lambda cell: cell.update(outputs=[output({"text/plain": "in /root/x"})]), "shows an absolute path"),
        (lambda cell: cell.update(outputs=[output({"text/plain": "?token=1"})]), "shows a token"),
        (lambda cell: cell.update(outputs=[output({"text/plain": "x" * 200_000})]), "an output of 200000 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_notebook_file_that_breaks_a_rule_is_named(
    change: Callable[[Any], None], words: str, clean: Path, tmp_path: Path
) -> None:
    """Each rule for notebooks as files is checked, and the sentence says which one is broken."""
    path = tmp_path / "rule.ipynb"
    path.write_bytes(clean.read_bytes())
    assert any(words in problem for problem in problems(edited(path, change))), problems(path)


def output(data: dict[str, str]) -> Any:
    return nbformat.v4.new_output("display_data", data=data)


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = saved(tmp_path_factory.mktemp("clean") / "clean.ipynb", "print(2)")
    assert not problems(path)
    return path


def test_what_was_measured_differs_and_means_the_same() -> None:
    """A number behind a tilde was measured on this machine; one without is compared, and so is what stands beside it."""
    assert notebooks.same("~37.5 in a request, 1 alone") == notebooks.same("~1,000 in a request, 1 alone")
    assert notebooks.same("~37 in a request") != notebooks.same("37 in a request")
    assert notebooks.same("~37, more") != notebooks.same("~37, NOT more")


@pytest.mark.parametrize(
    ("source", "seconds", "problem"),
    [
        ("os._exit(1)", 30, "the kernel died in code cell 2"),
        ("1 / 0", 30, "code cell 2: ZeroDivisionError: division by zero"),
        ("threading.Event().wait(100)", 5, "code cell 2 ran longer than 5 s"),
    ],
)
def test_notebook_that_stops_is_reported_in_a_sentence(
    source: str, seconds: int, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kit notebooks` says where a notebook stopped and why, and leaves no kernel behind."""
    monkeypatch.setattr(notebooks, "SECONDS_PER_CELL", seconds)
    before = kernels()
    result = run(written(tmp_path / "stops.ipynb", source))
    assert result.problem is not None and result.problem.startswith(problem)
    assert kernels() <= before


def test_kernel_of_a_run_knows_its_notebook_and_nothing_of_the_users_jupyter(tmp_path: Path) -> None:
    """A notebook run without JupyterLab still knows its name, so `kit reset` finds what it made."""
    path = saved(tmp_path / "07_named.ipynb", "os.environ['KIT_NOTEBOOK']", "'JUPYTER_TOKEN' in os.environ")
    assert "'07_named'" in path.read_text() and "False" in path.read_text()
    assert os.environ.get("KIT_NOTEBOOK") is None and psutil.pid_exists(os.getpid())
