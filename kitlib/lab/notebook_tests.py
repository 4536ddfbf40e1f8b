"""Runs a notebook and compares what would be saved with what is saved: `compare`; what came of it as a CI server reads it: `write_junit`.

nbclient runs the cells, so history, `clear_output`, updated displays and captured output come out as in Jupyter. A dead
kernel, a hung cell, a changed, missing or new output, and a notebook of which not every cell was run or can be compared are
failures; the kernel and all that came of it are gone when `compare` returns. Left out: the bytes of PNG and JPEG pictures,
which are counted, colours, and of widgets' state all but what `Output` widgets have captured.
"""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode, from_dict
from nbval.plugin import find_comment_markers, find_metadata_tags, get_sanitize_patterns

from kitlib.errors import KitError, KnobError
from kitlib.lab import notebooks, workspace
from kitlib.text import VISIBLE_IN_LINES, plain_text

PICTURES = {"image/png", "image/jpeg"}
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\^_])")  # of a terminal: colours, titles, cursors
LINES_SHOWN = 40  # of one output that differs
CHARACTERS_SHOWN = 300  # of one line
Rules = Sequence[tuple[str, str]]  # a regular expression, and what it is replaced with
Progress = Callable[[int, int], None]  # cells begun, cells of the notebook


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that was tested: a cell with its number as Jupyter counts, "In [4]", or the notebook as a whole."""

    name: str
    problem: str = ""
    seconds: float = 0.0
    is_skipped: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found."""

    path: Path
    cases: Sequence[Case]
    cells: int = 0  # that were run
    pictures: int = 0  # whose bytes were not compared

    @property
    def seconds(self) -> float:
        """What all cells took; the kernel's start is left out."""
        return sum(case.seconds for case in self.cases)

    @property
    def problems(self) -> list[str]:
        return [f"{case.name}: {case.problem}" for case in self.cases if case.problem]

    @property
    def passed(self) -> bool:
        return not self.problems

    @property
    def report(self) -> str:
        return "\n\n".join(self.problems)


def chosen(paths: Iterable[Path]) -> list[Path]:
    """The notebooks that `paths` name, each once; of a folder all in it and below. KnobError if a path names none."""
    found: dict[Path, None] = {}
    for path in paths:
        inside = [path] if path.is_file() else sorted(each for each in path.rglob("*.ipynb") if ".ipynb_checkpoints" not in each.parts)
        if not inside:
            what = "no notebook is in it" if path.is_dir() else "there is no such file or folder"
            raise KnobError(f"{path}: {what}. Name notebooks, or folders that hold some.")
        found.update(dict.fromkeys(inside))
    return list(found)


def options(cell: NotebookNode) -> dict[str, bool]:
    """What nbval's tags and comments say of a cell: `check`, `skip`, `check_exception`."""
    tags = find_metadata_tags(cell.metadata)
    return {"check": True, "skip": False, "check_exception": False, **dict(tags), **dict(find_comment_markers(cell.source))}


