"""A program of your own, in any language, under the kit's faults: what was sent, stored, told and finished, compared.

    with Trial.open(Rule.parse("cut_after_answer:skip=2,count=3")) as trial:
        print(trial.producer(["our-producer"], records=2_000))

The program gets KIT_BOOTSTRAP, KIT_TOPIC, KIT_GROUP, KIT_OUT and KIT_OUT_TOPIC. A producer sends the ids that it reads from its
input, one a line, as values, and may print `ack ID` and `fail ID` for what it was told. A consumer appends the value of each record
that it has finished to the file KIT_OUT, or writes it to the topic KIT_OUT_TOPIC, before it commits. Left out: commits elsewhere.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kitlib.errors import KnobError, LabError
from kitlib.experiments.kafka_backend import asked, consume_to_end, create_topic, deliver
from kitlib.lab import created_resources, kafka_server
from kitlib.lab.clients import Cluster, client_config, kafka_python_config
from kitlib.lab.created_resources import Made
from kitlib.lab.processes import TOKEN_NAME, find_all, sweep
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, Rule
from kitlib.lab.wire.coordinator import CoordinatorWire, find_coordinator
from kitlib.text import plain_text

ADMIN_S = 20.0
END_S = 10.0  # from SIGTERM to SIGKILL
COMMIT_S = 8.0  # after the last record is finished, for its commit (every five seconds by default), or the other way round
PATIENCE_S = 75.0  # without any progress since it first connected, before which it starts; a killed member is missed for 45 s by default
AHEAD = 50  # records that are there beyond those after which the program is killed
LOOK_S = 0.05
TOPIC_S = 0.5  # between two looks into the topic for results

# What may be wrong, in the order of a verdict, by its name for --allow: what it means.
PRODUCER_KINDS = {
    "lost": "lost",  # not stored, and the program was not told so
    "duplicated": "duplicated",
    "reordered": "out of order",  # the first copy stands behind that of a record sent later, in the same partition
    "failed_stored": "told failed and stored",
    "failed_absent": "told failed and absent",
    "unknown": "unknown",
}
CONSUMER_KINDS = {
    "passed_over": "never processed though committed",
    "unfinished": "unprocessed",
    "repeated_after_commit": "processed again though committed",
    "repeated": "processed again",
    "reordered": "out of order",
    "unknown": "unknown",
}
AT_LEAST_ONCE = ("repeated", "reordered")  # what a consumer may do without breaking its promise
# Faults that end, from which a seed draws.
DRAWN = {
    "producer": (
        "cut", "cut_after_answer", "lose_request", "lose_answer", "reset", "reset_answer", "delay_answer:ms=700", "delay_request:ms=700",
        "answer_error:error=NOT_LEADER_OR_FOLLOWER", "answer_error:error=NOT_ENOUGH_REPLICAS", "duplicate_request",
    ),
    "consumer": (
        "cut:api=Fetch", "cut_after_answer:api=Fetch", "delay_answer:api=Fetch,ms=700", "reset_answer:api=Fetch", "lose_answer:api=Fetch",
        "cut:api=OffsetCommit", "cut_after_answer:api=OffsetCommit", "lose_request:api=OffsetCommit", "cut_after_answer:api=Heartbeat",
        "answer_error:api=OffsetCommit,error=COORDINATOR_LOAD_IN_PROGRESS", "answer_error:api=Fetch,error=NOT_LEADER_OR_FOLLOWER",
        "answer_error:api=Heartbeat,error=REBALANCE_IN_PROGRESS",
    ),
}  # fmt: skip


def drawn(side: str, seed: int) -> list[Rule]:
    """Two faults that end, the same ones for a seed."""
    # A producer's first batch is not refused: a broker that does not know it yet takes the next for its first, and Java gives up.
    chance = random.Random(f"{side}/{seed}")
    texts = [(text + ("," if ":" in text else ":"), int(side == "producer" and "error=" in text)) for text in chance.sample(DRAWN[side], 2)]
    return [Rule.parse(f"{text}skip={max(least, chance.randrange(4))},count={chance.randint(1, 2)}") for text, least in texts]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the records: for each kind of trouble the ids, the first one first."""

    sent: int
    found: Mapping[str, Sequence[str]]
    words: Mapping[str, str]  # the names of the kinds
    allowed: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()  # of the run itself: an exit code, a kill that did not happen

    @property
    def counts(self) -> dict[str, int]:
        return {kind: len(self.found.get(kind, ())) for kind in self.words}

    def judged(self, allowed: Iterable[str], problems: Iterable[str] = ()) -> Verdict:
        """The same with these kinds allowed and with more problems."""
        return replace(self, allowed=frozenset(allowed), problems=(*self.problems, *problems))

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong but what is allowed."""
        return not self.problems and not any(count for kind, count in self.counts.items() if kind not in self.allowed)

    def __repr__(self) -> str:
        usual = list(self.words)[:3]
        told = [f"{count:,} {self.words[kind]}" for kind, count in self.counts.items() if count or kind in usual]
        first = next(((kind, self.found[kind][0]) for kind, count in self.counts.items() if count and kind not in self.allowed), None)
        witness = f"; first {self.words[first[0]]}: {plain_text(first[1], 60)}" if first else ""
        return f"{self.sent:,} sent: {', '.join(told)}{witness}" + "".join(f"; {problem}" for problem in self.problems)


def compared(sent: Iterable[str | bytes], stored: Iterable[tuple[int, bytes]], told: Mapping[str, str] | None = None) -> Verdict:
    """What became of a producer's records, sent in this order; KnobError unless their values differ from each other.

    `stored` has the partition and the value of each record of the topic, `told` the last word about an id: `ack` or `fail`.
    """
    wanted = [each.decode(errors="replace") if isinstance(each, bytes) else each for each in sent]
    place = {value: number for number, value in enumerate(wanted)}
    bare = {value.strip(): value for value in place}  # a line may end in one space more
    told = {each if each in place else bare.get(each.strip(), each): word for each, word in (told or {}).items()}
    if len(place) < len(wanted):
        raise KnobError(f"{len(wanted):,} records were sent with only {len(place):,} different values. Give each a value of its own.")
    found, highest, copies = {kind: list[str]() for kind in PRODUCER_KINDS}, Counter[int](), Counter[str]()
    for partition, raw in stored:
        value = raw.decode(errors="replace")
        copies[value] += 1
        if value not in place:
            found["unknown"].append(value)
        elif copies[value] > 1:
            found["duplicated"].append(value)
        elif place[value] + 1 < highest[partition]:
            found["reordered"].append(value)
        else:
            highest[partition] = place[value] + 1
    found["unknown"] += [each for each in told if each not in place]
    for value in wanted:
        if told.get(value) == "fail":
            found["failed_stored" if copies[value] else "failed_absent"].append(value)
        elif not copies[value]:
            found["lost"].append(value)
    return Verdict(len(wanted), found, PRODUCER_KINDS)


@dataclass(slots=True)
class Finished:
    """What a consumer has finished so far, and how far its commits were when."""

    place: Mapping[str, tuple[int, int]]  # the partition and offset of each id
    begun: list[Mapping[int, int]] = field(default_factory=list)  # what was committed when each run of the program began
    done: dict[str, int] = field(default_factory=dict)  # in which run it was finished last
    highest: Counter[int] = field(default_factory=Counter)
    found: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in CONSUMER_KINDS})
    commits: list[Mapping[int, int]] = field(default_factory=lambda: [{}, {}])  # at each look, the next offset of each partition

    def add(self, lines: Iterable[str]) -> None:
        """Lines that were not there at the look before: what was committed before that look was committed before them."""
        for value in lines:
            if value not in self.place:
                self.found["unknown"].append(value)
                continue
            partition, offset = self.place[value]
            before, self.done[value] = self.done.get(value), len(self.begun)
            if before is not None:
                passed = offset < (self.commits[-2] if before == len(self.begun) else self.begun[-1]).get(partition, 0)
                self.found["repeated_after_commit" if passed else "repeated"].append(value)
            elif offset + 1 < self.highest[partition]:
                self.found["reordered"].append(value)
            else:
                self.highest[partition] = offset + 1

    def verdict(self, committed: Mapping[int, int]) -> Verdict:
        for value, (partition, offset) in self.place.items():
            if value not in self.done:
                self.found["passed_over" if offset < committed.get(partition, 0) else "unfinished"].append(value)
        return Verdict(len(self.place), self.found, CONSUMER_KINDS)


@dataclass(slots=True)
class Trial:
    """An empty topic and a group, and the address at which the proxy stands before the broker."""

    cluster: Cluster
    proxy: ChaosProxy
    topic: str
    group: str
    folder: Path
    admin: AdminClient
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    told: dict[str, str] = field(default_factory=dict)  # the last word that the program printed about an id
    problems: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)  # the values in the topic for results, when it was asked last
    asked: float = 0.0

    @classmethod
    @contextmanager
    def open(cls, *rules: Rule, seed: int = 1, partitions: int = 1) -> Iterator[Trial]:
        """A topic, one for results and a group, behind a proxy with these rules; all is gone at the end. LabError without a broker."""
        cluster, name = kafka_server.ensure(), f"kit.trial.{uuid.uuid4().hex[:12]}"
        with ChaosProxy.before(cluster, rules, seed) as proxy, tempfile.TemporaryDirectory(prefix="kit-trial-") as folder:
            trial = cls(cluster, proxy, name, f"{name}.group", Path(folder), AdminClient(client_config(cluster)))
            try:
                create_topic(trial.admin, name, 1, partitions=partitions)
                create_topic(trial.admin, trial.out_topic, 1)
                yield trial
            finally:
                sweep(lambda: find_all(trial.token))
                trial.take_back()

    @property
    def bootstrap(self) -> str:
        return self.proxy.bootstrap

    @property
    def out(self) -> Path:
        return self.folder / "out.txt"

    @property
    def out_topic(self) -> str:
        return f"{self.topic}.out"

    def compare(self, sent: Iterable[str | bytes]) -> Verdict:
        """What the topic holds of the records that were to be sent, in this order; their values must differ from each other."""
        return compared(sent, self.stored(self.topic), self.told)

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, each, 0) for each in self.admin.list_topics(topic, ADMIN_S).topics[topic].partitions]

    def stored(self, topic: str) -> list[tuple[int, bytes]]:
        """The partition and the value of each record, without those of aborted transactions, read past the proxy."""
        options = {"group.id": f"{self.group}.reader", "enable.auto.commit": False, "enable.partition.eof": True}
        reader = Consumer(client_config(self.cluster, **options, **{"isolation.level": "read_committed", "auto.offset.reset": "earliest"}))
        try:
            messages, _ = consume_to_end(reader, self.partitions(topic), "the trial")
        finally:
            reader.close()
        return [(int(message.partition() or 0), message.value() or b"") for message in messages]

    def producer(
        self, command: Sequence[str], records: int = 300, value: str = "{}", kill: Iterable[int] = (), restart: Iterable[int] = (),
        seconds: float = 180.0,
    ) -> Verdict:  # fmt: skip
        """Let the program send `records` ids, formatted by `value`, which are also its input; what became of them.

        It is killed (SIGKILL) or asked to end (SIGTERM) when so many are stored, and started again with those of which it was not told.
        """
        ids = ids_of(records, value)
        todo, ends, deadline = due(kill, restart, records), False, time.monotonic() + seconds
        while not ends:
            with self.running(command, [each for each in ids if each not in self.told]) as process:
                while process.poll() is None and not ends:
                    if todo and len(self.stored(self.topic)) >= todo[0][0]:
                        stop(process, todo.pop(0)[1])
                        break
                    if ends := time.monotonic() > deadline:
                        self.problems.append(f"it was stopped, not done {seconds:g} s after its start")
                        stop(process, signal.SIGTERM)
                    time.sleep(LOOK_S)
                else:
                    ends = ends or self.ended_by_itself(process, todo)
        return self.compare(ids).judged((), self.problems)

    def consumer(
        self, command: Sequence[str], records: int = 300, value: str = "{}", kill: Iterable[int] = (), restart: Iterable[int] = (),
        seconds: float = 300.0, patience_s: float = PATIENCE_S,
    ) -> Verdict:  # fmt: skip
        """Let the program consume `records` records, whose values are formatted by `value`; what became of them.

        It is killed (SIGKILL) or asked to end (SIGTERM) when it has finished so many, and started again. It is asked to end when all
        are finished, when its commits have reached the end, or after `patience_s` without progress. The group begins at offset 0.
        """
        ids, todo = ids_of(records, value), due(kill, restart, records)
        source = Producer(client_config(self.cluster, **{"enable.idempotence": True}))
        with self.coordinator() as wire:
            codes = wire.commit_offsets(self.group, {(self.topic, each.partition): 0 for each in self.partitions(self.topic)})
        if any(codes.values()):
            raise LabError(f"group {self.group}: offset 0 could not be committed (errors {sorted(codes.values())}). Look at `kit status`.")
        place = dict[str, tuple[int, int]]()
        finished, read, ends, deadline = Finished(place), 0, False, time.monotonic() + seconds
        while not ends:
            with self.running(command, ()) as process:
                moved = time.monotonic()
                finished.begun.append(finished.commits[-1])
                while True:
                    wanted = min(records, todo[0][0] + AHEAD) if todo else records
                    if len(place) < wanted:
                        rows = [(each.encode(), each.encode()) for each in ids[len(place) : wanted]]
                        place.update(zip(ids[len(place) :], deliver(source, self.topic, rows), strict=False))
                    alive, lines = process.poll() is None, self.lines()
                    finished.add(lines[read:])
                    committed = self.committed()
                    if not (lines or self.proxy.counts().get("opened")) or len(lines) > read or committed != finished.commits[-1]:
                        moved = time.monotonic()
                    finished.commits = [finished.commits[-1], committed]
                    read, idle_s = len(lines), time.monotonic() - moved
                    if not alive:
                        ends = self.ended_by_itself(process, todo)
                        break
                    if todo and len(finished.done) >= todo[0][0]:
                        stop(process, todo.pop(0)[1])
                        break
                    is_passed = all(offset < committed.get(partition, 0) for partition, offset in place.values())
                    all_done = len(finished.done) == len(place)
                    enough_s = 0.5 if all_done and is_passed else COMMIT_S if all_done or is_passed else patience_s
                    if not todo and (idle_s > enough_s or time.monotonic() > deadline):
                        stop(process, signal.SIGTERM)
                        ends = True
                        break
                    if todo and (idle_s > patience_s or time.monotonic() > deadline):
                        self.problems.append(f"it came to no {todo[0][0]:,} records, after which it was to be ended")
                        todo.clear()
                    time.sleep(LOOK_S)
        finished.add(self.lines(is_over=True)[read:])
        return finished.verdict(self.committed()).judged(AT_LEAST_ONCE, self.problems)

    def ended_by_itself(self, process: subprocess.Popen[str], todo: list[tuple[int, signal.Signals]]) -> bool:
        """Note what is to be said of a program that has ended; True, for there is no other run."""
        if process.returncode:
            self.problems.append(f"it ended with exit code {process.returncode}")
        if todo:
            self.problems.append(f"it had ended before {todo[0][0]:,} records were done, after which it was to be ended")
        return True

    def lines(self, is_over: bool = False) -> list[str]:
        """What is finished: the lines of the file, whole ones while the program runs, or else the values of the topic for results."""
        if self.out.exists():
            *whole, last = self.out.read_text(encoding="utf-8", errors="replace").split("\n")
            return [*whole, last] if is_over and last else whole
        if is_over or time.monotonic() > self.asked + TOPIC_S:
            self.results = [value.decode(errors="replace") for _, value in self.stored(self.out_topic)]
            self.asked = time.monotonic()
        return self.results

    @contextmanager
    def coordinator(self) -> Iterator[CoordinatorWire]:
        """A connection to the group's coordinator, past the proxy, once it is ready."""
        _, host, port = find_coordinator(self.cluster, self.group, ADMIN_S)
        with CoordinatorWire.open(host, port, timeout_s=ADMIN_S, **kafka_python_config(self.cluster)) as wire:
            yield wire

    def committed(self) -> dict[int, int]:
        ask, group = self.admin.list_consumer_group_offsets, [ConsumerGroupTopicPartitions(self.group)]
        trouble = f"group {self.group}: its offsets are not told"
        told = asked(lambda: ask(group, request_timeout=ADMIN_S)[self.group].result(), trouble).topic_partitions
        return {each.partition: each.offset for each in told if each.topic == self.topic and each.error is None}

    @contextmanager
    def running(self, command: Sequence[str], ids: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
        """The program, with these ids as its input; what it prints beside `ack` and `fail` goes to stderr. It is gone at the end."""
        given = self.folder / "in.txt"
        given.write_text("".join(f"{each}\n" for each in ids), encoding="utf-8")
        told = {"KIT_BOOTSTRAP": self.bootstrap, "KIT_TOPIC": self.topic, "KIT_GROUP": self.group, "KIT_OUT": str(self.out)}
        environment = {**os.environ, **told, "KIT_OUT_TOPIC": self.out_topic, "PYTHONUNBUFFERED": "1", TOKEN_NAME: self.token}
        with given.open(encoding="utf-8") as lines:
            try:
                process = subprocess.Popen(
                    list(command), stdin=lines, stdout=subprocess.PIPE, text=True, errors="replace", env=environment, start_new_session=True
                )
            except OSError as error:
                raise KnobError(f"{plain_text(command[0])} cannot be started ({error.strerror}). Name a program after `--`.") from None
        listener = threading.Thread(target=self.listen, args=(process,), daemon=True)
        listener.start()
        try:
            yield process
        finally:
            stop(process, signal.SIGKILL)
            listener.join(END_S)

    def listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            word, _, value = line.rstrip("\r\n").partition(" ")
            if word in ("ack", "fail") and value:
                self.told[value] = word
            else:
                print(line, end="", file=sys.stderr, flush=True)
        process.stdout.close()

    def take_back(self) -> None:
        """Remove the group, whose dead members would keep it for a while, and the topics; what is left is in `kit reset`'s list."""
        with suppress(KafkaException, TimeoutError, LabError):
            [group] = self.admin.describe_consumer_groups([self.group], request_timeout=ADMIN_S).values()
            if members := group.result().members:
                with self.coordinator() as wire:
                    for member in members:
                        wire.group, wire.member_id = self.group, member.member_id
                        wire.leave()
        things = [Made("group", self.group), Made("topic", self.topic), Made("topic", self.out_topic)]
        gone, _ = created_resources.take_back(things, client_config(self.cluster))
        created_resources.forget(created_resources.notebook(), gone)


def ids_of(records: int, value: str) -> list[str]:
    """The ids of a trial; KnobError unless `value` makes each one different, on one line."""
    try:
        ids = [value.format(number) for number in range(records)]
    except (LookupError, ValueError):
        ids = []
    if not ids or len(set(ids)) < records or any("\n" in each for each in ids):
        raise KnobError(f"value={value!r} does not make {records} different lines. Write one pair of braces, as in 'order {{}}'.")
    return ids


def due(kill: Iterable[int], restart: Iterable[int], records: int) -> list[tuple[int, signal.Signals]]:
    """When the program is to be ended and how, in their order; KnobError for what cannot come."""
    todo = sorted([(at, signal.SIGKILL) for at in kill] + [(at, signal.SIGTERM) for at in restart])
    if any(not 0 < at < records for at, _ in todo):
        raise KnobError(f"the program can be ended after 1 to {records - 1} records, not after {todo[-1][0]}. Name such a number.")
    return todo


def stop(process: subprocess.Popen[str], how: signal.Signals) -> None:
    """End the program and what it has started in its session: by the signal, and by SIGKILL if that is not heeded."""
    for number in (how, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)


@pytest.fixture
def kit_trial() -> Iterator[Trial]:
    """For tests of your own: `from kitlib.trial.programs import kit_trial` in conftest.py; rules by `kit_trial.proxy.add`."""
    with Trial.open() as trial:
        yield trial
