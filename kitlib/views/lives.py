"""The life of one thing of a run: what happened to it, when, and by which rule of which model.

A thing is named by a *ref*, `kind:name`, which pictures carry as `data-ref`:

    record:orders/0/17   tuple:4   tree:-79…19   batch:0   request:3   answer:3   transaction:1
    member:A   process:broker 2   partition:orders/0   task:1_0   call:7   key:…

What a step is about stands with its word, in `kitlib/words/`. A record's life also holds what no step says of it:
each change of its box, with the step that made it. Where a producer is not the run's first one, the names of what is
its own begin with it: `batch:producer 2/0`.

Left out: a life itself, which the browser builds from this index (`player_lives.js`) and shows (`player_life.js`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from functools import cache, partial
from importlib import import_module
from itertools import groupby
from typing import Any, NamedTuple

from kitlib.settings import Settings
from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.film import differences
from kitlib.views.look import AGAIN, BADGES, LOOK_OF, LOSSES, ONCE
from kitlib.views.partition.reader import Lane
from kitlib.words.word import Domain, Word, place_name

PLACED = frozenset({"record", "marker"})  # kinds whose names begin with a topic and a partition
OF_PRODUCER = frozenset({"batch", "request", "answer"})  # kinds that each producer numbers by itself
NUMBERED = PLACED | OF_PRODUCER | {"tuple", "transaction", "call"}  # kinds whose names end with a number
MOST = 10**15  # numbers from here on are names
NAME = 60  # characters of a name
BADGE_WORDS = {ONCE: ", already processed", AGAIN: ", processed more than once"}
_BADGE = BADGES.encode()


class Mention(NamedTuple):
    """What a step is about: a whole name, or a range of numbers behind what their names begin with."""

    begin: str  # "record:orders/0/", "tuple:", or the whole ref
    first: int | None = None
    last: int | None = None


class Change(NamedTuple):
    """From a step on, the boxes of some records look another way."""

    step: int
    first: int
    last: int
    state: str


def index_of(trace: Trace, lanes: Iterable[Lane]) -> dict[str, Any]:
    """What each step is about, and which records' boxes it changes, small for the browser: names, verbs and states once.

    `at` and `verbOf`, `whoOf`, `refs` have one item a step; a ref is [name], [name, number] or [name, first, last].
    `lanes` are [name, [step, first, count, state, ...]]; numbers that rise are told as what they add to the one before.
    """
    table = trace.vocabulary
    names, verbs, who, states = Numbered(), Numbered(), Numbered(), Numbered()
    changed = []
    for lane in lanes:
        row, last = [names[f"record:{lane.place}/"]], 0
        told: list[int] = []
        for change in changes_of(lane):
            told += (change.step - last, change.first, change.last - change.first + 1, states[change.state])
            last = change.step
        changed.append([*row, told])

    def rules(word: Word | None) -> list[list[str]]:
        """Rule and place of what a word names, and of what it changes besides; [] where there is none."""
        found = (word.rule, word.aside) if word else (None, None)
        return [[rule.says, place_of(decider(table, trace.settings, rule.by))] if rule else [] for rule in found]

    return {
        "at": differences([step.at_ms for step in trace]),
        "verbOf": [verbs[step.what] for step in trace],
        "whoOf": [who[actor_name(step)] for step in trace],
        "refs": [[_told(names, mention) for mention in mentions] for mentions in mentions_in(trace)],
        "lanes": changed,
        "names": list(names),
        "who": list(who),
        "states": list(states),
        "rules": [rules(table.word(what)) for what in verbs],
        "within": dict(table.within),
    }


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
    length = lane.end - lane.base
    shown = b"." * length, b"0" * length  # codes, badges
    for step, view in lane.views():
        now, before = (view.codes.ljust(length, ".").encode(), view.flags.translate(_BADGE)), shown
        shown = now
        differing = 0  # the bytes that are not zero
        for fresh, old in zip(now, before, strict=True):
            differing |= int.from_bytes(fresh) ^ int.from_bytes(old)
        places = range(length - (differing.bit_length() + 7) // 8, length - ((differing & -differing).bit_length() - 1) // 8)
        for look, alike in groupby(places if differing else (), partial(_look_at, now, before)):
            if look:
                first, *rest = alike
                yield Change(step, lane.base + first, lane.base + (rest or [first])[-1], state_of(*look))


def _look_at(now: tuple[bytes, bytes], before: tuple[bytes, bytes], at: int) -> tuple[str, int] | None:
    """The code and badge of the box at a place; None where they are as before."""
    look = now[0][at], now[1][at]
    return None if look == (before[0][at], before[1][at]) else (chr(look[0]), int(chr(look[1])))


@cache
def state_of(code: str, badge: int) -> str:
    """What a record's box shows, in words: `in flight, already processed`, `lost: given up`."""
    return "lost: " * (code in LOSSES) + LOOK_OF[code].name + BADGE_WORDS.get(badge, "")


def _told(names: Numbered, mention: Mention) -> list[int]:
    if mention.first is None or mention.last is None:
        return [names[mention.begin]]
    return [names[mention.begin], mention.first, *([mention.last] if mention.last > mention.first else [])]


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
