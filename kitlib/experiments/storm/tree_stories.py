"""The stories about tuple trees: how they end, how they end too early, how they never end, and the three crashes of the source.

A bolt's task dies: the trees it worked on time out and come again. An acker dies: so do the trees that
it followed, though every bolt has done its work. The spout dies: what it had handed out is given back
by where it came from, a queue that sees the connection break or a log read from the stored offset.

Their topologies are a record that grows level by level, and a join that makes a DAG of it:

    events -> split1 -> split2 -> ... -> store            each split makes `fan_out` tuples of one
    events -> split1 -> ... -> join -> store              the join makes one tuple of the `fan_out` of one parent

The last bolt stores: what it does to a tuple is the effect that a verdict counts.

A run brings a whole topology, in virtual time on either backend; its records come from a topic of the backend, real
or in memory, and its offsets go to the backend's store. The runtime speaks of message ids; here they
become the offsets of one partition, with the partition's ledgers beside them, so that the same
verdict, audit and pictures serve topologies and single spouts alike.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import PartitionLedger, Run
from kitlib.experiments.script import Intervention, MissedError
from kitlib.experiments.storm.knobs import CommitEveryMs, FailPercent, FetchRecords, MaxSpoutPending, Records
from kitlib.experiments.storm.spout_run import FROM_THE_EARLIEST, ShownLedgers
from kitlib.mechanisms.acker import ACKER_COMPONENT_ID
from kitlib.mechanisms.partition_manager import PartitionManager, SpoutConfig
from kitlib.monitor.figures import ACKER_MESSAGES, FALSE_ACKS, IN_FLIGHT, LOST, PROCESSED_AGAIN, WASTED
from kitlib.more.spout.kafka_spout import KafkaSpout
from kitlib.more.spout.kestrel import KestrelQueue, KestrelSpout
from kitlib.more.topology import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    Fault,
    OutputCollector,
    Spout,
    Topology,
    TopologyBuilder,
    TopologyConfig,
    TopologyContext,
    TopologyRun,
    Tuple,
)
from kitlib.settings import Settings
from kitlib.trace import to_ranges

if TYPE_CHECKING:
    from kitlib.experiments.kafka_backend import Topic

SPOUT = "events"  # the component that every story calls its spout
CONFIG_KNOBS = (
    "topology_ackers",
    "topology_message_timeout_secs",
    "topology_enable_message_timeouts",
    "acker_release",
    "id_bits",
    "transfer_jitter_ms",
)
OF_THE_LANE = frozenset(
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
            every_ms = self.settings.commit_every_ms
            self.spout = KestrelSpout(queue, output_fields=tuple(fields), scheme=values, sync_every_ms=every_ms)
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
        is_lane = what in OF_THE_LANE
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


TopologyAckers = Annotated[
    int, Knob("Number of acker tasks; 0: a tuple counts as acked when it is emitted.", "ackers", 0, 50)
]
IdBits = Annotated[int, Knob("Bits of a tuple's id; Storm uses 64.", "bits", 1, 64)]
AckerRelease = Annotated[
    Literal["0.9.3", "2.4.0"], Knob("Which rules the acker follows: those of Storm 0.9.3 or of Storm 2.")
]
FanOut = Annotated[int, Knob("How many tuples a bolt emits for each input tuple.", "tuples", 1, 8)]
Depth = Annotated[int, Knob("How many such bolts are chained.", "bolts", 0, 4)]
ExecuteMs = Annotated[int, Knob("Time a bolt takes per tuple.", "ms", 0, 5_000, live=True)]
Anchored = Annotated[bool, Knob("Whether the bolts anchor the tuples that they send.")]
MessageIds = Annotated[bool, Knob("Whether the spout emits tuples with a message id.")]
MessageTimeouts = Annotated[bool, Knob("Whether trees time out at all; otherwise, what is lost stays pending.", live=True)]
Parallelism = Annotated[int, Knob("How many tasks each bolt has.", "tasks", 1, 20)]


class TopologyKnobs:
    """What a topology's spout fetches, keeps in flight and commits, and how long its bolts work."""

    topology_message_timeout_secs: Annotated[
        int, Knob("How often the pending maps rotate: a tree times out after one to two times this.", "s", 1, 3_600, scale="log", live=True)
    ] = 30
    max_spout_pending: MaxSpoutPending = 10
    execute_ms: ExecuteMs = 10
    fetch_records: FetchRecords = 10
    commit_every_ms: CommitEveryMs = 2_000


