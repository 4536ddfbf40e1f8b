"""A consumer group's run: who is in it and what they tell each other, who holds which partition, when nobody does, and the three cursors.

Time runs to the right. On top are the coordinator, with generations and the rebalances between them, and the members. Below is a row
for each partition with its holder's name and texture; where nobody holds it although the group has members the row is hatched in
red. The panel shows after each step how far each partition was fetched, processed and committed.

A partition is held by whoever was given it and has neither given it back, lost it, left nor died, as the members themselves see it. So
two may hold it at once: one who does not know yet that it is another's. Colours keep the meanings that they have in all pictures, so
members are told apart by texture and name.

A group's commit is one number, and so is how far a consumer has worked. Neither shows a hole: records that a
commit has passed and that were never processed. Here the holes are kept. A record is *lost* once the committed
offset or the start of the log has passed it, unless a member that lives was given it, or it is processed later
in the run all the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from kitlib.text import plain_text
from kitlib.trace import Step, Trace, add_to_ranges, to_ranges
from kitlib.views.look import LEFT
from kitlib.views.scene import Scene
from kitlib.views.scenes.lanes import Lanes
from kitlib.views.scenes.offset_rows import words_of
from kitlib.views.scenes.signs import signs_scene
from kitlib.views.scenes.timeline import (
    TEXTURED,
    TICKS,
    Drawn,
    Item,
    Row,
    Spans,
    bars,
    centred,
    compose,
    glyphs_of,
    places,
)
from kitlib.views.stage.deeds import NO_MEMBERS, is_refused
from kitlib.views.stage.score import State
from kitlib.views.svg import Svg, el, group
from kitlib.words.glyphs import BLACK, BLUE, GREEN, ORANGE, RED
from kitlib.words.word import Range

PARTS = {
    "all": "Who holds which partition, and when does nobody?",
    "cursors": "How far is each partition fetched, processed and committed?",
    "signs": "Which signs could have been seen, and when?",
}
SIGN_WORDS = (  # what is shown of a member, in the legend's order
    "join", "leave", "kill", "freeze", "thaw", "late", "evict", "refused", "cut_off", "reconnect", "expired", "heard", "error",
)  # fmt: skip
HEADS = ("coordinator", "zookeeper")  # who leads the group
ENDS = frozenset({"kill", "leave", "error"})  # with these a member gives up what it was given
MOST_ROWS = 16  # partitions that are drawn
AWAY: list[tuple[float, State]] = [(0.0, "away")]  # there is no line between the boxes of a partition
Place = tuple[str, int]  # topic and partition
Told = tuple[str, str] | None  # a kind of bar and its words


def place_of(data: Mapping[str, Any]) -> Place | None:
    """The partition that a step is about."""
    return (str(data["topic"]), int(data["partition"])) if "topic" in data and "partition" in data else None


@dataclass(slots=True)
class Group:
    """Who is in the group and who holds what, while the steps go by; and both after each step."""

    trace: Trace
    members: dict[str, bool] = field(default_factory=dict)  # those who are in it -> whether they are frozen
    holders: dict[Place, list[str]] = field(default_factory=dict)
    states: dict[Place, list[Told]] = field(default_factory=dict)  # after each step, from its first mention on
    bands: list[Told] = field(default_factory=list)  # the group as its coordinator sees it, after each step
    order: list[str] = field(init=False)  # all who are ever in it
    is_coordinated: bool = False  # whether its coordinator tells what it does

    def __post_init__(self) -> None:
        actors = dict.fromkeys(step.actor for step in self.trace)
        self.order = [plain_text(name, 12) for name in actors if not re.fullmatch(NO_MEMBERS, name)]
        self.is_coordinated = "coordinator" in actors
        for step in self.trace:
            self.take(step)

    def take(self, step: Step) -> None:
        """Take one step."""
        name, place = plain_text(step.actor, 12), place_of(step.data)
        match step.what:
            case "join":
                self.members.setdefault(name, False)
            case "freeze" | "thaw":
                self.members[name] = step.what == "freeze"
            case "kill" | "leave":
                self.members.pop(name, None)
                for held in self.holders.values():
                    held[:] = [other for other in held if other != name]
            case "assigned":
                for topic, number, *_ in step.data["partitions"]:
                    held = self._holders((str(topic), int(number)))
                    held += [name] if name not in held else []
            case "revoked" | "lost":
                for topic, number, *_ in step.data["partitions"]:
                    held = self._holders((str(topic), int(number)))
                    held[:] = [other for other in held if other != name]
        if place is not None:
            self._holders(place)
        for each, found in self.states.items():
            found.append(self._state(each))
        self.bands.append(self._band(step))

    def _holders(self, place: Place) -> list[str]:
        self.states.setdefault(place, [None] * len(self.bands))
        return self.holders.setdefault(place, [])

    def _state(self, place: Place) -> Told:
        """Who holds a partition; nobody is missed before anybody has held it, or without members."""
        held = self.holders[place]
        if len(held) > 1 or any(map(self.members.get, held)):
            told = [f"{name}, frozen" if self.members.get(name) else name for name in held]
            return "two" if len(held) > 1 else "frozen", f"{' and '.join(told)}|{' and '.join(held)}|{'/'.join(held)}"
        if held:
            return TEXTURED[self.order.index(held[0]) % len(TEXTURED)], held[0]
        return ("missed", "nobody") if self.members and any(self.states[place]) else None

    def _band(self, step: Step) -> Told:
        """A generation, a rebalance, or nothing where nobody is in the group."""
        told, was = step.state.get("group", {}), self.bands[-1] if self.bands else None
        rebalance = "rebalance", "a rebalance|rebalance"
        if not self.is_coordinated:
            state = str(told.get("state", ""))
            shared = "generation", "all have their share|shared out"
            return None if state in ("", "Empty") else shared if state == "Stable" else rebalance
        if step.actor != "coordinator" or step.what not in ("prepare", "stable", "empty"):
            return was
        number = step.data.get("generation", told.get("generation"))
        found = {"prepare": rebalance, "stable": ("generation", f"generation {number}|gen {number}|{number}"), "empty": None}
        return found[step.what]


@dataclass(slots=True)
class Fates:
    """The records of all partitions after the steps that were taken."""

    ever: dict[Place, set[int]]  # processed somewhere in the whole run
    processed: dict[Place, list[Range]] = field(default_factory=dict)  # up to now
    in_hand: dict[Place, dict[int, str]] = field(default_factory=dict)  # given to a member and not processed yet -> the member
    log: dict[Place, tuple[int, int]] = field(default_factory=dict)  # the first offset that was appended, and one after the last
    log_start: dict[Place, int] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        """Take the next step."""
        if step.what in ENDS:
            for held in self.in_hand.values():
                for offset in [offset for offset, name in held.items() if name == step.actor]:
                    del held[offset]
        place = place_of(step.data)
        if place is None:
            return
        self.log_start[place] = step.state.get("log_start", self.log_start.get(place, 0))
        if step.what == "append":
            first, end = self.log.get(place, (step.data["first"], 0))
            self.log[place] = first, max(end, step.data["last"] + 1)
        elif step.what == "emit":
            self.in_hand.setdefault(place, {})[step.data["offset"]] = step.actor
        elif step.what == "process":
            add_to_ranges(self.processed.setdefault(place, []), step.data["offset"])
            self.in_hand.get(place, {}).pop(step.data["offset"], None)

    def lost(self, place: Place, committed: int) -> list[Range]:
        """The offsets that are lost, when the committed offset is this one; one beyond the log's end has passed nothing."""
        at, end = self.log.get(place, (0, 0))
        passed = max(committed if committed <= end else 0, self.log_start.get(place, 0))
        ever, in_hand = self.ever.get(place, ()), self.in_hand.get(place, ())
        found: list[int] = []
        for first, last in [*self.processed.get(place, ()), (passed, passed)]:
            found += (offset for offset in range(at, min(first, passed)) if offset not in ever and offset not in in_hand)
            at = last + 1
            if at >= passed:
                break
        return to_ranges(found)


