"""The stage: who acts in a run, and what travels between them, as a score that a player plays.

A trace says what happened; a stage shows it happening. *Actors* are the processes and the logs of a run: each has its place,
from when to when it is up, and a line of what it holds. *Travellers* are the records, tuples and requests between them: each
leaves one actor at one time and arrives at another one, or is lost in transit and falls. Times are places of the run's
`PlayClock`, in seconds of play.

What each verb does on the stage is read from one table per domain (`kitlib.views.stage.domains`); a row is a few *deeds*
(`kitlib.views.stage.deeds`):

    "emit": (hops("log", WHO, "record", "{offset}"), leaves(WHO, "bolt", "tuple", tuple_key, "{offset}")),
    "process": (arrives(tuple_key),),
    "crash": (becomes("down", "spout", "bolt"), loses_all("spout", "bolt")),

The actors of each part stand in a column of their own, or in a row at the foot. Many equal travellers become one, with their
number. Left out: the drawing (`kitlib.views.stage.picture`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.play_clock import PlayClock
from kitlib.words.glyphs import BLUE, GREEN, ORANGE, PINK, RED, SKY

HOP_S = 0.55  # what crosses at once is seen for so long
REST_S = 2.5  # what fell lies for so long,
MOST_REST_S = 7.0  # or until whoever lost it is back, but no longer than this
BACK_S = 1.1  # how long what came back is marked
SAYS_S = 1.5  # how long a bubble stands
LANES = 11  # side by side, what crosses between the same two
State = Literal["up", "down", "back", "frozen", "cut off", "away", "fenced"]  # of an actor
Fate = Literal["arrived", "lost", "refused", "dropped"]  # of a traveller


@dataclass(frozen=True, slots=True)
class Style:
    """What one kind of traveller looks like, and means."""

    name: str
    meaning: str  # for the legend
    colour: str
    shape: str = "pill"  # pill | dot | square | bubble
    text: str = "#000000"


STYLES = {
    each.name: each
    for each in (
        Style("record", "a record", SKY),
        Style("tuple", "a tuple, in flight", ORANGE),
        Style("again", "sent once more", RED),
        Style("effect", "its effect", GREEN, "dot"),
        Style("copy", "its effect once more", PINK),
        Style("ack", "an ack, or an answer", BLUE, "dot"),
        Style("fail", "a failure, or a refusal", RED, "dot"),
        Style("commit", "a commit", BLUE, "square", "#FFFFFF"),
        Style("request", "a request with its records", ORANGE, "square"),
        Style("question", "a question, or an order", SKY, "dot"),
        Style("answer", "an answer", BLUE, "pill", "#FFFFFF"),
        Style("bad answer", "an answer with an error", RED, "pill"),
        Style("abort", "an abort", RED, "square"),
        Style("work", "work, given or taken back", ORANGE),
        Style("drop", "", ORANGE),
        Style("says", "", "paper", "bubble", "ink"),
        Style("warns", "", RED, "bubble", "ink"),
    )
}


@dataclass(slots=True)
class Actor:
    """One who acts, with its place on the stage and its story; times are seconds of play."""

    name: str
    kind: str  # "topic", "process", "store", ...: decides its sign
    label: str
    x: float = 0.0  # its middle
    y: float = 0.0
    wide: float = 104.0
    tall: float = 50.0
    states: list[tuple[float, State]] = field(default_factory=list)  # from when on it is what
    lines: list[tuple[float, str]] = field(default_factory=list)  # from when on it shows which text
    ref: str | None = None  # by which a page asks for its life; None where it has none

    def at(self, place: float) -> State:
        """What it is at a time."""
        return next((state for since, state in reversed(self.states) if since <= place), "up")

    @property
    def is_up(self) -> bool:
        """Whether it is at work after what happened so far."""
        return not self.states or self.states[-1][1] in ("up", "back")


@dataclass(frozen=True, slots=True)
class Traveller:
    """One thing that leaves an actor at `t0` and arrives at another one at `t1`, or gets no farther than `reach` and lies until `t2`."""

    ref: str
    style: Style
    label: str
    source: str
    target: str
    t0: float
    t1: float
    t2: float
    fate: Fate = "arrived"
    reach: float = 1.0  # 0 to 1: how far it has come at `t1`
    lane: int = 0  # which of the lanes between the two, 0 in the middle
    count: int = 1  # how many equal ones it stands for


@dataclass(frozen=True, slots=True)
class Tie:
    """Two actors that belong together for a while, such as a partition and its owner."""

    one: str
    other: str
    t0: float
    t1: float


@dataclass(slots=True)
class Stage:
    """The score of a run."""

    actors: dict[str, Actor]
    travellers: list[Traveller] = field(default_factory=list)
    ties: list[Tie] = field(default_factory=list)
    frames: Mapping[str, Sequence[str]] = field(default_factory=dict)  # what holds several actors -> their names
    height: float = 190.0


@dataclass(frozen=True, slots=True)
class Part:
    """Actors that a domain has: those whose names match, one below the other in a column of the stage."""

    names: str  # a regular expression; or with `is_always` the one name
    kind: str
    x: float  # 0 to 1, of the stage's width
    label: Callable[[str], str] = str
    is_always: bool = False  # on the stage although nothing in the trace is done by it
    is_below: bool = False  # in a row of its own at the foot
    is_away: bool = False  # until it starts or joins
    found: Callable[[Trace], Iterable[str]] | None = None  # further names, from the trace


Deed = Callable[["Play", Step], object]
Rows = Mapping[str, Sequence[Deed]]


@dataclass(frozen=True, slots=True)
class Setting:
    """A domain's stage: its parts, and what each verb does."""

    parts: Sequence[Part] | Callable[[Trace], Sequence[Part]]
    rows: Rows
    lines: Callable[[Play, Step], None] | None = None  # called after every step: what the actors show
    frames: Mapping[str, Sequence[str]] = field(default_factory=dict)  # what holds several actors -> their names
    still: str = ""  # the verbs of which nothing is seen here


