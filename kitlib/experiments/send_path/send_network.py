"""The network and the brokers of a send's experiment: what becomes of what the client does.

A request and its answer need `round_trip_ms`. A broker works on one
produce request after the other, `request_cost_ms` on each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kitlib.kafka.broker.leader import Outcome
from kitlib.kafka.client.cluster import MetadataRequest, Node
from kitlib.kafka.client.network_client import ApiVersionsRequest, Connect, Disconnect, Effect, Send
from kitlib.kafka.protocol import ErrorCode, InitProducerIdRequest, PartitionAnswer, ProduceRequest

if TYPE_CHECKING:
    from kitlib.experiments.send_path.send_run import SendRun


@dataclass(slots=True)
class Leaving:
    """A produce request on its way, with what its steps say of it."""

    number: int  # of the client's requests
    node: Node
    request: ProduceRequest
    data: list[dict[str, Any]]  # one for each of its batches


@dataclass(slots=True)
class SendNetwork:
    """What lies between one producer and its brokers."""

    run: SendRun
    connections: dict[int, int] = field(default_factory=dict)  # node -> counts; what left on an older one is lost
    flights: dict[int, Leaving] = field(default_factory=dict)  # produce requests that are waited for
    waiting_answers: list[Callable[[], bool]] = field(default_factory=list)  # of requests with acks=all

    def perform(self, effect: Effect) -> int:
        """Let the network do something; how long the loop is busy with it."""
        if isinstance(effect, Connect):
            return self._connect(effect.node)
        if isinstance(effect, Disconnect):
            self._lose(effect.node, effect.why)
            return 0
        return self._leave(effect)

    def _connect(self, node: Node) -> int:
        is_first = self.run.stage_of(2 if node.id < 0 else 7)
        self.run.record("network", "connect", node=node.id, address=f"{node.host}:{node.port}", **is_first)
        cost_ms = self.run.costs.get("bootstrap_connect_ms" if node.id < 0 else "connect_ms", 0)
        delay_ms = cost_ms or self.run.round_trip_ms
        if self.run.cluster.is_reachable(node):
            self.run.after(delay_ms, self._if_connected(node, lambda: self._connected(node)))
        else:
            self.run.after(delay_ms, self._if_connected(node, lambda: self._refused(node)))
        return cost_ms if node.id < 0 else 0

    def _connected(self, node: Node) -> None:
        self.run.record("network", "connected", node=node.id)
        self.run.producer.client.connected(node, self.run.now_ms)
        self.run.came_in()

    def _refused(self, node: Node) -> None:
        need_before = self.run.producer.metadata.need_update
        attempts = self.run.producer.metadata.attempts
        self.run.producer.client.disconnected(node, self.run.now_ms)
        self.run.record("network", "disconnected", node=node.id, why="connection refused")
        if self.run.producer.metadata.attempts > attempts:
            self.run.record("metadata", "failed_update", attempts=self.run.producer.metadata.attempts)
        elif not need_before:
            self.run.note_request_update("a broker could not be reached")
        self.run.came_in()

    def _leave(self, effect: Send) -> int:
        """A request leaves."""
        node, request = effect.node, effect.request
        if isinstance(request, MetadataRequest):
            has_topics = request.topics is None or bool(request.topics)
            told = self.run.stage_of(3) if has_topics else {}
            names = list(request.topics or ())
            self.run.record("network", "metadata_request", node=node.id, names=names, partial=request.is_partial, **told)
            cost_ms = self.run.costs.get("metadata_request_ms", 0)
            round_trip_ms = self.run.costs.get("metadata_answer_ms", self.run.round_trip_ms)
            self._after_answer(effect, cost_ms + round_trip_ms, lambda: self.run.cluster.metadata(request))
            return cost_ms
        if isinstance(request, ApiVersionsRequest):
            self._after_answer(effect, self.run.round_trip_ms, lambda: None)
        elif isinstance(request, InitProducerIdRequest):
            self.run.record("network", "id_request", node=node.id)
            self._after_answer(effect, self.run.round_trip_ms, lambda: self.run.cluster.leader.init_producer_id(self.run.now_ms))
        elif isinstance(request, ProduceRequest):
            return self._leave_for_leader(effect, request)
        return 0

    def _leave_for_leader(self, effect: Send, request: ProduceRequest) -> int:
        kept = self.run.producer.left[effect.number][1]
        leaving = Leaving(effect.number, effect.node, request, [])
        if request.acks != 0:
            self.flights[effect.number] = leaving
        for batch, its in zip(request.batches, kept.batches, strict=True):
            numbers = [self.run.numbers.in_lane[int(value)][1] for value in batch.values]
            leaving.data.append({"topic": self.run.cluster.topic, "partition": batch.partition, "request": request.number,
                                 "batch": its.send, "first": numbers[0], "last": numbers[-1]})  # fmt: skip
        for data, its in zip(leaving.data, kept.batches, strict=True):
            self.run.record("sender", "request", **data, node=effect.node.id, attempt=its.attempts, **self.run.stage_of(8))
        cost_ms = self.run.costs.get("produce_request_ms", 0)
        there_ms = self.run.costs.get("produce_answer_ms", self.run.round_trip_ms)
        arrive = self._if_connected(effect.node, lambda: self._arrive(leaving), outlives=True)
        self.run.after(cost_ms + there_ms - there_ms // 2, arrive)
        return cost_ms

    # -- the brokers ------------------------------------------------------------------------------

    def _after_answer(self, effect: Send, ms: int, answer: Callable[[], Any]) -> None:
        """A broker answers what anybody can answer."""
        self.run.after(ms, self._if_connected(effect.node, lambda: self._receive(effect, answer())))

    def _receive(self, effect: Send, answer: Any) -> None:
        metadata = self.run.producer.metadata
        version, need_before = metadata.version, metadata.need_update
        self.run.producer.receive(effect.node, effect.number, answer, self.run.now_ms)
        if isinstance(effect.request, MetadataRequest):
            parse_ms = self.run.costs.get("metadata_parse_ms", 0)
            self.run.busy_until_ms = self.run.now_ms + parse_ms
            if self.run.producer.sendings:
                self.run.user_busy_until_ms = self.run.busy_until_ms
            asked = effect.request
            if parse_ms:
                self.run.after(parse_ms, lambda: self._note_update(asked, version))
            else:
                self._note_update(asked, version)
        elif metadata.need_update and not need_before:
            self.run.note_request_update("a leader that is not known")
        self.run.came_in()

    def _note_update(self, request: MetadataRequest, version: int) -> None:
        metadata = self.run.producer.metadata
        if metadata.version == version:
            self.run.record("metadata", "failed_update", attempts=metadata.attempts)
        else:
            told = self.run.stage_of(4) if self.run.cluster.topic in {key[0] for key in metadata.cluster.partitions} else {}
            leader = self.run.producer.leader
            self.run.record("metadata", "update", version=metadata.version, partial=request.is_partial,
                        nodes=[node.id for node in metadata.cluster.nodes], leader=None if leader is None else leader.id,
                        errors={name: error.name for name, error in metadata.errors.items()},
                        need_update=metadata.need_update, **told)  # fmt: skip
        append_ms = self.run.costs.get("append_ms", 0)
        if self.run.producer.sendings:
            self.run.user_busy_until_ms = self.run.now_ms + append_ms
        self.run.after(append_ms, self.run.look_at_sendings)

    def _arrive(self, leaving: Leaving) -> None:
        """A produce request reaches its broker, which works on one after the other."""
        if self.run.cluster.number_of(leaving.node) in self.run.cluster.silent:
            return
        cluster = self.run.cluster
        cluster.busy_until_ms = max(cluster.busy_until_ms, self.run.now_ms) + int(self.run.knobs.get("request_cost_ms", 0))
        self.run.after(cluster.busy_until_ms - self.run.now_ms, lambda: self._handle(leaving))

    def _handle(self, leaving: Leaving) -> None:
        answers = self.run.cluster.produce(leaving.node, leaving.request, self.run.now_ms)
        for data in leaving.data:
            told = answers[data["partition"]]
            if told.error is ErrorCode.NONE:
                outcome = self.run.cluster.leader.last_outcomes.get(data["partition"])
                what = "write" if outcome is Outcome.APPENDED else "recognise"
                self.run.record("broker", what, **data, offset=told.base_offset, node=leaving.node.id)
            else:
                self.run.record("broker", "refuse", **data, error=told.error.name, node=leaving.node.id)
        if leaving.request.acks == 0 or leaving.node.id in self.run.cluster.mute:
            return
        there_ms = self.run.costs.get("produce_answer_ms", self.run.round_trip_ms)
        action = self._if_connected(leaving.node, lambda: self._answer(leaving, answers))

        def answer_if_replicated() -> bool:
            if any(told.error is ErrorCode.NONE for told in answers.values()) and not self.run.cluster.is_replicated(leaving.request):
                return False
            cluster = self.run.cluster
            if leaving.request.acks == -1 and not cluster.has_enough_in_sync:
                for partition in [number for number, told in answers.items() if told.error is ErrorCode.NONE]:
                    answers[partition] = PartitionAnswer(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
            self.run.after(there_ms // 2, action)
            return True

        if not answer_if_replicated():
            self.waiting_answers.append(answer_if_replicated)

    def look_at_replicas(self) -> None:
        """Answers that waited for the ISR set out once it has, or has become smaller."""
        self.waiting_answers = [waiting for waiting in self.waiting_answers if not waiting()]

    def _answer(self, leaving: Leaving, answers: Any) -> None:
        if self.flights.pop(leaving.number, None) is None:
            return
        metadata = self.run.producer.metadata
        need_before = metadata.need_update
        for data in leaving.data:
            told = answers[data["partition"]]
            where = {name: data[name] for name in ("topic", "partition", "request", "batch")}
            self.run.record("sender", "answer", **where, error=told.error.name, offset=told.base_offset, **self.run.stage_of(9))
        self.run.producer.receive(leaving.node, leaving.number, answers, self.run.now_ms)
        if any(told.error is ErrorCode.NOT_LEADER_OR_FOLLOWER for told in answers.values()):
            self._hear_of_leader()
        if metadata.need_update and not need_before:
            self.run.note_request_update("the broker is not the leader any more")
        self.run.came_in()

    def _hear_of_leader(self) -> None:
        """Brokers of today name the new leader in the refusal itself."""
        leader = self.run.cluster.node(self.run.cluster.leader_id)
        if self.run.knobs.get("names_new_leader", True) and self.run.producer.move_leader(leader, self.run.cluster.leader_epoch):
            self.run.record("metadata", "leader", to=leader.id, leader_epoch=self.run.cluster.leader_epoch, why="named in the refusal")

    def _if_connected(self, node: Node, action: Callable[[], None], outlives: bool = False) -> Callable[[], None]:
        """`action`, unless the connection is another one by then, or nobody is there any more.

        A request that has left `outlives` the process that sent it.
        """
        connection = self.connections.get(node.id, 0)

        def act() -> None:
            if self.connections.get(node.id, 0) == connection and (outlives or not self.run.is_over):
                action()

        return act

    def break_connection(self, node: Node, why: str) -> None:
        """The broker's side of a connection is gone, and the client hears of it."""
        self.run.producer.client.disconnected(node, self.run.now_ms)
        self._lose(node, why)
        self.run.came_in()

    def _lose(self, node: Node, why: str) -> None:
        self.connections[node.id] = self.connections.get(node.id, 0) + 1
        self.run.record("network", "disconnected", node=node.id, why=why)
        for number, leaving in list(self.flights.items()):
            if leaving.node.id == node.id:
                del self.flights[number]
                for data in leaving.data:
                    where = {name: data[name] for name in ("topic", "partition", "request", "batch")}
                    self.run.record("sender", "no_answer", **where, why=why)
