"""Small made-up traces of producers and a broker, by the words of the producers' experiments."""

from __future__ import annotations

import random
from typing import Any

from kitlib.experiments import get
from kitlib.trace import Step, Trace
from kitlib.views.frames import to_frames
from kitlib.views.scene import Scene

Batch = tuple[int, int]  # first and last record


def scene_of(trace: Trace) -> Scene:
    scene = to_frames(trace).scene
    assert scene is not None
    return scene


def step_of(trace: Trace, what: str, nth: int = 0) -> Step:
    return [step for step in trace.steps if step.what == what][nth]


class Broker:
    """Enough of a broker: it stores, recognises by its last batches, or refuses."""

    def __init__(self, remembers: int = 5, has_ids: bool = True) -> None:
        self.remembers, self.has_ids = remembers, has_ids
        self.start = self.end = 0
        self.epoch = -1
        self.remembered: list[list[int]] = []
        self.records: list[int] = []  # in log order

    def state(self) -> dict[str, Any]:
        return {
            "log_start": self.start,
            "log_end": self.end,
            "epoch": self.epoch,
            "remembered": [list(entry) for entry in self.remembered],
        }

    def take(self, seq: int, epoch: int, batch: Batch) -> tuple[str, dict[str, Any]]:
        """The word and the answer for a batch that arrives."""
        first, last = batch
        if self.has_ids:
            if epoch < self.epoch:
                return "refuse", {"error": "INVALID_PRODUCER_EPOCH"}
            if epoch == self.epoch:
                for entry in self.remembered:
                    if entry[:2] == [seq, seq + last - first]:
                        return "recognise", {"offset": entry[2]}
                if self.remembered and seq != self.remembered[-1][1] + 1:
                    return "refuse", {"error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}
            else:
                self.epoch, self.remembered = epoch, []
            count = last - first + 1
            self.remembered.append([seq, seq + count - 1, self.end, self.end + count - 1])
            del self.remembered[: -self.remembers]
        offset = self.end
        self.end += last - first + 1
        self.records += range(first, last + 1)
        return "write", {"offset": offset}


class Producing:
    """A producer that does what its test says, step by step, and a broker that answers it."""

    def __init__(
        self,
        name: str = "answers_lost",
        *,
        has_ids: bool = True,
        at_once: int = 5,
        remembers: int = 5,
        actor: str = "producer",
        beside: Producing | None = None,
        topic: str = "orders",
        partition: int = 0,
    ) -> None:
        self.place = {"topic": topic, "partition": partition}
        knobs = {"idempotence": has_ids, "max_in_flight": at_once, "remembered_batches": remembers}
        self.trace = beside.trace if beside else Trace(f"{name}-model-1", name, settings=knobs, domain="idempotence")
        self.broker = beside.broker if beside else Broker(remembers, has_ids)
        self.actor, self.has_ids = actor, has_ids
        self.now = 0
        self.pid = self.epoch = -1
        self.next_seq = self.next_record = self.next_request = 0
        self.batches: list[Batch] = []
        self.seqs: dict[int, int] = {}
        self.attempts: dict[int, int] = {}
        self.queue: list[int] = []
        self.flying: dict[int, int] = {}  # request -> batch

    def count(self, batch: int) -> int:
        first, last = self.batches[batch]
        return last - first + 1

    def record(self, actor: str, what: str, wait: int = 1, **data: Any) -> None:
        steps = self.trace.steps
        self.now = max(self.now, steps[-1].at_ms if steps else 0) + wait
        queue = [[b, self.seqs.get(b), self.count(b), self.attempts.get(b, 0)] for b in self.queue]
        flying = [[r, b, self.seqs.get(b, -1), self.count(b)] for r, b in self.flying.items()]
        producer = {
            "pid": self.pid,
            "epoch": self.epoch,
            "next_seq": self.next_seq,
            "queue": queue,
            "in_flight": flying,
        }
        state = {"producer": producer, "broker": self.broker.state(), "log": self.broker.end}
        self.trace.record(self.now, actor, what, state=state, **data)

    def id(self, pid: int = 1000, epoch: int = 0, why: str = "init") -> None:
        self.pid, self.epoch, self.next_seq = pid, epoch, 0
        self.seqs = {}
        for batch in sorted(self.flying.values()) + self.queue if why != "init" else ():
            self._number(batch)
        self.record(self.actor, "id", pid=pid, epoch=epoch, why=why)

    def _number(self, batch: int) -> None:
        self.seqs[batch] = self.next_seq
        self.next_seq += self.count(batch)

    def send(self, count: int = 5) -> int:
        first = self.next_record
        self.next_record += count
        self.batches.append((first, self.next_record - 1))
        self.queue.append(len(self.batches) - 1)
        self.told("send", len(self.batches) - 1)
        return len(self.batches) - 1

    def told(self, what: str, batch: int, **data: Any) -> None:
        first, last = self.batches[batch]
        self.record(self.actor, what, **self.place, batch=batch, first=first, last=last, **data)

    def numbers(self, batch: int) -> dict[str, int]:
        return {"seq": self.seqs.get(batch, -1), "epoch": self.epoch, "pid": self.pid}

    def request(self, wait: int = 1) -> int:
        """The first waiting batch leaves; its request's number."""
        batch = self.queue.pop(0)
        if self.has_ids and batch not in self.seqs:
            self._number(batch)
        request, self.next_request = self.next_request, self.next_request + 1
        self.flying[request] = batch
        before = self.attempts.get(batch, 0)
        self.attempts[batch] = before + 1
        self.told("request", batch, request=request, **self.numbers(batch), attempt=before, wait=wait)
        return request

    def arrive(self, request: int, wait: int = 1) -> dict[str, Any]:
        """The broker takes the request's batch; its answer."""
        batch = self.flying[request]
        first, last = self.batches[batch]
        what, found = self.broker.take(self.seqs.get(batch, -1), self.epoch, (first, last))
        data = {**self.place, "request": request, "batch": batch, "first": first, "last": last}
        self.record("broker", what, wait, **data, **found, **self.numbers(batch))
        return {"error": "NONE", "offset": -1, **found}

    def network(self, what: str, request: int, wait: int = 1, **data: Any) -> None:
        self.record("network", what, wait, **self.place, request=request, batch=self.flying[request], **data)

    def answer(self, request: int, answer: dict[str, Any], wait: int = 1) -> None:
        batch = self.flying.pop(request)
        self.record(self.actor, "answer", wait, **self.place, request=request, batch=batch, **answer)
        if answer["error"] == "NONE":
            self.told("delivered", batch, offset=answer["offset"])
        else:
            self.requeue(batch)

    def requeue(self, batch: int) -> None:
        self.queue.append(batch)
        self.queue.sort()
        self.told("requeue", batch, attempt=self.attempts[batch])

    def no_answer(self, request: int, why: str = "connection lost", wait: int = 1) -> None:
        batch = self.flying.pop(request)
        self.record(self.actor, "no_answer", wait, **self.place, request=request, batch=batch, why=why)
        self.requeue(batch)

    def round_trip(self, wait: int = 1) -> None:
        request = self.request(wait)
        self.answer(request, self.arrive(request, 4), 4)

    def read(self) -> None:
        ranges: list[list[int]] = []
        for record in self.broker.records:
            if ranges and ranges[-1][1] == record - 1:
                ranges[-1][1] = record
            else:
                ranges.append([record, record])
        self.record("broker", "read", 5, **self.place, first_offset=0, records=ranges)


def answers_lost(has_ids: bool = True) -> Trace:
    """Batches are written, their answers are lost, and all are sent again."""
    return get("answers_lost").run(idempotence=has_ids)


def six_in_flight() -> Trace:
    """Six at once, one more than the broker remembers."""
    return get("six_in_flight").run()


def broker_restart() -> Trace:
    """Answers are withheld, the broker is killed: it comes back with one batch in memory."""
    return get("broker_restart").run()


def two_producers() -> Trace:
    """A second producer with the same id and a newer epoch: the first one is refused from then on."""
    return get("two_producers_one_id").run()


def everything() -> Trace:
    """Every word at least once, whatever the sense of the story."""
    run = Producing("everything", at_once=3)
    run.record("producer", "refuse_to_start", error="max.in.flight.requests.per.connection must be at most 5")
    run.id()
    for count in (5, 1, 12, 3, 4, 2, 7):
        run.send(count)
    first = run.request()
    run.network("duplicate_request", first)
    answer = run.arrive(first, 4)
    run.arrive(first, 6)
    run.answer(first, answer, 5)
    lost = run.request()
    run.network("lose_request", lost, 3)
    held = run.request()
    run.network("delay", held, 2, ms=300)
    run.arrive(held, 300)
    run.no_answer(lost, "request timeout", 400)
    run.record("network", "cut", 5)
    run.no_answer(held)
    run.record("broker", "fail_over", 50)
    last = run.request(100)
    answer = run.arrive(last, 5)
    run.answer(last, answer, 5)
    run.broker.start = 4
    run.record("broker", "delete", 1, **run.place, to=4)
    gone = run.request()
    run.network("lose_request", gone)
    batch = run.flying.pop(gone)
    run.record("producer", "no_answer", 90, **run.place, request=gone, batch=batch, why="delivery timeout")
    run.told("undelivered", batch, error="TimeoutException")
    run.broker.remembered = []
    run.record("broker", "expire", 1000, **run.place, pid=1000)
    run.id(1001, 0, "reset")
    run.record("broker", "restart", 5, **run.place, how="clean")
    open_one = run.request()
    run.arrive(open_one)
    run.request()
    run.read()
    return run.trace


def long_run(steps: int = 1000, seed: int = 1, *, has_ids: bool = True, at_once: int = 5) -> Trace:
    """A run of exactly `steps` steps in which requests and answers get lost now and then."""
    rng = random.Random(seed)
    run = Producing("long_run", has_ids=has_ids, at_once=at_once, remembers=at_once)
    run.id() if has_ids else None
    while len(run.trace) < steps:
        if len(run.queue) < 4:
            run.send(rng.randrange(1, 6))
        requests = [run.request() for _ in range(min(at_once, len(run.queue)))]
        lost, answers = [], {}
        for request in requests:
            if rng.random() < 0.1 or (lost and has_ids):
                run.network("lose_request", request)
                lost.append(request)
            else:
                answers[request] = run.arrive(request, rng.randrange(1, 9))
        for request, answer in answers.items():
            if rng.random() < 0.15:
                run.network("lose_answer", request)
                lost.append(request)
            else:
                run.answer(request, answer, rng.randrange(1, 9))
        for request in sorted(lost):
            run.no_answer(request, wait=rng.randrange(1, 40))
    del run.trace.steps[steps:]
    return run.trace