class Play:
    """The score while it is written: what is under way, and what has been."""

    def __init__(self, trace: Trace, clock: PlayClock, stage: Stage) -> None:
        self.trace, self.clock, self.stage = trace, clock, stage
        self.open: dict[Hashable, list[Traveller]] = {}  # what sets off with each key, its end not known yet
        self.now = 0.0
        self.lanes: dict[tuple[str, str], int] = {}
        self.tied: dict[tuple[str, str], float] = {}  # two that belong together, and since when
        self.memory: dict[Hashable, Any] = {}  # what a domain's rows keep in mind
        self._fallen: list[tuple[int, str]] = []  # travellers that lie, and who lost them

    def has(self, name: str) -> bool:
        return name in self.stage.actors

    def _lane(self, source: str, target: str) -> int:
        number = self.lanes[source, target] = self.lanes.get((source, target), -1) + 1
        return (number * 4) % LANES - LANES // 2

    def hop(self, source: str, target: str, style: str, label: str = "", ref: str = "", fate: Fate = "arrived") -> None:
        """What crosses at once."""
        if self.has(source) and self.has(target):
            t0, t1 = max(0.0, self.now - HOP_S / 2), self.now + HOP_S / 2
            self.add(Traveller(ref, STYLES[style], label, source, target, t0, t1, t1, fate, 1.0, self._lane(source, target)))

    def leave(self, key: Hashable, source: str, target: str, style: str, label: str = "", ref: str = "") -> None:
        """From now on something is under way, until it arrives or falls."""
        if self.has(source) and self.has(target):
            taken = {each.lane for under in self.open.values() for each in under if (each.source, each.target) == (source, target)}
            free = (lane for lane in sorted(range(-(LANES // 2), LANES // 2 + 1), key=abs) if lane not in taken)
            lane = next(free, self._lane(source, target))  # what waits together is seen side by side
            self.open.setdefault(key, []).append(
                Traveller(ref, STYLES[style], label, source, target, self.now, self.now, self.now, lane=lane)
            )

    def arrive(self, key: Hashable, fate: Fate = "arrived", target: str = "") -> None:
        """The oldest one with this key arrives; nothing when there is none."""
        if not (waiting := self.open.get(key)):
            return
        under = waiting.pop(0)
        if not waiting:
            del self.open[key]
        to = target if target and self.has(target) else under.target
        t1 = max(self.now, under.t0 + HOP_S)
        self.add(replace(under, target=to, t1=t1, t2=t1, fate=fate))

    def fall(self, key: Hashable, fate: Fate = "lost", by: str = "") -> int:
        """All with this key fall, and how many; `by` is the actor that lost them, whose return clears them away."""
        fallen = self.open.pop(key, [])
        for place, under in enumerate(fallen):
            t1 = max(self.now, under.t0 + HOP_S / 2)
            reach = 0.35 + 0.4 * ((place * 7 + under.lane * 3 + len(self.stage.travellers)) % 11) / 11
            self.add(replace(under, t1=t1, t2=t1 + REST_S, fate=fate, reach=reach), by)
        return len(fallen)

    def fall_from(self, name: str, label: str, ref: str = "", count: int = 1) -> None:
        """Something that an actor held falls off it."""
        if self.has(name):
            lane, rests = self._lane(name, name), self.now + REST_S
            self.add(Traveller(ref, STYLES["drop"], label, name, name, self.now, self.now, rests, "dropped", 0.0, lane, count), name)

    def add(self, traveller: Traveller, by: str = "") -> None:
        if by and not self.stage.actors[by].is_up:
            self._fallen.append((len(self.stage.travellers), by))
        self.stage.travellers.append(traveller)

    def say(self, name: str, text: str, is_alarm: bool = False) -> None:
        """A bubble over an actor; "" is none."""
        if text and self.has(name):
            label = plain_text(text, 44)
            last = next((t for t in reversed(self.stage.travellers[-12:]) if t.style.shape == "bubble" and t.source == name), None)
            if last is not None and last.label == label and self.now < last.t2:
                return
            if last is not None and last.t2 > self.now:
                place = len(self.stage.travellers) - 1 - self.stage.travellers[::-1].index(last)
                self.stage.travellers[place] = replace(last, t1=self.now, t2=self.now)
            style, until = STYLES["warns" if is_alarm else "says"], self.now + SAYS_S
            self.stage.travellers.append(Traveller("", style, label, name, name, self.now, until, until, reach=0.0))

    def be(self, name: str, state: State, after: float = 0.0) -> None:
        """From now on an actor is in this state."""
        actor = self.stage.actors.get(name)
        if actor is None:
            return
        if state in ("up", "back") and actor.is_up:
            return
        while len(actor.states) > 1 and actor.states[-1][0] > self.now:
            actor.states.pop()  # it would have been so later
        if state in ("up", "back"):
            was = actor.states[-1][1]
            seen_s = BACK_S if was == "down" else 0.0  # what is down is seen to be down
            since = max(self.now + after, actor.states[-1][0] + seen_s)
            actor.states += [(since, "up")] if was == "away" else [(since, "back"), (since + BACK_S, "up")]
            self._clear(name, since)
        elif not actor.states or actor.states[-1][1] != state:
            actor.states.append((self.now, state))

    def _clear(self, name: str, since: float) -> None:
        """What lies because this actor lost it goes when it is back."""
        for place, by in self._fallen:
            if by == name:
                lying = self.stage.travellers[place]
                until = min(max(since + BACK_S, lying.t2), lying.t1 + MOST_REST_S)
                self.stage.travellers[place] = replace(lying, t2=until)
        self._fallen = [each for each in self._fallen if each[1] != name]

    def show(self, name: str, text: str) -> None:
        """What an actor holds, in a few words."""
        if (actor := self.stage.actors.get(name)) is None or (actor.lines and actor.lines[-1][1] == text):
            return
        if actor.lines and actor.lines[-1][0] == self.now:
            actor.lines[-1] = (self.now, text)
        else:
            actor.lines.append((self.now, text))

    def tie(self, one: str, *others: str) -> None:
        """From now on `one` belongs to these, and to no one else."""
        for pair in [pair for pair in self.tied if pair[0] == one and pair[1] not in others]:
            self.stage.ties.append(Tie(*pair, self.tied.pop(pair), self.now))
        for other in others:
            if self.has(one) and self.has(other):
                self.tied.setdefault((one, other), self.now)

    def finish(self) -> None:
        """What is still under way at the end stays under way."""
        end = self.clock.length
        for waiting in list(self.open.values()):
            for under in waiting:
                beyond = end + max(HOP_S, 0.35 * (end - under.t0))
                self.add(replace(under, t1=beyond, t2=beyond))
        for place, _by in self._fallen:  # whoever lost it never came back: it goes on lying there
            lying = self.stage.travellers[place]
            self.stage.travellers[place] = replace(lying, t2=max(lying.t2, min(lying.t1 + 3 * MOST_REST_S, end)))
        for pair, since in self.tied.items():
            self.stage.ties.append(Tie(*pair, since, end))


MOST_TRAVELLERS = 1_200  # of a score; more are grouped
MOST_AT_ONCE, MOST_ON_A_WAY = 200, 32  # at the same time on the stage, and between the same two; more are grouped
LONGEST_GRAIN_S = 60.0  # what is farther apart is never grouped
WIDE, TOP, BOTTOM = 760.0, 30.0, 40.0  # of the stage; room for bubbles above the actors, and for what fell below them
BROAD, NARROW, EDGE, BETWEEN = 146.0, 84.0, 10.0, 70.0  # of an actor, and what lies between two columns at least
TALL, LEAST_TALL, PITCH = 50.0, 24.0, 64.0
MOST_TALL = 200.0  # of a column, unless its actors become too flat
MOST_IN_A_COLUMN = 12


def to_stage(trace: Trace, clock: PlayClock, setting: Setting, only: float | None = None) -> Stage:
    """The score of a run, or with `only` what travels at that time.

    KeyError, TypeError or ValueError when a step's data are not what its word promises.
    """
    stage = cast(trace, setting.parts(trace) if callable(setting.parts) else setting.parts)
    stage.frames = setting.frames
    play = Play(trace, clock, stage)
    for step, place in zip(trace.steps, clock.places, strict=True):
        play.now = place
        for deed in setting.rows.get(step.what, ()):
            deed(play, step)
        if setting.lines is not None:
            setting.lines(play, step)
    play.finish()
    travellers = stage.travellers if only is None else [each for each in stage.travellers if each.t0 <= only <= each.t2]
    stage.travellers = gathered(travellers)
    return stage


def gathered(travellers: Sequence[Traveller]) -> list[Traveller]:
    """The travellers, few enough to be shown: those that are alike and cross at about the same time are one, with their number."""
    ways: dict[tuple[str, str], list[Traveller]] = {}
    for each in travellers:
        ways.setdefault((each.source, each.target), []).append(each)
    found = [each for way in ways.values() for each in _thinned(way, lambda kept: _most_at_once(kept) > MOST_ON_A_WAY)]
    found = _thinned(found, lambda kept: len(kept) > MOST_TRAVELLERS or _most_at_once(kept) > MOST_AT_ONCE)
    return sorted(found, key=lambda each: each.t0)


def _thinned(travellers: list[Traveller], are_too_many: Callable[[list[Traveller]], bool]) -> list[Traveller]:
    """The same, grouped ever more coarsely until they are few enough."""
    grain, found = 0.0, travellers
    while are_too_many(found) and grain < LONGEST_GRAIN_S:
        grain = grain * 1.7 or 0.05
        found = _grouped(travellers, grain)
    return found


def _most_at_once(travellers: Iterable[Traveller]) -> int:
    most = now = 0
    for _, change in sorted(each for t in travellers for each in ((t.t0, 1), (t.t2, -1))):
        now += change
        most = max(most, now)
    return most


def _grouped(travellers: Iterable[Traveller], grain: float) -> list[Traveller]:
    groups: dict[Hashable, list[Traveller]] = {}
    for each in travellers:
        bubble = each.label if each.style.shape == "bubble" else ""
        key = (each.source, each.target, each.style, each.fate, bubble, round(each.t0 / grain), round(each.t1 / grain))
        groups.setdefault(key, []).append(each)
    return [_one(group) for group in groups.values()]


def _one(group: list[Traveller]) -> Traveller:
    if len(group) == 1:
        return group[0]
    first = group[0]
    if first.style.shape == "bubble":
        return replace(first, t2=max(each.t2 for each in group))
    count = sum(each.count for each in group)
    middle = group[len(group) // 2]
    return replace(middle, t0=min(e.t0 for e in group), t2=max(e.t2 for e in group), count=count)


def cast(trace: Trace, parts: Sequence[Part]) -> Stage:
    """The actors of a run at their places: those of one column one below the other, and a row at the foot."""
    seen = dict.fromkeys(step.actor for step in trace.steps)
    columns: dict[tuple[bool, float], list[tuple[Part, str]]] = {}
    taken: set[str] = set()
    for part in parts:
        found = [part.names] if part.is_always else [*seen, *(part.found(trace) if part.found else ())]
        names = [name for name in dict.fromkeys(found) if name not in taken and re.fullmatch(part.names, name)]
        taken.update(names)
        if names:
            columns.setdefault((part.is_below, part.x), []).extend((part, name) for name in sorted(names, key=in_order))
    main = {x: actors[:MOST_IN_A_COLUMN] for (is_below, x), actors in columns.items() if not is_below}
    below = {x: actors for (is_below, x), actors in columns.items() if is_below}
    near = min((after - before for before, after in pairwise(sorted(main))), default=1.0)
    wide = min(BROAD, max(NARROW, (near * (WIDE - 2 * EDGE) - BETWEEN) / (1 + near)))
    most = max(map(len, main.values()), default=1)
    pitch = min(PITCH, max(LEAST_TALL + 5, MOST_TALL / most))
    inner = max(2 * PITCH if not below else PITCH + 16, pitch * most)
    stage = Stage({})

    def put(part: Part, name: str, x: float, y: float, high: float) -> None:
        actor = Actor(name, part.kind, plain_text(part.label(name), 18), EDGE + wide / 2 + (WIDE - 2 * EDGE - wide) * x, y, wide, high)
        actor.states.append((0.0, "away" if part.is_away else "up"))
        stage.actors[name] = actor

    for x, actors in main.items():
        tall = min(TALL, inner / len(actors) - 5)
        apart = min(inner / len(actors), tall + 44)
        for number, (part, name) in enumerate(actors):
            put(part, name, x, TOP + inner / 2 + (number - (len(actors) - 1) / 2) * apart, tall)
    foot = TOP + inner
    for x, actors in below.items():
        for number, (part, name) in enumerate(actors):
            put(part, name, min(1.0, max(0.0, x + (number - (len(actors) - 1) / 2) * (wide + 24) / WIDE)), foot + 30 + 21, 42.0)
    stage.height = foot + (30 + 42 if below else 0) + BOTTOM
    return stage


def in_order(name: str) -> tuple[Any, ...]:
    """By which names are sorted as people do, 2 before 10."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)
