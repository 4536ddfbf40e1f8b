"""What the tests of the audit share: hostile lines, traces made by Hypothesis, many traces in one Spark job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer
from hypothesis import strategies as st

from kitlib.experiments.kafka_backend import TRACE_PREFIX
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster
from kitlib.pipelines import delivery_frames as frames
from kitlib.pipelines.audit import counted
from kitlib.pipelines.audit_result import AuditResult
from kitlib.trace import Step, Trace
from tests.monitor.stories import DELIVERY

Lines = Sequence[tuple[str, int, bytes | None]]  # run, line, value

OFFSETS = st.integers(0, 11)  # few, so that steps meet
PAIRS = st.tuples(OFFSETS, OFFSETS).map(sorted)
PARTS = st.integers(0, 2)


def sorted_append(parts: dict[int, int]) -> tuple[str, dict[str, Any]]:
    """An append of these offsets, each with its own number of parts."""
    offsets = sorted(parts)
    return "append", {"first": offsets[0], "last": offsets[-1], "offsets": offsets, "parts": [parts[o] for o in offsets]}


# Words of a topology's trace: most name no topic, and no lane gets them.
TREE_STEPS: list[tuple[str, dict[str, Any]]] = [
    ("emit", {"offset": 3, "attempt": 1, "root": -(2**63), "val": 5, "tuples": [[1, "split-2", 5]]}),
    ("send", {"tuple": 2, "parents": [1], "ids": [[-(2**63), 9]], "to": "count-4", "values": ["a", 1, None]}),
    ("bolt_ack", {"tuple": 1, "vals": [[-(2**63), 12]]}),
    ("acker_init", {"root": -(2**63), "val": 5, "spout_task": 1, "before": None, "after": 5, "end": None}),
    ("acker_tick", {"dropped": [1, 2]}),
    ("ack", {"offset": 3, "root": -(2**63), "outstanding": 1}),
    ("late", {"root": 7, "answer": "fail"}),
]
NAMES_NO_TOPIC = {"send", "bolt_ack", "acker_init", "acker_tick", "late"}

DELIVERY_STEPS = st.one_of(
    PAIRS.map(lambda pair: ("append", {"first": pair[0], "last": pair[1]})),
    st.tuples(PAIRS, PARTS).map(lambda made: ("append", {"first": made[0][0], "last": made[0][1], "parts": made[1]})),
    st.dictionaries(OFFSETS, PARTS, min_size=1, max_size=4).map(sorted_append),
    st.lists(OFFSETS, min_size=1, max_size=4, unique=True).map(sorted).map(
        lambda offsets: ("append", {"first": offsets[0], "last": offsets[-1], "offsets": offsets})
    ),
    OFFSETS.map(lambda to: ("delete", {"to": to})),
    OFFSETS.map(lambda offset: ("start", {"offset": offset, "why": "stored offset"})),
    st.tuples(OFFSETS, OFFSETS).map(lambda pair: ("reset", {"from": pair[0], "to": pair[1]})),
    OFFSETS.map(lambda offset: ("emit", {"offset": offset})),
    st.tuples(OFFSETS, PARTS).map(lambda pair: ("emit", {"offset": pair[0], "parts": pair[1]})),
    st.tuples(st.sampled_from(["ack", "fail"]), OFFSETS).map(lambda made: (made[0], {"offset": made[1]})),
    OFFSETS.map(lambda offset: ("process", {"offset": offset})),
    st.tuples(OFFSETS, PARTS).map(lambda pair: ("process", {"offset": pair[0], "part": pair[1]})),
    st.tuples(st.sampled_from([3, 3, 3, 5]), st.booleans()).map(
        lambda pair: ("commit", {"offset": pair[0], "written": pair[1]})
    ),
    PAIRS.map(lambda pair: ("clear", {"ranges": [list(pair)]})),
    OFFSETS.map(lambda offset: ("give_up", {"offset": offset})),
    st.tuples(st.sampled_from(["compact", "purge"]), st.lists(OFFSETS, max_size=4)).map(
        lambda made: (made[0], {"offsets": made[1]})
    ),
    st.just(("word_of_tomorrow", {"offset": "?"})),
    st.sampled_from(TREE_STEPS),
)


@st.composite
def runs_of_steps(draw: st.DrawFn) -> list[tuple[int, str, dict[str, Any]]]:
    """Steps as (ms since the one before, word, data), with stretches of commits, in up to three lanes."""
    lanes = st.sampled_from([("a", 0), ("a", 0), ("a", 1), ("b", 0)])
    steps = []
    for word, data in draw(st.lists(DELIVERY_STEPS, max_size=30)):
        topic, partition = draw(lanes)
        times = draw(st.integers(1, 7)) if word == "commit" else 1
        where = {} if word in NAMES_NO_TOPIC else {"topic": topic, "partition": partition}
        steps += [(draw(st.integers(0, 5)), word, where | data)] * times
    return steps


def as_trace(run: str, steps: Sequence[tuple[int, str, dict[str, Any]]]) -> Trace:
    """The steps as a trace on the model."""
    trace = Trace(run=run, experiment="made_up", domain=DELIVERY)
    at_ms = 0
    for wait_ms, word, data in steps:
        at_ms += wait_ms
        trace.steps.append(Step(len(trace), at_ms, "somebody", word, data))
    return trace


def as_lines(traces: Sequence[Trace]) -> list[tuple[str, int, bytes | None]]:
    """The lines of the traces as they would lie in their topics."""
    return [(trace.run, number, line.encode()) for trace in traces for number, line in enumerate(trace.to_json_lines())]


@pytest.fixture(scope="session")
def audit_lines(spark: Any) -> Callable[[Lines], dict[str, AuditResult]]:
    """Audit lines that lie in memory, of many runs in one Spark job."""

    def audit_in_memory(lines: Lines) -> dict[str, AuditResult]:
        steps = frames.read_steps(spark.createDataFrame(list(lines), "run STRING, line BIGINT, value BINARY"))
        return counted(spark, list({run for run, _, _ in lines}), steps, None)

    return audit_in_memory


@pytest.fixture(scope="session")
def write_lines(broker: Cluster) -> Callable[..., None]:
    """Append values to a topic, by default a run's trace topic, and wait until they are acknowledged."""
    producer = Producer(client_config(broker, **{"enable.idempotence": True}))

    def write(run: str, values: Sequence[bytes | None], topic: str | None = None) -> None:
        failures: list[Any] = []
        for value in values:
            producer.produce(
                topic or TRACE_PREFIX + run, value=value, partition=0,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )  # fmt: skip
        assert producer.flush(20) == 0
        assert not failures

    return write
