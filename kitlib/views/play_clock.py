"""Where each step of a run lies in time: in proportion, with the long silences cut short and their length told.

A run is often ten busy milliseconds, a silence of thirty seconds, and ten busy milliseconds again. So a picture in plain
proportion shows nothing, and one that counts steps hides the wait. Here time is in proportion, a silence much longer than the
others becomes a *break* of one fixed width, and each step has a little room of its own, so that what happens in the same
millisecond is seen in its order.

Places are seconds of play at normal speed: the player, its slider and the curves share them.

Some steps are worth jumping to: what the words of the domain mark, the fork, and where the verdict first saw each anomaly. These marks
stand on the slider; those that crowd are one sign there, which names the first of them and counts the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

from kitlib.monitor.verdict import Verdict
from kitlib.trace import Trace
from kitlib.views.film import differences
from kitlib.views.svg import Svg, el, group

STEP_S, BASE_S, MORE_S, MOST_S = 0.35, 8.0, 0.012, 18.0  # room of the steps: each at most, all of many, more for each, all at most
WAIT_S, MOST_WAITS = 0.5, 2.0  # room of the times between: on average at most, and all compared with that of the steps
BREAK_S = 1.0  # room of a break
SHARE = 0.1  # a silence with more of the time than this may become a break,
LONGER = 8  # if it is so many times as long as the median one
PAUSE_S, MOST_PAUSES = 1.2, 16  # what dies or comes back is shown for so long, unless there are too many of them
END_S = 1.2  # what follows the last step, so that what travels arrives
BREAK_APART = 0.08  # of the axis: breaks that are closer cannot both tell their length
LABELS = 7  # of times on the axis, at most
ZIGZAG = "M-5 0l2.5 -4l5 8l2.5 -4"
ENDS = frozenset({"crash", "exit", "broker lost"})  # marks of what dies
RETURN = "restart"  # is a mark of what comes back only where something has died
NEAR, ALIKE = 0.016, 0.035  # of the axis: marks that are closer are one, and those of one name
MOST_KINDS = 3  # that a label names


@dataclass(frozen=True, slots=True)
class Break:
    """A silence that was cut short."""

    start: float  # seconds of play
    end: float
    ms: int  # how long it was

    @property
    def label(self) -> str:
        """Its length, as people say it."""
        return duration(self.ms)


@dataclass(frozen=True, slots=True)
class PlayClock:
    """The place of every step, in seconds of play."""

    places: list[float] = field(default_factory=list)  # rises from step to step
    at_ms: list[int] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)

    @property
    def length(self) -> float:
        """Seconds of play, until the last thing has arrived."""
        return (self.places[-1] if self.places else 0.0) + END_S

    def share(self, step: int) -> float:
        """How far along the axis a step lies, 0 to 1."""
        last = self.places[-1] if self.places else 0.0
        return self.places[step] / last if last and 0 <= step < len(self.places) else 0.0

    def labels(self) -> list[tuple[int, str]]:
        """(step, time) for steps far enough from each other, and only where the told time moved."""
        found: list[tuple[int, str]] = []
        for step, ms in enumerate(self.at_ms):
            told = duration(ms)
            if not found or (self.share(step) - self.share(found[-1][0]) >= 1 / LABELS and told != found[-1][1]):
                found.append((step, told))
        return found if len(found) > 1 or not self.at_ms or self.at_ms[-1] else []

    def told_breaks(self) -> list[Break]:
        """Those that have room for their length beside them, the longest first."""
        found: list[Break] = []
        for gap in sorted(self.breaks, key=lambda gap: -gap.ms):
            if all(abs(gap.start - other.start) >= BREAK_APART * self.places[-1] for other in found):
                found.append(gap)
        return found

    def draw_breaks(self, left: float, right: float, y: float) -> Svg:
        """A zigzag for each break, on an axis at height `y`, with its length, as "+298 s", where it has room."""
        parts, told = [], self.told_breaks()
        for gap in self.breaks:
            last = self.places[-1]
            x = left + (right - left) * (gap.start + gap.end) / 2 / last
            parts.append(el("rect", cls="paper", x=round(x - 4, 1), y=y - 5, width=8, height=10))
            parts.append(el("path", d=ZIGZAG, cls="grey-line", fill="none", stroke_width=1.2, transform=f"translate({x:.1f} {y:g})"))
            if gap in told:
                parts.append(el("text", f"+{gap.label}", cls="grey", x=round(x, 1), y=y + 14, text_anchor="middle", font_size=11))
        return group(*parts)

    def to_json(self) -> dict[str, Any]:
        """For the player: hundredths of a second, each place as what it adds to the one before."""
        told = self.told_breaks()
        return {
            "places": differences([round(100 * place) for place in self.places]),
            "length": round(100 * self.length),
            "labels": [[step, told] for step, told in self.labels()],
            "breaks": [[round(100 * gap.start), round(100 * gap.end), gap.label, gap in told] for gap in self.breaks],
        }


def play_clock(at_ms: Sequence[int], pauses: Collection[int] = ()) -> PlayClock:
    """The clock of steps at these times, which never fall; after each step of `pauses` it stands still for a while."""
    count = len(at_ms)
    if not count:
        return PlayClock()
    gaps = [after - before for before, after in pairwise(at_ms)]
    waits = [gap for gap in gaps if gap > 0]
    of_steps = min(STEP_S * count, BASE_S + MORE_S * count, MOST_S)
    of_waits = min(WAIT_S * len(waits), MOST_WAITS * of_steps)
    rate, longest = _rate(waits, of_waits)
    is_paused = set(pauses) if len(pauses) <= MOST_PAUSES else set()
    place, places, breaks = 0.0, [0.0], []
    for step, gap in enumerate(gaps):
        place += of_steps / count + (PAUSE_S if step in is_paused else 0.0)
        if gap > longest:
            breaks.append(Break(place, place + BREAK_S, gap))
            place += BREAK_S
        else:
            place += gap * rate
        places.append(place)
    return PlayClock(places, list(at_ms), breaks)


def _rate(waits: list[int], of_waits: float) -> tuple[float, int]:
    """Seconds of play for a millisecond, and the longest wait that is no break."""
    if not waits:
        return 0.0, 0
    usual, most = median(waits), max(SHARE, 2 / len(waits))
    kept = sorted(waits)
    while True:
        rate = of_waits / sum(kept)
        if kept[-1] <= LONGER * usual or kept[-1] * rate <= most * of_waits or len(kept) == 1:
            return rate, kept[-1]
        kept.pop()


def duration(ms: int) -> str:
    """A length of time as people say it: 85 ms, 2.5 s, 298 s, 90 min, 36 h, 12 d."""
    for unit, below, name in ((1, 1_000, "ms"), (1_000, 600_000, "s"), (60_000, 7_200_000, "min"), (3_600_000, 172_800_000, "h")):
        if ms < below:
            return f"{ms / unit:.3g} {name}"
    return f"{ms / 86_400_000:,.1f} d".replace(".0 d", " d")


@dataclass(frozen=True, slots=True)
class Mark:
    """One step worth jumping to."""

    step: int
    name: str  # "crash", "restart", "first lost", ...
    is_alarm: bool = False  # an anomaly's first witness, or what dies


def events(trace: Trace) -> list[Mark]:
    """What the words of the trace's domain mark."""
    found: list[Mark] = []
    has_died = False
    for step in trace.steps:
        name = trace.vocabulary.mark(step.what, step.data)
        if not name:
            continue
        has_died = has_died or name in ENDS
        if name != RETURN or has_died:
            found.append(Mark(step.number, name, name in ENDS))
    return found


