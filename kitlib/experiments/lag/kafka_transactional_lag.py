"""A real topic of transactions, and a real consumer of it: one of the three libraries, in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from confluent_kafka import Producer

from kitlib.errors import LabError
from kitlib.experiments.groups.group import Library
from kitlib.experiments.groups.kafka_members import PATIENT, start_member
from kitlib.experiments.kafka_backend import ADVICE, DEADLINE_S, KafkaBackend, KafkaTopic
from kitlib.lab.client_processes.consumer import ConsumerProcess
from kitlib.lab.client_processes.driver import NONE
from kitlib.lab.processes import wait_until

POLL_MS = 100
MOST = 500  # records in a poll


@dataclass(slots=True)
class KafkaTransactionalTopic(KafkaTopic):
    """The real topic: librdkafka's transactional producer writes it. Its own reader asks what the group has committed."""

    backend: KafkaBackend = field(kw_only=True)
    transactions: Producer = field(init=False)
    member: ConsumerProcess = field(init=False)
    log_end: int = 0
    read_to: int = 0  # the offset after the last record that was handed out

    @classmethod
    def open(cls, backend: KafkaBackend, name: str, library: Library) -> KafkaTransactionalTopic:
        """Create the topic and start the consumer. LabError when the broker refuses or is too slow."""
        group = f"kit.{backend.run}.{name}"
        topic = cls.create(backend, name, group=group, backend=backend)
        topic.committed()  # so that the group has a coordinator
        topic.transactions = backend.transactional_producer(topic.name)
        topic.member = start_member(backend.cluster, topic.name, group, "A", replace(PATIENT, library=library))
        return topic

    @property
    def now_ms(self) -> int:
        return self.backend.now_ms

    def transaction(self, records: int) -> list[int]:
        offsets = self.write_transaction(self.transactions, [(None, b"record %d" % number) for number in range(records)])
        self.log_end = offsets[-1] + 2
        return offsets

    def poll(self) -> list[int]:
        """Poll until the records of all transactions have come. LabError after DEADLINE_S."""
        found: list[int] = []

        def is_done() -> bool:
            while self.read_to < self.log_end - 1 and (records := self.member.poll(MOST, POLL_MS)[0]):
                found.extend(offset for _, offset in records)
                self.read_to = found[-1] + 1
            return self.read_to >= self.log_end - 1

        wait_until(is_done, DEADLINE_S, f"{self.name}-0 is read up to {self.log_end - 1}")
        return found

    def member_commits(self, offset: int | None) -> int:
        """With None it polls on until its position is at the end. LabError when it is refused, or after DEADLINE_S."""
        wanted = self.log_end if offset is None else offset
        error = ""

        def is_committed() -> bool:
            nonlocal error
            error = self.member.commit(None if offset is None else {0: offset})
            if self.committed() == wanted or (offset is not None and error == NONE):
                return True
            self.member.poll(MOST, POLL_MS)
            return False

        try:
            wait_until(is_committed, DEADLINE_S, f"the consumer of {self.name}-0 has committed {wanted}")
        except LabError as trouble:
            raise LabError(f"{trouble} It was told {error}, and has committed {self.committed()}. {ADVICE}") from None
        return self.committed() or 0

    def close(self) -> None:
        self.member.kill()
