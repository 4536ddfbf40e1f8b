"""A run with a consumer group: the story drives the members in lockstep, and every step is written down.

A story joins members, lets them poll, works on what they got, kills and freezes some. The run writes what
each call showed: partitions that came and went, records handed out, commits. What happens in between by
itself is found by looking: the coordinator's steps, and offsets that were committed in the background.

The words of such a trace are listed in `kitlib.experiments.groups.group_book`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from kitlib.errors import LabError
from kitlib.experiments.groups.group_book import GroupBook
from kitlib.experiments.groups.group_seat import Record, Seat
from kitlib.experiments.groups.group_stage import Happened, MemberSettings
from kitlib.trace import add_to_ranges

SETTLE_MS = 20_000  # a rebalance that takes longer is an error
POLL_MS = 50  # how long a poll waits in which a member only takes part
LOOK_EVERY_MS = 50  # how often committed offsets are looked at while someone works


@dataclass(slots=True)
class GroupRun(GroupBook):
    """One run: a story's calls to the members, each written down."""

    domain: ClassVar[str] = "groups"

    # -- the topic and the members -------------------------------------------------------------------

    def create(self, partitions: int, records: int = 0) -> None:
        """Create the topic with so many records in each partition."""
        self.group.create(partitions)
        self.ends = dict.fromkeys(range(partitions), 0)
        self.committed, self.processed = dict.fromkeys(self.ends), {partition: [] for partition in self.ends}
        self.idle_since = dict.fromkeys(self.ends, self.group.now_ms)
        for partition in self.ends if records else ():
            self.append(partition, records)

    def add_partitions(self, partitions: int) -> None:
        """Raise the topic's number of partitions to so many; its members do not know of it yet."""
        self.group.add_partitions(partitions)
        for partition in range(len(self.ends), partitions):
            self.ends[partition], self.committed[partition], self.processed[partition] = 0, None, []
            self.idle_since[partition] = self.group.now_ms
        self._record("topic", "partitions", count=partitions)

    def append(self, partition: int, count: int, age_ms: int = 0) -> None:
        """Append records to one partition, with timestamps so far back."""
        first = self.group.append(partition, count, age_ms)
        self.ends[partition] = first + count
        self._lane("log", "append", partition, first=first, last=first + count - 1)

    def join(self, name: str, settings: MemberSettings) -> None:
        """Start a consumer; it is a member after a few polls."""
        self.seats[name] = Seat(self.group.join(name, settings), settings)
        static = {} if settings.instance_id is None else {"instance_id": settings.instance_id}
        self._record(name, "join", strategies=list(settings.strategies), library=settings.library, **static)

    def poll(self, name: str, max_records: int | None = None, timeout_ms: int = POLL_MS) -> list[Record]:
        """One poll; the records that it handed out. They wait to be worked on."""
        seat = self.seats[name]
        self._notice_lateness(name, seat)
        polled = seat.member.poll(seat.settings.max_poll_records if max_records is None else max_records, timeout_ms)
        seat.polled_ms = self.group.now_ms
        if seat.status == "late":
            seat.status = "runs"
        self.look()
        for event in polled.events:
            if event.what == "assigned":
                self._assigned(name, seat, event.partitions, event.generation, polled.records)
            elif event.what in ("revoked", "lost"):
                self._given_up(name, seat, event.what, event.partitions)
            elif event.what == "error":
                seat.error = event.error
                self._record(name, "refused", error=event.error)
            elif event.error not in ("", "NONE"):
                self._refused_commit(name, {p: seat.position.get(p, 0) for p in event.partitions}, event.error)
        for partition, offset in polled.records:
            self.found(name, seat, partition, offset)
            seat.position[partition] = self.fetched[partition] = offset + 1
            seat.waiting.append((partition, offset))
            self._lane(name, "emit", partition, offset=offset)
        self.find_positions(name, seat)
        return list(polled.records)

    def take(self, name: str, count: int, most_ms: int = SETTLE_MS) -> list[Record]:
        """Poll until so many records wait to be worked on; all that wait. LabError when they do not come in time."""
        seat, deadline = self.seats[name], self.group.now_ms + most_ms
        while len(seat.waiting) < count:
            if self.group.now_ms > deadline:
                raise LabError(
                    f"{self.trace.run}: {name} received {len(seat.waiting)} records within {most_ms} ms, expected {count}. "
                    "Look at the trace, or at `kit status` on kafka."
                )
            self.poll(name, min(count - len(seat.waiting), seat.settings.max_poll_records))
        return list(seat.waiting)

    def process(self, name: str, record: Record) -> None:
        """The user's work on one record is done."""
        seat, (partition, offset) = self.seats[name], record
        if record in seat.waiting:
            seat.waiting.remove(record)
        add_to_ranges(self.processed[partition], offset)
        seat.done[partition] = max(seat.done.get(partition, 0), offset + 1)
        self._lane(name, "process", partition, offset=offset)

    def pass_over(self, name: str, record: Record) -> None:
        """The user finds that the record was done before, and does nothing."""
        seat, (partition, offset) = self.seats[name], record
        seat.waiting.remove(record)
        seat.done[partition] = max(seat.done.get(partition, 0), offset + 1)
        self._lane(name, "known", partition, offset=offset)

    def work(self, name: str, records: Iterable[Record], ms_each: float = 0) -> None:
        """Work on records one after the other in the thread that polls, so long on each."""
        owed = 0.0
        for record in records:
            owed += ms_each
            if owed >= min(LOOK_EVERY_MS, max(1, ms_each)):
                self.pass_ms(int(owed))
                owed -= int(owed)
            self.process(name, record)

    def commit(self, name: str, offsets: dict[int, int] | None = None) -> str:
        """The user commits these offsets, or what the library takes for done; "NONE" or the error's name."""
        seat = self.seats[name]
        error = seat.member.commit(offsets)
        wanted = {p: seat.position[p] for p in seat.held if p in seat.position} if offsets is None else offsets
        if error == "NONE":
            self.look(by=name, wanted=offsets or {})
        else:
            self.look()
            self._refused_commit(name, wanted, error)
        return error

    def commit_done(self, name: str) -> str:
        """The user commits what is processed of the partitions that he holds."""
        seat = self.seats[name]
        done = {partition: offset for partition, offset in seat.done.items() if offset != self.committed.get(partition)}
        return self.commit(name, done) if done else "NONE"

    def store(self, name: str, partition: int, next_offset: int) -> str:
        """The user stores an offset for librdkafka's next commit; "NONE" or "STATE"."""
        error = self.seats[name].member.store(partition, next_offset)
        self._lane(name, "store", partition, offset=next_offset, **({} if error == "NONE" else {"error": error}))
        return error

    # -- what an operator does, and retention ----------------------------------------------------------

    def alter(self, offsets: dict[int, int]) -> str:
        """An operator sets committed offsets by hand; "NONE", or the error's name: somebody is a member.

        Those who were killed are waited for: the coordinator takes them for members until their session is over.
        """
        self._wait_if_nobody_is_left()
        before, error = dict(self.committed), self.group.alter(offsets)
        for partition, offset in sorted(offsets.items()):
            self._operated("alter", partition, error, offset=offset, before=before[partition])
        return error

    def forget(self, partitions: Sequence[int]) -> str:
        """An operator deletes committed offsets, each by a tombstone; "NONE" or the error's name, as `alter`."""
        self._wait_if_nobody_is_left()
        before, error = dict(self.committed), self.group.forget(partitions)
        for partition in partitions:
            self._operated("forget", partition, error, before=before[partition])
        return error

    def _operated(self, what: str, partition: int, error: str, **data: int | None) -> None:
        self.committed = self.group.committed()
        self._lane("operator", what, partition, **data, **({} if error == "NONE" else {"error": error}))

    def _wait_if_nobody_is_left(self) -> None:
        if not any(seat.is_there for seat in self.seats.values()):
            self.wait_until(lambda: not self.group.view().members, SETTLE_MS, "the end of the last member's session")
        self.look()

    def delete_before(self, partition: int, offset: int) -> int:
        """An operator has what lies below the offset deleted; where the log begins then."""
        return self._deleted(partition, self.group.delete_before(partition, offset))

    def retain(self, partition: int, retention_ms: int) -> int:
        """Retention deletes the segments of which all is older than this; where the log begins then."""
        return self._deleted(partition, self.group.retain(partition, retention_ms))

    def _deleted(self, partition: int, start: int) -> int:
        self.starts[partition] = start
        self._lane("log", "delete", partition, to=start)
        return start

    # -- what is done to a member ----------------------------------------------------------------------

    def close(self, name: str) -> None:
        """It leaves as its library does."""
        seat = self.seats[name]
        seat.status = "leave"
        seat.member.close()
        self.look()
        self._end(name, seat, "leave")

    def kill(self, name: str, at: Record | None = None) -> None:
        """Its process ends at once; `at` is the record that it was working on."""
        self.seats[name].member.kill()
        self._end(name, self.seats[name], "kill", at)

    def throw(self, name: str, at: Record) -> None:
        """The work on this record fails; what then is the story's affair."""
        self._lane(name, "throw", at[0], offset=at[1])

    def freeze(self, name: str) -> None:
        """None of its threads runs any more."""
        seat = self.seats[name]
        seat.member.freeze()
        seat.status = "freeze"
        for partition in seat.held:
            self._mark_idle(partition)
        self._record(name, "freeze")

    def thaw(self, name: str) -> None:
        """It goes on where it was frozen."""
        seat = self.seats[name]
        seat.member.thaw()
        seat.status = "runs"
        for partition in seat.held:
            self.idle_since.pop(partition, None)
        self._record(name, "thaw")

    def cut_off(self, name: str) -> None:
        """Its network is gone; it runs on."""
        self.seats[name].member.cut_off()
        self.seats[name].status = "cut_off"
        self._record(name, "cut_off")

    def reconnect(self, name: str) -> None:
        """Its network is back."""
        self.seats[name].member.reconnect()
        self.seats[name].status = "runs"
        self._record(name, "reconnect")

    # -- time ----------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[str]:
        """The members that can be polled, in the order in which they came."""
        return [name for name, seat in self.seats.items() if seat.runs]

    def pass_ms(self, ms: int) -> None:
        """Time goes by; what went on in the background is written down."""
        self.group.pass_ms(ms)
        self.look()

    def wait_until(self, condition: Callable[[], bool], most_ms: int, what: str) -> None:
        """Let time pass until the condition holds. LabError when it does not within `most_ms`."""
        deadline = self.group.now_ms + most_ms
        while not condition():
            if self.group.now_ms >= deadline:
                raise LabError(
                    f"{self.trace.run}: {what} did not happen within {most_ms} ms; {self.group.view()}. Look at the trace."
                )
            self.pass_ms(20)

    def settle(self, names: Sequence[str] | None = None, most_ms: int = SETTLE_MS) -> None:
        """Let these members (all that run) take part until the group is stable and each holds what it was dealt."""
        wanted = list(names or self.running)
        deadline = self.group.now_ms + most_ms
        while not self.is_settled(wanted):
            if self.group.now_ms > deadline:
                held = {name: sorted(self.seats[name].held) for name in wanted}
                raise LabError(
                    f"{self.trace.run}: the group is not stable with {', '.join(wanted)} after {most_ms} ms; "
                    f"{self.group.view()}, they hold {held}. Look at the trace, or at `kit status` on kafka."
                )
            for name in wanted:
                self.poll(name, 0)

    def drain(self, name: str, most_ms: int = SETTLE_MS) -> None:
        """Let this member work on all that is left of what it holds, and commit it."""
        seat, deadline = self.seats[name], self.group.now_ms + most_ms
        while any(seat.position.get(p, 0) < self.ends[p] for p in seat.held) or seat.waiting:
            if self.group.now_ms > deadline:
                raise LabError(
                    f"{self.trace.run}: {name} did not reach the end within {most_ms} ms. Look at the trace."
                )
            self.poll(name)
            self.work(name, list(seat.waiting))
        self.commit_done(name)

    def end(self) -> None:
        """End every member that is left; the run's last look was before."""
        self.group.close()

    # -- what the calls showed --------------------------------------------------------------------------------

    def is_settled(self, names: Sequence[str] | None = None) -> bool:
        """Whether the group is stable with these members (all that run), and each holds what it was dealt."""
        wanted, view = list(names or self.running), self.group.view()
        places = {self._place(name): name for name in wanted}
        if not all(self.seats[name].is_placed for name in wanted):
            return False
        if view.state != "Stable" or set(map(self._place, view.members)) != set(places):
            return False
        return all(
            self._place(owner) in places
            and all((partition in self.seats[name].held) == (name == places.get(self._place(owner))) for name in wanted)
            for partition, owner in self.group.owners().items()
        )

    def _place(self, name: str | None) -> str | None:
        """A static member's instance id: whoever takes its place goes by the name of the one who had it first."""
        seat = self.seats.get(name or "")
        return name if seat is None else seat.settings.instance_id or name

    def _notice_lateness(self, name: str, seat: Seat) -> None:
        """Write down that the user's last poll is too long ago."""
        is_late = (
            seat.polled_ms is not None and self.group.now_ms - seat.polled_ms >= seat.settings.max_poll_interval_ms
        )
        if is_late and seat.status == "runs":
            seat.status = "late"
            self._record(name, "late")

    def _assigned(
        self, name: str, seat: Seat, partitions: Sequence[int], generation: int | None, records: Sequence[Record]
    ) -> None:
        fresh = [partition for partition in partitions if not seat.take_back(partition)]
        for partition in partitions:
            self.idle_since.pop(partition, None)
        self._record(name, "assigned", partitions=[[self.topic, p] for p in partitions], generation=generation)
        seat.kept = {}
        for partition in fresh:
            committed = self.committed[partition]
            first = min((at for found, at in records if found == partition), default=committed)
            if committed is not None and first is not None and self.is_in_log(partition, committed):
                self.begin(name, seat, partition, first, "committed offset")
            else:
                seat.unsettled.add(partition)

    def _given_up(self, name: str, seat: Seat, what: str, partitions: Sequence[int]) -> None:
        for partition in partitions:
            seat.give_up(partition, what == "lost")
            self._mark_idle(partition)
        self._record(name, what, partitions=[[self.topic, p] for p in partitions])

    def _end(self, name: str, seat: Seat, what: str, at: Record | None = None) -> None:
        seat.status, held = what, seat.held
        seat.held = set()
        seat.waiting.clear()
        for partition in held:
            self._mark_idle(partition)
        if at is None:
            self._record(name, what)
        else:
            self._lane(name, what, at[0], offset=at[1])

    def _mark_idle(self, partition: int) -> None:
        if not any(partition in seat.held for seat in self.seats.values() if seat.runs):
            self.idle_since.setdefault(partition, self.group.now_ms)

    def look(self, by: str | None = None, wanted: dict[int, int] | None = None) -> None:
        """Write down what the coordinator did, and which offsets were committed, since the last look."""
        for name, seat in self.seats.items():
            self._notice_lateness(name, seat)
        for happened in self.group.happened():
            self._coordinator(happened)
        before, self.committed = self.committed, self.group.committed()
        for partition, offset in self.committed.items():
            is_own = wanted is not None and wanted.get(partition) == offset
            if offset is not None and (offset != before[partition] or is_own):
                self._lane(by or self._holder(partition), "commit", partition, offset=offset, written=True)

    def _coordinator(self, happened: Happened) -> None:
        data = dict(happened.data)
        if happened.what == "evict":
            seat = self.seats.get(str(data.get("member")))
            data.setdefault("why", "session" if seat is None else seat.why_evicted())
        self.view = self.group.view()
        self._record("coordinator", happened.what, **data)

    def _holder(self, partition: int) -> str:
        """Who must have committed by itself: who holds the partition, or held it last."""
        holder = next((name for name, seat in self.seats.items() if partition in seat.held), None)
        return holder or next((name for name, seat in self.seats.items() if seat.is_there), "nobody")

    def _refused_commit(self, name: str, offsets: dict[int, int], error: str) -> None:
        for partition, offset in sorted(offsets.items()):
            self._lane(name, "commit", partition, offset=offset, written=False, error=error)
