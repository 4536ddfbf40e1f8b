"""The instructor's view of a notebook: what it is for, how long each section takes, and every prediction and exercise with its answer.

There is one source. Questions, sections and outputs are the notebook's; what is right in a prediction is computed from the run that
it asks about; solutions, hints and discussions are those that a learner gets after three tries.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any

import jinja2

from kitlib.errors import KnobError
from kitlib.exercises.course import number_of
from kitlib.exercises.frame import Exercise
from kitlib.exercises.prose import to_explain
from kitlib.lab import notebooks
from kitlib.monitor.figures import amount
from kitlib.text import plain_text
from kitlib.views.browser.prediction import Prediction, predict

WORDS_A_MINUTE = 180
MINUTES = {"code": 0.5, "prediction": 1.5, "exercise": 7, "player": 5}
LONGEST_OUTPUT, MOST_LINES = 1_200, 20  # characters and lines that are shown of a cell's output


@dataclass(slots=True)
class Section:
    """A part of a notebook, from one heading of the second level to the next."""

    title: str
    cells: list[Any] = field(default_factory=list)

    @property
    def minutes(self) -> float:
        """How long it takes, by `minutes_of`."""
        return minutes_of(self.cells)


@dataclass(frozen=True, slots=True)
class Asked:
    """One prediction: what is asked, and what an instructor should know before the vote."""

    question: str
    right: str  # computed from the run; "" when it is about what earlier cells have made, and the cells below answer it
    printed: str  # what the cells below print
    look: str  # what the notebook says of it


def minutes_of(cells: Sequence[Any]) -> float:
    """How long a learner takes who reads all, runs all, predicts before running and does every exercise; an appendix is looked up."""
    cells = [*takewhile(lambda cell: not cell.source.startswith("## Appendix"), cells)]
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    asked = sum(len(re.findall(r"^(?:\w+ = )?predict\(", source, re.MULTILINE)) for source in code)
    exercises = {name for source in code for name in checked_in(source)}
    players = sum(len(re.findall(r"\b(?:Player|FailureMap|Desk)\(", source)) for source in code)
    counts = {"code": len(code), "prediction": asked, "exercise": len(exercises), "player": players}
    return len(text.split()) / WORDS_A_MINUTE + sum(MINUTES[what] * count for what, count in counts.items())


def checked_in(source: str) -> list[str]:
    """The exercises that a cell checks."""
    return re.findall(r"^(?:\w+ = )?check\(\"(\w+)\"", source, re.MULTILINE)


def sections_of(cells: Sequence[Any]) -> list[Section]:
    """The notebook's sections; what stands before the first heading is the one called "Opening"."""
    found = [Section("Opening")]
    for cell in cells:
        heading = re.match(r"## (.+)", cell.source) if cell.cell_type == "markdown" else None
        if heading:
            found.append(Section(heading[1].strip()))
        found[-1].cells.append(cell)
        # A heading further down in a cell begins a section too; its text is counted where the cell is.
        if cell.cell_type == "markdown":
            found += [Section(title.strip()) for title in re.findall(r"(?<=\n)## (.+)", cell.source)]
    return found


def predictions_of(cells: Sequence[Any]) -> Iterator[tuple[int, Asked]]:
    """Every prediction of a notebook, with the number of its cell and its answer."""
    known = _definitions(cells)
    for at, cell in enumerate(cells):
        for call in _calls(cell):
            yield at, _asked_of_a_run(call, known, cells[at + 1 :])


def _lines(cell: Any) -> list[ast.stmt]:
    """The statements of a cell; none of a text, or of what is not Python alone."""
    with suppress(SyntaxError):
        return ast.parse(cell.source).body if cell.cell_type == "code" else []
    return []


def _calls(cell: Any) -> list[ast.Call]:
    """The calls of `predict` that are statements of their own."""
    calls = [line.value for line in _lines(cell) if isinstance(line, ast.Expr | ast.Assign) and isinstance(line.value, ast.Call)]
    return [call for call in calls if ast.unparse(call.func) == "predict"]


def _definitions(cells: Sequence[Any]) -> dict[str, Any]:
    """What a question may name: the notebook's imports, functions and values that need no run. They are the shipped notebook's own."""
    known: dict[str, Any] = {"predict": predict}
    for line in (line for cell in cells for line in _lines(cell)):
        called = {ast.unparse(part.func) for part in ast.walk(line) if isinstance(part, ast.Call)}
        is_function = isinstance(line, ast.FunctionDef) and not line.decorator_list
        if is_function or isinstance(line, ast.Import | ast.ImportFrom) or (isinstance(line, ast.Assign) and called <= {"dict"}):
            with suppress(NameError, ImportError):  # it needs what a run has given, or a package that is not here
                exec(compile(ast.Module([line], []), "notebook", "exec"), known)  # noqa: S102
    return known


