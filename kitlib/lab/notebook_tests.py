"""Runs a notebook and compares every output with the stored one: `compare`, the one door to nbval.

nbval is hardly kept up any more; whoever replaces it replaces the body of `compare` and keeps its
promises: a dead kernel, a hung cell, a changed, missing or new output, and a notebook of which not
every cell was run or can be compared are failures; the kernel and all that came of it are gone when it returns.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from kitlib.errors import LabError
from kitlib.lab import jupyter, nbval_plugin, notebooks, workspace
from kitlib.lab.processes import find_by_token, sweep
from kitlib.lab.reaper import TOKEN_NAME, is_broker
from kitlib.text import VISIBLE_IN_LINES, plain_text

SECONDS_TO_START = 60.0  # of pytest and of a kernel, beside another test
LOOK_EVERY_S = 0.2
UNCOMPARED = {"nbval-ignore-output", "nbval-skip"}  # tags of cells whose outputs nobody wants to be compared
Progress = Callable[[int, int], None]  # cells begun, cells of the notebook


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found."""

    path: Path
    seconds: float  # from the first cell to the end, the kernel's start left out
    cells: int  # that were run
    problems: tuple[str, ...]  # a sentence each, the cell in front as Jupyter counts it: "In [4]: ..."; () when nothing differs
    suite: ElementTree.Element  # the same as a <testsuite> of JUnit

    @property
    def passed(self) -> bool:
        return not self.problems

    @property
    def report(self) -> str:
        return "\n\n".join(self.problems)


def chosen(paths: Iterable[Path]) -> list[Path]:
    """The notebooks that `paths` name, each once; of a folder all in it and below. LabError if one is none or a folder has none."""
    found: dict[Path, None] = {}
    for path in paths:
        inside = [path] if path.is_file() else sorted(each for each in path.rglob("*.ipynb") if ".ipynb_checkpoints" not in each.parts)
        if not inside:
            what = "no notebook is in it" if path.is_dir() else "there is no such file or folder"
            raise LabError(f"{path}: {what}. Name notebooks, or folders that hold some.")
        found.update(dict.fromkeys(inside))
    for path in found:
        notebooks.load(path)
    return list(found)


def never_run(path: Path) -> list[str]:
    """A sentence for each cell whose output cannot be compared, because the notebook was saved without a run of it."""
    code = [cell for cell in notebooks.load(path).cells if cell.cell_type == "code"]
    numbers = [
        number for number, cell in enumerate(code, 1)
        if cell.execution_count is None and cell.source.strip() and not UNCOMPARED & set(cell.metadata.get("tags", []))
    ]  # fmt: skip
    if numbers and len(numbers) == len(code):
        return ["it was saved without outputs, so there is nothing to compare. Run it from top to bottom and save it."]
    return [f"In [{number}]: saved without a run, so there is nothing to compare. Run the notebook and save it." for number in numbers]


