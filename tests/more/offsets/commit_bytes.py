"""Bytes of commits for tests, of every version, and the history of records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kitlib.monitor.commit_history import CommitHistory
from kitlib.more.offsets.messages import RECORD_TYPES
from kitlib.more.offsets.records import OffsetsRecord, encode

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def commit(group: str, topic: str, partition: int, version: int | None = 4, kind: int = 1, **value: Any) -> tuple[bytes, bytes | None]:
    """Key and value of a commit; version None is a tombstone."""
    key = {"group": group, "topic": topic, "partition": partition}
    given = {"offset": 0, "commitTimestamp": 0, "metadata": ""} | value
    return encode(OffsetsRecord(RECORD_TYPES[kind], key, version, None if version is None else given))


def history_of(records: Iterable[tuple[int, int, OffsetsRecord]]) -> CommitHistory:
    """The history in (offset, time in the log in ms, record), in the order of the log."""
    history = CommitHistory()
    for each in records:
        history.add(*each)
    return history
