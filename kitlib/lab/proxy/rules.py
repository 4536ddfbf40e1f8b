"""What the proxy is to do to which frames: rules, how they are read, and the book that applies them.

A rule names an action, the API whose frames it is for, and how often it acts: `skip` matching frames
are let through first, of the others `percent` are chosen, and after `count` deeds it is spent. Chance
comes from the proxy's seed and the rule's number, so the same seed and the same frames give the same
deeds, and one rule's chances do not depend on another's.

Actions on requests are chosen when the request arrives, actions on answers when the answer does: a
rule that is added while a request is under way is in time for its answer. At most one rule acts on a
request and one on its answer: the first in the book that matches.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field, fields
from typing import Any

from kitlib.errors import KnobError

# What a client may ask a broker of release 4.3, by the names of Kafka's protocol. Source: Kafka 4.3.1,
# clients/src/main/resources/common/message/*Request.json, those that listen to "broker".
APIS = {
    0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 8: "OffsetCommit", 9: "OffsetFetch", 10: "FindCoordinator",
    11: "JoinGroup", 12: "Heartbeat", 13: "LeaveGroup", 14: "SyncGroup", 15: "DescribeGroups", 16: "ListGroups",
    17: "SaslHandshake", 18: "ApiVersions", 19: "CreateTopics", 20: "DeleteTopics", 21: "DeleteRecords",
    22: "InitProducerId", 23: "OffsetForLeaderEpoch", 24: "AddPartitionsToTxn", 25: "AddOffsetsToTxn", 26: "EndTxn",
    27: "WriteTxnMarkers", 28: "TxnOffsetCommit", 29: "DescribeAcls", 30: "CreateAcls", 31: "DeleteAcls",
    32: "DescribeConfigs", 33: "AlterConfigs", 34: "AlterReplicaLogDirs", 35: "DescribeLogDirs", 36: "SaslAuthenticate",
    37: "CreatePartitions", 38: "CreateDelegationToken", 39: "RenewDelegationToken", 40: "ExpireDelegationToken",
    41: "DescribeDelegationToken", 42: "DeleteGroups", 43: "ElectLeaders", 44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments", 46: "ListPartitionReassignments", 47: "OffsetDelete", 48: "DescribeClientQuotas",
    49: "AlterClientQuotas", 50: "DescribeUserScramCredentials", 51: "AlterUserScramCredentials", 55: "DescribeQuorum",
    57: "UpdateFeatures", 60: "DescribeCluster", 61: "DescribeProducers", 64: "UnregisterBroker",
    65: "DescribeTransactions", 66: "ListTransactions", 68: "ConsumerGroupHeartbeat", 69: "ConsumerGroupDescribe",
    71: "GetTelemetrySubscriptions", 72: "PushTelemetry", 74: "ListConfigResources", 75: "DescribeTopicPartitions",
    76: "ShareGroupHeartbeat", 77: "ShareGroupDescribe", 78: "ShareFetch", 79: "ShareAcknowledge", 80: "AddRaftVoter",
    81: "RemoveRaftVoter", 88: "StreamsGroupHeartbeat", 89: "StreamsGroupDescribe", 90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets", 92: "DeleteShareGroupOffsets",
}  # fmt: skip
# In a rule: whatever the API.
ANY_API = "any"

# What can be done to a request on its way to the broker, and to an answer on its way back.
ON_REQUESTS = {
    "lose_request": "the broker never sees it, nor what follows it on its connection, which ends after `ms` (10,000)",
    "delay_request": "it is delivered `ms` later, and everything after it on its connection waits too",
    "duplicate_request": "the broker gets it twice, the client gets only the first answer (no network does this within a connection)",
    "reorder": "it waits until the next match has passed, or for `ms` (1,000); no network does this without `across` (on any connection)",
    "cut": "both sides of the connection are closed; the broker never sees it",
    "reset": "the broker gets one half, then both sides are reset (RST)",
    "stop_reading": "nothing is read from this client for `ms` (default: ten minutes), or until released",
    "slice": "it is passed on one byte at a time",
    "throttle": "it is passed on at `bytes_per_s`",
    "answer_error": "the broker never sees it; the client gets `error` as the answer",
}
ON_ANSWERS = {
    "lose_answer": "the client never sees it, nor what follows it on its connection, which ends after `ms` (10,000)",
    "delay_answer": "it is delivered `ms` later, and everything after it on its connection waits too",
    "cut_after_answer": "both sides of the connection are closed instead of passing it on",
    "withhold": "it is held back, along with everything after it on its connection, until released",
    "reset_answer": "the client gets one half, then both sides are reset (RST)",
    "slice_answer": "it is passed on one byte at a time",
    "throttle_answer": "it is passed on at `bytes_per_s`",
    "replace_answer": "the broker has processed the request, but the client gets `error` as the answer",
}
ACTIONS = {**ON_REQUESTS, **ON_ANSWERS}

# What a broker of release 4.3 may answer to a producer, a consumer or a member of a group.
ERRORS = {
    "UNKNOWN_SERVER_ERROR": -1, "OFFSET_OUT_OF_RANGE": 1, "CORRUPT_MESSAGE": 2, "UNKNOWN_TOPIC_OR_PARTITION": 3, "LEADER_NOT_AVAILABLE": 5,
    "NOT_LEADER_OR_FOLLOWER": 6, "REQUEST_TIMED_OUT": 7, "MESSAGE_TOO_LARGE": 10, "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15, "NOT_COORDINATOR": 16, "INVALID_TOPIC_EXCEPTION": 17, "RECORD_LIST_TOO_LARGE": 18,
    "NOT_ENOUGH_REPLICAS": 19, "NOT_ENOUGH_REPLICAS_AFTER_APPEND": 20, "INVALID_REQUIRED_ACKS": 21,
    "TOPIC_AUTHORIZATION_FAILED": 29, "CLUSTER_AUTHORIZATION_FAILED": 31, "INVALID_TIMESTAMP": 32,
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": 43, "OUT_OF_ORDER_SEQUENCE_NUMBER": 45, "DUPLICATE_SEQUENCE_NUMBER": 46,
    "INVALID_PRODUCER_EPOCH": 47, "INVALID_TXN_STATE": 48, "INVALID_PRODUCER_ID_MAPPING": 49,
    "CONCURRENT_TRANSACTIONS": 51, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": 53, "KAFKA_STORAGE_ERROR": 56,
    "UNKNOWN_PRODUCER_ID": 59, "UNSUPPORTED_COMPRESSION_TYPE": 76, "INVALID_RECORD": 87, "THROTTLING_QUOTA_EXCEEDED": 89,
    "PRODUCER_FENCED": 90, "UNKNOWN_TOPIC_ID": 100, "TRANSACTION_ABORTABLE": 120, "NETWORK_EXCEPTION": 13,
    "ILLEGAL_GENERATION": 22, "INCONSISTENT_GROUP_PROTOCOL": 23, "UNKNOWN_MEMBER_ID": 25, "REBALANCE_IN_PROGRESS": 27,
    "GROUP_AUTHORIZATION_FAILED": 30, "FETCH_SESSION_ID_NOT_FOUND": 70, "INVALID_FETCH_SESSION_EPOCH": 71, "FENCED_LEADER_EPOCH": 74,
    "UNKNOWN_LEADER_EPOCH": 75, "OFFSET_NOT_AVAILABLE": 78, "MEMBER_ID_REQUIRED": 79, "GROUP_MAX_SIZE_REACHED": 81,
    "FENCED_INSTANCE_ID": 82, "UNSTABLE_OFFSET_COMMIT": 88, "INCONSISTENT_TOPIC_ID": 103, "FENCED_MEMBER_EPOCH": 110,
    "STALE_MEMBER_EPOCH": 113,
}  # fmt: skip
# Those that a client asks again after an error, or hears of one in.
APIS_WITH_ERRORS = (
    "Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator", "JoinGroup", "Heartbeat", "LeaveGroup",
    "SyncGroup", "InitProducerId", "OffsetForLeaderEpoch", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit",
)  # fmt: skip


# How long reorder waits for another frame if the rule does not say.
REORDER_MS = 1000


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing to do to the frames of one API; KnobError when it names something that is not there."""

    action: str
    api: str = "Produce"
    # Of the matching frames behind the skipped ones, so many in a hundred.
    percent: float = 100.0
    skip: int = 0
    # After so many deeds the rule is spent; None: never.
    count: int | None = None
    # Only this client's frames; "name*": of all whose client id begins so; "": of all.
    client_id: str = ""
    # Milliseconds of the delay; of stop_reading and reorder the longest, 0 for the usual one.
    ms: int = 0
    # The pace of throttle and throttle_answer.
    bytes_per_s: int = 0
    # reorder: the next one that matches has to come on another connection.
    across: bool = False
    # The name of the error that answer_error and replace_answer give.
    error: str = ""

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise KnobError(f"no action '{self.action}' for a proxy's rule. Choose one of: {', '.join(ACTIONS)}.")
        if self.api != ANY_API and self.api not in APIS.values():
            raise KnobError(f"{self.action}: no API '{self.api}'. Choose '{ANY_API}' or one of: {', '.join(APIS.values())}.")
        self._check_number("percent", 0, 100)
        self._check_number("skip", 0, None)
        if self.count is not None:
            self._check_number("count", 0, None)
        delays = self.action in ("delay_request", "delay_answer")
        self._check_number("ms", 1 if delays else 0, 3_600_000)
        self._check_number("bytes_per_s", 1 if self.action.startswith("throttle") else 0, None)
        if self.across and self.action != "reorder":
            raise KnobError(f"{self.action}: across=True is only for reorder. Leave it out.")
        if self.action in ("answer_error", "replace_answer"):
            self._check_error()
        elif self.error:
            raise KnobError(f"{self.action}: error={self.error!r} is for answer_error and replace_answer. Leave it out.")

    def _check_error(self) -> None:
        if self.api not in APIS_WITH_ERRORS:
            known = ", ".join(APIS_WITH_ERRORS)
            raise KnobError(f"{self.action}: no answer with an error can be made for '{self.api}'. Choose one of: {known}.")
        if self.error not in ERRORS:
            raise KnobError(f"{self.action}: no error '{self.error}'. Choose one of: {', '.join(ERRORS)}.")

    def _check_number(self, name: str, low: int, high: int | None) -> None:
        value = getattr(self, name)
        right = isinstance(value, int) or (name == "percent" and isinstance(value, float))
        if not right or isinstance(value, bool) or not low <= value <= (high if high is not None else value):
            allowed = f"{low} to {high}" if high is not None else f"{low} or more"
            raise KnobError(f"{self.action}: {name}={value!r} is not {allowed}. Give such a number.")

    @property
    def is_on_answers(self) -> bool:
        return self.action in ON_ANSWERS

    def matches(self, api: str, client_id: str) -> bool:
        if self.api not in (ANY_API, api):
            return False
        if self.client_id.endswith("*"):
            return client_id.startswith(self.client_id[:-1])
        return self.client_id in ("", client_id)

    @property
    def text(self) -> str:
        """The rule as `parse` reads it."""
        given = [f"{each.name}={getattr(self, each.name)}" for each in fields(self)[1:] if getattr(self, each.name) != each.default]
        return ":".join([self.action, *filter(None, [",".join(given).replace("=True", "=true")])])

    @classmethod
    def parse(cls, text: str) -> Rule:
        """A rule in one word, as in `lose_answer:api=Produce,percent=10,count=5`; KnobError when it is none."""
        action, _, rest = text.partition(":")
        known = {each.name: each for each in fields(cls) if each.name != "action"}
        given: dict[str, Any] = {}
        for part in filter(None, rest.split(",")):
            name, equals, value = part.partition("=")
            if name not in known or not equals:
                raise KnobError(f"rule '{text}': '{part}' is no setting of a rule. There are: {', '.join(known)}.")
            given[name] = _parsed(text, name, value)
        return cls(action, **given)