def pauses(marks: Iterable[Mark]) -> list[int]:
    """The steps at which something dies or comes back."""
    return [mark.step for mark in marks if mark.name in ENDS or mark.name == RETURN]


def marks_of(trace: Trace, verdict: Verdict) -> list[Mark]:
    """All marks of a run in the order of their steps."""
    found = events(trace)
    if trace.parent is not None:
        found.append(Mark(int(trace.parent["at"]), "fork"))
    for kind in verdict.kinds:
        witness = verdict.first(kind).witness
        if witness is not None and witness < len(trace):
            found.append(Mark(witness, f"first {kind.replace('_', ' ')}", True))
    return sorted(found, key=lambda mark: mark.step)


def signs_of(marks: Iterable[Mark], clock: PlayClock) -> list[dict[str, Any]]:
    """The marks as they stand on the slider, for the player: those too close to each other are one sign."""

    def apart(one: Mark, other: Mark) -> float:
        return clock.share(other.step) - clock.share(one.step)

    crowds: list[list[Mark]] = []
    for mark in marks:
        crowd = crowds[-1] if crowds else []
        is_alike = {each.name for each in crowd} == {mark.name}
        if crowd and (apart(crowd[0], mark) < NEAR or (is_alike and apart(crowd[-1], mark) < ALIKE)):
            crowd.append(mark)
        else:
            crowds.append([mark])
    return [
        {
            "steps": list(dict.fromkeys(mark.step for mark in crowd)),
            "label": _label([mark.name for mark in crowd]),
            "isAlarm": any(mark.is_alarm for mark in crowd),
        }
        for crowd in crowds
    ]


def _label(names: Sequence[str]) -> str:
    """`crash`, `crash, restart`, `12 resets`, `crash, 3 time-outs and more`."""
    told = [name if count == 1 else f"{name} ×{count}" for name, count in Counter(names).items()]
    return ", ".join(told) if len(told) <= MOST_KINDS else f"{', '.join(told[: MOST_KINDS - 1])} and more"
