"""The exercises of notebook 06: the word count from end to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from kitlib.exercises.answers import a_function, subset, whole_number
from kitlib.exercises.frame import Given, Half, Miss, Right, Rows, exercise, unbroken
from kitlib.exercises.sandbox import run_steps
from kitlib.experiments.storm.word_stories import make_lines
from kitlib.mechanisms.acker import ACKER_ACK_STREAM_ID, Acker
from kitlib.text import plain_text

BATCH_LINES, CRASH_BATCH = 6, 2  # of the first exercise
LINES, LINES_A_BATCH = 12, 3  # of own_put

# What an acker gets about each tree: an init (val, from spout task 1), acks (val), a fail.
TREES: dict[str, list[tuple[str, int | None]]] = {
    "A": [("init", 5), ("ack", 12), ("ack", 9)],
    "B": [("init", 5), ("ack", 5), ("ack", 5)],
    "C": [("ack", 12), ("ack", 9), ("init", 5)],
    "D": [("init", 5), ("fail", None), ("ack", 5)],
    "E": [("init", 5), ("ack", 5), ("fail", None)],
    "F": [("init", 5), ("ack", 12), ("fail", None)],
}

Put = list[Any]  # word, count, batch id


@exercise(Given(whole_number))
def doubled_words(guess: int) -> Rows:
    lines = make_lines(24, seed=1)
    batches = [b" ".join(lines[first : first + BATCH_LINES]).split() for first in range(0, len(lines), BATCH_LINES)]
    sizes, again = list(map(len, batches)), batches[CRASH_BATCH]
    if guess != len(again):
        yield guess == sum(sizes) and Miss("all words", guess=guess)
        yield guess in sizes and Miss("another batch", batch=sizes.index(guess), guess=guess)
        yield guess == BATCH_LINES and Miss("lines", guess=guess)
        yield guess == len({*again}) and Miss("different words", guess=guess)
        yield Miss("other", guess=guess)
    yield Right(crash_batch=CRASH_BATCH, count=len(again))


def batches_of(lines: list[bytes]) -> list[list[Put]]:
    """The puts of each batch of lines: each word of it once, with its count."""
    cut = [lines[first : first + LINES_A_BATCH] for first in range(0, len(lines), LINES_A_BATCH)]
    words = [Counter(b" ".join(batch).decode().split()) for batch in cut]
    return [[[word, count, txid] for word, count in found.items()] for txid, found in enumerate(words, 1)]


def put_stories(lines: list[bytes]) -> dict[str, list[list[Put]]]:
    """What is put, by each worker after the one that died."""
    first, second, third, last = batches_of(lines)
    return {
        "nothing goes wrong": [first + second + third + last],
        "the worker dies in the middle of batch 2": [first + second[: len(second) // 2], second + third + last],
        "the worker dies after the last put of batch 2": [first + second, second + third + last],
    }


def written(put: Any, script: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The table after the learner's puts; runs in the learner's process, a new one for each worker."""
    table = dict(script["table"])
    for word, count, batch_id in script["puts"]:
        put(table, word, count, batch_id)
    yield table


@exercise(Given(partial(a_function, what="put")))
def own_put(put: Any) -> Rows:
    lines = make_lines(LINES, seed=6)
    truth = Counter(b" ".join(lines).decode().split())
    for name, lives in put_stories(lines).items():
        table: Any = {}
        for puts in lives:  # each worker is a process of its own
            outcome = unbroken(run_steps(written, put, [{"name": name, "table": table, "puts": puts}]))
            raised = outcome.raised[0]
            yield raised and Miss("raised", name=name, raised=raised)
            table = outcome.answers[0][0]
        yield from table_rows(f"when {name}", table, truth)
    yield Right(words=truth.total())


def table_rows(when: str, table: Any, truth: Counter[str]) -> Rows:
    """The first word that is wrong in the table."""
    for word, times in truth.items():
        entry = table.get(word) if isinstance(table, dict) else None
        yield entry is None and Miss("no word", when=when, word=word, times=times)
        yield (not isinstance(entry, list | tuple) or not entry or type(entry[0]) is not int) and Miss(
            "no count", when=when, word=word, entry=plain_text(entry, 40)
        )
        yield entry and entry[0] != times and Miss("wrong count", when=when, word=word, entry=entry, times=times)
    strange = sorted(map(str, table.keys() - truth.keys()))
    yield strange and Miss("strange word", when=when, word=plain_text(strange[0], 40))


def by_the_acker(messages: list[tuple[str, int | None]]) -> str:
    """How the plain acker ends a tree: what it sends the spout first, or "open"."""
    acker = Acker()
    for kind, val in messages:
        if kind == "fail":
            end = acker.fail(1)
        else:
            end = acker.init(1, val or 0, spout_task=1) if kind == "init" else acker.ack(1, val or 0)
        if end is not None:
            return "acked" if end.stream == ACKER_ACK_STREAM_ID else "failed"
    return "open"


def by_the_sum(messages: list[tuple[str, int | None]]) -> str:
    """How one aggregate over all messages of a tree ends it, whatever their order; before its timeout."""
    total = 0
    for _, val in messages:
        total ^= val or 0
    if total == 0:
        return "acked"
    return "failed" if any(kind == "fail" for kind, _ in messages) else "open"


@exercise(Given(subset(*TREES)))
def sum_differs(named: set[str]) -> Rows:
    yield not named and Miss("none")
    ends = {name: (by_the_acker(messages), by_the_sum(messages)) for name, messages in TREES.items()}
    for name in sorted(named):
        yield ends[name][0] == ends[name][1] and Miss("same", name=name, end=ends[name][0])
    right = {name for name, (plain, total) in ends.items() if plain != total}
    yield named != right and Half("one missing", names=" and ".join(sorted(named)), verb="is" if len(named) == 1 else "are")
    differing = "; ".join(f"{name} is {ends[name][0]} for the acker and {ends[name][1]} for the sum" for name in sorted(right))
    yield Right(differing=differing)
