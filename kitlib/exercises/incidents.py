"""The incidents of the incident room: which story a seed tells, what a team sees of it, and what is right in a report.

A kind is a story of the kit with knobs drawn by the seed. A team gets logs, metrics and the cluster's settings, which are those of
every incident; what happened is told in the words of the run's own steps, without what explains them. Nothing that is right is
typed in: counts come from the verdict, lines from the steps, and whether a change would have helped is found by running it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
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
    "enable.auto.commit": "false", "session.timeout.ms": "1500",
}  # fmt: skip
DRAWN: dict[str, tuple[str, Any]] = {
    "max.poll.records": ("poll_records", 30), "max.poll.interval.ms": ("max_poll_ms", 2_000),
    "auto.offset.reset": ("auto_offset_reset", "earliest"),
}  # fmt: skip


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
    ),
    Kind(
        "offset_forgotten", "dead_cleaner", "Customers got all mails of the past days again.", _cleaner,
        began=lambda step: step.what == "dies",
        proof=lambda step: step.what == "dies" or (step.what == "evict" and step.data["why"] == "expired"),
        trace_of=lambda step: step.what in ("answer", "move", "start", "load_begin", "load_end", "evict"),
    ),
    Kind(
        "unclean_election", "unclean_election", "Orders that were confirmed to customers are missing in the warehouse.", _election,
        began=lambda step: step.what == "elect" and step.data["unclean"],
        proof=lambda step: step.what == "elect" and step.data["unclean"],
        trace_of=lambda step: step.what in ("truncate", "isr", "none", "lead", "kill", "restart", "start"),
    ),
    Kind(
        "retry_overtaken", "reordering_by_retry", "Some accounts show an old balance: an older update came after a newer one.", _overtaken,
        began=_refused,
        proof=lambda step: _refused(step) or step.what == "requeue" or (step.what == "request" and step.data["attempt"] > 0),
        trace_of=lambda step: step.what == "write",
    ),
    Kind(
        "polls_too_late", "slow_group", "The lag of the group grows, although all its members are busy.", _late,
        began=lambda step: step.what == "late",
        proof=lambda step: step.what == "late" or (step.what == "evict" and step.data["why"] == "poll"),
        trace_of=lambda step: step.what in ("prepare", "lost", "empty") or (step.what == "commit" and "error" in step.data),
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

    def clock(self, step: Step) -> str:
        """The moment of a step, as the logs tell it."""
        return f"{self.start + timedelta(milliseconds=step.at_ms):%Y-%m-%d %H:%M:%S.%f}"[:-3]

    @cached_property
    def lines(self) -> dict[str, list[tuple[Step, str]]]:
        """Each log by its file's name: its steps and lines."""
        logs: dict[str, list[tuple[Step, str]]] = {}
        for step in self.trace:
            if step.what not in UNLOGGED:
                said = self.trace.sentence(step).partition(EXPLAINS.get(step.what, "\n"))[0].rstrip(".")
                level = "ERROR" if step.what in ERRORS else "WARN " if "error" in step.data and step.data["error"] != "NONE" else "INFO "
                logs.setdefault(f"{re.sub(r'[^a-z0-9]+', '-', step.actor.lower())}.log", []).append(
                    (step, f"{self.clock(step)} {level} {plain_text(said, 400)}")
                )
        return logs

    def where(self, pick: Pick) -> str:
        """The first line whose step is so, as FILE:LINE."""
        found = ((step.number, f"{name}:{at}") for name, rows in self.lines.items() for at, (step, _) in enumerate(rows, 1) if pick(step))
        return min(found)[1]

    def line(self, where: str) -> tuple[Step, str] | None:
        """The step and the text of FILE:LINE; None if there is no such line."""
        parts = re.fullmatch(r"(?:logs/)?([a-z0-9-]+\.log):(\d{1,6})", where.strip())
        rows = self.lines.get(parts[1], []) if parts else []
        return rows[int(parts[2]) - 1] if parts and 0 < int(parts[2]) <= len(rows) else None

    @property
    def first(self) -> Step:
        """The step with which it began."""
        return next(step for step in self.trace if self.kind.began(step))

    @property
    def harm(self) -> str:
        """The first logged line at or after the first harm, as FILE:LINE."""
        seen = min(self.verdict.first(name).witness or 0 for name, count in self.counts.items() if count)
        lines = [(step.number, f"{name}:{at}") for name, rows in self.lines.items() for at, (step, _) in enumerate(rows, 1)]
        return min((line for line in lines if line[0] >= seen), default=max(lines))[1]

    @property
    def counts(self) -> dict[str, int]:
        """What was lost, duplicated and reordered."""
        return {name: self.verdict.counts.get(name, 0) for name in HARM}

    @property
    def cut_records(self) -> int:
        """How many records left the log when a replica cut its end off."""
        return sum(step.data["from"] - step.data["to"] for step in self.trace if step.what == "truncate")

    @cached_property
    def changes(self) -> dict[str, dict[str, int] | None]:
        """For each possible change what it leaves of the damage; None if the story knows no such setting."""
        return {name: self._with(knobs) for name, knobs in CHANGES.items()}

    def _with(self, knobs: Mapping[str, Any]) -> dict[str, int] | None:
        experiment = get(self.kind.story)
        if not set(knobs) <= {knob.name for knob in experiment.knobs}:
            return None
        try:
            verdict = judge(experiment.run(seed=self.seed, **{**self.trace.knobs, **knobs}))
        except KnobError:  # one that this run cannot have
            return None
        return {name: verdict.counts.get(name, 0) for name in HARM}

    def settings(self) -> str:
        """The cluster's settings, as a file of properties."""
        drawn = {name: self.trace.knobs.get(knob, usual) for name, (knob, usual) in DRAWN.items()}
        return "".join(f"{name}={value}\n" for name, value in (SETTINGS | drawn).items())

    def metrics(self) -> str:
        """What was measured: the end of each log, the commit and the lag; and what the monitor of the offsets topic reported."""
        rows = ["time,topic_partition,log_end_offset,committed_offset,lag"]
        before: dict[str, tuple[int, int]] = {}
        for step in self.trace:
            name = f"{step.data.get('topic')}-{step.data.get('partition')}"
            if "topic" in step.data and "committed_to" in step.state and step.state["log_end"] is not None:
                end, commit = step.state["log_end"], step.state["committed_to"] or 0
                if before.get(name) != (end, commit):
                    before[name] = end, commit
                    rows.append(f"{self.clock(step)},{name},{end},{commit},{end - commit}")
        return "\n".join(rows) + "\n"

    def health(self) -> str:
        """What the monitor of the offsets topic reported; "" where there was none."""
        steps = [step for step in self.trace if step.what == "health"]
        columns = list(dict.fromkeys(name for step in steps for name in step.data))
        rows = [",".join([self.clock(step), *(str(step.data.get(name, "")) for name in columns)]) for step in steps]
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
        trace = get(kind.story).run(seed=seed, **kind.draw(rng))
        verdict = judge(trace)
        if any(verdict.counts.get(name, 0) for name in HARM) and any(map(kind.began, trace)):
            return Incident(seed, kind, trace, verdict)
    raise KitError(f"incident {seed}: {MOST_DRAWS} runs of {kind.story} did no harm. Choose another seed, and report this one.")
