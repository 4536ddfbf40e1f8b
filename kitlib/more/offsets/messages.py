"""What the records of __consumer_offsets are made of: for each record type its key, its value, and their versions.

Kafka writes each kind of record by a message that is declared once and grows by versions. A field is there
from one version to another; from some version on, a message is *flexible*: lengths are then unsigned
varints with one added, so that 0 can say "nothing", and after the fields come tagged ones, of which a
reader skips those that it does not know. A tagged field is left out while it has its default.

Source: Apache Kafka 4.4.0, the messages of the package org.apache.kafka.coordinator.group.generated (read from
the classes themselves), `CoordinatorRecordType`; ConsumerProtocolSubscription, ConsumerProtocolAssignment.
Differs: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LAST = 32_767  # of a field that no later version has dropped
ZERO_UUID = "A" * 22  # 16 zero bytes as Uuid.toString tells them


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message."""

    name: str
    kind: str  # int8, int16, uint16, int32, int64, string, bytes, uuid, struct or array
    since: int = 0  # the first version that has it
    until: int = LAST  # the last version that has it
    nullable: bool = False
    tag: int | None = None  # of a tagged field
    default: Any = None  # the value of an absent field, and that which a tagged field is not written with
    of: str = ""  # the kind of an array's elements
    fields: tuple[Field, ...] = ()  # of a struct, or of an array's structs


@dataclass(frozen=True, slots=True)
class Message:
    """One message in its versions, 0 to `highest`; `flexible` is the first flexible version."""

    fields: tuple[Field, ...]
    highest: int = 0
    flexible: int = LAST


@dataclass(frozen=True, slots=True)
class RecordType:
    """One kind of record: the number its key begins with is `number`."""

    number: int
    name: str
    key: Message
    value: Message


def text(name: str, since: int = 0) -> Field:
    """A string that is never null."""
    return Field(name, "string", since, default="")


def text_or_null(name: str, since: int = 0) -> Field:
    """A string that may be null."""
    return Field(name, "string", since, nullable=True, default="")


def number(
    name: str, kind: str = "int32", since: int = 0, until: int = LAST, tag: int | None = None, default: int = 0
) -> Field:
    """A whole number."""
    return Field(name, kind, since, until, tag=tag, default=default)


def many(name: str, of: str | tuple[Field, ...], **more: Any) -> Field:
    """An array of a kind, or of structs with these fields."""
    fields = of if isinstance(of, tuple) else ()
    return Field(name, "array", of="struct" if isinstance(of, tuple) else of, fields=fields, **({"default": []} | more))


def key(*fields: Field) -> Message:
    """A key: it has one version, which is written as the record's type, and is never flexible."""
    return Message(fields)


def value(*fields: Field) -> Message:
    """A value of the newer kinds: one version, flexible from the start."""
    return Message(fields, flexible=0)


GROUP_TOPIC_PARTITION = key(text("group"), text("topic"), number("partition"))
GROUP_ID = key(text("groupId"))
GROUP_AND_MEMBER = key(text("groupId"), text("memberId"))

OFFSET_COMMIT = Message(
    (
        number("offset", "int64"),
        number("leaderEpoch", since=3, default=-1),
        text("metadata"),
        number("commitTimestamp", "int64"),
        number("expireTimestamp", "int64", since=1, until=1, default=-1),
        Field("topicId", "uuid", since=4, tag=0, default=ZERO_UUID),
    ),
    highest=4,
    flexible=4,
)
MEMBER = (
    text("memberId"),
    text_or_null("groupInstanceId", since=3),
    text("clientId"),
    text("clientHost"),
    number("rebalanceTimeout", since=1, default=-1),
    number("sessionTimeout"),
    Field("subscription", "bytes", default=b""),
    Field("assignment", "bytes", default=b""),
)
GROUP_METADATA = Message(
    (
        text("protocolType"),
        number("generation"),
        text_or_null("protocol"),
        text_or_null("leader"),
        number("currentStateTimestamp", "int64", since=2, default=-1),
        many("members", MEMBER),
    ),
    highest=4,
    flexible=4,
)

