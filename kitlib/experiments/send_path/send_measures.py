"""What a run of the send path shows in numbers: how long records took, and how many shared a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kitlib.experiments.send_path.send_stories import linger_and_batches
from kitlib.experiments.stored import latencies_ms
from kitlib.trace import Trace


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

    points, lingers = [], list(lingers_ms)
    for rate in rates_per_s:
        for linger in lingers:
            told: Mapping[str, Any] = {"records": rate, **knobs, "rate_per_s": rate, "linger_ms": linger}
            trace = linger_and_batches.run(**told)
            taken, each = latencies_ms(trace)[1:], records_per_request(trace)[1:]  # without the first, which waits for metadata
            points.append(LingerPoint(rate, linger, int(np.percentile(taken, 99, method="inverted_cdf")), sum(each) / len(each)))
    return points
