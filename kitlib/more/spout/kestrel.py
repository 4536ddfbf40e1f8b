"""A queue in the way of Kestrel: what a client takes is open, not gone.

A delivered message stays in the queue, hidden, until its client reports the outcome: it is
removed when the client confirms it, and becomes available again when the client aborts it or disconnects. So a spout
that dies loses nothing, and needs no memory of its own.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kitlib.errors import KitError
from kitlib.mechanisms.log import FetchError, LogReader, Record
from kitlib.mechanisms.offset_store import OffsetStore
from kitlib.more.topology import Spout, SpoutOutputCollector, TopologyContext


@dataclass(slots=True)
class KestrelQueue:
    """The messages of one log as a queue; ids are offsets.

    Source: what seed 001 says of Kestrel: open messages, pending for one client, given back when it goes.
    Differs: Kestrel itself is a server with timeouts of its own; its journal is here the log and the offset
    below which everything is removed.
    """

    log: LogReader
    store: OffsetStore
    path: str  # where the position is stored
    read_to: int = 0  # everything below was read from the log
    waiting: deque[Record] = field(default_factory=deque)  # read and free, in order; what was given back comes first
    opened: dict[str, dict[int, Record]] = field(default_factory=dict)  # client -> what it has open, by id
    stored: int = 0  # everything below is done, and this is written down

    def __post_init__(self) -> None:
        text = self.store.read(self.path)
        self.stored = self.read_to = int(json.loads(text)["offset"]) if text else 0

    def open(self, client: str) -> Record | None:
        """Take the next free message for this client; None when there is none now."""
        if not self.waiting:
            fetched = self.log.fetch(self.read_to)
            if fetched.error is not FetchError.NO_ERROR:
                raise KitError(
                    f"queue {self.path}: the log answered {fetched.error.name} to offset {self.read_to}. "
                    "A queue's messages must not be deleted below it: raise the topic's retention."
                )
            self.waiting.extend(fetched.records)
            if fetched.records:
                self.read_to = fetched.records[-1].offset + 1
        if not self.waiting:
            return None
        record = self.waiting.popleft()
        self.opened.setdefault(client, {})[record.offset] = record
        return record

    def confirm(self, client: str, message: int) -> None:
        """The client is done with what it has open: it is removed."""
        del self.opened[client][message]

    def abort(self, client: str, message: int) -> None:
        """The client could not do it: it is free again, in front."""
        self.waiting.appendleft(self.opened[client].pop(message))

    def disconnect(self, client: str) -> None:
        """The client is gone: all that it had open is free again, in order."""
        back = sorted(self.opened.pop(client, {}).items(), reverse=True)
        self.waiting.extendleft(record for _, record in back)

    @property
    def done_to(self) -> int:
        """Everything below is removed: the smallest message that is open or free, else `read_to`."""
        left = [record.offset for record in self.waiting]
        left += [message for client in self.opened.values() for message in client]
        return min(left, default=self.read_to)

    def sync(self) -> bool:
        """Write down `done_to`; whether that was anything new."""
        done = self.done_to
        if done == self.stored:
            return False
        self.store.write(self.path, json.dumps({"offset": done}))
        self.stored = done
        return True


Scheme = Callable[[Record], Sequence[Any]]  # a record -> the values of its tuple


class KestrelSpout(Spout):
    """Hands out what it opens; an ack confirms, a fail aborts, and a broken connection gives everything back.

    Source: seed 001, the KestrelSpout of its example.
    """

    def __init__(self, queue: KestrelQueue, *, output_fields: tuple[str, ...], scheme: Scheme, sync_every_ms: int) -> None:
        self.output_fields = output_fields  # type: ignore[misc]  # what a class declares, this one is told
        self.queue, self.scheme, self.sync_every_ms = queue, scheme, sync_every_ms

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector) -> None:
        super().open(conf, context, collector)
        self.client = context.task
        self.sync_at_ms = context.now_ms + self.sync_every_ms
        context.note("start", offset=self.queue.done_to, why="the queue's open messages were returned")

    def next_tuple(self) -> None:
        if self.context.now_ms >= self.sync_at_ms:
            self.sync()
        record = self.queue.open(self.client)
        if record is not None:
            self.collector.emit(self.scheme(record), message_id=record.offset)

    def ack(self, message_id: Any) -> None:
        self.queue.confirm(self.client, message_id)

    def fail(self, message_id: Any) -> None:
        self.queue.abort(self.client, message_id)

    def crashed(self) -> None:
        self.queue.disconnect(self.client)

    def sync(self) -> None:
        """Have the queue write down how far everything is done."""
        self.sync_at_ms = self.context.now_ms + self.sync_every_ms
        written = self.queue.sync()
        self.context.note("commit", offset=self.queue.stored, written=written)

    def close(self) -> None:
        self.sync()
