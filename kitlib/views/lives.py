"""The life of one thing of a run: what happened to it, when, and by which rule of which model.

A thing is named by a *ref*, `kind:name`, which pictures carry as `data-ref`:

    record:orders/0/17   tuple:4   tree:-79…19   batch:0   request:3   answer:3   transaction:1
    member:A   process:broker 2   partition:orders/0   task:1_0   call:7   key:…

What a step is about stands with its word, in `kitlib/words/`. A record's life also holds what no step says of it:
each change of its box, with the step that made it. Where a producer is not the run's first one, the names of what is
its own begin with it: `batch:producer 2/0`.

    print(life(trace, "record:orders/0/17"))

Left out: how a life is shown in the browser (`player_life.js`), which builds it from the same index.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import islice
from typing import Any, NamedTuple

from kitlib.errors import TraceError
from kitlib.settings import Settings
from kitlib.text import html_table, plain_text, text_table
from kitlib.trace import Step, Trace
from kitlib.views.frames import Frames, to_frames
from kitlib.views.look import AGAIN, BADGES, LOOK_OF, LOSSES, ONCE
from kitlib.views.partition.reader import Lane, codes_of, flip
from kitlib.words.word import Domain, Rule, Word, place_name

ACTORS = ("member", "process")  # kinds whose things act: a step is in the life of its actor
PLACED = frozenset({"record", "marker"})  # kinds whose names begin with a topic and a partition
OF_PRODUCER = frozenset({"batch", "request", "answer"})  # kinds that each producer numbers by itself
NUMBERED = PLACED | OF_PRODUCER | {"tuple", "transaction", "call"}  # kinds whose names end with a number
MOST_THINGS = 1_000
MOST = 10**15  # numbers from here on are names
NAME = 60  # characters of a name
BADGE_WORDS = {ONCE: ", already processed", AGAIN: ", processed more than once"}
_BADGE = BADGES.encode()
_NO_MARKS = (1, 1, 1, 1)


class Mention(NamedTuple):
    """What a step is about: a whole name, or a range of numbers behind what their names begin with."""

    begin: str  # "record:orders/0/", "tuple:", or the whole ref
    first: int | None = None
    last: int | None = None

    def refs(self) -> Iterator[str]:
        """The refs of all things in it."""
        if self.first is None or self.last is None:
            yield self.begin
        else:
            for number in range(self.first, self.last + 1):
                yield f"{self.begin}{number}"

    def has(self, ref: Mention) -> bool:
        """Whether one thing is in it."""
        if self.begin != ref.begin or self.first is None or self.last is None or ref.first is None:
            return self == ref
        return self.first <= ref.first <= self.last


class Change(NamedTuple):
    """From a step on, the boxes of some records look another way."""

    step: int
    first: int
    last: int
    state: str


class Event(NamedTuple):
    """One row of a life."""

    step: int
    at_ms: int
    said: str  # the step's sentence
    state: str  # what a record's box shows from now on; "" when that stays
    rule: Rule | None

    @property
    def why(self) -> str:
        """The rule and the line of the model that decided; "" when no model did."""
        return f"{self.rule.says} {place_of(self.rule.by)}" if self.rule else ""


@dataclass(frozen=True, slots=True)
class Life:
    """What happened to one thing, in order. Prints as a table."""

    ref: str
    events: tuple[Event, ...]

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Time, sentence, what its box shows from then on, and why."""
        return [(f"{each.at_ms:,} ms", each.said, each.state, each.why) for each in self.events]

    def __str__(self) -> str:
        return "\n".join([self.ref, *text_table(self.rows(), left=4)])

    def _repr_html_(self) -> str:
        return html_table(("when", f"what happened to {self.ref}", "now", "why"), self.rows())


def life(trace: Trace, ref: str) -> Life:
    """The life of the thing with this ref. TraceError when nothing of that name occurs in the trace."""
    found = Lives(trace, to_frames(trace)).of(ref)
    if not found:
        raise TraceError(f"trace {plain_text(trace.run, 60)}: {_unknown(trace, ref)}")
    return Life(plain_text(ref, 120), tuple(found))


