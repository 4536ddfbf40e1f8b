"""The words of a trace: for each domain one table, and in it everything about a verb.

A step says *what* happened in one verb of its trace's domain. A row of the table says what the verb
means: the fields that a step must and may hold, its sentence for a learner, the glyph that pictures show
for it, how much room it takes on a time axis, and what a verdict makes of it. A new verb is one row; a
step whose verb or field no row declares cannot be recorded.

    SPOUT = Domain("spout", {"ack": Word("Offset {offset:d} is acked.", "offset", judged="ack"), ...})

Where something happened, its `topic` and `partition`, may stand in every step and is not declared.

What a verb is about stands as `kind:field`, several of them separated by spaces. A field's value names one
thing, or as a list several; two numbers in such a list are the first and the last of a range.

    record:offset          the record at this offset of the step's topic and partition
    record:first-last      the records from one field's number to another's
    record:at+first-last   as many records as that, from the offset in the field `at` on
    record:ranges          those of all ranges of a list: [[0, 3], [7, 7]]
    tuple:tuples.0         what stands first in each row of a list: [[1, "split1-2", 16716], ...]
    partition:@            the step's own topic and partition
    process:=producer      always the same one

Who acts need not be declared: a step is in the life of its actor.

Left out: which domains there are (`kitlib.words`), what the verdicts are (`kitlib.monitor`), and how
glyphs are drawn (`kitlib.views`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kitlib.errors import TraceError
from kitlib.settings import Settings
from kitlib.text import plain_text
from kitlib.words.fields import ANYTHING, FIELDS, KINDS, Kind, is_whole
from kitlib.words.glyphs import Glyph
from kitlib.words.template import PHRASES, count, phrase, teller

Data = dict[str, Any]
Says = Callable[[str, Data], str]  # (who, data) -> the sentence
Mark = str | Callable[[Data], str]  # what makes a step worth jumping to, in one or two words; "" when nothing does
Range = list[int]  # [first, last], both inclusive

ANYWHERE = {"topic": "", "partition": ""}
MOST_SAID = 400  # characters of a sentence
MOST_OF_A_FIELD = 220  # characters of one text in it


@dataclass(frozen=True, slots=True)
class Rule:
    """Why something happens: a rule of a model, and the function that decides by it."""

    says: str  # one sentence
    by: str  # "mechanisms.partition_manager:PartitionManager.fail", below kitlib


def rules(model: str) -> Callable[[str, str], Rule]:
    """The rules that the functions of one class or module decide by, which `model` names up to its last "." or ":"."""
    return lambda function, says: Rule(says, model + function)


class Thing(NamedTuple):
    """A thing, or a range of numbered ones, that a step is about."""

    kind: str
    first: int | str  # its name, or the first one's number
    last: int | str  # the same again, or the last one's number


@dataclass(frozen=True, slots=True)
class Word:
    """A verb of one domain. Field names stand in one text, separated by spaces; `to:text` where a field is not of its usual kind."""

    says: str | Says  # a template (`kitlib.words.template`) over `who` and the fields, or a function; one sentence
    needs: str = ""  # fields that each step with this verb holds
    may: str = ""  # fields that a step may hold besides
    glyph: Glyph | None = None  # None: no picture shows it by itself
    room: float = 1.0  # of the time axis, where it counts steps
    judged: str = ""  # what a verdict makes of it; "" when a verdict ignores it
    about: str = ""  # the things that it is about: "record:offset", as above
    rule: Rule | None = None  # by which it happens to them; None for what a story or a learner does
    aside: Rule | None = None  # by which it changes things that it does not name; None: by `rule`
    sentence: Says = field(init=False, repr=False)  # raises what a template or function raises on data of another shape
    required: frozenset[str] = field(init=False, repr=False)
    kinds: Mapping[str, Kind] = field(init=False, repr=False)  # of all fields that a step may hold
    ranges: tuple[str, ...] = field(init=False, repr=False)  # those of them that hold ranges of records

    def __post_init__(self) -> None:
        needs, may = (dict(each.partition(":")[::2] for each in fields.split()) for fields in (self.needs, self.may))
        kinds = {name: KINDS[kind] if kind else FIELDS.get(name, ANYTHING) for name, kind in (ANYWHERE | needs | may).items()}
        object.__setattr__(self, "sentence", teller(self.says) if isinstance(self.says, str) else self.says)
        object.__setattr__(self, "required", frozenset(needs))
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "ranges", tuple(name for name, kind in kinds.items() if kind is KINDS["ranges"]))

    def check_values(self, data: Data) -> None:
        """TraceError when a field that the word declares holds something of another kind."""
        for name, value in data.items():
            self.kinds[name].check(name, value)

    def records(self, data: Data) -> int:
        """How many records a step names as ranges."""
        ranges = [each for name in self.ranges for each in data.get(name, ())]
        if "first" in data and "last" in data:
            ranges.append([data["first"], data["last"]])
        return sum(last - first + 1 for first, last in ranges)

    def things(self, data: Data) -> Iterator[Thing]:
        """What a step with these data is about; what the data do not hold is left out."""
        for told in self.about.split():
            kind, _, fields = told.partition(":")
            if fields.startswith("="):
                yield Thing(kind, fields[1:], fields[1:])
            elif fields == "@":
                yield from _things(kind, [[data.get("topic"), data.get("partition")]])
            elif "-" in fields:
                at, _, ends = fields.rpartition("+")
                first, last, begin = (data.get(name) for name in (*ends.split("-"), at or ends.split("-")[0]))
                if is_whole(first) and is_whole(last) and is_whole(begin):
                    yield Thing(kind, begin, begin + last - first)
            else:
                name, _, column = fields.partition(".")
                found: Any = data.get(name)
                values = found if isinstance(found, list) else [found]
                if column:
                    values = [row[int(column)] for row in values if isinstance(row, list) and int(column) < len(row)]
                yield from _things(kind, values)


def _things(kind: str, values: Iterable[Any]) -> Iterator[Thing]:
    """What values name: a number or a text itself, two numbers a range, a text and a number a place or a task."""
    for value in values:
        match value:
            case bool():
                pass
            case int() | str():
                yield Thing(kind, value, value)
            case [int() as first, int() as last, *_]:
                yield Thing(kind, first, last)
            case [str() as name, int() as number, *_]:
                yield Thing(kind, f"{name}/{number}", f"{name}/{number}")


# The verbs that every domain has.
EVERYWHERE = {
    "halt": Word(
        "The run stops here, at max_steps={max_steps}: anything that would come next is not in this trace.", "max_steps"
    ),
}


@dataclass(frozen=True, slots=True)
class Domain:
    """The words of one mechanism's traces."""

    name: str
    words: Mapping[str, Word]
    finish: Callable[[str, str, Data, str], str] | None = (
        None  # (who, what, data, sentence) -> the sentence as it is told
    )
    marks: Mapping[str, Mark] = field(default_factory=dict)  # of the verbs that a reader wants to jump to
    within: Mapping[str, str] = field(default_factory=dict)  # {"record": "batch"}: what becomes of the batch becomes of its records
    models: Callable[[Settings], Mapping[str, str]] | None = (
        None  # settings -> the class that a run has for another one: {"mechanisms.acker:Acker": "more.topology.later_acker:LaterAcker"}
    )

    def word(self, what: str) -> Word | None:
        """The row of a verb, or of one that every domain has; None for one that is not declared."""
        return self.words.get(what) or EVERYWHERE.get(what)

    def check(self, actor: str, what: str, data: Mapping[str, Any]) -> None:
        """TraceError when the verb is not one of this domain's, or the data are not what its row declares."""
        word = self.word(what)
        if word is not None and word.required <= data.keys() <= word.kinds.keys():
            return
        where = plain_text(f"{actor} {what} in the domain '{self.name}'", 120)
        if word is None:
            raise TraceError(f"{where}: this word is not declared. Add a row to its table in kitlib/words/.")
        missing, extra = sorted(word.required - data.keys()), sorted(data.keys() - word.kinds.keys())
        told = [f"it lacks {', '.join(missing)}"] if missing else []
        told += (
            [plain_text(f"{', '.join(extra)} {'is' if len(extra) == 1 else 'are'} not declared", 120)] if extra else []
        )
        raise TraceError(
            f"{where}: {' and '.join(told)}. Its table in kitlib/words/ declares {' '.join(sorted(word.required)) or 'nothing'}, "
            f"and perhaps {' '.join(sorted(word.kinds.keys() - word.required))}."
        )

    def sentence(self, actor: str, what: str, data: Data) -> str:
        """A step in one sentence: one printable line, not escaped for HTML. Data without a sentence are shown as they are."""
        word = self.word(what)
        if word is None:
            return as_it_stands(actor, what, data)
        who = plain_text(actor, 40)
        try:
            data = _printable(data)
            said = word.sentence(who, data)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return as_it_stands(actor, what, data)  # the data are not what the word promises
        return plain_text(self.finish(who, what, data, said) if self.finish else said, MOST_SAID)

    def judged(self, what: str) -> str:
        """What a verdict makes of a verb; "" for one that it ignores, or that is not declared."""
        word = self.word(what)
        return word.judged if word else ""

    def mark(self, what: str, data: Data) -> str:
        """What makes a step with this verb worth jumping to; "" when nothing does, or when the data are not what the word promises."""
        mark = self.marks.get(what, "")
        try:
            return mark if isinstance(mark, str) else mark(data)
        except (KeyError, TypeError):
            return ""

    def room(self, what: str) -> float:
        """How much of a time axis that counts steps a step with this verb takes; > 0."""
        word = self.word(what)
        return word.room if word else 1.0

    def having(self, words: Mapping[str, Word]) -> dict[str, Word]:
        """This domain's words with some replaced and some added."""
        return {**self.words, **words}


