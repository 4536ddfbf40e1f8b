"""A spout, a bolt and a clock: the small topology on which the PartitionManager is shown.

The spout asks its PartitionManager for the next record whenever fewer than `max_spout_pending` tuples
are on their way. The bolt works on each tuple for a while and then acks or fails it. Time is virtual
and chance is drawn from the seed, the offset and the attempt alone, so the same knobs give the same
run on the model and on a real broker, and a fork meets the same luck as its parent.

Left out: the tuple trees between spout and bolt, and their timeout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from kitlib.experiments.backend import NotedTopic
from kitlib.experiments.run import PartitionLedger
from kitlib.experiments.script import Intervention
from kitlib.experiments.world import NEVER, Action, World
from kitlib.mechanisms.log import EARLIEST_TIME, LATEST_TIME
from kitlib.mechanisms.offset_store import read_stored_offset
from kitlib.mechanisms.partition_manager import Emission, PartitionManager, SpoutConfig
from kitlib.mechanisms.spout_errors import FailedFetchError, TooManyTupleFailuresError
from kitlib.more.spout.earlier import EarlierPartitionManager
from kitlib.more.spout.kafka_spout import why_begun
from kitlib.more.spout.retry import BackoffPartitionManager
from kitlib.more.spout.uncommitted_cap import UncommittedCapManager
from kitlib.trace import in_log_order, to_ranges
from kitlib.words.word import Range

if TYPE_CHECKING:
    from kitlib.experiments.kafka_backend import Topic


@dataclass(slots=True)
class ShownLedgers:
    """A PartitionManager's ledgers as the steps hold them; one that has not changed is the list of the step before."""

    before: dict[str, tuple[object, list[Range]]] = field(default_factory=lambda: defaultdict(lambda: (None, [])))

    def of_manager(self, manager: PartitionManager, retries: int) -> dict[str, Any]:
        """What a PartitionManager holds. It is to be asked after each of its calls."""
        before, waiting, failed, emitted_to = self.before, manager.waiting_to_emit, manager.failed_offsets(), manager.emitted_to_offset
        # Between two steps one call has happened, so these tell whether a ledger changed.
        pending_key = id(manager), manager.number_acked, len(manager.pending), emitted_to
        waiting_key = id(manager), len(waiting), emitted_to, retries
        if before["pending"][0] != pending_key:
            before["pending"] = pending_key, to_ranges(manager.pending.members)
        if before["failed"][0] != failed:
            before["failed"] = failed, in_log_order(failed)
        if before["waiting"][0] != waiting_key:
            before["waiting"] = waiting_key, to_ranges([record.offset for record in waiting])
        return {
            "committed_to": manager.committed_to,
            "emitted_to_offset": emitted_to,
            "pending": before["pending"][1],
            "failed": before["failed"][1],
            "waiting": before["waiting"][1],
            "number_acked": manager.number_acked,
            "number_failed": manager.number_failed,
            "retries": retries,
        }


PATIENCE_MS = 60_000  # virtual time after which a story that should drain is ended
IDLE_MS = 10  # how long the spout waits when there was nothing to emit
ERROR_MS = 50  # how long it waits after a failed fetch
QUIET_COMMITS = 6  # so many commits with nothing between them: nothing will move any more

TOLD = {"lose_record": "lose", "delay": "delay", "duplicate_record": "double"}  # what is done to a tuple, as a step says it
Times = {"earliest": EARLIEST_TIME, "latest": LATEST_TIME}
FROM_THE_EARLIEST: dict[str, Any] = {"force_from_start": True, "start_offset_time": EARLIEST_TIME}  # for a first start
Fails = Callable[[int, int, int], bool]  # (offset, attempt, part) -> whether the tuple fails


