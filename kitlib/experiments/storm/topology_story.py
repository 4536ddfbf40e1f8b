"""A run that brings a whole topology: what its story is told with, and the trace that it writes.

The topology runs in virtual time on either backend; its records come from a topic of the backend, real
or in memory, and its offsets go to the backend's store. The runtime speaks of message ids; here they
become the offsets of one partition, with the partition's ledgers beside them, so that the same
verdict, audit and pictures serve topologies and single spouts alike.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from kitlib.experiments.backend import Topic
from kitlib.experiments.interventions import Intervention, MissedError
from kitlib.experiments.run import PartitionLedger, Run
from kitlib.experiments.storm.spout_run import FROM_THE_EARLIEST, ShownLedgers
from kitlib.mechanisms.partition_manager import PartitionManager, SpoutConfig
from kitlib.more.spout.kafka_spout import KafkaSpout
from kitlib.more.spout.kestrel import KestrelQueue, KestrelSpout
from kitlib.more.topology import Fault, Spout, Topology, TopologyConfig, TopologyRun
from kitlib.trace import to_ranges

LANE_WORDS = frozenset(
    {"append", "start", "emit", "ack", "fail", "clear", "process", "commit", "reset", "error"}
)  # those that are about the partition
Values = Callable[[Any], Sequence[Any]]  # a record -> the values of its tuple, the offset first


@dataclass(slots=True)
class TopologyStory(Run):
    """One run of a topology: the backend it takes place on, its clock, and the trace it writes.

    An experiment calls `append`, `start` and `run_for` in the order of its story.
    """

    domain: ClassVar[str] = "topology"
    simulated: ClassVar[str] = "spout, bolts, acker and clock"
    takes: ClassVar[tuple[str, ...]] = (
        "lose tuple N", "delay tuple N by D ms", "double tuple N", "fail tuple N", "lose ack of tuple N", "double ack of tuple N",
        "break TASK at T ms for D ms",
    )  # fmt: skip

    topic: Topic | None = None
    manager_type: type[PartitionManager] = PartitionManager
    run: TopologyRun | None = None
    spout: KafkaSpout | KestrelSpout | None = None  # the one that reads the topic now
    config: TopologyConfig = field(default_factory=TopologyConfig)
    ledger: PartitionLedger = field(init=False)  # of the topic
    shown: ShownLedgers = field(default_factory=ShownLedgers)
    attempts: dict[int, int] = field(default_factory=dict)  # offset -> times emitted
    retries: int = 0
    words: frozenset[str] | None = None  # the words that the trace holds; None for all
    faults: Callable[[], Sequence[Fault]] = tuple  # those that the knobs name now
    on_note: Callable[[str, dict[str, Any]], None] | None = None  # hears every word, recorded or not

    def append(self, values: Sequence[bytes], parts: int | list[int] | None = None, name: str = "events") -> Topic:
        """A new topic with these records; `parts` is how many effects each of them should have."""
        topic = self.topic = self.backend.create_topic(name, self.settings.fetch_records)
        start = topic.start
        offsets = topic.append(values)
        self.ledger = PartitionLedger(topic.name, log_start=start, log_end=offsets[-1] + 1)
        told = {} if parts is None else {"parts": parts}
        self._record("log", "append", {"first": offsets[0], "last": offsets[-1], **told}, is_lane=True)
        return topic

    def kafka_spout(self, fields: Sequence[str], values: Values) -> Callable[[], Spout]:
        """A maker of spouts that read the topic through a PartitionManager, from its beginning or the stored offset."""
        topic = self.topic
        assert topic is not None

        def make() -> Spout:
            config = SpoutConfig(
                topic=topic.name,
                id="spout",
                zk_root=f"/{self.trace.run}",
                scheme=lambda record: None if record.value is None else (values(record),),
                **FROM_THE_EARLIEST,
            )
            self.spout = KafkaSpout(
                config,
                topic,
                self.backend.store,
                output_fields=fields,
                commit_every_ms=self.settings.commit_every_ms,
                message_ids=self.settings.message_ids,
                new_manager=self.manager_type,
            )
            return self.spout

        return make

    def kestrel_spout(self, fields: Sequence[str], values: Values) -> Callable[[], Spout]:
        """A maker of spouts that take their records from one queue, which outlives them."""
        assert self.topic is not None
        queue = KestrelQueue(self.topic, self.backend.store, path=f"/{self.trace.run}/queue")

        def make() -> Spout:
            self.spout = KestrelSpout(queue, output_fields=tuple(fields), scheme=values)
            self.spout.sync_every_ms = self.settings.commit_every_ms
            return self.spout

        return make

    def start(self, topology: Topology, faults: Callable[[], Sequence[Fault]] = tuple, **config: Any) -> TopologyRun:
        """The topology begins, with the settings and the faults that the knobs name; `config` adds to the settings."""
        self.config, self.faults = TopologyConfig(errors="crash", **config), faults
        self.apply_settings()
        rng, planted = Random(self.trace.seed), faults()
        self.run = TopologyRun(
            topology, self.config, rng=rng, chance=self.chance, faults=planted, observer=self._observe, done_to=self._done_to
        )
        for found in self.interventions.breaks:
            self._plan_break(self.run, found)
        return self.run

    def _done_to(self, thing: str, number: int) -> tuple[str, int] | None:
        """What the run's script does to a tuple or to its ack."""
        found = self.interventions.on(thing, number)
        return (found.verb, found.ms or 0) if found else None

    def _plan_break(self, run: TopologyRun, found: Intervention) -> None:
        """MissedError when the topology has no such task."""
        names = {task.name: task for tasks in (run.spouts, run.bolts, run.ackers) for task in tasks.values()}
        task = names.get(found.target)
        if task is None:
            raise MissedError(f'{self.trace.experiment}: "{found}" names no task of its topology. There are {", ".join(names)}.')

        def happen() -> None:
            self.interventions.left.discard(found)
            run.crash(task.component_name, run.tasks_of[task.component_name].index(task.task_id), found.ms)

        run.after(found.at_ms, happen)

    def run_for(self, ms: int, until: Callable[[], bool] | None = None) -> None:
        """Let `ms` of virtual time pass, or less when `until` comes true."""
        assert self.run is not None
        self.run.run_for(ms, until)

    def stop(self) -> None:
        """The topology ends; its spout stores a last time how far everything is done."""
        assert self.run is not None
        self.run.close()

    def is_done(self) -> bool:
        """True when every record is finished, and stored as finished."""
        return self._committed() == self.ledger.log_end and not (self.run and self.run.queued)

    def chance(self, what: str, count: int) -> float:
        """A number in [0, 1) that depends on the seed and on these alone."""
        return Random((self.trace.seed * 1_000_003 + zlib.crc32(what.encode())) * 1_000_003 + count).random()

    def record(self, actor: str, what: str, /, **data: Any) -> None:
        """Write one step that the story itself makes happen."""
        self._record(actor, what, data)

    @property
    def now_ms(self) -> int:
        return self.run.now_ms if self.run else 0

    def _observe(self, actor: str, what: str, data: dict[str, Any]) -> None:
        """One thing that the runtime tells of: message ids become offsets, the partition's own words get its place."""
        is_lane = what in LANE_WORDS
        if "message_id" in data:
            offset = data.pop("message_id")
            data = {"offset": data["values"][0] if offset is None else offset, **data}
        if what == "emit":
            attempt = self.attempts[data["offset"]] = self.attempts.get(data["offset"], 0) + 1
            self.retries += attempt > 1
            data["attempt"] = attempt
        elif what == "process":
            self.ledger.process(data["offset"])
        elif what == "crash" and actor.startswith(f"{SPOUT}-"):
            is_lane = True
            if isinstance(self.spout, KafkaSpout):
                self.spout = None
        if self.on_note:
            self.on_note(what, data)
        self._record(actor, what, data, is_lane=is_lane)

    def _record(self, actor: str, what: str, data: dict[str, Any], is_lane: bool = False) -> None:
        if self.words is not None and what not in self.words:
            return
        state: dict[str, Any] = {}
        if is_lane:
            data = self.ledger.place | data
            state = self._ledgers()
        self.write(self.now_ms, actor, what, data, state)

    def apply_settings(self) -> None:
        for name, value in self.settings.given(*CONFIG_KNOBS, topology_max_spout_pending="max_spout_pending").items():
            setattr(self.config, name, value)
        if self.run is not None:
            self.run.plant(self.faults())

    def _committed(self) -> int:
        spout = self.spout
        if isinstance(spout, KestrelSpout):
            return spout.queue.stored
        return spout.manager.committed_to if spout is not None and hasattr(spout, "manager") else -1

    def _ledgers(self) -> dict[str, Any]:
        """The partition's ledgers: the PartitionManager's, or what a queue has in their place."""
        state = self.ledger.log_state()
        spout = self.spout
        if isinstance(spout, KestrelSpout):
            queue = spout.queue
            return state | {
                "committed_to": queue.stored,
                "emitted_to_offset": queue.read_to,
                "pending": to_ranges(message for client in queue.opened.values() for message in client),
                "failed": to_ranges(record.offset for record in queue.waiting if record.offset in self.attempts),
                "waiting": to_ranges(record.offset for record in queue.waiting if record.offset not in self.attempts),
                "retries": self.retries,
            }
        manager: PartitionManager | None = getattr(spout, "manager", None)
        return state if manager is None else state | self.shown.of_manager(manager, self.retries)


SPOUT = "events"  # the component that every story calls its spout
CONFIG_KNOBS = (
    "topology_ackers",
    "topology_message_timeout_secs",
    "topology_enable_message_timeouts",
    "acker_release",
    "id_bits",
    "transfer_jitter_ms",
)