def things(trace: Trace, at: int) -> list[str]:
    """The refs of what step `at` is about, the first 1,000 of a range. TraceError when there is no such step."""
    trace.at(at)
    return list(dict.fromkeys(ref for mention in mentions_in(trace)[at] for ref in islice(mention.refs(), MOST_THINGS)))


def _unknown(trace: Trace, ref: str) -> str:
    shown = [next(mention.refs()) for mentions in mentions_in(trace)[:40] for mention in mentions]
    some = ", ".join(list(dict.fromkeys(plain_text(each, 60) for each in shown))[:6]) or "nothing: it is empty"
    return f"nothing happens to {plain_text(ref, 80)!r}. Expected kind:name of something in the run, such as {some}."


@dataclass(slots=True)
class Lives:
    """What each step of a trace is about, and which records' boxes it changes: the index of all lives."""

    trace: Trace
    frames: Frames
    mentions: list[list[Mention]] = field(init=False)  # per step
    changes: dict[str, list[Change]] = field(init=False)  # what records' refs begin with -> in the order of steps

    def __post_init__(self) -> None:
        self.mentions = mentions_in(self.trace)
        self.changes = {f"record:{lane.place}/": list(changes_of(lane)) for lane in self.frames.lanes}

    def of(self, ref: str) -> list[Event]:
        """The life of a thing; nothing when it does not occur."""
        kind, _, name = ref.partition(":")
        asked = _asked(ref)
        named = [number for number, mentions in enumerate(self.mentions) if any(one.has(asked) for one in mentions)]
        steps = {*named, *self._of_container(kind, named)}
        if kind in ACTORS:
            steps |= {step.number for step in self.trace if actor_name(step) == name}
        states = {
            change.step: change.state
            for change in self.changes.get(asked.begin, ())
            if asked.first is not None and change.first <= asked.first <= change.last
        }
        return [self._event(number, number in steps, states.get(number, "")) for number in sorted(steps | states.keys())]

    def _of_container(self, kind: str, named: Iterable[int]) -> Iterator[int]:
        """Steps about what the thing is part of (a record's batch), unless they name other things of its kind."""
        container = self.trace.vocabulary.within.get(kind)
        if container is None:
            return
        own = {one for number in named for one in self.mentions[number] if _kind(one) == container}
        for number, mentions in enumerate(self.mentions):
            if own.intersection(mentions) and not any(_kind(one) == kind for one in mentions):
                yield number

    def _event(self, number: int, is_named: bool, state: str) -> Event:
        step = self.trace.steps[number]
        word = self.trace.vocabulary.word(step.what)
        rule = None if word is None else word.rule if is_named else word.aside or word.rule
        return Event(number, step.at_ms, self.frames.sentence(number), state, rule and self.rule(rule))

    def rule(self, rule: Rule) -> Rule:
        """The rule, decided by the model that this run has."""
        return Rule(rule.says, decider(self.trace.vocabulary, self.trace.settings, rule.by))

    def to_json(self) -> dict[str, Any]:
        """All of it for the browser, small: names, verbs and states once, numbers as differences.

        `at` and `verbOf`, `whoOf`, `refs` have one item a step; a ref is [name], [name, number] or [name, first, last].
        `lanes` are [name, [step, first, count, state, ...]], the steps told as what they add to the one before.
        """
        steps, table = self.trace.steps, self.trace.vocabulary
        names, verbs, who, states = Numbered(), Numbered(), Numbered(), Numbered()
        lanes = []
        for begin, changes in self.changes.items():
            row, last = [names[begin]], 0
            told: list[int] = []
            for change in changes:
                told += (change.step - last, change.first, change.last - change.first + 1, states[change.state])
                last = change.step
            lanes.append([*row, told])
        refs = [[_told(names, mention) for mention in mentions] for mentions in self.mentions]
        at = [step.at_ms for step in steps]
        return {
            "at": [now - before for before, now in zip([0, *at], at, strict=False)],
            "verbOf": [verbs[step.what] for step in steps],
            "whoOf": [who[actor_name(step)] for step in steps],
            "refs": refs,
            "lanes": lanes,
            "names": list(names),
            "who": list(who),
            "states": list(states),
            "rules": [self._rules(table.word(what)) for what in verbs],
            "within": dict(table.within),
        }

    def _rules(self, word: Word | None) -> list[list[str]]:
        """Rule and place of what a word names, and of what it changes besides; [] where there is none."""
        told = (word.rule, word.aside) if word else (None, None)
        return [[rule.says, place_of(self.rule(rule).by)] if rule else [] for rule in told]


