"""Reads and writes Kafka's messages by their declarations, byte for byte as the generated Java classes do.

A value is a dictionary by field names. Bytes stay bytes; a UUID is written in base64, as in Kafka. Tagged
fields that the declaration does not know stay in the dictionary under UNKNOWN_TAGS, so that they can be written
again.

Source: Apache Kafka 4.4.0, `MessageDataGenerator` (what it generates), `ByteBufferAccessor`, `ByteUtils`,
`RawTaggedFieldWriter`. Differs: nothing. (Releases before it do not look at how many tagged fields are announced.)
"""

from __future__ import annotations

import base64
import struct
from itertools import pairwise
from typing import Any

from kitlib.errors import KitError
from kitlib.java.texts import text_of
from kitlib.more.offsets.messages import Field, Message

UNKNOWN_TAGS = "_unknownTaggedFields"  # [(tag, bytes)] beside the fields, only where there are any
INTEGERS = {
    name: struct.Struct(form)
    for name, form in (("int8", ">b"), ("int16", ">h"), ("uint16", ">H"), ("int32", ">i"), ("int64", ">q"))
}
UUID_BYTES = 16
MAX_STRING = 0x7FFF


class BrokenRecordError(KitError):
    """A record that cannot be read or written. `java_class` is what Kafka's own reader throws then."""

    def __init__(self, message: str, java_class: str = "java.lang.RuntimeException") -> None:
        super().__init__(message)
        self.java_class = java_class


class WireError(Exception):
    """Bytes that do not fit the declaration, in the words of Java's reader; "null" where that has none."""


class Reader:
    """The bytes of one message and how far they are read."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def remaining(self) -> int:
        """How many bytes are left."""
        return len(self.data) - self.at

    def integer(self, form: struct.Struct) -> int:
        """A whole number of a fixed size. WireError when bytes are missing."""
        if self.remaining() < form.size:
            raise WireError("null")
        (found,) = form.unpack_from(self.data, self.at)
        self.at += form.size
        return int(found)

    def unsigned_varint(self) -> int:
        """Seven bits a byte, lowest first, 5 bytes at most, as a Java int. WireError for a longer one."""
        found = 0
        for shift in range(0, 35, 7):
            if not self.remaining():
                raise WireError("null")
            byte = self.data[self.at]
            self.at += 1
            found |= (byte & 0x7F) << shift
            if shift == 28 and byte & 0x80:
                as_java = (found & 0xFFFFFFFF) | (byte << 28 & 0xFFFFFFFF)
                raise WireError(
                    f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {as_java:x}"
                )
            if not byte & 0x80:
                break
        found &= 0xFFFFFFFF
        return found - 2**32 if found >= 2**31 else found

    def length(self, kind: str, flexible: bool) -> int:
        """The length before a string, bytes or an array; below 0 for null."""
        if not flexible:
            return self.integer(INTEGERS["int16" if kind == "string" else "int32"])
        coded = self.unsigned_varint()
        return 2**31 - 1 if coded == -(2**31) else coded - 1

    def raw(self, length: int) -> bytes:
        """So many bytes. WireError when there are fewer, and for a length below 0."""
        if length < 0:
            raise WireError(str(length))
        if length > self.remaining():
            raise WireError(f"Error reading byte array of {length} byte(s): only {self.remaining()} byte(s) available")
        found = self.data[self.at : self.at + length]
        self.at += length
        return found


def read_message(reader: Reader, message: Message, version: int) -> dict[str, Any]:
    """The fields that this version has. WireError for bytes that hold no such message."""
    return read_struct(reader, message.fields, version, version >= message.flexible)


def read_struct(reader: Reader, fields: tuple[Field, ...], version: int, flexible: bool) -> dict[str, Any]:
    """A struct's fields in the order of their declaration, then the tagged ones that are there."""
    found: dict[str, Any] = {}
    tagged: dict[int, Field] = {}
    for field in fields:
        if field.since <= version <= field.until:
            if field.tag is None:
                found[field.name] = read_field(reader, field, version, flexible)
            else:
                tagged[field.tag] = field
    if flexible:
        count = reader.unsigned_varint()
        if count < 0:
            raise WireError(f"Invalid negative number of tagged fields {count}")
        if count > reader.remaining():
            raise WireError(f"Tried to read {count} tagged fields, but there are only {reader.remaining()} bytes remaining.")
        for _ in range(count):
            tag, size = reader.unsigned_varint(), reader.unsigned_varint()
            if tag in tagged:
                known = read_field(reader, tagged[tag], version, flexible)
                found.pop(tagged[tag].name, None)
                if known != tagged[tag].default:
                    found[tagged[tag].name] = known
            else:
                found.setdefault(UNKNOWN_TAGS, []).append((tag, reader.raw(size)))
    return found


