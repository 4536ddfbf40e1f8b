"""A producer, a network and a leader: the small system on which idempotence is shown.

The user hands batches of records to the kit's producer. Each request takes `delay_ms` to the broker
and its answer as long to come back; a story may lose requests or answers, hold answers back and cut
the connection. What follows a lost request on its connection is lost with it, as in the proxy.
Time is virtual and chance is drawn from the seed, the batch and the attempt alone, so
the same knobs give the same run on the model and on a real broker, which is asked for real, over its
own protocol, at the moment at which a request arrives. A fork meets the same luck as its parent.

One broker leads all partitions of the topic. A request carries a batch of each partition that has one to send: the
network loses or delays them together, and the broker answers for each. Left out: several leaders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

from kitlib.experiments.idempotence.leader import PARTITION, ModelLeader
from kitlib.experiments.idempotence.producer_knobs import producer_config
from kitlib.experiments.script import Intervention
from kitlib.experiments.world import NEVER, Action, Line, World
from kitlib.mechanisms.broker.leader import BrokerConfig, Outcome
from kitlib.mechanisms.producer.batch import ProducerBatch
from kitlib.mechanisms.producer.sender import InFlightRequest, Sender, SenderEvent
from kitlib.mechanisms.protocol import (
    Batch,
    ErrorCode,
    InitProducerIdAnswer,
    InitProducerIdRequest,
    PartitionAnswer,
    ProduceRequest,
)
from kitlib.trace import in_log_order

BEGIN_MS = 100  # when a story begins: the producer has its id
RECONNECT_MS = 50  # from a lost connection to the next one
WITHHELD_MS = 200  # after the first answer that is held back the connection is cut, however few there are
DEEDS = {"lose": "lose", "delay": "delay", "double": "duplicate"}  # a script's verbs, as the network has them
PATIENCE_MS = 600_000  # virtual time after which a story that should settle is ended


@dataclass(slots=True)
class Flight:
    """One partition's batch of a produce request on its way."""

    client: Client
    request: ProduceRequest  # with this batch alone
    data: dict[str, Any]  # what its steps say of it: topic, partition, request, batch, first, last, seq, epoch, pid
    attempt: int  # 0 for the first one
    refused: PartitionAnswer | None = None  # an error that it gets instead of the broker's answer
    handled: PartitionAnswer | None = None  # once the broker has dealt with it
    deeds: dict[str, int] = field(default_factory=dict)  # what a script does to it, by the proxy's words, with their ms
    is_lost: bool = False  # it never reaches the broker

    @property
    def where(self) -> dict[str, Any]:
        """What its steps say of it, without its records."""
        return {name: self.data[name] for name in ("topic", "partition", "request", "batch")}

    @property
    def batch(self) -> Batch:
        return self.request.batches[0]

    @property
    def partition(self) -> int:
        return self.batch.partition

    @property
    def answer(self) -> PartitionAnswer:
        """What the broker says of it, once it has arrived."""
        found = self.refused or self.handled
        assert found is not None, "a flight is answered after it has arrived"
        return found


# What becomes of a request: "", "lose_request" (and what follows it on its connection), "cut_after_answer" (the connection ends),
# "swallow_answer" (the answer alone), "refuse:NAME" (an error instead of the broker's answer).
Fate = Callable[[Flight], str]


@dataclass(slots=True)
class Client:
    """One producer and its connection."""

    actor: str
    sender: Sender
    line: Line
    given: InitProducerIdAnswer | None = None  # the id that it gets instead of one from the broker
    first_records: dict[int, int] = field(default_factory=dict)  # send -> its first record
    flights: dict[int, list[Flight]] = field(default_factory=dict)  # by request number: those that are waited for
    ready_at_ms: int = 0  # when the present connection can be used
    drops: int = 0  # connections that the sender itself gave up
    told_identity: tuple[int, int] = (-1, -1)  # the last id and epoch that a step told of
    last_sent: range = range(0)  # the records of its last closed batch
    delivered: int = 0  # batches of which the user was told that they are stored
    failed: set[int] = field(default_factory=set)  # records of which the user was told that they are not

    @property
    def identity(self) -> tuple[int, int]:
        """Producer id and epoch; (-1, -1) without."""
        manager = self.sender.transaction_manager
        return (manager.producer_id, manager.producer_epoch) if manager else (-1, -1)

    @property
    def queued(self) -> list[ProducerBatch]:
        """The batches that wait in the accumulator, the next one first."""
        return [batch for queue in self.sender.accumulator.queues.values() for batch in queue]

    @property
    def is_settled(self) -> bool:
        """Whether the user was told of everything, and no answer is waited for."""
        return not (self.flights or self.queued or any(self.sender.in_flight_batches.values()))

    def shown(self, partition: int) -> dict[str, Any]:
        """What a picture shows of it; its next sequence number is that in one partition."""
        manager = self.sender.transaction_manager
        entry = manager.entries.get(partition) if manager else None
        return {
            "pid": self.identity[0], "epoch": self.identity[1], "next_seq": entry.next_sequence if entry else 0 if manager else -1,
            "queue": [
                [batch.number, batch.base_sequence if batch.has_sequence else None, batch.count, batch.attempts] for batch in self.queued
            ],
            "in_flight": [
                [number, flight.data["batch"], flight.batch.base_sequence, flight.batch.count]
                for number, flights in self.flights.items() for flight in flights
            ],
        }  # fmt: skip


