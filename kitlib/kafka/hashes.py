"""The hashes by which Kafka finds a partition: of a record by its key, and of a group's offsets by the group's name.

Both are computed where they are needed and agree because everybody computes the same: every producer of
a topic must send one key to one partition, and every client must ask for a group's coordinator where the
brokers keep that group. So the arithmetic is Java's, with 32 bits and a sign, and strings are hashed as
Java holds them, in units of UTF-16. A record without a key has no hash: its partition is chosen elsewhere.

Source: Apache Kafka 4.3.1, `Utils.murmur2`, `Utils.toPositive`, `Utils.abs`,
`BuiltInPartitioner.partitionForKey`, `GroupCoordinatorService.partitionFor`; OpenJDK 21, `String.hashCode`.
Differs: nothing.
"""

from __future__ import annotations

from kitlib.errors import KnobError

SEED = 0x9747B28C
MIX = 0x5BD1E995  # murmur2's multiplier
INT_BITS = 0xFFFFFFFF
MIN_INT = -(2**31)
OFFSETS_TOPIC_PARTITIONS = 50  # GroupCoordinatorConfig.OFFSETS_TOPIC_PARTITIONS_DEFAULT


def as_int(bits: int) -> int:
    """The 32 low bits as Java's int."""
    bits &= INT_BITS
    return bits - 2**32 if bits >= 2**31 else bits


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
    return as_int(h ^ h >> 15)


def to_positive(number: int) -> int:
    """The int without its sign bit; of a negative number this is not its absolute value."""
    return number & 0x7FFFFFFF


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of a record with this key; KnobError unless partitions >= 1.

    One more partition moves almost every key: the order of one key's records holds only while the
    topic's number of partitions stays.
    """
    return to_positive(murmur2(key)) % at_least_one(partitions)


def java_hash_code(text: str) -> int:
    """Java's String.hashCode, as an int: a character beyond the first 65,536 counts as two units."""
    units = utf16_units(text)
    h = 0
    for at in range(0, len(units), 2):
        h = h * 31 + (units[at] << 8 | units[at + 1]) & INT_BITS
    return as_int(h)


def utf16_units(text: str) -> bytes:
    """The string as Java holds it, two bytes a unit, high byte first; in the order of these bytes Java sorts strings."""
    return text.encode("utf-16-be", "surrogatepass")


def utils_abs(number: int) -> int:
    """The absolute value of an int, and 0 for the least one, which has none."""
    return 0 if number == MIN_INT else abs(number)


def group_partition(group: str, partitions: int = OFFSETS_TOPIC_PARTITIONS) -> int:
    """The partition of __consumer_offsets that holds a group; its leader is the group's coordinator.

    KnobError unless partitions >= 1.
    """
    return utils_abs(java_hash_code(group)) % at_least_one(partitions)


def at_least_one(partitions: int) -> int:
    """The number, unless there is no partition to choose: then KnobError."""
    if partitions < 1:
        raise KnobError(f"partitions is {partitions}: a topic has at least 1. Give 1 or more.")
    return partitions