def read_field(reader: Reader, field: Field, version: int, flexible: bool) -> Any:
    """One field's value, None if it is null."""
    if field.kind in INTEGERS:
        return reader.integer(INTEGERS[field.kind])
    if field.kind == "uuid":
        if reader.remaining() < UUID_BYTES:
            raise WireError("null")
        return base64.urlsafe_b64encode(reader.raw(UUID_BYTES)).decode().rstrip("=")
    if field.kind == "struct":
        # Before one that may be null stands a byte, -1 for null; before a tagged one a varint, 0 for null.
        if field.nullable and (reader.integer(INTEGERS["int8"]) < 0 if field.tag is None else reader.unsigned_varint() <= 0):
            return None
        return read_struct(reader, field.fields, version, flexible)
    length = reader.length(field.kind, flexible)
    if length < 0:
        if field.nullable:
            return None
        raise WireError(f"non-nullable field {field.name} was serialized as null")
    if field.kind == "string" and length > MAX_STRING:
        raise WireError(f"string field {field.name} had invalid length {length}")
    if field.kind != "array":
        return text_of(reader.raw(length)) if field.kind == "string" else reader.raw(length)
    if length > reader.remaining():
        raise WireError(f"Tried to allocate a collection of size {length}, but there are only {reader.remaining()} bytes remaining.")
    element = Field(f"{field.name} element", field.of, fields=field.fields)
    return [read_field(reader, element, version, flexible) for _ in range(length)]


def write_message(message: Message, version: int, data: dict[str, Any]) -> bytes:
    """The bytes of a message; a field that `data` lacks has its default. BrokenRecordError for a number or a length that does not fit."""
    out = bytearray()
    try:
        write_struct(out, message.fields, version, version >= message.flexible, data)
    except struct.error as error:
        raise BrokenRecordError(f"a value does not fit its field: {error}.") from None
    return bytes(out)


def write_struct(out: bytearray, fields: tuple[Field, ...], version: int, flexible: bool, data: dict[str, Any]) -> None:
    """A struct's fields in the order of their declaration, then its tagged ones in the order of their tags."""
    tagged: list[tuple[int, bytes]] = [(int(tag), bytes(raw)) for tag, raw in data.get(UNKNOWN_TAGS, ())]
    for (lower, _), (higher, _) in pairwise(tagged):
        if higher <= lower:
            raise BrokenRecordError(f"tag {higher} comes after tag {lower}: tags rise from field to field.")
    for field in fields:
        if not field.since <= version <= field.until:
            continue
        given = data.get(field.name, field.default)
        if field.tag is None:
            write_field(out, field, version, flexible, given)
        elif given != field.default:
            inner = bytearray()
            write_field(inner, field, version, flexible, given)
            tagged.append((field.tag, bytes(inner)))
    if flexible:
        write_unsigned_varint(out, len(tagged))
        for tag, raw in sorted(tagged):
            write_unsigned_varint(out, tag)
            write_unsigned_varint(out, len(raw))
            out += raw


def write_field(out: bytearray, field: Field, version: int, flexible: bool, given: Any) -> None:
    """One field's value; of a string a lone surrogate becomes a question mark, as in Java."""
    if field.kind in INTEGERS:
        out += INTEGERS[field.kind].pack(given)
    elif field.kind == "uuid":
        out += base64.urlsafe_b64decode(given + "==")
    elif field.kind == "struct":
        if field.nullable:
            out += INTEGERS["int8"].pack((-1 if field.tag is None else 0) if given is None else 1)
        if given is not None:
            write_struct(out, field.fields, version, flexible, given)
    else:
        raw = given.encode("utf-8", "replace") if isinstance(given, str) else given
        if flexible:
            write_unsigned_varint(out, 0 if raw is None else len(raw) + 1)
        else:
            out += INTEGERS["int16" if field.kind == "string" else "int32"].pack(-1 if raw is None else len(raw))
        if field.kind != "array":
            out += raw or b""
            return
        element = Field(f"{field.name} element", field.of, fields=field.fields)
        for each in raw or ():
            write_field(out, element, version, flexible, each)


def write_unsigned_varint(out: bytearray, number: int) -> None:
    """Seven bits a byte, lowest first."""
    number &= 0xFFFFFFFF
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
