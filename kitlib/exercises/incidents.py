"""The incidents of the incident room: which story a seed tells, what a team sees of it, and what is right in a report.

A kind is a story of the kit with knobs drawn by the seed. A team gets logs, metrics and the cluster's settings, which are those of
every incident; what happened is told in the words of the run's own steps, without what explains them, among lines that stand in
such logs every day. Nothing that is right is typed in: counts come from the verdict, lines from the steps, and whether a change
would have helped is found by running it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from itertools import groupby
from random import Random
from typing import Any

from kitlib.errors import KitError, KnobError
from kitlib.experiments import get
from kitlib.monitor.delivery import Verdict, judge
from kitlib.text import plain_text
from kitlib.trace import Step, Trace

MOST_SEEDS = 2**32
HARM = ("lost", "duplicated", "reordered")
MOST_DRAWS = 50  # of knobs, until a run does harm
MINUTES = {"easy": 18, "medium": 30, "hard": 45}  # that a team of three has, by difficulty
SAMPLES = 24  # of the metrics, evenly over the incident, beside those at each change
Pick = Callable[[Step], bool]


@dataclass(frozen=True, slots=True)
class Cause:
    """One answer to "what happened?"."""

    said: str
    family: str  # another cause of the same family is half right


CAUSES = {
    "old_offset_loaded": Cause("a coordinator has read only a part of the offsets topic, and answers with an old offset", "offsets"),
    "offset_forgotten": Cause("the offsets topic was no longer cleaned, loading it took long, and offsets expired meanwhile", "offsets"),
    "offset_expired": Cause("the group committed nothing for longer than offsets are retained", "offsets"),
    "unclean_election": Cause("a replica that was behind became leader, and the others cut their logs back to it", "replication"),
    "replica_corrupted": Cause("a replica lost the end of its log on its own disk", "replication"),
    "retry_overtaken": Cause("a batch failed and was sent again after later batches had been written", "producer"),
    "answer_lost": Cause("the answer to a batch was lost, and it was written a second time", "producer"),
    "polls_too_late": Cause("members take too long between two polls and leave the group; others begin at the last commit", "group"),
    "member_killed": Cause("a member was killed, and others begin at its last commit", "group"),
    "poison_record": Cause("one record cannot be processed, and everything behind it waits", "group"),
}

# What could be changed, as a team would write it -> the knob that it turns; a story without that knob is not changed by it.
CHANGES: dict[str, dict[str, Any]] = {
    "unclean.leader.election.enable=false": {"unclean_leader_election": False},
    "min.insync.replicas=2": {"min_insync_replicas": 2},
    "enable.idempotence=true": {"idempotence": True},
    "max.in.flight.requests.per.connection=1": {"max_in_flight": 1},
    "retries=0": {"retries": 0},
    "max.poll.records=5": {"poll_records": 5},
    "max.poll.interval.ms=10000": {"max_poll_ms": 10_000},
    "session.timeout.ms=2000": {"session_ms": 2_000},
    "auto.offset.reset=latest": {"auto_offset_reset": "latest"},
    "auto.offset.reset=earliest": {"auto_offset_reset": "earliest"},
    "the coordinators of release 4.3.1": {"coordinator_rules": "4.3.1"},
    "an alarm when the log cleaner stops": {"cleaner": "runs"},
}

# As risky in every incident: what a story does not turn stands there too, so no setting gives away which one this is.
SETTINGS = {
    "unclean.leader.election.enable": "true", "min.insync.replicas": "1", "log.cleaner.enable": "true",
    "acks": "all", "enable.idempotence": "false", "max.in.flight.requests.per.connection": "5",
    "enable.auto.commit": "false", "session.timeout.ms": "1500", "max.poll.records": "30", "max.poll.interval.ms": "2000",
    "auto.offset.reset": "earliest",
}  # fmt: skip
DRAWN = {"max.poll.records": "poll_records", "max.poll.interval.ms": "max_poll_ms", "auto.offset.reset": "auto_offset_reset"}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of incident."""

    cause: str
    story: str
    page: str  # what the people on call were told
    draw: Callable[[Random], dict[str, Any]]
    began: Pick  # the first such step: without it nothing would have gone wrong
    proof: Pick  # steps that show the cause
    trace_of: Pick  # consequences of it: half right as evidence
    hardness: int  # 0: the proof stands out; 2: it takes knowledge to see it
    lasts_ms: Callable[[Trace], float] = lambda trace: float("inf")  # the team is called before the run is over