def fates_of(trace: Trace) -> Fates:
    """The fates before the first step of a trace."""
    ever: dict[Place, set[int]] = {}
    for step in trace.steps:
        place = place_of(step.data)
        if step.what == "process" and place is not None:
            ever.setdefault(place, set()).add(step.data["offset"])
    return Fates(ever)


def told_ranges(ranges: Sequence[Sequence[int]]) -> str:
    """Ranges in words: "150 to 199, 210"."""
    return ", ".join(f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in ranges)


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a group's trace; `part` "cursors" is the panel with the group's row alone.

    "signs" is what a monitor sees from outside of the group.
    """
    if part == "signs":
        return signs_scene(trace)
    xs, found = places(trace), Group(trace)
    shown = list(found.states)[:MOST_ROWS]
    names = {(topic, number): f"{plain_text(topic.removeprefix(f'kit.{trace.run}.'), 12)}-{number}" for topic, number in shown}
    rows, legend = _rows(trace, xs, found, names, part)
    panel = _Panel(trace, names)
    panels = list(map(panel.take, trace))
    if panel.has_lost:
        legend.insert(0, (draw_hole(1, 1, 24, 16), "lost: will never be processed"))
    tall = PANEL_HEAD + PANEL_ROW * len(names)
    return compose(trace, xs, "A consumer group", PARTS[part], rows, panels, tall, legend)


def _rows(trace: Trace, xs: list[float], found: Group, names: Mapping[Place, str], part: str) -> tuple[list[Row], list[Item]]:
    """The group's generations, the lanes of coordinator and members, and one for each partition; and what they mean."""
    group_row = Spans({"the group": bars(found.bands, xs)})
    if part != "all":
        return [group_row], group_row.legend()
    head = next((step.actor for step in trace if step.actor in HEADS), HEADS[0])
    members = [name for name in dict.fromkeys(step.actor for step in trace) if not re.fullmatch(NO_MEMBERS, name)]
    lanes = Lanes(trace, xs, glyphs_of(trace, SIGN_WORDS), _lane_of, word_of=_word_of, names=[head, *members], pitch=26)
    words = words_of(trace, is_shared=True)
    topics = {name: plain_text(topic.removeprefix(f"kit.{trace.run}."), 60) for (topic, _), name in names.items()}
    refs = {name: f"partition:{topics[name]}/{number}" for (_, number), name in names.items()}
    spells = [(name, bar, refs[name]) for place, name in names.items() for bar in bars(found.states[place], xs)]
    partitions = Lanes(
        trace, xs, {}, lambda step: names.get(place_of(step.data) or ("", 0), ""), spells, word_of=lambda step: words[step.number],
        names=[*names.values()], ticks=TICKS.keys() - {"write"}, states=dict.fromkeys(refs, AWAY), refs=refs, is_staged=False,
        pitch=30,
    )  # fmt: skip
    rows: list[Row] = [group_row, lanes, Drawn(6, lambda y: []), partitions]
    if (more := len(found.states) - len(names)) > 0:
        rows.append(Drawn(14, lambda y: [el("text", f"and {more} more partitions", cls="grey", x=LEFT, y=y + 10, font_size=11)]))
    return rows, [*group_row.legend(), *lanes.legend(), *partitions.legend()]