class Numbered(dict[str, int]):
    """Texts, numbered as they are asked for."""

    def __missing__(self, key: str) -> int:
        self[key] = len(self)
        return self[key]


class Context:
    """What the steps before say of one: whose batch it is, and which transaction a marker ends."""

    def __init__(self) -> None:
        self.first = ""  # the first producer's names stand alone
        self.sent: dict[tuple[Any, Any], list[Step]] = {}  # request and batch -> the requests with these numbers
        self.written: dict[Any, Any] = {}  # producer id -> the transaction of its newest batch

    def owner(self, step: Step) -> str:
        """`producer 2/` before what belongs to it; "" for the first producer's. Several producers number alike."""
        if step.actor.startswith("producer"):
            self.first = self.first or step.actor
            if step.what == "request":
                self.sent.setdefault((step.data.get("request"), step.data.get("batch")), []).append(step)
            actor = step.actor
        else:
            fields = ("first", "epoch", "pid")
            found = self.sent.get((step.data.get("request"), step.data.get("batch")), ())
            alike = [one for one in found if all(step.data.get(each, one.data.get(each)) == one.data.get(each) for each in fields)]
            actor = alike[-1].actor if alike else self.first
        return "" if actor == self.first else f"{plain_text(actor, NAME)}/"

    def ended(self, step: Step) -> Iterator[Mention]:
        """The transaction that a marker ends: the newest that its producer has written in."""
        producer = step.data.get("pid")
        if step.what == "write" and isinstance(step.data.get("tx"), int):
            self.written[producer] = step.data["tx"]
        elif step.what == "marker" and producer in self.written:
            yield Mention("transaction:", self.written[producer], self.written[producer])


def processes_of(trace: Trace) -> set[str]:
    """The names of all who act in a trace, or are always meant by one of its verbs: `process:` and one of them has a life."""
    words = (trace.vocabulary.word(what) for what in {step.what for step in trace})
    meant = (thing.first for word in words if word for thing in word.things({}) if thing.kind == "process")
    return {actor_name(step) for step in trace} | {str(name) for name in meant}


def mentions_in(trace: Trace) -> list[list[Mention]]:
    """What each step is about."""
    before = Context()
    told = ((trace.vocabulary.word(step.what), step) for step in trace.steps)
    return [[*mentions_of(word, step, trace.run, before.owner(step)), *before.ended(step)] if word else [] for word, step in told]


def mentions_of(word: Word, step: Step, run: str, owner: str = "") -> Iterator[Mention]:
    """What one step is about."""
    for kind, first, last in word.things(step.data):
        begin = f"{kind}:{owner if kind in OF_PRODUCER else ''}"
        if kind in PLACED:
            if not {"topic", "partition"} <= step.data.keys():
                continue
            begin += f"{place_name(step.data, run)}/"
        if kind == "partition":
            yield Mention(begin + plain_text(str(first).removeprefix(f"kit.{run}."), NAME))
        elif kind in NUMBERED and isinstance(first, int) and isinstance(last, int) and 0 <= first <= last < MOST:
            yield Mention(begin, first, last)
        else:
            yield Mention(begin + plain_text(first, NAME))


