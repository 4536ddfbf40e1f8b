"""The audit of producers on Spark reaches the verdict that their traces give, whatever lies in the topics."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kitlib.experiments.kafka_backend import create_topic, publish
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster
from kitlib.monitor.delivery import LEDGERS, judge
from kitlib.pipelines import delivery_frames as frames
from kitlib.pipelines import production
from kitlib.pipelines.audit import TraceRead, audit, audits, result_of
from kitlib.trace import Step, Trace
from kitlib.words import declare
from kitlib.words.idempotence import IDEMPOTENCE
from kitlib.words.spout import SPOUT
from kitlib.words.word import Domain
from tests.monitor.test_producing import STORIES, trace_of
from tests.pipelines.conftest import as_lines

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(360)]

Steps = Sequence[tuple[str, dict[str, Any]]]
WriteLines = Callable[..., None]

RECORDS = st.integers(0, 7)  # few, so that steps meet
PAIRS = st.tuples(RECORDS, RECORDS).map(sorted)


def ranged(word: str, **more: Any) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    """A step about the records first..last."""
    return PAIRS.map(lambda pair: (word, {"first": pair[0], "last": pair[1], **more}))


STEPS = st.one_of(
    ranged("send", batch=0),
    ranged("delivered", offset=0),
    ranged("undelivered", error="REQUEST_TIMED_OUT"),
    ranged("request", request=1, seq=0, epoch=0, pid=7),
    st.tuples(PAIRS, RECORDS).map(lambda made: ("write", {"first": made[0][0], "last": made[0][1], "offset": made[1]})),
    st.tuples(RECORDS, st.lists(PAIRS, max_size=3)).map(lambda made: ("read", {"first_offset": made[0], "records": made[1]})),
    st.sampled_from([("restart", {"how": "kill"}), ("delete", {"to": 3}), ("answer", {"error": "NONE"}), ("cut", {})]),
)


@st.composite
def producer_runs(draw: st.DrawFn) -> list[tuple[str, dict[str, Any]]]:
    """Steps in three lanes, each of which begins with a send, as a producer's lane does."""
    lanes = [("a", 0), ("a", 1), ("b", 0)]
    begin = [("send", {"topic": topic, "partition": partition, "first": 0, "last": 7}) for topic, partition in lanes]
    steps = draw(st.lists(st.tuples(st.sampled_from(lanes), STEPS), max_size=14))
    named = [(word, {"topic": topic, "partition": partition, **data}) for (topic, partition), (word, data) in steps]
    return begin + named


# A run with a producer and a spout: each lane is judged as in the domain that has such lanes alone.
MIXED = declare(Domain("mixed", {**SPOUT.words, **IDEMPOTENCE.words})).name
LEDGERS[MIXED] = lambda topic, *rest: LEDGERS["idempotence" if topic.endswith(".sent") else "spout"](topic, *rest)


def as_trace(run: str, steps: Steps, backend: str = "model", domain: str = "idempotence") -> Trace:
    """The steps as a trace, each 3 ms after the one before."""
    trace = Trace(run=run, experiment="made_up", backend=backend, domain=domain)
    for number, (word, data) in enumerate(steps):
        trace.steps.append(Step(number, 3 * number, "somebody", word, data))
    return trace


def judged(trace: Trace) -> Any:
    """The trace's own verdict, on the lanes of producers alone."""
    verdict = judge(trace)
    return replace(verdict, lanes=tuple(lane for lane in verdict.lanes if lane.verb == "stored"))


