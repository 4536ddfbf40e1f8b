"""The words of the exercises, each said once: questions in the notebooks, hints and answers in `notebooks/answers`, beside them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kitlib.errors import KitError
from kitlib.lab.jupyter import INSTALLED

CODE = re.compile(r"^```python\n(.+?)\n```\n", re.DOTALL | re.MULTILINE)
ASKS = re.compile(r"^(?:\w+ = )?(?:check|explain)\(\"(\w+)\"", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is told of an exercise, or of a question to explain, when it is time."""

    name: str  # unique in the kit
    notebook: str  # "04b"
    hints: tuple[str, ...]  # each one says more than the one before; none of a question to explain
    says: dict[str, str]  # what a check says, by its name; with places for values
    looks: dict[str, str]  # where to look next, by the same names
    code: str  # a right answer as a learner would write it, with its imports; "" of a question to explain
    text: str  # what else is right and what it costs, or what an instructor would accept

    @property
    def question(self) -> str:
        """As the notebook asks it."""
        return questions(self.notebook)[self.name]

    @property
    def solution(self) -> Any:
        """The right answer itself: the value of its code, or the function or class that the code ends with."""
        return made_by(self.code)


@cache
def made_by(code: str) -> Any:
    """What a right answer's code makes."""
    names: dict[str, Any] = {"__name__": "notebooks.answers"}  # a module that is not there, so what it defines is sent by value
    try:
        return eval(code, names)  # noqa: S307 - the kit's own text
    except SyntaxError:
        exec(code, names)  # noqa: S102
        return [*names.values()][-1]


def folder() -> Path:
    """The notebooks beside this very kitlib: in its checkout, or where its wheel has put them."""
    found = next((root / "notebooks" for root in (Path(__file__).parents[2], INSTALLED) if (root / "notebooks" / "answers").is_dir()), None)
    if found is None:
        raise KitError(f"the notebooks of the kit are neither in {Path(__file__).parents[2]} nor in {INSTALLED}. Install it again.")
    return found


@cache
def answers() -> dict[str, Answer]:
    """By name, in the order of the notebooks."""
    found = {}
    for path in sorted(folder().glob("answers/*.md")):
        for section in path.read_text(encoding="utf-8").split("\n## ")[1:]:
            code = "".join(CODE.findall(section))
            name, *blocks = re.split(r"\n\n+", CODE.sub("", section).strip())
            hints = [each for block in blocks[:-1] for each in items(block, r"\d+\.")]
            parts = [re.fullmatch(r"(.+?):( .+?)??(?: Look: (.+))?", each) for block in blocks[:-1] for each in items(block, r"\*")]
            says = {part[1]: part[2].strip() for part in parts if part and part[2]}
            looks = {part[1]: part[3] for part in parts if part and part[3]}
            found[name] = Answer(name, path.stem, tuple(hints), says, looks, code, " ".join(blocks[-1].split()))
    return found


def items(block: str, mark: str) -> list[str]:
    """The items of a list, each on one line; [] where the block is no such list."""
    return [" ".join(item.split()) for item in re.split(rf"^{mark} ", f"\n{block}", flags=re.MULTILINE)[1:]]


def to_explain() -> dict[str, Answer]:
    """The questions that begin with *Explain*: a text is compared with the model answer by the person who wrote it."""
    return {name: each for name, each in answers().items() if not each.hints}


@cache
def questions(notebook: str) -> dict[str, str]:
    """What a notebook asks before each cell that checks an answer or shows a model one: the text above it, without headings."""
    [path] = folder().glob(f"{notebook}_*.ipynb")
    found, told = {}, ""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and not source.startswith("**Think"):
            told = source[max(source.find("**Explain"), 0) :]
            told = "\n\n".join(part for part in re.split(r"\n\n+", told) if not part.startswith("#"))
        elif cell["cell_type"] == "code":
            found.update(dict.fromkeys(ASKS.findall(source), told))
    return found
