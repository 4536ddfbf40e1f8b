"""Finds what a notebook says of a setting's default, and holds it against the value that the setting's owner tells.

A default may be said in one form only, right behind the setting's name, so that it can be checked:

    `linger.ms` (Java's default: 5 ms)
    `acks` (Java's default: `all`; librdkafka's default: `-1`)

Every other sentence that has a known setting, the word default and a value is a fault, right or wrong; so
is "`linger.ms` is 5", a value with the word default in the sentence after one that names a setting, and a
row of a table that has the word in its head. `acks=1` in backticks is an assignment, something that the
reader does: it says nothing of defaults, unless the word stands right beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from kitlib.lab import notebooks
from kitlib.lab.client_defaults import JAVA_CLASS, Setting, settings_of

WHOSE = {  # the word of a sentence -> where the value is read
    "Java's": ("java.producer", "java.consumer"),
    "Java's producer's": ("java.producer",),
    "Java's consumer's": ("java.consumer",),
    "Java's admin client's": ("java.admin",),
    "librdkafka's": ("librdkafka",),
    "kafka-python's": ("kafka-python.producer", "kafka-python.consumer"),
    "the broker's": ("broker.class",),
    "the topic's": ("topic",),
    "the group's": ("group",),
}
READ = tuple(dict.fromkeys(source for sources in WHOSE.values() for source in sources))
Known = Mapping[str, Mapping[str, Setting]]  # source -> name -> setting

BACKTICKED = re.compile(r"`([^`\n]+)`")
FORM = re.compile(r"`(?P<name>[a-z0-9._]+)`\s*\((?P<said>[^()]*\bdefault\b[^()]*)\)")
CLAUSE = re.compile(r"(?P<whose>.+?) default: (?P<value>.+)")
BARE = re.compile(r"(?<![\w.`/-])[a-z][a-z0-9]*(?:\.[a-z0-9]+)+(?![\w`/-])")  # a name without backticks
DEFAULT = re.compile(
    r"\bdefaults?\b|\bdefaulted\b|\bunless (?:\w+ ){0,3}(?:set|say|says|said|told|configured)\b|\bout of the box\b",
    re.IGNORECASE,
)
ASSIGNED = re.compile(
    r"`[a-z0-9._]+=[^`]+`[\s,(]*(?:(?:is|was|are|as|by|the|a|its|in|java|librdkafka|which|stays) )*defaults?\b"
    r"|\bdefaults?[\s:,=]*(?:(?:value|setting|is|are|of|to|the) )*`[a-z0-9._]+=[^`]+`",
    re.IGNORECASE,
)
NUMBER_WORDS = (
    *("zero", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve"),
    *("hundred", "thousand", "million", "infinite", "unlimited"),
)
VALUE = re.compile(rf"\d|\b(?:true|false|{'|'.join(NUMBER_WORDS)})\b|\b(?:is|to|of|value) one\b", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.!?])[*_\"')]*\s+(?=[*_`\"'(>]*[A-Z`])")
STATED = re.compile(
    r"`(?P<name>[a-z0-9._]+)`\*{0,2} (?:is|was|are|stands at|has the value|of)(?: set to)? \**`?(?:\d|true\b|false\b)"
)
NUMBER = re.compile(r"(?P<number>-?\d[\d,_]*(?:\.\d+)?)\s*(?P<unit>[A-Za-z]*)")
UNITS_OF_MS = {
    "ms": 1,
    "s": 1_000,
    "seconds": 1_000,
    "minute": 60_000,
    "minutes": 60_000,
    "hours": 3_600_000,
    "days": 86_400_000,
}
UNITS_OF_BYTES = {"byte": 1, "bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
UNLIMITED = (2**31 - 1, 2**63 - 1)


def is_name(word: str, known: Known) -> bool:
    """Whether a word in backticks is a setting of anybody's."""
    return ("." in word or word in ("acks", "retries", "partitioner")) and any(word in settings for settings in known.values())



def read_known() -> dict[str, Mapping[str, Setting]]:
    """What every source tells that a sentence may name; no broker is needed."""
    return {source: settings_of(source) for source in READ}