def _lane_of(step: Step) -> str:
    """Whom a step befalls."""
    return str(step.data.get("member")) if step.what == "evict" else step.actor


def _word_of(step: Step) -> str:
    return "refused" if step.what in ("commit", "store") and is_refused(step) else step.what


def draw_hole(x: float, y: float, wide: float, tall: float) -> Svg:
    """Lost records: filled with the alarm's colour, with a cross at each end where there is room."""
    box = el("rect", x=x, y=y, width=wide, height=tall, fill=RED, stroke=BLACK)
    at = [x + 10, x + wide - 10] if wide > 110 else [x + wide / 2] if wide < 30 else []
    half = min(5.0, wide / 2 - 1)
    rise = tall - 8
    path = "".join(f"M{middle - half:.1f} {y + 4:g}l{2 * half:.1f} {rise:g}m0 -{rise:g}l{-2 * half:.1f} {rise:g}" for middle in at)
    return group(box, el("path", d=path, stroke=BLACK, stroke_width=2)) if path and half > 1 else group(box)


PANEL_HEAD, PANEL_ROW = 44, 28
BAR_LEFT, BAR_RIGHT = 108, 420
CURSORS = (("fetched", ORANGE, 490), ("processed", GREEN, 566), ("committed", BLUE, 648))  # and where their numbers end
END_X, HOLDER_X = 698, 708
Ranges = tuple[tuple[int, int], ...]


