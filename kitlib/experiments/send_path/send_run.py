"""A producer's whole send path, a network and a cluster, in virtual time.

The user's side calls `send` one call after the other, as one thread does: a call that blocks holds up
the next one. The sender's loop turns when it is woken, when something comes in, or when its sleep is
over. Between them and the brokers lies a network: a request and its answer need `round_trip_ms`, and a broker works on one
produce request after the other, `request_cost_ms` on each. What a script does to a message it does to a
produce request or to its answer; what leaves behind a message that is late waits for it on the same connection, and
what leaves behind a message that is lost is lost with it, until the client or, after LOST_MS, the network ends the connection.
Chance (the partition of records without a key) is drawn from the seed.

The source's log shows that the two threads of a producer also need time of their own (a first
connection, a class that is loaded): those times are knobs of the one story that retells the log.

Left out: more than one topic, more than one leader at a time, more than one user thread, and the random part of backoffs.

What its steps hold for pictures, the path with its batches and the metadata's clock:

    path   {"calls": [[record, "metadata" | "memory"]], "queues": {partition: [[batch, records, bytes, attempts]]},
            "in_flight": [[request, batch, partition, records, node]], "stored": {partition: log end},
            "memory": [available, total, waiting]}
    clock  {"version", "need_update", "partial", "in_progress", "last_refresh_ms", "last_successful_refresh_ms",
            "expire_ms", "next_ms", "allow_ms", "attempts", "leader"}; the three last but one as times from now
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, ClassVar

from kitlib.experiments.idempotence.producer_knobs import producer_config
from kitlib.experiments.script import Intervention
from kitlib.experiments.send_path.send_cluster import PORT, SendCluster
from kitlib.experiments.world import NEVER, Action, Line, World
from kitlib.mechanisms.broker.leader import Outcome
from kitlib.mechanisms.producer.config import ConfigError
from kitlib.mechanisms.producer.sender import InFlightRequest
from kitlib.mechanisms.protocol import ErrorCode, InitProducerIdRequest, ProduceRequest
from kitlib.more.client.cluster import MetadataRequest, Node
from kitlib.more.client.connections import ConnectionState
from kitlib.more.client.network_client import ApiVersionsRequest, Connect, Disconnect, Effect, Send
from kitlib.more.client.send_path import KafkaProducer, Sending
from kitlib.trace import in_log_order

PATIENCE_MS = 3_600_000  # virtual time after which a story that should settle is ended
SAME_MS_TURNS = 4  # a loop that turns without sleeping takes a ms for so many turns


@dataclass(slots=True)
class Leaving:
    """A produce request on its way, with what its steps say of it."""

    number: int  # of the client's requests
    node: Node
    request: ProduceRequest
    data: list[dict[str, Any]]  # one for each of its batches

    @property
    def places(self) -> list[dict[str, Any]]:
        """Which batches they are, without their records."""
        return [{name: data[name] for name in ("topic", "partition", "request", "batch")} for data in self.data]


@dataclass(slots=True)
class SendRun(World):
    """One run: a story calls `begin`, `send`, `run_for`, ..., `finish` in its order."""

    domain: ClassVar[str] = "send_path"
    on_kafka: ClassVar[str] = "kitlib.experiments.send_path.real_send:RealSend"
    takes: ClassVar[tuple[str, ...]] = (
        "lose request N", "lose answer N", "delay request N by D ms", "delay answer N by D ms", "double request N",
        "break broker at T ms for D ms",
    )  # fmt: skip
    model_script: ClassVar[str] = "a real client's threads decide which records leave together, so no number names the same request twice"

    cluster: SendCluster = field(init=False)
    producer: KafkaProducer = field(init=False)
    records: int = 0  # handed over so far, over all partitions
    lanes: Counter[int] = field(default_factory=Counter)  # partition -> records in it so far
    in_lane: dict[int, tuple[int, int]] = field(default_factory=dict)  # record -> (partition, its number there)
    of_batch: dict[int, list[int]] = field(default_factory=dict)  # batch -> its records
    open_records: int = 0  # that lie in batches and of whose end the user has not heard
    costs: Counter[str] = field(default_factory=Counter)  # ms that the client's threads need themselves, see `two_sends`
    round_trip_ms: int = 10  # of a request and its answer
    busy_until_ms: int = 0  # the loop does something else until then
    user_busy_until_ms: int = 0  # the user's thread does something else until then
    stages_told: set[int] = field(default_factory=set)
    is_over: bool = False  # the client's process has ended
    flights: dict[int, Leaving] = field(default_factory=dict)  # produce requests that are waited for
    shows_loop: bool = False  # write a step for each sleep of the loop
    shows_calls: bool = False  # write a step for each call, also for those that return at once
    turn_at_ms: int = 0  # the loop's next turn at the latest
    turns_now: int = 0

    def begin(self, cluster: SendCluster) -> None:
        """Make the brokers and the producer, with Kafka's own settings where there is no knob; its loop begins to turn.

        ConfigError where Java's client throws a ConfigException: delivery_timeout_ms < linger_ms + request_timeout_ms
        (not in 0.10, which has no delivery timeout).
        """
        settings, seed = self.settings, self.trace.seed
        self.cluster, self.round_trip_ms, earlier = cluster, int(settings.round_trip_ms), settings.release == "0.10"
        config = producer_config(settings, "batch_size")
        least_ms = config.linger_ms + config.request_timeout_ms
        if not earlier and "delivery_timeout_ms" in settings and config.delivery_timeout_ms < least_ms:
            raise ConfigError(
                f"delivery_timeout_ms is {config.delivery_timeout_ms}, less than linger_ms + request_timeout_ms = {least_ms}. "
                "Java's client does not start with that: raise the one or lower the others."
            )
        chance = seed if earlier else Random(f"{seed}:partitions").getrandbits(31)
        more = settings.given("max_block_ms", "buffer_memory", "metadata_max_age_ms", "metadata_max_idle_ms")
        self.producer = KafkaProducer(config, cluster.topic, **more, is_earlier=earlier, chance=chance)
        self.producer.start(cluster.bootstrap_addresses, self.now_ms)
        self.record("user", "start", release="0.10" if earlier else "4.3", version=self.producer.metadata.version)
        self._turn()

    def send(self) -> None:
        """The user sends the next record, and waits until the call returns."""
        record = self.records
        self.records += 1
        self.user_busy_until_ms = self.now_ms  # whoever calls is not busy
        value = b"%d" % record
        value += b" " * (int(self.settings.record_bytes) - len(value))
        if self.shows_calls:
            self.record("user", "call", record=record, **self.stage_of(1))
        wants_before = self.producer.metadata.need_update
        sending = self.producer.send(value, self.now_ms)
        if self.producer.metadata.need_update and not wants_before:
            self.note_request_update("an unknown topic", name=self.cluster.topic)
        if not sending.is_over:
            self.record("user", "blocked", record=record, on=sending.state, most_ms=sending.deadline_ms - self.now_ms)
        self.look_at_sendings()
        self._wake()
        self.run_for(PATIENCE_MS, until=lambda: sending.is_over)

    def settle(self) -> None:
        """Run until the user was told of every record."""
        self.run_for(PATIENCE_MS, until=lambda: not self.open_records and not self.producer.sendings)

    def finish(self) -> None:
        """Settle, and look at what the topic holds."""
        if self.is_over:
            self.run_for(PATIENCE_MS, until=lambda: not self.agenda)  # what has left arrives all the same
        else:
            self.settle()
        self.read()

    def flush(self) -> None:
        """The user waits until everything that was sent has an end."""
        self.record("user", "flush", waiting=self.open_records)
        self.producer.sender.flush()
        self._wake(always=True)
        self.settle()

    def exit(self) -> None:
        """The process ends now, with whatever lies in its memory. What is on its way to the broker arrives."""
        self.is_over = True
        for partition in range(self.cluster.partitions):
            self.record("user", "exit", topic=self.cluster.topic, partition=partition)

    def read(self) -> None:
        """Read the topic from its first record to its last; the last word on what is stored."""
        if not self.cluster.exists:
            return
        for partition, log in self.cluster.leader.logs.items():
            if partition in self.lanes:
                records = in_log_order(self.in_lane[int(value)][1] for stored in log.batches for value in stored.batch.values)
                self.record("broker", "read", topic=self.cluster.topic, partition=partition, first_offset=0, records=records)

    def move_leader(self, to: int) -> None:
        """Another broker leads from now on; the client does not know."""
        self.cluster.move_leader(to)
        self.record("broker", "move_leader", to=to, leader_epoch=self.cluster.leader_epoch)

    def refuse(self, error: str) -> None:
        """The client does not even take the next record, and the user goes on without it."""
        record = self.records
        self.records += 1
        where = self.numbered(record, 0)
        self.record("user", "send", **where, record=record)
        self.record("user", "undelivered", **where, error=error)

    def break_process(self, found: Intervention) -> None:
        """The broker that leads dies, and with it its connections; another one, which has everything, takes over at once."""
        dead, successor = self.cluster.leader_id, self.cluster.successor()
        self.cluster.down.add(dead)
        self.record("broker", "killed", broker=dead)
        if successor is not None:
            self.move_leader(successor)
        self.break_connections("the broker is down", of=dead)

    def mend_process(self, found: Intervention) -> None:
        """The broker is back with its log; where another one leads by now, it follows."""
        for broker in sorted(self.cluster.down):
            self.record("broker", "started", broker=broker)
        self.cluster.down.clear()

    def break_connections(self, why: str, of: int | None = None) -> None:
        """Every connection that stands is gone, or every one to this broker."""
        known = {node.id: node for node in self.producer.metadata.cluster.nodes}
        for number in [number for number, found in self.producer.client.connections.nodes.items()
                       if found.state is not ConnectionState.DISCONNECTED and of in (None, max(number, 0))]:  # fmt: skip
            self.break_connection(known.get(number) or Node(number, self.cluster.bootstrap_host, PORT), why)

    def next_wake(self) -> tuple[int, Action]:
        """The loop's next turn, or the end of a blocked call; nothing of the client once its process has ended."""
        self._wake()
        if self.is_over:
            return NEVER, self._turn
        turn_ms, deadline_ms = max(self.turn_at_ms, self.busy_until_ms), self.producer.next_deadline_ms()
        if deadline_ms is None or turn_ms <= max(deadline_ms, self.user_busy_until_ms):
            return turn_ms, self._turn
        return max(deadline_ms, self.user_busy_until_ms), self.look_at_sendings

    def _wake(self, always: bool = False) -> None:
        if self.producer.is_woken or always:
            self.turn_at_ms = min(self.turn_at_ms, self.now_ms)

    def _turn(self) -> None:
        """One turn of the sender's loop, and when the next one is."""
        producer, before = self.producer, self.now_ms
        need_before = producer.metadata.need_update
        select = producer.run_once(self.now_ms)
        if producer.metadata.need_update and not need_before:
            self.note_request_update("the loop")
        cost_ms = sum(self.perform(effect) for effect in producer.client.take_effects())
        self._tell_client()
        if self.shows_loop:
            self.record("network", "select", poll=min(select.poll_ms, 2**53), metadata=min(select.metadata_ms, 2**53),
                        request=select.request_ms, timeout=select.least_ms)  # fmt: skip
        self.look_at_sendings()
        self.busy_until_ms = before + cost_ms
        self.turn_at_ms = self.busy_until_ms + select.least_ms
        expiry_ms = producer.client.next_expiry_ms()
        if expiry_ms is not None:
            self.turn_at_ms = min(self.turn_at_ms, max(expiry_ms, before + 1))
        self.turns_now = self.turns_now + 1 if self.turn_at_ms <= before else 0
        if self.turns_now > SAME_MS_TURNS:
            self.turn_at_ms, self.turns_now = before + 1, 0

    def came_in(self) -> None:
        """Something came from the network: the user is told what it means, and the loop does not sleep any longer."""
        self._tell_client()
        self.look_at_sendings()
        self._wake(always=True)

    def look_at_sendings(self) -> None:
        """Let blocked calls go on that can, and tell of those that returned."""
        if self.is_over or self.now_ms < self.user_busy_until_ms:
            return
        for sending in self.producer.advance(self.now_ms):
            self._returned(sending)
        self._wake()

    def _returned(self, sending: Sending) -> None:
        """A call has returned: its record lies in a batch, or was refused."""
        record, waited_ms = int(sending.value), self.now_ms - sending.begun_ms
        where = self.numbered(record, sending.partition)
        if sending.error is not None:
            self.record("user", "send", **where, record=record)
            self.record("user", "undelivered", **where, error=sending.error, message=sending.message, waited_ms=waited_ms)
            return
        assert sending.batch is not None, "a record that was appended has a batch"
        self.of_batch.setdefault(sending.batch, []).append(record)
        self.open_records += 1
        first = self.stage_of(5) if self.shows_calls else {}
        self.record("accumulator" if first else "user", "send", **where, record=record, batch=sending.batch, waited_ms=waited_ms, **first)
        if self.shows_calls and sending.wakes_sender:
            lane = {"topic": self.cluster.topic, "partition": sending.partition}
            self.record("accumulator", "new_batch" if sending.is_new_batch else "full", **lane, batch=sending.batch, **self.stage_of(6))
        if self.shows_calls:
            self.record("user", "returned", record=record, waited_ms=waited_ms)

    def _tell_client(self) -> None:
        """What the sender did inside, and what the user is told."""
        events, self.producer.events = self.producer.events, []
        for event in events:
            if (batch := event.batch) is None:
                self.record("sender", "id", pid=event.producer_id, epoch=event.producer_epoch, why=event.what)
            elif event.what in ("requeue", "expire"):
                self.record("sender", event.what, **self._of_batch(batch.send, 0, batch.count), attempt=batch.attempts)
        for done in self.producer.completed():
            self.open_records -= done.count
            data = self._of_batch(done.send, done.first, done.count)
            if done.error is None:
                self.record("user", "delivered", **data, offset=done.offset)
            else:
                self.record("user", "undelivered", **data, error=done.error)

    def _of_batch(self, batch: int, begin: int, count: int) -> dict[str, Any]:
        """So many records of a batch."""
        partition, first = self.in_lane[self.of_batch[batch][begin]]
        return {"topic": self.cluster.topic, "partition": partition, "batch": batch, "first": first, "last": first + count - 1}

    def note_request_update(self, why: str, **more: str) -> None:
        """Metadata is wanted."""
        metadata = self.producer.metadata
        self.record("metadata", "request_update", **more, full=metadata.need_full_update, version=metadata.version, why=why)

    def stage_of(self, number: int) -> dict[str, int]:
        """Marks the first step that is this one of the source's nine."""
        if number in self.stages_told:
            return {}
        self.stages_told.add(number)
        return {"stage": number}

    def numbered(self, record: int, partition: int) -> dict[str, Any]:
        """A record's place: records are numbered for each partition, in the order in which they got there."""
        number = self.lanes[partition]
        self.lanes[partition] += 1
        self.in_lane[record] = partition, number
        return {"topic": self.cluster.topic, "partition": partition, "first": number, "last": number}

    def perform(self, effect: Effect) -> int:
        """Let the network do something; how long the loop is busy with it."""
        if isinstance(effect, Connect):
            return self._connect(effect.node)
        if isinstance(effect, Disconnect):
            self._lose(effect.node, "request timeout")
            return 0
        return self._leave(effect)

    def _connect(self, node: Node) -> int:
        is_first = self.stage_of(2 if node.id < 0 else 7)
        self.record("network", "connect", node=node.id, address=f"{node.host}:{node.port}", **is_first)
        cost_ms = self.costs["bootstrap_connect_ms" if node.id < 0 else "connect_ms"]
        delay_ms = cost_ms or self.round_trip_ms
        self.to_client(node, delay_ms, partial(self._connected if self.cluster.is_reachable(node) else self._refused, node))
        return cost_ms if node.id < 0 else 0

    def _connected(self, node: Node) -> None:
        self.record("network", "connected", node=node.id)
        self.producer.client.connected(node, self.now_ms)
        self.came_in()

    def _refused(self, node: Node) -> None:
        need_before = self.producer.metadata.need_update
        attempts = self.producer.metadata.attempts
        self.producer.client.disconnected(node, self.now_ms)
        self.record("network", "disconnected", node=node.id, why="connection refused")
        if self.producer.metadata.attempts > attempts:
            self.record("metadata", "failed_update", attempts=self.producer.metadata.attempts)
        elif not need_before:
            self.note_request_update("a broker could not be reached")
        self.came_in()

    def _leave(self, effect: Send) -> int:
        node, request = effect.node, effect.request
        if isinstance(request, MetadataRequest):
            has_topics = request.topics is None or bool(request.topics)
            told = self.stage_of(3) if has_topics else {}
            names = list(request.topics or ())
            self.record("network", "metadata_request", node=node.id, names=names, partial=request.is_partial, **told)
            cost_ms = self.costs["metadata_request_ms"]
            answer_ms = self.costs["metadata_answer_ms"] or self.round_trip_ms
            self._after_answer(effect, cost_ms + answer_ms, lambda: self.cluster.metadata(request))
            return cost_ms
        if isinstance(request, ApiVersionsRequest):
            self._after_answer(effect, self.round_trip_ms, lambda: None)
        elif isinstance(request, InitProducerIdRequest):
            self.record("network", "id_request", node=node.id)
            self._after_answer(effect, self.round_trip_ms, lambda: self.cluster.leader.init_producer_id(self.now_ms))
        elif isinstance(request, InFlightRequest):
            return self._leave_for_leader(effect, request)
        return 0

    def _leave_for_leader(self, effect: Send, kept: InFlightRequest) -> int:
        request = kept.request
        leaving = self.flights[effect.number] = Leaving(effect.number, effect.node, request, [])
        for batch, its in zip(request.batches, kept.batches, strict=True):
            numbers = [self.in_lane[int(value)][1] for value in batch.values]
            leaving.data.append({"topic": self.cluster.topic, "partition": batch.partition, "request": request.number,
                                 "batch": its.send, "first": numbers[0], "last": numbers[-1]})  # fmt: skip
        for data, its in zip(leaving.data, kept.batches, strict=True):
            self.record("sender", "request", **data, node=effect.node.id, attempt=its.attempts, **self.stage_of(8))
        cost_ms = self.costs["produce_request_ms"]
        there_ms = self.costs["produce_answer_ms"] or self.round_trip_ms
        found, ms = self.interventions.on("request", request.number), cost_ms + there_ms - there_ms // 2
        arrive, again = partial(self._arrive, leaving), partial(self._arrive, leaving, is_copy=True)
        self.carry("request", found, ms, arrive, partial(self._tell, leaving), self.line_to(effect.node), again)
        return cost_ms

    def line_to(self, node: Node) -> Line:
        """The client's connection to a broker."""
        return self.line(f"{node.id}", partial(self._if_there, partial(self.break_connection, node, "connection lost")))

    def to_client(self, node: Node, ms: int, action: Action) -> None:
        """Something comes to the client, unless its connection is another one by then, or nobody is there any more."""
        self.after(ms, partial(self._if_there, action), self.line_to(node))

    def _if_there(self, action: Action) -> None:
        if not self.is_over:
            action()

    def _tell(self, leaving: Leaving, what: str, **more: int) -> None:
        for where in leaving.places:
            self.record("network", what, **where, **more)

    def _after_answer(self, effect: Send, ms: int, answer: Callable[[], Any]) -> None:
        """A broker answers what anybody can answer, if it hears it and its answers come through."""
        if not self.line_to(effect.node).silent:
            self.to_client(effect.node, ms, lambda: self._receive(effect, answer()))

    def _receive(self, effect: Send, answer: Any) -> None:
        metadata = self.producer.metadata
        version, need_before = metadata.version, metadata.need_update
        self.producer.receive(effect.node, effect.number, answer, self.now_ms)
        if isinstance(effect.request, MetadataRequest):
            parse_ms = self.costs["metadata_parse_ms"]
            self.busy_until_ms = self.now_ms + parse_ms
            if self.producer.sendings:
                self.user_busy_until_ms = self.busy_until_ms
            asked = effect.request
            if parse_ms:
                self.after(parse_ms, lambda: self._note_update(asked, version))
            else:
                self._note_update(asked, version)
        elif metadata.need_update and not need_before:
            self.note_request_update("a leader that is not known")
        self.came_in()

    def _note_update(self, request: MetadataRequest, version: int) -> None:
        metadata = self.producer.metadata
        if metadata.version == version:
            self.record("metadata", "failed_update", attempts=metadata.attempts)
        else:
            told = self.stage_of(4) if self.cluster.topic in {key[0] for key in metadata.cluster.partitions} else {}
            leader = self.producer.leader
            self.record("metadata", "update", version=metadata.version, partial=request.is_partial,
                        nodes=[node.id for node in metadata.cluster.nodes], leader=None if leader is None else leader.id,
                        errors={name: error.name for name, error in metadata.errors.items()},
                        need_update=metadata.need_update, **told)  # fmt: skip
        append_ms = self.costs["append_ms"]
        if self.producer.sendings:
            self.user_busy_until_ms = self.now_ms + append_ms
        self.after(append_ms, self.look_at_sendings)

    def _arrive(self, leaving: Leaving, is_copy: bool = False) -> None:
        """A produce request reaches its broker, which works on one after the other."""
        if self.cluster.number_of(leaving.node) in self.cluster.silent | self.cluster.down:
            return
        cluster = self.cluster
        cluster.busy_until_ms = max(cluster.busy_until_ms, self.now_ms) + int(self.settings.request_cost_ms)
        self.after(cluster.busy_until_ms - self.now_ms, lambda: self._handle(leaving, is_copy))

    def _handle(self, leaving: Leaving, is_copy: bool) -> None:
        """A broker does what a request asks, and answers; the answer to a second copy goes nowhere."""
        if self.cluster.number_of(leaving.node) in self.cluster.down:
            return
        answers = self.cluster.produce(leaving.node, leaving.request, self.now_ms)
        for data in leaving.data:
            told = answers[data["partition"]]
            if told.error is ErrorCode.NONE:
                outcome = self.cluster.leader.last_outcomes.get(data["partition"])
                what = "write" if outcome is Outcome.APPENDED else "recognise"
                self.record("broker", what, **data, offset=told.base_offset, node=leaving.node.id)
            else:
                self.record("broker", "refuse", **data, error=told.error.name, node=leaving.node.id)
        if leaving.node.id in self.cluster.mute or is_copy:
            return
        found = self.interventions.on("answer", leaving.request.number)
        there_ms = self.costs["produce_answer_ms"] or self.round_trip_ms
        come, tell = partial(self._if_there, lambda: self._answer(leaving, answers)), partial(self._tell, leaving)
        self.carry("answer", found, there_ms // 2, come, tell, self.line_to(leaving.node), is_lost_at_once=False)

    def _answer(self, leaving: Leaving, answers: Any) -> None:
        if self.flights.pop(leaving.number, None) is None:
            return
        metadata = self.producer.metadata
        need_before = metadata.need_update
        for where in leaving.places:
            told = answers[where["partition"]]
            self.record("sender", "answer", **where, error=told.error.name, offset=told.base_offset, **self.stage_of(9))
        self.producer.receive(leaving.node, leaving.number, answers, self.now_ms)
        if any(told.error is ErrorCode.NOT_LEADER_OR_FOLLOWER for told in answers.values()):
            self._hear_of_leader()
        if metadata.need_update and not need_before:
            self.note_request_update("the broker is not the leader any more")
        self.came_in()

    def _hear_of_leader(self) -> None:
        """Brokers of today name the new leader in the refusal itself."""
        leader = self.cluster.node(self.cluster.leader_id)
        if self.settings.names_new_leader and self.producer.move_leader(leader, self.cluster.leader_epoch):
            self.record("metadata", "leader", to=leader.id, leader_epoch=self.cluster.leader_epoch, why="named in the refusal")

    def break_connection(self, node: Node, why: str) -> None:
        """The broker's side of a connection is gone, and the client hears of it."""
        self.producer.client.disconnected(node, self.now_ms)
        self._lose(node, why)
        self.came_in()

    def _lose(self, node: Node, why: str) -> None:
        self.line_to(node).cut()
        self.record("network", "disconnected", node=node.id, why=why)
        for number, leaving in list(self.flights.items()):
            if leaving.node.id == node.id:
                del self.flights[number]
                for where in leaving.places:
                    self.record("sender", "no_answer", **where, why=why)

    def state(self) -> dict[str, Any]:
        """The path with its batches, and the metadata's clock."""
        return {"path": self._path_shown(), "clock": self._clock_shown()}

    def _path_shown(self) -> dict[str, Any]:
        """Where everything is that was sent."""
        producer, cluster = self.producer, self.cluster
        queues = {
            str(partition): [[batch.send, batch.count, batch.size_bytes, batch.attempts] for batch in queue]
            for partition, queue in sorted(producer.sender.accumulator.queues.items())
        }
        in_flight = [
            [leaving.request.number, data["batch"], data["partition"], data["last"] - data["first"] + 1, leaving.node.id]
            for leaving in self.flights.values()
            for data in leaving.data
        ]
        return {
            "calls": [[int(sending.value), sending.state] for sending in producer.sendings],
            "queues": queues,
            "in_flight": in_flight,
            "stored": {str(partition): log.end for partition, log in cluster.leader.logs.items()},
            "memory": [producer.pool.available, producer.pool.total_memory, producer.pool.queued],
        }

    def _clock_shown(self) -> dict[str, Any]:
        """How old the metadata is, and when it may and will be asked for."""
        metadata, leader = self.producer.metadata, self.producer.leader
        forgotten = metadata.equivalent_response_count  # looking must change nothing
        shown = {
            "version": metadata.version,
            "need_update": metadata.need_update,
            "partial": metadata.need_partial_update and not metadata.need_full_update,
            "in_progress": self.producer.client.metadata_in_progress is not None,
            "last_refresh_ms": metadata.last_refresh_ms,
            "last_successful_refresh_ms": metadata.last_successful_refresh_ms,
            "expire_ms": metadata.time_to_expire(self.now_ms),
            "allow_ms": max(metadata.time_to_allow_update(self.now_ms), 0),
            "next_ms": metadata.time_to_next_update(self.now_ms),
            "attempts": metadata.attempts,
            "leader": None if leader is None else leader.id,
        }
        metadata.equivalent_response_count = forgotten
        return shown
