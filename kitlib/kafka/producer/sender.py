"""The loop that sends: requests come out, answers and time go in.

One call of `poll` is one run of the loop in Kafka's client: settle what is unresolved, raise the epoch
or ask for an id if need be, drain at most one batch of each partition into a request, expire what is
too old, and only then look at the answers that have come in. It has no socket and no clock, so that a
test, an experiment or a wire to a real broker can drive it. It accepts what the real clients refuse,
such as six requests in flight. Left out: transactions, metadata, throttling, several brokers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kitlib.kafka.producer.accumulator import RecordAccumulator
from kitlib.kafka.producer.batch import ProducerBatch
from kitlib.kafka.producer.config import ProducerConfig
from kitlib.kafka.producer.earlier import EarlierAccumulator, EarlierTransactionManager
from kitlib.kafka.producer.effects import Completion, Happening, InFlightRequest
from kitlib.kafka.producer.exceptions import KAFKA, TIMEOUT, exception_name
from kitlib.kafka.producer.transaction_manager import IllegalStateError, State, TransactionManager
from kitlib.kafka.protocol import (
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

__all__ = ["Completion", "Happening", "InFlightRequest", "Sender"]

LOST = PartitionAnswer(ErrorCode.NETWORK_EXCEPTION)
NO_ANSWER_WANTED = PartitionAnswer()


@dataclass(slots=True, repr=False)
class Sender:
    """One producer: its queues, its numbers, and the requests that are out.

    Source: Apache Kafka 4.3.1, `Sender`; 2.0.0 with `config.release` "2.0".
    Differs: one broker leads all partitions; a lost connection is reported by `disconnect` or `receive`. A
    request that times out is taken for lost with its connection, NETWORK_EXCEPTION, as in the recordings; the
    real `NetworkClient` waits one ms more and calls it REQUEST_TIMED_OUT. Both are retried.
    """

    config: ProducerConfig
    partitions: Sequence[int] = (0,)  # in the order in which a drain visits them
    now_ms: int = 0
    manager_type: type[TransactionManager] | None = None  # None: as `config.release` has it. Another one,
    accumulator_type: type[RecordAccumulator] | None = None  # such as the learner's own, can take its place
    transaction_manager: TransactionManager | None = field(init=False)  # None without idempotence
    accumulator: RecordAccumulator = field(init=False)
    in_flight_requests: dict[int, InFlightRequest] = field(default_factory=dict)  # oldest first
    in_flight_batches: dict[int, list[ProducerBatch]] = field(default_factory=dict)  # partition -> those out
    # with a request, oldest first; without those that expired meanwhile (4.3 only)
    requests: int = 0  # produce requests made so far
    connection_drops: int = 0  # grows when a request timed out: the driver closes the connection
    happenings: list[Happening] = field(default_factory=list)  # of the last poll
    last_sent: list[InFlightRequest] = field(default_factory=list)  # by the last poll, also those with acks=0
    completions: list[Completion] = field(default_factory=list)  # not yet fetched
    answers: list[tuple[InFlightRequest, ProduceAnswer | None]] = field(default_factory=list)  # for the next poll
    connection_is_down: bool = False  # nothing is sent by the next poll, which reports what was lost. A driver that
    # has no connection yet sets it before each poll
    loss_is_news: bool = False  # `disconnect` was called, and no poll has been since
    is_watching: bool = True  # over overdue requests; a network client that does it turns this off
    id_retry_at_ms: int = 0  # an id is not asked for again before
    is_idle: bool = False  # the last poll had nothing to do, and nothing came in since

    def __post_init__(self) -> None:
        earlier = self.config.release == "2.0"
        manager = self.manager_type or (EarlierTransactionManager if earlier else TransactionManager)
        accumulator = self.accumulator_type or (EarlierAccumulator if earlier else RecordAccumulator)
        self.transaction_manager = manager() if self.config.enable_idempotence else None
        self.accumulator = accumulator(self.config, self.partitions, self.transaction_manager)

    def __repr__(self) -> str:
        producer_id, epoch = self.producer_id_and_epoch
        waiting = sum(map(len, self.accumulator.queues.values()))
        name = f"producer {producer_id} epoch {epoch}" if self.transaction_manager else "no idempotence"
        return f"<Sender: {name}, {waiting} batches waiting, {len(self.in_flight_requests)} requests in flight>"

    # The user's side

    def send(self, partition: int, now_ms: int, values: Sequence[bytes] = (), count: int | None = None) -> int:
        """Hand over one closed batch, of `values` or, where only numbers matter, of `count` records.

        Returns the send's number, from 0.
        """
        self.is_idle = False
        return self.accumulator.send(partition, values, len(values) if count is None else count, now_ms).send

    def append(self, partition: int, value: bytes, now_ms: int) -> int:
        """Hand over one record; it joins the partition's open batch. Returns the number of that batch's send."""
        self.is_idle = False
        return self.accumulator.append(partition, value, now_ms).send

    def flush(self) -> None:
        """Let open batches leave with the records that they have."""
        self.is_idle = False
        for queue in self.accumulator.queues.values():
            if queue:
                queue[-1].is_open = False

    @property
    def has_unfinished(self) -> bool:
        """Whether the user still waits for the end of any batch."""
        out = (batch for batches in self.in_flight_batches.values() for batch in batches)
        return self.accumulator.has_undrained or any(not batch.is_done for batch in out)

    def completed(self) -> list[Completion]:
        """What ended since the last call."""
        told, self.completions = self.completions, []
        return told

    @property
    def producer_id_and_epoch(self) -> tuple[int, int]:
        """What the next batch is numbered under; (-1, -1) without idempotence or before the id is there."""
        manager = self.transaction_manager
        return (manager.producer_id, manager.producer_epoch) if manager else (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

    # The wire's side

    def poll(self, now_ms: int) -> list[ProduceRequest | InitProducerIdRequest]:
        """One run of the loop: the requests to send. Answers that were received count from the next poll on."""
        self.now_ms = now_ms
        self.happenings = []
        self.last_sent = []
        told = len(self.completions)
        had_answers = bool(self.answers) or self.loss_is_news
        self.loss_is_news = False
        before = self.producer_id_and_epoch
        requests = self._run(now_ms)
        after = self.producer_id_and_epoch
        if after != before:
            self.happenings.append(Happening("bump" if after[0] == before[0] else "reset", None, *after))
        self.is_idle = not (requests or had_answers or self.happenings or len(self.completions) != told)
        return requests

    def receive(self, request_number: int, answer: ProduceAnswer | None) -> None:
        """Queue the answer to a request; None: it was lost with its connection. An unknown number is ignored."""
        request = self.in_flight_requests.pop(request_number, None)
        if request is not None:
            self.is_idle = False
            self.answers.append((request, answer))

    def take_answers(self, now_ms: int) -> list[Happening]:
        """Look at the answers that have come in now, without a run of the loop; what happened to their batches.

        A client that sleeps on its network calls this with each answer, as Java's does before its next run: an
        answer of the very millisecond in which the delivery time-out ends still counts.
        """
        polled, self.happenings = self.happenings, []
        self._take_answers(now_ms)
        meant, self.happenings = self.happenings, polled
        return meant

    def receive_id(self, answer: InitProducerIdAnswer) -> None:
        """The answer to an InitProducerIdRequest."""
        manager = self.transaction_manager
        if manager is None or not manager.id_request_out:
            return
        self.is_idle = False
        manager.receive_id(answer)
        if manager.id_request_due:
            self.id_retry_at_ms = self.now_ms + self.config.retry_backoff_ms
        elif manager.has_producer_id:
            self.happenings.append(Happening("init", None, manager.producer_id, manager.producer_epoch))

    def disconnect(self) -> None:
        """The connection is gone: all requests on it are lost. Nothing is sent before the next poll has said so."""
        self.is_idle = False
        self.connection_is_down = self.loss_is_news = True
        self._lose_requests()
        if self.transaction_manager is not None:
            self.transaction_manager.id_request_lost()

    def next_event_ms(self, now_ms: int) -> int | None:
        """When `poll` has something to do at the latest, if nothing comes in until then; None: never."""
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
            if manager.has_fatal_error:
                self._abort_batches(manager.last_error)
                self._deliver(now_ms)
                return []
            if manager.state is State.ABORTABLE_ERROR:
                self._abort_batches(manager.last_error)
                manager.forget_refusal()
                return []
            manager.maybe_bump()
            if manager.id_request_due or manager.id_request_out:
                return self._ask_for_id(manager, now_ms)
        requests = self._send_producer_data(now_ms)
        self._deliver(now_ms)
        return requests

    def _ask_for_id(self, manager: TransactionManager, now_ms: int) -> list[ProduceRequest | InitProducerIdRequest]:
        """Nothing else leaves until the id is there."""
        self._deliver(now_ms)
        if manager.id_request_out or now_ms < self.id_retry_at_ms:
            return []
        manager.id_request_due, manager.id_request_out = False, True
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
        return room and not self.connection_is_down

    def _expire(self, now_ms: int) -> None:
        """Fail what is older than its time-out; one that was tried before leaves its sequence in doubt."""
        expired = self.accumulator.expired_batches(now_ms)
        if self.config.release != "2.0":
            expired += self._expired_in_flight(now_ms)
        for batch in expired:
            self.happenings.append(Happening("expire", batch))
            self._fail(batch, None, TIMEOUT, adjust=False)
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
        if self.config.release != "2.0":
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
        self.connection_is_down = False

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
        """When the oldest request has waited long enough: 2.0 gives it a millisecond more than the time-out."""
        oldest = next(iter(self.in_flight_requests.values()), None)
        if oldest is None or not self.is_watching:
            return None
        return oldest.sent_ms + self.config.request_timeout_ms + (1 if self.config.release == "2.0" else 0)

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
            self.happenings.append(Happening("split", batch))
            self._leave_flight(batch)
        elif error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._succeed(batch, answer)  # a duplicate without its offset is stored all the same
        elif self._can_retry(batch, answer, now_ms):
            if manager is None or manager.may_reenqueue(batch):
                self.happenings.append(Happening("requeue", batch))
                self.accumulator.reenqueue(batch, now_ms)
                self._leave_flight(batch)
            else:
                doubt = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # the id changed meanwhile
                self._fail(batch, doubt, exception_name(doubt, self.config.release), adjust=False)
        else:
            # Out of retries: nobody knows whether it was written, so its numbers stay taken.
            in_doubt = batch.attempts >= self.config.retries
            self._fail(batch, error, exception_name(error, self.config.release), adjust=not in_doubt)
        if self.config.max_in_flight_requests_per_connection == 1:
            self.accumulator.muted.discard(batch.partition)

    def _can_retry(self, batch: ProducerBatch, answer: PartitionAnswer, now_ms: int) -> bool:
        if batch.attempts >= self.config.retries:
            return False
        if self.config.release != "2.0" and (
            batch.is_done or batch.has_reached(self.config.delivery_timeout_ms, now_ms)
        ):
            return False
        manager = self.transaction_manager
        return answer.error.is_retriable if manager is None else manager.can_retry(batch, answer)

    def _succeed(self, batch: ProducerBatch, answer: PartitionAnswer) -> None:
        if self.transaction_manager is not None:
            self.transaction_manager.handle_completed_batch(batch, answer)
        if batch.done("SUCCEEDED"):
            self.completions.append(Completion(batch.send, batch.first, batch.count, None, answer.base_offset))
            self._leave_flight(batch)
        else:
            self.happenings.append(Happening("drop", batch))

    def _fail(self, batch: ProducerBatch, error: ErrorCode | None, exception: str, adjust: bool) -> None:
        """Tell the user, then the numbers. A batch whose end was told before changes nothing in 4.3."""
        manager = self.transaction_manager
        if manager is not None and (not batch.is_done or self.config.release == "2.0"):
            manager.handle_failed_batch(batch, error, adjust)
        if batch.done("FAILED"):
            self.completions.append(Completion(batch.send, batch.first, batch.count, exception, INVALID_OFFSET))
            self._leave_flight(batch)
        else:
            self.happenings.append(Happening("drop", batch))

    def _abort_batches(self, exception: str | None) -> None:
        """Fail everything that has not ended, waiting or in flight."""
        open_ends = [batch for queue in self.accumulator.queues.values() for batch in queue]
        open_ends += [batch for out in self.in_flight_batches.values() for batch in out]
        for queue in self.accumulator.queues.values():
            queue.clear()
        self.in_flight_batches.clear()
        for batch in sorted(open_ends, key=lambda batch: batch.number):
            if batch.done("ABORTED"):
                told = exception or KAFKA
                self.completions.append(Completion(batch.send, batch.first, batch.count, told, INVALID_OFFSET))

    def _leave_flight(self, batch: ProducerBatch) -> None:
        out = self.in_flight_batches.get(batch.partition)
        if out is not None and batch in out:
            out.remove(batch)