class TreeKnobs(TopologyKnobs):
    """The same, of a topology that makes several tuples of one."""

    fan_out: FanOut = 2
    parallelism: Parallelism


STORE = "store"
FIELDS = ("offset", "part")  # the record, and which piece of it this tuple is


class _Timed:
    """A bolt whose work takes as long as the knob says now."""

    def __init__(self, story: TopologyStory) -> None:
        self.story = story

    @property
    def execute_ms(self) -> int:
        return int(self.story.settings.execute_ms)


class Split(_Timed, Bolt):  # type: ignore[override]  # how long it takes is asked anew for each tuple
    """Makes `fan_out` tuples of one; forgets to anchor them when the knob says so."""

    output_fields = FIELDS

    def execute(self, given: Tuple) -> None:
        fan_out, is_anchored = self.story.settings.fan_out, self.story.settings.anchored
        for piece in range(fan_out):
            values = (given["offset"], given["part"] * fan_out + piece)
            self.collector.emit(values, anchors=given if is_anchored else ())
        self.collector.ack(given)


class Join(_Timed, Bolt):  # type: ignore[override]  # as above
    """Waits for the `fan_out` tuples of one parent, sends one tuple anchored to all of them, and acks them together."""

    output_fields = FIELDS

    def prepare(self, conf: Any, context: TopologyContext, collector: OutputCollector) -> None:
        super().prepare(conf, context, collector)
        self.waiting: dict[tuple[int, int], dict[int, Tuple]] = {}  # (offset, parent's part) -> part -> tuple

    def execute(self, given: Tuple) -> None:
        fan_out = self.story.settings.fan_out
        parent = given["offset"], given["part"] // fan_out
        pieces = self.waiting.setdefault(parent, {})
        pieces[given["part"]] = given  # a replay's tuple takes the place of the one that it repeats
        if len(pieces) == fan_out:
            anchors = list(self.waiting.pop(parent).values())
            self.collector.emit(parent, anchors=anchors if self.story.settings.anchored else ())
            for piece in anchors:
                self.collector.ack(piece)


class Store(_Timed, BasicBolt):  # type: ignore[override]  # as above
    """Does what the topology is for, and tells the trace of it."""

    def process(self, given: Tuple, collector: BasicOutputCollector) -> None:
        self.context.note("process", offset=given["offset"], part=given["part"])


def tree_topology(story: TopologyStory, spout: Callable[[], Spout]) -> Topology:
    """The topology that the knobs describe, with this spout."""
    settings = story.settings
    tasks = settings.parallelism
    builder = TopologyBuilder()
    builder.set_spout(SPOUT, spout)
    last = SPOUT
    for level in range(1, settings.depth + 1):
        builder.set_bolt(f"split{level}", lambda: Split(story), tasks).shuffle_grouping(last)
        last = f"split{level}"
    if settings.join and last != SPOUT:
        builder.set_bolt("join", lambda: Join(story), tasks).fields_grouping(last, ["offset"])
        last = "join"
    builder.set_bolt(STORE, lambda: Store(story), tasks).shuffle_grouping(last)
    return builder.create_topology()


def effects_per_record(settings: Settings) -> int:
    """How many tuples of one record reach the last bolt."""
    depth = int(settings.depth)
    levels = depth - 1 if settings.join and depth else depth
    return int(settings.fan_out**levels)


def begin(
    story: TopologyStory, faults: Callable[[], Sequence[Fault]] = tuple, source: str = "kafka", **config: Any
) -> TopologyRun:
    """Records in a topic, and the topology of the knobs that reads them, from the topic itself or from a queue."""
    story.append([b"record %d" % number for number in range(story.settings.records)], parts=effects_per_record(story.settings))
    spout = story.kestrel_spout if source == "kestrel" else story.kafka_spout
    return story.start(tree_topology(story, spout(FIELDS, lambda record: (record.offset, 0))), faults, **config)


def drain(story: TopologyStory, after_ms: int = -1) -> None:
    """Let the topology run until, later than `after_ms`, every record is finished, or for as long as that may take; then end it."""
    patience_ms = 60_000 + 10_000 * story.settings.topology_message_timeout_secs  # some timeouts after the last work
    story.run_for(patience_ms, until=lambda: story.now_ms > after_ms and story.is_done())
    story.stop()


