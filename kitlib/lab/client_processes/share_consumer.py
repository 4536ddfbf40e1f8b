"""A real share consumer that can be killed and frozen: librdkafka's, in a child process, driven over a pipe.

The owner's side is a `ConsumerProcess` with two orders of its own: a poll that also says which delivery of a record it is, and
answers for records. librdkafka's share consumer is a preview in the release that is pinned here; it cannot renew a lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer

from kitlib.lab.client_processes.consumer import ConsumerProcess
from kitlib.lab.client_processes.driver import CALL_S, NONE, Client, Refused, serve
from kitlib.lab.clients import SILENT

TYPES = {"accept": AcknowledgeType.ACCEPT, "release": AcknowledgeType.RELEASE, "reject": AcknowledgeType.REJECT}


class ShareConsumerProcess(ConsumerProcess):
    """The owner's side of one share consumer; `start` makes one."""

    child: ClassVar[str] = "kitlib.lab.client_processes.share_consumer"

    def fetch(self, timeout_ms: int) -> list[tuple[int, int]]:
        """(offset, delivery count) of each record that a poll brings. LabError when it has ended or is frozen."""
        return [(offset, deliveries) for offset, deliveries in self._ask("fetch", timeout_ms / 1000, timeout_ms=timeout_ms)]

    def answer(self, answers: Mapping[int, str]) -> str:
        """Answer for records ("accept", "release", "reject"): "NONE", or the broker's name for its refusal. LabError as `fetch`."""
        return str(self._ask("answer", 0, answers=sorted(answers.items())))


class Librdkafka(Client):
    """confluent_kafka's ShareConsumer. With acknowledgement "implicit" an answer accepts all that the last poll brought."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.topic, self.is_implicit = settings["topic"], settings["acknowledge"] == "implicit"
        config = {
            "bootstrap.servers": settings["bootstrap"],
            "client.id": settings["client_id"],
            "group.id": settings["group"],
            "share.acknowledgement.mode": settings["acknowledge"],
            "max.poll.records": settings["max_poll_records"],
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
        }
        try:
            self.consumer = ShareConsumer(config | settings["more"], logger=SILENT)
            self.consumer.subscribe([self.topic])
        except (KafkaException, ValueError) as error:
            raise Refused(str(error)) from error

    def fetch(self, timeout_ms: int) -> list[tuple[int, int]]:
        """(offset, delivery count) of each record."""
        found = self.consumer.poll(timeout_ms / 1000)
        return [(int(each.offset() or 0), int(each.delivery_count() or 0)) for each in found if each.error() is None]

    def answer(self, answers: Iterable[tuple[int, str]]) -> str:
        """What comes of the answers."""
        if not self.is_implicit:
            for offset, answer in answers:
                self.consumer.acknowledge_offset(self.topic, 0, offset, TYPES[answer])
        errors = [error for error in self.consumer.commit_sync(CALL_S).values() if error is not None]
        return str(errors[0].args[0].name()) if errors else NONE

    def close(self) -> None:
        self.consumer.close()


if __name__ == "__main__":
    serve(Librdkafka, (KafkaException, RuntimeError))
