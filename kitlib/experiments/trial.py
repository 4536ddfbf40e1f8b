"""A team's own program under the kit's faults: a topic of its own behind the chaos proxy, and what lies in it afterwards.

    with Trial.open(Rule("cut_after_answer", skip=2, count=3)) as trial:
        subprocess.run(["our-producer", trial.bootstrap, trial.topic], check=True)
        print(trial.compare(f"order {number}" for number in range(2_000)))

The program needs nothing of the kit, and may be written in any language: it gets a bootstrap address and a topic of one
partition. Left out: which of its records it took for delivered; a trace (`kitlib.experiments`) knows that, a foreign program does not tell.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kitlib.errors import KnobError
from kitlib.experiments.kafka_backend import create_topic
from kitlib.experiments.topic_reader import TopicReader
from kitlib.lab import kafka_server
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from kitlib.text import plain_text

SECONDS_TO_DELETE = 20.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a topic holds of the records that were to be sent: counts of records, and of copies beyond the first."""

    sent: int
    lost: int  # records of which no copy is there
    duplicated: int  # copies beyond the first
    reordered: int  # records whose first copy stands behind that of a record sent later
    unknown: int  # records that nobody was to send
    witness: str  # the first that is lost, duplicated, reordered or unknown; "" if none is

    @property
    def is_exact(self) -> bool:
        """Whether each record is there once, in the order in which it was sent, and nothing else is."""
        return not (self.lost or self.duplicated or self.reordered or self.unknown)

    def __repr__(self) -> str:
        counts = f"{self.sent:,} sent: {self.lost:,} lost, {self.duplicated:,} duplicated, {self.reordered:,} out of order"
        return counts + (f", {self.unknown:,} unknown" if self.unknown else "") + (f"; first {self.witness}" if self.witness else "")


def compared(sent: Iterable[str | bytes], stored: Iterable[bytes]) -> Delivery:
    """What became of records; KnobError unless their values differ from each other."""
    wanted = [each.encode() if isinstance(each, str) else each for each in sent]
    place = {value: number for number, value in enumerate(wanted)}
    if len(place) < len(wanted):
        raise KnobError(f"{len(wanted):,} records were sent with only {len(place):,} different values. Give each a value of its own.")
    found, first_copies, highest, told = Counter[bytes](), 0, -1, ""
    duplicated = reordered = unknown = 0
    for value in stored:
        found[value] += 1
        if value not in place:
            unknown += 1
            what = "unknown"
        elif found[value] > 1:
            duplicated += 1
            what = "duplicated"
        else:
            first_copies += 1
            what = "out of order" if place[value] < highest else ""
            reordered += bool(what)
            highest = max(highest, place[value])
        if what and not told:
            told = f"{what}: {plain_text(value.decode(errors='replace'), 60)}"
    lost = next((value for value in wanted if value not in found), None)
    if lost is not None and not told:
        told = f"lost: {plain_text(lost.decode(errors='replace'), 60)}"
    return Delivery(len(wanted), len(place) - first_copies, duplicated, reordered, unknown, told)


@dataclass(frozen=True, slots=True)
class Trial:
    """An empty topic, and the address at which the proxy stands before the broker."""

    cluster: Cluster
    proxy: ChaosProxy
    topic: str

    @classmethod
    @contextmanager
    def open(cls, *rules: Rule, seed: int = 1) -> Iterator[Trial]:
        """A new topic `kit.trial.*` behind a proxy with these rules; both are gone at the end. LabError without the kit's own broker."""
        cluster = kafka_server.ensure()
        admin, topic = AdminClient(client_config(cluster)), f"kit.trial.{uuid.uuid4().hex[:12]}"
        with ChaosProxy.before(cluster, rules, seed) as proxy:
            create_topic(admin, topic, 1)
            try:
                yield cls(cluster, proxy, topic)
            finally:
                with suppress(KafkaException, TimeoutError):  # what is left is in `kit reset`'s list
                    admin.delete_topics([topic], request_timeout=SECONDS_TO_DELETE)[topic].result(SECONDS_TO_DELETE)

    @property
    def bootstrap(self) -> str:
        """The address for the program under test."""
        return self.proxy.bootstrap

    def values(self) -> list[bytes]:
        """The values of all records in the topic, in its order, read past the proxy."""
        with TopicReader.open(self.cluster, self.topic) as reader:
            return reader.read()[1]

    def compare(self, sent: Iterable[str | bytes]) -> Delivery:
        """What the topic holds of the records that were to be sent, in this order; their values must differ from each other."""
        return compared(sent, self.values())
