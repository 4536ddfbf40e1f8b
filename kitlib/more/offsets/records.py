"""The records of __consumer_offsets, from bytes and back, and what to do with those that are broken.

A record's key begins with its type, its value with its version; a record without a value is a tombstone:
what the key stood for is gone. A value of zero bytes is neither, it is a broken record. One broken
record must not stop a reader that has another million to read: `read_records` reports it, with its
offset, and continues.

Source: Apache Kafka 4.3.1, `CoordinatorRecordSerde.deserialize`, `GroupCoordinatorRecordSerde`,
`CoordinatorRecordJsonConverters`, `ConsumerProtocol`. Differs: nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kitlib.more.offsets.messages import ASSIGNMENT, RECORD_TYPES, SUBSCRIPTION, Message, RecordType
from kitlib.more.offsets.wire import (
    INTEGERS,
    UNKNOWN_TAGS,
    BrokenRecordError,
    Reader,
    WireError,
    read_message,
    write_message,
)

UNKNOWN_TYPE = "org.apache.kafka.coordinator.common.runtime.Deserializer$UnknownRecordTypeException"
UNKNOWN_VERSION = "org.apache.kafka.coordinator.common.runtime.Deserializer$UnknownRecordVersionException"
OFFSET_COMMITS = (0, 1)  # the record types that carry a committed offset
GROUP_METADATA_TYPE = 2
CONSUMER = "consumer"  # the protocol type whose members' bytes the consumer protocol reads


@dataclass(frozen=True, slots=True)
class OffsetsRecord:
    """One record. `value` None is a tombstone, and then there is no version."""

    type: RecordType
    key: dict[str, Any]
    version: int | None = None
    value: dict[str, Any] | None = None

    @property
    def is_tombstone(self) -> bool:
        """True when what the key stands for is gone."""
        return self.value is None

    @property
    def group(self) -> str:
        """The group that the record is about."""
        return str(self.key.get("group", self.key.get("groupId", "")))

    @property
    def is_commit(self) -> bool:
        """True for a committed offset, or for the end of one."""
        return self.type.number in OFFSET_COMMITS

    def members(self) -> list[dict[str, Any]] | None:
        """What the members of a classic consumer group subscribe to and have been assigned; None for any other record."""
        if self.type.number != GROUP_METADATA_TYPE or self.value is None or self.value["protocolType"] != CONSUMER:
            return None
        return [
            {
                "memberId": member["memberId"],
                "subscription_hex": member["subscription"].hex(),
                "subscription": subscription_of(member["subscription"]),
                "assignment_hex": member["assignment"].hex(),
                "assignment": assignment_of(member["assignment"]),
            }
            for member in self.value["members"]
        ]

    def as_json(self) -> dict[str, Any]:
        """The record in the words of Kafka's own converters: bytes in base64, fields that the version lacks absent."""
        told: dict[str, Any] = {
            "key": {"type": self.type.number, "type_name": self.type.name, "data": as_json(self.key)},
            "value": None if self.value is None else {"version": self.version, "data": as_json(self.value)},
            "tombstone": self.is_tombstone,
        }
        members = self.members()
        return told if members is None else told | {"embedded_consumer_protocol": members}


def decode(key: bytes | None, value: bytes | None) -> OffsetsRecord:
    """The record of these bytes; bytes after its end are ignored, as Kafka ignores them.

    BrokenRecordError for a type or version that does not exist, and for bytes that end too early or hold
    a null where none may be; its message and `java_class` are those of Kafka's own reader.
    """
    if key is None:
        raise BrokenRecordError("There is no key.", "java.lang.NullPointerException")
    keys = Reader(key)
    number = read_version(keys, "key")
    if number not in RECORD_TYPES:
        raise BrokenRecordError(f"Found an unknown record type {number}", UNKNOWN_TYPE)
    kind = RECORD_TYPES[number]
    key_data = read_part(keys, kind.key, 0, number, "key")
    if value is None:
        return OffsetsRecord(kind, key_data)
    values = Reader(value)
    version = read_version(values, "value")
    if not 0 <= version <= kind.value.highest:
        raise BrokenRecordError(f"Found an unknown record version {version} for {number} type", UNKNOWN_VERSION)
    return OffsetsRecord(kind, key_data, version, read_part(values, kind.value, version, version, "value"))