class Cursors(NamedTuple):
    """A partition's row in the panel."""

    name: str
    fetched: int
    done: Ranges
    committed: int | None
    end: int
    lost: Ranges
    holder: str
    still_ms: int | None  # for how long nobody has read it

    @property
    def words(self) -> str:
        """The row in words."""
        told = f"{self.name} fetched to {self.fetched}, {_size(self.done)} processed, committed to {self.committed or 0}"
        lost = f", {_size(self.lost)} lost: {told_ranges(self.lost)}" if self.lost else ""
        return f"{told}, log end {self.end}{lost}"


def _size(ranges: Ranges) -> int:
    return sum(last + 1 - first for first, last in ranges)


class _Panel:
    """The panel after each step: the group in a line, and a row of three cursors for each partition."""

    def __init__(self, trace: Trace, names: dict[Place, str]) -> None:
        self.names = names
        ends = [row[3] for step in trace.steps for row in step.state.get("cursors", {}).values()]
        ends += [step.state.get("log_end", 0) for step in trace.steps]
        self.scale = (BAR_RIGHT - BAR_LEFT) / max(1, *(end for end in ends if isinstance(end, int)), 1)
        self.fates = fates_of(trace)
        self.group: dict[str, Any] = {}
        self.cursors: dict[str, list[int | None]] = {}
        self.has_lost = False  # at any step so far

    def take(self, step: Step) -> tuple[list[Svg], str]:
        """The panel's pieces after a step, and what they show in words."""
        self.group = step.state.get("group", self.group)
        self.cursors = step.state.get("cursors") or self._follow(step)
        self.fates.take(step)
        rows = [self._row(place, name, step.at_ms) for place, name in self.names.items()]
        self.has_lost = self.has_lost or any(row.lost for row in rows)
        drawn = [_draw_row(row, self.scale, PANEL_HEAD + PANEL_ROW * number) for number, row in enumerate(rows)]
        return [_draw_head(), _draw_title(_title(self.group)), *drawn], f"the cursors: {'; '.join(row.words for row in rows)}"

    def _row(self, place: Place, name: str, at_ms: int) -> Cursors:
        key = f"{place[0]}-{place[1]}"
        committed, processed, fetched, end = self.cursors.get(key, [None, 0, 0, 0])
        done = self.fates.processed.get(place) or ([[0, processed - 1]] if processed else [])
        since, owner = (self.group.get("standing_still") or {}).get(key), self.group.get("owners", {}).get(key)
        shown, lost = (tuple((first, last) for first, last in each) for each in (done, self.fates.lost(place, committed or 0)))
        holder = "nobody" if owner is None else plain_text(owner, 7)
        return Cursors(name, fetched or 0, shown, committed, end or 0, lost, holder, at_ms - since if isinstance(since, int) else None)

    def _follow(self, step: Step) -> dict[str, list[int | None]]:
        """The cursors by the steps' words, where the state does not tell them."""
        place = place_of(step.data)
        if place is None or not step.state:
            return self.cursors
        key = f"{place[0]}-{place[1]}"
        row = list(self.cursors.get(key, [None, 0, 0, 0]))
        row[3] = step.state.get("log_end", row[3])
        if step.what in ("emit", "start"):
            row[2] = step.data["offset"] + (step.what == "emit")
        elif step.what == "process":
            row[1] = max(row[1] or 0, step.data["offset"] + 1)
        elif step.what == "commit" and step.data.get("written", True):
            row[0] = step.data["offset"]
        return self.cursors | {key: row}


