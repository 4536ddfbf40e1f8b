"""Where a consumer group begins: the committed offset if it is usable, else the reset policy.

`auto.offset.reset` is often taken for the start position. It is the answer to a question that is
asked only when there is no committed offset, or when the committed one lies outside the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal

from kitlib.errors import KitError

ResetPolicy = str  # "earliest", "latest", "none" or "by_duration:" with a duration like PT1H30M
PLAIN_POLICIES = ("earliest", "latest", "none")
BY_DURATION = "by_duration:"
_BY_DURATION = re.compile(
    BY_DURATION + r"(?i:P(?!$)(?:([0-9]+)D)?(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:[.,][0-9]{0,9})?)S)?)?)", re.ASCII
)


class NoOffsetForPartitionError(KitError):
    """There is no committed offset, and the policy is none."""


class OffsetOutOfRangeError(KitError):
    """The committed offset lies outside the log, and the policy is none."""


class NoRecordSinceError(KitError):
    """The policy goes by duration, and no record is young enough: there is no position until one is."""


class ResetPolicyError(KitError):
    """This is no reset policy."""


def reset_since_ms(policy: ResetPolicy) -> int | None:
    """How far back a policy by duration goes, in ms, rounded up; None for the plain ones. ResetPolicyError for what is none.

    Source: Apache Kafka 4.3.1, `AutoOffsetResetStrategy.fromString`; Java 17, `Duration.parse`.
    Differs: a sign is refused, and a duration beyond Java's range of seconds is taken.
    """
    if policy in PLAIN_POLICIES:
        return None
    found = _BY_DURATION.fullmatch(policy)
    if found is None:
        raise ResetPolicyError(
            f"auto.offset.reset is {policy[:60]!r}, expected earliest, latest, none or by_duration:P1DT2H3M4.5S (days, hours, minutes, "
            "seconds). Choose one of them."
        )
    days, hours, minutes, seconds = (Decimal((each or "0").replace(",", ".")) for each in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds).scaleb(3).to_integral_value(ROUND_CEILING))


def start_position(
    committed: int | None,
    log_start: int,
    log_end: int,
    policy: ResetPolicy,
    offset_since: Callable[[int], int | None] | None = None,
) -> int:
    """The offset that a consumer reads first.

    The committed one when log_start <= committed <= log_end, whatever the policy; otherwise the
    policy's. By duration it is the first record that is no older, which `offset_since` answers for so
    many ms. Raises NoRecordSinceError when there is none: the consumer asks again until there is, and
    begins with that one. Raises NoOffsetForPartitionError or OffsetOutOfRangeError under "none", ResetPolicyError
    for what is no policy.

    Source: Apache Kafka 4.3.1, consumer setting `auto.offset.reset`; the fetch's out-of-range answer; the answer to
    ListOffsets that names no offset, after which Java's consumer is left without a position.
    Differs: nothing is committed or fetched here; the leader's epoch, by which a truncated log is noticed, is left out.
    """
    if committed is not None and log_start <= committed <= log_end:
        return committed
    since_ms = reset_since_ms(policy)
    if since_ms is not None:
        found = offset_since(since_ms) if offset_since is not None else None
        if found is None:
            raise NoRecordSinceError(
                f"no record is as young as {policy} requires, so there is nowhere to start yet. Wait for one, or choose latest."
            )
        return max(log_start, found)
    if policy == "earliest":
        return log_start
    if policy == "latest":
        return log_end
    if committed is None:
        raise NoOffsetForPartitionError(
            "no committed offset and auto.offset.reset=none: there is nowhere to start. Commit an offset, or choose earliest or latest."
        )
    raise OffsetOutOfRangeError(
        f"committed offset {committed} is outside the log [{log_start}, {log_end}] and auto.offset.reset=none. "
        "Commit an offset inside it, or choose earliest or latest."
    )