def _stale(rng: Random) -> dict[str, Any]:
    old = rng.randint(3, 5)
    return {"old_days": old, "days": rng.randint(old + 10, 28), "poll_records": rng.randint(3, 8)}


def _cleaner(rng: Random) -> dict[str, Any]:
    return {"days": rng.randint(9, 16), "dies_on_day": rng.randint(2, 4), "poll_records": rng.randint(3, 8)}


def _election(rng: Random) -> dict[str, Any]:
    copied, alone = rng.randint(20, 60), rng.randint(10, 30)
    read = rng.randint(copied + 1, copied + alone - 4)
    return {"copied": copied, "alone": alone, "read": read, "new_records": rng.randint(2, alone - 5)}


def _overtaken(rng: Random) -> dict[str, Any]:
    return {
        "batches": rng.randint(8, 16), "batch_records": rng.randint(3, 8), "failing_batch": rng.randint(2, 6),
        "delay_ms": rng.randint(20, 60), "max_in_flight": 5,
    }  # fmt: skip


def _late(rng: Random) -> dict[str, Any]:
    return {
        "members": rng.randint(2, 4), "records": rng.randint(30, 45), "poll_records": rng.randint(24, 30), "work_ms": rng.randint(90, 110),
        "run_ms": rng.randint(4_000, 6_500),
    }  # fmt: skip


def _refused(step: Step) -> bool:
    return step.actor == "producer" and step.what == "answer" and step.data["error"] != "NONE"


KINDS = (
    Kind(
        "old_offset_loaded", "stale_offset", "Customers got the same mails again, days after the first ones.", _stale,
        began=lambda step: step.what == "load_failed",
        proof=lambda step: step.what == "load_failed" or (step.what == "load_end" and step.data["records"] == 2),
        trace_of=lambda step: step.what in ("move", "answer", "start", "load_begin"),
        hardness=2,
    ),
    Kind(
        "offset_forgotten", "dead_cleaner", "Customers got all mails of the past days again.", _cleaner,
        began=lambda step: step.what == "dies",
        proof=lambda step: step.what == "dies" or (step.what == "evict" and step.data["why"] == "expired"),
        trace_of=lambda step: step.what in ("answer", "move", "start", "load_begin", "load_end", "evict"),
        hardness=2,
    ),
    Kind(
        "unclean_election", "unclean_election", "Orders that were confirmed to customers are missing in the warehouse.", _election,
        began=lambda step: step.what == "elect" and step.data["unclean"],
        proof=lambda step: step.what == "elect" and step.data["unclean"],
        trace_of=lambda step: step.what in ("truncate", "isr", "none", "lead", "kill", "restart", "start"),
        hardness=0,
    ),
    Kind(
        "retry_overtaken", "reordering_by_retry", "Some accounts show an old balance: an older update came after a newer one.", _overtaken,
        began=_refused,
        proof=lambda step: _refused(step) or step.what == "requeue" or (step.what == "request" and step.data["attempt"] > 0),
        trace_of=lambda step: step.what == "write",
        hardness=1,
    ),
    Kind(
        "polls_too_late", "slow_group", "The lag of the group does not fall, although all its members are busy.", _late,
        began=lambda step: step.what == "late",
        proof=lambda step: step.what == "late" or (step.what == "evict" and step.data["why"] == "poll"),
        trace_of=lambda step: step.what in ("prepare", "lost", "empty") or (step.what == "commit" and "error" in step.data),
        hardness=1,
        lasts_ms=lambda trace: next(step.at_ms for step in trace if step.what == "append") + trace.settings.run_ms,
    ),
)  # fmt: skip