def test_audit_of_any_steps_of_producers_equals_the_verdict(spark: Any) -> None:
    """Whatever the steps are, the audit's counts, witnesses and delays are the verdict's; so they are in its stories told by hand.

    One Spark job for all of them.
    """
    steps_made: list[Steps] = []

    @settings(max_examples=200, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(producer_runs())
    def make(steps: Steps) -> None:
        steps_made.append(steps)

    make()
    made = [as_trace(f"made-{number}", steps) for number, steps in enumerate(steps_made)]
    made += [replace(trace_of(*steps), run=f"story-{number}") for number, (steps, *_) in enumerate(STORIES.values())]
    steps = frames.read_steps(spark.createDataFrame(as_lines(made), "run STRING, line BIGINT, value BINARY")).persist()
    read = TraceRead.of_runs(steps)
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in production.count(spark, steps, production.split_lanes(steps)[0], None):
        rows.setdefault(row["run"], []).append(row)
    steps.unpersist()
    for trace in made:
        found = result_of(trace.run, read[trace.run], [], rows[trace.run], set())
        assert found.differences(judged(trace)) == (), "\n".join(trace.to_json_lines())
    seen = {kind for trace in made for kind, count in judged(trace).counts.items() if count}
    assert seen == {"lost", "duplicated", "reordered", "indefinite"}


HOSTILE_VALUES: Sequence[bytes | None] = (
    None, b"", b"\xff\xfe", b"-1", b"1.0", b" 2", b"03", "٣".encode(), b"9" * 400, b"9007199254740993", b"x" * 900_000, b"NaN",
)  # fmt: skip


def handed(topic: str) -> list[tuple[str, dict[str, Any]]]:
    """Ten records handed over, of which the user was told that nine are stored."""
    at = {"topic": topic, "partition": 0}
    return [
        ("send", {**at, "first": 0, "last": 9}),
        ("delivered", {**at, "first": 0, "last": 8}),
        ("undelivered", {**at, "first": 9, "last": 9, "error": "_MSG_TIMED_OUT"}),
    ]


@pytest.mark.kafka
def test_audit_of_producers_on_the_broker_believes_the_topics(
    broker: Cluster, write_lines: WriteLines, spark: Any
) -> None:
    """The topic has the last word over the trace; records that are no numbers are counted; a run on the model has its writes."""
    admin, mark = AdminClient(client_config(broker)), uuid.uuid4().hex[:8]
    clean, strange, model = (f"{name}-{mark}" for name in ("clean", "strange", "model"))
    topics = {run: f"kit.{run}.records" for run in (clean, strange, model)}
    stored = [b"2", b"3", b"4", b"5", b"0", b"1", b"4", b"5"]
    for run, values in ((clean, stored), (strange, [*stored, *HOSTILE_VALUES, b"9", b"77"])):
        create_topic(admin, topics[run], 1)
        write_lines(run, values, topics[run])
    traces = {run: as_trace(run, handed(topic), "model" if run == model else "kafka") for run, topic in topics.items()}
    for run in (clean, strange):
        at = {"topic": topics[run], "partition": 0}
        traces[run].record(20, "broker", "read", **at, first_offset=0, records=[[2, 5], [0, 1], [4, 5]])
    traces[model].record(20, "broker", "write", topic=topics[model], partition=0, batch=0, first=0, last=8, offset=0)
    for trace in traces.values():
        publish(trace, broker)

    found = audits([*traces])
    for run in (clean, model):
        assert found[run].differences(judge(traces[run])) == ()
    assert found[clean].sentence.startswith("6 of 10 records were stored: 4 lost (first at record 9, step 2); 2 duplicated (")
    assert "  stored  lost  duplicated  reordered  indefinite  late ms  unreadable\n" in repr(found[clean])
    assert found[strange].counts == {"lost": 3, "duplicated": 2, "reordered": 2, "indefinite": 1}
    lane = found[strange].lanes[0]
    in_topic = len(stored) + len(HOSTILE_VALUES) + 2
    assert (lane.found, lane.unreadable, lane.unmentioned) == (in_topic, len(HOSTILE_VALUES), 1)


@pytest.mark.kafka
def test_audit_of_a_run_with_a_producer_and_a_spout_has_both_tables(
    broker: Cluster, write_lines: WriteLines, spark: Any
) -> None:
    """Each lane is judged by its own rules, and the topics of both are read."""
    admin, run = AdminClient(client_config(broker)), f"mixed-{uuid.uuid4().hex[:8]}"
    sent_to, read_from = f"kit.{run}.sent", f"kit.{run}.lines"
    for topic, values in ((sent_to, [b"0", b"1", b"1"]), (read_from, [b"a", b"b", b"c"])):
        create_topic(admin, topic, 1)
        write_lines(run, values, topic)
    trace = as_trace(run, handed(sent_to), "kafka", MIXED)
    trace.record(10, "log", "append", topic=read_from, partition=0, first=0, last=2)
    trace.record(11, "bolt", "process", topic=read_from, partition=0, offset=2)
    trace.record(12, "bolt", "process", topic=read_from, partition=0, offset=1)
    trace.record(13, "broker", "read", topic=sent_to, partition=0, first_offset=0, records=[[0, 1], [1, 1]])
    publish(trace, broker)
    found = audit(run)
    assert found.differences(judge(trace)) == ()
    assert (found.kinds, found.topics_read) == (judge(trace).kinds, (read_from, sent_to))
    assert [(lane.found, lane.verb) for lane in found.lanes] == [(3, "stored"), (3, "processed")]
    assert found.sentence.startswith("4 of 13 records were stored or processed: 8 lost (first at record ")
    assert json.loads(json.dumps(found.to_json()))["counts"] == judge(trace).counts
    assert found._repr_html_().count("<table>") == 2
