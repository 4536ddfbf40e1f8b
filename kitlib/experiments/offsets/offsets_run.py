"""A consumer, its coordinator and the offsets topic over days of virtual time: the stage of the two incidents.

One consumer, A, reads a small topic and commits to a group; other groups commit beside it into the same
partition of the offsets topic. Brokers are restarted, retention runs, the cleaner passes (or is dead), and at
the end the coordinator moves while A is away. What A is told then is the offset manager's answer
(`kitlib.kafka.offsets.offset_manager`), by the rules of the release that the knobs name.

A day has one round or more: records come, A works them off and commits, the other groups commit. The offsets
topic rolls a segment after so many records. Everything is smaller than in a cluster, and in proportion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kitlib.errors import LabError
from kitlib.experiments.offsets.offsets_book import OffsetsBook
from kitlib.experiments.offsets.small_topic import SmallTopic
from kitlib.kafka.offsets.compaction import must_be_cleaned
from kitlib.kafka.offsets.offset_manager import OffsetManager
from kitlib.kafka.offsets.offset_rules import RULES, OffsetConfig, OffsetError, OffsetEvent
from kitlib.trace import add_to_ranges

SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000
GROUP, OTHERS, LATER = "mail", ("audit",), ("search", "billing")  # A's; one beside it; those that come later
NAME = "A"
BATCH_MS = 2 * SECOND_MS  # between two polls of a consumer that reads a backlog
RETRY_MS = 10 * SECOND_MS  # a consumer that is told to ask again does so after this
MOST_TRIES = 2_000
# What a story has no knob for.
FIXED: dict[str, Any] = {
    "log_rules": "4.3.1", "retention_days": 30, "roll_days": 7, "restart_every_days": 3, "offsets_retention_days": 7,
    "check_interval_s": 600, "load_records_per_s": 1_000, "load_chunk_records": 5, "rounds_a_day": 1, "records_a_round": 1,
    "poll_records": 5, "segment_records": 10,
}  # fmt: skip


@dataclass(slots=True)
class OffsetsRun(OffsetsBook):
    """One run of an incident on the model."""

    config: OffsetConfig = field(default_factory=OffsetConfig)
    orders: SmallTopic = field(init=False)
    groups: tuple[str, ...] = OTHERS  # that commit beside A
    days: int = 0  # that have passed
    rounds: int = 0
    position: int = 0  # the next record that A reads
    commits: int = 0  # since the last look at its health
    looked_ms: int = 0
    cleaned_ms: int = 0
    load_ms: int | None = None  # of the last load
    came: int = 0  # records, while A was away

    def __post_init__(self) -> None:
        OffsetsBook.__post_init__(self)
        get = self.setting
        self.orders = SmallTopic(get("log_rules"), get("retention_days") * DAY_MS, get("roll_days") * DAY_MS)
        self.config = OffsetConfig(
            offsets_retention_ms=get("offsets_retention_days") * DAY_MS,
            retention_check_interval_ms=get("check_interval_s") * SECOND_MS,
            partitions=1,
            load_records_per_s=get("load_records_per_s"),
            load_chunk_records=get("load_chunk_records"),
        )

    def setting(self, name: str) -> Any:
        """A knob's value, or what the run sets where its story has no such knob."""
        return self.knobs.get(name, FIXED.get(name))

    # -- what a story calls --------------------------------------------------------------------------

    def begin(self, rules: str, groups: tuple[str, ...] = OTHERS) -> None:
        """The first coordinator, of this release, and A, which begins at an empty topic; these groups commit beside it."""
        self.groups = groups
        self.manager = OffsetManager(1, RULES[rules], self.config)
        self.take_notes(self.manager.lead(0, self.log, self.now_ms))
        self.resume()

    def day(self) -> None:
        """A day passes. A reads, commits and is caught up at its end."""
        begin_ms, rounds = self.days * DAY_MS, self.setting("rounds_a_day")
        self.days += 1
        if self.days % self.setting("restart_every_days") == 0:
            self.orders.restart(begin_ms)
        for number in range(rounds):
            self.pass_to(begin_ms + 8 * HOUR_MS + number * 14 * HOUR_MS // rounds)
            self.arrive(self.setting("records_a_round"))
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
        self._wait_for_load()
        self.groups += LATER

    def kill_cleaner(self) -> None:
        """The cleaner's thread ends, and nobody hears of it."""
        self.cleaner_runs = False
        self.changed()
        self.note("cleaner", "dies", why="an exception in its thread")

    def stop(self) -> None:
        """A is stopped, as in a rebalance."""
        self.note(NAME, "leave")
        self.came = 0

    def move(self, rules: str, since_check_ms: int = 0) -> None:
        """The coordinator moves to another broker, whose purge ran so long ago; its load begins."""
        before = self.manager
        assert before is not None
        self.take_notes(before.resign(0))
        started_ms = self.now_ms - since_check_ms
        self.manager = OffsetManager(before.broker % 2 + 1, RULES[rules], self.config, started_ms, self.now_ms)
        self.changed()
        self.note(self.actor, "move", **{"from": before.broker, "to": self.manager.broker})
        self.take_notes(self.manager.lead(0, self.log, self.now_ms))

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
        policy, (start, end) = self.knobs["auto_offset_reset"], self.bounds
        why = "committed offset" if committed is not None else policy
        if committed is not None and not start <= committed <= end:
            committed, why = None, f"{policy}, out of range"
        if committed is None:
            committed = start if policy == "earliest" else end
        self.position = self.emitted_to = committed
        self.lane(NAME, "start", offset=committed, why=why)
        self.read()

    def read(self) -> None:
        """A reads to the end, batch by batch, and commits after each."""
        while self.position < self.bounds[1]:
            batch = range(self.position, min(self.position + self.setting("poll_records"), self.bounds[1]))
            self.position = self.emitted_to = batch.stop
            for offset in batch:
                self.lane(NAME, "emit", offset=offset)
            for offset in batch:
                add_to_ranges(self.processed, offset)
                self.lane(NAME, "process", offset=offset)
            self._commit(GROUP, batch.stop)
            if batch.stop < self.bounds[1]:
                self.pass_to(self.now_ms + BATCH_MS)

    def arrive(self, count: int) -> None:
        """So many records come into the topic."""
        first = self.orders.append(count, self.now_ms)
        self.bounds[1] = self.orders.end
        self.came += count
        self.lane("log", "append", first=first, last=first + count - 1)

    def look(self) -> None:
        """Write down the figures of its health; the commit rate if anybody has committed since the last look."""
        assert self.manager is not None
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
        self.note("monitor", "health", **told)

    # -- time ----------------------------------------------------------------------------------------

    def pass_to(self, end_ms: int) -> None:
        """Let time pass; loads and purges happen at their times."""
        assert self.manager is not None
        self._pass_over_checks(end_ms)
        while (due_ms := self.manager.next_due()) is not None and due_ms <= end_ms:
            self.now_ms = max(self.now_ms, due_ms)
            notes = self.manager.advance(self.now_ms)
            self.take_notes(notes)
            self._notice_load(notes)
        self.now_ms = max(self.now_ms, end_ms)
        self.manager.advance(self.now_ms)

    def _pass_over_checks(self, end_ms: int) -> None:
        """The checks at which no offset can be too old yet find nothing; there may be thousands of them in a day."""
        assert self.manager is not None
        led, config = self.manager.led[0], self.config
        if led.load is None:
            oldest_ms = min((each.commit_timestamp_ms for _, each in self.manager.offsets()), default=end_ms)
            idle_ms = min(end_ms, oldest_ms + config.offsets_retention_ms) - led.next_purge_ms
            led.next_purge_ms += max(0, idle_ms // config.retention_check_interval_ms) * config.retention_check_interval_ms

    def _notice_load(self, notes: Sequence[OffsetEvent]) -> None:
        ended = [each.data["ms"] for each in notes if each.what == "load_end"]
        if ended:
            self.load_ms = ended[-1]
            self.look()

    def _wait_for_load(self) -> None:
        assert self.manager is not None
        for _ in range(MOST_TRIES):
            if self.manager.led[0].load is None:
                return
            self.pass_to(self.now_ms + RETRY_MS)
        raise LabError(f"{self.trace.run}: the load does not end. Look at the trace.")

    # -- the coordinator -----------------------------------------------------------------------------

    def _ask(self) -> int | None:
        """The committed offset by the coordinator's word; records come while it is loading."""
        assert self.manager is not None
        for _ in range(MOST_TRIES):
            self.pass_to(self.now_ms)
            error, answers = self.manager.fetch(GROUP, [(self.topic, 0)])
            offset = answers[self.topic, 0].offset
            told = {} if error is OffsetError.NONE else {"error": error.name}
            self.lane(self.actor, "answer", group=GROUP, offset=offset, **told)
            if error is OffsetError.NONE:
                return None if offset < 0 else offset
            self.wait(RETRY_MS)
        raise LabError(f"{self.trace.run}: {self.actor} does not answer, its load stopped at a record. Look at the trace.")

    def _commit(self, group: str, offset: int) -> None:
        assert self.manager is not None
        self.pass_to(self.now_ms)
        where = (self.topic if group == GROUP else f"{group}-in", 0)
        errors, notes = self.manager.commit(group, {where: offset}, self.now_ms)
        self.take_notes(notes)
        if group == GROUP:
            error = errors[where]
            if error is OffsetError.NONE:
                self.committed_to = offset
            self.lane(NAME, "commit", offset=offset, written=error is OffsetError.NONE)
        self.commits += 1
        if len([record for batch in self.log.active.batches for record in batch.records]) >= self.setting("segment_records"):
            base = self.log.roll()
            self.changed()
            self.note("offsets log", "roll", base=base)

    # -- retention and the cleaner -------------------------------------------------------------------

    def _tend(self) -> None:
        """At the end of a day: the topic's retention, and a pass of the cleaner if the log is dirty enough."""
        if self.orders.enforce_retention(self.now_ms):
            self.bounds[0] = self.orders.start
            self.lane("log", "delete", to=self.orders.start)
        found = self.cleaner.look(self.now_ms)
        self.changed()
        if not self.cleaner_runs or not must_be_cleaned(self.log, found, self.now_ms, self.cleaner.config):
            return
        self.note("cleaner", "pass", dirty_ratio=round(found.dirty_ratio, 3))
        cleaned = self.cleaner.clean(self.now_ms)
        if cleaned is not None:
            self.cleaned_ms = self.now_ms
            self.changed()
            removed = [each.offset for each in cleaned.removed]
            kept = sum(each.offset < cleaned.next_first_dirty for each in self.log.records())
            self.note("offsets log", "clean", removed=removed, kept=kept, to=cleaned.next_first_dirty)