def actor_name(step: Step) -> str:
    """The actor as refs name it."""
    return plain_text(step.actor, NAME)


def changes_of(lane: Lane) -> Iterator[Change]:
    """Each change of a lane's boxes, runs of records alike in one."""
    length, base = lane.end - lane.base, lane.base
    flags, codes, badges = bytearray(length), bytearray(b"." * length), bytearray(b"0" * length)
    marks = tuple(base * one for one in _NO_MARKS)
    for place, step in enumerate(lane.steps):
        start, _, committed, emitted = now = lane.marks[place]
        flip(flags, lane.toggles[place])
        spans = [(first, first + count) for first, count, _ in lane.toggles[place]]
        for before, after in ((marks[0], start), (marks[2], committed), (marks[3], emitted)):
            low, high = sorted((min(max(before - base, 0), length), min(max(after - base, 0), length)))
            spans.append((low, high))
        marks = now
        for low, high in _joined(spans):
            fresh = codes_of(flags[low:high], base + low, now).encode()
            band = flags[low:high].translate(_BADGE)
            if fresh == codes[low:high] and band == badges[low:high]:
                continue
            for first, last in _differing(low, fresh, band, (codes, badges)):
                yield Change(step, base + first, base + last, state_of(chr(fresh[first - low]), int(chr(band[first - low]))))
            codes[low:high], badges[low:high] = fresh, band


@cache
def state_of(code: str, badge: int) -> str:
    """What a record's box shows, in words: `in flight, already processed`, `lost: given up`."""
    return "lost: " * (code in LOSSES) + LOOK_OF[code].name + BADGE_WORDS.get(badge, "")


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in ascending order, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(span for span in spans if span[0] < span[1]):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return joined


def _differing(low: int, codes: bytes, badges: bytes | bytearray, before: tuple[bytearray, bytearray]) -> Iterator[tuple[int, int]]:
    """Runs of places that look another way than before, each alike in itself."""
    first = -1
    for at in range(low, low + len(codes) + 1):
        here = at - low
        is_other = here < len(codes) and (codes[here], badges[here]) != (before[0][at], before[1][at])
        if first >= 0 and not (is_other and (codes[here], badges[here]) == (codes[first - low], badges[first - low])):
            yield first, at - 1
            first = -1
        if is_other and first < 0:
            first = at


def _told(names: Numbered, mention: Mention) -> list[int]:
    if mention.first is None or mention.last is None:
        return [names[mention.begin]]
    return [names[mention.begin], mention.first, *([mention.last] if mention.last > mention.first else [])]


def _kind(mention: Mention) -> str:
    return mention.begin.partition(":")[0]


def _asked(ref: str) -> Mention:
    """The one thing that a ref names."""
    digits = len(ref) - len(ref.rstrip("0123456789"))
    begin, number = (ref[:-digits], ref[-digits:]) if digits else (ref, "")
    if number and begin[-1:] in (":", "/") and len(number) <= 15 and _kind(Mention(ref)) in NUMBERED:
        return Mention(begin, int(number), int(number))
    return Mention(ref)


def decider(table: Domain, settings: Settings, by: str) -> str:
    """The function that decides in this run: of the class that its knobs name, where there are several."""
    owner, _, method = by.rpartition(".")
    models = table.models(settings) if table.models else {}
    return f"{models[owner]}.{method}" if owner in models else by


@cache
def place_of(by: str) -> str:
    """`kitlib/mechanisms/partition_manager.py, line 216, PartitionManager.fail`: where a rule's function stands."""
    module, _, path = by.partition(":")
    found: Any = import_module(f"kitlib.{module}")
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    function = inspect.unwrap(getattr(found, "fget", None) or getattr(found, "__func__", found))
    is_package = hasattr(import_module(function.__module__), "__path__")
    path = function.__module__.replace(".", "/") + ("/__init__.py" if is_package else ".py")
    return f"{path}, line {function.__code__.co_firstlineno}, {function.__qualname__}"
