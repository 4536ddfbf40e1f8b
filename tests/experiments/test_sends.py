"""The send path's experiments: on the model what blocks, what is told when, what is lost, and how many share a batch; for real, that
no knob does nothing.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments import get
from kitlib.experiments.send_path.real_send import OBSERVERS, RealSend
from kitlib.experiments.stored import latencies_ms, records_per_request, sweep_linger
from kitlib.mechanisms.producer.config import ConfigError
from kitlib.monitor.delivery import Verdict, judge
from kitlib.settings import Settings
from kitlib.trace import Trace
from tests.experiments.knob_values import with_any_knobs

NAMES = ("two_sends", "blocked_send", "linger_and_batches", "unflushed_sends", "stale_metadata", "expired_batch")


def run(name: str, **knobs: Any) -> Trace:
    return get(name).run(**knobs)


def told(trace: Trace) -> list[tuple[int, str]]:
    """When the user was told of failures, and what."""
    return [(step.at_ms, step.data["error"]) for step in trace if step.what == "undelivered"]


def selects(trace: Trace) -> list[tuple[int, int]]:
    """The metadata's timeout and the loop's sleep, for each sleep."""
    return [(step.data["metadata"], step.data["timeout"]) for step in trace if step.what == "select"]


SOURCE = [
    (300_000, 30_000), (0, 0), (0, 0), (2_147_483_647, 30_000), (299_839, 30_000), (299_767, 30_000), (299_761, 0),
    (299_747, 30_000), (299_726, 30_000),
]  # fmt: skip


def test_two_sends_by_the_rules_of_0_10_sleeps_as_the_sources_log_says() -> None:
    """Every metadata timeout and every sleep of the source's log up to the first answer, to the millisecond."""
    assert selects(run("two_sends"))[: len(SOURCE)] == SOURCE


def test_two_sends_by_the_rules_of_0_10_takes_the_nine_steps_in_order() -> None:
    """And the second send, which finds its topic known, waits for nothing."""
    trace = run("two_sends")
    stages = [(step.data["stage"], step.actor, step.what) for step in trace if "stage" in step.data]
    assert stages == [
        (1, "user", "call"), (2, "network", "connect"), (3, "network", "metadata_request"), (4, "metadata", "update"),
        (5, "accumulator", "send"), (6, "accumulator", "new_batch"), (7, "network", "connect"), (8, "sender", "request"),
        (9, "sender", "answer"),
    ]  # fmt: skip
    assert [step.data["waited_ms"] for step in trace if step.what == "returned"] == [582, 0]
    assert [step.data["partition"] for step in trace if step.what == "send"] == [0, 2]
    assert judge(trace).sentence == "2 of 2 records were stored, each of them once and in order."


def test_two_sends_by_todays_rules_connects_before_the_first_call() -> None:
    """Today's producer asks for brokers and its id when it starts, and then for the new topic alone."""
    trace = run("two_sends", release="4.3")
    assert [step.data["stage"] for step in trace if "stage" in step.data] == [2, 7, 1, 3, 4, 5, 6, 8, 9]
    asked = [(step.data["names"], step.data["partial"]) for step in trace if step.what == "metadata_request"]
    assert asked == [([], False), (["test"], True)]


BLOCKED = {
    "a dead bootstrap: each call fails after max.block.ms": ("dead bootstrap", 0, [2_000, 4_000]),
    "a missing topic: each call fails after max.block.ms": ("missing topic", 0, [2_000, 4_000]),
    "a wrong address, at once: delivery.timeout.ms, counted from the batch": ("wrong advertised address", 0, [4_110]),
    "a wrong address, later: the topic cannot even be asked for": ("wrong advertised address", 500, [2_500]),
    "a full memory: the third call fails after max.block.ms": ("buffer full", 0, [2_110]),
}


@pytest.mark.parametrize("case", BLOCKED)
def test_blocked_send_fails_when_its_cause_says(case: str) -> None:
    """What never reaches a batch fails after max.block.ms, what lies in one after delivery.timeout.ms."""
    fault, after_ms, when = BLOCKED[case]
    trace = run("blocked_send", fault=fault, first_send_after_ms=after_ms, records=3 if fault == "buffer full" else 2)
    assert [at_ms for at_ms, _ in told(trace)][: len(when)] == when
    assert judge(trace).processed == 0 and not judge(trace).violations


