"""Where a consumer group begins: the committed offset if it is usable, else the reset policy.

`auto.offset.reset` is often taken for the start position. It is the answer to a question that is
asked only when there is no committed offset, or when the committed one lies outside the log.
"""

from __future__ import annotations

from typing import Literal

from kitlib.errors import KitError

ResetPolicy = Literal["earliest", "latest", "none"]


class NoOffsetForPartitionError(KitError):
    """There is no committed offset, and the policy is none."""


class OffsetOutOfRangeError(KitError):
    """The committed offset lies outside the log, and the policy is none."""


def start_position(committed: int | None, log_start: int, log_end: int, policy: ResetPolicy) -> int:
    """The offset that a consumer reads first.

    The committed one when log_start <= committed <= log_end, whatever the policy; otherwise the
    policy's. Raises NoOffsetForPartitionError or OffsetOutOfRangeError under "none".

    Source: Apache Kafka 4.3, consumer setting `auto.offset.reset`; the fetch's out-of-range answer.
    Differs: nothing is committed or fetched here; `by_duration` is left out.
    """
    if committed is not None and log_start <= committed <= log_end:
        return committed
    if policy == "earliest":
        return log_start
    if policy == "latest":
        return log_end
    if committed is None:
        raise NoOffsetForPartitionError(
            "no committed offset and auto.offset.reset=none: there is nowhere to begin. Commit an offset, or choose earliest or latest."
        )
    raise OffsetOutOfRangeError(
        f"committed offset {committed} is outside the log [{log_start}, {log_end}] and auto.offset.reset=none. "
        "Commit an offset inside it, or choose earliest or latest."
    )