def compare(
    path: Path, seconds: float = 60.0, failures: int = 3, rules: Path | None = None, progress: Progress = lambda done, of: None
) -> Comparison:
    """Run the notebook in a kernel of its own and compare its outputs; it may take `seconds` after its start.

    It gives up after so many `failures`: what follows a failed cell mostly fails because of it. `rules` is a file of nbval's
    rules for what differs from run to run, beside the kit's own.
    """
    path, token = path.resolve(), uuid.uuid4().hex
    problems, expected = never_run(path), sum(cell.cell_type == "code" for cell in notebooks.load(path).cells)
    if problems or not expected:  # no run would tell more
        problems = problems or ["it has no code cell."]
        return Comparison(path, 0.0, 0, tuple(problems), suite_of(path, 0.0, [], problems))
    with tempfile.TemporaryDirectory(prefix="kit-nbval-") as folder:
        jupyter.write_settings()  # where the kernels' connection files go
        account, results = Path(folder) / "account.json", Path(folder) / "junit.xml"
        (Path(folder) / "pytest.ini").write_text("[pytest]\n")
        command = [
            sys.executable, "-m", "pytest", "--nbval", ".", "--nbval-current-env", "--nbval-cell-timeout", str(seconds),
            "-p", "nbval.plugin", "-p", nbval_plugin.__name__, "-p", "no:cacheprovider", "--noconftest",
            "-c", str(Path(folder) / "pytest.ini"), "--rootdir", str(path.parent), "--junit-xml", str(results), "--color=no",
            "--maxfail", str(failures), "-q", "-W", "ignore", *(["--nbval-sanitize-with", str(rules)] if rules else []),
        ]  # fmt: skip
        environment = {
            **jupyter.environment(), "KIT_NOTEBOOK": path.stem, TOKEN_NAME: token, nbval_plugin.ACCOUNT: str(account),
            nbval_plugin.ONLY: str(path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }  # fmt: skip
        process = subprocess.Popen(
            command, cwd=path.parent, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        deadline = time.monotonic() + seconds + SECONDS_TO_START
        try:
            said = None
            while said is None:
                try:
                    said, _ = process.communicate(timeout=LOOK_EVERY_S)
                except subprocess.TimeoutExpired:
                    progress(int(read_account(account)["cells"]), expected)
                    if time.monotonic() > deadline:
                        with contextlib.suppress(ProcessLookupError):
                            os.killpg(process.pid, signal.SIGKILL)
                        problems.append(f"it was stopped: not done {seconds + SECONDS_TO_START:.0f} s after its start.")
        finally:
            sweep(lambda: [each for each in find_by_token(token) if not is_broker(each)])
            process.stdout.close() if process.stdout else None
            process.wait()
        ran, cases = read_account(account), read_results(results)
    problems += [f"{case.get('name')}: {wrong}" for case in cases for wrong in told_of(case)]
    if ran["cells"] != expected:
        problems.append(f"{ran['cells']:.0f} of {expected} code cells were run.")
    if ran["seconds"] > seconds:
        problems.append(f"it took {ran['seconds']:.0f} s, {seconds:.0f} s are allowed.")
    if process.returncode != 0 and not problems:
        problems.append(f"pytest ended with {process.returncode}: {plain_text(said.strip()[-2000:], 2000)}")
    return Comparison(path, ran["seconds"], int(ran["cells"]), tuple(problems), suite_of(path, ran["seconds"], cases, problems))


def read_account(path: Path) -> dict[str, float]:
    """Cells begun and seconds so far."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {"cells": 0, "seconds": 0.0}


def read_results(path: Path) -> list[ElementTree.Element]:
    """The test cases that pytest wrote, named as Jupyter counts cells: nbval's "Cell 3" is In [4]. [] when it was killed."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8").translate(VISIBLE_IN_LINES)  # pytest writes names as they are, which may be no XML
    cases = list(ElementTree.fromstring(text).iter("testcase"))
    for case in cases:
        if number := re.fullmatch(r"Cell (\d+)", case.get("name", "")):
            case.set("name", f"In [{int(number[1]) + 1}]")
    return cases


def told_of(case: ElementTree.Element) -> list[str]:
    """What nbval says of a cell, without its headings."""
    return [
        re.sub(r"\ANotebook cell execution failed\n(?:Cell \d+: )?", "", wrong.text or wrong.get("message") or "").strip()
        for wrong in case if wrong.tag in ("failure", "error")
    ]  # fmt: skip


def suite_of(path: Path, seconds: float, cases: list[ElementTree.Element], problems: list[str]) -> ElementTree.Element:
    """JUnit's <testsuite> of a notebook: a case for each cell, and one for what is wrong with no cell in particular."""
    suite = ElementTree.Element("testsuite", name=plain_text(path.stem), file=plain_text(path.name), time=f"{seconds:.3f}")
    told = {f"{case.get('name')}: {wrong}" for case in cases for wrong in told_of(case)}
    rest = [problem for problem in problems if problem not in told]
    for case in cases:
        case.set("classname", plain_text(path.stem))
        suite.append(case)
    if rest:
        whole = ElementTree.SubElement(suite, "testcase", name="the notebook", classname=plain_text(path.stem), time="0")
        ElementTree.SubElement(whole, "failure", message=rest[0][:200]).text = "\n".join(rest)
    tests = list(suite)
    suite.set("tests", str(len(tests)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in tests)))
    return suite


def write_junit(comparisons: Iterable[Comparison], out: Path) -> None:
    """One JUnit file of all of them, which every CI server reads; written whole or not at all. DiskError if it cannot be."""
    root = ElementTree.Element("testsuites", name="notebooks")
    root.extend(comparison.suite for comparison in comparisons)
    ElementTree.indent(root)
    with workspace.replacing(out) as draft:
        ElementTree.ElementTree(root).write(draft, encoding="utf-8", xml_declaration=True)
