"""Lives, read back from the index that the browser gets as `player_lives.js` reads it."""

from __future__ import annotations

import json
from itertools import accumulate
from typing import NamedTuple

from kitlib.trace import Trace
from kitlib.views.frames import to_frames
from kitlib.views.lives import NUMBERED, index_of


class Event(NamedTuple):
    """One row of a life, with the rule and the place of what decided; "" where no model did."""

    step: int
    said: str
    state: str
    why: str


class Lives:
    """The lives of one run."""

    def __init__(self, trace: Trace) -> None:
        frames = to_frames(trace)
        self.said = frames.said
        self.told = json.loads(json.dumps(index_of(trace, frames.lanes)))
        names, self.refs = self.told["names"], list[list[tuple[str, int | None, int | None]]]()
        for step in self.told["refs"]:
            self.refs.append([(names[name], ends[0], ends[-1]) if ends else (names[name], None, None) for name, *ends in step])
        self.changes = {names[name]: self._changes(row) for name, row in self.told["lanes"]}

    def _changes(self, row: list[int]) -> list[tuple[int, int, int, str]]:
        steps = accumulate(row[::4])
        rows = zip(steps, row[1::4], row[2::4], row[3::4], strict=True)
        return [(step, first, first + count - 1, self.told["states"][state]) for step, first, count, state in rows]

    def named(self, step: int) -> list[str]:
        """The refs that a step is about."""
        found = []
        for begin, first, last in self.refs[step]:
            found += [begin] if first is None or last is None else [f"{begin}{number}" for number in range(first, last + 1)]
        return found

    def of(self, ref: str) -> list[Event]:
        """The life of a thing; nothing when it does not occur."""
        kind, _, name = ref.partition(":")
        begin, number = ref, None
        digits = len(ref) - len(ref.rstrip("0123456789"))
        if 0 < digits <= 15 and ref[-digits - 1] in ":/" and kind in NUMBERED:
            begin, number = ref[:-digits], int(ref[-digits:])

        def is_it(one: tuple[str, int | None, int | None]) -> bool:
            one_begin, first, last = one
            return one == (ref, None, None) or (one_begin == begin and None not in (number, first) and first <= number <= last)  # type: ignore[operator]

        named = {step for step, mentions in enumerate(self.refs) if any(map(is_it, mentions))}
        if container := self.told["within"].get(kind):
            own = {one for step in named for one in self.refs[step] if one[0].startswith(f"{container}:")}
            for step, mentions in enumerate(self.refs):
                if own.intersection(mentions) and not any(one[0].startswith(f"{kind}:") for one in mentions):
                    named.add(step)
        if kind in ("member", "process"):
            named |= {step for step, who in enumerate(self.told["whoOf"]) if self.told["who"][who] == name}
        states = {step: state for step, first, last, state in self.changes.get(begin, ()) if number is not None and first <= number <= last}
        return [self._event(step, step in named, states.get(step, "")) for step in sorted(named | states.keys())]

    def _event(self, step: int, is_named: bool, state: str) -> Event:
        rule, aside = self.told["rules"][self.told["verbOf"][step]]
        return Event(step, self.said[step], state, " ".join(rule if is_named or not aside else aside))


def life(trace: Trace, ref: str) -> list[Event]:
    """The life of one thing of a run."""
    return Lives(trace).of(ref)