def planted(settings: Settings) -> list[Fault]:
    """The faults of the last bolt that the knobs name; the last bolt that sends is the one that forgets to anchor."""
    found = []
    if settings.fail_percent:
        found.append(Fault("fail", STORE, percent=settings.fail_percent))
    kind, depth = settings.fault, settings.depth
    if kind == "unanchored" and depth:
        sender = "join" if settings.join else f"split{depth}"
        found.append(Fault(kind, sender, nth=(settings.fault_nth,)))
    elif kind not in ("none", "unanchored"):
        found.append(Fault(kind, STORE, nth=(settings.fault_nth,)))
    return found


LANE_WORDS = frozenset({"append", "start", "emit", "process", "ack", "fail", "commit", "late", "sample"})


@experiment(
    "A tree of tuples, tracked by a single number", TopologyStory, shared=(TreeKnobs,),
    figure=ACKER_MESSAGES, front=("fan_out", "depth", "fault", "join", "max_spout_pending"),
)
def tuple_tree(
    story: TopologyStory,
    records: Records = 6,
    depth: Depth = 2,
    join: Annotated[bool, Knob("Whether a bolt joins the children of one parent, so that the tree becomes a DAG.")] = False,
    fail_percent: FailPercent = 0,
    fault: Annotated[
        Literal["none", "fail", "hang", "drop", "ack_twice", "unanchored", "raise", "lose"],
        Knob("What goes wrong once at the last bolt; with unanchored, at the last one that sends."),
    ] = "none",
    fault_nth: Annotated[int, Knob("Which tuple hits the fault, counted as they reach the bolt.", "", 1, 10_000, live=True)] = 5,
    topology_ackers: TopologyAckers = 1,
    id_bits: IdBits = 16,
    max_spout_pending: MaxSpoutPending = 3,
    anchored: Anchored = True,
    acker_release: AckerRelease = "0.9.3",
    transfer_jitter_ms: Annotated[
        int, Knob("How much longer than 1 ms a message may take, at random; acks may overtake inits.", "ms", 0, 1_000, live=True)
    ] = 0,
) -> None:
    """The acker keeps one number for a whole tree. How does it know that the last tuple is done?"""
    begin(story, lambda: planted(story.settings))
    drain(story)


@experiment(
    "Zero by chance", TopologyStory, shared=(TreeKnobs,), max_steps=20_000,
    figure=FALSE_ACKS, front=("id_bits", "drop_percent", "fan_out", "records", "max_spout_pending"),
)
def false_completion(
    story: TopologyStory,
    records: Records = 400,
    id_bits: IdBits = 8,
    fan_out: FanOut = 4,
    drop_percent: Annotated[int, Knob("Share of tuples that the last bolt silently drops.", "%", 0, 100, live=True)] = 5,
    max_spout_pending: MaxSpoutPending = 50,
    execute_ms: ExecuteMs = 1,
    fetch_records: FetchRecords = 100,
) -> None:
    """The ids have few bits, so the ack value may be zero while tuples are open. How often, and what does it cost?"""
    on_the_way = [0]  # messages after which a tree was not finished, so that zero would be chance

    def count(what: str, data: dict[str, Any]) -> None:
        run = story.run
        if run is None or what not in ("acker_init", "acker_ack"):
            return
        is_claimed = what == "acker_init" or data["before"] is not None
        on_the_way[0] += is_claimed and run.open_tuples.get(data["root"], 0) > 0

    story.on_note, story.words = count, frozenset({*LANE_WORDS, "fault", "odds"})
    begin(story, lambda: [Fault("drop", STORE, percent=story.settings.drop_percent)])
    drain(story)
    false = sum(step.what == "ack" and step.data["outstanding"] > 0 for step in story.trace)
    predicted = on_the_way[0] / 2 ** id_bits
    story.record("acker", "odds", messages=on_the_way[0], false_completions=false, predicted=round(predicted, 3))


@experiment(
    "Three ways to switch reliability off", TopologyStory, shared=(TreeKnobs,), max_steps=20_000,
    figure=LOST, front=("topology_ackers", "message_ids", "lose_percent", "topology_message_timeout_secs"),
)
def reliability_off(
    story: TopologyStory,
    records: Records = 40,
    topology_ackers: TopologyAckers = 0,
    message_ids: MessageIds = True,
    anchored: Anchored = True,
    lose_percent: Annotated[int, Knob("Share of messages to the last bolt that are lost.", "%", 0, 100, live=True)] = 10,
    depth: Depth = 1,
    topology_enable_message_timeouts: MessageTimeouts = True,
) -> None:
    """Some messages between the bolts are lost. Which records are lost with them, without ackers, message ids or anchors?"""
    begin(story, lambda: [Fault("lose", STORE, percent=story.settings.lose_percent)])
    drain(story)


