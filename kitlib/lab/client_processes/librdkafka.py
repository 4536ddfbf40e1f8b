"""confluent_kafka's consumer as a driver of `kitlib.lab.client_processes.consumer`."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kitlib.lab.client_processes.driver import CALL_S, FETCH_WAIT_MS, NONE, Client, Refused, consumer_config, event
from kitlib.lab.clients import SILENT


class Librdkafka(Client):
    """confluent_kafka's Consumer, with the settings that its users have unless they are told otherwise."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.topic, self.auto_store = settings["topic"], settings["auto_store"]
        self.is_incremental = settings["protocol"] == "consumer" or "cooperative-sticky" in settings["strategies"]
        self.commits_on_revoke = settings["commit_on_revoke"]
        self.begin: dict[int, int] = {}  # partition -> where it reads on, as far as no record that was handed out says it
        self.is_nowhere = False  # whether the reset policy has left a partition without a position: that is told only once
        self.holds = False  # whether its partitions are paused, those that come as well
        config: dict[str, Any] = {
            **consumer_config(settings),
            "enable.auto.offset.store": settings["auto_store"],
            "enable.partition.eof": True,  # nothing else tells where it begins at a log's end
            "topic.metadata.refresh.interval.ms": settings["metadata_max_age_ms"],
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "fetch.error.backoff.ms": FETCH_WAIT_MS,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "on_commit": self._committed,
        }
        if settings["auto_offset_reset"] == "none":
            config["auto.offset.reset"] = "error"
        try:
            self.consumer = Consumer(config | settings["more"], logger=SILENT)
        except (KafkaException, ValueError) as error:
            raise Refused(str(error)) from error
        listeners = {"on_assign": self._assigned, "on_revoke": self._revoked, "on_lost": self._lost}
        try:
            self.consumer.subscribe([self.topic], **listeners)
        except (KafkaException, RuntimeError) as error:
            raise Refused(str(error)) from error

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        self.events.append(event("assigned", (each.partition for each in partitions)))
        self.begin.clear()
        self.is_nowhere = False
        if self.holds:
            (consumer.incremental_assign if self.is_incremental else consumer.assign)(partitions)
            consumer.pause(partitions)

    def _revoked(self, consumer: Any, partitions: list[Any]) -> None:
        found = [each.partition for each in partitions]
        if self.commits_on_revoke and (error := self.commit(None)) != NONE:
            self.events.append(event("committed", found, error))
        self.events.append(event("revoked", found))

    def _lost(self, consumer: Any, partitions: list[Any]) -> None:
        self.events.append(event("lost", (each.partition for each in partitions)))

    def _committed(self, error: Any, partitions: list[Any]) -> None:
        if error is not None and error.name() != "_NO_OFFSET":
            self.events.append(event("committed", (each.partition for each in partitions), error.name()))

    def poll(self, records: int, timeout_ms: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        try:
            self._hold(records == 0)
            messages = self.consumer.consume(1, timeout_ms / 1000)
            if messages and records > 1:
                messages += self.consumer.consume(records - 1, 0)
        except (KafkaException, RuntimeError) as refused:
            self.events.append(event("error", error=_name_of(refused)))
            return found
        for message in messages:
            if message.error() is not None:
                self._take_error(message)
            else:
                found.append((int(message.partition() or 0), int(message.offset() or 0)))
                self.begin.pop(found[-1][0], None)
        return found

    def _hold(self, holds: bool) -> None:
        """Pause or resume all it has: a poll that wants no record still takes part in rebalances."""
        if holds != self.holds:
            self.holds = holds
            (self.consumer.pause if holds else self.consumer.resume)(self.consumer.assignment())

    def commit(self, offsets: Iterable[tuple[int, int]] | None, waits: bool = True) -> str:
        try:
            if offsets is not None:
                wanted = [TopicPartition(self.topic, partition, offset) for partition, offset in offsets]
            elif self.auto_store:
                wanted = []  # all that is stored, which is all that was handed out
            else:
                wanted = [each for each in self.consumer.position(self.consumer.assignment()) if each.offset >= 0]
            if not wanted and not (offsets is None and self.auto_store):
                return NONE
            how: Any = {"asynchronous": not waits} | ({"offsets": wanted} if wanted else {})
            done = self.consumer.commit(**how)
        except (KafkaException, RuntimeError) as error:
            name = _name_of(error)
            return NONE if name == "_NO_OFFSET" else name
        return next((each.error.name() for each in done or () if each.error is not None), NONE)

    def store(self, partition: int, offset: int) -> str:
        try:
            self.consumer.store_offsets(offsets=[TopicPartition(self.topic, partition, offset)])
        except (KafkaException, RuntimeError) as error:
            return _name_of(error).lstrip("_")
        return NONE

    def positions(self) -> list[tuple[int, int | None]]:
        """By the records and ends of partitions that it was told of; it is let read until it knows, and set back then."""
        deadline = time.monotonic() + CALL_S
        while (found := self._known()) and None in found.values() and not self.is_nowhere and time.monotonic() < deadline:
            self._hold(False)
            for message in self.consumer.consume(1, FETCH_WAIT_MS / 1000):
                if message.error() is None:
                    where = TopicPartition(self.topic, int(message.partition() or 0), int(message.offset() or 0))
                    self.begin[where.partition] = where.offset
                    self.consumer.seek(where)
                else:
                    self._take_error(message)
        return sorted(found.items())

    def _known(self) -> dict[int, int | None]:
        told = {each.partition: each.offset for each in self.consumer.position(self.consumer.assignment())}
        return {
            partition: self.begin.get(partition, offset if offset >= 0 else None) for partition, offset in told.items()
        }

    def _take_error(self, message: Any) -> None:
        """A message that is an error is an event; the end of a partition is only remembered."""
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            self.begin[int(message.partition() or 0)] = int(message.offset() or 0)
            return
        self.events.append(event("error", error=error.name()))
        self.is_nowhere |= bool(error.code() == KafkaError._AUTO_OFFSET_RESET)

    def identity(self) -> tuple[str, int | None]:
        """From the group metadata that a transactional producer would be given: magic, generation, group, member."""
        packed = self.consumer.consumer_group_metadata()
        if not packed or not packed.startswith(b"CGMDv2:"):
            return "", None
        generation = struct.unpack_from("<i", packed, 7)[0]
        return packed[11:].split(b"\0")[1].decode(errors="replace"), generation if generation >= 0 else None

    def close(self) -> None:
        self.consumer.close()


def _name_of(error: Exception) -> str:
    """librdkafka's or the broker's name of what went wrong; a call on a closed consumer is CLOSED."""
    reason = error.args[0] if error.args else ""
    return str(reason.name()) if hasattr(reason, "name") else "CLOSED"
