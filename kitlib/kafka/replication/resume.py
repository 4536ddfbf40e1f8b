"""Where a consumer resumes after its partition's log was truncated: what it can notice, and what goes unnoticed.

A committed offset is a number. If the log was truncated below it, it lies beyond the end, and the broker says
so; if the log has grown past it in the meantime, the number looks valid again, and the records
in between are never read. Only the leader epoch committed with it reveals that it belongs to another history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kitlib.kafka.positions import ResetPolicy
from kitlib.kafka.replication.epochs import NO_EPOCH, NO_OFFSET

Library = Literal["java", "librdkafka"]

COMMITTED, TRUNCATED = "committed offset", "log truncation"  # besides the policy's names, why a consumer begins where it does


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where it goes on and why; or the error that the application gets, and no offset."""

    offset: int | None
    why: str = ""  # COMMITTED, TRUNCATED, "earliest" or "latest"
    error: str = ""  # "NoOffsetForPartition", "OffsetOutOfRange" or "LogTruncation"


def resume(
    committed: int | None, log_start: int, log_end: int, policy: ResetPolicy, library: Library = "java",
    epoch: int | None = None, epoch_end: tuple[int, int] = (NO_EPOCH, NO_OFFSET),
) -> Resumed:  # fmt: skip
    """Where a consumer that begins with a committed offset reads first.

    `epoch` is the leader epoch that was committed with it, and `epoch_end` what the leader answers when asked where
    that epoch ends. Java's consumer asks before it fetches. With an end below its offset it goes on there whatever
    the policy, unless that is "none": then the application gets the error and the offset. librdkafka commits the epoch
    and does not ask when it begins.

    Source: Apache Kafka 4.3.1, `SubscriptionState.maybeCompleteValidation`, `FetchCollector.handleInitializeErrors`;
    librdkafka 2.16, as observed: a committed offset of a cut-off log that has grown past it is read on from there.
    Differs: nothing is asked or fetched here.
    """
    if committed is None:
        return Resumed(None, error="NoOffsetForPartition") if policy == "none" else _policy(policy, log_start, log_end)
    if library == "java" and epoch is not None:
        if NO_EPOCH in epoch_end or epoch_end[1] == NO_OFFSET:
            return Resumed(None, error="LogTruncation") if policy == "none" else _policy(policy, log_start, log_end)
        if epoch_end[1] < committed:
            return Resumed(None, error="LogTruncation") if policy == "none" else Resumed(epoch_end[1], TRUNCATED)
    if log_start <= committed <= log_end:
        return Resumed(committed, COMMITTED)
    return Resumed(None, error="OffsetOutOfRange") if policy == "none" else _policy(policy, log_start, log_end)


def _policy(policy: ResetPolicy, log_start: int, log_end: int) -> Resumed:
    return Resumed(log_start if policy == "earliest" else log_end, policy)
