"""The audit on Spark reaches the verdict that the trace itself gives, whatever lies in the topics."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from hypothesis import HealthCheck, Phase, given, settings

from kitlib import experiments
from kitlib.errors import KnobError, LabError
from kitlib.experiments.kafka_backend import publish
from kitlib.experiments.transactions.transaction_run import TransactionRun
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster
from kitlib.monitor.delivery import judge
from kitlib.pipelines import topics
from kitlib.pipelines.audit import AuditResult, audit, steps_of
from kitlib.trace import Trace
from tests.cli.conftest import CommandLine, command_line  # noqa: F401 - a fixture
from tests.conftest import wait_for
from tests.pipelines.conftest import as_lines, as_trace, runs_of_steps

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(360)]

AuditLines = Callable[..., dict[str, AuditResult]]
WriteLines = Callable[..., None]

# The large experiments, in small: what the audit has to agree on is all there.
SMALL: dict[str, dict[str, Any]] = {"false_completion": {"records": 60}, "livelock": {"duration_s": 90}}

HOSTILE_LINES: Sequence[bytes | None] = (
    None,
    b"",
    b"\xff\xfe\x00",
    b"\x00",
    b"\x1b]0;owned\x07",
    b"<img src=x onerror=alert(1)>",
    b"null",
    b"[1, 2]",
    b'{"n": 1',
    b"[" * 100_000 + b"]" * 100_000,
    b'{"n": 1e400, "at_ms": 0, "what": "emit", "data": {"topic": "t", "offset": 0}}',
    b'{"n": ' + b"9" * 400 + b', "at_ms": 0, "what": "emit", "data": {"topic": "t", "offset": 0}}',
    b'{"n": NaN, "at_ms": 0, "what": "emit", "data": {"topic": "t", "offset": 0}}',
    b'{"n": -5, "at_ms": 0, "what": "emit", "data": {"topic": "t", "offset": 0}}',
    b'{"n": "0", "at_ms": 0, "what": "emit", "data": {"topic": "t", "offset": 0}}',
    b'{"n": 700, "at_ms": 0, "what": "emit"}',
)
HOSTILE_RECORDS: Sequence[bytes | None] = (None, b"\xff\xfe", b"\xed\xa0\x80", b"x" * 900_000, b"\x1b[31m", b"<b>", b"{")


@pytest.fixture
def run_on_model(broker: Cluster) -> Callable[..., Trace]:
    """A run of an experiment on the model, its trace in a topic of its own."""
    count = 0

    def run(name: str, cut: int | None = None, **knobs: Any) -> Trace:
        nonlocal count
        trace = experiments.get(name).run(backend="model", **knobs)
        count += 1
        trace = replace(trace, run=f"{trace.run}-{experiments.__name__}-{id(run)}-{count}")
        publish(replace(trace, steps=trace.steps[:cut]), broker)
        return trace

    return run


# Each takes seconds, so only kinds of runs that no notebook audits on the broker: 02b and 08c do it with a spout and a producer. That
# all of them take the model's steps is tested with the experiments, and the audit of each model's trace below.
REAL = ["unflushed_sends", "partitions_added"]


@pytest.mark.kafka
@pytest.mark.parametrize("name", REAL)
def test_audit_of_a_run_on_the_real_broker_equals_the_verdict(name: str, broker: Cluster, spark: Any) -> None:
    """It reaches the counts and first witnesses of the verdict, and find no record that the trace lacks."""
    trace = experiments.get(name).run(backend="kafka", **SMALL.get(name, {}))
    found = audit(trace.run)
    assert found.differences(judge(trace)) == ()
    assert (found.steps, found.missing_steps, found.unreadable) == (len(trace), 0, 0)
    assert [row.what for row in steps_of(trace.run).orderBy("n").collect()] == [step.what for step in trace]
    assert found.topics_read == tuple(sorted({step.data["topic"] for step in trace if "topic" in step.data}))
    assert [lane.unmentioned for lane in found.lanes] == [0] * len(found.lanes)


def test_audit_of_each_experiment_on_the_model_equals_the_verdict(audit_lines: AuditLines) -> None:
    """Every experiment's model trace, with three seeds where luck plays a part, is audited as it is judged.

    Left out: transactions, logs that gave offsets out twice and runs that were cut, which are refused.
    """
    traces: list[Trace] = []
    for name in experiments.names():
        if experiments.get(name).kind is TransactionRun:
            continue
        first, *others = [experiments.get(name).run(seed=seed, **SMALL.get(name, {})) for seed in (1, 2, 3)]
        if "cut" not in first.words():
            traces += [first, *(trace for trace in others if trace.steps != first.steps)]
    found = audit_lines(as_lines(traces))
    assert {trace.run: found[trace.run].differences(judge(trace)) for trace in traces} == {trace.run: () for trace in traces}


REFUSED = [
    ("unclean_election", {}, "its offsets were reused"), ("commit_and_abort", {}, "is about transactions"),
    ("worker_pool", {"max_steps": 100}, "The run was cut at max_steps=100.* Run it with a larger max_steps"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "knobs", "told"), REFUSED)
def test_audit_of_what_it_cannot_count_is_refused(name: str, knobs: dict[str, Any], told: str, audit_lines: AuditLines) -> None:
    """An offset that is two records, transactions, and a run that was cut with records in flight: no count is given."""
    with pytest.raises(LabError, match=told):
        audit_lines(as_lines([experiments.run(name, **knobs)]))


def test_audit_of_any_steps_equals_the_verdict(audit_lines: AuditLines) -> None:
    """Whatever the steps are, the audit's counts are the verdict's."""
    made: list[Any] = []

    @settings(max_examples=300, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(runs_of_steps())
    def make(steps: Any) -> None:
        made.append(steps)

    make()
    traces = [as_trace(f"run-{number}", steps) for number, steps in enumerate(made)]
    found = audit_lines(as_lines(traces))
    for trace in traces:
        assert found[trace.run].differences(judge(trace)) == (), "\n".join(trace.to_json_lines())


def delete_topic(broker: Cluster, topic: str) -> None:
    """Delete a topic and wait until it is gone."""
    admin = AdminClient(client_config(broker))
    admin.delete_topics([topic])[topic].result(20)
    assert wait_for(lambda: topic not in admin.list_topics(timeout=10).topics, 20)


@pytest.mark.kafka
def test_kit_audit_prints_the_audit_as_json(broker: Cluster, command_line: CommandLine) -> None:  # noqa: F811
    """`kit audit RUN --json` prints counts and witnesses on stdout and nothing of Spark's; a run that is not there is exit 3."""
    trace = experiments.get("small_max_offset_behind").run(backend="kafka")
    command = [sys.executable, "-m", "kitlib", "audit", trace.run, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert (done.returncode, done.stderr) == (0, "kit: starting Spark and reading the trace\n")
    assert json.loads(done.stdout)["counts"] == judge(trace).counts
    code, told, complaint = command_line("audit", "no-such-run")
    assert (code, told) == (3, "")
    assert complaint.startswith("kit: audit of run no-such-run: there is no topic")


@pytest.mark.kafka
def test_audit_of_a_trace_topic_with_hostile_lines_counts_them_and_goes_on(
    run_on_model: Callable[..., Trace], write_lines: WriteLines, spark: Any
) -> None:
    """Lines that are no steps are counted as unreadable, and the verdict on the rest stands."""
    trace = run_on_model("several_tuples", cut=50)
    write_lines(trace.run, HOSTILE_LINES)
    write_lines(trace.run, [step.to_json().encode() for step in trace.steps[40:]])  # ten of them again
    found = audit(trace.run)
    assert found.differences(judge(trace)) == ()
    assert (found.unreadable_lines, found.repeated_steps, found.missing_steps) == (len(HOSTILE_LINES), 10, 0)
    shown = repr(found) + found._repr_html_() + json.dumps(found.to_json())
    assert "script" not in shown
    assert f"{len(HOSTILE_LINES)} records or lines could not be read" in found.sentence


@pytest.mark.kafka
def test_audit_counts_records_that_the_trace_does_not_mention(
    broker: Cluster, write_lines: WriteLines, spark: Any
) -> None:
    """Records that somebody else wrote count as written; null and non-text ones as unreadable; none is fatal."""
    trace = experiments.get("happy_path").run(backend="kafka")
    topic = trace.steps[0].data["topic"]
    write_lines(trace.run, HOSTILE_RECORDS, topic)
    found, verdict = audit(trace.run), judge(trace)
    assert found.lanes[0].unmentioned == len(HOSTILE_RECORDS)
    assert found.lanes[0].unreadable == 3
    assert found.appended == verdict.appended + len(HOSTILE_RECORDS)
    assert found.counts == verdict.counts
    assert audit(trace.run, source=False).differences(verdict) == ()


@pytest.mark.kafka
def test_audit_without_its_topics_says_what_is_missing(broker: Cluster, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without a trace, a topic that is gone and a broker that is not there are each told in a sentence."""
    trace = experiments.get("happy_path").run(backend="kafka", records=5)
    with pytest.raises(LabError, match=r"no topic kit\.trace\.no-such-run at .* There are traces of "):
        audit("no-such-run")
    with pytest.raises(KnobError, match="not the name of a run"):
        audit("../../x")
    with monkeypatch.context() as patched, pytest.raises(LabError, match=r"no Kafka answers at 127\.0\.0\.1:9 within 0\.5 s"):
        patched.setattr(topics, "SECONDS_TO_ANSWER", 0.5)
        audit(trace.run, bootstrap="127.0.0.1:9")
    topic = trace.steps[0].data["topic"]
    delete_topic(broker, topic)
    with pytest.raises(LabError, match="pass source=False"):
        audit(trace.run)
    assert audit(trace.run, source=False).differences(judge(trace)) == ()