@experiment(
    "Busy forever, with nothing to show for it", TopologyStory, shared=(TreeKnobs,), max_steps=20_000,
    figure=WASTED, front=("max_spout_pending", "execute_ms", "topology_message_timeout_secs", "fetch_records", "duration_s"),
)
def livelock(
    story: TopologyStory,
    records: Annotated[int, Knob("How many records the topic holds.", "records", 1, 5_000)] = 3_000,
    max_spout_pending: MaxSpoutPending = 600,
    execute_ms: ExecuteMs = 100,
    duration_s: Annotated[int, Knob("How long the story runs, in virtual time.", "s", 10, 2_000, live=True)] = 240,
    sample_s: Annotated[int, Knob("How often the counts are recorded.", "s", 1, 100, live=True)] = 5,
    parallelism: Parallelism = 1,
    depth: Depth = 0,
    fan_out: FanOut = 1,
    topology_ackers: TopologyAckers = 1,
    acker_release: AckerRelease = "0.9.3",
    fetch_records: FetchRecords = 500,
    commit_every_ms: CommitEveryMs = 10_000,
) -> None:
    """One bolt takes 100 ms per tuple and the timeout is 30 s. How many tuples may be in flight at once?"""
    totals = dict.fromkeys(("ack", "fail", "late", "process"), 0)

    def count(what: str, data: dict[str, Any]) -> None:
        if what in totals:
            totals[what] += 1

    story.on_note, story.words = count, LANE_WORDS
    run = begin(story)
    for _ in range(story.settings.duration_s // story.settings.sample_s):
        if story.is_done():
            break
        story.run_for(1_000 * story.settings.sample_s)
        story.record(
            "topology",
            "sample",
            acked=totals["ack"],
            failed=totals["fail"],
            late=totals["late"],
            executed=totals["process"],
            wasted=max(0, totals["process"] - totals["ack"]),
            pending=run.pending,
            queue=run.queued,
        )
    story.stop()


Source = Annotated[
    Literal["kafka", "kestrel"],
    Knob("Where the records come from: a topic with a stored offset, or a queue that redelivers open messages."),
]


class CrashKnobs(TreeKnobs):
    """What the three have in common."""

    records: Records = 20
    crash_at_ms: Annotated[int, Knob("When the task dies.", "ms", 1, 600_000)] = 60
    restart_ms: Annotated[int, Knob("How long until a new one has started.", "ms", 1, 600_000)] = 1_000
    source: Source = "kafka"
    depth: Depth
    fail_percent: FailPercent
    topology_ackers: TopologyAckers
    id_bits: IdBits
    acker_release: AckerRelease


@experiment(
    "A bolt's task dies", TopologyStory, shared=(CrashKnobs,),
    figure=IN_FLIGHT, front=("crash_at_ms", "restart_ms", "topology_message_timeout_secs", "max_spout_pending", "source"),
)
def bolt_crash(story: TopologyStory) -> None:
    """A task dies with tuples in flight. No one acks or fails them. Who notices, and when?"""
    _crash(story, STORE)


@experiment(
    "An acker dies", TopologyStory, shared=(CrashKnobs,),
    figure=IN_FLIGHT, front=("topology_ackers", "crash_at_ms", "restart_ms", "topology_message_timeout_secs", "max_spout_pending"),
)
def acker_crash(
    story: TopologyStory,
    topology_ackers: Annotated[
        int, Knob("Number of acker tasks; 0: a tuple counts as acked when it is emitted.", "ackers", 1, 50)
    ] = 2,
) -> None:
    """The bolts have done their work, but the task that kept count is gone. What happens to those trees?"""
    _crash(story, ACKER_COMPONENT_ID)


@experiment(
    "The spout dies", TopologyStory, shared=(CrashKnobs,),
    figure=PROCESSED_AGAIN, front=("source", "crash_at_ms", "restart_ms", "topology_message_timeout_secs", "max_spout_pending"),
)
def spout_crash(story: TopologyStory, source: Source = "kestrel") -> None:
    """The spout dies, and with it the list of pending tuples. Where do those records come from again?"""
    _crash(story, SPOUT)


def _crash(story: TopologyStory, component: str) -> None:
    """The first task of this component dies, also when everything is done by then."""
    settings = story.settings
    crash = Fault("crash", component, at_ms=settings.crash_at_ms)
    begin(story, lambda: [crash, *planted(settings)], settings.source, restart_ms=settings.restart_ms)
    drain(story, settings.crash_at_ms)
