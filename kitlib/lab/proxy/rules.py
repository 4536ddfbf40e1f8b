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
from functools import cache
from typing import Any

from kitlib.errors import KnobError

# In a rule: whatever the API.
ANY_API = "any"

# What can be done to a request on its way to the broker, and to an answer on its way back.
ON_REQUESTS = {
    "lose_request": "the broker never sees it, nor what follows it on its connection, which ends after `ms` (10,000)",
    "delay_request": "it is delivered `ms` later, and everything after it on its connection waits too",
    "duplicate_request": "the broker gets it twice, the client gets only the first answer (no network does this within a connection)",
    "cut": "both sides of the connection are closed; the broker never sees it",
    "reset": "the broker gets one half, then both sides are reset (RST)",
    "stop_reading": "nothing is read from this client for `ms` (default: ten minutes), or until released",
    "answer_error": "the broker never sees it; the client gets `error` as the answer",
}
ON_ANSWERS = {
    "lose_answer": "the client never sees it, nor what follows it on its connection, which ends after `ms` (10,000)",
    "delay_answer": "it is delivered `ms` later, and everything after it on its connection waits too",
    "cut_after_answer": "both sides of the connection are closed instead of passing it on",
    "withhold": "it is held back, along with everything after it on its connection, until released",
    "reset_answer": "the client gets one half, then both sides are reset (RST)",
    "replace_answer": "the broker has processed the request, but the client gets `error` as the answer",
}
ACTIONS = {**ON_REQUESTS, **ON_ANSWERS}

# Those that a client asks again after an error, or hears of one in.
APIS_WITH_ERRORS = (
    "Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator", "JoinGroup", "Heartbeat", "LeaveGroup",
    "SyncGroup", "InitProducerId", "OffsetForLeaderEpoch", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit",
)  # fmt: skip


@cache
def apis() -> dict[int, str]:
    """What may be asked of a broker, by the names of Kafka's protocol, as kafka-python knows them."""
    from kafka.protocol.api_key import ApiKey  # half a second, which `kit` does without

    return {key.value: key.name for key in ApiKey}


@cache
def errors() -> dict[str, int]:
    """What a broker may answer: kafka-python's names, and Kafka's own where that still has the older one."""
    from kafka import errors as known

    newer = {"UNKNOWN_SERVER_ERROR": -1, "NOT_LEADER_OR_FOLLOWER": 6, "MESSAGE_TOO_LARGE": 10, "INVALID_TOPIC_EXCEPTION": 17}
    return newer | {each.message: code for code, each in known.kafka_errors.items() if code not in (None, 0, *newer.values())}



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
    # Milliseconds of the delay; of stop_reading the longest, 0 for the usual one.
    ms: int = 0
    # The name of the error that answer_error and replace_answer give.
    error: str = ""

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise KnobError(f"no action '{self.action}' for a proxy's rule. Choose one of: {', '.join(ACTIONS)}.")
        if self.api not in (ANY_API, *APIS_WITH_ERRORS) and self.api not in apis().values():
            raise KnobError(f"{self.action}: no API '{self.api}'. Choose '{ANY_API}' or one of: {', '.join(apis().values())}.")
        self._check_number("percent", 0, 100)
        self._check_number("skip", 0, None)
        if self.count is not None:
            self._check_number("count", 0, None)
        delays = self.action in ("delay_request", "delay_answer")
        self._check_number("ms", 1 if delays else 0, 3_600_000)
        if self.action in ("answer_error", "replace_answer"):
            self._check_error()
        elif self.error:
            raise KnobError(f"{self.action}: error={self.error!r} is for answer_error and replace_answer. Leave it out.")

    def _check_error(self) -> None:
        if self.api not in APIS_WITH_ERRORS:
            known = ", ".join(APIS_WITH_ERRORS)
            raise KnobError(f"{self.action}: no answer with an error can be made for '{self.api}'. Choose one of: {known}.")
        if self.error not in errors():
            raise KnobError(f"{self.action}: no error '{self.error}'. Choose one of: {', '.join(errors())}.")

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
        return ":".join([self.action, *filter(None, [",".join(given)])])

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
