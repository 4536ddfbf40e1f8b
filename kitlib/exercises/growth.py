"""What a learner's code costs when much is open: told as a sentence, not as a time-out.

A mechanism that sees millions of records a day may go through what is open at no message. That is measured in the learner's process,
at 10,000 and at 100,000: a ratio, so the machine's pace does not matter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from kitlib.exercises import sandbox
from kitlib.exercises.answers import HalfRight
from kitlib.exercises.door import named
from kitlib.exercises.frame import Rows, unbroken
from kitlib.exercises.sandbox import run_steps
from kitlib.exercises.spouts import emitted_spout
from kitlib.exercises.your_spout import Whole, built_with

FEW, MANY = 10_000, 100_000  # open
MOST_TIMES, LEAST_US = 5, 30.0  # so many times as long a message may take, and shorter than this it is never too long
ROUNDS, MESSAGES = 5, 200
LOOK = "What does it go through at each message? Look it up by its number instead."


@dataclass(frozen=True, slots=True)
class Growth:
    """How to go on in one mechanism while much is open; `opened` runs in the learner's process."""

    name: str  # module:name
    opened: Callable[[Any, int], Callable[[int], Any]]  # (the learner's code, how much is open) -> one more message, by its number
    noun: str  # of what is open

    def rows(self, made: Any) -> Rows:
        """What is wrong, if the time grows."""
        scripts = [{"growth": self.name, "name": f"{count:,} open {self.noun}", "open": count} for count in (FEW, MANY)]
        outcome = run_steps(message_us, made, scripts)
        if outcome.breach is not None and outcome.breach.kind == "time":
            done = len(outcome.answers[0])
            yield HalfRight(
                f"right, and slow: with {MANY if done else FEW:,} {self.noun} open your code did not finish in {sandbox.DEADLINE_S:g} s; "
                f"expected each message to take as long as with {FEW // (1 if done else 10):,}.",
                LOOK,
            )
        few, many = (answers[0] if answers else 0.0 for answers in unbroken(outcome).answers)
        yield many > max(MOST_TIMES * few, LEAST_US) and HalfRight(
            f"right, and slow: with {FEW:,} {self.noun} open a message takes your code {few:,.0f} µs, with {MANY:,} it takes "
            f"{many:,.0f} µs; expected about the same.",
            LOOK,
        )


# In the learner's process.


def message_us(make: Any, script: dict[str, Any]) -> Iterator[float]:
    """The µs of one message in the fastest of a few rounds."""
    message, best = named(script["growth"]).opened(make, script["open"]), float("inf")
    for number in range(ROUNDS):
        begin = time.perf_counter()
        for each in range(number * MESSAGES, (number + 1) * MESSAGES):
            message(each)
        best = min(best, time.perf_counter() - begin)
    yield best / MESSAGES * 1e6


def open_trees(make: Any, count: int) -> Callable[[int], None]:
    """Trees that begin and are done while many are open, and ticks that end the others."""
    acker = make()
    for root in range(count):
        acker.init(root, root + 1, 1)

    def message(number: int) -> None:
        acker.init(count + number, count, 1)
        acker.ack(count + number, count)
        if number % 1_000 == 999:
            acker.tick()

    return message


def open_producers(make: Any, count: int) -> Callable[[int], Any]:
    """Further batches of some of many producers, of each of which a broker remembers five."""
    state, some = make(), min(count, MESSAGES)
    for pid in range(count):
        state.append(pid, 0, 0, 1, pid)
    return lambda number: state.append(number % some, 0, number // some + 1, 1, count + number)


def open_offsets(make: Any, count: int) -> Callable[[int], Any]:
    """The learner's ack, or their class, with many offsets pending."""
    spout = emitted_spout(count, make if isinstance(make, partial) else built_with(make))
    return lambda number: spout.ack(count - 1 - number)


def open_in_class(make: Any, count: int) -> Callable[[int], Any]:
    """A learner's whole class with many offsets pending."""
    return open_offsets(partial(Whole, make), count)


ACKER_GROWTH = Growth(f"{__name__}:ACKER_GROWTH", open_trees, "trees")
STATE_GROWTH = Growth(f"{__name__}:STATE_GROWTH", open_producers, "producers")
SPOUT_GROWTH = Growth(f"{__name__}:SPOUT_GROWTH", open_offsets, "offsets")
MANAGER_GROWTH = Growth(f"{__name__}:MANAGER_GROWTH", open_in_class, "offsets")
