"""The acker on Spark gives the plain acker's outcomes, wherever a batch ends, but for what its text says a sum cannot know."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kitlib import experiments
from kitlib.errors import KnobError, LabError
from kitlib.experiments.kafka_backend import publish
from kitlib.lab.kafka_server import Cluster
from kitlib.mechanisms.acker import ACKER_ACK_STREAM_ID, Acker, AckerEntry
from kitlib.pipelines import acker_stream

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TIMEOUT_MS = 1_000
Message = tuple[int, int, str, int, int | None, int | None]  # n, at_ms, kind, root, val, spout_task
Outcomes = Counter[tuple[int, str]]
TYPES = {"n": "int64", "at_ms": "int64", "kind": "object", "root": "int64", "val": "Int64", "spout_task": "Int32"}


def plain_outcomes(messages: Sequence[Message], timeout_ms: int = TIMEOUT_MS) -> Outcomes:
    """What a plain Acker makes of the messages, when it ticks at each multiple of the timeout."""
    acker, told = Acker(), Outcomes()
    tick_ms = timeout_ms

    def note(entries: dict[int, AckerEntry], end: str) -> None:
        told.update((root, "orphan" if entry.spout_task is None else end) for root, entry in entries.items())

    for _, at_ms, kind, root, val, spout_task in messages:
        while tick_ms <= at_ms:
            note(acker.tick(), "timed out")
            tick_ms += timeout_ms
        if kind == "init":
            end = acker.init(root, val or 0, spout_task or 0)
        else:
            end = acker.ack(root, val or 0) if kind == "ack" else acker.fail(root)
        if end is not None:
            told[root, "acked" if end.stream == ACKER_ACK_STREAM_ID else "failed"] += 1
    for bucket in acker.pending.buckets:
        note(bucket, "open")
    return told


def some_trees(count: int, seed: int, span_ms: int = 6_000) -> list[Message]:
    """Trees of one to six tuples, some of which fail, lose a message, or take longer than the timeout."""
    rng = random.Random(seed)
    timed: list[tuple[float, str, int, int | None, int | None]] = []
    for _ in range(count):
        root, edges = rng.getrandbits(64) - 2**63, [rng.getrandbits(64) - 2**63 for _ in range(rng.randint(1, 6))]
        at = rng.uniform(0, span_ms)
        lasts = rng.choice([50, 300, 300, 1_500, 4_000])
        told: list[tuple[str, int | None, int | None]] = [("init", edges[0], rng.randint(1, 4))]
        told += [("ack", edge ^ sent, None) for edge, sent in zip(edges, [*edges[1:], 0], strict=True)]
        if rng.random() < 0.1:
            told[-1] = ("fail", None, None)
        elif rng.random() < 0.1:
            told.pop()  # lost on its way
        times = sorted(at + rng.uniform(0, lasts) for _ in told)
        if rng.random() < 0.2:
            rng.shuffle(told)
        timed += [(time, kind, root, val, task) for time, (kind, val, task) in zip(times, told, strict=True)]
    timed.sort(key=lambda message: message[0])
    return [(n, int(time), *rest) for n, (time, *rest) in enumerate(timed)]


def write(messages: Sequence[Message], folder: Path, files: int, first: int = 0) -> None:
    """The messages as so many files, each with a later time of change; in no order within a file."""
    folder.mkdir(exist_ok=True)
    for number in range(files):
        begin, end = (len(messages) * part // files for part in (number, number + 1))
        columns = zip(*messages[begin:end], strict=True)
        typed = {name: pd.Series(column, dtype=kind) for (name, kind), column in zip(TYPES.items(), columns, strict=True)}
        frame = pd.DataFrame(typed).sample(frac=1, random_state=1)
        file = folder / f"{first + number}.parquet"
        frame.to_parquet(folder / ".new", index=False)
        (folder / ".new").rename(file)
        os.utime(file, (1_000_000_000 + first + number,) * 2)


def followed(spark: Any, source: Path, folder: Path) -> Outcomes:
    """The outcomes of the messages in the files that are there now, which a stream reads in the order of their times of change."""
    stream = spark.readStream.schema(acker_stream.MESSAGES).option("maxFilesPerTrigger", 1).parquet(str(source))
    rows = acker_stream.outcomes(stream, folder, TIMEOUT_MS).toPandas()
    return Outcomes(zip(rows["root"].tolist(), rows["outcome"].tolist(), strict=True))


def claimed(outcomes: Outcomes) -> Outcomes:
    """Without orphans, which the aggregate cannot tell from their tree."""
    return Outcomes({told: times for told, times in outcomes.items() if told[1] != "orphan"})


@pytest.mark.timeout(300)
def test_trees_with_fails_and_open_ones_end_as_with_the_plain_acker_also_after_a_crash(spark: Any, tmp_path: Path) -> None:
    """Stopped between batches, and with its last batch done again, a query neither loses nor doubles a tree."""
    messages = some_trees(3_000, seed=1)
    half = len(messages) // 2
    source, folder = tmp_path / "source", tmp_path / "folder"
    write(messages[:half], source, 2)
    assert claimed(followed(spark, source, folder)) == claimed(plain_outcomes(messages[:half]))
    commits = folder / "query" / "commits"
    last = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()  # as if the crash had come between the batch and Spark's note of it
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    write(messages[half:], source, 2, first=2)
    expected = plain_outcomes(messages)
    assert {end for _, end in expected} == {"acked", "failed", "timed out", "open", "orphan"}
    assert claimed(followed(spark, source, folder)) == claimed(expected)


DIFFERENT: dict[str, tuple[list[tuple[int, str, int | None]], str, str]] = {
    # at_ms, kind, value -> the plain acker's outcome, the aggregate's
    "an ack that is doubled after the end": ([(0, "init", 5), (1, "ack", 5), (2, "ack", 5)], "acked", "timed out"),
    "a zero in the middle": ([(0, "init", 5), (1, "ack", 5), (2, "ack", 9), (3, "ack", 4)], "acked", "timed out"),
    "a fail before the zero": ([(0, "init", 5), (1, "fail", None), (2, "ack", 5)], "failed", "acked"),
    "a root used again": ([(0, "init", 5), (1, "ack", 5), (2, "init", 7), (3, "ack", 7)], "acked, acked", "acked"),
    "used again and left open": ([(0, "init", 5), (1, "ack", 5), (2, "init", 7)], "acked, timed out", "timed out"),
}
ALIKE: dict[str, tuple[list[tuple[int, str, int | None]], str]] = {
    "an ack before the init": ([(0, "ack", 5), (1, "init", 5)], "acked"),
    "renewed by each message": ([(0, "init", 5), (1_500, "ack", 6), (2_500, "ack", 3)], "acked"),
    "older than two buckets": ([(0, "init", 5), (2_000, "ack", 5)], "timed out"),
    "zero, then failed": ([(0, "init", 5), (1, "ack", 5), (2, "fail", None)], "acked"),
    "dropped by the very last tick": ([(7_500, "init", 5)], "timed out"),
    "in the newer bucket at the end": ([(8_000, "init", 5)], "open"),
    "nothing but a fail": ([(0, "init", 5), (1, "fail", None)], "failed"),
}


@pytest.mark.timeout(300)
def test_aggregate_differs_from_the_plain_acker_where_it_says_so_and_nowhere_else(spark: Any, tmp_path: Path) -> None:
    """Each thing that a sum cannot know is measured: the outcome of both."""
    cases = {name: (told, plain, other) for name, (told, plain, other) in DIFFERENT.items()}
    cases |= {name: (told, plain, plain) for name, (told, plain) in ALIKE.items()}
    timed = [(at, kind, root, val) for root, (told, _, _) in enumerate(cases.values()) for at, kind, val in told]
    timed.append((9_000, "init", -1, 1))  # time goes on, to a tick
    timed.sort(key=lambda row: row[0])
    messages: list[Message] = [
        (n, at, kind, root, val, 1 if kind == "init" else None) for n, (at, kind, root, val) in enumerate(timed)
    ]
    write(messages, tmp_path / "source", 2)

    def by_name(outcomes: Outcomes) -> dict[str, str]:
        told = claimed(outcomes).elements()
        ends = sorted(told)
        return {name: ", ".join(end for root, end in ends if root == number) for number, name in enumerate(cases)}

    plain = {name: expected for name, (_, expected, _) in cases.items()}
    assert by_name(plain_outcomes(messages)) == plain
    found = by_name(followed(spark, tmp_path / "source", tmp_path / "stream"))
    assert found == {name: other for name, (_, _, other) in cases.items()}


@pytest.mark.timeout(300)
@pytest.mark.kafka
def test_trace_of_a_run_is_followed_to_the_ends_that_its_ackers_came_to(broker: Cluster, spark: Any) -> None:
    """The outcomes of a run's trace topic are the ends in the trace."""
    trace = experiments.get("tuple_tree").run(backend="model", records=40, fail_percent=20, max_spout_pending=10)
    publish(trace, broker)
    ends = {"ack": "acked", "fail": "failed"}
    expected = {step.data["root"]: ends[step.data["end"]] for step in trace if step.data.get("end")}
    assert set(expected.values()) == {"acked", "failed"}
    opened = {step.data["root"] for step in trace if step.what == "acker_init"}
    found = acker_stream.follow(spark, trace.run)
    assert {root: end for root, end in found.roots.items() if end in ends.values()} == expected
    assert set(found.roots) == opened
    assert found.counts["acked"] == list(expected.values()).count("acked")
    assert repr(found).startswith(f"Run {trace.run}: of {len(opened)} trees ")
    assert str(found.counts["failed"]) in found._repr_html_()
    with pytest.raises(LabError, match=r"no topic kit\.trace\.no-such-run"):
        acker_stream.follow(spark, "no-such-run")
    with pytest.raises(KnobError, match="timeout_ms is 0, expected"):
        acker_stream.follow(spark, trace.run, timeout_ms=0)
