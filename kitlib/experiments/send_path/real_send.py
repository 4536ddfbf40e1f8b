"""The send path's experiments on a real broker: real clients, in real time, observed from outside.

The model runs a story event by event. A real client is a machine of its own: here each experiment has an
observer that starts a client with the run's knobs, does to it what the story tells, and writes what was
seen, in the model's words. What the client thinks is not to be had, but for its own log.

The words of such a trace: `kitlib.words.send_path`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

from confluent_kafka.admin import AdminClient

from kitlib.errors import KnobError, LabError
from kitlib.experiments import get
from kitlib.experiments.kafka_backend import PARTITION, KafkaBackend, TopicReader, create_topic
from kitlib.experiments.run import Run
from kitlib.lab.clients import Cluster
from kitlib.trace import in_log_order

# Experiment -> the module of its observer, a function of the experiment's name (imported when it is needed: a JVM, an admin
# client...), and the knobs that it has no use for: a real run takes them at their defaults alone, else it would seem that they did
# nothing. `two_sends` is one fixed scene: what the source's log shows, with one partition.
OBSERVERS = {
    "two_sends": (
        "real_two_sends",
        "partitions wait_ms release request_timeout_ms metadata_max_age_ms retry_backoff_ms max_block_ms linger_ms batch_size",
    ),
    "blocked_send": ("real_java", "round_trip_ms release"),
    "expired_batch": ("real_java", "release"),
    "unflushed_sends": ("real_librdkafka", "records_per_ms round_trip_ms"),
    "linger_and_batches": ("real_librdkafka", "request_cost_ms"),
    "stale_metadata": ("real_librdkafka", "names_new_leader idle_ms metadata_max_idle_ms round_trip_ms"),
}


@dataclass(slots=True)
class RealSend(Run):
    """The twin of `SendRun`: one run of an experiment of the send path with a real client."""

    domain: ClassVar[str] = "send_path"

    backend: KafkaBackend
    began_s: float = field(default_factory=time.monotonic)
    happened: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)  # (ms, actor, what, data)

    def tell(self, story: Callable[..., None], /, **given: Any) -> None:
        """Run the story's observer, and write the trace in the order of time. KnobError for a knob of the model's alone."""
        name = story.__name__
        module, alone = OBSERVERS[name]
        for each in get(name).knobs:
            if each.name in alone.split() and self.settings[each.name] != each.default:
                raise KnobError(
                    f"{name} on a real broker: {each.name} is {self.settings[each.name]}, which nothing there is given. Leave it at "
                    f"{each.default}, or run it on the model."
                )
        observer: Callable[[RealSend], None] = getattr(import_module(f"kitlib.experiments.send_path.{module}"), name)
        self.began_s = time.monotonic()
        observer(self)
        for at_ms, actor, what, data in sorted(self.happened, key=lambda each: each[0]):
            self.write(at_ms, actor, what, data, {})

    @property
    def cluster(self) -> Cluster:
        return self.backend.cluster

    @property
    def topic(self) -> str:
        """The run's topic of one partition, once `create_topic` has made it."""
        return f"kit.{self.trace.run}.events"

    @property
    def lane(self) -> dict[str, Any]:
        return {"topic": self.topic, "partition": PARTITION}

    @property
    def now_ms(self) -> int:
        """Milliseconds since the observation began."""
        return int((time.monotonic() - self.began_s) * 1000)

    @property
    def admin(self) -> AdminClient:
        return self.backend.admin

    def create_topic(self) -> str:
        """Make the run's topic, with one replica, and wait for its leader; its name."""
        create_topic(self.admin, self.topic, 1, {"retention.ms": "-1"})
        return self.topic

    def three_brokers(self, name: str) -> None:
        """LabError unless the cluster has three brokers, which the experiment needs."""
        if self.cluster.brokers < 3:
            raise LabError(
                f"{name} needs three brokers, the cluster at {self.cluster.bootstrap} has {self.cluster.brokers}. "
                "Run `kit down`, then `kit up --brokers 3`; or run it on the model."
            )

    def note(self, actor: str, what: str, *, at_ms: int | None = None, **data: Any) -> None:
        """Something happened, now or at that time."""
        self.happened.append((self.now_ms if at_ms is None else at_ms, actor, what, data))

    def sent(self, record: int, **more: Any) -> None:
        """The user has handed a record over."""
        self.note("user", "send", **self.lane, first=record, last=record, **more)

    def told(self, record: int, error: str, offset: int, at_ms: int | None = None, **more: Any) -> None:
        """What the user was told of a record: stored at `offset`, or an error's name."""
        data = {**self.lane, "first": record, "last": record, **more}
        if error:
            self.note("user", "undelivered", at_ms=at_ms, **data, error=error)
        else:
            self.note("user", "delivered", at_ms=at_ms, **data, offset=offset)

    def read(self) -> list[int]:
        """Look at the topic: the records that are there, in the log's order; one step tells of them."""
        with TopicReader.open(self.cluster, self.topic) as reader:
            first, values = reader.read()
        records = [int(value) for value in values]
        self.note("broker", "read", **self.lane, first_offset=first, records=in_log_order(records))
        return records