EPOCHS = many("assignmentEpochs", "int32", nullable=True, tag=0)
PARTITIONS = many("partitions", "int32")
TOPIC_PARTITIONS = (Field("topicId", "uuid", default=ZERO_UUID), PARTITIONS)
TOPIC_PARTITIONS_AND_EPOCHS = (Field("topicId", "uuid", default=ZERO_UUID), PARTITIONS, EPOCHS)
NAMED_TOPIC = (Field("topicId", "uuid", default=ZERO_UUID), text("topicName"))
TASKS = (text("subtopologyId"), PARTITIONS)
TASKS_AND_EPOCHS = (text("subtopologyId"), PARTITIONS, EPOCHS)
KEY_VALUE = (text("key"), text("value"))
TOPIC_INFO = (
    text("name"), number("partitions"), number("replicationFactor", "int16"), many("topicConfigs", KEY_VALUE)
)

EPOCH = number("epoch")
METADATA_HASH = number("metadataHash", "int64")
TARGET_EPOCH = value(number("assignmentEpoch"), number("assignmentTimestamp", "int64", tag=0))
TARGET = value(many("topicPartitions", TOPIC_PARTITIONS))
MEMBER_EPOCHS = (number("memberEpoch"), number("previousMemberEpoch"), number("state", "int8"))
CLIENT = (text("clientId"), text("clientHost"))

CONSUMER_MEMBER = value(
    text_or_null("instanceId"),
    text_or_null("rackId"),
    *CLIENT,
    many("subscribedTopicNames", "string"),
    text_or_null("subscribedTopicRegex"),
    number("rebalanceTimeoutMs", default=-1),
    text_or_null("serverAssignor"),
    Field(
        "classicMemberMetadata",
        "struct",
        fields=(number("sessionTimeoutMs"), many("supportedProtocols", (text("name"), Field("metadata", "bytes", default=b"")))),
        nullable=True,
        tag=0,
        default={"sessionTimeoutMs": 0, "supportedProtocols": []},
    ),
)  # fmt: skip
STREAMS_MEMBER = value(
    text_or_null("instanceId"),
    text_or_null("rackId"),
    *CLIENT,
    number("rebalanceTimeoutMs", default=-1),
    number("topologyEpoch"),
    text("processId"),
    Field("userEndpoint", "struct", fields=(text("host"), number("port", "uint16")), nullable=True),
    many("clientTags", KEY_VALUE),
)
TASK_LISTS = ("activeTasks", "standbyTasks", "warmupTasks")
SUBTOPOLOGY = (
    text("subtopologyId"),
    many("sourceTopics", "string"),
    many("sourceTopicRegex", "string"),
    many("stateChangelogTopics", TOPIC_INFO),
    many("repartitionSinkTopics", "string"),
    many("repartitionSourceTopics", TOPIC_INFO),
    many("copartitionGroups", tuple(many(name, "int16") for name in ("sourceTopics", "sourceTopicRegex", "repartitionSourceTopics"))),
)