def with_room(words: Mapping[str, Word], others: float = 1.0, **room: float) -> dict[str, Word]:
    """The words with the room that each takes on the time axis."""
    return {what: replace(word, room=room.get(what, others)) for what, word in words.items()}


def _printable(value: Any) -> Any:
    """The same value with each text in it as one short printable line, so that no row of a table has to see to that."""
    if isinstance(value, str):
        return plain_text(value, MOST_OF_A_FIELD)
    if isinstance(value, dict):
        return {key: _printable(each) for key, each in value.items()}
    return [_printable(each) for each in value] if isinstance(value, list | tuple) else value


def as_it_stands(actor: str, what: str, data: Data) -> str:
    """The step's actor, word and data, where there is no sentence for them."""
    told = ", ".join(f"{key} {value}" for key, value in data.items() if key not in ANYWHERE)
    return plain_text(f"{actor}: {what} {told}".strip())


def span(first: int, last: int) -> str:
    """`offset 7`, or `offsets 7 to 9`."""
    return f"offset {first:d}" if first == last else f"offsets {first:d} to {last:d}"


@phrase
def spans(ranges: list[Range]) -> str:
    """`offsets 7 to 9, 12`, at most four ranges of them."""
    told = [f"{a:d}" if a == b else f"{a:d} to {b:d}" for a, b in ranges[:4]]
    more = f" and {len(ranges) - 4} more ranges" if len(ranges) > 4 else ""
    is_one = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return f"{'offset' if is_one else 'offsets'} {', '.join(told)}{more}"


