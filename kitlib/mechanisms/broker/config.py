"""The settings of the broker's side of the idempotent producer."""

from __future__ import annotations

from dataclasses import dataclass

from kitlib.errors import KnobError

RELEASES = ("4.3", "2.0")
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """What a broker is told, and what the client may do there. Raises KnobError for a value that no broker takes.

    Source: Apache Kafka 4.3.1, `producer.id.expiration.ms`, `max.message.bytes`, `message.timestamp.after.max.ms`,
    `transaction.partition.verification.enable`, and the ACLs of a topic.
    Differs: `remembered_batches` (NUM_BATCHES_TO_RETAIN, fixed at 5) and `older_is_duplicate` are no
    settings of any broker. Release 2.0 calls the expiry `transactional.id.expiration.ms`, seven days unless
    set, and has no bound to time stamps.
    """

    remembered_batches: int = 5  # the newest batches of each producer that are known again; at least 1
    producer_id_expiration_ms: int = DAY_MS  # a producer that is idle for so long is forgotten
    release: str = "4.3"  # whose rules: "4.3" or "2.0"
    older_is_duplicate: bool = False  # a batch below the expected sequence is answered as stored, unseen
    max_message_bytes: int = 1_048_588  # of a whole batch
    may_write_topic: bool = True  # ACL: Write on the topic
    may_write_idempotently: bool = True  # ACL: IdempotentWrite on the cluster
    timestamp_after_max_ms: int | None = HOUR_MS  # a time stamp may be so far ahead of the broker's clock; None: any
    transaction_verification: bool = False  # the first batch of a transaction needs a guard

    def __post_init__(self) -> None:
        if self.release not in RELEASES:
            raise KnobError(f"release is {self.release!r}, expected one of {', '.join(RELEASES)}.")
        for name, least in (("remembered_batches", 1), ("producer_id_expiration_ms", 1), ("max_message_bytes", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise KnobError(f"{name} is {value!r}, expected a whole number of at least {least}.")
