"""A share group as an experiment needs it: consumers that poll and answer, and a broker that acts by itself.

Two places offer it: the model here, in virtual time, and a real group of a real broker (`kafka_share_group`), in real time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from kitlib.more.share_partition import Acknowledge, Change, Delivery, InvalidRecordStateError, SharePartition
from kitlib.settings import Settings

BEGINS = "share.auto.offset.reset=earliest"


@dataclass(frozen=True, slots=True)
class Returned:
    """What the broker took back from a consumer by itself."""

    change: Change
    is_late: bool  # its lock ran out; otherwise its connection is gone


@dataclass(slots=True)
class ModelShareGroup:
    """The group on the model."""

    on_kafka: ClassVar[str] = "kitlib.experiments.share.kafka_share_group:KafkaShareGroup"

    settings: Settings
    name: str = "orders"
    now_ms: int = 0
    log_end: int = 0
    share: SharePartition = field(init=False)
    returned: list[Returned] = field(default_factory=list)

    def __post_init__(self) -> None:
        told = self.settings
        self.share = SharePartition(told.delivery_limit, told.lock_ms, told.max_locks)

    def append(self, records: int) -> None:
        self.log_end += records

    def join(self, members: Sequence[str]) -> None:
        """These consumers join the group; when it returns, each may be handed records."""

    def wait_until(self, at_ms: int) -> None:
        ends = self.share.next_lock_ends_ms()
        self.now_ms = max(self.now_ms, at_ms if ends is None else min(at_ms, ends))

    def poll(self, member: str, until_ms: int) -> list[Delivery]:
        """What a consumer is handed now; a poll of a real one waits for records until `until_ms`."""
        return self.share.acquire(member, self.settings.max_poll_records, self.log_end, self.now_ms)

    def answer(self, member: str, answers: Mapping[int, Acknowledge]) -> list[Change] | str:
        """What a consumer's answers change, or why none of them counts; what ran out before they came is in `take_returned`."""
        self._look()
        try:
            return self.share.acknowledge(member, answers, self.now_ms)
        except InvalidRecordStateError:
            return "INVALID_RECORD_STATE"

    def kill(self, member: str) -> None:
        """A consumer's process is gone, and its connection with it."""
        self.returned += [Returned(change, is_late=False) for change in self.share.close_session(member)]

    def freeze(self, member: str) -> None:
        """A consumer's process stands still, its connection open, until `thaw`."""

    thaw = freeze

    def take_returned(self) -> list[Returned]:
        """What the broker has taken back since it was asked last, in the order of offsets."""
        self._look()
        returned, self.returned = self.returned, []
        return returned

    def close(self) -> None:
        """Nothing to let go of."""

    def _look(self) -> None:
        self.returned += [Returned(change, is_late=True) for change in self.share.expire(self.now_ms)]
