"""Finds the numbers that a notebook says in prose, and holds them against what the cells beside them show.

A number of a section's text (in digits, or in words from four on) is *held* when a code cell of the same section has it, in its
source or in its stored output, or when it is a default of an experiment that the section is about to run; 1,500 ms hold 1.5 s as well. So
a number that no run gives any more is found, as soon as the notebooks have been run again. What is left out: pictures, whose axes
hold any number; the title's section; what is in backticks, and the numbers of releases, issues, notebooks and sections.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kitlib import exercises
from kitlib.experiments import get, names

ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
WORDS = {word: value for value, word in enumerate(ONES)} | {word: 10 * value for value, word in enumerate(TENS, 2)}
LEAST_WORD = 4  # one, two and three are more often no count
DIGITS = r"\d[\d,]*(?:\.\d+)?"
IN_PROSE = re.compile(rf"(?<![\w.#-]){DIGITS}(?![\w]|\.\d)")
IN_WORDS = re.compile(rf"\b(?:({'|'.join(TENS)})-({'|'.join(ONES[1:10])})|({'|'.join(WORDS)}))\b", re.IGNORECASE)
NAMED = r"(?:[Nn]otebooks?|[Ss]ections?|[Pp]arts?|[Rr]ounds?|[Ee]xercises?|Storm|Kafka|KIP|[Rr]eleases?|[Vv]ersions?)"
NO_COUNT = re.compile(
    rf"```[\s\S]*?```|`[^`]*`|\]\([^)]*\)|^#+ .*$|^\| \d\d |\*\*\d\d[a-z]?, |^\s*\d+\. |\(\d\)|\b{NAMED}\s+\d+(?:\.\d+)*(?:(?:, | and | to )\d+(?:\.\d+)*)*",
    re.MULTILINE,
)
HEADING = re.compile(r"^(?=##? )", re.MULTILINE)
Section = list[tuple[str, str]]  # of kinds ("text", "shown", "default") and what they say


def sections(path: Path) -> Iterator[Section]:
    """The sections of a notebook after its title: what stands under one heading, texts and what cells say and show.

    To the exercises belong all cells, and the code that checks them.
    """
    found: list[Section] = [[]]
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            before, *headed = HEADING.split(source)
            found[-1].append(("text", before))
            found += [[("text", part)] for part in headed]
        else:
            found[-1] += [("shown", "\n".join([source, *map(shown, cell["outputs"])])), ("default", defaults(source))]
    everywhere = [each for section in found for each in section if each[0] != "text"]
    checks = Path(exercises.__file__).with_name(f"nb_{path.stem[:2]}.py")
    for section in found[2:]:
        if section[0][1].startswith("## Exercises"):
            section += [*everywhere, ("shown", checks.read_text(encoding="utf-8"))]
        yield section


def shown(output: dict[str, Any]) -> str:
    return "".join(output.get("text") or output.get("data", {}).get("text/plain") or "")


def defaults(source: str) -> str:
    """The knobs of the experiments that a cell names, at their defaults."""
    found = [name for name in re.findall(r"\"(\w+)\"", source) if name in names()]
    return " ".join(str(knob.default) for name in found for knob in get(name).knobs)


def values(text: str) -> set[str]:
    """The numbers of what is shown, as plain as possible; each also as a thousandth, for ms and s."""
    plain = {number.replace(",", "").rstrip(".") for number in re.findall(DIGITS, text.replace("_", ""))}
    return plain | {f"{float(number) / 1_000:g}" for number in plain} | {f"{float(number):g}" for number in plain}


def said(text: str) -> Iterator[tuple[str, str]]:
    """The numbers of a text, in digits, each with the words around it."""
    counts = NO_COUNT.sub(" ", text)
    for found in sorted([*IN_PROSE.finditer(counts), *IN_WORDS.finditer(counts)], key=re.Match.start):
        number = found[0].replace(",", "").rstrip(".")
        if found.re is IN_WORDS:
            tens, one, word = (part and part.lower() for part in found.groups())
            value = WORDS[word] if word else WORDS[tens] + WORDS[one]
            number = str(value) if value >= LEAST_WORD else ""
        if number:
            yield number, " ".join(counts[max(0, found.start() - 40) : found.end() + 40].split())


def held_and_free(path: Path) -> tuple[int, list[tuple[str, str]]]:
    """How many numbers of a notebook's prose are held, and which are not, with the words around them."""
    held, free = 0, []
    for section in sections(path):
        have = {value for kind, text in section if kind == "shown" for value in values(text)}
        for at, (kind, text) in enumerate(section):
            if kind == "text":
                begun = {value for kind, text in section[at:] if kind == "default" for value in values(text)}
                numbers = list(said(text))
                free += [number for number in numbers if number[0] not in have | begun]
                held += sum(number[0] in have | begun for number in numbers)
    return held, free