def _asked_of_a_run(call: ast.Call, known: dict[str, Any], below: Sequence[Any]) -> Asked:
    try:
        asked: Prediction = eval(compile(ast.Expression(call), "notebook", "eval"), known)  # noqa: S307
    except Exception:  # noqa: BLE001 - it asks about what earlier cells have made, of whatever kind; the cells below answer it
        named = {word.arg: word.value for word in call.keywords if word.arg}
        question = call.args[1] if len(call.args) > 1 else named["question"]
        told = str(question.value if isinstance(question, ast.Constant) else known.get(ast.unparse(question), ast.unparse(question)))
        among: list[Any] = ast.literal_eval(named["choices"]) if isinstance(named.get("choices"), ast.List | ast.Tuple) else []
        return Asked(told + (f" ({' / '.join(map(str, among))})" if among else ""), "", *_below(below))
    unit = "" if asked.unit == "offset" else asked.unit
    right = "" if asked.truth is None else amount(asked.truth, unit) if asked.kind == "number" else str(asked.truth)
    within = f", within {asked.within:g}{' ms' if asked.unit == 'ms' else ''}" if asked.within else ""
    choices = f" ({' / '.join(asked.choices)})" if asked.choices else ""
    return Asked(asked.question + choices, right and f"{right}{within}", *_below(below))


def _below(cells: Sequence[Any]) -> tuple[str, str]:
    """What the next cells print, up to the next text; and what the notebook then says of it, up to the next prediction."""
    printed: list[str] = []
    texts: list[str] = []
    for cell in cells:
        if _calls(cell) or (texts and cell.source.startswith("#")):
            if texts:
                break
        elif cell.cell_type == "markdown":
            texts += re.split(r"\n\n+", cell.source.partition("**Predict")[0].partition("\n## ")[0].strip())
            if "**Predict" in cell.source:
                break
        elif not texts:
            printed += [text for output in cell.outputs if (text := _text_of(output))]
    said = [text for text in texts if text and not text.startswith("#")]
    looked = next((text for text in said if text.startswith(("**Look", "**Explain"))), said[0] if said else "")
    return "\n".join(printed), looked


def _text_of(output: Any) -> str:
    text = str(output.get("text", "") or output.get("data", {}).get("text/plain", "")).rstrip()
    lines = [plain_text(line, 240) for line in text[:LONGEST_OUTPUT].splitlines()]
    return "\n".join(lines[:MOST_LINES] + (["..."] if len(lines) > MOST_LINES or len(text) > LONGEST_OUTPUT else []))


def view(path: Path, exercises: dict[str, Exercise]) -> str:
    """The instructor's view of a notebook, as Markdown. LabError when it cannot be read, KitError when it asks nothing."""
    notebook = notebooks.load(path)
    cells, course, number = notebook.cells, notebook.metadata.get("course"), number_of(path.stem)
    if not cells or not course:
        raise KnobError(f"{path} does not say what it is for: nothing to say to an instructor. Choose a notebook of the course.")
    parts = sections_of(cells)
    return VIEW.render(
        number=number, title=cells[0].source.splitlines()[0].removeprefix("# "), file=path.name, course=course, minutes=minutes_of(cells),
        asked=[(part, list(map(lines_of, its))) for part, its in zip(parts, by_section(parts, cells), strict=True)],
        exercises=[exercise for exercise in exercises.values() if exercise.told.notebook == number],
        explained=[each for each in to_explain().values() if each.notebook == number], checked=checked_of,
    )  # fmt: skip


def checked_of(part: Section) -> int:
    """How many exercises a section has."""
    return sum(len(checked_in(cell.source)) for cell in part.cells if cell.cell_type == "code")


def by_section(parts: Sequence[Section], cells: Sequence[Any]) -> list[list[Asked]]:
    """The predictions of each section."""
    ends = list(accumulate(len(part.cells) for part in parts))
    found: list[list[Asked]] = [[] for _ in parts]
    for at, asked in predictions_of(cells):
        found[bisect_right(ends, at)].append(asked)
    return found


def lines_of(asked: Asked) -> list[str]:
    """One prediction as paragraphs of Markdown."""
    told = {"**Asked:** {}": asked.question, "**Right:** {}": asked.right, "```text\n{}\n```": asked.printed}
    return [form.format(text) for form, text in {**told, "**Then the notebook says:** {}": asked.look}.items() if text]


def template(name: str) -> jinja2.Template:
    """A page of Markdown beside this file."""
    forms = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return forms.from_string(Path(__file__).with_name(name).read_text(encoding="utf-8"))


VIEW = template("instructor.md")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
PAGE = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)


def page_of(markdown: str) -> str:
    """The same as a page of its own, which needs no network and runs no script."""
    from nbconvert.filters import markdown2html

    title = markdown.partition("\n")[0].removeprefix("# ").replace("`", "")
    page = PAGE.from_string(Path(__file__).with_suffix(".html").read_text(encoding="utf-8"))
    return page.render(policy=POLICY, title=title, body=markdown2html(markdown))
