"""A consumer group's trace, read once: who held which partition from when to when, what its members did, and their textures.

A partition is held by whoever was given it and has neither given it back, lost it, left nor died, as the
members themselves see it. So two may hold it at once: one who does not know yet that it is another's.

Colours keep the meanings that they have in all pictures (`kitlib.views.look`), so members are told apart
by texture and name, not by colour.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.svg import Svg, el

BAND_TOP, BAND_TALL = 6, 18  # the group's row
MEMBERS_TOP, MEMBER_TALL = 36, 24
LANES_GAP = 22  # between the last member's row and the partitions' words
MOST_LANES = 16  # partitions that are drawn
PANEL_HEAD, PANEL_ROW = 44, 28
BAR_LEFT, BAR_RIGHT = 108, 420

SIGN_WORDS = (  # what is shown of a member, in the legend's order
    "join", "leave", "kill", "freeze", "thaw", "late", "evict", "refused", "cut_off", "reconnect", "expired", "failed",
    "heard", "error",
)  # fmt: skip

TEXTURES = 6  # members beyond the sixth begin anew


def texture_path(place: int, x: float, y: float, wide: float, tall: float) -> str:
    """The texture of the member with this place among the members, on a box, as a path for `draw_texture`."""
    x, y, wide, tall = round(x, 1), round(y, 1), round(wide, 1), round(tall, 1)
    kind = place % TEXTURES
    if kind == 0:
        return box_path(x, y, wide, tall)
    if kind == 3:
        return "".join(f"M{x:g} {y + step:g}h{wide:g}" for step in range(4, int(tall), 4))
    if kind == 2:
        return "".join(f"M{x + step:g} {y:g}v{tall:g}" for step in range(4, int(wide) + 1, 5))
    if kind == 5:
        rows, columns = range(4, int(tall), 5), range(3, int(wide) - 1, 6)
        return "".join(f"M{x + step:g} {y + row:g}h2" for row in rows for step in columns)
    return "".join(_slope(x, y, wide, tall, step, kind == 1) for step in range(4, int(wide + tall), 6))


def draw_texture(place: int, path: str) -> Svg:
    """The boxes of one member, whose `texture_path`s are joined."""
    if place % TEXTURES == 0:
        return el("path", d=path, cls="grey", opacity=0.3)
    return el("path", d=path, cls="grey-line", stroke_width=2 if place % TEXTURES == 5 else 1)


def box_path(x: float, y: float, wide: float, tall: float) -> str:
    """A box, to be joined with others."""
    return f"M{x:.1f} {y:.1f}h{wide:.1f}v{tall:.1f}h-{wide:.1f}Z"


def _slope(x: float, y: float, wide: float, tall: float, step: int, is_rising: bool) -> str:
    """One line at 45 degrees through a box, cut at its edges."""
    from_x, to_x = max(0.0, step - tall), min(float(step), wide)  # on the one long edge, and on the other
    from_y, to_y = step - from_x, step - to_x
    if not is_rising:
        from_y, to_y = tall - from_y, tall - to_y
    return f"M{x + from_x:.1f} {y + from_y:.1f}l{to_x - from_x:.1f} {to_y - from_y:.1f}"


Place = tuple[str, int]  # topic and partition
OTHERS = frozenset({"log", "coordinator", "broker", "network", "zookeeper"})
STEADY = -1  # instead of a generation where the group has none
MEMBER_WORDS = frozenset({*SIGN_WORDS, "assigned", "revoked", "lost", "start", "emit", "process", "commit", "store"})


@dataclass(slots=True)
class Held:
    """From one place of the time axis to another: who held a partition, and whether it was frozen."""

    x0: float
    x1: float
    holders: tuple[tuple[str, bool], ...]
    is_missed: bool  # nobody held it although the group had members


@dataclass(slots=True)
class Lane:
    """One partition over the run."""

    name: str
    ref: str = ""  # of the partition
    spells: list[Held] = field(default_factory=list)
    ticks: dict[str, list[float]] = field(default_factory=lambda: {"process": [], "again": [], "commit": [], "operator": []})


@dataclass(slots=True)
class MemberRow:
    """One member over the run."""

    name: str
    spells: list[tuple[float, float, bool]] = field(default_factory=list)  # from, to, whether it was frozen
    signs: list[tuple[str, float]] = field(default_factory=list)


@dataclass(slots=True)
class GroupStory:
    """All that the picture's body is made of."""

    members: dict[str, MemberRow] = field(default_factory=dict)
    lanes: dict[Place, Lane] = field(default_factory=dict)
    bands: list[tuple[float, float, int | None]] = field(default_factory=list)  # from, to, generation; None: a rebalance
    boundaries: list[tuple[float, int]] = field(default_factory=list)  # a generation begins


