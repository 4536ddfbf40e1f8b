"""Three brokers: a leader that moves while a producer sends, and what an acknowledgement is worth when it is destroyed.

The producer is librdkafka with its log. Brokers die by SIGKILL and are held dead; node 1 has no copy unless
three are asked for, since it is the only controller and must live. At the end all brokers run again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import confluent_kafka
from confluent_kafka import KafkaError, Message, Producer

from kitlib.errors import KnobError, LabError
from kitlib.experiments.send_path.client_log import Sign
from kitlib.experiments.send_path.librdkafka_log import LibrdkafkaLog
from kitlib.experiments.send_path.real_send import RealSend
from kitlib.experiments.topic_reader import PARTITION
from kitlib.lab import kafka_server
from kitlib.lab.brokers.leaders import Leaders
from kitlib.lab.clients import client_config

LEADER, FOLLOWER, CONTROLLER = 2, 3, 1
DEADLINE_S = 30.0
DEBUG = "broker,msg,topic,metadata"
# librdkafka's words for a broker's errors, and the protocol's names.
ERRORS = {"Not leader for partition": "NOT_LEADER_OR_FOLLOWER", "Not enough in-sync replicas": "NOT_ENOUGH_REPLICAS"}
SIGNS = (
    Sign(0, "broker", "refuse", "REQERR", r"ProduceRequest failed: Broker: (?P<error>[^:]+):"),
    Sign(0, "network", "disconnected", "FAIL", r"Disconnected: connection closed by peer", r"/\d+$"),
    Sign(0, "metadata", "request_update", "FASTQUERY|QRYLEADER", r"Starting fast leader query|re-query"),
    Sign(0, "metadata", "leader", "BROKER", r"leader (?!-1)\d+ epoch \d+ -> leader (?P<to>\d+) epoch (?P<leader_epoch>\d+)"),
)


def stale_metadata(run: RealSend) -> None:
    """Records at a steady pace; the leader moves, and nobody tells the producer.

    `metadata_max_age_ms` is librdkafka's topic.metadata.refresh.interval.ms.

    Differs: librdkafka sends again what was refused by a broker that leads no more also with retries=0, where Java's
    client, whose rules the model follows, tells the user of a failure.
    """
    run.three_brokers("stale_metadata")
    settings = run.settings
    leaders = Leaders.create(run.cluster, run.topic, [LEADER, FOLLOWER, CONTROLLER], {"retention.ms": "-1"})
    moves_at = settings.move_at_ms // max(1, settings.every_ms)
    told = {"batch.num.messages": 1, "retries": settings.retries, "retry.backoff.ms": settings.retry_backoff_ms,
            "topic.metadata.refresh.interval.ms": settings.metadata_max_age_ms}  # fmt: skip
    with _producer(run, **told) as client:
        client.warm_up()
        for index in range(settings.records):
            if index == moves_at:
                client.wait_for(1 + index)  # what is under way may go; the next one meets a broker that leads no more
                leader = leaders.move([FOLLOWER, LEADER, CONTROLLER]).leader
                run.note("broker", "move_leader", to=leader)
            client.send(1 + index)
            client.work(settings.every_ms / 1000)
        client.wait_for(1 + settings.records)
    run.read()


def acks_and_isr(run: RealSend) -> None:
    """Followers die, records are sent, the leader dies, and a follower that has come back leads. One more record is sent."""
    run.three_brokers("acks_and_isr")
    settings = run.settings
    if not 2 <= settings.replicas <= (2 if settings.followers_stop else 3):
        raise KnobError(
            f"acks_and_isr on a real broker: replicas is {settings.replicas}, expected 2, or 3 with followers_stop=false: of the "
            "kit's three brokers the first is the controller and cannot be stopped."
        )
    replicas = [LEADER, FOLLOWER, CONTROLLER][: settings.replicas]
    leaders = Leaders.create(run.cluster, run.topic, replicas, {"min.insync.replicas": str(settings.min_insync_replicas)})
    told = {"acks": settings.acks, "enable.idempotence": False, "delivery.timeout.ms": settings.delivery_timeout_ms,
            "request.timeout.ms": settings.request_timeout_ms, "retry.backoff.ms": settings.retry_backoff_ms}  # fmt: skip
    dead: list[int] = []
    try:
        with _producer(run, **told) as client:
            client.warm_up()
            if settings.followers_stop:
                _kill(run, FOLLOWER, dead)
                leaders.wait(lambda found: FOLLOWER not in found.in_sync, f"broker {FOLLOWER} is out of sync")
                run.note("broker", "shrink_isr", brokers=[FOLLOWER])
            for index in range(settings.records):
                client.send(1 + index)
                client.work(settings.every_ms / 1000)
            client.wait_for(1 + settings.records)
            _kill(run, LEADER, dead)
            _start(run, FOLLOWER, dead)
            found = leaders.wait(lambda found: found.leader != LEADER, f"broker {LEADER} leads no more")
            unclean = found.leader < 0
            found = leaders.elect_uncleanly() if unclean else found
            run.note("broker", "destroy", **run.lane, unclean=unclean, leader=found.leader)
            client.send(1 + settings.records)
            client.wait_for(2 + settings.records)
    finally:
        with ExitStack() as all_of_them:  # one that does not start is told of after the others were
            for broker in list(dead):
                all_of_them.callback(_start, run, broker, dead)
    leaders.wait(lambda found: set(found.in_sync) == set(replicas), "all its brokers are in sync again")
    run.read()


def _kill(run: RealSend, broker: int, dead: list[int]) -> None:
    kafka_server.kill_node(broker, hold=True)
    dead.append(broker)
    run.note("broker", "stop_copying" if broker == FOLLOWER else "killed", broker=broker)


def _start(run: RealSend, broker: int, dead: list[int]) -> None:
    if broker in dead:
        kafka_server.start_node(broker)
        dead.remove(broker)
        run.note("broker", "started", broker=broker)


class Client:
    """librdkafka as a story uses it: send, give it time, wait until users are told."""

    def __init__(self, run: RealSend, producer: Producer) -> None:
        self.run, self.producer, self.told_of = run, producer, 0

    def warm_up(self) -> None:
        """The first record goes all the way, so that what follows meets a producer at work."""
        self.send(0)
        self.wait_for(1)

    def send(self, record: int) -> None:
        self.run.sent(record)
        self.producer.produce(self.run.topic, value=b"%d" % record, partition=PARTITION, on_delivery=self._told)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        self.told_of += 1
        offset = None if error else int(message.offset() or 0)
        self.run.told(int(message.value() or b"-1"), offset, str(error.name()) if error else "")

    def work(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.producer.poll(left)

    def wait_for(self, count: int) -> None:
        """Until the user has been told of so many records. LabError after DEADLINE_S."""
        deadline = time.monotonic() + DEADLINE_S
        while self.told_of < count:
            self.producer.poll(0.02)
            if time.monotonic() > deadline:
                raise LabError(
                    f"run {self.run.trace.run}: told of {self.told_of} of {count} records within {DEADLINE_S:g} s. Look at `kit status`."
                )


@contextmanager
def _producer(run: RealSend, **settings: object) -> Iterator[Client]:
    """A client whose log becomes steps of the run: what was refused, when it asked anew, which leader it learned of."""
    run.note("client", "version", name=f"librdkafka {confluent_kafka.libversion()[0]}")
    log = LibrdkafkaLog(lambda: run.now_ms)
    more = {"linger.ms": 0, "debug": DEBUG, "log_level": 7, "enable.metrics.push": False} | settings
    producer = Producer(client_config(run.cluster, **more), logger=log.logger)
    try:
        yield Client(run, producer)
    finally:
        producer.purge()
        producer.flush(1.0)
        for line in log.lines:
            for sign in SIGNS:
                if (told := sign.found_in(line)) is not None:
                    data = {name: int(text) if text.isdigit() else ERRORS.get(text, text) for name, text in told.items()}
                    run.note(sign.actor, sign.what, at_ms=line.at_ms, **data)