def encode(record: OffsetsRecord) -> tuple[bytes, bytes | None]:
    """The key's and the value's bytes as Kafka writes them. BrokenRecordError for fields that do not fit."""
    key = INTEGERS["int16"].pack(record.type.number) + write_message(record.type.key, 0, record.key)
    if record.value is None:
        return key, None
    version = record.version or 0
    return key, INTEGERS["int16"].pack(version) + write_message(record.type.value, version, record.value)


def read_version(reader: Reader, part: str) -> int:
    """The two bytes that a key and a value begin with."""
    try:
        return reader.integer(INTEGERS["int16"])
    except WireError:
        raise BrokenRecordError(f"Could not read version from {part}'s buffer.") from None


def read_part(reader: Reader, message: Message, version: int, told: int, part: str) -> dict[str, Any]:
    """A key or a value after its first two bytes."""
    try:
        return read_message(reader, message, version)
    except WireError as error:
        raise BrokenRecordError(f"Could not read record with version {told} from {part}'s buffer due to: {error}.") from None


def as_json(value: Any) -> Any:
    """A value of a message in JSON: bytes in base64, unknown tagged fields left out."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {name: as_json(each) for name, each in value.items() if name != UNKNOWN_TAGS}
        case list():
            return [as_json(each) for each in value]
        case _:
            return value


def subscription_of(raw: bytes) -> dict[str, Any] | None:
    """What a member subscribes to; None for bytes that the consumer protocol cannot read."""
    version, data = embedded(SUBSCRIPTION, raw)
    if data is None:
        return None
    return {
        "version": version,
        "topics": data["topics"],
        "user_data_hex": hex_or_null(data["userData"]),
        "owned": flat(data.get("ownedPartitions", [])),
        "generation": max(-1, data.get("generationId", -1)),
        "rack": data.get("rackId") or None,
    }


def assignment_of(raw: bytes) -> dict[str, Any] | None:
    """What a member has been assigned; None for bytes that the consumer protocol cannot read."""
    version, data = embedded(ASSIGNMENT, raw)
    if data is None:
        return None
    return {
        "version": version,
        "partitions": flat(data["assignedPartitions"]),
        "user_data_hex": hex_or_null(data["userData"]),
    }


def embedded(message: Message, raw: bytes) -> tuple[int, dict[str, Any] | None]:
    """A member's bytes: a later version than the newest known is read as the newest one."""
    reader = Reader(raw)
    version = -1
    try:
        version = reader.integer(INTEGERS["int16"])
        return version, read_message(reader, message, min(version, message.highest)) if version >= 0 else None
    except WireError:
        return version, None


def flat(topics: list[dict[str, Any]]) -> list[list[Any]]:
    """[topic, partition] for each partition, in the order of the bytes."""
    return [[each["topic"], partition] for each in topics for partition in each["partitions"]]


def hex_or_null(raw: bytes | None) -> str | None:
    """Bytes in hexadecimal."""
    return None if raw is None else raw.hex()


@dataclass(slots=True)
class Reading:
    """What became of the records that were read so far."""

    decoded: int = 0
    broken: int = 0
    first_broken: str = ""  # its offset, and why it could not be read


def read_records(
    records: Iterable[tuple[int, bytes | None, bytes | None]], reading: Reading | None = None
) -> Iterator[tuple[int, OffsetsRecord]]:
    """Each record of (offset, key, value) that can be read, with its offset; the others are counted in `reading`.

    Nothing that stands in a record ends it.
    """
    seen = Reading() if reading is None else reading
    for offset, key, value in records:
        try:
            record = decode(key, value)
        except BrokenRecordError as error:
            seen.broken += 1
            seen.first_broken = seen.first_broken or f"offset {offset}: {error}"
            continue
        seen.decoded += 1
        yield offset, record