# Where a sentence begins to explain what a log would only state.
EXPLAINS = {
    "elect": ", although", "none": ": no live", "dies": ": an exception", "commit": ": the next", "process": ": the effect",
    "kill": ". Its disk", "truncate": ": its leader", "load_begin": ". Clients", "send": ": batch", "revoked": "; it may",
    "lost": ": another", "late": " and leaves", "answer": ". auto.offset.reset",
}  # fmt: skip
UNLOGGED = {"emit", "health", "cut", "read"}  # measured or not seen by anybody
ERRORS = {"load_failed", "dies", "late", "none", "kill"}
SILENT = {"kill", "leave", "close", "crash", "stop", "dies"}  # after these a log has no line until the next of its own

# What such logs have in them every day: other topics, groups and machines.
NOISE_LINES = (100, 220, 400)
NOISE = {
    re.compile("broker|controller|coordinator"): (
        "INFO  Partition clicks-{0} rolls a new segment at offset {1}",
        "INFO  Two segments of sessions-{0} are older than their retention of 7 days; they are deleted",
        "INFO  Group reports is stable with {0} members",
        "INFO  The request queue holds {0} requests",
        "WARN  Client scanner-{0} closes its connection without a request",
        "WARN  Replica 7 of clicks-{0} is {1} messages behind",
        "WARN  Writing the index of sessions-{0} took {1} microseconds",
        "ERROR Client scanner-{0} is refused: it offers no credentials",
    ),
    re.compile(r"[a-h]\.|producer"): (
        "INFO  Garbage collection took {0} ms",
        "INFO  The pool of database connections has {0} of 16 in use",
        "INFO  The configuration is looked up again: nothing has changed",
        "WARN  A query on table customers took {1} microseconds",
        "WARN  The certificate of mail.internal expires in {0} days",
        "ERROR The tracing collector refuses span {1}",
    ),
}


@dataclass(slots=True)
class Measured:
    """What a partition's metrics are at a moment."""

    log_end: int = 0
    committed: int | None = None  # None: there is no consumer
    records_in: int = 0
    processed: int = 0

    def take(self, step: Step) -> None:
        self.records_in += step.data["last"] - step.data["first"] + 1 if step.what in ("append", "write") else 0
        self.processed += step.what == "process"
        if "committed_to" in step.state and step.state["log_end"] is not None:
            self.log_end, self.committed = step.state["log_end"], step.state["committed_to"] or 0
        elif "broker" in step.state:
            self.log_end = step.state["broker"]["log_end"]

    def __str__(self) -> str:
        lag = "," if self.committed is None else f"{self.committed},{self.log_end - self.committed}"
        return f"{self.log_end},{lag},{self.records_in},{self.processed}"


def until_the_call(kind: Kind, trace: Trace) -> Trace:
    """A run as far as it had come when the team was called."""
    return replace(trace, steps=[step for step in trace if step.at_ms < kind.lasts_ms(trace)])