def faults_of(path: Path, known: Known) -> list[str]:
    """A sentence for each default in a notebook that is not said in the form, or not with the right value."""
    return [f"{path.name}, cell {number}: {fault}" for number, text in texts_of(path) for fault in faults(text, known)]


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """The Markdown of a notebook, and the comments of its code, with the numbers of the cells."""
    for number, cell in enumerate(notebooks.load(path).cells):
        if cell.cell_type == "markdown":
            yield number, cell.source
        else:
            yield number, "\n".join(re.findall(r"(?:^|\s)# *(.+)$", cell.source, re.MULTILINE))


def faults(text: str, known: Known) -> list[str]:
    """A sentence for each fault of a text."""
    found = []
    for block in blocks(text):
        found += [fault for form in FORM.finditer(block) for fault in wrong_values(form["name"], form["said"], known)]
        rest = FORM.sub(lambda form: f"`{form['name']}`", block)
        names_before = False
        for sentence in SENTENCE_END.split(rest):
            names = [each for each in (*BACKTICKED.findall(sentence), *BARE.findall(sentence)) if is_name(each, known)]
            if ASSIGNED.search(sentence) or (
                DEFAULT.search(sentence) and has_value(sentence, known) and (names or names_before)
            ):
                found.append(f"say a default as `name` (whose default: value), not as {sentence.strip()[:160]!r}")
            elif any(is_name(stated["name"], known) for stated in STATED.finditer(sentence)):
                found.append(f"say whose default or setting this is: {sentence.strip()[:160]!r}")
            names_before = names_before or bool(names)
    return found


def blocks(text: str) -> Iterator[str]:
    """The paragraphs, list items, headings and table rows of a Markdown text, each in one line; code left out.

    A row of a table whose head has the word default has it too.
    """
    text = re.sub(r"```.*?```", "\n", text, flags=re.DOTALL)
    text = re.sub(r"\n(?=\s*(?:[-*+]|\d+\.|#+|>)\s|\s*\|)", "\n\n", text)
    head: str | None = None
    for block in re.split(r"\n\s*\n", text):
        line = " ".join(block.split())
        if line.startswith("|"):
            head = line if head is None else head
            yield line if head is line or not DEFAULT.search(head) else f"default {line}"
        elif line:
            head = None
            yield line


def has_value(sentence: str, known: Known) -> bool:
    """Whether a sentence holds something that could be a value: a number, or a word in backticks that is no setting."""
    quoted = [each for each in BACKTICKED.findall(sentence) if "=" not in each and not is_name(each, known)]
    return bool(quoted) or VALUE.search(BARE.sub("", BACKTICKED.sub("", sentence))) is not None


def wrong_values(name: str, said: str, known: Known) -> Iterator[str]:
    """What is wrong with the values that are said of one setting."""
    for clause in said.split(";"):
        told = CLAUSE.fullmatch(clause.strip())
        if told is None or told["whose"] not in WHOSE:
            yield f"`{name}`: '{clause.strip()}' cannot be read, expected \"whose default: value\" with one of {', '.join(WHOSE)}"
            continue
        read = {source: known[source][name].default for source in WHOSE[told["whose"]] if name in known[source]}
        if not read:
            yield f"`{name}`: {told['whose'].removesuffix(chr(39) + 's')} has no such setting"
        elif not all(is_same(name, told["value"], value) for value in read.values()):
            yield f"`{name}`: the notebook says {told['value']}, read is {read}"


def is_same(name: str, said: str, read: str | None) -> bool:
    """Whether a value as people write it is the value that was read."""
    said, read = said.strip().strip("*").strip("`").strip(), JAVA_CLASS.sub(r"\1", read or "")
    if said in ("none", "nothing") and not read:
        return True
    number = as_number(name, said)
    if number is not None:
        try:
            return number == float(read)
        except ValueError:
            return False
    return re.sub(r"\s*,\s*", ",", said).lower() == read.lower()


def as_number(name: str, said: str) -> float | None:
    """The number in the setting's own unit; None when it is none, or in a unit that the setting does not have."""
    if said in ("unlimited", "infinite"):
        return float(UNLIMITED[0])
    told = NUMBER.fullmatch(said)
    if told is None:
        return None
    number, unit = float(told["number"].replace(",", "").replace("_", "")), told["unit"]
    if not unit:
        return number
    own = next((each for each in UNITS_OF_MS if name.endswith("." + each)), None)
    if own is not None:
        return number * UNITS_OF_MS[unit] / UNITS_OF_MS[own] if unit in UNITS_OF_MS else None
    return number * UNITS_OF_BYTES[unit] if unit in UNITS_OF_BYTES else None
