"""A real producer through the proxy: what it is told, what lies in the topic, and why."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kitlib.errors import KnobError, LabError
from kitlib.experiments.idempotence import client_run
from kitlib.experiments.idempotence.client_faults import FAULTS
from kitlib.experiments.idempotence.client_run import ClientRun, run_client, run_together
from kitlib.lab.clients import Cluster
from kitlib.lab.proxy.chaos_proxy import Rule
from kitlib.monitor.delivery import judge
from kitlib.settings import Settings
from kitlib.trace import Trace

on_broker = pytest.mark.kafka
ONCE = [[sequence, 0, 0, sequence] for sequence in range(5)]  # offset, producer, epoch, sequence
def answers_withheld(client: str, ending: Any, **more: Any) -> Trace:
    """Five records, one a batch, whose answers are held back until the connection is cut, or the broker killed."""
    rules = [Rule("withhold")]
    return run_client(client=client, rules=rules, ending=ending, records=5, batch_records=1, linger_ms=0, **more)


def batches(trace: Trace) -> Any:
    return next(step.data["batches"] for step in trace if step.what == "batches")


def test_stretches_end_with_the_batch_and_where_anything_does_not_go_on() -> None:
    """One step tells of records that follow each other with the same end, within a batch."""

    def stretches(told: list[tuple[int, str, int]], size: int) -> list[tuple[int, int]]:
        run = ClientRun(Trace("r", "client_run"), Settings(client="kit", batch_records=size, records=6), "c", Cluster("", None, 1, "kit"))
        for each in told:
            run._note_told(*each)
        return [(data["first"], data["last"]) for *_, data in run.told]

    told = [(record, "", record) for record in range(6)]
    assert stretches(told, 4) == [(0, 3), (4, 5)]
    assert stretches([*told[:2], (2, "", 7), *told[4:]], 100) == [(0, 1), (2, 2), (4, 5)]
    assert stretches([(0, "", -1), (1, "", -1), (2, "_TIMED_OUT", -1)], 100) == [(0, 1), (2, 2)]
    assert stretches([], 4) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"fault": "storm"}, "there is no fault 'storm'"),
        ({"client": "sarama"}, "client.*librdkafka, java, kit"),
        ({"records": 0}, "records.*1 to 1,000,000"),
        ({"max_inflight": 1}, "a client has no knob 'max_inflight'. Did you mean max_in_flight"),
        ({"fault": "connection_cut", "rules": [Rule("cut")]}, "rules are for a run without a named fault"),
    ],
)
def test_run_with_a_setting_outside_its_range_is_refused(given: dict[str, Any], told: str) -> None:
    """A bad setting is refused before a broker is looked for."""
    with pytest.raises(KnobError, match=told):
        run_client(**given)


def test_clients_that_have_started_are_closed_when_a_later_one_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of three finds no broker: the first is closed, and the third never begins."""
    happened: list[str] = []

    class Run:
        def __init__(self, name: str) -> None:
            self.name = name
            self.client = SimpleNamespace(close=lambda: happened.append(f"close {name}"))

        def start(self, *_: object) -> bool:
            happened.append(f"start {self.name}")
            if self.name == "b":
                raise LabError("no broker")
            return True

    proxy = SimpleNamespace(cluster="a cluster")
    monkeypatch.setattr(client_run, "ChaosProxy", SimpleNamespace(before=lambda *_: nullcontext(proxy)))
    with pytest.raises(LabError, match="no broker"):
        client_run._tell([Run(name) for name in "abc"], None, [], "")  # type: ignore[misc, arg-type]
    assert happened == ["start a", "start b", "close a"]


def test_faults_hold_answers_where_there_are_any_and_else_requests() -> None:
    """Each fault that ends with a cut holds something first, whatever the acks."""
    for fault in FAULTS.values():
        for acks in ("0", "1", "all"):
            holds = {rule.action for rule in fault.rules_for(acks)} & {"withhold", "stop_reading"}
            assert bool(holds) or not fault.ending
            assert "withhold" not in holds or acks != "0" or not fault.ending


