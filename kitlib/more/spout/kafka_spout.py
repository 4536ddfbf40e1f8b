"""A spout on one partition of a topic: the PartitionManager behind a topology's interface.

The offset is the message id, so an ack or fail of a tree reaches the ledger it belongs to. What the
ledgers do is in `kitlib.mechanisms.partition_manager`; here is the loop around it: asking, committing every
so often, and asking again after a failed fetch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kitlib.mechanisms.log import LogReader
from kitlib.mechanisms.offset_store import OffsetStore, StoredOffset, read_stored_offset
from kitlib.mechanisms.partition_manager import PartitionManager, SpoutConfig
from kitlib.mechanisms.spout_errors import FailedFetchError, TooManyTupleFailuresError
from kitlib.more.topology import Spout, SpoutOutputCollector, TopologyContext
from kitlib.trace import to_ranges


class SpoutDiedError(Exception):
    """The PartitionManager gave up; in Storm the worker dies of it."""


class KafkaSpout(Spout):
    """Hands out the records of one partition; what the config's scheme makes of a record are its tuples.

    Source: Storm 0.9.3, `storm.kafka.KafkaSpout`.
    Differs: one partition, and no search for its leader; `message_ids=False` hands tuples out without an id
    and counts a record as done when it has left, which Storm's spout cannot be set to.
    """

    def __init__(
        self,
        config: SpoutConfig,
        log: LogReader,
        store: OffsetStore,
        *,
        output_fields: Sequence[str],
        commit_every_ms: int,
        message_ids: bool,
        new_manager: Callable[[SpoutConfig, LogReader, OffsetStore], PartitionManager],
    ) -> None:
        self.output_fields = tuple(output_fields)  # type: ignore[misc]  # what a class declares, this one is told
        self.config, self.log, self.store = config, log, store
        self.commit_every_ms, self.message_ids, self.new_manager = commit_every_ms, message_ids, new_manager
        self.refused: set[int] = set()  # offsets whose last failure lay too far behind to be retried

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector) -> None:
        super().open(conf, context, collector)
        stored = read_stored_offset(self.store, self.config.committed_path())
        self.manager = self.new_manager(self.config, self.log, self.store)
        self.commit_at_ms = context.now_ms + self.commit_every_ms
        begun = self.manager.committed_to
        why = why_begun(self.config, self.store, stored, begun)
        context.note("start", offset=begun, stored=stored.offset if stored else None, why=why)

    def next_tuple(self) -> None:
        if self.context.now_ms >= self.commit_at_ms:
            self.commit()
        before = self.manager.emitted_to_offset
        try:
            emission = self.manager.next()
        except FailedFetchError as error:
            self.context.note("error", error=error.error.name if error.error else "NETWORK")
            return
        record = emission.record
        if record is None:
            if self.manager.emitted_to_offset < before:
                self.context.note("reset", **{"from": before, "to": self.manager.emitted_to_offset})
            return
        for values in emission.tuples:
            self.collector.emit(values, message_id=record.offset if self.message_ids else None)
        if not self.message_ids:
            self.manager.ack(record.offset)

    def ack(self, message_id: Any) -> None:
        cleared = self.manager.ack(message_id)
        if cleared:
            self.context.note("clear", ranges=to_ranges(cleared), by=message_id)

    def fail(self, message_id: Any) -> None:
        self.refused.discard(message_id)
        try:
            if not self.manager.fail(message_id):
                self.refused.add(message_id)
        except TooManyTupleFailuresError as error:
            self.context.note("error", error="TOO_MANY_TUPLE_FAILURES")
            raise SpoutDiedError(str(error)) from error

    def is_retried(self, message_id: Any) -> bool:
        return message_id not in self.refused

    def commit(self) -> None:
        """Store how far everything is done."""
        self.commit_at_ms = self.context.now_ms + self.commit_every_ms
        written = self.manager.commit() is not None
        self.context.note("commit", offset=self.manager.committed_to, written=written)

    def close(self) -> None:
        self.commit()


def why_begun(config: SpoutConfig, store: OffsetStore, stored: StoredOffset | None, begun: int) -> str:
    """The rule by which a start chose the offset `begun`, given what was stored before it."""
    if stored is None:
        text = store.read(config.committed_path())
        return "no stored offset" if text is None else "the stored text holds no usable offset and counts as none"
    if stored.offset <= 0:
        return f"a stored offset of {stored.offset} counts as none"
    if begun == stored.offset:
        return "stored offset"
    if stored.topology_id != config.topology_id and config.force_from_start:
        return "another topology id"
    return f"the stored offset is more than max_offset_behind={config.max_offset_behind} behind"
