"""Two incidents of 2015, told again: an old offset that wins, and an offset that a purge takes away.

In both a coordinator moves while a consumer is away, and the consumer is told something that is not so. What
follows is decided elsewhere: by the retention of the topic, and by the consumer's reset policy. On the model
the old releases' rules do it; a healthy broker of today does not, so on a real one an operator does to the
group's offset what the old coordinator would have answered, and everything after that is real.

On the model days of virtual time pass. One consumer, A, reads a small topic and commits to a group; other groups commit beside
it into the same partition of the offsets topic. Brokers are restarted, retention runs, the cleaner passes (or is dead), and at
the end the coordinator moves while A is away. What A is told then is the offset manager's answer
(`kitlib.more.offsets.offset_manager`), by the rules of the release that the knobs name. A day has one round or more: records
come, A works them off and commits, the other groups commit. The offsets topic rolls a segment after so many records.
Everything is smaller than in a cluster, and in proportion.

Each state has `offsets`: the log's segments and records, whose keys are numbered (one of the old format is another
key to the cleaner), what the coordinator has in its cache, and the cleaner; and `now_ms`.

Source: LinkedIn's account of the two incidents (Kafka's trunk between 0.8.2 and 0.9.0); KAFKA-2117, KAFKA-2163.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from kitlib.experiments.backend import ModelBackend
from kitlib.experiments.compaction.compaction_stories import segments_of
from kitlib.experiments.experiment import experiment
from kitlib.experiments.groups.group import MemberSettings
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.experiments.groups.model_topic import ModelTopic
from kitlib.experiments.knobs import Knob
from kitlib.experiments.offsets.coordinator_stories import OLD_FORMAT, ToldLog
from kitlib.experiments.offsets.health import Health
from kitlib.experiments.run import PartitionLedger, Run, RunIsOver
from kitlib.mechanisms.offsets_topic.compaction import CleanerConfig, LogCleaner, must_be_cleaned
from kitlib.mechanisms.offsets_topic.segments import SegmentedLog
from kitlib.mechanisms.protocol import ErrorCode
from kitlib.monitor.figures import WENT_BACK
from kitlib.more.offsets.offset_cache import key_text
from kitlib.more.offsets.offset_manager import OffsetManager
from kitlib.more.offsets.offset_rules import RULES, OffsetConfig, OffsetEvent
from kitlib.settings import Settings
from kitlib.trace import Step, Trace

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000
GROUP, OTHERS, LATER = "mail", ("audit",), ("search", "billing")  # A's; one beside it; those that come later
NAME = "A"
BATCH_MS = 2 * SECOND_MS  # between two polls of a consumer that reads a backlog
RETRY_MS = 10 * SECOND_MS  # a consumer that is told to ask again does so after this
# What a story has no knob for.
FIXED: dict[str, Any] = {
    "log_rules": "4.3.1", "retention_days": 30, "roll_days": 7, "restart_every_days": 3, "offsets_retention_days": 7,
    "check_interval_s": 600, "load_records_per_s": 1_000, "load_chunk_records": 5, "rounds_a_day": 1, "records_a_round": 1,
    "poll_records": 5, "segment_records": 10,
}  # fmt: skip


@dataclass(slots=True)
class IncidentRun(Run):
    """One run on the model: the offsets topic, who coordinates, and the partition that one consumer reads."""

    domain: ClassVar[str] = "incidents"
    on_kafka: ClassVar[str] = "kitlib.experiments.offsets.incident_stories:RealIncident"

    now_ms: int = 0
    log: SegmentedLog = field(default_factory=lambda: SegmentedLog("__consumer_offsets-0"))
    cleaner: LogCleaner = field(init=False)
    cleaner_runs: bool = True
    config: OffsetConfig = field(init=False)
    manager: OffsetManager = field(init=False)  # the coordinator's, once the run has begun
    orders: ModelTopic = field(init=False)
    told: ToldLog = field(init=False)
    ledger: PartitionLedger = field(default_factory=lambda: PartitionLedger("orders"))
    groups: tuple[str, ...] = OTHERS  # that commit beside A
    days: int = 0  # that have passed
    rounds: int = 0
    commits: int = 0  # since the last look at its health
    looked_ms: int = 0
    cleaned_ms: int = 0
    load_ms: int | None = None  # of the last load
    _shown: dict[str, Any] | None = None  # the state's part, until something changes it

    def __post_init__(self) -> None:
        self.settings = Settings(FIXED | self.settings)
        settings, self.told = self.settings, ToldLog(self.log)
        self.cleaner = LogCleaner(self.log, CleanerConfig())
        self.orders = ModelTopic("orders", segment_ms=settings.roll_days * DAY_MS, is_aged_by_file=settings.log_rules == "0.8.2")
        self.orders.grow(1, self.now_ms)
        self.config = OffsetConfig(
            offsets_retention_ms=settings.offsets_retention_days * DAY_MS,
            retention_check_interval_ms=settings.check_interval_s * SECOND_MS,
            **settings.given("load_records_per_s", "load_chunk_records"),
        )

    def begin(self, rules: str, groups: tuple[str, ...] = OTHERS) -> None:
        """The first coordinator, of this release, and A, which begins at an empty topic; these groups commit beside it."""
        self.groups = groups
        self.manager = OffsetManager(1, RULES[rules], self.config)
        self.record_events(self.manager.lead(self.log, self.now_ms))
        self.resume()

    def day(self) -> None:
        """A day passes. A reads, commits and is caught up at its end."""
        begin_ms, rounds = self.days * DAY_MS, self.settings.rounds_a_day
        self.days += 1
        if self.days % self.settings.restart_every_days == 0:
            self.orders.opened_ms = begin_ms
        for number in range(rounds):
            self.pass_to(begin_ms + 8 * HOUR_MS + number * 14 * HOUR_MS // rounds)
            self.arrive(self.settings.records_a_round)
            self.read()
            self.rounds += 1
            for group in self.groups:
                self.pass_to(self.now_ms + MINUTE_MS)
                self._commit(group, self.rounds)
        self.pass_to(begin_ms + 23 * HOUR_MS)
        self.look()
        self._tend()
        self.pass_to(begin_ms + DAY_MS)

    def upgrade(self, rules: str) -> None:
        """The brokers are upgraded: another one coordinates, by other rules, and more groups come."""
        self.move(rules)
        while self.manager.load is not None:
            self.pass_to(self.now_ms + RETRY_MS)
        self.groups += LATER

    def kill_cleaner(self) -> None:
        """The cleaner's thread ends, and nobody hears of it."""
        self.cleaner_runs = False
        self.changed()
        self.record("cleaner", "dies", why="an exception in its thread")

    def stop(self) -> None:
        """A is stopped, as in a rebalance."""
        self.record(NAME, "leave")

    def move(self, rules: str, since_check_ms: int = 0) -> None:
        """The coordinator moves to another broker, whose purge ran so long ago; its load begins."""
        before = self.manager
        self.record_events(before.resign())
        started_ms = self.now_ms - since_check_ms
        self.manager = OffsetManager(before.broker % 2 + 1, RULES[rules], self.config, started_ms, self.now_ms)
        self.changed()
        self.record(self.actor, "move", **{"from": before.broker, "to": self.manager.broker})
        self.record_events(self.manager.lead(self.log, self.now_ms))

    def wait(self, ms: int) -> None:
        """So much time passes, then a record comes."""
        self.pass_to(self.now_ms + ms)
        self.arrive(1)

    def go_on(self) -> None:
        """One more record comes, A reads it and commits, as it did before."""
        self.wait(MINUTE_MS)
        self.read()

    def resume(self) -> None:
        """A asks where to begin, again and again while it is told to, and begins there or where its policy says."""
        committed = self._ask()
        policy, start, end = self.settings.auto_offset_reset, self.ledger.log_start, self.ledger.log_end
        why = "committed offset" if committed is not None else policy
        if committed is not None and not start <= committed <= end:
            committed, why = None, f"{policy}, out of range"
        if committed is None:
            committed = start if policy == "earliest" else end
        self.ledger.emitted_to_offset = committed
        self.record_in(self.ledger, NAME, "start", offset=committed, why=why)
        self.read()

    def read(self) -> None:
        """A reads to the end, batch by batch, and commits after each."""
        ledger, most = self.ledger, self.settings.poll_records
        while (first := ledger.emitted_to_offset) < ledger.log_end:
            batch = range(first, min(first + most, ledger.log_end))
            ledger.emitted_to_offset = batch.stop
            for offset in batch:
                self.record_in(ledger, NAME, "emit", offset=offset)
            for offset in batch:
                ledger.process(offset)
                self.record_in(ledger, NAME, "process", offset=offset)
            self._commit(GROUP, batch.stop)
            if batch.stop < ledger.log_end:
                self.pass_to(self.now_ms + BATCH_MS)

    def arrive(self, count: int) -> None:
        """So many records come into the topic."""
        first = self.orders.append(0, count, self.now_ms)
        self.ledger.log_end = first + count
        self.record_in(self.ledger, "log", "append", first=first, last=first + count - 1)

    def look(self) -> None:
        """Write down the figures of its health; the commit rate if anybody has committed since the last look."""
        told = {
            "dirty_ratio": round(self.cleaner.look(self.now_ms).dirty_ratio, 3),
            "since_cleaned_ms": self.now_ms - self.cleaned_ms, "records": len(self.log.records()), "keys": self.live_keys(),
            "cached_offsets": self.manager.num_offsets, "groups": self.manager.num_groups,
        }  # fmt: skip
        if self.load_ms is not None:
            told["load_ms"] = self.load_ms
        if self.commits:
            told["commits_a_minute"] = round(self.commits * MINUTE_MS / max(MINUTE_MS, self.now_ms - self.looked_ms), 4)
            self.commits, self.looked_ms = 0, self.now_ms
        self.record("monitor", "health", **told)

    def pass_to(self, end_ms: int) -> None:
        """Let time pass; loads and purges happen at their times."""
        self._pass_over_checks(end_ms)
        while (due_ms := self.manager.next_due()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            notes = self.manager.advance(self.now_ms)
            self.record_events(notes)
            self._notice_load(notes)
        self.now_ms = max(self.now_ms, end_ms)
        self.manager.advance(self.now_ms)

    def _pass_over_checks(self, end_ms: int) -> None:
        """The checks at which no offset can be too old yet find nothing; there may be thousands of them in a day."""
        manager, config = self.manager, self.config
        if manager.load is None:
            oldest_ms = min((each.commit_timestamp_ms for each in manager.cache.offsets.values()), default=end_ms)
            idle_ms = min(end_ms, oldest_ms + config.offsets_retention_ms) - manager.next_purge_ms
            manager.next_purge_ms += max(0, idle_ms // config.retention_check_interval_ms) * config.retention_check_interval_ms

    def _notice_load(self, notes: Sequence[OffsetEvent]) -> None:
        ended = [each.data["ms"] for each in notes if each.what == "load_end"]
        if ended:
            self.load_ms = ended[-1]
            self.look()

    def _ask(self) -> int | None:
        """The committed offset by the coordinator's word; records come while it is loading."""
        while True:
            self.pass_to(self.now_ms)
            error, answers = self.manager.fetch(GROUP, [(self.ledger.topic, 0)])
            offset = answers[self.ledger.topic, 0]
            told = {} if error is ErrorCode.NONE else {"error": error.name}
            self.record_in(self.ledger, self.actor, "answer", group=GROUP, offset=offset, **told)
            if error is ErrorCode.NONE:
                return None if offset < 0 else offset
            self.wait(RETRY_MS)

    def _commit(self, group: str, offset: int) -> None:
        self.pass_to(self.now_ms)
        where = (self.ledger.topic if group == GROUP else f"{group}-in", 0)
        error, notes = self.manager.commit(group, {where: offset}, self.now_ms)
        self.record_events(notes)
        if group == GROUP:
            if error is ErrorCode.NONE:
                self.ledger.committed_to = offset
            self.record_in(self.ledger, NAME, "commit", offset=offset, written=error is ErrorCode.NONE)
        self.commits += 1
        if len([record for batch in self.log.active.batches for record in batch.records]) >= self.settings.segment_records:
            base = self.log.roll()
            self.changed()
            self.record("offsets log", "roll", base=base)

    def _tend(self) -> None:
        """At the end of a day: the topic's retention, and a pass of the cleaner if the log is dirty enough."""
        start = self.orders.delete_older(0, self.now_ms - self.settings.retention_days * DAY_MS)
        if start > self.ledger.log_start:
            self.ledger.log_start = start
            self.record_in(self.ledger, "log", "delete", to=start)
        found = self.cleaner.look(self.now_ms)
        self.changed()
        if not self.cleaner_runs or not must_be_cleaned(found, self.cleaner.config):
            return
        self.record("cleaner", "pass", dirty_ratio=round(found.dirty_ratio, 3))
        cleaned = self.cleaner.clean(self.now_ms)
        if cleaned is not None:
            self.cleaned_ms = self.now_ms
            self.changed()
            removed = [each.offset for each in cleaned.removed]
            kept = sum(each.offset < cleaned.next_first_dirty for each in self.log.records())
            self.record("offsets log", "clean", removed=removed, kept=kept, to=cleaned.next_first_dirty)

    @property
    def actor(self) -> str:
        return f"coordinator {self.manager.broker}"

    def record_events(self, events: Sequence[OffsetEvent]) -> None:
        """Write down what a coordinator did; what is in its cache is seen in the state."""
        self.changed()
        for event in events:
            if event.what != "cache":
                self.record("offsets log" if event.what == "write" else self.actor, event.what, **event.data)

    def changed(self) -> None:
        """The state's part is to be made anew."""
        self._shown = None

    def state(self) -> dict[str, Any]:
        if self._shown is None:
            load = self.manager.load
            self._shown = {
                "segments": segments_of(self.log),
                "records": self.told.records(),
                "keys": self.named_keys(),
                "cache": {key_text(key): value.committed_offset for key, value in self.manager.cache.offsets.items()},
                "loading": None if load is None else list(load.progress()),
                "dirty_ratio": round(self.cleaner.look(self.now_ms).dirty_ratio, 3),
                "cleaner": "runs" if self.cleaner_runs else "dead",
            }
        return {"offsets": self._shown, "now_ms": self.now_ms}

    def named_keys(self) -> list[str]:
        """The keys; those of the old format say so as soon as there are others."""
        has_both = len({key.endswith(OLD_FORMAT) for key in self.told.keys}) > 1
        return [key if has_both else key.removesuffix(OLD_FORMAT) for key in self.told.keys]

    def live_keys(self) -> int:
        """How many group-partitions have a value in the log, in whichever format."""
        rows, names = self.told.records(), [key.removesuffix(OLD_FORMAT) for key in self.told.keys]
        return sum(value is not None for value in {names[number]: value for _, number, value in rows}.values())


def health_in(trace: Trace) -> list[Health]:
    """The looks at its health that a run has written down."""
    looks = (step for step in trace if step.actor == "monitor" and step.what == "health")
    return [Health(**({"at_ms": step.at_ms} | step.data)) for step in looks]


@dataclass(slots=True)
class RealIncident(GroupRun):
    """One run of an incident on a real broker: a real group, and an operator who does what the old coordinator would have said.

    The model is told the story first. Then its delivery words are done for real, in their order: records are appended
    and deleted, a real consumer reads, works and commits, is closed, and comes back. Where the model's coordinator
    answers something else than what is committed, the real group's offset is set to that, or deleted, while nobody
    is a member.

    Left out: the offsets topic's own steps; days (they pass at once).
    """

    answered: int | None = None  # what the model's coordinator said last; None: no offset
    pending: int = 0  # records that A has been handed by the model and not yet for real

    def tell(self, story: Callable[..., None], /, **given: Any) -> None:
        """Tell the story to the model, then do it."""
        name = self.trace.run
        imagined = IncidentRun(Trace(name, self.trace.experiment, domain=self.trace.domain), ModelBackend(name), self.settings)
        cut: RunIsOver | None = None
        try:
            story(imagined, **given)
        except RunIsOver as over:  # what it had told until then is done
            cut = over
        self.create(1)
        for step in imagined.trace:
            self.do(step)
        if cut:
            raise cut

    def do(self, step: Step) -> None:
        """Do for real what one step of the model tells."""
        data = step.data
        match step.actor, step.what:
            case "log", "append":
                self.append(0, data["last"] - data["first"] + 1)
            case "log", "delete":
                self.delete_before(0, data["to"])
            case _, "answer":
                self.answered = None if data["offset"] < 0 else data["offset"]
            case (who, "leave") if who == NAME:
                self.close(NAME)
            case (who, "start") if who == NAME:
                self._resume()
            case (who, "emit") if who == NAME:
                self.pending += 1
            case (who, "commit") if who == NAME:
                self._work(data["offset"])

    def _resume(self) -> None:
        """The group's offset becomes what the model was answered, if it is something else; then A begins."""
        committed = self.group.committed()[0]
        if self.answered is None and committed is not None:
            self.forget([0])
        elif self.answered is not None and self.answered != committed:
            self.alter({0: self.answered})
        settings = MemberSettings(auto_offset_reset=self.settings.auto_offset_reset, max_poll_records=self.settings.poll_records)
        self.start(settings, NAME)

    def _work(self, next_offset: int) -> None:
        self.work(NAME, self.take(NAME, self.pending))
        self.pending = 0
        self.commit(NAME, {0: next_offset})


Reset = Annotated[Literal["earliest", "latest"], Knob("Where A starts without a usable offset.", live=True)]
OffsetsRetentionDays = Annotated[int, Knob("How long a committed offset is retained.", "days", 1, 60)]
Poll = Annotated[int, Knob("How many records A reads and commits at a time.", "records", 1, 100)]


@experiment(
    "The stale offset", IncidentRun, max_steps=4_000,
    figure=WENT_BACK, front=("asks_after_min", "days", "old_days", "coordinator_rules", "log_rules"),
)
def stale_offset(
    run: IncidentRun,
    coordinator_rules: Annotated[
        Literal["2015-04", "0.9.0", "4.3.1"], Knob("Which release's rules the upgraded coordinators follow.")
    ] = "2015-04",
    log_rules: Annotated[
        Literal["0.8.2", "4.3.1"],
        Knob("When the age of a segment starts to count towards rolling: at the broker's start (0.8.2), or at its first record (4.3.1)."),
    ] = "0.8.2",
    auto_offset_reset: Reset = "latest",
    old_days: Annotated[int, Knob("How long offsets were written in the old format.", "days", 1, 10)] = 4,
    days: Annotated[int, Knob("How long ago that was.", "days", 1, 40)] = 21,
    retention_days: Annotated[int, Knob("The topic's retention.", "days", 1, 40)] = 4,
    roll_days: Annotated[int, Knob("Age at which a segment of the topic is rolled.", "days", 1, 40)] = 7,
    restart_every_days: Annotated[int, Knob("Time between restarts of the topic's brokers.", "days", 1, 40)] = 3,
    offsets_retention_days: OffsetsRetentionDays = 7,
    asks_after_min: Annotated[
        int, Knob("How long after the move A asks. Every ten minutes, the coordinator removes expired offsets.", "min", 0, 60)
    ] = 1,
    poll_records: Poll = 5,
) -> None:
    """Brokers write offsets in a new format. Weeks later, the coordinator moves, and A asks for its offset. What answer
    does it get, and what does it do?
    """
    run.begin("0.8.2")
    for _ in range(old_days):
        run.day()
    run.upgrade(coordinator_rules)
    for _ in range(days):
        run.day()
    run.stop()
    run.move(coordinator_rules)
    run.wait(asks_after_min * MINUTE_MS)
    run.resume()
    run.look()
    run.go_on()


@experiment(
    "The dead cleaner", IncidentRun, max_steps=4_000,
    figure=WENT_BACK, front=("dies_on_day", "days", "cleaner", "load_records_per_s", "coordinator_rules"),
)
def dead_cleaner(
    run: IncidentRun,
    coordinator_rules: Annotated[Literal["0.8.2", "0.9.0", "4.3.1"], Knob("Which release's rules the coordinator follows.")] = "0.8.2",
    cleaner: Annotated[Literal["dies", "runs"], Knob("What happens to the log cleaner.")] = "dies",
    auto_offset_reset: Reset = "earliest",
    days: Annotated[int, Knob("When the coordinator moves.", "days", 2, 40)] = 12,
    dies_on_day: Annotated[int, Knob("The day on which the cleaner dies.", "day", 0, 39)] = 3,
    load_records_per_s: Annotated[int, Knob("How fast a coordinator reads the offsets topic.", "records/s", 1, 1_000)] = 1,
    check_interval_s: Annotated[
        int, Knob("How often a coordinator removes expired offsets; in the incident, every ten minutes.", "s", 1, 3_600)
    ] = 30,
    offsets_retention_days: OffsetsRetentionDays = 1,
    rounds_a_day: Annotated[int, Knob("Commits of each group per day.", "commits", 1, 6)] = 2,
    poll_records: Poll = 5,
) -> None:
    """The log cleaner has died, and the offsets topic has grown. The coordinator moves and reads it. What answer does A
    get when it asks again?
    """
    run.begin(coordinator_rules, OTHERS + LATER)
    for day in range(days):
        if cleaner == "dies" and day == min(dies_on_day, days - 1):
            run.kill_cleaner()
        run.day()
    run.stop()
    run.move(coordinator_rules, since_check_ms=min(5, check_interval_s - 1) * SECOND_MS)
    run.resume()
    run.look()
    run.go_on()