PHRASES["len"] = lambda values: str(len(values))
PHRASES["span"] = lambda data: span(data["first"], data["last"])


@phrase
def arriving(data: Data) -> str:
    """`1 record arrives`, `3 records arrive`."""
    number = len(data["offsets"]) if "offsets" in data else data["last"] - data["first"] + 1
    return f"{count(number, 'record')} {'arrives' if number == 1 else 'arrive'}"


@phrase
def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


@phrase
def be(number: int | list[Any]) -> str:
    """`is`, or `are`."""
    return "is" if (len(number) if isinstance(number, list) else number) == 1 else "are"


@phrase
def listed(names: Iterable[Any]) -> str:
    """`range, sticky`."""
    return ", ".join(plain_text(name, 40) for name in names)


def place(data: Mapping[str, Any], run: str) -> str:
    """`orders, partition 0`: without the run's own prefix, so that both backends' pictures say the same."""
    topic = str(data["topic"]).removeprefix(f"kit.{run}.")
    return f"{plain_text(topic, 60)}, partition {plain_text(data['partition'], 12)}"


def place_name(data: Mapping[str, Any], run: str) -> str:
    """`orders/0`: the same as a name, for refs."""
    return f"{plain_text(str(data['topic']).removeprefix(f'kit.{run}.'), 60)}/{plain_text(data['partition'], 12)}"