def never_run(notebook: NotebookNode) -> list[Case]:
    """Each cell whose output cannot be compared, because the notebook was saved without a run of it."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    told = "without a run, so there is nothing to compare. Run the notebook from top to bottom and save it."
    cases = [
        Case(f"In [{number}]", f"saved {told}") for number, cell in enumerate(code, 1)
        if cell.execution_count is None and cell.source.strip() and options(cell)["check"] and not options(cell)["skip"]
    ]  # fmt: skip
    return [Case("the notebook", f"saved {told}" if code else "it has no code cell.")] if len(cases) == len(code) else cases


def compare(path: Path, seconds: float = 60.0, rules: Path | None = None, progress: Progress = lambda done, of: None) -> Comparison:
    """Run the notebook in a kernel of its own and compare its outputs; its cells together may take `seconds`.

    A cell that fails does not end the run. `rules` is a file of nbval's rules for what differs from run to run, beside the kit's own.
    """
    replaced = read_rules(rules)
    try:
        saved = notebooks.load(path)
    except KitError as error:  # the others are compared all the same
        return Comparison(path, [Case("the notebook", str(error))])
    if cases := never_run(saved):  # no run would tell more
        return Comparison(path, cases)
    now, took, began = copy.deepcopy(saved), list[float](), 0.0
    before, after = ([cell for cell in notebook.cells if cell.cell_type == "code"] for notebook in (saved, now))
    to_run = [number for number, cell in enumerate(after) if cell.source.strip() and not options(cell)["skip"]]
    for cell in after:
        if options(cell)["skip"]:
            cell.metadata.tags = [*cell.metadata.get("tags", []), "skip-execution"]
        elif not cell.source.strip():  # nbclient passes over it, Jupyter empties it
            cell.outputs = []

    def begun(**_: Any) -> None:
        nonlocal began
        began = time.monotonic()
        progress(len(took), len(to_run))

    def done(**_: Any) -> None:
        took.append(time.monotonic() - began)

    ended = notebooks.execute(
        now, path, allow_errors=True, on_cell_execute=begun, on_cell_executed=done, timeout_func=lambda _: max(0.1, seconds - sum(took))
    )
    if ended is not None and began:
        took.append(time.monotonic() - began)
    show_captured(saved, now)
    was_run = dict(zip(to_run, took, strict=False))
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        if number in to_run and number not in was_run:
            break
        is_last = ended is not None and number == [*was_run][-1]
        found = [reason(ended, seconds)] if is_last else [] if options(old)["skip"] else differences(old, new, replaced)
        cases.append(Case(f"In [{number + 1}]", "\n".join(found), was_run.get(number, 0.0), options(old)["skip"]))
    if len(took) < len(to_run):
        why = f"the kernel did not start: {plain_text(ended)}" if not took else f"{len(took)} of {len(to_run)} code cells were run."
        cases.append(Case("the notebook", why))
    pictures = sum(bool(PICTURES & set(output.get("data", ()))) for cell in after for output in cell.outputs)
    return Comparison(path, cases, len(took), pictures)


def read_rules(path: Path | None) -> Rules:
    """nbval's rules of a file, in their order; KnobError for one that is no regular expression."""
    rules: list[tuple[str, str]] = get_sanitize_patterns(path.read_text(encoding="utf-8")) if path else []
    for pattern, _ in rules:
        try:
            re.compile(pattern)
        except re.error as error:
            raise KnobError(f"{path}: the rule {plain_text(pattern)} is no regular expression ({error}). Correct it.") from None
    return rules


def reason(error: Exception | None, seconds: float) -> str:
    """Why the run ended in a cell."""
    if isinstance(error, CellTimeoutError):
        return f"stopped after {seconds:g} s, which is all that the notebook may take."
    return "the kernel died." if isinstance(error, DeadKernelError) else f"the run ended: {plain_text(error)}"


def show_captured(saved: NotebookNode, now: NotebookNode) -> None:
    """Put what widgets have captured behind their views; not where the saved notebook does not hold its widgets' state."""
    for notebook in (saved, now) if WIDGET_STATE in saved.metadata.get("widgets", {}) else ():
        state = notebook.metadata.get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = [*with_captured(cell.outputs, state)]


def with_captured(outputs: Iterable[NotebookNode], state: Mapping[str, Any]) -> Iterator[NotebookNode]:
    """Each output, and after a widget's view what it and the widgets inside it have captured."""
    for output in outputs:
        yield output
        inside = [output.get("data", {}).get(notebooks.WIDGET_VIEW, {}).get("model_id")]
        while inside:
            model = state.get(str(inside.pop(0)).removeprefix("IPY_MODEL_"), {}).get("state", {})
            inside += model.get("children", ())
            yield from with_captured(map(from_dict, model.get("outputs", ())), state)


def overwritten(line: str) -> str:
    """A line as Jupyter saves it: what follows a carriage return or a backspace takes the place of what stood there."""
    shown, at = list[str](), 0
    for character in line:
        if character in "\r\b":
            at = 0 if character == "\r" else max(0, at - 1)
        else:
            shown[at : at + 1] = [character]
            at += 1
    return "".join(shown)


def contents(cell: NotebookNode, rules: Rules) -> tuple[dict[str, str], list[str]]:
    """What each kind of output of a cell holds, without what differs from run to run; and the kinds in their order."""
    found, order, since = dict[str, str](), list[str](), set[str]()
    for output in cell.outputs:
        if output.output_type == "stream":
            texts = {output.name: output.text}
            if output.name not in since:  # two streams between two displays come in any order
                order[len(order) - len(since) :] = sorted({*since, output.name})
                since.add(output.name)
        elif output.output_type == "error":
            texts = {"error": f"{output.ename}: {output.evalue}\n"}
        else:
            what = "result" if output.output_type == "execute_result" else "display"
            data = {mime: "a picture" if mime in PICTURES else content for mime, content in output.data.items()}
            data.pop(notebooks.WIDGET_VIEW, None)
            texts = {
                what if mime == "text/plain" else f"{what} as {mime}":
                (text if isinstance(text, str) else json.dumps(text, sort_keys=True)) + "\n" for mime, text in sorted(data.items())
            }  # fmt: skip
        if output.output_type != "stream":
            since.clear()
            order += texts
        for what, text in texts.items():
            found[what] = found.get(what, "") + ESCAPES.sub("", text)
    for what, text in found.items():
        shown = "\n".join(map(overwritten, text.split("\n"))) if what in ("stdout", "stderr") else text
        for pattern, replacement in rules:
            shown = re.sub(pattern, replacement, shown)
        found[what] = notebooks.same(shown)
    return found, order


