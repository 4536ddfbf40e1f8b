"""The network and the brokers of a send's experiment: what becomes of what the client does.

A request and its answer need `round_trip_ms`. A broker works on one
produce request after the other, `request_cost_ms` on each. What a script does to a message it does to a
produce request or to its answer; what leaves behind a message that is late waits for it on the same connection, and
what leaves behind a message that is lost is lost with it, until the client or, after LOST_MS, the network ends the connection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kitlib.experiments.send_path.send_cluster import SendCluster
from kitlib.experiments.world import Action, Line, World
from kitlib.mechanisms.broker.leader import Outcome
from kitlib.mechanisms.protocol import ErrorCode, InitProducerIdRequest, PartitionAnswer, ProduceRequest
from kitlib.more.client.cluster import MetadataRequest, Node
from kitlib.more.client.network_client import ApiVersionsRequest, Connect, Disconnect, Effect, Send
from kitlib.more.client.send_path import KafkaProducer


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
class SendNetwork(World):
    """What lies between one producer and its brokers; the run that turns the producer's loop builds upon it."""

    cluster: SendCluster = field(init=False)
    producer: KafkaProducer = field(init=False)
    records: int = 0  # handed over so far, over all partitions
    lanes: Counter[int] = field(default_factory=Counter)  # partition -> records in it so far
    in_lane: dict[int, tuple[int, int]] = field(default_factory=dict)  # record -> (partition, its number there)
    of_batch: dict[int, list[int]] = field(default_factory=dict)  # batch -> its records
    open_records: int = 0  # that lie in batches and of whose end the user has not heard
    costs: dict[str, int] = field(default_factory=dict)  # ms that the client's threads need themselves, see `two_sends`
    round_trip_ms: int = 10  # of a request and its answer
    busy_until_ms: int = 0  # the loop does something else until then
    user_busy_until_ms: int = 0  # the user's thread does something else until then
    stages_told: set[int] = field(default_factory=set)
    is_over: bool = False  # the client's process has ended
    flights: dict[int, Leaving] = field(default_factory=dict)  # produce requests that are waited for
    waiting_answers: list[Callable[[], bool]] = field(default_factory=list)  # of requests with acks=all

    def came_in(self) -> None:
        """Something came from the network: the user is told what it means, and the loop does not sleep any longer."""
        raise NotImplementedError

    def look_at_sendings(self) -> None:
        """Calls that wait may be over."""
        raise NotImplementedError

    def note_request_update(self, why: str) -> None:
        """Metadata is wanted."""
        metadata = self.producer.metadata
        self.record("metadata", "request_update", full=metadata.need_full_update, version=metadata.version, why=why)

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
            self._lose(effect.node, effect.why)
            return 0
        return self._leave(effect)

    def _connect(self, node: Node) -> int:
        is_first = self.stage_of(2 if node.id < 0 else 7)
        self.record("network", "connect", node=node.id, address=f"{node.host}:{node.port}", **is_first)
        cost_ms = self.costs.get("bootstrap_connect_ms" if node.id < 0 else "connect_ms", 0)
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
            cost_ms = self.costs.get("metadata_request_ms", 0)
            round_trip_ms = self.costs.get("metadata_answer_ms", self.round_trip_ms)
            self._after_answer(effect, cost_ms + round_trip_ms, lambda: self.cluster.metadata(request))
            return cost_ms
        if isinstance(request, ApiVersionsRequest):
            self._after_answer(effect, self.round_trip_ms, lambda: None)
        elif isinstance(request, InitProducerIdRequest):
            self.record("network", "id_request", node=node.id)
            self._after_answer(effect, self.round_trip_ms, lambda: self.cluster.leader.init_producer_id(self.now_ms))
        elif isinstance(request, ProduceRequest):
            return self._leave_for_leader(effect, request)
        return 0

    def _leave_for_leader(self, effect: Send, request: ProduceRequest) -> int:
        kept = self.producer.left[effect.number][1]
        leaving = Leaving(effect.number, effect.node, request, [])
        if request.acks != 0:
            self.flights[effect.number] = leaving
        for batch, its in zip(request.batches, kept.batches, strict=True):
            numbers = [self.in_lane[int(value)][1] for value in batch.values]
            leaving.data.append({"topic": self.cluster.topic, "partition": batch.partition, "request": request.number,
                                 "batch": its.send, "first": numbers[0], "last": numbers[-1]})  # fmt: skip
        for data, its in zip(leaving.data, kept.batches, strict=True):
            self.record("sender", "request", **data, node=effect.node.id, attempt=its.attempts, **self.stage_of(8))
        cost_ms = self.costs.get("produce_request_ms", 0)
        there_ms = self.costs.get("produce_answer_ms", self.round_trip_ms)
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
            parse_ms = self.costs.get("metadata_parse_ms", 0)
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
        append_ms = self.costs.get("append_ms", 0)
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
        if leaving.request.acks == 0 or leaving.node.id in self.cluster.mute or is_copy:
            return
        found = self.interventions.on("answer", leaving.request.number)
        there_ms = self.costs.get("produce_answer_ms", self.round_trip_ms)
        come, tell = partial(self._if_there, lambda: self._answer(leaving, answers)), partial(self._tell, leaving)
        line = self.line_to(leaving.node)
        number = line.number

        def answer_if_replicated() -> bool:
            if any(told.error is ErrorCode.NONE for told in answers.values()) and not self.cluster.is_replicated(leaving.request):
                return False
            cluster = self.cluster
            if leaving.request.acks == -1 and not cluster.has_enough_in_sync:
                for partition in [number for number, told in answers.items() if told.error is ErrorCode.NONE]:
                    answers[partition] = PartitionAnswer(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            if line.number == number:
                self.carry("answer", found, there_ms // 2, come, tell, line, is_lost_at_once=False)
            return True

        if not answer_if_replicated():
            self.waiting_answers.append(answer_if_replicated)

    def look_at_replicas(self) -> None:
        """Answers that waited for the ISR set out once it has, or has become smaller."""
        self.waiting_answers = [waiting for waiting in self.waiting_answers if not waiting()]

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
