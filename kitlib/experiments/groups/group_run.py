"""A run with a consumer group: the story drives the members in lockstep, and every step is written down.

A story joins members, lets them poll, works on what they got, kills and freezes some. The run writes what
each call showed: partitions that came and went, records handed out, commits. What happens in between by
itself is found by looking: the coordinator's steps, and offsets that were committed in the background.

The words of such a trace: `kitlib.words.groups`.
Each state holds the group and, for each partition, its cursors: [committed, processed, fetched, log end].
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from kitlib.errors import LateError
from kitlib.experiments.groups.group import GroupView, MemberSettings, ModelGroup, ModelMember
from kitlib.experiments.run import Run
from kitlib.experiments.script import Intervention
from kitlib.mechanisms.groups.group_protocol import CoordinatorEvent
from kitlib.mechanisms.positions import BY_DURATION
from kitlib.trace import add_to_ranges
from kitlib.words.word import Range

SETTLE_MS = 20_000  # a rebalance that takes longer is an error
POLL_MS = 50  # how long a poll waits in which a member only takes part
LOOK_EVERY_MS = 50  # how often committed offsets are looked at while someone works
Record = tuple[int, int]  # (partition, offset)


@dataclass(slots=True)
class MemberState:
    """One member of the story, and what the run knows of it."""

    client: ModelMember  # or its twin on Kafka
    settings: MemberSettings
    held: set[int] = field(default_factory=set)  # partitions, by its own word
    position: dict[int, int] = field(default_factory=dict)  # of those it holds: the next offset it will be handed
    done: dict[int, int] = field(default_factory=dict)  # of those it holds: everything handed to it below is processed
    waiting: deque[Record] = field(default_factory=deque)  # handed out, not processed
    status: str = "runs"  # "runs", "freeze", "cut_off", "kill", "leave", "late": the last thing that was done to it
    polled_ms: int | None = None  # its last poll
    error: str = ""  # why it cannot go on

    @property
    def is_there(self) -> bool:
        """Whether its process lives."""
        return self.status not in ("kill", "leave")

    @property
    def runs(self) -> bool:
        """Whether it can be polled."""
        return self.is_there and self.status != "freeze"

    @property
    def unsettled(self) -> set[int]:
        """Of the partitions that it holds those of which it is not known yet where it begins."""
        return self.held - self.position.keys()

    @property
    def is_placed(self) -> bool:
        """Whether it knows where it reads, or why it cannot; by duration it may have to wait for a young record."""
        return not self.unsettled or bool(self.error) or self.settings.auto_offset_reset.startswith(BY_DURATION)

    def give_up(self, partition: int) -> None:
        """It holds the partition no longer."""
        self.held.discard(partition)
        self.position.pop(partition, None)
        self.done.pop(partition, None)

    def why_evicted(self) -> str:
        """By which of the rules the coordinator must have removed it."""
        if self.settings.instance_id is None and self.status in ("late", "leave"):
            return "poll" if self.status == "late" else "leave"
        return "session"  # a static member goes without a word, and the others could not say one


@dataclass(slots=True)
class GroupRun(Run):
    """One run: the group it takes place in, its members by name, and a story's calls to them, each written down."""

    domain: ClassVar[str] = "groups"
    takes: ClassVar[tuple[str, ...]] = (
        "freeze MEMBER at T ms for D ms", "lose heartbeat N of MEMBER", "lose commit N of MEMBER"
    )  # fmt: skip
    real_takes: ClassVar[tuple[str, ...]] = takes[:1]
    model_script: ClassVar[str] = "a real client's threads decide when it sends one, so no number names the same message twice"

    group: ModelGroup = field(init=False)  # or its twin on Kafka
    members: dict[str, MemberState] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)  # partition -> next offset of its log
    committed: dict[int, int | None] = field(default_factory=dict)  # as last seen
    starts: dict[int, int] = field(default_factory=dict)  # partition -> where its log begins; 0 if it is not here
    processed: dict[int, list[Range]] = field(default_factory=dict)
    fetched: dict[int, int] = field(default_factory=dict)  # partition -> its newest owner's position
    idle_since: dict[int, int] = field(default_factory=dict)  # partition -> since when no running member holds it
    view: GroupView = field(default_factory=lambda: GroupView("Empty"))

    frozen: set[str] = field(default_factory=set)  # members that a script has frozen

    def __post_init__(self) -> None:
        self.group = self.backend.provide(ModelGroup, self.trace.run)
        if self.backend.name == "model":
            self.group.is_lost = lambda name, thing, number: bool(self.interventions.on(thing, number, f" of {name}"))

    @property
    def topic(self) -> str:
        """What the topic is called in the trace."""
        return self.group.topic

    def create(self, partitions: int, records: int = 0) -> None:
        """Create the topic with so many records in each partition."""
        self.group.create(partitions)
        self._know(partitions)
        for partition in self.ends if records else ():
            self.append(partition, records)

    def add_partitions(self, partitions: int) -> None:
        """Raise the topic's number of partitions to so many; its members do not know of it yet."""
        self.group.add_partitions(partitions)
        self._know(partitions)
        self.record("topic", "partitions", count=partitions)

    def _know(self, partitions: int) -> None:
        for partition in range(len(self.ends), partitions):
            self.ends[partition], self.committed[partition], self.processed[partition] = 0, None, []

    def append(self, partition: int, count: int, age_ms: int = 0) -> None:
        """Append records to one partition, with timestamps so far back."""
        if not count:
            return
        first = self.group.append(partition, count, age_ms)
        self.ends[partition] = first + count
        self.record_lane("log", "append", partition, first=first, last=first + count - 1)

    def join(self, name: str, settings: MemberSettings) -> None:
        """Start a consumer; it is a member after a few polls."""
        self.members[name] = MemberState(self.group.join(name, settings), settings)
        static = {} if settings.instance_id is None else {"instance_id": settings.instance_id}
        self.record(name, "join", strategies=list(settings.strategies), library=settings.library, **static)

    def start(self, settings: MemberSettings, *names: str) -> None:
        """These consumers join, and all that run take part until the group is settled."""
        for name in names:
            self.join(name, settings)
        self.settle()

    def poll(self, name: str, max_records: int | None = None, timeout_ms: int = POLL_MS) -> list[Record]:
        """One poll; the records that it handed out. They wait to be worked on."""
        member = self._free(name)
        self._notice_lateness(name, member)
        polled = member.client.poll(member.settings.max_poll_records if max_records is None else max_records, timeout_ms)
        member.polled_ms = self.group.now_ms
        if member.status == "late":
            member.status = "runs"
        self.look()
        for event in polled.events:
            if event.what == "assigned":
                member.error = ""  # whatever it was refused for, it is a member again
                self._assigned(name, member, event.partitions, event.generation, polled.records)
            elif event.what in ("revoked", "lost"):
                self._given_up(name, member, event.what, event.partitions)
            elif event.what == "error":
                member.error = event.error
                self.record(name, "refused", error=event.error)
            elif event.error not in ("", "NONE"):
                self._refused_commit(name, {p: member.position.get(p, 0) for p in event.partitions}, event.error)
        for partition, offset in polled.records:
            self.found(name, member, partition, offset)
            member.position[partition] = self.fetched[partition] = offset + 1
            member.waiting.append((partition, offset))
            self.record_lane(name, "emit", partition, offset=offset)
        self.find_positions(name, member)
        return list(polled.records)

    def take(self, name: str, count: int, most_ms: int = SETTLE_MS) -> list[Record]:
        """Poll until so many records wait to be worked on; all that wait. LateError when they do not come in time."""
        member = self.members[name]

        def polls() -> None:
            self.poll(name, min(count - len(member.waiting), member.settings.max_poll_records))

        self.until(lambda: len(member.waiting) >= count, f"{name}'s receipt of {count} records", polls, most_ms)
        return list(member.waiting)

    def process(self, name: str, record: Record) -> None:
        """The user's work on one record is done."""
        member, (partition, offset) = self._free(name), record
        if record in member.waiting:
            member.waiting.remove(record)
        add_to_ranges(self.processed[partition], offset)
        member.done[partition] = max(member.done.get(partition, 0), offset + 1)
        self.record_lane(name, "process", partition, offset=offset)

    def pass_over(self, name: str, record: Record) -> None:
        """The user finds that the record was done before, and does nothing."""
        member, (partition, offset) = self._free(name), record
        member.waiting.remove(record)
        member.done[partition] = max(member.done.get(partition, 0), offset + 1)
        self.record_lane(name, "known", partition, offset=offset)

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
        member = self._free(name)
        error = member.client.commit(offsets)
        wanted = {p: member.position[p] for p in member.held if p in member.position} if offsets is None else offsets
        if error == "NONE":
            self.look(by=name, wanted=offsets or {})
        else:
            self.look()
            self._refused_commit(name, wanted, error)
        return error

    def commit_done(self, name: str) -> str:
        """The user commits what is processed of the partitions that he holds."""
        member = self.members[name]
        done = {partition: offset for partition, offset in member.done.items() if offset != self.committed.get(partition)}
        return self.commit(name, done) if done else "NONE"

    def store(self, name: str, partition: int, next_offset: int) -> str:
        """The user stores an offset for librdkafka's next commit; "NONE" or "STATE"."""
        error = self._free(name).client.store(partition, next_offset)
        self.record_lane(name, "store", partition, offset=next_offset, **({} if error == "NONE" else {"error": error}))
        return error

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
        self.record_lane("operator", what, partition, **data, **({} if error == "NONE" else {"error": error}))

    def _wait_if_nobody_is_left(self) -> None:
        if not any(member.is_there for member in self.members.values()):
            self.until(lambda: not self.group.view().members, "the end of the last member's session")
        self.look()

    def delete_before(self, partition: int, offset: int) -> int:
        """An operator has what lies below the offset deleted; where the log begins then."""
        return self._deleted(partition, self.group.delete_before(partition, offset))

    def retain(self, partition: int, retention_ms: int) -> int:
        """Retention deletes the segments of which all is older than this; where the log begins then."""
        return self._deleted(partition, self.group.retain(partition, retention_ms))

    def _deleted(self, partition: int, start: int) -> int:
        self.starts[partition] = start
        self.record_lane("log", "delete", partition, to=start)
        return start

    def close(self, name: str) -> None:
        """It leaves as its library does."""
        member = self._free(name)
        member.status = "leave"
        member.client.close()
        self.look()
        self._end(name, member, "leave")

    def kill(self, name: str, at: Record | None = None) -> None:
        """Its process ends at once; `at` is the record that it was working on."""
        self.members[name].client.kill()
        self._end(name, self.members[name], "kill", at)

    def freeze(self, name: str) -> None:
        """None of its threads runs any more."""
        self._freeze(name, self._free(name))

    def _freeze(self, name: str, member: MemberState) -> None:
        member.client.freeze()
        member.status = "freeze"
        self.record(name, "freeze")

    def thaw(self, name: str) -> None:
        """It goes on where it was frozen."""
        self.members[name].client.thaw()
        self.members[name].status = "runs"
        self.record(name, "thaw")

    def cut_off(self, name: str) -> None:
        """Its network is gone; it runs on."""
        self._free(name).client.cut_off()
        self.members[name].status = "cut_off"
        self.record(name, "cut_off")

    def reconnect(self, name: str) -> None:
        """Its network is back."""
        self.members[name].client.reconnect()
        self.members[name].status = "runs"
        self.record(name, "reconnect")

    @property
    def script_ms(self) -> int:
        return self.group.now_ms

    def break_process(self, found: Intervention) -> None:
        free = [name for name in self.running if self.members[name].status != "cut_off"]
        if found.target not in free:
            raise self.no_process(found, "member", free)
        self._freeze(found.target, self.members[found.target])
        self.frozen.add(found.target)

    def mend_process(self, found: Intervention) -> None:
        self.frozen.discard(found.target)
        if self.members[found.target].status == "freeze":
            self.thaw(found.target)

    def _free(self, name: str) -> MemberState:
        """A call to a member that a script has frozen comes back when it goes on."""
        self.meet()
        while name in self.frozen and (turn_ms := self.interventions.turn_ms) is not None:
            self.pass_ms(max(1, turn_ms - self.group.now_ms))
        return self.members[name]

    @property
    def running(self) -> list[str]:
        """The members that can be polled, in the order in which they came."""
        return [name for name, member in self.members.items() if member.runs]

    def pass_ms(self, ms: int) -> None:
        """Time goes by; what went on in the background is written down."""
        end_ms = self.group.now_ms + ms
        while (turn_ms := self.interventions.turn_ms) is not None and turn_ms <= end_ms:
            self.group.pass_ms(max(0, turn_ms - self.group.now_ms))
            self.meet()
        self.group.pass_ms(max(0, end_ms - self.group.now_ms))
        self.look()

    def until(
        self, condition: Callable[[], bool], what: str, act: Callable[[], object] | None = None, most_ms: int = SETTLE_MS
    ) -> None:
        """Act again and again (let time pass) until it is so.

        LateError that says what did not happen, and how the group is, after `most_ms`.
        """
        deadline = self.group.now_ms + most_ms
        while not condition():
            if self.group.now_ms >= deadline:
                held = {name: sorted(member.held) for name, member in self.members.items() if member.is_there}
                raise LateError(
                    f"{self.trace.run}: {what} did not happen within {most_ms} ms; {self.group.view()}, the members hold {held}. "
                    "Look at the trace, or at `kit status` on kafka."
                )
            if act is None:
                self.pass_ms(20)
            else:
                act()

    def settle(self, names: Sequence[str] | None = None, most_ms: int = SETTLE_MS) -> None:
        """Let these members (all that run) take part until the group is stable and each holds what it was dealt."""
        wanted = list(names or self.running)

        def polls() -> None:
            for name in wanted:
                self.poll(name, 0)

        self.until(lambda: self.is_settled(wanted), f"a stable group with {', '.join(wanted)}", polls, most_ms)

    def is_settled(self, names: Sequence[str] | None = None) -> bool:
        """Whether the group is stable with these members (all that run), and each holds what it was dealt."""
        wanted, view = list(names or self.running), self.group.view()
        places = {self._place(name): name for name in wanted}
        if not all(self.members[name].is_placed for name in wanted):
            return False
        if view.state != "Stable" or set(map(self._place, view.members)) != set(places):
            return False
        return all(
            self._place(owner) in places
            and all((partition in self.members[name].held) == (name == places.get(self._place(owner))) for name in wanted)
            for partition, owner in self.group.owners().items()
        )

    def _place(self, name: str | None) -> str | None:
        """A static member's instance id: whoever takes its place goes by the name of the one who had it first."""
        member = self.members.get(name or "")
        return name if member is None else member.settings.instance_id or name

    def _notice_lateness(self, name: str, member: MemberState) -> None:
        """Write down that the user's last poll is too long ago."""
        is_late = (
            member.polled_ms is not None and self.group.now_ms - member.polled_ms >= member.settings.max_poll_interval_ms
        )
        if is_late and member.status == "runs":
            member.status = "late"
            self.record(name, "late")

    def _assigned(
        self, name: str, member: MemberState, partitions: Sequence[int], generation: int | None, records: Sequence[Record]
    ) -> None:
        member.held.update(partitions)
        self.record(name, "assigned", partitions=[[self.topic, p] for p in partitions], generation=generation)
        for partition in partitions:
            committed = self.committed[partition]
            first = min((at for found, at in records if found == partition), default=committed)
            if committed is not None and first is not None and self.is_in_log(partition, committed):
                self.begin(name, member, partition, first, "committed offset")

    def _given_up(self, name: str, member: MemberState, what: str, partitions: Sequence[int]) -> None:
        for partition in partitions:
            member.give_up(partition)
        self.record(name, what, partitions=[[self.topic, p] for p in partitions])

    def _end(self, name: str, member: MemberState, what: str, at: Record | None = None) -> None:
        member.status = what
        member.held.clear()
        member.waiting.clear()
        if at is None:
            self.record(name, what)
        else:
            self.record_lane(name, what, at[0], offset=at[1])

    def look(self, by: str | None = None, wanted: dict[int, int] | None = None) -> None:
        """Write down what the coordinator did, and which offsets were committed, since the last look."""
        for name, member in self.members.items():
            self._notice_lateness(name, member)
        for event in self.group.happened():
            self._coordinator(event)
        before, self.committed = self.committed, self.group.committed()
        for partition, offset in self.committed.items():
            is_own = wanted is not None and wanted.get(partition) == offset
            if offset is not None and (offset != before[partition] or is_own):
                self.record_lane(by or self._holder(partition), "commit", partition, offset=offset, written=True)

    def _coordinator(self, event: CoordinatorEvent) -> None:
        data = dict(event.data)
        if event.what == "evict":
            member = self.members.get(str(data.get("member")))
            data.setdefault("why", "session" if member is None else member.why_evicted())
        self.view = self.group.view()
        self.record("network" if event.what == "lose_message" else "coordinator", event.what, **data)

    def _holder(self, partition: int) -> str:
        """Who must have committed by itself: who holds the partition, or held it last."""
        holder = next((name for name, member in self.members.items() if partition in member.held), None)
        return holder or next((name for name, member in self.members.items() if member.is_there), "nobody")

    def _refused_commit(self, name: str, offsets: dict[int, int], error: str) -> None:
        for partition, offset in sorted(offsets.items()):
            self.record_lane(name, "commit", partition, offset=offset, written=False, error=error)

    def begin(self, name: str, member: MemberState, partition: int, offset: int, why: str) -> None:
        """It begins to read a partition at this offset."""
        member.position[partition] = self.fetched[partition] = offset
        self.record_lane(name, "start", partition, offset=offset, why=why)

    def is_in_log(self, partition: int, offset: int) -> bool:
        """Whether the offset is one that can be fetched, the next to come included."""
        return self.starts.get(partition, 0) <= offset <= self.ends[partition]

    def found(self, name: str, member: MemberState, partition: int, offset: int) -> None:
        """It reads on at this offset; write down by which rule, if that is news."""
        policy, before = member.settings.auto_offset_reset, member.position.get(partition)
        if partition in member.unsettled:
            out = self.committed[partition] is not None
            self.begin(name, member, partition, offset, f"{policy}, out of range" if out else policy)
        elif before is not None and before != offset and not self.is_in_log(partition, before):
            member.position[partition] = self.fetched[partition] = offset
            self.record_lane(name, "reset", partition, **{"from": before, "to": offset, "why": policy})

    def find_positions(self, name: str, member: MemberState) -> None:
        """Ask it where it reads on in the partitions of which that is not known, or cannot be so any more."""
        lost = {partition for partition in member.held if not self.is_in_log(partition, member.position.get(partition, 0))}
        wanted = sorted(partition for partition in member.unsettled | lost if not member.error)
        if not wanted:
            return
        if member.settings.auto_offset_reset == "earliest" and not lost:  # no need to ask
            found: dict[int, int | None] = {partition: self.starts.get(partition, 0) for partition in wanted}
        else:
            found = member.client.positions()
        for partition in wanted:
            at = found.get(partition)
            if at is not None and self.is_in_log(partition, at):
                self.found(name, member, partition, at)

    def tell_lag(self, when: str) -> dict[int, int | None]:
        """What a monitor shows now: each partition's log end less the committed offset, beside what it cannot know."""
        lags: dict[int, int | None] = {}
        for partition, end in self.ends.items():
            committed, position = self.committed[partition], self.fetched.get(partition, 0)
            lag = lags[partition] = None if committed is None else end - committed
            start = self.starts.get(partition, 0)
            done = sum(max(0, last + 1 - max(first, start)) for first, last in self.processed[partition])
            self.record_lane(
                "monitor", "lag", partition, lag=lag, committed=committed, log_end=end, position=position,
                unprocessed=end - start - done, when=when,
            )  # fmt: skip
        return lags

    @property
    def now_ms(self) -> int:
        return self.group.now_ms

    def record_lane(self, actor: str, what: str, partition: int, /, **data: Any) -> None:
        """Write a step in a partition's lane."""
        committed = self.committed[partition]
        lane = {
            "log_start": self.starts.get(partition, 0), "log_end": self.ends[partition],
            "processed": [list(each) for each in self.processed[partition]],
            "committed_to": 0 if committed is None else committed, "emitted_to_offset": self.fetched.get(partition, 0),
        }  # fmt: skip
        self.write(self.now_ms, actor, what, {"topic": self.topic, "partition": partition} | data, lane | self.state())

    def state(self) -> dict[str, Any]:
        """The group as its coordinator describes it, who holds and reads what, and how far."""

        def named(partition: int) -> str:
            return f"{self.topic}-{partition}"

        owners: dict[str, str | None] = {named(partition): None for partition in self.ends}
        for name, member in self.members.items():
            owners.update((named(partition), name) for partition in member.held)
        read = {partition for member in self.members.values() if member.status != "freeze" for partition in member.held}
        self.idle_since = {p: self.idle_since.get(p, self.group.now_ms) for p in self.ends if p not in read}
        shown = asdict(self.view) | {"members": list(self.view.members), "owners": owners}
        shown["standing_still"] = {named(partition): since for partition, since in self.idle_since.items()}
        cursors = {
            named(p): [self.committed[p], contiguous(self.processed[p]), self.fetched.get(p), end]
            for p, end in self.ends.items()
        }
        return {"group": shown, "cursors": cursors}


def contiguous(ranges: list[Range]) -> int:
    """The offset below which everything is processed."""
    return ranges[0][1] + 1 if ranges and ranges[0][0] == 0 else 0
