"""The words of a trace: for each domain one table, and in it everything about a verb.

A step says *what* happened in one verb of its trace's domain. A row of the table says what the verb
means: the fields that a step must and may hold, its sentence for a learner, the glyph that pictures show
for it, how much room it takes on a time axis, and what a verdict makes of it. A new verb is one row; a
step whose verb or field no row declares cannot be recorded.

    SPOUT = Domain("spout", {"ack": Word("Offset {offset:d} is acked.", "offset", judged="ack"), ...})

Where something happened, its `topic` and `partition`, may stand in every step and is not declared.

Left out: which domains there are (`kitlib.words`), what the verdicts are (`kitlib.monitor`), and how
glyphs are drawn (`kitlib.views`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kitlib.errors import TraceError
from kitlib.text import plain_text
from kitlib.words.glyphs import Glyph

Data = dict[str, Any]
Says = Callable[[str, Data], str]  # (who, data) -> the sentence
Mark = str | Callable[[Data], str]  # what makes a step worth jumping to, in one or two words; "" when nothing does
Range = list[int]  # [first, last], both inclusive

ANYWHERE = frozenset({"topic", "partition"})
MOST_SAID = 400  # characters of a sentence
MOST_OF_A_FIELD = 220  # characters of one text in it


@dataclass(frozen=True, slots=True)
class Word:
    """A verb of one domain. Field names stand in one text, separated by spaces."""

    says: str | Says  # a template over `who` and the fields, or a function; one sentence
    needs: str = ""  # fields that each step with this verb holds
    may: str = ""  # fields that a step may hold besides
    glyph: Glyph | None = None  # None: no picture shows it by itself
    room: float = 1.0  # of the time axis, where it counts steps
    judged: str = ""  # what a verdict makes of it; "" when a verdict ignores it
    required: frozenset[str] = field(init=False, repr=False)
    allowed: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        required = frozenset(self.needs.split())
        object.__setattr__(self, "required", required)
        object.__setattr__(self, "allowed", required | ANYWHERE | frozenset(self.may.split()))

    def sentence(self, who: str, data: Data) -> str:
        """What a step with this verb says. Raises what a template or function raises on data of another shape."""
        return self.says.format(who=who, **data) if isinstance(self.says, str) else self.says(who, data)


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

    def word(self, what: str) -> Word | None:
        """The row of a verb, or of one that every domain has; None for one that is not declared."""
        return self.words.get(what) or EVERYWHERE.get(what)

    def check(self, actor: str, what: str, data: Mapping[str, Any]) -> None:
        """TraceError when the verb is not one of this domain's, or the data are not what its row declares."""
        word = self.word(what)
        if word is not None and word.required <= data.keys() <= word.allowed:
            return
        where = plain_text(f"{actor} {what} in the domain '{self.name}'", 120)
        if word is None:
            raise TraceError(f"{where}: this word is not declared. Add a row to its table in kitlib/words/.")
        missing, extra = sorted(word.required - data.keys()), sorted(data.keys() - word.allowed)
        told = [f"it lacks {', '.join(missing)}"] if missing else []
        told += (
            [plain_text(f"{', '.join(extra)} {'is' if len(extra) == 1 else 'are'} not declared", 120)] if extra else []
        )
        raise TraceError(
            f"{where}: {' and '.join(told)}. Its table in kitlib/words/ declares {' '.join(sorted(word.required)) or 'nothing'}, "
            f"and perhaps {' '.join(sorted(word.allowed - word.required))}."
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


# -- phrases that the sentences of all domains share ----------------------------------------------------


def count(number: int, one: str, many: str = "") -> str:
    """`1 record`, `1,000 records`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def span(first: int, last: int) -> str:
    """`offset 7`, or `offsets 7 to 9`."""
    return f"offset {first:d}" if first == last else f"offsets {first:d} to {last:d}"


def spans(ranges: list[Range]) -> str:
    """`offsets 7 to 9, 12`, at most four ranges of them."""
    told = [f"{a:d}" if a == b else f"{a:d} to {b:d}" for a, b in ranges[:4]]
    more = f" and {len(ranges) - 4} more ranges" if len(ranges) > 4 else ""
    is_one = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return f"{'offset' if is_one else 'offsets'} {', '.join(told)}{more}"


def place(data: Mapping[str, Any], run: str) -> str:
    """`orders, partition 0`: without the run's own prefix, so that both backends' pictures say the same."""
    topic = str(data["topic"]).removeprefix(f"kit.{run}.")
    return f"{plain_text(topic, 60)}, partition {plain_text(data['partition'], 12)}"
