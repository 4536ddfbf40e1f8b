"""The incidents of the incident room: which story a seed tells, what a team sees of it, and what is right in a report.

A kind is a story of the kit with knobs drawn by the seed. A team gets logs, metrics and the cluster's settings, which are those of
every incident; what happened is told in the words of the run's own steps, without what explains them, among lines that stand in
such logs every day (`incidents.toml`). Nothing that is right is typed in: counts come from the verdict, lines from the steps, and
whether a change would have helped is found by running it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path
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
Span = tuple[int, int] | Callable[[dict[str, int]], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Cause:
    """One answer to "what happened?"."""

    said: str
    family: str  # another cause of the same family is half right


_texts = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
CAUSES = {name: Cause(**cause) for name, cause in _texts["causes"].items()}
CHANGES: dict[str, dict[str, Any]] = _texts["changes"]
SETTINGS: dict[str, str] = _texts["settings"]
EXPLAINS: dict[str, str] = _texts["explains"]
NOISE: dict[str, list[str]] = _texts["noise"]
DRAWN = {"max.poll.records": "poll_records", "max.poll.interval.ms": "max_poll_ms", "auto.offset.reset": "auto_offset_reset"}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of incident."""

    cause: str
    story: str
    page: str  # what the people on call were told
    draw: Mapping[str, Span]  # of each knob the smallest and the largest value, or how they follow from what is drawn before
    began: Pick  # the first such step: without it nothing would have gone wrong
    proof: Pick  # steps that show the cause
    trace_of: Pick  # consequences of it: half right as evidence
    hardness: int  # 0: the proof stands out; 2: it takes knowledge to see it
    lasts_ms: Callable[[Trace], float] = lambda trace: float("inf")  # the team is called before the run is over


def _refused(step: Step) -> bool:
    return step.actor == "producer" and step.what == "answer" and step.data["error"] != "NONE"


KINDS = (
    Kind(
        "old_offset_loaded", "stale_offset", "Customers got the same mails again, days after the first ones.",
        {"old_days": (3, 5), "days": lambda drawn: (drawn["old_days"] + 10, 28), "poll_records": (3, 8)},
        began=lambda step: step.what == "load_failed",
        proof=lambda step: step.what == "load_failed" or (step.what == "load_end" and step.data["records"] == 2),
        trace_of=lambda step: step.what in ("move", "answer", "start", "load_begin"),
        hardness=2,
    ),
    Kind(
        "offset_forgotten", "dead_cleaner", "Customers got all mails of the past days again.",
        {"days": (9, 16), "dies_on_day": (2, 4), "poll_records": (3, 8)},
        began=lambda step: step.what == "dies",
        proof=lambda step: step.what == "dies" or (step.what == "evict" and step.data["why"] == "expired"),
        trace_of=lambda step: step.what in ("answer", "move", "start", "load_begin", "load_end", "evict"),
        hardness=2,
    ),
    Kind(
        "unclean_election", "unclean_election", "Orders that were confirmed to customers are missing in the warehouse.",
        {"copied": (20, 60), "alone": (10, 30), "read": lambda drawn: (drawn["copied"] + 1, drawn["copied"] + drawn["alone"] - 4),
         "new_records": lambda drawn: (2, drawn["alone"] - 5)},
        began=lambda step: step.what == "elect" and step.data["unclean"],
        proof=lambda step: step.what == "elect" and step.data["unclean"],
        trace_of=lambda step: step.what in ("truncate", "isr", "none", "lead", "kill", "restart", "start"),
        hardness=0,
    ),
    Kind(
        "retry_overtaken", "reordering_by_retry", "Some accounts show an old balance: an older update came after a newer one.",
        {"batches": (8, 16), "batch_records": (3, 8), "failing_batch": (2, 6), "delay_ms": (20, 60)},
        began=_refused,
        proof=lambda step: _refused(step) or step.what == "requeue" or (step.what == "request" and step.data["attempt"] > 0),
        trace_of=lambda step: step.what == "write",
        hardness=1,
    ),
    Kind(
        "polls_too_late", "slow_group", "The lag of the group does not fall, although all its members are busy.",
        {"members": (2, 4), "records": (30, 45), "poll_records": (24, 30), "work_ms": (90, 110), "run_ms": (4_000, 6_500)},
        began=lambda step: step.what == "late",
        proof=lambda step: step.what == "late" or (step.what == "evict" and step.data["why"] == "poll"),
        trace_of=lambda step: step.what in ("prepare", "lost", "empty") or (step.what == "commit" and "error" in step.data),
        hardness=1,
        lasts_ms=lambda trace: next(step.at_ms for step in trace if step.what == "append") + trace.settings.run_ms,
    ),
)  # fmt: skip

UNLOGGED = {"emit", "health", "cut", "read"}  # measured or not seen by anybody
ERRORS = {"load_failed", "dies", "late", "none", "kill"}
SILENT = {"kill", "leave", "close", "crash", "stop", "dies"}  # after these a log has no line until the next of its own
NOISE_LINES = (100, 220, 400)


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
        busy = {name: texts for name in logs for pattern, texts in NOISE.items() if gaps[name] and re.match(pattern, name)}
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
        knobs: dict[str, Any] = {}
        for name, span in kind.draw.items():
            knobs[name] = rng.randint(*(span(knobs) if callable(span) else span))
        trace = until_the_call(kind, get(kind.story).run(seed=seed, **knobs))
        verdict = judge(trace)
        if any(verdict.counts.get(name, 0) for name in HARM) and any(map(kind.began, trace)):
            return Incident(seed, kind, trace, verdict)
    raise KitError(f"incident {seed}: {MOST_DRAWS} runs of {kind.story} did no harm. Choose another seed, and report this one.")
