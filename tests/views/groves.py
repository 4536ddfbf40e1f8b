"""Small made-up traces of topologies for the pictures' tests: a spout, bolts and the real Acker, in the words of a trace."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kitlib.mechanisms.acker import ACKER_ACK_STREAM_ID, Acker, AckerEntry, Completion
from kitlib.mechanisms.rotating_map import RotatingMap
from kitlib.more.topology.later_acker import LaterAcker
from kitlib.more.topology.tasks import generate_id
from kitlib.trace import Trace

SPOUT, SPLIT, ACKER = "sentences-1", "split-2", "__acker-9"


@dataclass
class Made:
    """A tuple that was sent."""

    number: int
    task: str
    ids: dict[int, int]
    ack_val: int = 0


@dataclass
class Grove:
    """Grows trees one call at a time; each call writes the steps that a run would write."""

    bits: int = 8
    seed: int = 1
    release: str = "0.9.3"
    trace: Trace = field(init=False)

    def __post_init__(self) -> None:
        knobs = {"id_bits": self.bits, "acker_release": self.release}
        self.trace = Trace("grove", "grove", seed=self.seed, settings=knobs, domain="topology")
        self.rng = random.Random(self.seed)
        self.acker: Acker = (LaterAcker if self.release == "2.4.0" else Acker)(id_bits=self.bits)
        self.pending: RotatingMap[int, int] = RotatingMap(2)  # root -> offset
        self.now = 0
        self.tuples: dict[int, Made] = {}
        self.open: dict[int, set[int]] = {}  # root -> tuples that are not acked
        self.attempts: dict[int, int] = {}
        self.executed: set[int] = set()

    def step(self, actor: str, what: str, **data: Any) -> None:
        self.now += 1
        self.trace.record(self.now, actor, what, **data)

    def place(self, offset: int) -> dict[str, Any]:
        return {"topic": "lines", "partition": 0, "offset": offset}

    def id(self) -> int:
        return generate_id(self.rng, self.bits)

    def made(self, task: str, ids: dict[int, int]) -> Made:
        tuple_ = Made(len(self.tuples), task, ids)
        self.tuples[tuple_.number] = tuple_
        for root in ids:
            self.open[root].add(tuple_.number)
        return tuple_

    def emit(self, offset: int, *tasks: str, is_tracked: bool = True, ids: tuple[int, ...] = ()) -> list[Made]:
        """The spout emits a record to these tasks, and the init reaches the acker."""
        self.attempts[offset] = self.attempts.get(offset, 0) + 1
        root = generate_id(self.rng, 64) if is_tracked else None
        if root is not None:
            self.open[root] = set()
        made = [
            self.made(task, {root: ids[n] if ids else self.id()} if root is not None else {})
            for n, task in enumerate(tasks)
        ]
        val = 0
        for tuple_ in made:
            for value in tuple_.ids.values():
                val ^= value
        told = [[tuple_.number, tuple_.task, next(iter(tuple_.ids.values()), None)] for tuple_ in made]
        self.step(SPOUT, "emit", **self.place(offset), attempt=self.attempts[offset], root=root, val=val, tuples=told)
        if root is None:
            self.step(SPOUT, "ack", **self.place(offset), root=None, outstanding=0)
        else:
            self.pending.put(root, offset)
            self.tell("acker_init", root, lambda: self.acker.init(root, val, 1), val=val, spout_task=1)
        return made

    def send(self, to: str, *parents: Made, is_anchored: bool = True, ids: tuple[int, ...] = ()) -> Made:
        """A bolt sends a tuple, anchored to its parents, each of which gets an edge of its own."""
        self.execute(parents[0])
        given: dict[int, int] = {}
        edges = list(ids)
        for parent in parents if is_anchored else ():
            for root in parent.ids:
                edge = edges.pop(0) if edges else self.id()
                parent.ack_val ^= edge
                given[root] = given.get(root, 0) ^ edge
        made = self.made(to, given)
        numbers = [parent.number for parent in parents] if is_anchored else []
        self.step(
            parents[0].task,
            "send",
            tuple=made.number,
            parents=numbers,
            ids=[[r, v] for r, v in given.items()],
            to=to,
            values=["w"],
        )
        return made

    def execute(self, tuple_: Made) -> None:
        """A bolt begins to work on a tuple, once."""
        if tuple_.number not in self.executed:
            self.executed.add(tuple_.number)
            self.step(tuple_.task, "execute", tuple=tuple_.number, values=["w"])

    def ack(self, tuple_: Made, *, is_delivered: bool = True) -> None:
        """A bolt has executed a tuple and acks it, and the message reaches the acker."""
        self.execute(tuple_)
        vals = [[root, value ^ tuple_.ack_val] for root, value in tuple_.ids.items()]
        for root in tuple_.ids:
            self.open[root].discard(tuple_.number)
        self.step(tuple_.task, "bolt_ack", tuple=tuple_.number, vals=vals)
        if is_delivered:
            self.deliver(vals)

    def deliver(self, vals: list[list[int]]) -> None:
        for root, val in vals:
            self.tell("acker_ack", root, lambda root=root, val=val: self.acker.ack(root, val), val=val)  # type: ignore[misc]

    def fail(self, tuple_: Made) -> None:
        self.step(tuple_.task, "bolt_fail", tuple=tuple_.number, roots=list(tuple_.ids))
        for root in tuple_.ids:
            self.tell("acker_fail", root, lambda root=root: self.acker.fail(root))  # type: ignore[misc]

    def tell(self, what: str, root: int, message: Callable[[], Completion | None], **data: Any) -> None:
        """A message reaches the acker; the completion, if one follows, reaches the spout."""
        before = self.acker.pending.get(root) or AckerEntry()
        value = before.val
        completion = message()
        after = self.acker.pending.get(root)
        end = None if completion is None else "ack" if completion.stream == ACKER_ACK_STREAM_ID else "fail"
        self.step(ACKER, what, root=root, **data, before=value, after=after.val if after else None, end=end)
        if end is None:
            return
        offset = self.pending.remove(root)
        if offset is None:
            self.step(SPOUT, "late", root=root, answer=end)
        elif end == "ack":
            self.step(SPOUT, "ack", **self.place(offset), root=root, outstanding=len(self.open[root]))
        else:
            self.step(SPOUT, "fail", **self.place(offset), root=root, retry=True, why="failed")

    def tick(self) -> None:
        """A message timeout has passed: the spout's map and the acker's rotate."""
        expired = self.pending.rotate()
        self.step(SPOUT, "spout_tick", expired=len(expired))
        for root, offset in expired.items():
            self.step(SPOUT, "fail", **self.place(offset), root=root, retry=True, why="timeout")
        self.step(ACKER, "acker_tick", dropped=list(self.acker.tick()))

    def fault(self, kind: str, tuple_: Made) -> None:
        self.step(tuple_.task, "fault", kind=kind, tuple=tuple_.number)

    def crash(self, task: str, lost: int = 0) -> None:
        if task == ACKER:
            self.acker = type(self.acker)(id_bits=self.bits)
        if task == SPOUT:
            self.pending = RotatingMap(2)
        self.step(task, "crash", lost=lost)


def word_count(bits: int = 8, words: int = 3, seed: int = 1) -> Grove:
    """One line, split into words, counted: 2 x words + 1 tuples, all acked."""
    grove = Grove(bits, seed)
    (line,) = grove.emit(12, SPLIT)
    sent = [grove.send(f"count-{3 + n % 4}", line) for n in range(words)]
    grove.ack(line)
    stored = []
    for word in sent:
        stored.append(grove.send("store-7", word))
        grove.ack(word)
    for one in stored:
        grove.ack(one)
    return grove


def everything() -> Grove:
    """Several records at once, in which every kind of box occurs."""
    grove = Grove(8, 3)
    trees = [grove.emit(offset, SPLIT)[0] for offset in range(5)]
    for line in trees[:3]:
        line_words = [grove.send(f"count-{3 + n}", line) for n in range(3)]
        grove.ack(line)
        grove.ack(line_words[0])
        if line is trees[1]:
            grove.fault("fail", line_words[1])
            grove.fail(line_words[1])
        if line is trees[2]:
            grove.fault("lose", line_words[1])
            grove.fault("unanchored", line_words[2])
            grove.send("store-7", line_words[2], is_anchored=False)
            grove.ack(line_words[2])
    grove.tick()
    grove.emit(5, SPLIT)
    grove.tick()
    return grove


def false_completion() -> Grove:
    """Two tuples with the same id of four bits: the number is zero while both are open."""
    grove = Grove(4, 1)
    (line,) = grove.emit(7, SPLIT, ids=(0b0110,))
    one = grove.send("count-3", line, ids=(0b1011,))
    grove.send("count-4", line, ids=(0b1011,))
    grove.ack(line)
    grove.ack(one)
    return grove


def joined() -> Grove:
    """A bolt joins two tuples of one record into one: a DAG."""
    grove = Grove(8, 5)
    left, right = grove.emit(4, "left-2", "right-3")
    a, b = grove.send("join-4", left), grove.send("join-4", right)
    grove.ack(left)
    grove.ack(right)
    pair = grove.send("store-5", a, b)
    grove.ack(a)
    grove.ack(b)
    grove.ack(pair)
    return grove


def large(steps: int = 1000, fan_out: int = 4, bits: int = 64, seed: int = 1) -> Trace:
    """Exactly `steps` steps of many trees, some of which fail."""
    grove = Grove(bits, seed)
    rng = random.Random(seed)
    offset = 0
    queue: list[tuple[Made, int]] = []
    while len(grove.trace) < steps:
        if len(queue) < 30:
            queue += [(made, 0) for made in grove.emit(offset, SPLIT)]
            offset += 1
        given, depth = queue.pop(rng.randrange(len(queue)))
        if rng.random() < 0.03:
            grove.fail(given)
            continue
        if depth < 2:
            queue += [(grove.send(f"{('count', 'store')[depth]}-{3 + n}", given), depth + 1) for n in range(fan_out)]
        grove.ack(given)
        if rng.random() < 0.01:
            grove.tick()
    del grove.trace.steps[steps:]
    return grove.trace
