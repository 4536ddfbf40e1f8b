"""Three brokers: a leader that moves while a producer sends, and what an acknowledgement is worth when it is destroyed.

The producer is librdkafka with its log. Brokers die by SIGKILL and are held dead; node 1 has no copy unless
three are asked for, since it is the only controller and must live. At the end all brokers run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from kitlib.errors import KnobError
from kitlib.experiments.real_producers import LIBRDKAFKA, Librdkafka, finish
from kitlib.experiments.send_path.client_log import Sign
from kitlib.experiments.send_path.librdkafka_log import LibrdkafkaLog
from kitlib.experiments.send_path.real_send import RealSend
from kitlib.lab import kafka_server
from kitlib.lab.brokers.leaders import Leaders

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
        for index in range(settings.records):
            if index == moves_at:
                finish(client, DEADLINE_S)  # what is under way may go; the next one meets a broker that leads no more
                leader = leaders.move([FOLLOWER, LEADER, CONTROLLER]).leader
                run.note("broker", "move_leader", to=leader)
            _send(run, client, 1 + index, settings.every_ms)
        finish(client, DEADLINE_S)
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
            if settings.followers_stop:
                _kill(run, FOLLOWER, dead)
                leaders.wait(lambda found: FOLLOWER not in found.in_sync, f"broker {FOLLOWER} is out of sync")
                run.note("broker", "shrink_isr", brokers=[FOLLOWER])
            for index in range(settings.records):
                _send(run, client, 1 + index, settings.every_ms)
            finish(client, DEADLINE_S)
            _kill(run, LEADER, dead)
            _start(run, FOLLOWER, dead)
            found = leaders.wait(lambda found: found.leader != LEADER, f"broker {LEADER} leads no more")
            unclean = found.leader < 0
            found = leaders.elect_uncleanly() if unclean else found
            run.note("broker", "destroy", **run.lane, unclean=unclean, leader=found.leader)
            _send(run, client, 1 + settings.records)
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


def _send(run: RealSend, client: Librdkafka, record: int, for_ms: int | None = None) -> None:
    """Send one record and go on for so long; without a time until its user was told of it and of all before it."""
    run.sent(record)
    client.send(record)
    if for_ms is None:
        finish(client, DEADLINE_S)
    else:
        client.work(for_ms / 1000)


@contextmanager
def _producer(run: RealSend, **settings: object) -> Iterator[Librdkafka]:
    """A client whose log becomes steps of the run: what was refused, when it asked anew, which leader it learned of.

    Its first record has gone all the way, so that what follows meets a producer at work.
    """
    run.note("client", "version", name=LIBRDKAFKA)
    log = LibrdkafkaLog(lambda: run.now_ms)
    more = {"linger.ms": 0, "debug": DEBUG, "log_level": 7, "enable.metrics.push": False} | settings
    client = Librdkafka(run.cluster, run.topic, run.told, more, log.logger)
    try:
        _send(run, client, 0)
        yield client
    finally:
        client.close()
        for line in log.lines:
            for sign in SIGNS:
                if (told := sign.found_in(line)) is not None:
                    data = {name: int(text) if text.isdigit() else ERRORS.get(text, text) for name, text in told.items()}
                    run.note(sign.actor, sign.what, at_ms=line.at_ms, **data)
