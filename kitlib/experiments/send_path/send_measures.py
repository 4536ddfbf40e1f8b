"""What a run of the send path shows in numbers: how long records took, and how many shared a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kitlib.errors import KnobError
from kitlib.experiments.send_path.send_stories import linger_and_batches
from kitlib.experiments.stored import latencies_ms
from kitlib.trace import Trace


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