def read_group(trace: Trace, xs: list[float]) -> GroupStory:
    """The story of a trace whose steps lie at `xs`."""
    reader = _Reader(trace)
    for step, x in zip(trace.steps, xs, strict=True):
        reader.take(step, x)
    reader.finish(xs[-1] if xs else 0.0)
    return reader.story


class _Reader:
    """What is known while the steps go by."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.story = GroupStory()
        self.holders: dict[Place, list[str]] = {}
        self.since: dict[Place, float] = {}  # where the spell that is open began
        self.alive: dict[str, float] = {}  # member -> where its present spell began
        self.frozen: set[str] = set()
        self.done: set[tuple[Place, int]] = set()
        self.band: tuple[float, int | None] | None = None
        self.has_coordinator = any(step.actor == "coordinator" for step in trace.steps)

    def take(self, step: Step, x: float) -> None:
        """Take one step that lies at `x`."""
        data = step.data
        if not self.has_coordinator:
            self._look_at_state(str(step.state.get("group", {}).get("state", "")), x)
        if (place := place_of(data)) is not None:
            self._lane(place, x)
            self._tick(step, place, x)
        if step.actor in OTHERS:
            if step.actor in ("coordinator", "zookeeper"):
                self._coordinate(step, x)
            return
        if step.what not in MEMBER_WORDS:
            return
        name = plain_text(step.actor, 12)
        row = self.story.members.setdefault(name, MemberRow(name))
        refused = step.what in ("commit", "store") and data.get("error") not in (None, "", "NONE")
        if refused or step.what in SIGN_WORDS:
            row.signs.append(("refused" if refused else step.what, x))
        act = getattr(self, f"_on_{step.what}", None)
        if act is not None:
            act(name, data, x)

    def finish(self, x: float) -> None:
        """The run ends at `x`."""
        for name in list(self.alive):
            self._close_member(name, x)
        for place in self.story.lanes:
            self._close(place, x)
        self._close_band(x)

    def _close_member(self, name: str, x: float) -> None:
        if (begun := self.alive.pop(name, None)) is not None:
            self.story.members[name].spells.append((begun, x, name in self.frozen))

    def _live(self, name: str, x: float) -> None:
        """A change of a member's spell; the one before ends here."""
        self._close_member(name, x)
        self.alive[name] = x

    def _on_join(self, name: str, data: dict[str, Any], x: float) -> None:
        if name not in self.alive:
            self.alive[name] = x
            self._redraw(x)

    def _on_freeze(self, name: str, data: dict[str, Any], x: float) -> None:
        self._live(name, x)
        self._redraw(x, lambda: self.frozen.add(name))

    def _on_thaw(self, name: str, data: dict[str, Any], x: float) -> None:
        self._live(name, x)
        self._redraw(x, lambda: self.frozen.discard(name))

    def _on_kill(self, name: str, data: dict[str, Any], x: float) -> None:
        self._close_member(name, x)
        self.frozen.discard(name)
        self._drop(name, list(self.holders), x)

    def _on_leave(self, name: str, data: dict[str, Any], x: float) -> None:
        self._on_kill(name, data, x)

    def _on_assigned(self, name: str, data: dict[str, Any], x: float) -> None:
        for place in _places(data):
            self._lane(place, x)
            if name not in self.holders[place]:
                self._close(place, x)
                self.holders[place].append(name)

    def _on_revoked(self, name: str, data: dict[str, Any], x: float) -> None:
        self._drop(name, _places(data), x)

    def _on_lost(self, name: str, data: dict[str, Any], x: float) -> None:
        self._drop(name, _places(data), x)

    def _drop(self, name: str, places: list[Place], x: float) -> None:
        for place in places:
            if name in self.holders.get(place, ()):
                self._close(place, x)
                self.holders[place].remove(name)

    def _redraw(self, x: float, change: Any = None) -> None:
        """End all spells here, as what is told of them changes."""
        for place in self.story.lanes:
            self._close(place, x)
        if change is not None:
            change()

    def _close(self, place: Place, x: float) -> None:
        """End a partition's spell; equal neighbours become one."""
        x0, self.since[place] = self.since[place], x
        if x <= x0:
            return
        holders = tuple((name, name in self.frozen) for name in self.holders[place])
        spells = self.story.lanes[place].spells
        is_missed = not holders and bool(self.alive) and any(spell.holders for spell in spells)
        if spells and (spells[-1].holders, spells[-1].is_missed) == (holders, is_missed):
            spells[-1].x1 = x
        else:
            spells.append(Held(x0, x, holders, is_missed))

    def _lane(self, place: Place, x: float) -> None:
        if place not in self.story.lanes:
            topic = place[0].removeprefix(f"kit.{self.trace.run}.")
            self.story.lanes[place] = Lane(f"{plain_text(topic, 12)}-{place[1]}", f"partition:{plain_text(topic, 60)}/{place[1]}")
            self.holders[place] = []
            self.since[place] = x

    def _tick(self, step: Step, place: Place, x: float) -> None:
        ticks = self.story.lanes[place].ticks
        if step.what == "process":
            effect = (place, step.data["offset"])
            ticks["again" if effect in self.done else "process"].append(x)
            self.done.add(effect)
        elif step.what == "commit" and step.data.get("error") in (None, "", "NONE") and step.data.get("written", True):
            ticks["commit"].append(x)
        elif step.actor == "operator" and step.what in ("alter", "forget") and not step.data.get("error"):
            ticks["operator"].append(x)

    def _coordinate(self, step: Step, x: float) -> None:
        if step.what == "prepare":
            if self.band is None or self.band[1] is not None:
                self._close_band(x)
                self.band = (x, None)
        elif step.what == "stable":
            self._close_band(x)
            told = step.data.get("generation", step.state.get("group", {}).get("generation"))
            generation = told if isinstance(told, int) else STEADY
            self.band = (x, generation)
            self.story.boundaries.append((x, generation))
        elif step.what == "empty":
            self._close_band(x)
            self.band = None
        elif step.what == "evict":
            name = plain_text(step.data.get("member"), 12)
            self.story.members.setdefault(name, MemberRow(name)).signs.append(("evict", x))

    def _look_at_state(self, state: str, x: float) -> None:
        """Without a coordinator's steps: whether all members have what they should have, by the group's state."""
        if state in ("", "Empty"):
            band = None
        else:
            band = (x, STEADY if state == "Stable" else None)
        if (band and band[1]) != (self.band and self.band[1]) or (band is None) != (self.band is None):
            self._close_band(x)
            self.band = band

    def _close_band(self, x: float) -> None:
        if self.band is not None:
            self.story.bands.append((self.band[0], x, self.band[1]))


def place_of(data: dict[str, Any]) -> Place | None:
    """The partition that a step is about."""
    return (str(data["topic"]), int(data["partition"])) if "topic" in data and "partition" in data else None


def _places(data: dict[str, Any]) -> list[Place]:
    return [(str(topic), int(number)) for topic, number, *_ in data["partitions"]]