@dataclass(frozen=True)
class Incident:
    """The incident of a seed."""

    seed: int
    kind: Kind
    trace: Trace
    verdict: Verdict

    @cached_property
    def start(self) -> datetime:
        """The moment of the run's first step."""
        rng = Random(f"clock {self.seed}")
        return datetime(2026, 1, 5, tzinfo=UTC) + timedelta(days=rng.randrange(300), hours=rng.randint(6, 15), minutes=rng.randrange(60))

    def clock(self, at_ms: int) -> str:
        """A moment of the run, as the logs tell it."""
        return f"{self.start + timedelta(milliseconds=at_ms):%Y-%m-%d %H:%M:%S.%f}"[:-3]

    @property
    def noise_lines(self) -> int:
        """How many lines of the logs have nothing to do with the incident."""
        return Random(f"noise lines {self.seed}").choice(NOISE_LINES)

    @property
    def difficulty(self) -> str:
        """How hard it is: how little the proof stands out, and among how many other lines."""
        return list(MINUTES)[(self.kind.hardness + NOISE_LINES.index(self.noise_lines) + 1) // 2]

    @cached_property
    def lines(self) -> dict[str, list[tuple[Step | None, str]]]:
        """Each log by its file's name: its steps and lines; None where a line has nothing to do with the incident."""
        rng, logs = Random(f"noise {self.seed}"), self._told
        gaps = {name: [at for at, (step, _) in enumerate(rows[:-1]) if step.what not in SILENT] for name, rows in logs.items()}
        busy = {name: texts for name in logs for pattern, texts in NOISE.items() if gaps[name] and pattern.match(name)}
        noise: dict[tuple[str, int], list[tuple[int, str]]] = {}
        for _ in range(self.noise_lines):
            name = rng.choice(list(busy))
            at = rng.choice(gaps[name])
            at_ms = rng.randint(logs[name][at][0].at_ms, logs[name][at + 1][0].at_ms)
            text = rng.choice(busy[name]).format(rng.randint(2, 15), rng.randint(1_000, 90_000))
            noise.setdefault((name, at), []).append((at_ms, f"{self.clock(at_ms)} {text}"))
        return {
            name: [line for at, row in enumerate(rows) for line in (row, *((None, text) for _, text in sorted(noise.get((name, at), []))))]
            for name, rows in logs.items()
        }

    @cached_property
    def _told(self) -> dict[str, list[tuple[Step, str]]]:
        """The lines that the incident itself has written."""
        logs: dict[str, list[tuple[Step, str]]] = {}
        for step in self.trace:
            if step.what not in UNLOGGED:
                said = self.trace.sentence(step).partition(EXPLAINS.get(step.what, "\n"))[0].rstrip(".")
                level = "ERROR" if step.what in ERRORS else "WARN " if "error" in step.data and step.data["error"] != "NONE" else "INFO "
                logs.setdefault(f"{re.sub(r'[^a-z0-9]+', '-', step.actor.lower())}.log", []).append(
                    (step, f"{self.clock(step.at_ms)} {level} {plain_text(said, 400)}")
                )
        return logs

    def where(self, pick: Pick) -> str:
        """The first line whose step is so, as FILE:LINE."""
        rows = ((step, f"{name}:{at}") for name, rows in self.lines.items() for at, (step, _) in enumerate(rows, 1))
        return min((step.number, where) for step, where in rows if step is not None and pick(step))[1]

    def line(self, where: str) -> tuple[Step | None, str] | None:
        """The step (see `lines`) and the text of FILE:LINE; None if there is no such line."""
        parts = re.fullmatch(r"(?:logs/)?([a-z0-9-]+\.log):(\d{1,6})", where.strip())
        rows = self.lines.get(parts[1], []) if parts else []
        return rows[int(parts[2]) - 1] if parts and 0 < int(parts[2]) <= len(rows) else None

    @property
    def first(self) -> Step:
        """The step with which it began."""
        return next(step for step in self.trace if self.kind.began(step))

    @property
    def counts(self) -> dict[str, int]:
        """What was lost, duplicated and reordered."""
        return {name: self.verdict.counts.get(name, 0) for name in HARM}

    @property
    def harmed(self) -> Step:
        """The step at which the first of them was seen."""
        return self.trace.at(min(self.verdict.first(name).witness or 0 for name, count in self.counts.items() if count))

    @property
    def cut_records(self) -> tuple[int, int]:
        """How many records left the log when a replica cut its end off, and how many of them had been processed."""
        cut = next((step for step in self.trace if step.what == "cut"), None)
        gone = range(cut.data["to"], cut.data["from"]) if cut else range(0)
        done = {step.data["offset"] for step in self.trace if cut and step.number < cut.number and step.what == "process"}
        return len(gone), len(done.intersection(gone))

    @cached_property
    def changes(self) -> dict[str, dict[str, int] | None]:
        """For each possible change what it leaves of the damage; None if the story knows no such setting."""
        return {name: self._with(knobs) for name, knobs in CHANGES.items()}

    def _with(self, knobs: Mapping[str, Any]) -> dict[str, int] | None:
        experiment = get(self.kind.story)
        if not set(knobs) <= {knob.name for knob in experiment.knobs}:
            return None
        try:
            verdict = judge(until_the_call(self.kind, experiment.run(seed=self.seed, **{**self.trace.settings, **knobs})))
        except KnobError:  # one that this run cannot have
            return None
        return {name: verdict.counts.get(name, 0) for name in HARM}

    def settings(self) -> str:
        """The cluster's settings, as a file of properties."""
        return "".join(f"{name}={value}\n" for name, value in (SETTINGS | self.trace.settings.given(**DRAWN)).items())

    def metrics(self) -> str:
        """What was measured of each partition, at each change of its log's end or commit and SAMPLES times between."""
        rows = ["time,topic_partition,log_end_offset,committed_offset,lag,records_in_total,processed_total"]
        first, last = self.trace.steps[0].at_ms, self.trace.steps[-1].at_ms
        due = {first + (last - first) * number // SAMPLES for number in range(SAMPLES + 1)}
        moments = dict.fromkeys(due, ()) | {at_ms: (*steps,) for at_ms, steps in groupby(self.trace, lambda step: step.at_ms)}
        now: dict[str, Measured] = {}
        for at_ms in sorted(moments):
            before = {name: (found.log_end, found.committed) for name, found in now.items()}
            for step in moments[at_ms]:
                if "topic" in step.data:
                    now.setdefault(f"{step.data['topic']}-{step.data['partition']}", Measured()).take(step)
            rows += [
                f"{self.clock(at_ms)},{name},{found}" for name, found in now.items()
                if at_ms in due or before.get(name) != (found.log_end, found.committed)
            ]  # fmt: skip
        return "\n".join(rows) + "\n"

    def health(self) -> str:
        """What the monitor of the offsets topic reported; "" where there was none."""
        steps = [step for step in self.trace if step.what == "health"]
        columns = list(dict.fromkeys(name for step in steps for name in step.data))
        rows = [",".join([self.clock(step.at_ms), *(str(step.data.get(name, "")) for name in columns)]) for step in steps]
        return "\n".join([",".join(["time", *columns]), *rows]) + "\n" if steps else ""

    def contents(self) -> str:
        """What a reader finds in the topic at the end, in the order of the log; "" where no one has read it."""
        read = next((step for step in reversed(self.trace.steps) if step.what == "read"), None)
        if read is None:
            return ""
        numbers = [number for first, last in read.data["records"] for number in range(first, last + 1)]
        return "offset,record\n" + "".join(f"{offset},{number}\n" for offset, number in enumerate(numbers))


@cache
def incident(seed: int) -> Incident:
    """The incident of this seed, the same each time. KnobError for a seed that is none."""
    if not 0 <= seed < MOST_SEEDS:
        raise KnobError(f"--seed {seed}: expected a number from 0 to {MOST_SEEDS - 1:,}.")
    rng = Random(f"incident {seed}")
    kind = rng.choice(KINDS)
    for _ in range(MOST_DRAWS):
        trace = until_the_call(kind, get(kind.story).run(seed=seed, **kind.draw(rng)))
        verdict = judge(trace)
        if any(verdict.counts.get(name, 0) for name in HARM) and any(map(kind.began, trace)):
            return Incident(seed, kind, trace, verdict)
    raise KitError(f"incident {seed}: {MOST_DRAWS} runs of {kind.story} did no harm. Choose another seed, and report this one.")
