"""Runs a notebook and compares what would be saved with what is saved: `compare`.

nbclient runs the cells, so history, `clear_output`, updated displays and captured output come out as in Jupyter. A dead
kernel, a hung cell, a changed, missing or new output, and a notebook of which not every cell was run or can be compared are
failures; the kernel and all that came of it are gone when `compare` returns. Left out: the bytes of PNG and JPEG pictures,
which are counted, and of widgets' state all but what `Output` widgets have captured.
"""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile
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
LINES_SHOWN = 40  # of one block of lines that differs
CHARACTERS_SHOWN = 300  # of one line
Rules = Sequence[tuple[str, str]]  # a regular expression, and what it is replaced with
Progress = Callable[[int, int], None]  # cells begun, cells of the notebook


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found."""

    path: Path
    seconds: float  # of all cells; the kernel's start is left out
    cells: int  # that were run
    problems: tuple[str, ...]  # one for each cell, with its number as Jupyter counts: "In [4]: ..."; () when nothing differs
    suite: ElementTree.Element  # the same as a <testsuite> of JUnit
    pictures: int = 0  # whose bytes were not compared

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


def never_run(path: Path) -> list[str]:
    """A sentence for each cell whose output cannot be compared, because the notebook was saved without a run of it."""
    code = [cell for cell in notebooks.load(path).cells if cell.cell_type == "code"]
    numbers = [
        number for number, cell in enumerate(code, 1)
        if cell.execution_count is None and cell.source.strip() and options(cell)["check"] and not options(cell)["skip"]
    ]  # fmt: skip
    if numbers and len(numbers) == len(code):
        return ["it was saved without outputs, so there is nothing to compare. Run it from top to bottom and save it."]
    return [f"In [{number}]: saved without a run, so there is nothing to compare. Run the notebook and save it." for number in numbers]


def compare(path: Path, seconds: float = 60.0, rules: Path | None = None, progress: Progress = lambda done, of: None) -> Comparison:
    """Run the notebook in a kernel of its own and compare its outputs; its cells together may take `seconds`.

    A cell that fails does not end the run. `rules` is a file of nbval's rules for what differs from run to run, beside the kit's own.
    """
    replaced = read_rules(rules)
    try:
        saved, problems = notebooks.load(path), never_run(path)
    except KitError as error:  # the others are compared all the same
        return Comparison(path, 0.0, 0, (str(error),), suite_of(path, [], [str(error)]))
    wanted = [cell for cell in saved.cells if cell.cell_type == "code"]
    if problems or not wanted:  # no run would tell more
        problems = problems or ["it has no code cell."]
        return Comparison(path, 0.0, 0, tuple(problems), suite_of(path, [], problems))
    now, took = copy.deepcopy(saved), list[float]()
    cells = [cell for cell in now.cells if cell.cell_type == "code"]
    for cell in cells:
        if options(cell)["skip"]:
            cell.metadata.tags = [*cell.metadata.get("tags", []), "skip-execution"]
        elif not cell.source.strip():  # nbclient passes over it, Jupyter empties it
            cell.outputs = []
    began = 0.0

    def begun(**_: Any) -> None:
        nonlocal began
        began = time.monotonic()
        progress(len(took), len(wanted))

    def done(**_: Any) -> None:
        took.append(time.monotonic() - began)

    def left(_: NotebookNode) -> float:
        return max(0.1, seconds - sum(took))

    ended = notebooks.execute(now, path, allow_errors=True, timeout_func=left, on_cell_execute=begun, on_cell_executed=done)
    if ended is not None and began:
        took.append(time.monotonic() - began)
    run = [number for number, cell in enumerate(cells) if cell.source.strip() and "skip-execution" not in cell.metadata.get("tags", [])]
    cases, problems = list[ElementTree.Element](), list[str]()
    show_captured(saved, now)
    for number, (before, after) in enumerate(zip(wanted, cells, strict=True)):
        case = ElementTree.Element("testcase", name=f"In [{number + 1}]", time="0")
        if number in run[len(took) :]:
            break
        cases.append(case)
        if options(before)["skip"]:
            ElementTree.SubElement(case, "skipped")
        else:
            last = ended if run and number == run[len(took) - 1] else None
            if number in run:
                case.set("time", f"{took[run.index(number)]:.3f}")
            if found := [reason(last, seconds)] if last else differences(before, after, replaced):
                problems.append(f"In [{number + 1}]: " + "\n".join(found))
                ElementTree.SubElement(case, "failure", message=plain_text(found[0])).text = "\n".join(found).translate(VISIBLE_IN_LINES)
    rest = [] if len(took) == len(run) else [f"{len(took)} of {len(run)} code cells were run."]
    if ended is not None and not took:
        rest.append(f"the kernel did not start: {plain_text(ended)}")
    pictures = sum(bool(PICTURES & set(output.get("data", ()))) for cell in cells for output in cell.outputs)
    return Comparison(path, sum(took), len(took), (*problems, *rest), suite_of(path, cases, rest), pictures)


def read_rules(path: Path | None) -> Rules:
    """nbval's rules of a file, in their order; KnobError for one that is no regular expression."""
    rules: list[tuple[str, str]] = get_sanitize_patterns(path.read_text(encoding="utf-8")) if path else []
    for pattern, _ in rules:
        try:
            re.compile(pattern)
        except re.error as error:
            raise KnobError(f"{path}: the rule {plain_text(pattern)} is no regular expression ({error}). Correct it.") from None
    return rules


