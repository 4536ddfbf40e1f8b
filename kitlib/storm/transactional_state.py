"""Counts that know which batch wrote them: three kinds of stored value, and what a replay does to each.

A batch's commit may stop after some of its writes, or after all of them before anyone knows. The
batch is then replayed under the same transaction id, and the state receives the same change twice.

* *plain*: the value alone. It cannot know, and counts twice.
* *transactional*: value and the id of the batch that wrote it. The same id again is skipped. That is
  right only when the id stands for the same records each time: a skipped replay with other records
  leaves the old ones counted and the new ones not.
* *opaque*: value, the value before, and the id. The same id again is recomputed from the value
  before. So the replay may have other records, and the count is right for every key that the replay
  has. A key that only the broken attempt had keeps what that attempt wrote: the state cannot know
  that it was removed from the batch, and when its record arrives in a later batch it counts twice.

Storing them in order is `kitlib.storm.transactional`'s promise; without it none of this holds.

Left out: values other than counts, and several changes of one key in a batch. A batch's changes are
added up for each key before its commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from kitlib.errors import KitError

StateKind = Literal["plain", "transactional", "opaque"]


class TransactionOrderError(KitError):
    """A batch is older than the one that wrote the value: the commits did not come in order."""


class UnreadableCountError(KitError):
    """A stored text is no count of the kind that is kept there."""


class Table(Protocol):
    """A map from keys to texts that outlives its writer. Trouble is raised as an exception."""

    def get(self, key: str) -> str | None:
        """The text last put at `key`, or None."""
        ...

    def put(self, key: str, text: str) -> None:
        """Keep `text` at `key`; when this returns, it is kept."""
        ...

    def all(self) -> dict[str, str]:
        """Every key with its text."""
        ...


@dataclass(slots=True)
class MemoryTable:
    """A table that lives as long as this object."""

    texts: dict[str, str] = field(default_factory=dict)

    def get(self, key: str) -> str | None:
        return self.texts.get(key)

    def put(self, key: str, text: str) -> None:
        self.texts[key] = text

    def all(self) -> dict[str, str]:
        return dict(self.texts)


@dataclass(frozen=True, slots=True)
class PlainValue:
    """A count and nothing else.

    Source: Storm 0.9.3, `storm.trident.state.map.NonTransactionalMap`, `JSONNonTransactionalSerializer`.
    Differs: counts only.
    """

    value: int = 0

    def update(self, txid: int, change: int) -> PlainValue:
        """The value after a batch's change, whichever batch it is."""
        return PlainValue(self.value + change)

    def to_json(self) -> int:
        return self.value


@dataclass(frozen=True, slots=True)
class TransactionalValue:
    """A count and the batch that wrote it.

    Source: Storm 0.9.3, `storm.trident.state.TransactionalValue`, `map.TransactionalMap.multiUpdate`,
    `JSONTransactionalSerializer`.
    Differs: one change for each key and batch, so no cache of the batch's own writes.
    """

    value: int = 0
    txid: int | None = None  # None: never written

    def update(self, txid: int, change: int) -> TransactionalValue:
        """The value after a batch's change: this very value when the same batch was here before."""
        return self if txid == self.txid else TransactionalValue(self.value + change, txid)

    def to_json(self) -> list[int | None]:
        return [self.txid, self.value]


@dataclass(frozen=True, slots=True)
class OpaqueValue:
    """A count, the batch that wrote it, and the count before that batch.

    Source: Storm 0.9.3, `storm.trident.state.OpaqueValue`, `map.OpaqueMap.multiUpdate`,
    `JSONOpaqueSerializer`.
    Differs: one change for each key and batch, so no cache of the batch's own writes.
    """

    value: int = 0
    txid: int | None = None  # None: never written
    prev: int | None = None  # None: no batch before `txid` wrote this key

    def update(self, txid: int, change: int) -> OpaqueValue:
        """The value after a batch's change, from `prev` when the same batch was here before.

        TransactionOrderError when txid < self.txid.
        """
        if self.txid is None:
            return OpaqueValue(change, txid)
        if txid < self.txid:
            raise TransactionOrderError(
                f"batch {txid} is behind batch {self.txid}, which wrote {self.value}. "
                "Batches must be committed in the order of their transaction ids."
            )
        before = self.prev if txid == self.txid else self.value
        return OpaqueValue((before or 0) + change, txid, before)

    def to_json(self) -> list[int | None]:
        return [self.txid, self.value, self.prev]


CountValue = PlainValue | TransactionalValue | OpaqueValue
_NEVER_WRITTEN: dict[StateKind, CountValue] = {
    "plain": PlainValue(),
    "transactional": TransactionalValue(),
    "opaque": OpaqueValue(),
}


@dataclass(frozen=True, slots=True)
class Write:
    """What a batch's change does to one key; nothing is to be written when `is_skip`."""

    key: str
    before: CountValue
    after: CountValue
    is_skip: bool = False  # this batch was here before


@dataclass(slots=True)
class CountState:
    """Counts of one kind in a table."""

    kind: StateKind
    table: Table

    def plan(self, txid: int, changes: Mapping[str, int]) -> list[Write]:
        """What the commit of batch `txid` is to write, key by key in the order of `changes`; nothing is written yet.

        UnreadableCountError when the table holds something else; TransactionOrderError when an opaque
        value is of a later batch.
        """
        writes = []
        for key, change in changes.items():
            before = self.read(key)
            after = before.update(txid, change)
            writes.append(Write(key, before, after, is_skip=after is before))
        return writes

    def write(self, planned: Write) -> None:
        """Write one key."""
        if not planned.is_skip:
            self.table.put(planned.key, json.dumps(planned.after.to_json(), separators=(",", ":")))

    def read(self, key: str) -> CountValue:
        """The stored value of a key. UnreadableCountError when it is not of this kind."""
        text = self.table.get(key)
        return _NEVER_WRITTEN[self.kind] if text is None else parse_count(self.kind, key, text)

    def counts(self) -> dict[str, int]:
        """Every key's count. UnreadableCountError as `read`."""
        return {key: parse_count(self.kind, key, text).value for key, text in self.table.all().items()}


def parse_count(kind: StateKind, key: str, text: str) -> CountValue:
    """The value that a stored text says. UnreadableCountError when it is none of this kind."""
    try:
        told = json.loads(text)
        if kind == "plain":
            return PlainValue(_whole(told))
        if kind == "transactional":
            txid, value = told
            return TransactionalValue(_whole(value), _whole(txid))
        txid, value, prev = told
        return OpaqueValue(_whole(value), _whole(txid), None if prev is None else _whole(prev))
    except (ValueError, TypeError, RecursionError):
        raise UnreadableCountError(
            f"the count of {key[:40]!r} is stored as {text[:60]!r}, which is no {kind} count. "
            "Use a table of its own for each kind of state."
        ) from None


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    return value
