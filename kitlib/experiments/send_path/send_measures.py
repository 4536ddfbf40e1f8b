"""What a run of the send path shows in numbers: how long records took, and how many shared a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kitlib.errors import KnobError
from kitlib.experiments.send_path.send_stories import linger_and_batches
from kitlib.trace import Trace


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


def records_per_request(trace: Trace) -> list[int]:
    """How many records each batch that left carried, in order."""
    return [step.data["last"] - step.data["first"] + 1 for step in trace if step.what == "request"]


def percentile(values: Iterable[int], percent: float) -> int:
    """The smallest value that `percent` of a hundred are not above. KnobError when there are none."""
    ordered = sorted(values)
    if not ordered or not 0 <= percent <= 100:
        raise KnobError(f"the {percent}th percentile of {len(ordered)} values: give one value or more, and 0 to 100.")
    return ordered[max(int(-(-len(ordered) * percent // 100)) - 1, 0)]


@dataclass(frozen=True, slots=True)
class LingerPoint:
    """One run of a sweep."""

    rate_per_s: int
    linger_ms: int
    median_ms: int
    p99_ms: int
    requests: int
    records_each: float  # on average


def sweep_linger(
    rates_per_s: Iterable[int] = (50, 1_000), lingers_ms: Iterable[int] = (0, 1, 2, 5, 10, 20, 50), **knobs: Any
) -> list[LingerPoint]:
    """Run `linger_and_batches` on the model for each rate and linger; about one virtual second each."""
    points = []
    lingers = list(lingers_ms)
    for rate in rates_per_s:
        for linger in lingers:
            told: Mapping[str, Any] = {"records": rate, **knobs, "rate_per_s": rate, "linger_ms": linger}
            trace = linger_and_batches.run(**told)
            taken, each = latencies_ms(trace)[1:], records_per_request(trace)[1:]  # without the first, which waits for metadata
            points.append(
                LingerPoint(rate, linger, percentile(taken, 50), percentile(taken, 99), len(each), sum(each) / len(each))
            )
    return points