def _title(told: Mapping[str, Any]) -> tuple[str, str]:
    """The group's state, and the rest of what is known of it."""
    if not told:
        return "", ""
    members = [plain_text(name, 12) for name in told.get("members", ())]
    words = [f"generation {plain_text(told['generation'], 8)}"] if told.get("generation") is not None else []
    words += [f"leader {plain_text(told['leader'], 12)}"] if told.get("leader") else []
    words += [f"dealt by {plain_text(told['protocol'], 20)}"] if told.get("protocol") else []
    words += [f"members {', '.join(members[:8])}"] if members else ["no members"]
    return plain_text(told.get("state", ""), 24), ", ".join(words)


@lru_cache(1_000)
def _draw_title(told: tuple[str, str]) -> Svg:
    if told == ("", ""):
        return el("text", "There is no group yet.", cls="ink", x=LEFT, y=14)
    state, words = told
    return el("text", "The group: ", el("tspan", state, font_weight="bold"), el("tspan", words, dx=6), cls="ink", x=LEFT, y=14)


@lru_cache(1)
def _draw_head() -> Svg:
    parts = []
    for name, colour, x in CURSORS:
        parts.append(el("text", name, cls="ink", x=x, y=34, text_anchor="end", font_size=11))
        parts.append(el("rect", x=x - len(name) * 6.7 - 11, y=26, width=8, height=8, fill=colour, stroke=BLACK))
    parts.append(el("text", "log end", cls="ink", x=END_X, y=34, text_anchor="end", font_size=11))
    parts.append(el("text", "held by", cls="ink", x=HOLDER_X, y=34, font_size=11))
    return group(*parts)


@lru_cache(10_000)
def _draw_row(row: Cursors, scale: float, y: int) -> Svg:
    """A partition's two cursors and what is processed as bars of their own, and as numbers; what is lost is a hole across all three."""
    parts = [
        el("text", row.name, cls="ink", x=LEFT, y=y + 14),
        el("rect", x=BAR_LEFT, y=y, width=max(1.0, row.end * scale), height=20, fill="none", cls="grey-line"),
    ]
    ranges = ((0, row.fetched - 1),), row.done, ((0, (row.committed or 0) - 1),)
    values = f"{row.fetched:,}", f"{_size(row.done):,}", "none" if row.committed is None else f"{row.committed:,}"
    for place, (cursor, colour, x) in enumerate(CURSORS):
        for first, last in ranges[place]:
            if (wide := (min(last + 1, row.end) - first) * scale) > 0:
                box = {"x": BAR_LEFT + first * scale, "y": y + 1 + 6.3 * place, "width": wide, "height": 5.4}
                title = el("title", f"{cursor} {first:,} to {last:,}")
                parts.append(el("rect", title, **box, fill=colour, stroke=BLACK, stroke_width=0.5))
        parts.append(el("text", values[place], cls="ink", x=x, y=y + 14, text_anchor="end"))
    for first, last in row.lost:
        left, broad, number = BAR_LEFT + first * scale, max(2.0, (last + 1 - first) * scale), last + 1 - first
        title, paint = el("title", f"lost: {told_ranges([[first, last]])}"), {"fill": BLACK, "font_weight": "bold"}
        words = centred((f"{number:,} lost", f"{number:,}"), left, left + broad, y + 14, paint)
        parts.append(group(title, draw_hole(left, y, broad, 20), *words))
    parts.append(el("text", f"{row.end:,}", cls="ink", x=END_X, y=y + 14, text_anchor="end"))
    parts.append(el("text", row.holder, cls="ink", x=HOLDER_X, y=y + (9 if row.still_ms else 14), font_size=11))
    if row.still_ms:
        parts.append(el("text", f"{row.still_ms:,} ms", cls="ink", x=HOLDER_X, y=y + 21, font_size=11))
    return group(*parts)