def _parsed(text: str, name: str, value: str) -> Any:
    if name in ("api", "client_id", "error"):
        return value
    if name == "across":
        if value not in ("true", "false"):
            raise KnobError(f"rule '{text}': across is true or false, not '{value}'. Choose one of them.")
        return value == "true"
    try:
        return float(value) if name == "percent" else int(value)
    except ValueError:
        raise KnobError(f"rule '{text}': {name} is a number, not '{value}'. Give one.") from None


@dataclass(slots=True)
class Entry:
    """A rule in the book, and what has become of it."""

    rule: Rule
    # Unique for the proxy's whole life, from 1.
    handle: int
    chance: random.Random
    matched: int = 0
    done: int = 0

    def wants(self, api: str, client_id: str) -> bool:
        """Whether the rule acts on this frame; it is counted either way."""
        rule = self.rule
        if not rule.matches(api, client_id) or (rule.count is not None and self.done >= rule.count):
            return False
        self.matched += 1
        if self.matched <= rule.skip or self.chance.random() * 100 >= rule.percent:
            return False
        self.done += 1
        return True


@dataclass(slots=True)
class RuleBook:
    """The rules in force, in the order in which they were added."""

    seed: int
    # Replaced as a whole, never changed: the thread of the proxy reads while others add.
    entries: tuple[Entry, ...] = ()
    last_handle: int = field(default=0)
    # Held by whoever changes the book: two callers may do so at once.
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, rule: Rule) -> int:
        with self.lock:
            self.last_handle += 1
            entry = Entry(rule, self.last_handle, random.Random(f"{self.seed}/{self.last_handle}"))
            self.entries = (*self.entries, entry)
            return entry.handle

    def remove(self, handle: int) -> None:
        """Take a rule out; KnobError when there is none with this handle."""
        with self.lock:
            left = tuple(entry for entry in self.entries if entry.handle != handle)
            if len(left) == len(self.entries):
                there = ", ".join(str(entry.handle) for entry in self.entries) or "none"
                raise KnobError(f"no rule {handle} in the proxy's book (there: {there}). Use what add() returned.")
            self.entries = left

    def clear(self) -> None:
        with self.lock:
            self.entries = ()

    def choose(self, api: str, client_id: str, is_answer: bool) -> Entry | None:
        """The rule that acts on this frame, if one does."""
        for entry in self.entries:
            if entry.rule.is_on_answers == is_answer and entry.wants(api, client_id):
                return entry
        return None
