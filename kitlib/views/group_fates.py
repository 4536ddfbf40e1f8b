"""What has become of each partition's records up to a step: processed, in a member's hands, or lost.

A group's commit is one number, and so is how far a consumer has worked. Neither shows a hole: records that a
commit has passed and that were never processed. Here the holes are kept. A record is *lost* once the committed
offset or the start of the log has passed it, unless a member that lives was given it, or it is processed later
in the run all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.trace import Step, Trace, add_to_ranges, to_ranges
from kitlib.views.group_reader import Place, place_of
from kitlib.words.word import Range

ENDS = frozenset({"kill", "leave", "error"})  # with these a member gives up what it was given


@dataclass(slots=True)
class Fates:
    """The records of all partitions after the steps that were taken."""

    ever: dict[Place, set[int]]  # processed somewhere in the whole run
    processed: dict[Place, list[Range]] = field(default_factory=dict)  # up to now
    in_hand: dict[Place, dict[int, str]] = field(
        default_factory=dict
    )  # given to a member and not processed yet -> the member
    log: dict[Place, tuple[int, int]] = field(
        default_factory=dict
    )  # the first offset that was appended, and one after the last
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
            found += (
                offset for offset in range(at, min(first, passed)) if offset not in ever and offset not in in_hand
            )
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


def told_ranges(ranges: list[Range]) -> str:
    """Ranges in words: "150 to 199, 210"."""
    return ", ".join(f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in ranges)