def reason(error: Exception, seconds: float) -> str:
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
            what, texts = output.name, {output.name: output.text}
            if what not in since:  # two streams between two displays come in any order
                order[len(order) - len(since) :] = sorted({*since, what})
                since.add(what)
        else:
            since.clear()
            if output.output_type == "error":
                texts = {"error": f"{output.ename}: {output.evalue}"}
            else:
                what = "result" if output.output_type == "execute_result" else "display"
                data = {mime: "a picture" if mime in PICTURES else content for mime, content in output.data.items()}
                data.pop(notebooks.WIDGET_VIEW, None)
                texts = {what if mime == "text/plain" else f"{what} as {mime}": text for mime, text in sorted(data.items())}
            order += texts
            texts = {what: (text if isinstance(text, str) else json.dumps(text, sort_keys=True)) + "\n" for what, text in texts.items()}
        for what, text in texts.items():
            found[what] = found.get(what, "") + text
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
    plain = [None if text is None else ESCAPES.sub("", text) for text in (saved, now)]
    if plain[0] == plain[1]:
        what, plain = f"{what} (colours only)", [saved, now]
    old, new = ([] if text is None else text.removesuffix("\n").split("\n") for text in plain)
    told = []
    for kind, old_from, old_to, new_from, new_to in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        where = what if max(len(old), len(new)) < 2 else f"{what}, line {old_from + 1 if old_from < old_to else new_from + 1}"
        gone, come = old[old_from:old_to], new[new_from:new_to]
        if len(gone) < 2 and len(come) < 2:
            told.append(f"{where}: saved: {window(gone, come)}, now: {window(come, gone)}")
        else:
            sides = [("saved", line) for line in gone or ["nothing"]] + [("now", line) for line in come or ["nothing"]]
            left = len(sides) - LINES_SHOWN
            told += [f"{where}:", *(f"    {side}: {line[:CHARACTERS_SHOWN]}" for side, line in sides[:LINES_SHOWN])]
            told += [f"    and {left:,} more lines"] if left > 0 else []
    return told or [f"{what}: saved: {window(old, new)}, now: {window(new, old)}"]


def window(lines: list[str], others: list[str]) -> str:
    """The part of a line that differs from another, with a little before it."""
    if not lines:
        return "nothing"
    pairs = zip(lines[0], others[0] if others and len(lines[0]) > CHARACTERS_SHOWN else "", strict=False)
    at = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    begin = max(0, at - CHARACTERS_SHOWN // 4)
    part = lines[0][begin : begin + CHARACTERS_SHOWN]
    return ("…" if begin else "") + (part or '""') + ("…" if begin + CHARACTERS_SHOWN < len(lines[0]) else "")


def shown_path(path: Path) -> str:
    """A notebook's path as a CI server can link it: from the folder in which the command runs, if it is below it."""
    whole, here = path.resolve(), Path.cwd().resolve()
    return plain_text(whole.relative_to(here) if whole.is_relative_to(here) else whole, 2_000)


def suite_of(path: Path, cases: list[ElementTree.Element], rest: list[str]) -> ElementTree.Element:
    """JUnit's <testsuite> of a notebook: a case for each cell, and one for `rest`, what is wrong with no cell in particular."""
    name = shown_path(path)
    suite = ElementTree.Element("testsuite", name=name, file=name)
    suite.extend(cases)
    if rest:
        whole = ElementTree.SubElement(suite, "testcase", name="the notebook", time="0")
        ElementTree.SubElement(whole, "failure", message=rest[0][:200]).text = "\n".join(rest)
    for case in suite:
        case.set("classname", name.removesuffix(".ipynb").replace("/", "."))
    suite.set("time", f"{sum(float(case.get('time', '0')) for case in suite):.3f}")
    return suite


def counted(element: ElementTree.Element) -> ElementTree.Element:
    """The element with the numbers of its test cases."""
    cases = list(element.iter("testcase"))
    element.set("tests", str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    return element


def write_junit(suites: Iterable[ElementTree.Element], name: str, out: Path) -> None:
    """One JUnit file of all of them, which every CI server reads; written whole or not at all. DiskError if it cannot be."""
    root = ElementTree.Element("testsuites", name=name)
    root.extend(map(counted, suites))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")
    ElementTree.indent(counted(root))
    with workspace.replacing(out) as draft:
        ElementTree.ElementTree(root).write(draft, encoding="utf-8", xml_declaration=True)
