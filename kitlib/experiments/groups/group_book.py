"""What a run with a consumer group knows, and the trace that it writes.

The words of such a trace, besides those of `kitlib.monitor.delivery`, whose `emit`, `process`, `commit` and
`start` are the members':

    <member>     join {strategies, instance_id?}   assigned {partitions, generation}   revoked {partitions}
                 lost {partitions}   store {topic, partition, offset, error?}   late {}   refused {error}
                 reset {topic, partition, from, to, why}: the position was out of range, and the policy says `to`
                 leave {}   kill {partition?, offset?}   freeze {}   thaw {}   cut_off {}   reconnect {}
                 throw {partition, offset}: the work on a record has failed, and nobody catches that
    operator     alter {topic, partition, offset, before, error?}   forget {topic, partition, before, error?}
    <member>     known {topic, partition, offset}: it finds that the record was done, and does nothing
    monitor      lag {topic, partition, lag, committed, log_end, position, unprocessed, when}
    log, topic   delete {topic, partition, to}   partitions {count}
    coordinator  prepare {why}   sync {generation, leader, protocol}   stable {generation, owners}
                 evict {member, why}   empty {}

Each state holds the group and, for each partition, its cursors: [committed, processed, fetched, log end].
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from kitlib.experiments.groups.group_seat import Seat, contiguous
from kitlib.experiments.groups.group_stage import GroupStage, GroupView, open_group
from kitlib.experiments.run import Run
from kitlib.words.word import Range


@dataclass(slots=True)
class GroupBook(Run):
    """One run: the group it takes place in, its members by name, and the trace it writes."""

    group: GroupStage = field(init=False)
    seats: dict[str, Seat] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)  # partition -> next offset of its log
    committed: dict[int, int | None] = field(default_factory=dict)  # as last seen
    starts: dict[int, int] = field(default_factory=dict)  # partition -> where its log begins; 0 if it is not here
    processed: dict[int, list[Range]] = field(default_factory=dict)
    fetched: dict[int, int] = field(default_factory=dict)  # partition -> its newest owner's position
    idle_since: dict[int, int] = field(default_factory=dict)  # partition -> since when no running member holds it
    view: GroupView = field(default_factory=lambda: GroupView("Empty"))

    label: str = ""  # the lanes' topic, if it is not the topic's name
    twin: GroupBook | None = None  # of another group on the same topic; the states hold both

    def __post_init__(self) -> None:
        self.group = open_group(self.backend, self.trace.run)

    @property
    def topic(self) -> str:
        """What the topic is called in the trace."""
        return self.label or self.group.topic

    # -- where members read on --------------------------------------------------------------------------------

    def begin(self, name: str, seat: Seat, partition: int, offset: int, why: str) -> None:
        """It begins to read a partition at this offset."""
        seat.unsettled.discard(partition)
        seat.position[partition] = self.fetched[partition] = offset
        self._lane(name, "start", partition, offset=offset, why=why)

    def is_in_log(self, partition: int, offset: int) -> bool:
        """Whether the offset is one that can be fetched, the next to come included."""
        return self.starts.get(partition, 0) <= offset <= self.ends[partition]

    def found(self, name: str, seat: Seat, partition: int, offset: int) -> None:
        """It reads on at this offset; write down by which rule, if that is news."""
        policy, before = seat.settings.auto_offset_reset, seat.position.get(partition)
        if partition in seat.unsettled:
            out = self.committed[partition] is not None
            self.begin(name, seat, partition, offset, f"{policy}, out of range" if out else policy)
        elif before is not None and before != offset and not self.is_in_log(partition, before):
            seat.position[partition] = self.fetched[partition] = offset
            self._lane(name, "reset", partition, **{"from": before, "to": offset, "why": policy})

    def find_positions(self, name: str, seat: Seat) -> None:
        """Ask it where it reads on in the partitions of which that is not known, or cannot be so any more."""
        lost = {partition for partition in seat.held if not self.is_in_log(partition, seat.position.get(partition, 0))}
        wanted = sorted(partition for partition in seat.unsettled | lost if not seat.error)
        if not wanted:
            return
        if seat.settings.auto_offset_reset == "earliest" and not lost:  # no need to ask
            found: dict[int, int | None] = {partition: self.starts.get(partition, 0) for partition in wanted}
        else:
            found = seat.member.positions()
        for partition in wanted:
            at = found.get(partition)
            if at is not None and self.is_in_log(partition, at):
                self.found(name, seat, partition, at)

    # -- the trace --------------------------------------------------------------------------------------------

    def note(self, actor: str, what: str, /, **data: Any) -> None:
        """Write a step of the story's own."""
        self._record(actor, what, **data)

    def tell_lag(self, when: str) -> dict[int, int | None]:
        """What a monitor shows now: each partition's log end less the committed offset, beside what it cannot know."""
        lags: dict[int, int | None] = {}
        for partition, end in self.ends.items():
            committed, position = self.committed[partition], self.fetched.get(partition, 0)
            lag = lags[partition] = None if committed is None else end - committed
            start = self.starts.get(partition, 0)
            done = sum(max(0, last + 1 - max(first, start)) for first, last in self.processed[partition])
            self._lane(
                "monitor", "lag", partition, lag=lag, committed=committed, log_end=end, position=position,
                unprocessed=end - start - done, when=when,
            )  # fmt: skip
        return lags

    def note_lane(self, actor: str, what: str, partition: int, /, **data: Any) -> None:
        """Write a step of the story's own in a partition's lane."""
        self._lane(actor, what, partition, **data)

    def _lane(self, actor: str, what: str, partition: int, /, **data: Any) -> None:
        committed = self.committed[partition]
        state = {
            "log_start": self.starts.get(partition, 0), "log_end": self.ends[partition],
            "processed": [list(each) for each in self.processed[partition]],
            "committed_to": 0 if committed is None else committed, "emitted_to_offset": self.fetched.get(partition, 0),
        }  # fmt: skip
        self._write(actor, what, state | self._states(), {"topic": self.topic, "partition": partition} | data)

    def _record(self, actor: str, what: str, /, **data: Any) -> None:
        self._write(actor, what, self._states(), data)

    def _write(self, actor: str, what: str, state: dict[str, Any], data: dict[str, Any]) -> None:
        steps = self.trace.steps
        at_ms = max(self.group.now_ms, steps[-1].at_ms if steps else 0)
        self.write(at_ms, actor, what, data, state)

    def _state(self) -> dict[str, Any]:
        def named(partition: int) -> str:
            return f"{self.topic}-{partition}"

        owners: dict[str, str | None] = {named(partition): None for partition in self.ends}
        for name, seat in self.seats.items():
            owners.update((named(partition), name) for partition in seat.held)
        shown = asdict(self.view) | {"members": list(self.view.members), "owners": owners}
        shown["standing_still"] = {named(partition): since for partition, since in sorted(self.idle_since.items())}
        cursors = {
            named(p): [self.committed[p], contiguous(self.processed[p]), self.fetched.get(p), end]
            for p, end in self.ends.items()
        }
        return {"group": shown, "cursors": cursors}

    def _states(self) -> dict[str, Any]:
        """The state of both groups, if there are two: their members hold partitions of the same topic under two names."""
        state = self._state()
        if self.twin is not None:
            other = self.twin._state()
            for name in ("owners", "standing_still"):
                state["group"][name] |= other["group"][name]
            state["group"]["members"] += other["group"]["members"]
            state["cursors"] |= other["cursors"]
        return state