def test_blocked_send_with_a_full_memory_goes_on_when_a_batch_expires() -> None:
    """A batch that is given up gives its memory back, and the next call gets it."""
    trace = run("blocked_send", fault="buffer full", records=5, max_block_ms=6_000)
    waited = [step.data["waited_ms"] for step in trace if step.what == "send"]
    assert waited[:2] == [110, 0] and 3_500 < waited[2] < 4_100
    assert {error for _, error in told(trace)} == {"TimeoutException"}
    refused = run("blocked_send", fault="buffer full", records=3, max_block_ms=1_000)
    assert (1_110, "BufferExhaustedException") in told(refused)


def test_linger_and_batches_without_linger_fill_while_a_request_is_out() -> None:
    """1,000 records/s, an answer takes 20 ms, one request at a time, linger 0: 20 records a request, not 1."""
    each = records_per_request(run("linger_and_batches"))
    assert sum(each) == 301 and each.count(20) >= 13 and len(each) <= 17


def test_linger_and_batches_p99_curves_cross() -> None:
    """Lingering costs its own time when little is sent, and saves the broker's when much is."""
    found = {
        (point.rate_per_s, point.linger_ms): point.p99_ms
        for point in sweep_linger((50, 500), (0, 5), round_trip_ms=4, request_cost_ms=4, max_in_flight=5)
    }
    assert found[50, 0] + 5 == found[50, 5]
    assert found[500, 0] > found[500, 5]
    assert max(latencies_ms(run("linger_and_batches", records=50))[1:]) <= 40


ENDINGS = {
    "an exit loses what is in the buffer": ({"ending": "exit"}, "lost", "a process that exited before flush()"),
    "flush sends it": ({"ending": "flush"}, None, ""),
    "one blind retry against a full queue is not enough": ({"ending": "flush", "queue_records": 50}, "lost", "QUEUE_FULL"),
    "serving the client before the retry is": ({"ending": "flush", "queue_records": 50, "poll_on_full": True}, None, ""),
}


@pytest.mark.parametrize("case", ENDINGS)
def test_unflushed_sends_keep_what_was_sent_and_no_more(case: str) -> None:
    """That send returned says only that the record lies in the producer's memory."""
    knobs, kind, why = ENDINGS[case]
    verdict = judge(run("unflushed_sends", records=300, **knobs))
    if kind is None:
        assert verdict.processed == verdict.appended == 301
    else:
        assert 0 < verdict.processed < 301 == verdict.processed + verdict.counts[kind]
        assert why in verdict.first(kind).reason and not verdict.violations


def test_unflushed_sends_that_had_left_arrive_after_the_exit() -> None:
    """Lost is what lies in the queues when the process ends, not what is on its way."""
    trace = run("unflushed_sends")
    ended = next(step for step in trace if step.what == "exit")
    waiting = sum(batch[1] for queue in ended.state["path"]["queues"].values() for batch in queue)
    assert judge(trace).counts["lost"] == waiting > 0 < len(ended.state["path"]["in_flight"])


@pytest.mark.parametrize(
    "knobs, learned_ms",
    [({}, 0), ({"names_new_leader": False}, 10)],
    ids=["named in the refusal", "asked for"],
)
def test_stale_metadata_is_noticed_by_the_refusal_and_loses_nothing(knobs: dict[str, Any], learned_ms: int) -> None:
    """NOT_LEADER_OR_FOLLOWER makes the client want metadata; the batch waits and goes to the new leader."""
    trace = run("stale_metadata", **knobs)
    refused = next(step.at_ms for step in trace if step.what == "answer" and step.data["error"] == "NOT_LEADER_OR_FOLLOWER")
    learned = next(step.at_ms for step in trace if step.what in ("leader", "update") and step.at_ms >= refused)
    wanted = next(step for step in trace if step.what == "request_update" and step.at_ms == refused)
    assert (learned - refused, wanted.data["full"]) == (learned_ms, True)
    assert judge(trace).sentence == "21 of 21 records were stored, each of them once and in order."


def test_stale_metadata_that_is_too_old_is_renewed_before_anybody_is_refused() -> None:
    """metadata.max.age.ms below the pause: the leader has moved, and the client knows before it sends."""
    knobs = {"records": 1, "move_at_ms": 100, "idle_ms": 5_000}
    words = run("stale_metadata", **knobs).words(), run("stale_metadata", metadata_max_age_ms=2_000, **knobs).words()
    assert words[0]["refuse"] == 1 and "refuse" not in words[1]