def differences(saved: NotebookNode, now: NotebookNode, rules: Rules = ()) -> list[str]:
    """What a reader would see change if the cell's outputs were saved again; [] if nothing."""
    (before, order), (after, new_order) = contents(saved, rules), contents(now, rules)
    expected = options(saved)["check_exception"]
    if not options(saved)["check"]:  # an error still counts
        before, after = ({"error": texts["error"]} if "error" in texts else {} for texts in (before, after))
        before, order, new_order = after if expected else before, [], []
    told = [line for what in dict.fromkeys([*before, *after]) for line in difference(what, before.get(what), after.get(what))]
    if not told and order != new_order:
        told = [f"the order of outputs: saved: {', '.join(order)}; now: {', '.join(new_order)}"]
    if expected and "error" not in after:
        told += ["error: an error is expected (raises-exception), now: none"]
    if "error" in after and told:
        told += ["\n".join(ESCAPES.sub("", line) for output in now.outputs if output.output_type == "error" for line in output.traceback)]
    return told


def difference(what: str, saved: str | None, now: str | None) -> list[str]:
    """The lines in which two texts differ, of which None is one that is not there."""
    if saved == now:
        return []
    old, new = ([] if text is None else text.removesuffix("\n").replace("><", ">\n<").split("\n") for text in (saved, now))
    if len(old) < 2 and len(new) < 2:
        return [f"{what}: saved: {shown(old)}, now: {shown(new)}"]
    lines = [line[:CHARACTERS_SHOWN] for line in unified_diff(old, new, "saved", "now", n=0, lineterm="")]
    left = len(lines) - LINES_SHOWN
    return [f"{what}:", *lines[:LINES_SHOWN], *([f"and {left:,} more lines"] if left > 0 else [])]


def shown(line: list[str]) -> str:
    return line[0][:CHARACTERS_SHOWN] or '""' if line else "nothing"


def shown_path(path: Path) -> str:
    """A notebook's path as a CI server can link it: from the folder in which the command runs, if it is below it."""
    whole, here = path.resolve(), Path.cwd().resolve()
    return plain_text(whole.relative_to(here) if whole.is_relative_to(here) else whole, 2_000)


def junit(suites: Mapping[str, Sequence[Case]], name: str) -> ElementTree.Element:
    """JUnit's XML of what was tested, with a <testsuite> for each name."""
    root = ElementTree.Element("testsuites", {"name": name, **counted([case for cases in suites.values() for case in cases])})
    for suite, cases in suites.items():
        element = ElementTree.SubElement(root, "testsuite", {"name": suite, "file": suite, **counted(cases)})
        for case in cases:
            classname = suite.removesuffix(".ipynb").replace("/", ".")
            told = ElementTree.SubElement(element, "testcase", name=case.name, classname=classname, time=f"{case.seconds:.3f}")
            if case.problem:
                visible = case.problem.translate(VISIBLE_IN_LINES)
                ElementTree.SubElement(told, "failure", message=plain_text(visible.partition("\n")[0])).text = visible
            elif case.is_skipped:
                ElementTree.SubElement(told, "skipped")
    ElementTree.indent(root)
    return root


def counted(cases: Sequence[Case]) -> dict[str, str]:
    failures, skipped = (str(sum(map(bool, each))) for each in ((case.problem for case in cases), (case.is_skipped for case in cases)))
    seconds = f"{sum(case.seconds for case in cases):.3f}"
    return {"tests": str(len(cases)), "failures": failures, "errors": "0", "skipped": skipped, "time": seconds}


def write_junit(suites: Mapping[str, Sequence[Case]], name: str, out: Path) -> None:
    """Write that to a file, which every CI server reads, whole or not at all. DiskError if it cannot be."""
    with workspace.replacing(out) as draft:
        ElementTree.ElementTree(junit(suites, name)).write(draft, encoding="utf-8", xml_declaration=True)
