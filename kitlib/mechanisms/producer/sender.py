"""The sender's loop: time and responses go in, requests and completions come out.

One call of `poll` is one run of the loop in Kafka's client: settle what is unresolved, raise the epoch
or ask for an id if need be, drain at most one batch of each partition into a request, expire what is
too old, and only then look at the responses that have come in. What a run does depends on the state of
the producer's id (`TransactionManager.state`); whether a run is needed at all is the loop's own state:

    AWAKE ──run found nothing to do──► IDLE ──send, flush, response──► AWAKE
    any ──disconnect──► DISCONNECTED ──run reports what was lost──► AWAKE

`RELEASE_RULES` says what differs by release. There is no socket and no clock, so a test, an
experiment or a connection to a real broker can drive the loop, and it accepts what the real clients
refuse, such as six requests in flight. Left out: transactions, metadata, throttling, several brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from kitlib.mechanisms.producer.accumulator import RecordAccumulator
from kitlib.mechanisms.producer.batch import ProducerBatch
from kitlib.mechanisms.producer.config import ProducerConfig
from kitlib.mechanisms.producer.earlier import EarlierAccumulator, EarlierTransactionManager
from kitlib.mechanisms.producer.exceptions import KAFKA, TIMEOUT, exception_name
from kitlib.mechanisms.producer.transaction_manager import IllegalStateError, ProducerState, TransactionManager
from kitlib.mechanisms.protocol import (
    INVALID_OFFSET,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ErrorCode,
    InitProducerIdAnswer,
    InitProducerIdRequest,
    PartitionAnswer,
    ProduceAnswer,
    ProduceRequest,
)

LOST = PartitionAnswer(ErrorCode.NETWORK_EXCEPTION)
NO_ANSWER_WANTED = PartitionAnswer()


@dataclass(frozen=True, slots=True)
class Completion:
    """How one batch ended for the user: `count` records of a send, starting at its record `first`."""

    send: int
    first: int  # above 0 only for the later parts of a batch that was split
    count: int
    error: str | None  # an exception class of Java's client; None: stored
    offset: int  # of the record `first`; INVALID_OFFSET when it failed or the broker did not say
    partition: int = 0


@dataclass(frozen=True, slots=True)
class SenderEvent:
    """Something in the client that no request, response or completion shows.

    `what`: "requeue" (a batch waits for another attempt), "split" (the parts took its place), "expire"
    (it timed out), "drop" (a late response to a batch that had already completed), "init" (an id came),
    "bump" (the epoch was raised), "reset" (the id was given up).
    """

    what: str
    batch: ProducerBatch | None = None
    producer_id: int = NO_PRODUCER_ID  # the producer's new ones
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(slots=True)
class InFlightRequest:
    """A request that was sent and has no response yet."""

    request: ProduceRequest  # with the numbers on the wire
    batches: tuple[ProducerBatch, ...]  # in the same order; their numbers may have been rewritten since
    sent_ms: int


class LoopState(Enum):
    """Whether the loop has to run now."""

    AWAKE = "awake"  # something came in since the last run, or that run did something
    IDLE = "idle"  # the last run found nothing to do; until something comes in, only time can change that
    DISCONNECTED = "disconnected"  # nothing is sent before a run has reported what the connection lost


@dataclass(frozen=True, slots=True)
class ReleaseRules:
    """What one release's loop does differently, and the ledgers that it keeps."""

    transaction_manager: type[TransactionManager]
    accumulator: type[RecordAccumulator]
    has_delivery_timeout: bool  # also batches in flight expire, and none is retried after it (KIP-91, since 2.1)
    request_grace_ms: int  # a request is overdue this long after its timeout
    fails_ended_batches: bool  # a failure changes the numbers even if the batch had already completed for the user


RELEASE_RULES = {
    "4.3": ReleaseRules(TransactionManager, RecordAccumulator, True, 0, False),
    "2.0": ReleaseRules(EarlierTransactionManager, EarlierAccumulator, False, 1, True),
}


