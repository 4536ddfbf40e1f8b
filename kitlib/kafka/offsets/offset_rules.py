"""How the releases of Kafka differ in keeping committed offsets.

A broker of 2015 purged its cache while it was still filling it, stopped a load at the first record that it
could not read, and then answered from what it had. It also expired an offset by the age of its commit,
however alive the group was. Each of these is a field here, so that a story can run under either set of rules.

"2015-04" is Kafka's trunk between two commits, 26 March (c5df2a8e3ac, the values of version 1) and 13 April
2015 (157fba84075, KAFKA-2117): it wrote records that its own load could not read. The other fault, the purge
during a load, was fixed a month later (2d5e0f07613, KAFKA-2163).

Source: Apache Kafka 0.8.2.2 and trunk of April 2015 `OffsetManager`; 0.9.0.1 `GroupMetadataManager`; 4.3.1
`OffsetMetadataManager`, `CoordinatorLoaderImpl`, `CoordinatorRuntime`.
Differs: nothing; of the releases between them, 2.0 has the clock of 0.9.0, and 2.1 that of 4.3.1 (KIP-211).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any

from kitlib.errors import KnobError

NO_OFFSET = -1  # what a fetch answers for a partition that has no committed offset
NO_PRODUCER_ID = -1


class OffsetError(IntEnum):
    """The error codes of answers about committed offsets, with the numbers of the wire."""

    NONE = 0
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14  # ask again: the cache is being filled
    NOT_COORDINATOR = 16  # ask who is
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    UNSTABLE_OFFSET_COMMIT = 88  # ask again: a transaction may still change it


class Clock(Enum):
    """From when on an offset ages."""

    COMMIT = "from its commit"
    COMMIT_OR_EXPIRY = "from its commit, unless the commit said when it expires"
    GROUP_EMPTY = "from the time its group became empty"


@dataclass(frozen=True, slots=True)
class OffsetRules:
    """How one release keeps offsets."""

    release: str
    clock: Clock
    written_type: int  # of the keys that it writes
    written_version: int  # of the values that it writes
    known_types: tuple[int, ...] | None  # of records, that it can read; None: all, and unknown ones are passed over
    known_version: int  # the highest version of a commit's value that it can read
    serves_after_failed_load: bool  # it answers from what it had read until then; else it is no coordinator
    load_is_exclusive: bool  # commits are refused and the purge waits while a load runs
    loads_to_end: bool  # of the log; else to the high watermark, and what lies between them is never seen (until 0.11)

    def __str__(self) -> str:
        return self.release


KAFKA_0_8_2 = OffsetRules("0.8.2", Clock.COMMIT, 0, 0, (0,), 0, True, False, False)
KAFKA_2015_04 = OffsetRules("2015-04", Clock.COMMIT_OR_EXPIRY, 1, 1, (0, 1), 0, True, False, False)
KAFKA_0_9_0 = OffsetRules("0.9.0", Clock.COMMIT_OR_EXPIRY, 1, 1, (0, 1, 2), 1, True, True, False)
KAFKA_4_3_1 = OffsetRules("4.3.1", Clock.GROUP_EMPTY, 1, 4, None, 4, False, True, True)
RULES: dict[str, OffsetRules] = {
    each.release: each for each in (KAFKA_0_8_2, KAFKA_2015_04, KAFKA_0_9_0, KAFKA_4_3_1)
}


@dataclass(frozen=True, slots=True)
class OffsetConfig:
    """A broker's settings for committed offsets, and how fast it reads them."""

    offsets_retention_ms: int = 7 * 24 * 3_600_000  # offsets.retention.minutes of 4.3.1
    retention_check_interval_ms: int = 600_000
    metadata_max_chars: int = 4_096
    partitions: int = 50  # of __consumer_offsets
    load_records_per_s: int = 100_000
    load_chunk_records: int = 100  # so many are read at a time; a reader sees nothing of it before the load has ended

    def __post_init__(self) -> None:
        low = {"offsets_retention_ms": 1, "retention_check_interval_ms": 1, "metadata_max_chars": 0}
        low |= {"partitions": 1, "load_records_per_s": 1, "load_chunk_records": 1}
        for name, least in low.items():
            if getattr(self, name) < least:
                raise KnobError(f"{name} is {getattr(self, name)}: give {least} or more.")


@dataclass(frozen=True, slots=True)
class OffsetEvent:
    """What happened, in the words of a trace: write, load_begin, load, load_end, load_failed, cache, evict."""

    what: str
    data: dict[str, Any] = field(default_factory=dict)