RECORD_TYPES: dict[int, RecordType] = {
    each.number: each
    for each in (
        RecordType(
            0,
            "LEGACY_OFFSET_COMMIT",
            GROUP_TOPIC_PARTITION,
            Message((number("offset", "int64"), text("metadata"), number("commitTimestamp", "int64"))),
        ),
        RecordType(1, "OFFSET_COMMIT", GROUP_TOPIC_PARTITION, OFFSET_COMMIT),
        RecordType(2, "GROUP_METADATA", key(text("group")), GROUP_METADATA),
        RecordType(3, "CONSUMER_GROUP_METADATA", GROUP_ID, value(EPOCH, number("metadataHash", "int64", tag=0))),
        RecordType(
            4,
            "CONSUMER_GROUP_PARTITION_METADATA",
            GROUP_ID,
            value(
                many(
                    "topics",
                    (
                        *NAMED_TOPIC,
                        number("numPartitions"),
                        many("partitionMetadata", (number("partition"), many("racks", "string"))),
                    ),
                )
            ),
        ),
        RecordType(5, "CONSUMER_GROUP_MEMBER_METADATA", GROUP_AND_MEMBER, CONSUMER_MEMBER),
        RecordType(6, "CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA", GROUP_ID, TARGET_EPOCH),
        RecordType(7, "CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER", GROUP_AND_MEMBER, TARGET),
        RecordType(
            8,
            "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT",
            GROUP_AND_MEMBER,
            value(
                *MEMBER_EPOCHS,
                many("assignedPartitions", TOPIC_PARTITIONS_AND_EPOCHS),
                many("partitionsPendingRevocation", TOPIC_PARTITIONS_AND_EPOCHS),
            ),
        ),
        RecordType(
            10,
            "SHARE_GROUP_MEMBER_METADATA",
            GROUP_AND_MEMBER,
            value(text_or_null("rackId"), *CLIENT, many("subscribedTopicNames", "string")),
        ),
        RecordType(11, "SHARE_GROUP_METADATA", GROUP_ID, value(EPOCH, METADATA_HASH)),
        RecordType(12, "SHARE_GROUP_TARGET_ASSIGNMENT_METADATA", GROUP_ID, TARGET_EPOCH),
        RecordType(13, "SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER", GROUP_AND_MEMBER, TARGET),
        RecordType(
            14,
            "SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT",
            GROUP_AND_MEMBER,
            value(*MEMBER_EPOCHS, many("assignedPartitions", TOPIC_PARTITIONS)),
        ),
        RecordType(
            15,
            "SHARE_GROUP_STATE_PARTITION_METADATA",
            GROUP_ID,
            value(
                many("initializingTopics", (*NAMED_TOPIC, PARTITIONS)),
                many("initializedTopics", (*NAMED_TOPIC, PARTITIONS)),
                many("deletingTopics", NAMED_TOPIC),
            ),
        ),
        RecordType(
            16,
            "CONSUMER_GROUP_REGULAR_EXPRESSION",
            key(text("groupId"), text("regularExpression")),
            value(many("topics", "string"), number("version", "int64"), number("timestamp", "int64")),
        ),
        RecordType(
            17,
            "STREAMS_GROUP_METADATA",
            GROUP_ID,
            value(
                EPOCH,
                METADATA_HASH,
                number("validatedTopologyEpoch", tag=0, default=-1),
                many("lastAssignmentConfigs", KEY_VALUE, nullable=True, tag=1),
                number("storedDescriptionTopologyEpoch", tag=2, default=-1),  # since 4.4.0, like the next
                number("failedDescriptionTopologyEpoch", tag=3, default=-1),
            ),
        ),
        RecordType(19, "STREAMS_GROUP_MEMBER_METADATA", GROUP_AND_MEMBER, STREAMS_MEMBER),
        RecordType(20, "STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA", GROUP_ID, TARGET_EPOCH),
        RecordType(
            21,
            "STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER",
            GROUP_AND_MEMBER,
            value(*(many(name, TASKS) for name in TASK_LISTS)),
        ),
        RecordType(
            22,
            "STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT",
            GROUP_AND_MEMBER,
            value(
                *MEMBER_EPOCHS,
                *(many(name + ending, TASKS_AND_EPOCHS) for ending in ("", "PendingRevocation") for name in TASK_LISTS),
            ),
        ),
        RecordType(23, "STREAMS_GROUP_TOPOLOGY", GROUP_ID, value(EPOCH, many("subtopologies", SUBTOPOLOGY))),
    )
}

TOPIC_AND_PARTITIONS = (text("topic"), PARTITIONS)
USER_DATA = Field("userData", "bytes", nullable=True)
SUBSCRIPTION = Message(
    (
        many("topics", "string"),
        USER_DATA,
        many("ownedPartitions", TOPIC_AND_PARTITIONS, since=1),
        number("generationId", since=2, default=-1),
        Field("rackId", "string", since=3, nullable=True),
    ),
    highest=3,
)
ASSIGNMENT = Message((many("assignedPartitions", TOPIC_AND_PARTITIONS), USER_DATA), highest=3)