@on_broker
def test_run_tells_what_the_proxy_did_and_what_the_log_holds(broker: Any) -> None:
    """An answer that never comes makes a producer without idempotence write its batch twice, and the trace says why."""
    rules = [Rule("cut_after_answer", skip=2, count=1)]
    trace = run_client(records=100, batch_records=10, max_in_flight=1, idempotence=False, rules=rules, linger_ms=1_000)
    verdict = judge(trace)
    assert verdict.counts == {"lost": 0, "duplicated": 10, "reordered": 0, "indefinite": 0}
    assert verdict.violations == ()
    assert "idempotence=false" in verdict.sentence
    words = trace.words()
    assert (words["send"], words["delivered"], words["cut"], words["read"]) == (10, 10, 1, 1)
    assert trace.steps[-1].data["records"] == [[0, 29], [20, 99]]
    assert all(step.data["topic"] == f"kit.{trace.run}.records" for step in trace)


@on_broker
def test_librdkafka_sends_one_batch_at_once_when_it_is_idempotent(broker: Any) -> None:
    """It compares records, not requests, with the five that a broker remembers: batches of two leave three at a time."""
    held = {}
    for size in (1, 2, 10):
        trace = run_client(fault="connection_cut", records=40 * size, batch_records=size, linger_ms=1_000)
        held[size] = trace.words()["lose_answer"]
        assert judge(trace).counts == dict.fromkeys(judge(trace).kinds, 0)
    assert held == {1: 5, 2: 3, 10: 1}


@on_broker
def test_run_of_a_client_that_refuses_its_settings_says_so(broker: Any) -> None:
    """librdkafka and the kit's client refuse to start; the runs beside them go on."""
    refused, kept = run_together([{"acks": "0", "records": 40}, {"acks": "0", "idempotence": False, "records": 40}])
    assert [step.what for step in refused] == ["refuse_to_start"]
    assert "acks" in refused.steps[0].data["error"]
    assert judge(kept).processed == 40


@on_broker
def test_run_in_which_librdkafka_gives_up_tells_of_every_record(broker: Any) -> None:
    """After a fatal error what waits is told as failed at once, and what was stored all the same is counted."""
    rules = [Rule("replace_answer", skip=1, count=1, error="OUT_OF_ORDER_SEQUENCE_NUMBER")]
    trace = run_client(records=100, batch_records=10, rules=rules, linger_ms=1_000)
    counts = judge(trace).counts
    undelivered = [step.data for step in trace if step.what == "undelivered"]
    assert sum(data["last"] - data["first"] + 1 for data in undelivered) == counts["lost"] + counts["indefinite"] == 90
    assert counts["indefinite"] == 10


@on_broker
@pytest.mark.parametrize("client", ["java", "librdkafka"])
def test_vendors_client_answers_lost_writes_each_batch_once(broker: Any, client: str) -> None:
    """Five answers lost with their connection: the retries are recognised, all five."""
    trace = answers_withheld(client, "cut")
    assert batches(trace) == ONCE and judge(trace).counts == dict.fromkeys(judge(trace).kinds, 0)
    assert trace.words()["delivered"] == 5


@on_broker
@pytest.mark.slow
def test_librdkafka_broker_killed_gives_up_and_doubles_nothing(broker: Any) -> None:
    """librdkafka takes the gap for a fatal error: the first record is told failed, though it is there; none is doubled."""
    trace = answers_withheld("librdkafka", "kill")
    told = [step.data["error"] for step in trace if step.what == "undelivered"]
    assert batches(trace) == ONCE and "OUT_OF_ORDER_SEQUENCE_NUMBER" in told
    counts = judge(trace).counts
    assert (counts["duplicated"], counts["lost"], counts["indefinite"]) == (0, 0, len(told))


@on_broker
def test_each_client_refuses_six_in_flight_with_idempotence_but_the_kits(broker: Any) -> None:
    """No vendor's client begins, and nothing is written; the kit's own may have ten."""
    clients = ["java", "librdkafka", "kit"]
    *refused, kept = run_together([{"client": client, "records": 40, "max_in_flight": 6} for client in clients])
    assert [[step.what for step in trace] for trace in refused] == [["refuse_to_start"]] * 2
    assert all("max.in.flight" in trace.steps[0].data["error"] for trace in refused) and judge(kept).processed == 40
