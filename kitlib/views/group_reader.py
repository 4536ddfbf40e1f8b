"""A consumer group's trace, read once: who held which partition from when to when, and what its members did.

A partition is held by whoever was given it and has neither given it back, lost it, left nor died, as the
members themselves see it. So two may hold it at once: one who does not know yet that it is another's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.group_look import SIGN_WORDS

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
    bands: list[tuple[float, float, int | None]] = field(
        default_factory=list
    )  # from, to, generation; None: a rebalance
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

    # -- members -----------------------------------------------------------------------------------------

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

    # -- who holds what ----------------------------------------------------------------------------------

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

    # -- partitions and coordinator ----------------------------------------------------------------------

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
