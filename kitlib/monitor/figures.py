"""The figure of merit of a run: the one number that its experiment's question asks for.

"Which partitions stand still, and for how long" is answered in seconds, "is a record stored twice" in copies. Each
experiment names its figure (`@experiment(..., figure=NO_OWNER)`); a player draws it, `kit run` prints it and a sweep
keeps it for each run. A figure is a function of the trace and its verdict alone, so it also holds for a run on a
real broker and for a trace that was kept. It has a value after each step, and the run's number is the last of these
or the highest.

Left out: whether a figure is good or bad. `less_is_better` says which way is the better one, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from kitlib.monitor.verdict import Verdict
from kitlib.trace import Step, Trace

Curve = list[float]  # a value after each step
CurveOf = Callable[[Trace, Verdict], Curve]
SECOND_MS, MINUTE_MS, DAY_MS = 1_000, 60_000, 86_400_000


@dataclass(frozen=True, slots=True)
class Figure:
    """What is measured, in which unit, how it is told, and how it is computed."""

    name: str  # of its curve; short
    unit: str  # "ms", "%", or the plural of what is counted
    told: str  # a sentence with {} for the amount: "{} without an owner"
    curve_of: CurveOf
    is_peak: bool = False  # the run's number is the highest value of the curve, not the last one
    is_drawn: bool = True  # False where only the end has a value worth looking at
    less_is_better: bool = True

    def measure(self, trace: Trace, verdict: Verdict) -> Measured:
        """The figure of a run, given its verdict; 0 for a trace without steps.

        TraceError when a step's data are not what its word promises.
        """
        with trace.following(f"be measured by '{self.name}'"):
            curve = self.curve_of(trace, verdict)
        value = (max(curve) if self.is_peak else curve[-1]) if curve else 0
        return Measured(self, value, curve)

    def sentence(self, value: float) -> str:
        """A value with its unit and its meaning: "8.4 s without an owner"."""
        told = self.told.format(amount(value, self.unit))
        return told[:1].upper() + told[1:]


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure of one run."""

    figure: Figure
    value: float  # finite, in the figure's unit
    curve: Curve  # one value a step

    @property
    def sentence(self) -> str:
        return self.figure.sentence(self.value)

    def to_json(self) -> dict[str, Any]:
        figure = self.figure
        told = {"name": figure.name, "value": self.value, "unit": figure.unit, "less_is_better": figure.less_is_better}
        return told | {"sentence": self.sentence}


def amount(value: float, unit: str) -> str:
    """A number with its unit, as one reads it: "1 record", "75 %"; milliseconds become seconds, minutes and days when they are many."""
    if unit != "ms":
        return f"{_short(value)} {_one(unit) if value == 1 else unit}".rstrip()
    for least, each, name in ((2 * DAY_MS, DAY_MS, "days"), (10 * MINUTE_MS, MINUTE_MS, "min"), (SECOND_MS, SECOND_MS, "s")):
        if value >= least:
            return f"{_short(value / each)} {name}"
    return f"{_short(value)} ms"


def _one(unit: str) -> str:
    return f"{unit[:-3]}y" if unit.endswith("ies") else unit.removesuffix("s")


