"""A run with a replicated partition: brokers die, others lead, a reader comes back, and every deed is written down.

The model of the partition is always there. On real brokers each deed is done for real as well, and the run
waits until they say of the partition what the model says; what they then hold is read and compared.

A script breaks brokers at times of the virtual clock, which goes on real brokers as well: at the next deed, and between two records
that are sent. A broker that is broken for good stays so until the story starts it.

`state["replicas"]` holds each broker's log as [first, last, epoch] of its stretches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kitlib.experiments.run import PartitionLedger, Run
from kitlib.experiments.script import Intervention
from kitlib.mechanisms.replication.controller import NO_LEADER
from kitlib.mechanisms.replication.epochs import NO_EPOCH, TRUNCATED, resume
from kitlib.mechanisms.replication.partition import Replica, ReplicaEvent, ReplicatedPartition, ReplicationConfig
from kitlib.trace import in_log_order

if TYPE_CHECKING:
    from kitlib.experiments.replication.kafka_replicas import KafkaReplicas

SESSION_MS = 1_500  # broker.session.timeout.ms of the kit's brokers: so long a dead one is taken for alive
START_MS = 2_000  # how long a broker needs to come back, in virtual time
RECORD_MS = 10
Deed = Literal["kill", "pause", "wake", "start"]


@dataclass(slots=True)
class ReplicaRun(Run):
    """One run: the partition, what its readers committed and processed, and the trace it writes."""

    domain: ClassVar[str] = "replication"
    takes: ClassVar[tuple[str, ...]] = ("break BROKER at T ms for D ms",)

    partition: ReplicatedPartition = field(init=False)
    real: KafkaReplicas | None = None
    ledger: PartitionLedger = field(init=False)  # the log as its users have last seen it
    virtual_ms: int = 0
    sent: int = 0  # records that were numbered
    committed: tuple[int, int | None] | None = None  # offset and, when it was committed with it, leader epoch

    def __post_init__(self) -> None:
        self.partition = ReplicatedPartition((1,))
        self.real = self.backend.on_kafka("kitlib.experiments.replication.kafka_replicas:KafkaReplicas")
        self.ledger = PartitionLedger(self.real.topic if self.real else "events")

    @property
    def now_ms(self) -> int:
        return self.real.now_ms if self.real else self.virtual_ms

    @property
    def script_ms(self) -> int:
        return self.virtual_ms

    def state(self) -> dict[str, Any]:
        return self.ledger.state() | self.partition.snapshot()

    def create(self, brokers: Sequence[int]) -> None:
        """The topic of one partition with its copies on these brokers, by the run's knobs."""
        config = ReplicationConfig(self.settings.min_insync_replicas, self.settings.unclean_leader_election)
        if self.real:
            self.real.create(brokers, config)
        self.partition = ReplicatedPartition(brokers, config)
        self._record_roles(self.partition.snapshot())

    def send(self, count: int) -> bool:
        """The producer sends so many records with acks=all; whether they were acknowledged."""
        while count:
            self.meet()
            turn_ms = self.interventions.turn_ms
            now = count if turn_ms is None else min(count, -(-(turn_ms - self.virtual_ms) // RECORD_MS))
            if not self._send(now):
                return False
            count -= now
        return True

    def _send(self, count: int) -> bool:
        numbers = range(self.sent, self.sent + count)
        answer = self.partition.append(numbers)
        refused = self.real.send(numbers, is_taken=not answer.error) if self.real else answer.error
        self.virtual_ms += RECORD_MS * count
        if bool(refused) != bool(answer.error):
            self.record("controller", "differs", what=f"the broker says {refused or 'stored'}, the model {answer.error or 'stored'}")
        if answer.error:
            self.record("producer", "refused", count=count, error=answer.error)
            return False
        self.sent += count
        self.ledger.log_end = answer.last + 1
        self._record_events(answer.happened)
        return True

    def do(self, deed: Deed, broker: int) -> None:
        """SIGKILL or SIGSTOP, which the controller notices; or a dead broker starts, a paused one goes on (SIGCONT), with what it has.

        Nothing where a script has left nothing to do: the broker is dead by then, or alive again.
        """
        self.meet()
        replica = self.partition.replicas[broker]
        if replica.is_paused if deed == "wake" else replica.is_alive != (deed == "start"):
            self._do(deed, broker)

    def _do(self, deed: Deed, broker: int) -> None:
        if self.real:
            getattr(self.real, deed)(broker)
        stops = deed in ("kill", "pause")
        self.virtual_ms += START_MS if deed == "start" else 0
        happened = getattr(self.partition, deed)(broker)
        if stops:
            self._record_events(happened)
            self.virtual_ms += SESSION_MS
            happened = self.partition.fence(broker)
        self._changed(happened)

    def flip_bit(self, broker: int, offset: int) -> None:
        """A bit of a record on a dead broker's disk; nothing when a script has it alive by now, or its log is shorter."""
        replica = self.partition.replicas[broker]
        if replica.is_alive or offset >= replica.end:
            return
        happened = self.partition.flip_bit(broker, offset)
        if self.real:
            self.real.flip_bit(broker, offset)
        self._record_events(happened)

    def break_process(self, found: Intervention) -> None:
        there = {f"broker {broker}": broker for broker, replica in self.partition.replicas.items() if replica.works}
        if found.target not in there:
            raise self.no_process(found, "replica", there)
        self._do("kill", there[found.target])

    def mend_process(self, found: Intervention) -> None:
        broker = int(found.target.removeprefix("broker "))
        if not self.partition.replicas[broker].is_alive:
            self._do("start", broker)

    def read(self, name: str, most: int = 1 << 30, policy: str | None = None) -> None:
        """A new consumer begins at the committed offset, works on what it is handed out, `most` at most, and commits."""
        self.meet()
        leader = self.partition.leader
        if leader is None or not most:
            return
        settings, end = self.settings, leader.high_watermark
        library, with_epoch = settings.library, settings.leader_epoch
        policy = policy or settings.auto_offset_reset
        committed, epoch = self.committed or (None, None)
        answer = (NO_EPOCH, -1) if epoch is None else self.partition.end_offset_for(epoch)
        begun = resume(committed, 0, end, policy, library, epoch, answer)
        first = end if begun.offset is None else begun.offset
        offsets = list(range(first, min(end, first + most)))
        error = begun.error
        if self.real:
            found = self.real.read(library, policy, most, len(offsets), with_epoch)
            if committed is None and found[1] == "OffsetOutOfRange":  # librdkafka has one name for both
                found = found[0], "NoOffsetForPartition"
            if found != (offsets, error):
                told = [f"{len(seen)} records from {seen[0] if seen else '-'}, {why or 'no error'}"
                        for seen, why in (found, (offsets, error))]  # fmt: skip
                self.record("controller", "differs", what="{} was handed {}; by the model {}".format(name, *told))
            offsets, error = found
        if begun.why == TRUNCATED or error == "LogTruncation":
            self.record(name, "diverged", committed=committed, end=answer[1], epoch=epoch)
        if error:
            self._record_here(name, "error", error=error)
            return
        self._record_here(name, "start", offset=offsets[0] if offsets else first, why=begun.why)
        for offset in offsets:
            self._record_here(name, "emit", offset=offset)
            self.virtual_ms += RECORD_MS
            self.ledger.process(offset)
            self._record_here(name, "process", offset=offset)
        if offsets:
            self.ledger.committed_to = self.ledger.emitted_to_offset = offsets[-1] + 1
            self.committed = offsets[-1] + 1, leader.epochs.epoch_of(offsets[-1]) if with_epoch else None
            self._record_here(name, "commit", offset=offsets[-1] + 1, written=True)

    def read_log(self) -> None:
        """Look at the whole log, by its leader, and compare it with the model's."""
        self.meet()
        leader = self.partition.leader
        if leader is None:
            return
        held = [number for _, number in leader.records[: leader.high_watermark]]
        found = self.real.read_log() if self.real else held
        if found != held:
            self.record("controller", "differs", what=f"the log holds {len(found)} records, the model's {len(held)}, or others")
        self.record("log", "read", records=in_log_order(found))

    def _changed(self, told: list[ReplicaEvent]) -> None:
        """Write what became of a deed once the brokers say the same; and what readers see less of."""
        if self.real:
            self.real.settle(self.partition)
        self._record_events(told)
        leader = self.partition.leader
        if leader is not None and leader.end < self.ledger.log_end:
            self._cut(leader, told)

    def _cut(self, leader: Replica, told: list[ReplicaEvent]) -> None:
        """The log that clients know ends earlier than it did."""
        before = self.ledger.log_end
        self.ledger.cut_to(leader.end)
        recovered = any(each.what == "recover" and each.actor == f"broker {leader.broker}" for each in told)
        why = "a flipped bit" if recovered else "an unclean election"
        self._record_here("log", "cut", **{"to": leader.end, "from": before}, why=why)

    def _record_events(self, happened: Iterable[ReplicaEvent]) -> None:
        for each in happened:
            place = self.ledger.place if each.what == "append" else {}
            self.write(self.now_ms, each.actor, each.what, place | each.data, self.ledger.state() | each.state)
            if each.what == "elect":
                self._record_roles(each.state)

    def _record_roles(self, shown: dict[str, Any]) -> None:
        """Who leads and who follows now; `shown` is the partition then, if other things have happened to it since."""
        now, state = self.partition.state, self.ledger.state() | shown
        for broker, replica in self.partition.replicas.items():
            if broker == now.leader:
                self.write(self.now_ms, f"broker {broker}", "lead", {"epoch": now.leader_epoch}, state)
            elif replica.works and now.leader != NO_LEADER:
                self.write(self.now_ms, f"broker {broker}", "follow", {"epoch": now.leader_epoch, "leader": now.leader}, state)

    def _record_here(self, actor: str, what: str, /, **data: Any) -> None:
        self.record(actor, what, **self.ledger.place, **data)
