"""The hashes by which Kafka finds a partition: of a record by its key, and of a group's offsets by the group's name.

Both are computed where they are needed and agree because everybody computes the same: every producer of
a topic must send one key to one partition, and every client must ask for a group's coordinator where the
brokers keep that group. So the arithmetic is Java's, with 32 bits and a sign, and a group's name has Java's
own hash code. A record without a key has no hash: its partition is chosen elsewhere.

Source: Apache Kafka 4.3.1, `Utils.murmur2`, `Utils.toPositive`, `Utils.abs`,
`BuiltInPartitioner.partitionForKey`, `GroupCoordinatorService.partitionFor`.
Differs: nothing.
"""

from __future__ import annotations

from kitlib.errors import KnobError
from kitlib.java.hash_codes import text_hash_code
from kitlib.java.numbers import INT_BITS, to_int

SEED = 0x9747B28C
MIX = 0x5BD1E995  # murmur2's multiplier
MIN_INT = -(2**31)
OFFSETS_TOPIC_PARTITIONS = 50  # GroupCoordinatorConfig.OFFSETS_TOPIC_PARTITIONS_DEFAULT


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 of these bytes, as a Java int.

    Four bytes at a time, lowest first; the last one to three are mixed in alone.
    """
    h = SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * MIX & INT_BITS
        k = (k ^ k >> 24) * MIX & INT_BITS
        h = (h * MIX & INT_BITS) ^ k
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * MIX & INT_BITS
    h = (h ^ h >> 13) * MIX & INT_BITS
    return to_int(h ^ h >> 15)


def to_positive(number: int) -> int:
    """The int without its sign bit; of a negative number this is not its absolute value."""
    return number & 0x7FFFFFFF


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of a record with this key; KnobError unless partitions >= 1.

    One more partition moves almost every key: the order of one key's records holds only while the
    topic's number of partitions stays.
    """
    return to_positive(murmur2(key)) % at_least_one(partitions)


def utils_abs(number: int) -> int:
    """The absolute value of an int, and 0 for the least one, which has none."""
    return 0 if number == MIN_INT else abs(number)


def group_partition(group: str, partitions: int = OFFSETS_TOPIC_PARTITIONS) -> int:
    """The partition of __consumer_offsets that holds a group; its leader is the group's coordinator.

    KnobError unless partitions >= 1.
    """
    return utils_abs(text_hash_code(group)) % at_least_one(partitions)


def at_least_one(partitions: int) -> int:
    """The number, unless there is no partition to choose: then KnobError."""
    if partitions < 1:
        raise KnobError(f"partitions is {partitions}: a topic has at least 1. Give 1 or more.")
    return partitions
