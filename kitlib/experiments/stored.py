"""What a producer's run left in its log, and how long that took: to lay a broker's log under the model's, and settings side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from statistics import median
from typing import Any

from kitlib.errors import TraceError
from kitlib.text import plain_text
from kitlib.trace import Trace


@dataclass(frozen=True, slots=True)
class Stored:
    """Records that lie one behind the other in a log, all of them for the first time, the second, ..."""

    offset: int  # of the first of them
    first: int  # record
    last: int
    copy: int  # from 1 on


def stored_logs(trace: Trace) -> dict[int, list[int]]:
    """The records of each partition's log, in its order, as the run's last look at it found them. TraceError for a run without one."""
    reads = {step.data["partition"]: step for step in trace if step.what == "read" and "records" in step.data}
    if not reads:
        raise TraceError(
            f"run {plain_text(trace.run, 80)} has not read its topic back, so its log is not known. "
            "Take a producer's run that came to its end, such as one of answers_lost."
        )
    return {
        partition: [record for low, high in step.data["records"] for record in range(low, high + 1)]
        for partition, step in sorted(reads.items())
    }  # fmt: skip


def stored(trace: Trace) -> dict[int, list[Stored]]:
    """The same in pieces: one ends where the numbers do not go on, or where copies begin or end. Errors as `stored_logs`."""
    return {partition: _pieces(records) for partition, records in stored_logs(trace).items()}


def _pieces(records: list[int]) -> list[Stored]:
    pieces: list[Stored] = []
    times: Counter[int] = Counter()
    for offset, record in enumerate(records):
        times[record] += 1
        before = pieces[-1] if pieces else None
        if before and before.last + 1 == record and before.copy == times[record]:
            pieces[-1] = Stored(before.offset, before.first, record, before.copy)
        else:
            pieces.append(Stored(offset, record, record, times[record]))
    return pieces


def compare_logs(model: Trace, broker: Trace) -> str:
    """Whether two runs left the same logs, in one sentence: what both hold, or where they part. Errors as `stored_logs`."""
    ours, theirs = stored_logs(model), stored_logs(broker)
    for partition in sorted({*ours, *theirs}):
        for offset, (one, other) in enumerate(zip_longest(ours.get(partition, ()), theirs.get(partition, ()))):
            if one != other:
                told = [("nothing" if record is None else f"record {record}") for record in (one, other)]
                where = f"of partition {partition} part at its" if len(ours) > 1 else "part at"
                return f"The logs {where} offset {offset}: the model's has {told[0]} there, the broker's {told[1]}."
    copies, count = _copies(ours), sum(map(len, ours.values()))
    again = f", {copies:,} of them copies" if copies else ", each of them once"
    spread = f" in {len(ours)} partitions" if len(ours) > 1 else ""
    return f"The broker's log is the model's, record by record: {count:,} records{spread}{again}."


def _copies(logs: Mapping[int, list[int]]) -> int:
    """How many records lie in a log more often than once, each further time counted."""
    return sum(len(records) - len(set(records)) for records in logs.values())


def latencies_ms(trace: Trace) -> list[int]:
    """For each record that was delivered, the ms from its send to the user's answer, in the order of the answers."""
    sent_ms: dict[tuple[str, int, int], int] = {}
    taken = []
    for step in trace:
        if step.what not in ("send", "delivered"):
            continue
        lane = step.data["topic"], step.data["partition"]
        for record in range(step.data["first"], step.data["last"] + 1):
            if step.what == "send":
                sent_ms.setdefault((*lane, record), step.at_ms - step.data.get("waited_ms", 0))
            else:
                taken.append(step.at_ms - sent_ms[*lane, record])
    return taken


@dataclass(frozen=True, slots=True)
class SendFigures:
    """What a producer's run cost and gave."""

    records_per_s: float  # stored or reported as stored, from the first send to the last report
    median_ms: float  # from a record's send to its report
    worst_ms: float
    copies: int  # records in the log beyond the first of each


def send_figures(trace: Trace) -> SendFigures:
    """The figures of a producer's run. TraceError as `stored_logs`, and when nothing was reported as stored."""
    found = stored_logs(trace)
    waits = latencies_ms(trace)
    if not waits:
        raise TraceError(f"run {plain_text(trace.run, 80)} reported no record as stored, so it has no latency.")
    first_ms = next(step.at_ms for step in trace if step.what == "send")
    last_ms = max(step.at_ms for step in trace if step.what == "delivered")
    rate = len(waits) * 1000 / max(1, last_ms - first_ms)
    return SendFigures(rate, median(waits), max(waits), _copies(found))


def records_per_request(trace: Trace) -> list[int]:
    """How many records each batch that left carried, in order."""
    return [step.data["last"] - step.data["first"] + 1 for step in trace if step.what == "request"]


@dataclass(frozen=True, slots=True)
class LingerPoint:
    """One run of a sweep."""

    rate_per_s: int
    linger_ms: int
    p99_ms: int
    records_each: float  # of its requests, on average


def sweep_linger(
    rates_per_s: Iterable[int] = (50, 1_000), lingers_ms: Iterable[int] = (0, 1, 2, 5, 10, 20, 50), **knobs: Any
) -> list[LingerPoint]:
    """Run `linger_and_batches` on the model for each rate and linger; about one virtual second each."""
    import numpy as np  # not above: every kernel's first check imports this module

    from kitlib.experiments import run

    points, lingers = [], list(lingers_ms)
    for rate in rates_per_s:
        for linger in lingers:
            told: Mapping[str, Any] = {"records": rate, **knobs, "rate_per_s": rate, "linger_ms": linger}
            trace = run("linger_and_batches", **told)
            taken, each = latencies_ms(trace)[1:], records_per_request(trace)[1:]  # without the first, which waits for metadata
            points.append(LingerPoint(rate, linger, int(np.percentile(taken, 99, method="inverted_cdf")), sum(each) / len(each)))
    return points