def test_stale_metadata_of_an_idle_topic_is_forgotten_and_asked_for_again() -> None:
    """After metadata.max.idle.ms the topic is dropped with the next answer: the next call waits for it once more."""
    knobs = {"records": 1, "move_at_ms": 60_000, "idle_ms": 5_000, "metadata_max_age_ms": 1_000}
    kept, dropped = (run("stale_metadata", metadata_max_idle_ms=ms, **knobs) for ms in (300_000, 1_500))
    assert [trace.words()["blocked"] for trace in (kept, dropped)] == [1, 2]


@pytest.mark.parametrize("request_ms, expired_ms", [(1_000, 3_000), (2_000, 3_000)])
def test_expired_batch_by_todays_rules_goes_by_the_delivery_timeout(request_ms: int, expired_ms: int) -> None:
    """request.timeout.ms has no say in it."""
    trace = run("expired_batch", request_timeout_ms=request_ms)
    sent = next(step.at_ms for step in trace if step.what == "send" and step.data["record"] == 1)
    assert told(trace) == [(sent + expired_ms, "TimeoutException")]


def test_expired_batch_by_the_rules_of_0_10_goes_by_the_request_timeout() -> None:
    """A thousand ms more of request.timeout.ms are (about) a thousand ms more."""
    first, second = (told(run("expired_batch", release="0.10", request_timeout_ms=ms))[0][0] for ms in (1_000, 2_000))
    assert 900 <= second - first <= 1_100


def test_expired_batch_that_was_written_is_indefinite() -> None:
    """The broker wrote it and its answer never came: told failed, and in the log all the same."""
    verdict = judge(run("expired_batch", stall="writes and never answers"))
    assert verdict.counts == {"lost": 0, "duplicated": 0, "reordered": 0, "indefinite": 3} and not verdict.violations


def test_expired_batch_with_too_small_a_delivery_timeout_is_refused() -> None:
    """As Java's client refuses to start."""
    with pytest.raises(ConfigError, match="delivery_timeout_ms is 1000, less than linger_ms \\+ request_timeout_ms = 1500"):
        run("expired_batch", delivery_timeout_ms=1_000, request_timeout_ms=1_500)


@pytest.mark.parametrize("name", NAMES)
def test_sends_with_any_knobs_give_a_trace_that_holds_together(name: str) -> None:
    """Whatever the knobs, nothing goes wrong unexplained, memory is given back, and the clock has the later of its two times."""

    def check(trace: Trace, verdict: Verdict) -> None:
        assert not verdict.violations
        for step in trace:
            available, total, _ = step.state["path"]["memory"]
            assert 0 <= available <= total
            clock = step.state["clock"]
            assert clock["next_ms"] == max(clock["expire_ms"], clock["allow_ms"])

    with_any_knobs(name, 8, check, refused="delivery_timeout_ms is")


OTHERS: dict[str, Any] = {  # kind of a knob -> another value than its default
    "int": lambda knob: knob.low if knob.default != knob.low else knob.low + 1,
    "bool": lambda knob: not knob.default,
    "choice": lambda knob: next(each for each in knob.choices if each != knob.default),
}


class NoBroker:
    """Whatever an observer asks of it: the run was not refused."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the observer has begun: it asks for {name}")


@pytest.mark.parametrize("name", OBSERVERS)
def test_every_knob_of_a_real_run_is_used_or_refused(name: str) -> None:
    """Each knob stands in the observer, or is refused before anything begins: the sentence says which, and where to run it."""
    module = import_module(f"kitlib.experiments.send_path.{OBSERVERS[name][0]}")
    shared = sum(other == OBSERVERS[name][0] for other, _ in OBSERVERS.values()) > 1
    source = inspect.getsource(getattr(module, name) if shared else module)
    knobs = {knob.name: knob for knob in get(name).knobs if knob.name != "max_steps"}
    alone = set(OBSERVERS[name][1].split())
    assert {knob for knob in knobs if re.search(rf'settings\.{knob}\b|"{knob}"', source)} == knobs.keys() - alone
    for knob in alone:
        given = {each.name: each.default for each in get(name).knobs} | {knob: OTHERS[knobs[knob].kind](knobs[knob])}
        run = RealSend(Trace("r", name, "kafka", 0, {}, domain="send_path"), NoBroker(), Settings(given))  # type: ignore[arg-type]
        with pytest.raises(KnobError, match=rf"^{name} on a real broker: {knob} is .*, which nothing there is given\. Leave it at"):
            run.tell(get(name).story)