@dataclass(slots=True)
class ProducerRun(World):
    """One run: its producers, their network, and the leader.

    A story calls `begin`, `send`, `run_for`, `withhold`, `restart`, ..., `finish` in its order.
    """

    domain: ClassVar[str] = "idempotence"
    takes: ClassVar[tuple[str, ...]] = (
        "lose request N", "lose answer N", "delay request N by D ms", "delay answer N by D ms", "double request N",
        "break broker at T ms for D ms",
    )  # fmt: skip

    next_record: int = 0
    leader: ModelLeader | None = None
    clients: list[Client] = field(default_factory=list)
    subject: Client | None = None  # whose state the next step shows
    place: int = PARTITION  # and of which partition
    fate: Fate = lambda flight: ""
    withheld_left: int = 0  # so many answers are still to be held back
    withheld: list[list[Flight]] = field(default_factory=list)  # by request
    up_at_ms: int = 0  # until then the broker is down

    def begin(self) -> Client:
        """Create the topic with the leader of its partitions, and a producer that gets its id."""
        settings = self.settings
        config = BrokerConfig(**settings.given("remembered_batches", "older_is_duplicate", "release"))
        attacked = bool(self.interventions.by_target)
        ended = settings.restart in ("clean", "kill") or settings.expires or bool(self.interventions.breaks)
        self.leader = self.backend.provide(ModelLeader, config, len(self.partitions), is_attacked=attacked, is_ended=ended)
        producer = self.add_producer()
        self.run_for(BEGIN_MS)
        return producer

    def finish(self) -> None:
        """Wait until the user was told of every record, and look at what the topic holds."""
        self.settle()
        self.read()

    def add_producer(self, given: InitProducerIdAnswer | None = None) -> Client:
        """Start a producer with the knobs' settings; `given` is an id that it uses instead of asking for one."""
        actor = "producer" if not self.clients else f"producer {len(self.clients) + 1}"
        line = self.line(actor, lambda: self._disconnect(client, "connection lost"))
        client = Client(actor, self.make_sender(), line, given)
        self.clients.append(client)
        self._pump(client)
        return client

    def make_sender(self) -> Sender:
        """A producer with the knobs' settings."""
        return Sender(producer_config(self.settings, "release"), self.partitions, self.now_ms)

    @property
    def partitions(self) -> range:
        return range(self.settings.partitions)

    def send(self, client: Client, records: int, partition: int = PARTITION) -> None:
        """The user hands over one closed batch."""
        self._hand_over(client, range(self.next_record, self.next_record + records), partition)
        self.next_record += records

    def send_again(self, client: Client, records: range) -> None:
        """The user hands over once more what it had handed over before: to the producer these are new records."""
        self._hand_over(client, records)

    def send_batches(self, client: Client, batches: int, records: int) -> None:
        """The user hands over so many closed batches at once."""
        for _ in range(batches):
            self.send(client, records)

    def send_records(self, client: Client, records: int, every_ms: int) -> None:
        """The user sends record after record, one every `every_ms`; the producer makes batches of them."""

        def send_one() -> None:
            record = self.next_record
            self.next_record += 1
            number = client.sender.append(PARTITION, b"%d" % record, self.now_ms)
            client.first_records.setdefault(number, record)
            self._note_batch(client, "send", number, PARTITION, range(record, record + 1))
            self._pump(client)

        for index in range(records):
            self.after(index * every_ms, send_one)

    def _hand_over(self, client: Client, records: range, partition: int = PARTITION) -> None:
        number = client.sender.send(partition, self.now_ms, tuple(b"%d" % record for record in records))
        client.first_records[number] = records.start
        client.last_sent = records
        self._note_batch(client, "send", number, partition, records)
        self._pump(client)

    def _note_batch(self, client: Client, what: str, batch: int, partition: int, records: range, **more: object) -> None:
        where = {"topic": self._led.topic, "partition": partition, "batch": batch}
        self._record(client.actor, what, client, **where, first=records.start, last=records.stop - 1, **more)

    def settle(self) -> None:
        """Run until the user was told of every record, and nothing is on its way."""
        self.run_for(PATIENCE_MS, until=self.is_settled)

    def is_settled(self) -> bool:
        """Whether nothing will happen any more without the story."""
        return not (self.agenda or self.interventions.mends) and all(client.is_settled for client in self.clients)

    def withhold(self, answers: int) -> None:
        """Hold the next answers back and then cut the connection: the broker has written, the producer does not know."""
        self.withheld_left = answers

    def cut(self) -> None:
        """Cut the connections: what is on its way is lost, and each producer connects again."""
        self._record("network", "cut", None)
        for client in self.clients:
            self._disconnect(client, "connection lost")

    def restart(self, how: Literal["no", "clean", "kill", "fail over"]) -> None:
        """The broker goes and comes back, and with it the connections; or a replica that had copied everything becomes the leader."""
        if how == "fail over":
            self._led.fail_over(self.now_ms)
            self._record_each("fail_over")
        elif how != "no":
            self._led.restart(how, self.now_ms)
            self._record_each("restart", how=how)

    def expire(self, client: Client) -> None:
        """The broker forgets the producer's id."""
        self._led.forget(client.identity[0], self.now_ms)
        self._record("broker", "expire", client, topic=self._led.topic, partition=PARTITION, pid=client.identity[0])

    def delete_all(self) -> None:
        """Retention: the records are gone, every one."""
        end = self._led.shown(-1)["log_end"]
        self._led.delete_before(PARTITION, end)
        self._record("broker", "delete", None, topic=self._led.topic, partition=PARTITION, to=end)

    def read(self) -> None:
        """Read the topic from its first record to its last; the last word on what is stored. A broker that is down is mended for it."""
        if self.up_at_ms > self.now_ms:
            self.mend_process()
        for partition in self.partitions:
            first, values = self._led.read(partition)
            self._record("broker", "read", None, topic=self._led.topic, partition=partition, first_offset=first,
                         records=in_log_order(map(int, values)))  # fmt: skip

    @property
    def _led(self) -> ModelLeader:
        assert self.leader is not None, "a story begins with begin()"
        return self.leader

    def next_wake(self) -> tuple[int, Action]:
        """When a producer wants to be asked next, if nothing comes in before; then all of them are."""
        wakes = (client.sender.next_event_ms(self.now_ms) for client in self.clients)
        return min((max(at_ms, self.now_ms + 1) for at_ms in wakes if at_ms is not None), default=NEVER), self._pump_all

    def _pump_all(self) -> None:
        for client in self.clients:
            self._pump(client)

    def _pump(self, client: Client) -> None:
        """Ask the producer for requests, and let it look at answers, until it has nothing more to say."""
        sender = client.sender
        while True:
            requests = sender.poll(self.now_ms, connected=self.now_ms >= client.ready_at_ms)
            self._note_identity(client)
            for request in requests:
                if isinstance(request, InitProducerIdRequest):
                    self.after(2 * self._delay_ms, lambda: self._give_id(client), client.line)
            for sent in sender.last_sent:
                self._leave(client, sent)
            for event in sender.events:
                self._note(client, event)
            self._note_completed(client)
            if sender.connection_drops > client.drops:
                client.drops = sender.connection_drops
                self._lose_connection(client, "request timeout")
            if sender.is_idle:
                return

    @property
    def _delay_ms(self) -> int:
        return int(self.settings.delay_ms)

    def _leave(self, client: Client, sent: InFlightRequest) -> None:
        """A produce request leaves for the broker."""
        request = sent.request
        flights = []
        for batch, kept in zip(request.batches, sent.batches, strict=True):
            data = {"topic": self._led.topic, "partition": batch.partition, "request": request.number, "batch": kept.number,
                    "first": int(batch.values[0]), "last": int(batch.values[-1]),
                    "seq": batch.base_sequence, "epoch": batch.producer_epoch, "pid": batch.producer_id}  # fmt: skip
            alone = request if len(request.batches) == 1 else replace(request, batches=(batch,))
            flights.append(Flight(client, alone, data, kept.attempts))
        if request.acks != 0:
            client.flights[request.number] = flights
        for flight in flights:
            self._record(client.actor, "request", client, **flight.data, attempt=flight.attempt)
        found, fate = self._on("request", flights[0]), ""
        if found is None:
            fate = self._fate_of(flights)
            found = Intervention("lose", "request") if fate == "lose_request" else None
        else:
            for flight in flights:
                flight.deeds[f"{DEEDS[found.verb]}_request"] = found.ms or 0
        if all(flight.refused for flight in flights) and "request" not in client.line.silent:
            refuse = partial(self.after, self._delay_ms, lambda: self._answer(flights), client.line)
            self.after(self._delay_ms, refuse)  # behind the answers to what left before it
            return
        arrive, again = partial(self._arrive, flights, fate), partial(self._arrive, flights, "swallow_answer")
        if not self.carry("request", found, self._delay_ms, arrive, partial(self._note_network, flights), client.line, again):
            for flight in flights:
                self._led.lose(flight.request)

    def _note_network(self, flights: list[Flight], what: str, **data: int) -> None:
        for flight in flights:
            self._record("network", what, flight.client, **flight.where, **data)
            flight.is_lost |= what.startswith("lose_")

    def _fate_of(self, flights: list[Flight]) -> str:
        """What the story makes of a request; a refusal is noted with the batch that it meets."""
        fate = ""
        for flight in flights:
            wanted, _, error = self.fate(flight).partition(":")
            if wanted == "refuse":
                flight.refused = PartitionAnswer(ErrorCode[error])
            fate = fate if wanted == "refuse" else wanted or fate
        return fate

    def _on(self, thing: str, flight: Flight) -> Intervention | None:
        """What the run's script does to a request, or to its answer."""
        tail = "" if flight.client is self.clients[0] else f" of {flight.client.actor}"
        return self.interventions.on(thing, flight.request.number, tail)

    def break_process(self, found: Intervention) -> None:
        """The broker dies, and every connection with it."""
        self.up_at_ms = NEVER if found.ms is None else self.now_ms + found.ms
        self._led.restart("kill", self.now_ms)
        self._record_each("down")
        for client in self.clients:
            self._disconnect(client, "the broker is down")

    def mend_process(self, found: Intervention | None = None) -> None:
        """The broker is back, with what it had written."""
        if self.up_at_ms:
            self.up_at_ms = 0
            self._record_each("restart", how="up")

    def _give_id(self, client: Client) -> None:
        """The answer to a request for an id."""
        given, client.given = client.given, None
        why = "given" if given else "init"
        client.sender.receive_id(given or self._led.init_producer_id(self.now_ms))
        self._note_identity(client, why)
        self._pump(client)

    def _answer(self, flights: list[Flight]) -> None:
        """The answer to a request reaches the producer."""
        client, number = flights[0].client, flights[0].request.number
        if client.flights.pop(number, None) is None:
            return
        for flight in flights:
            answer = flight.answer
            self._record(client.actor, "answer", client, **flight.where, error=answer.error.name, offset=answer.base_offset)
        client.sender.receive(number, {flight.partition: flight.answer for flight in flights})
        for event in client.sender.take_answers(self.now_ms):
            self._note(client, event)
        self._note_completed(client)
        self._pump(client)

    def _disconnect(self, client: Client, why: str) -> None:
        """The network ends the connection."""
        client.sender.disconnect()
        self._lose_connection(client, why)
        self._pump(client)

    def _lose_connection(self, client: Client, why: str) -> None:
        """The connection is gone, and with it every answer that has not come."""
        client.line.cut()
        client.ready_at_ms = max(self.now_ms, self.up_at_ms) + RECONNECT_MS
        if self.up_at_ms < NEVER:
            self.after(client.ready_at_ms - self.now_ms, lambda: self._pump(client), client.line)
        flights, client.flights = client.flights, {}
        self.withheld = [each for each in self.withheld if each[0].client is not client]
        for flight in (flight for each in flights.values() for flight in each):
            if not flight.is_lost:
                self._record("network", "lose_answer" if flight.handled else "lose_request", client, **flight.where)
            self._record(client.actor, "no_answer", client, **flight.where, why=why)

    def _note_identity(self, client: Client, why: str = "") -> None:
        """Tell of a new producer id or epoch."""
        before, now = client.told_identity, client.identity
        if now != before and now[0] >= 0:
            client.told_identity = now
            why = why or ("bump" if before[0] == now[0] else "init")
            self._record(client.actor, "id", client, pid=now[0], epoch=now[1], why=why)

    def _note(self, client: Client, event: SenderEvent) -> None:
        """Tell what the sender did with a batch, where nothing else shows it."""
        batch = event.batch
        if batch is not None and event.what in ("requeue", "split"):
            first = client.first_records[batch.send] + batch.first
            where = {"topic": self._led.topic, "partition": batch.partition, "batch": batch.number}
            self._record(client.actor, event.what, client, **where, first=first, last=first + batch.count - 1, attempt=batch.attempts)

    def _note_completed(self, client: Client) -> None:
        """Tell what the user is told."""
        for done in client.sender.completed():
            first = client.first_records[done.send] + done.first
            records = range(first, first + done.count)
            if done.error is None:
                client.delivered += 1
                self._note_batch(client, "delivered", done.send, done.partition, records, offset=done.offset)
            else:
                client.failed.update(records)
                self._note_batch(client, "undelivered", done.send, done.partition, records, error=done.error)

    def _arrive(self, flights: list[Flight], fate: str) -> None:
        """A request reaches the broker, which deals with it at once; its answer sets out, or is held back."""
        client = flights[0].client
        is_answered = flights[0].request.acks != 0 and fate != "swallow_answer"
        found = self._on("answer", flights[0]) if is_answered else None
        if found is not None and found.verb == "lose":
            client.line.silent.add("answer")
        is_lost = is_answered and "answer" in client.line.silent
        for flight in flights:
            if is_lost or found is not None:
                flight.deeds["lose_answer" if is_lost else "delay_answer"] = 0 if found is None or found.ms is None else found.ms
            if flight.refused is None:
                flight.handled = self._handle(flight)
        if not is_answered:  # with "swallow_answer" the connection stays: a black hole
            return
        if fate == "cut_after_answer":
            self._disconnect(client, "connection lost")
            return
        if self.withheld_left:
            self.withheld_left -= 1
            self.withheld.append(flights)
            if self.withheld_left == 0:
                self.after(0, self._cut_withheld)
            elif len(self.withheld) == 1:
                self.after(WITHHELD_MS, self._cut_withheld)
            return
        tell = partial(self._note_network, flights)
        self.carry("answer", found, self._delay_ms, lambda: self._answer(flights), tell, client.line, is_lost_at_once=False)

    def _cut_withheld(self) -> None:
        if self.withheld:
            self.withheld_left = 0
            self.cut()

    def _handle(self, flight: Flight) -> PartitionAnswer:
        """What the leader does with a request."""
        answer = self._led.produce(flight.request, self.now_ms, flight.deeds)[flight.partition]
        flight.deeds = {"second_copy": 0} if "duplicate_request" in flight.deeds else {}
        what = {Outcome.REJECTED: "refuse", Outcome.APPENDED: "write"}.get(self._led.last_outcomes[flight.partition], "recognise")
        told = {"error": answer.error.name} if what == "refuse" else {"offset": answer.base_offset}
        self._record("broker", what, flight.client, **flight.data, **told)
        if self._led.differs:
            self._record("broker", "differs", flight.client, **flight.where, from_the_model=self._led.differs)
        return answer

    def _record(self, actor: str, what: str, client: Client | None, **data: Any) -> None:
        """Write a step that is about one producer, or about none."""
        self.subject = client or (self.clients[0] if self.clients else None)
        self.place = data.get("partition", self.place)
        self.record(actor, what, **data)

    def _record_each(self, what: str, **data: Any) -> None:
        """What happens to the broker happens to each of its partitions."""
        for partition in self.partitions:
            self._record("broker", what, None, topic=self._led.topic, partition=partition, **data)

    def state(self) -> dict[str, Any]:
        """The producer's queue, and what the broker remembers of it."""
        if self.subject is None or self.leader is None:
            return {}
        broker = self._led.shown(self.subject.identity[0], self.place)
        return {"producer": self.subject.shown(self.place), "broker": broker, "log": broker["log_end"]}
