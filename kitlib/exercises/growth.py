"""What a learner's code costs when much is open, and what it still holds when all is done: told as a sentence, not as a time-out.

A mechanism that sees millions of records a day may go through what is open at no message, and keep nothing of what is finished.
Both are measured in the learner's process, at 10,000 and at 100,000: a ratio, so the machine's pace does not matter.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from kitlib.exercises import sandbox
from kitlib.exercises.answers import HalfRight
from kitlib.exercises.frame import Rows, unbroken
from kitlib.exercises.sandbox import run_steps
from kitlib.exercises.spouts import emitted_spout
from kitlib.exercises.your_spout import Whole, built_with

FEW, MANY = 10_000, 100_000  # open
MOST_TIMES, LEAST_US = 5, 30.0  # so many times as long a message may take, and shorter than this it is never too long
FINISHED = 20_000
MOST_BYTES = 8 * FINISHED  # that may be left of them
ROUNDS, MESSAGES = 5, 200


@dataclass(frozen=True, slots=True)
class Growth:
    """How to open, to go on and to finish in one mechanism; each function runs in the learner's process."""

    load: Callable[[Any, dict[str, Any]], Iterator[Any]]  # yields the µs of a message with `open` open
    leak: Callable[[Any, dict[str, Any]], Iterator[Any]] | None  # yields the bytes left of `finished`
    noun: str  # of what is open
    kept: str = ""  # of what is finished, and of how many of them something may stay

    def rows(self, made: Any) -> Rows:
        """What is wrong, if time or memory grow."""
        scripts = [{"name": f"{count:,} open {self.noun}", "open": count} for count in (FEW, MANY)]
        outcome = run_steps(self.load, made, scripts)
        if outcome.breach is not None and outcome.breach.kind == "time":
            done = len(outcome.answers[0])
            yield HalfRight(
                f"right, and slow: with {MANY if done else FEW:,} {self.noun} open your code did not finish in {sandbox.DEADLINE_S:g} s; "
                f"expected each message to take as long as with {FEW // (1 if done else 10):,}.",
                "What does it go through at each message? Look it up by its number instead.",
            )
        few, many = (_number(answers) for answers in unbroken(outcome).answers)
        yield many > max(MOST_TIMES * few, LEAST_US) and HalfRight(
            f"right, and slow: with {FEW:,} {self.noun} open a message takes your code {few:,.0f} µs, with {MANY:,} it takes "
            f"{many:,.0f} µs; expected about the same.",
            "What does it go through at each message? Look it up by its number instead.",
        )
        if self.leak is None:
            return
        left = _number(unbroken(run_steps(self.leak, made, [{"name": self.kept, "finished": FINISHED}])).answers[0])
        yield left > MOST_BYTES and HalfRight(
            f"right, and never empty: after {FINISHED:,} more {self.kept} your code holds {left / 1_000:,.0f} kB more; expected none.",
            "What do you still keep of something that is over?",
        )


def _number(answers: list[Any]) -> float:
    value = answers[0] if answers else 0.0
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def best_us(messages: Callable[[int], Any]) -> float:
    """The µs of one message in the fastest of a few rounds; `messages` gets the number of the round."""
    best = float("inf")
    for number in range(ROUNDS):
        begin = time.perf_counter()
        messages(number)
        best = min(best, time.perf_counter() - begin)
    return best / MESSAGES * 1e6


def left_after(work: Callable[[int, int], Any]) -> int:
    """The bytes that `work(first, count)` leaves behind, apart from what its beginning does."""
    tracemalloc.start()
    try:
        work(0, FINISHED // 10)
        before, _ = tracemalloc.get_traced_memory()
        work(FINISHED // 10, FINISHED)
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


# In the learner's process.


def acker_load(make: Any, script: dict[str, Any]) -> Iterator[float]:
    """Many open trees, and messages about new ones."""
    acker, count = make(), script["open"]
    for root in range(1, count + 1):
        acker.init(root, root, 1)

    def messages(number: int) -> None:
        for root in range(count + 1 + number * MESSAGES, count + 1 + (number + 1) * MESSAGES):
            acker.init(root, root, 1)
            acker.ack(root, root)

    yield best_us(messages)


def acker_leak(make: Any, script: dict[str, Any]) -> Iterator[int]:
    """Trees that are done, and ticks that end the others."""
    acker = make()

    def trees(first: int, count: int) -> None:
        for root in range(first + 1, first + count + 1):
            acker.init(root, root, 1)
            acker.ack(root, root)
        for _ in range(3):
            acker.tick()

    yield left_after(trees)


def state_load(make: Any, script: dict[str, Any]) -> Iterator[float]:
    """Many producers, and further batches of some of them."""
    state, count = make(), script["open"]
    for pid in range(count):
        state.append(pid, 0, 0, 1, pid)

    def messages(number: int) -> None:
        for pid in range(MESSAGES):
            state.append(pid, 0, number + 1, 1, count + number * MESSAGES + pid)

    yield best_us(messages)


def state_leak(make: Any, script: dict[str, Any]) -> Iterator[int]:
    """Batches of one producer, of which a broker remembers five."""
    state = make()

    def batches(first: int, count: int) -> None:
        for seq in range(first, first + count):
            state.append(1, 0, seq, 1, seq)

    yield left_after(batches)


def spout_load(make: Any, script: dict[str, Any]) -> Iterator[float]:
    """A learner's ack, or their class, with many offsets pending."""
    kind = make if isinstance(make, partial) else built_with(make)
    spout, count = emitted_spout(script["open"], kind), script["open"]

    def messages(number: int) -> None:
        for offset in range(count - 1 - number * MESSAGES, count - 1 - (number + 1) * MESSAGES, -1):
            spout.ack(offset)

    yield best_us(messages)


def manager_load(make: Any, script: dict[str, Any]) -> Iterator[float]:
    """A learner's whole class with many offsets pending."""
    yield from spout_load(partial(Whole, make), script)


ACKER_GROWTH = Growth(acker_load, acker_leak, "trees", "trees that are done")
STATE_GROWTH = Growth(state_load, state_leak, "producers", "batches of one producer")
SPOUT_GROWTH = Growth(spout_load, None, "offsets")
MANAGER_GROWTH = Growth(manager_load, None, "offsets")