@dataclass(slots=True, repr=False)
class Sender:
    """One producer: its queues, its numbers, and the requests that are out.

    Source: Apache Kafka 4.3.1, `Sender`; 2.0.0 with `config.release` "2.0".
    Differs: one broker leads all partitions; a lost connection is reported by `disconnect` or `receive`. A
    request that times out counts as lost with its connection, NETWORK_EXCEPTION, as in the recordings; the
    real `NetworkClient` waits one ms more and calls it REQUEST_TIMED_OUT. Both are retried.
    """

    config: ProducerConfig
    partitions: Sequence[int] = (0,)  # in the order in which a drain visits them
    now_ms: int = 0
    manager_type: type[TransactionManager] | None = None  # None: the release's own. Another one,
    accumulator_type: type[RecordAccumulator] | None = None  # such as the learner's, can take its place
    times_out_requests: bool = True  # False where a network client drops the connection of an overdue request
    rules: ReleaseRules = field(init=False)
    transaction_manager: TransactionManager | None = field(init=False)  # None without idempotence
    accumulator: RecordAccumulator = field(init=False)
    in_flight_requests: dict[int, InFlightRequest] = field(default_factory=dict)  # oldest first
    in_flight_batches: dict[int, list[ProducerBatch]] = field(default_factory=dict)  # partition -> those out
    # with a request, oldest first; without those that expired meanwhile (4.3 only)
    requests: int = 0  # produce requests made so far
    connection_drops: int = 0  # grows when a request timed out: the driver closes the connection
    events: list[SenderEvent] = field(default_factory=list)  # of the last poll
    last_sent: list[InFlightRequest] = field(default_factory=list)  # by the last poll, also those with acks=0
    completions: list[Completion] = field(default_factory=list)  # not yet fetched
    answers: list[tuple[InFlightRequest, ProduceAnswer | None]] = field(default_factory=list)  # for the next poll
    state: LoopState = LoopState.AWAKE
    id_retry_at_ms: int = 0  # an id is not asked for again before

    def __post_init__(self) -> None:
        self.rules = RELEASE_RULES[self.config.release]
        manager = self.manager_type or self.rules.transaction_manager
        accumulator = self.accumulator_type or self.rules.accumulator
        self.transaction_manager = manager() if self.config.enable_idempotence else None
        self.accumulator = accumulator(self.config, self.partitions, self.transaction_manager)

    def __repr__(self) -> str:
        producer_id, epoch = self.producer_id_and_epoch
        waiting = sum(map(len, self.accumulator.queues.values()))
        name = f"producer {producer_id} epoch {epoch}" if self.transaction_manager else "no idempotence"
        return f"<Sender: {name}, {waiting} batches waiting, {len(self.in_flight_requests)} requests in flight>"

    # The user's side

    def send(self, partition: int, now_ms: int, values: Sequence[bytes]) -> int:
        """Hand over one closed batch; the send's number, from 0."""
        self._wake()
        return self.accumulator.send(partition, values, now_ms).send

    def append(self, partition: int, value: bytes, now_ms: int) -> int:
        """Hand over one record; it joins the partition's open batch. Returns the number of that batch's send."""
        self._wake()
        return self.accumulator.append(partition, value, now_ms).send

    def flush(self) -> None:
        """Let open batches leave with the records that they have."""
        self._wake()
        for queue in self.accumulator.queues.values():
            if queue:
                queue[-1].is_open = False

    def completed(self) -> list[Completion]:
        """What completed since the last call."""
        completed, self.completions = self.completions, []
        return completed

    @property
    def producer_id_and_epoch(self) -> tuple[int, int]:
        """What the next batch is numbered under; (-1, -1) without idempotence or before the id is there."""
        manager = self.transaction_manager
        return (manager.producer_id, manager.producer_epoch) if manager else (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

    @property
    def is_idle(self) -> bool:
        """Whether the last poll had nothing to do, and nothing came in since."""
        return self.state is LoopState.IDLE

    # The network's side

    def poll(self, now_ms: int, connected: bool = True) -> list[ProduceRequest | InitProducerIdRequest]:
        """One run of the loop: the requests to send. Responses received now take effect in the next poll.

        `connected`: False while the driver has no connection yet; then no batch leaves.
        """
        self.now_ms = now_ms
        self.events = []
        self.last_sent = []
        completed = len(self.completions)
        has_news = bool(self.answers) or self.state is LoopState.DISCONNECTED
        if not connected:
            self.state = LoopState.DISCONNECTED
        before = self.producer_id_and_epoch
        requests = self._run(now_ms)
        after = self.producer_id_and_epoch
        if after != before:
            self.events.append(SenderEvent("bump" if after[0] == before[0] else "reset", None, *after))
        did_something = requests or has_news or self.events or len(self.completions) != completed
        self.state = LoopState.AWAKE if did_something else LoopState.IDLE
        return requests

    def receive(self, request_number: int, answer: ProduceAnswer | None) -> None:
        """Queue the answer to a request; None: it was lost with its connection. An unknown number is ignored."""
        request = self.in_flight_requests.pop(request_number, None)
        if request is not None:
            self._wake()
            self.answers.append((request, answer))

    def take_answers(self, now_ms: int) -> list[SenderEvent]:
        """Process the responses received so far, without a run of the loop; what happened to their batches.

        A client that sleeps on its network calls this with each answer, as Java's does before its next run: an
        answer of the very millisecond in which the delivery timeout ends still counts.
        """
        of_poll, self.events = self.events, []
        self._take_answers(now_ms)
        of_answers, self.events = self.events, of_poll
        return of_answers

    def receive_id(self, answer: InitProducerIdAnswer) -> None:
        """The answer to an InitProducerIdRequest."""
        manager = self.transaction_manager
        if manager is None or not manager.id_request_in_flight:
            return
        self._wake()
        manager.receive_id(answer)
        if manager.id_request_due:
            self.id_retry_at_ms = self.now_ms + self.config.retry_backoff_ms
        elif manager.has_producer_id:
            self.events.append(SenderEvent("init", None, manager.producer_id, manager.producer_epoch))

    def disconnect(self) -> None:
        """The connection is gone: all requests on it are lost. Nothing is sent before the next poll has said so."""
        self.state = LoopState.DISCONNECTED
        self._lose_requests()
        if self.transaction_manager is not None:
            self.transaction_manager.id_request_lost()

    def next_event_ms(self, now_ms: int) -> int | None:
        """The latest time at which `poll` has something to do, if nothing comes in before; None: never."""
        if not self.is_idle:
            return now_ms
        times = [self._next_expiry_ms(), self._request_timeout_at_ms()]
        manager = self.transaction_manager
        if manager is not None and manager.id_request_due:
            times.append(self.id_retry_at_ms)
        delay = self.accumulator.ready(now_ms)[1]
        if delay:
            times.append(now_ms + delay)
        return min((max(time, now_ms) for time in times if time is not None), default=None)

    # One run of the loop

    def _run(self, now_ms: int) -> list[ProduceRequest | InitProducerIdRequest]:
        manager = self.transaction_manager
        if manager is not None:
            manager.maybe_resolve_sequences()
            if manager.state is ProducerState.FATAL_ERROR:
                self.abort_batches(manager.last_error)
                self._deliver(now_ms)
                return []
            if manager.state is ProducerState.ABORTABLE_ERROR:
                self.abort_batches(manager.last_error)
                manager.transition_to(ProducerState.UNINITIALIZED)  # from here the producer may ask again
                return []
            manager.maybe_bump()
            if manager.state is ProducerState.INITIALIZING:
                return self._ask_for_id(manager, now_ms)
        requests = self._send_producer_data(now_ms)
        self._deliver(now_ms)
        return requests

    def _ask_for_id(self, manager: TransactionManager, now_ms: int) -> list[ProduceRequest | InitProducerIdRequest]:
        """Nothing else leaves until the id is there."""
        self._deliver(now_ms)
        if manager.id_request_in_flight or now_ms < self.id_retry_at_ms:
            return []
        manager.id_request_in_flight = True
        return [InitProducerIdRequest()]

    def _send_producer_data(self, now_ms: int) -> list[ProduceRequest | InitProducerIdRequest]:
        batches: list[ProducerBatch] = []
        if self._can_send and self.accumulator.ready(now_ms)[0]:
            batches = self.accumulator.drain(now_ms)
        for batch in batches:
            self.in_flight_batches.setdefault(batch.partition, []).append(batch)
            if self.config.max_in_flight_requests_per_connection == 1:
                self.accumulator.muted.add(batch.partition)
        self._expire(now_ms)  # after the drain: a batch can be failed to the user and leave all the same
        if not batches:
            return []
        request = ProduceRequest(
            self.requests,
            tuple(batch.on_wire() for batch in batches),
            self.config.acks,
            self.config.request_timeout_ms,
        )
        self.requests += 1
        sent = InFlightRequest(request, tuple(batches), now_ms)
        self.last_sent.append(sent)
        if self.config.acks == 0:
            self.answers.append((sent, {batch.partition: NO_ANSWER_WANTED for batch in batches}))
        else:
            self.in_flight_requests[request.number] = sent
        return [request]

    @property
    def _can_send(self) -> bool:
        room = len(self.in_flight_requests) < self.config.max_in_flight_requests_per_connection
        return room and self.state is not LoopState.DISCONNECTED

    def _expire(self, now_ms: int) -> None:
        """Fail what is older than its timeout; one that was tried before leaves its sequence in doubt."""
        expired = self.accumulator.expired_batches(now_ms)
        if self.rules.has_delivery_timeout:
            expired += self._expired_in_flight(now_ms)
        for batch in expired:
            self.events.append(SenderEvent("expire", batch))
            self._fail(batch, None, adjust=False)
            if self.transaction_manager is not None and batch.in_retry:
                self.transaction_manager.mark_sequence_unresolved(batch)

    def _expired_in_flight(self, now_ms: int) -> list[ProducerBatch]:
        expired: list[ProducerBatch] = []
        for partition in self.partitions:
            out = self.in_flight_batches.get(partition, [])
            while out and out[0].has_reached(self.config.delivery_timeout_ms, now_ms):
                expired.append(out.pop(0))
        return [batch for batch in expired if not batch.is_done]

    def _next_expiry_ms(self) -> int | None:
        times = [self.accumulator.next_expiry_ms()]
        if self.rules.has_delivery_timeout:
            created = [out[0].created_ms for out in self.in_flight_batches.values() if out]
            times += [time + self.config.delivery_timeout_ms for time in created]
        return min((time for time in times if time is not None), default=None)

    # Answers

    def _deliver(self, now_ms: int) -> None:
        """Look at the answers that have come in, and drop the connection if one is overdue."""
        overdue_ms = self._request_timeout_at_ms()
        if overdue_ms is not None and now_ms >= overdue_ms:
            self.connection_drops += 1
            self._lose_requests()
        self._take_answers(now_ms)

    def _take_answers(self, now_ms: int) -> None:
        while self.answers:
            sent, answer = self.answers.pop(0)
            try:
                for batch in sent.batches:
                    if answer is None:
                        self._complete(batch, LOST, now_ms)
                    elif batch.partition in answer:
                        self._complete(batch, answer[batch.partition], now_ms)
            except IllegalStateError:
                break  # Java's loop logs it and starts its next run; the batch is out of all queues

    def _request_timeout_at_ms(self) -> int | None:
        """When the oldest request has waited long enough."""
        oldest = next(iter(self.in_flight_requests.values()), None)
        if oldest is None or not self.times_out_requests:
            return None
        return oldest.sent_ms + self.config.request_timeout_ms + self.rules.request_grace_ms

    def _lose_requests(self) -> None:
        for sent in self.in_flight_requests.values():
            self.answers.append((sent, None))
        self.in_flight_requests = {}

    def _complete(self, batch: ProducerBatch, answer: PartitionAnswer, now_ms: int) -> None:
        """What one answer means for its batch: stored, split, retried or failed."""
        error = answer.error
        manager = self.transaction_manager
        if error is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1 and not batch.is_done:
            if manager is not None:
                manager.remove_in_flight(batch)
            self.accumulator.split_and_reenqueue(batch)
            self.events.append(SenderEvent("split", batch))
            self._leave_flight(batch)
        elif error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._succeed(batch, answer)  # a duplicate without its offset is stored all the same
        elif self._can_retry(batch, answer, now_ms):
            if manager is None or manager.may_reenqueue(batch):
                self.events.append(SenderEvent("requeue", batch))
                self.accumulator.reenqueue(batch, now_ms)
                self._leave_flight(batch)
            else:
                self._fail(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, adjust=False)  # the id changed meanwhile
        else:
            # Out of retries: it is unknown whether it was written, so its numbers stay taken.
            self._fail(batch, error, adjust=batch.attempts < self.config.retries)
        if self.config.max_in_flight_requests_per_connection == 1:
            self.accumulator.muted.discard(batch.partition)

    def _can_retry(self, batch: ProducerBatch, answer: PartitionAnswer, now_ms: int) -> bool:
        if batch.attempts >= self.config.retries:
            return False
        is_over = batch.is_done or batch.has_reached(self.config.delivery_timeout_ms, now_ms)
        if is_over and self.rules.has_delivery_timeout:
            return False
        manager = self.transaction_manager
        return answer.error.is_retriable if manager is None else manager.can_retry(batch, answer)

    def _succeed(self, batch: ProducerBatch, answer: PartitionAnswer) -> None:
        if self.transaction_manager is not None:
            self.transaction_manager.handle_completed_batch(batch, answer)
        self._end(batch, "SUCCEEDED", None, answer.base_offset)

    def _fail(self, batch: ProducerBatch, error: ErrorCode | None, adjust: bool) -> None:
        """The numbers first, then the user; `error` None: it expired. `adjust`: see `handle_failed_batch`."""
        manager = self.transaction_manager
        if manager is not None and (not batch.is_done or self.rules.fails_ended_batches):
            manager.handle_failed_batch(batch, error, adjust)
        self._end(batch, "FAILED", TIMEOUT if error is None else exception_name(error, self.config.release))

    def _end(self, batch: ProducerBatch, final_state: str, error: str | None, offset: int = INVALID_OFFSET) -> None:
        """Tell the user how the batch ended. If that was told before, this answer is late, and changes nothing."""
        if batch.done(final_state):
            self.completions.append(Completion(batch.send, batch.first, batch.count, error, offset, batch.partition))
            self._leave_flight(batch)
        else:
            self.events.append(SenderEvent("drop", batch))

    def abort_batches(self, exception: str | None = None) -> None:
        """Fail every batch that has not completed, waiting or in flight."""
        open_ends = [batch for queue in self.accumulator.queues.values() for batch in queue]
        open_ends += [batch for out in self.in_flight_batches.values() for batch in out]
        for queue in self.accumulator.queues.values():
            queue.clear()
        self.in_flight_batches.clear()
        for batch in sorted(open_ends, key=lambda batch: batch.number):
            if not batch.is_done:
                self._end(batch, "ABORTED", exception or KAFKA)

    def _leave_flight(self, batch: ProducerBatch) -> None:
        out = self.in_flight_batches.get(batch.partition)
        if out is not None and batch in out:
            out.remove(batch)

    def _wake(self) -> None:
        """The user handed something over, or a response came."""
        if self.state is LoopState.IDLE:
            self.state = LoopState.AWAKE
