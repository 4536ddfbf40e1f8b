"""A real producer through the proxy to the real broker: librdkafka's, Java's or the kit's own, and its trace.

A run creates a topic of its own, hands numbered records to the client, lets a fault or the given rules
of the proxy act meanwhile, waits until the user was told of every record, ends the trouble, and reads
the topic from its first record to its last. Time is real.

The words of such a trace are those of `kitlib.monitor.producing`. Of what passes between client and
broker only the proxy's deeds are told, by the numbers of the requests: which records are in one, only
client and broker know.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from kitlib.errors import KnobError, LabError
from kitlib.experiments.idempotence.client_faults import DEFAULT_REQUEST_TIMEOUT_MS, Ending, Fault, fault_named
from kitlib.experiments.idempotence.producer_knobs import (
    Acks,
    DeliveryTimeoutMs,
    LingerMs,
    MaxInFlight,
    RequestTimeoutMs,
    Retries,
    producer_config,
)
from kitlib.experiments.idempotence.protocol_producer import IdempotentProducer
from kitlib.experiments.kafka_backend import DEADLINE_S, PARTITION, TopicReader, create_topic, publish
from kitlib.experiments.knobs import Knob, bind, settle
from kitlib.experiments.real_producers import Java, Librdkafka, Tell
from kitlib.lab import kafka_server
from kitlib.lab.clients import Cluster, client_config, must_be_own
from kitlib.lab.java_client import JavaClient, RefusedSettings
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, ProxyEvent, Rule
from kitlib.mechanisms.producer.config import MAX_INT
from kitlib.mechanisms.producer.sender import Completion
from kitlib.settings import Settings
from kitlib.trace import Trace, in_log_order

BATCHES = 40  # a run has so many if nothing else is said
MOST_BATCHES = 400  # that are told of one by one
MAX_RETRIES = MAX_INT
KNOBS = (
    bind("client", Annotated[Literal["librdkafka", "java", "kit"], Knob("Whose producer it is.")], "librdkafka"),
    bind("records", Annotated[int, Knob("How many records it is handed.", "records", 1, 1_000_000)], 20_000),
    bind("batch_records", Annotated[int, Knob("Of a batch at most; 0: a fortieth of all.", "records", 0, 1_000_000)], 0),
    bind("acks", Acks, "all"),
    bind("idempotence", Annotated[bool, Knob("Whether it numbers its batches.")], True),
    bind("max_in_flight", MaxInFlight, 5),
    bind("retries", Retries, MAX_RETRIES),
    bind("linger_ms", LingerMs, 50),
    bind("request_timeout_ms", RequestTimeoutMs, DEFAULT_REQUEST_TIMEOUT_MS),
    bind("delivery_timeout_ms", DeliveryTimeoutMs, 60_000),
)
FAULT_DEADLINE_S = 20.0  # a fault that has not set in by then never will
NO_MORE_S = 1.0  # a client that has sent no further request for so long waits for answers
STILL_MS = 150  # a log that has not grown for so long is at its end
STILL_WITHOUT_ANSWERS_MS = 500  # the same where nobody was told that the broker is done
FEW_RECORDS = 100  # of so short a topic each batch is told, with its producer's numbers
RANGES_PER_READ = 20_000  # a step is a line of limited length
KEY = bytes(16)  # of Java's records: so long that no second one fits into what is left of a batch of one
BATCH_BYTES, RECORD_BYTES = 61, 8 + len(KEY)  # what a batch takes, and a record beside its digits
# What the proxy did, in the words of a trace; the other deeds are not told.
NETWORK_WORDS = {
    "lose_request": "lose_request", "lose_answer": "lose_answer", "duplicate_request": "duplicate_request",
    "delay_request": "delay", "delay_answer": "delay", "stop_reading": "delay", "withhold": "lose_answer",
    "cut": "cut", "cut_after_answer": "cut", "reset": "cut", "reset_answer": "cut",
}  # fmt: skip


def run_client(*, fault: str = "none", rules: Sequence[Rule] = (), ending: Ending = "", **settings: Any) -> Trace:
    """Send numbered records to a topic of their own, through the proxy, and tell what became of them.

    What goes wrong is a `fault` by its name, or proxy `rules` with an `ending`. `settings` are KNOBS; the request timeout
    is the fault's if none is given. A client that refuses its settings gives a trace with the one
    step `refuse_to_start`. The trace is also kept in the topic `kit.trace.<run>`. KnobError for a setting outside its
    range, LabError when no broker of the kit's can be had or the fault does not set in.
    """
    return run_together([settings], fault=fault, rules=rules, ending=ending)[0]


def run_together(
    clients: Sequence[Mapping[str, Any]],
    *,
    fault: str = "none",
    rules: Sequence[Rule] = (),
    ending: Ending = "",
    experiment: str = "client_run",
) -> list[Trace]:
    """The same for several clients at once, each with a topic of its own; a broker that is killed is killed once for all.

    `clients` are their settings; KnobError for one that is none.
    """
    found = fault_named(fault)
    if rules and fault != "none":
        raise KnobError(f"rules are for a run without a named fault, this one has {fault}. Leave one of them out.")
    all_settings = [_settled(given, found) for given in clients]
    cluster = kafka_server.ensure()
    if (ending or found.ending) == "kill":
        must_be_own(cluster, "a run in which the broker is killed")
    admin = AdminClient(client_config(cluster))
    runs = []
    for number, settings in enumerate(all_settings):
        run = f"{experiment.replace('_', '-')}-{uuid.uuid4().hex[:8]}"
        trace = Trace(run, experiment, "kafka", 1, settings, domain="idempotence")
        runs.append(ClientRun(trace, settings, f"kit-{settings.client}-{number}", cluster))
        create_topic(admin, runs[-1].topic, cluster, {"retention.ms": "-1"})
    bound = [
        replace(rule, client_id=run.client_id)
        for run in runs for rule in (*found.rules_for(run.settings.acks), *rules)
    ]  # fmt: skip
    _tell(runs, cluster, bound, ending or found.ending)
    producer = Producer(client_config(cluster, **{"enable.idempotence": True}))
    for each in runs:
        publish(each.trace, cluster, admin, producer)
    return [each.trace for each in runs]


def _settled(given: Mapping[str, Any], fault: Fault) -> Settings:
    """A client's settings with what was left open. KnobError for one outside its range, or that is none."""
    found = settle(KNOBS, {"request_timeout_ms": fault.request_timeout_ms, **given}, "a client")
    return Settings(found, fault=fault.name, batch_records=found.batch_records or -(-found.records // BATCHES))


def _tell(runs: Sequence[ClientRun], cluster: Cluster, rules: Sequence[Rule], ending: Ending) -> None:
    """All that happens, from the first record to the last step of each trace."""
    began_s = time.monotonic()  # the proxy's clock begins here too
    with ChaosProxy.before(cluster, rules) as proxy:
        started: list[ClientRun] = []
        try:
            for run in runs:
                if run.start(proxy.cluster, began_s):
                    started.append(run)
            for run in started:
                run.hand_over()
            if ending and started:
                _wait_until_held(started, proxy, rules)
                if ending == "kill":
                    kafka_server.restart("kill")
                proxy.clear()
                proxy.cut()
                for run in started:
                    if ending == "kill":
                        run.note("broker", "restart", how="kill")
                    run.note("network", "cut")
            _wait_for_deliveries(started, proxy)
        finally:
            for run in started:
                run.client.close()
        events = proxy.events
        proxy.clear()
        proxy.release()
        delay_ms = max((rule.ms for rule in rules if rule.action == "delay_request"), default=0)
        for run in started:
            run.wait_until_still(delay_ms)
    for run in started:
        run.write_steps(events, ending)


def _wait_until_held(runs: Sequence[ClientRun], proxy: ChaosProxy, rules: Sequence[Rule]) -> None:
    """Wait until the proxy holds as many requests, or answers, as each client sends at once. LabError when it holds none."""
    waiting = {rule.client_id for rule in rules if rule.action in ("withhold", "stop_reading")}
    since, held, deadline = time.monotonic(), Counter[str](), time.monotonic() + FAULT_DEADLINE_S
    while waiting - held.keys() or (waiting and time.monotonic() < since + NO_MORE_S):
        for run in runs:
            run.client.work(0.005)
        now_held = Counter(event.client_id for event in proxy.events if event.what in ("withhold", "stop_reading"))
        if now_held != held:
            since, held = time.monotonic(), now_held
        if time.monotonic() > deadline:
            missing = ", ".join(sorted(waiting - held.keys()))
            raise LabError(
                f"nothing of {missing or 'any client'} was held within {FAULT_DEADLINE_S:g} s; the proxy has counted "
                f"{proxy.counts()}. Send more batches."
            )


def _wait_for_deliveries(runs: Sequence[ClientRun], proxy: ChaosProxy) -> None:
    deadline = time.monotonic() + max((run.settings.delivery_timeout_ms for run in runs), default=0) / 1000 + 10
    while unfinished := [run for run in runs if run.client.unfinished]:
        for run in unfinished:
            run.client.work(0.02 / len(unfinished))
        if time.monotonic() > deadline:
            raise LabError(
                f"run {unfinished[0].trace.run}: the client has reported nothing about {unfinished[0].client.unfinished} records, "
                f"long after delivery_timeout_ms. The proxy has counted {proxy.counts()}; look at `kit status`."
            )


def _config(settings: Settings, client_id: str) -> dict[str, Any]:
    """What both libraries call alike."""
    named = {"max_in_flight": "max.in.flight.requests.per.connection", "idempotence": "enable.idempotence"}
    alike = ("acks", "retries", "linger_ms", "request_timeout_ms", "delivery_timeout_ms")
    given = {name.replace("_", "."): settings[name] for name in alike} | {theirs: settings[ours] for ours, theirs in named.items()}
    return {"client.id": client_id, "retry.backoff.ms": 20, **given}


def librdkafka(cluster: Cluster, topic: str, settings: Settings, client_id: str, tell: Tell) -> Librdkafka:
    """confluent_kafka's producer with a run's settings."""
    config = _config(settings, client_id) | {
        "batch.num.messages": settings.batch_records,
        "socket.timeout.ms": settings.request_timeout_ms,  # the client waits as long for the broker as that may for replicas
        "queue.buffering.max.messages": max(100_000, settings.records),
    }
    return Librdkafka(cluster, topic, tell, config, deadline_s=settings.delivery_timeout_ms / 1000 + 10)


class OwnJava(Java):
    """Kafka's own client with a run's settings, in a JVM of its own; it bounds a batch by bytes, so its records are about as long."""

    def __init__(self, cluster: Cluster, topic: str, settings: Settings, client_id: str, tell: Tell) -> None:
        record_bytes = RECORD_BYTES + len(str(settings.records - 1))
        config = _config(settings, client_id) | {"batch.size": BATCH_BYTES + settings.batch_records * record_bytes}
        with ExitStack() as undo:
            super().__init__(undo.enter_context(JavaClient.open()), cluster, topic, tell, config)
            undo.callback(super().close)
            self.rest = undo.pop_all()

    def hand_over(self, records: range) -> None:
        for record in records:
            self.send(record, KEY)

    def close(self) -> None:
        self.rest.close()


class Kit:
    """The kit's own producer, which may have up to ten requests in flight."""

    def __init__(self, cluster: Cluster, topic: str, settings: Settings, client_id: str, tell: Tell) -> None:
        self.tell = tell
        self.first_records: dict[int, int] = {}
        self.producer = IdempotentProducer(topic, cluster, producer_config(settings), self._delivered, client_id)

    def hand_over(self, records: range) -> None:
        self.first_records[len(self.first_records)] = records.start  # sends are numbered from 0
        self.producer.send([b"%d" % record for record in records], PARTITION)

    def _delivered(self, delivery: Completion) -> None:
        first = self.first_records[delivery.send] + delivery.first
        for index in range(delivery.count):
            offset = delivery.offset + index if delivery.error is None and delivery.offset >= 0 else -1
            self.tell(first + index, delivery.error or "", offset)

    def work(self, seconds: float) -> None:
        self.producer.poll(seconds)

    @property
    def unfinished(self) -> int:
        return self.producer.unfinished

    def close(self) -> None:
        self.producer.close(1.0)


Client = Librdkafka | OwnJava | Kit
CLIENTS: dict[str, Callable[..., Client]] = {"librdkafka": librdkafka, "java": OwnJava, "kit": Kit}


Happened = tuple[int, str, str, dict[str, Any]]  # ms, actor, what, data


@dataclass(slots=True)
class ClientRun:
    """One client's run: what it was given, what it told, what the proxy did to it and what lies in its topic."""

    trace: Trace
    settings: Settings
    client_id: str
    cluster: Cluster
    began_s: float = 0.0
    client: Client = field(init=False)  # once it has started
    told: list[Happened] = field(default_factory=list)  # what its user was told
    happened: list[Happened] = field(default_factory=list)  # what else there was

    @property
    def topic(self) -> str:
        return f"kit.{self.trace.run}.records"

    def start(self, cluster: Cluster, began_s: float) -> bool:
        """Start the client; False when it refuses to start."""
        self.began_s = began_s
        try:
            self.client = CLIENTS[self.settings.client](cluster, self.topic, self.settings, self.client_id, self._note_told)
        except (KafkaException, KnobError, RefusedSettings) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
            self.trace.record(0, "producer", "refuse_to_start", error=reason)
            return False
        return True

    def hand_over(self) -> None:
        """The user sends all records, batch by batch."""
        size, count = self._step_records, self.settings.records
        for batch, first in enumerate(range(0, count, size)):
            last = min(first + size, count) - 1
            self.note("producer", "send", batch=batch, first=first, last=last)
            self.client.hand_over(range(first, last + 1))

    @property
    def _step_records(self) -> int:
        """How many records one step tells of: a batch, or more where there would be too many steps."""
        size, count = self.settings.batch_records, self.settings.records
        return int(size if self.settings.client == "kit" or count <= MOST_BATCHES * size else -(-count // BATCHES))

    def wait_until_still(self, delay_ms: int) -> None:
        """Wait until nothing is on its way to the broker any more, as far as the log's end can tell."""
        still_ms = delay_ms + (STILL_WITHOUT_ANSWERS_MS if self.settings.acks == "0" else STILL_MS)
        deadline = time.monotonic() + DEADLINE_S
        with TopicReader.open(self.cluster, self.topic) as reader:
            end, since = reader.bounds()[1], time.monotonic()
            while time.monotonic() - since < still_ms / 1000 and time.monotonic() < deadline:
                time.sleep(0.02)
                if (now := reader.bounds()[1]) != end:
                    end, since = now, time.monotonic()

    def _now_ms(self) -> int:
        return int((time.monotonic() - self.began_s) * 1000)

    def _note_told(self, record: int, error: str, offset: int) -> None:
        """What the user was told, in ranges: one ends with its batch, and where records, error or offsets do not go on."""
        size, before = self._step_records, self.told[-1][3] if self.told else {}
        first_offset = before.get("offset", -1)
        next_offset = -1 if first_offset < 0 else first_offset + record - before["first"]
        goes_on = before and record == before["last"] + 1 and record % size and error == before.get("error", "")
        if goes_on and offset == next_offset:
            self.told[-1] = (self._now_ms(), *self.told[-1][1:3], before | {"last": record})
        else:
            data = {"batch": record // size, "first": record, "last": record} | ({"error": error} if error else {"offset": offset})
            self.told.append((self._now_ms(), "producer", "undelivered" if error else "delivered", data))

    def note(self, actor: str, what: str, **data: Any) -> None:
        self.happened.append((self._now_ms(), actor, what, data))

    def _record(self, at_ms: int, actor: str, what: str, **data: Any) -> None:
        self.trace.record(at_ms, actor, what, topic=self.topic, partition=PARTITION, **data)

    def write_steps(self, events: Sequence[ProxyEvent], ending: Ending) -> None:
        """All that happened, by its time, and at the end what lies in the topic."""
        steps = [*self.happened, *self.told]
        for event in events:
            if event.rule is None or event.client_id != self.client_id or event.what not in NETWORK_WORDS:
                continue
            word = "lose_request" if ending and event.what == "stop_reading" else NETWORK_WORDS[event.what]
            steps.append((int(event.at_ms), "network", word, {"request": event.correlation_id, "deed": event.what}))
        for at_ms, actor, what, data in sorted(steps, key=lambda step: step[0]):
            self._record(at_ms, actor, what, **data)
        with TopicReader.open(self.cluster, self.topic) as reader:
            first, _ = reader.bounds()
            batches = reader.batches()
        if self.settings.records <= FEW_RECORDS:
            # A producer's id is the broker's choice: told as 0, 1, ...; -1 where there is none.
            ids = [-1, *dict.fromkeys(batch.producer_id for batch in batches if batch.producer_id >= 0)]
            rows = [[batch.base_offset, ids.index(batch.producer_id) - 1, batch.epoch, batch.base_sequence] for batch in batches]
            self._record(self._now_ms(), "broker", "batches", columns=["offset", "producer", "epoch", "sequence"], batches=rows)
        ranges = in_log_order(int(value) for batch in batches for value in batch.values)
        for at in range(0, max(1, len(ranges)), RANGES_PER_READ):
            part = ranges[at : at + RANGES_PER_READ]
            self._record(self._now_ms(), "broker", "read", first_offset=first, records=part)
            first += sum(high - low + 1 for low, high in part)