def _short(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


# Ways to a curve.


def _anomalies(*kinds: str) -> CurveOf:
    """How many of these the verdict has found up to each step."""

    def curve_of(trace: Trace, verdict: Verdict) -> Curve:
        return _rising(trace, sorted(step for kind in kinds for step in verdict.steps(kind)))

    return curve_of


def _rising(trace: Trace, at: list[int]) -> Curve:
    """How many of the steps in `at`, which ascend, each step has behind it."""
    curve: Curve = []
    for place, step in enumerate(at):
        curve.extend([place] * (step - len(curve)))
    return curve + [len(at)] * (len(trace) - len(curve))


def _sum(each: Callable[[Step], float]) -> CurveOf:

    def curve_of(trace: Trace, verdict: Verdict) -> Curve:
        return list(accumulate(map(each, trace)))

    return curve_of


def _count(*words: str) -> CurveOf:
    return _sum(lambda step: step.what in words)


def _held(each: Callable[[Step], float | None]) -> CurveOf:
    """The newest value that a step had to tell; 0 before the first."""

    def curve_of(trace: Trace, verdict: Verdict) -> Curve:
        newest = accumulate(map(each, trace), lambda now, found: now if found is None else found, initial=0.0)
        return [now for now in newest if now is not None][1:]

    return curve_of


def _said(what: str, of: Callable[[dict[str, Any]], float]) -> CurveOf:
    return _held(lambda step: of(step.data) if step.what == what else None)


def _each(values: Callable[[Trace], Iterator[float]]) -> CurveOf:
    """A value for each step, from a generator that follows the trace."""
    return lambda trace, verdict: list(values(trace))


def _lane(step: Step) -> tuple[Any, Any]:
    return step.data.get("topic"), step.data.get("partition", 0)


def _oldest(begins: str, ends: str) -> CurveOf:
    """For how long the oldest record of which the one word was said has not had the other, ms; records in the order of the first."""

    def waits(trace: Trace) -> Iterator[float]:
        since: dict[tuple[Any, ...], int] = {}
        for step in trace:
            if step.what == begins:
                for offset in _offsets(step):
                    since.setdefault((*_lane(step), offset), step.at_ms)
            yield step.at_ms - next(iter(since.values()), step.at_ms)
            if step.what == ends:
                since.pop((*_lane(step), step.data["offset"]), None)

    return _each(waits)


def _offsets(step: Step) -> Iterable[int]:
    """The records that a step is about: all that were appended, or the one at its offset."""
    data = step.data
    return (data.get("offsets") or range(data["first"], data["last"] + 1)) if step.what == "append" else (data["offset"],)


def _repeats(trace: Trace) -> Iterator[float]:
    """How many emits were of a record that had been emitted before."""
    emitted: set[tuple[Any, ...]] = set()
    count = 0
    for step in trace:
        if step.what == "emit":
            record = (*_lane(step), step.data["offset"])
            count += record in emitted
            emitted.add(record)
        yield count


def _done_above_commit(state: dict[str, Any]) -> int:
    """Records that have been processed at or above the committed offset."""
    commit = state["committed_to"] or 0
    return sum(last + 1 - max(first, commit) for first, last in state["processed"] if last >= commit)


def _unclaimed(step: Step) -> float | None:
    return _done_above_commit(step.state) if "processed" in step.state and "committed_to" in step.state else None


def _commit_standstill(trace: Trace) -> Iterator[float]:
    """For how long the committed offset has not moved while records above it were done, ms."""
    since, before = 0, None
    for step in trace:
        done = _unclaimed(step)
        if done is not None and (not done or step.state["committed_to"] != before):
            since, before = step.at_ms, step.state["committed_to"]
        yield step.at_ms - since if before is not None else 0


def _longest_send(trace: Trace) -> Iterator[float]:
    """The longest time from a call of send to the answer that the application got, good or bad, ms."""
    called: dict[Any, int] = {}  # record -> ms
    sent: dict[tuple[Any, ...], int] = {}  # lane and number in it -> ms
    longest = 0
    for step in trace:
        if step.what == "call":
            called[step.data["record"]] = step.at_ms
        elif step.what == "send":
            began = called.get(step.data.get("record"), step.at_ms - step.data.get("waited_ms", 0))
            for record in range(step.data["first"], step.data["last"] + 1):
                sent.setdefault((*_lane(step), record), began)
        elif step.what in ("delivered", "undelivered"):
            for record in range(step.data["first"], step.data["last"] + 1):
                longest = max(longest, step.at_ms - sent.get((*_lane(step), record), step.at_ms))
        yield longest


def _others_wait(trace: Trace) -> Iterator[float]:
    """The longest time from send to log outside the failing partition, ms; of what is not there yet, up to now."""
    failing = trace.settings.failing_partition
    waiting: dict[tuple[Any, ...], int] = {}
    longest = 0
    for step in trace:
        if step.what == "send" and step.data["partition"] != failing:
            waiting[*_lane(step), step.data["first"]] = step.at_ms
        longest = max(longest, step.at_ms - min(waiting.values(), default=step.at_ms))
        if step.what == "write":
            waiting.pop((*_lane(step), step.data["first"]), None)
        yield longest


def _records_a_request(trace: Trace) -> Iterator[float]:
    """How many records a produce request has carried on average."""
    requests = records = 0
    for step in trace:
        if step.what == "request":
            requests += 1
            records += step.data["last"] - step.data["first"] + 1
        yield records / requests if requests else 0


def _reader_wait(trace: Trace) -> Iterator[float]:
    """For how long the last stable offset has been behind the log end, ms."""
    begun = None
    for step in trace:
        yield 0 if begun is None else step.at_ms - begun
        is_behind = step.state["lso"] < step.state["high_watermark"]
        begun = (step.at_ms if begun is None else begun) if is_behind else None


def _shared_ms(is_counted: Callable[[str, dict[str, Any], set[str]], bool]) -> CurveOf:
    """The time that partitions of a group were in a condition, summed over the partitions, ms.

    The condition is asked of a partition, of the group's state and of the partitions that have had an owner so far.
    """

    def values(trace: Trace) -> Iterator[float]:
        total, before_ms, count = 0, 0, 0
        owned: set[str] = set()
        for step in trace:
            total, before_ms = total + count * (step.at_ms - before_ms), step.at_ms
            group = step.state.get("group")
            if group:
                owned.update(name for name, owner in group["owners"].items() if owner is not None)
                count = sum(is_counted(name, group, owned) for name in group["owners"])
            yield total

    return _each(values)


def _claimed_back(trace: Trace) -> Iterator[float]:
    """By how many offsets commits and starts have gone back, in all."""
    position: dict[tuple[Any, Any], int] = {}
    total = 0
    for step in trace:
        if step.what in ("commit", "start") and "offset" in step.data:
            to = step.data["offset"]
            total += max(0, position.get(_lane(step), to) - to)
            position[_lane(step)] = to
        yield total


def _committed_to(trace: Trace) -> Iterator[float]:
    """The committed offsets, summed over the partitions."""
    position: dict[tuple[Any, Any], int] = {}
    for step in trace:
        if step.what == "commit" and "error" not in step.data:
            position[_lane(step)] = step.data["offset"]
        yield sum(position.values())


def _busiest_thread(step: Step) -> float | None:
    streams = step.state.get("streams")
    threads = [tasks for each in streams["instances"].values() for tasks in each["threads"].values()] if streams else []
    return max(map(len, threads), default=0)


def _miscounted(data: dict[str, Any]) -> int:
    return sum(abs(int(data["counts"].get(word, 0)) - int(count)) for word, count in data["truth"].items())


def _hidden_lag(data: dict[str, Any]) -> int:
    """How much of the lag the lag at the last commit does not show."""
    return max(0, int(data["lag"]) - int(data["stored_lag"]))


# The figures. Of records: what happened to them.

LOST = Figure("lost", "records", "{} lost", _anomalies("lost"))
PROCESSED_AGAIN = Figure("processed again", "records", "{} processed again", _anomalies("duplicated"))
COPIES = Figure("copies", "copies", "{} too many in the log", _anomalies("duplicated"))
LOST_OR_AGAIN = Figure("lost or repeated", "records", "{} lost or repeated", _anomalies("lost", "duplicated"))
OUT_OF_ORDER = Figure("out of order", "records", "{} stored out of order", _anomalies("reordered"))
WRONGLY_FAILED = Figure("wrongly failed", "records", "{} reported as failed, but stored", _anomalies("indefinite"))
WENT_BACK = Figure("went back", "offsets", "the reader went back by {}", _each(_claimed_back))
HELD_UP = Figure("others held up", "ms", "{} at most from send to log in the other partitions", _each(_others_wait))
COMMITTED = Figure("committed", "records", "{} committed", _each(_committed_to), less_is_better=False)
UNCLAIMED = Figure("done, not committed", "records", "up to {} done that no commit could cover yet", _held(_unclaimed), is_peak=True)
EARLY_CANCELS = Figure(
    "too early", "cancellations", "{} before their order was created",
    _held(lambda step: step.state["orders"].get("cancel before create") if "orders" in step.state else None),
)  # fmt: skip

# Of work that is done more than once, or for nothing.
RETRIES = Figure("emitted again", "retries", "{} by the spout", _each(_repeats))
RESETS = Figure("resets", "resets", "{} of the reading position", _count("reset"))
REFUSALS = Figure("refused", "requests", "{} refused by the broker", _count("refuse"))
RECOGNISED = Figure("recognised", "retries", "{} recognised by the broker", _count("recognise"), less_is_better=False)
ACKER_MESSAGES = Figure("acker messages", "messages", "{} to the acker", _count("acker_init", "acker_ack", "acker_fail"))
FALSE_ACKS = Figure(
    "false acks", "trees", "{} acked with tuples still open",
    _sum(lambda step: step.what == "ack" and (step.data.get("outstanding") or 0) > 0),
)  # fmt: skip
WASTED = Figure(
    "wasted", "%", "{} of the bolt's work wasted",
    _said("sample", lambda data: 100 * data["wasted"] / data["executed"] if data["executed"] else 0),
)  # fmt: skip
MISCOUNTED = Figure("miscounted", "words", "{} miscounted", _said("result", _miscounted), is_drawn=False)
REBALANCES = Figure("rebalances", "rebalances", "{} completed", _count("stable"))
MOVES = Figure("moves", "moves", "{} of a task to another worker", _said("idle", lambda data: data["shuffled"]), is_drawn=False)
RESTORED = Figure(
    "restored", "records", "{} read back from the changelog",
    _sum(lambda step: step.data["restored"] if step.what == "running" else 0),
)  # fmt: skip
BUSIEST = Figure("busiest thread", "tasks", "{} on the busiest thread", _held(_busiest_thread))
BAD_ANSWERS = Figure(
    "bad answers", "queries", "{} without the right answer",
    _sum(lambda step: step.what == "ask" and (step.data["outcome"] != "value" or step.data["value"] != step.data["truth"])),
)  # fmt: skip
SPEED = Figure(
    "speed", "", "{} times as fast as one consumer", _said("share", lambda data: data["speed"]), is_peak=True, less_is_better=False
)
RECORDS_A_REQUEST = Figure(
    "records a request", "records", "{} in a request, on average", _each(_records_a_request), less_is_better=False
)

# Of time.
NO_OWNER = Figure(
    "without an owner", "ms", "{} without an owner, summed over the partitions",
    _shared_ms(lambda name, group, owned: name in owned and group["owners"][name] is None),
)  # fmt: skip
TWO_OWNERS = Figure(
    "two owners", "ms", "{} with two owners, summed over the partitions",
    _shared_ms(lambda name, group, owned: len(group["holders"].get(name, ())) > 1),
)  # fmt: skip
IN_FLIGHT = Figure("in flight", "ms", "a record was in flight for up to {}", _oldest("emit", "ack"), is_peak=True)
WAITED = Figure("oldest waits", "ms", "a record waited for up to {}", _oldest("append", "process"), is_peak=True)
RETRY_WAIT = Figure("retry waits", "ms", "a failed record waited for its retry for up to {}", _oldest("fail", "emit"), is_peak=True)
STANDSTILL = Figure("commit stands", "ms", "the commit stood still for up to {}", _each(_commit_standstill), is_peak=True)
SEND_TIME = Figure("longest send", "ms", "up to {} from send to its answer", _each(_longest_send))
READER_WAIT = Figure("reader waits", "ms", "a read_committed reader waited for up to {}", _each(_reader_wait), is_peak=True)
TASK_IDLE = Figure(
    "nowhere", "ms", "a task ran nowhere for {}", _said("idle", lambda data: data["longest_ms"]), is_drawn=False
)
LOADING = Figure("loading", "ms", "the new coordinator loaded for {}", _said("load_end", lambda data: data["ms"]), is_peak=True)

# Of lag.
LAG = Figure("lag", "offsets", "a lag of {}", _held(lambda step: lag if isinstance(lag := step.data.get("lag"), int) else None))
HIDDEN_LAG = Figure("hidden lag", "offsets", "up to {} of lag that the last commit did not show", _said("judge", _hidden_lag), is_peak=True)