@dataclass(slots=True)
class SpoutRun(World):
    """One run: the backend it takes place on, its clock, and the trace it writes.

    An experiment calls `append`, `start`, `run_for`, `crash`, ... in the order of its story.
    """

    domain: ClassVar[str] = "spout"
    simulated: ClassVar[str] = "spout, bolt and clock"
    takes: ClassVar[tuple[str, ...]] = (
        "lose record N", "delay record N by D ms", "double record N", "fail record N", "lose ack of record N",
        "break spout at T ms for D ms",
    )  # fmt: skip

    manager: PartitionManager | None = None
    manager_type: type[PartitionManager] | None = None  # a learner's, for that of the release that the knobs name
    topic: Topic | None = None
    config: SpoutConfig | None = None
    reader: NotedTopic | None = None
    fails: Fails = field(default=lambda offset, attempt, part: False)
    slow_ms: dict[int, int] = field(default_factory=dict)  # offset -> how much longer its first attempt takes
    never_finishes: frozenset[int] = frozenset()  # offsets whose tuples are neither acked nor failed
    attempts: dict[tuple[str, int], int] = field(default_factory=dict)  # (topic, offset) -> times emitted
    ledgers: dict[str, PartitionLedger] = field(default_factory=dict)  # by topic
    shown: ShownLedgers = field(default_factory=ShownLedgers)
    stuck_tuples: int = 0  # on their way for ever
    poll_at_ms: int = 0
    commit_at_ms: int = 0
    retries: int = 0
    was_idle: bool = False
    quiet_commits: int = 0  # commits in a row between which nothing else happened
    is_dead: bool = False  # the worker died of an error
    luck: Random = field(default_factory=Random)  # seeded for each draw
    started: Callable[[], None] = lambda: None  # starts the spout once more as it was started last

    def create(
        self, records: int, name: str = "events", value: Callable[[int], bytes] | None = None, parts: int | None = None
    ) -> Topic:
        """A new topic with so many records, as `append`."""
        topic = self.backend.create_topic(name, self.settings.fetch_records)
        self.append(topic, records, value, parts)
        return topic

    def append(
        self, topic: Topic, count: int, value: Callable[[int], bytes] | None = None, parts: int | None = None
    ) -> None:
        """Append `count` records, each of which should have `parts` effects; None leaves open how many."""
        made = value or (lambda offset: b"record %d" % offset)
        ledger = self._ledger_of(topic)
        offsets = topic.append([made(ledger.log_end + index) for index in range(count)])
        if offsets:
            self.topic = self.topic or topic
            ledger.log_end = offsets[-1] + 1
            wanted = {} if parts is None else {"parts": parts}
            self.record_on(topic, "log", "append", first=offsets[0], last=offsets[-1], **wanted)

    def delete_before(self, topic: Topic, offset: int) -> None:
        """Retention removes what lies below `offset`."""
        ledger = self._ledger_of(topic)
        ledger.log_start = topic.delete_before(offset)
        self.record_on(topic, "log", "delete", to=ledger.log_start)

    def _ledger_of(self, topic: Topic) -> PartitionLedger:
        if topic.name not in self.ledgers:
            self.ledgers[topic.name] = PartitionLedger(topic.name, log_start=topic.start, log_end=topic.end)
        return self.ledgers[topic.name]

    def start(self, topic: Topic, spout_id: str = "spout", topology_id: str = "topology-1", **config: Any) -> None:
        """A spout begins (or begins again) to read `topic`, from the offset that its start rules choose."""
        self.started = partial(self.start, topic, spout_id, topology_id, **config)
        self.config = SpoutConfig(
            topic=topic.name,
            id=spout_id,
            topology_id=topology_id,
            zk_root=f"/{self.trace.run}",
            **(self._settings() | config),
        )
        self.topic, self.reader = topic, NotedTopic(topic)
        self._ledger_of(topic)
        self.is_dead, self.was_idle = False, False
        self.apply_settings()
        stored = read_stored_offset(self.backend.store, self.config.committed_path())
        self.manager = self._new_manager()
        self.poll_at_ms, self.commit_at_ms = self.now_ms, self.now_ms + self.settings.commit_every_ms
        self.record_on(
            topic,
            "spout",
            "start",
            offset=self.manager.committed_to,
            stored=stored.offset if stored else None,
            why=why_begun(self.config, self.backend.store, stored, self.manager.committed_to),
            topology_id=topology_id,
        )

    def crash(self) -> None:
        """The worker dies: its ledgers and the tuples on their way are gone, the stored offset stays."""
        assert self.topic is not None
        self.record_on(self.topic, "spout", "crash", on_their_way=len(self.agenda) + self.stuck_tuples)
        self.manager, self.stuck_tuples = None, 0
        self.agenda.clear()

    def break_process(self, found: Intervention) -> None:
        self.crash()

    def mend_process(self, found: Intervention) -> None:
        if self.manager is None:
            self.started()

    def stop(self) -> None:
        """Commit a last time and end. (Storm 0.9.3 does not commit at a close; a run ends with one to be judged.)"""
        if self.manager and self.topic:
            self._commit()
            self.record_on(self.topic, "spout", "stop")

    def finish(self, ms: int = PATIENCE_MS) -> None:
        """Let time pass until everything is settled, `ms` at most, and stop."""
        self.run_for(ms, until=self.is_settled)
        self.stop()

    def run_for(self, ms: int, until: Callable[[], bool] | None = None) -> None:
        """Let `ms` of virtual time pass, or less when `until` (or a worker's death) comes first."""
        World.run_for(self, ms, lambda: self.is_dead or not (self.manager or self.interventions.mends) or bool(until and until()))

    def is_drained(self) -> bool:
        """True when everything in the log is finished and committed."""
        manager, topic = self.manager, self.topic
        return bool(
            manager
            and topic
            and not self.agenda
            and not manager.waiting_to_emit
            and not manager.failed
            and manager.committed_to == self.ledgers[topic.name].log_end
        )

    def is_settled(self) -> bool:
        """True when it is drained, or when nothing but idle commits has happened for a while, and nothing is due."""
        return self.is_drained() or (self.quiet_commits >= QUIET_COMMITS and not self._is_anything_due())

    def next_wake(self) -> tuple[int, Action]:
        """A commit, or the spout's next; nothing of one that is dead."""
        if self.manager is None:
            return NEVER, self.meet
        return (self.commit_at_ms, self._commit) if self.commit_at_ms <= self.poll_at_ms else (self.poll_at_ms, self._poll)

    def _is_anything_due(self) -> bool:
        """Whether a tuple will still finish, or a failed record will still be retried."""
        manager = self.manager
        return bool(self.agenda or (isinstance(manager, BackoffPartitionManager) and manager.waiting))

    def _poll(self) -> None:
        manager, topic, reader = self.manager, self.topic, self.reader
        assert manager and topic and reader
        if len(self.agenda) + self.stuck_tuples >= self.settings.max_spout_pending:
            waits = [self.agenda[0][0]] if self.agenda else []
            self.poll_at_ms = min([*waits, self.commit_at_ms]) + 1
            return
        reader.out_of_range_at, before = None, manager.emitted_to_offset
        try:
            emission = self._next(manager)
        except FailedFetchError as error:
            self.record_on(topic, "spout", "error", error=error.error.name if error.error else "NETWORK")
            self.poll_at_ms = self.now_ms + ERROR_MS
            return
        if reader.out_of_range_at is not None:
            to = emission.record.offset if emission.record else manager.emitted_to_offset
            retried = {} if reader.out_of_range_at == before else {"asked": reader.out_of_range_at}
            self.record_on(topic, "spout", "reset", **{"from": before, "to": to}, **retried)
            self.poll_at_ms = self.now_ms + IDLE_MS
            if emission.record is None:
                return
        if emission.record is None:
            if not self.was_idle:
                self.record_on(topic, "spout", "idle")
            self.was_idle, self.poll_at_ms = True, self.now_ms + IDLE_MS
        else:
            self.was_idle, self.poll_at_ms = False, self.now_ms + 1
            self._send(topic, emission.record.offset, emission.tuples)

    def _send(self, topic: Topic, offset: int, tuples: Sequence[Any]) -> None:
        attempt = self.attempts[topic.name, offset] = self.attempts.get((topic.name, offset), 0) + 1
        self.retries += attempt > 1
        self.record_on(topic, "spout", "emit", offset=offset, attempt=attempt, parts=len(tuples))

        def tell(what: str, **more: int) -> None:
            self.record_on(topic, "network", TOLD[what], offset=offset, attempt=attempt, **more)

        for part in range(len(tuples)):
            done = self._scripted("record", offset, attempt) if part == 0 else None
            comes = offset not in self.never_finishes and self.carry(
                "record", done, self._latency(offset, attempt, part), partial(self._finish, offset, attempt, part), tell
            )
            self.stuck_tuples += not comes

    def _scripted(self, thing: str, offset: int, attempt: int) -> Intervention | None:
        """What the run's script does to the first tuple of this attempt, or to its ack."""
        return self.interventions.on(thing, offset, f" attempt {attempt}" if attempt > 1 else "")

    def _finish(self, offset: int, attempt: int, part: int) -> None:
        manager, topic = self.manager, self.topic
        assert manager and topic
        if self._tuple_fails(offset, attempt, part):
            self._fail(manager, topic, offset)
            return
        self.record_on(topic, "bolt", "process", offset=offset, part=part)
        if part == 0 and self._scripted("ack of record", offset, attempt):
            self.stuck_tuples += 1
            self.record_on(topic, "network", "lose_ack", offset=offset, attempt=attempt)
            return
        cleared = manager.ack(offset)
        if cleared:
            self.record_on(topic, "spout", "clear", ranges=to_ranges(cleared), by=offset)
        self.record_on(topic, "spout", "ack", offset=offset)

    def _fail(self, manager: PartitionManager, topic: Topic, offset: int) -> None:
        try:
            retry = manager.fail(offset)
        except TooManyTupleFailuresError:
            self.record_on(topic, "spout", "fail", offset=offset, retry=False)
            self.record_on(topic, "spout", "error", error="TOO_MANY_TUPLE_FAILURES")
            self.is_dead = True
            return
        self.record_on(topic, "spout", "fail", offset=offset, retry=retry)
        if isinstance(manager, BackoffPartitionManager) and offset in manager.given_up:
            manager.given_up.discard(offset)
            self.record_on(topic, "spout", "give_up", offset=offset)

    def _commit(self) -> None:
        manager, topic = self.manager, self.topic
        assert manager and topic
        self.commit_at_ms = self.now_ms + self.settings.commit_every_ms
        written = manager.commit() is not None
        self.record_on(topic, "spout", "commit", offset=manager.committed_to, written=written)

    def _settings(self) -> dict[str, Any]:
        """What the knobs say of the spout's settings; a fork may change them while it runs."""
        given = self.settings.given("max_offset_behind", "use_start_offset_time_if_offset_out_of_range")
        start = Times[self.settings.start_offset_time]
        return given | {"force_from_start": self.settings.force_from_start, "start_offset_time": start}

    def _new_manager(self) -> PartitionManager:
        """The PartitionManager of the release that the knobs name, over this run's topic and store."""
        assert self.config and self.reader
        parts = self.config, self.reader, self.backend.store
        if self.manager_type is not None:
            return self.manager_type(*parts)
        if "max_uncommitted_offsets" in self.settings:
            return UncommittedCapManager(*parts, **self.settings.given("max_uncommitted_offsets", "retries_may_poll"))
        if self.settings.release == "1.1.0" or "retry_limit" in self.settings:
            return BackoffPartitionManager(*parts, **self._retry_knobs())
        return EarlierPartitionManager(*parts) if self.settings.release == "0.9.2" else PartitionManager(*parts)

    def _retry_knobs(self) -> dict[str, Any]:
        return self.settings.given("retry_initial_delay_ms", "retry_delay_multiplier", "retry_delay_max_ms", "retry_limit")

    def _next(self, manager: PartitionManager) -> Emission:
        if isinstance(manager, BackoffPartitionManager):
            manager.now_ms = self.now_ms
        return manager.next()

    def apply_settings(self) -> None:
        if self.config is None:
            return
        for name, value in self._settings().items():
            setattr(self.config, name, value)
        if self.topic is not None:
            self.topic.max_fetch_records = self.settings.fetch_records
        if isinstance(self.manager, BackoffPartitionManager):
            for name, value in self._retry_knobs().items():
                setattr(self.manager, name, value)

    def _latency(self, offset: int, attempt: int, part: int) -> int:
        base: int = self.settings.process_ms
        more = self.slow_ms.get(offset, 0) if attempt == 1 else 0
        return more + max(1, base // 2 + int(self._chance("latency", offset, attempt, part) * base))

    def _tuple_fails(self, offset: int, attempt: int, part: int) -> bool:
        done = self._scripted("record", offset, attempt) if part == 0 else None
        if (done and done.verb == "fail") or self.fails(offset, attempt, part):
            return True
        percent: int = self.settings.fail_percent
        return percent > 0 and self._chance("failure", offset, attempt, part) * 100 < percent

    def _chance(self, what: str, offset: int, attempt: int, part: int) -> float:
        """A number in [0, 1) that depends on the seed and on these alone."""
        key = (self.trace.seed * 1_000_003 + offset) * 1_000_003 + attempt * 1_009 + part * 2 + (what == "failure")
        self.luck.seed(key)
        return self.luck.random()

    def record_on(self, topic: Topic, actor: str, what: str, /, **data: Any) -> None:
        """Write the next step about a topic."""
        ledger = self._ledger_of(topic)
        if what == "process":
            ledger.process(data["offset"])
        state = ledger.log_state()
        if self.manager is not None and self.topic is topic:
            state |= self.shown.of_manager(self.manager, self.retries)
        self.quiet_commits = self.quiet_commits + 1 if what == "commit" else 0
        self.write(self.now_ms, actor, what, {"topic": topic.name, "partition": 0, **data}, state)
