"""The acker against every recorded step of Storm 0.9.3."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.conformance.acker import Build, replay
from kitlib.conformance.golden import Conformance, bundled, conform, read_traces
from kitlib.mechanisms.acker import Acker
from tests.conformance.changes import changed_in

NAMED, RANDOM = bundled("storm", "acker_scenarios.jsonl.gz"), bundled("storm", "acker_random_public.jsonl.gz")
SCENARIOS = {trace["name"]: trace for trace in read_traces(NAMED)}


def replayed(*names: str, build: Build = Acker) -> Conformance:
    """The named scenarios, all of them without a name, replayed on an acker."""
    return conform(partial(replay, build=build), iter([SCENARIOS[name] for name in names or SCENARIOS]))


changed = partial(changed_in, SCENARIOS)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("args.id", "6001", "id is '6001', expected a whole number"), ("args.id", [1], "id is [1], expected a whole number"),
        ("args.id", 1.0, "id is 1.0, expected a whole number"), ("args.id", True, "id is True, expected a whole number"),
        ("args.id", None, "id is None, expected a whole number"), ("args.val", {}, "val is {}, expected a whole number"),
        ("args.task", "1", "task is '1', expected a whole number"), ("args", {}, "id is missing, expected a whole number"),
        ("args", {"id": 1, "val": 2}, "task is missing, expected a whole number"),
        ("args.id", 2**63, "the root id of tree 9223372036854775808 is 9223372036854775808, expected -9223372036854775808"),
        ("args.id", -(2**63) - 1, "expected -9223372036854775808"), ("args.val", 2**63, "the value of tree 6001 is 9223372036854775808"),
        ("args.val", 10**4000, "the value of tree 6001 is 1000"),
        ("op", "rebalance", "operation 'rebalance', which this replay does not know"),
        ("op", "__init__", "operation '__init__'"), ("op", "", "operation ''"),
    ],
)  # fmt: skip
def test_replay_hostile_argument_is_a_difference(path: str, value: Any, words: str) -> None:
    """An argument that the recorder never writes differs at its step, in a sentence, and the next trace goes on."""
    bad = changed("one_tuple", 0, path, value)
    found = conform(replay, iter([bad, SCENARIOS["one_tuple"]]))
    assert (found.traces, found.matched, len(found.differences)) == (2, 2, 1)
    assert words in str(found.differences[0].got) and len(str(found.differences[0])) < 300


@pytest.mark.parametrize("value", [1, ["m"], {"a": 1}, True, 0.5])
def test_replay_message_that_is_no_text_is_a_difference(value: Any) -> None:
    """A spout's message id is a text or nothing."""
    found = conform(replay, iter([changed("spout_ack", 0, "args.msg", value)]))
    assert found.matched == 0 and "expected a text" in str(found.differences[0])


@pytest.mark.parametrize("config", [{}, {"delivery": "pigeon"}, {"delivery": None}, {"delivery": ["manual"]}])
def test_replay_unknown_delivery_is_a_difference(config: dict[str, Any]) -> None:
    """How messages reach the spout is one of two words."""
    found = conform(replay, iter([SCENARIOS["one_tuple"] | {"config": config}]))
    assert found.matched == 0 and "expected one of immediate, manual" in str(found.differences[0])


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(0, 3) | st.floats() | st.text(max_size=3),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(["id", "val", "task", "msg", "acker"]), inside),
    max_leaves=8,
)
STEP = st.fixed_dictionaries(
    {"op": st.sampled_from(["init", "ack", "fail", "tick", "reset_timeout", "spout_emit", "spout_tick", "deliver", "x"])},
    optional={"args": st.dictionaries(st.sampled_from(["id", "val", "task", "msg", "lost"]), JUNK), "result": JUNK, "state": JUNK},
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["immediate", "manual"]), st.lists(STEP, min_size=1, max_size=6))
def test_conform_any_steps_is_a_difference_and_no_traceback(delivery: str, steps: list[dict[str, Any]]) -> None:
    """Steps that nobody recorded: whatever is in them, the replay tells the first difference."""
    found = conform(replay, iter([{"name": "x", "config": {"delivery": delivery}, "steps": steps}]))
    assert not found.agrees and "x, step 0" in str(found.differences[0])


def played(*steps: tuple[Any, ...], delivery: str = "manual") -> list[dict[str, Any]]:
    """What a replay does: each step is (op, id or task, val, task, msg), as many as the operation takes."""
    names = {"spout_tick": ("task",), "spout_emit": ("id", "val", "task", "msg")}
    told = [{"op": op, "args": dict(zip(names.get(op, ("id", "val", "task")), given, strict=False))} for op, *given in steps]
    return list(replay({"config": {"delivery": delivery}, "steps": told}))


def test_replay_manual_delivery_hands_over_all_in_order() -> None:
    """A deliver lets every message that waits arrive, oldest first, whichever task it is for."""
    done = played(
        ("spout_emit", 5, 9, 1, "a"), ("spout_emit", 4, 8, 2, "b"), ("ack", 4, 8), ("fail", 5), ("deliver",), ("deliver",)
    )  # fmt: skip
    assert [step["state"]["undelivered"] for step in done] == [0, 0, 1, 2, 0, 0]
    assert [(event["event"], event["task"], event["msg"]) for event in done[4]["result"]["spout"]] == [("ack", 2, "b"), ("fail", 1, "a")]
    assert "spout" not in done[5]["result"]


def test_replay_root_used_again_is_answered_once() -> None:
    """An answer that was on its way ends the message which has the id now; the next answer finds nothing."""
    done = played(
        ("spout_emit", 7, 3, 1, "a"), ("ack", 7, 3), ("spout_emit", 7, 5, 1, "b"), ("ack", 7, 5), ("deliver",)
    )  # fmt: skip
    assert [(event["event"], event["msg"]) for event in done[-1]["result"]["spout"]] == [("ack", "b"), ("ignored", None)]


def test_replay_reset_timeout_leaves_the_ledgers_as_they_were() -> None:
    """The unknown stream is an exception, with the input not acked and the entry in its old bucket."""
    done = played(("spout_emit", 7, 3, 1, "a"), ("tick",), ("reset_timeout", 7), ("spout_tick", 1), delivery="immediate")
    assert done[2]["result"]["input_acks"] == 0 and done[2]["result"]["exception"]["message"].endswith("__ack_reset_timeout")
    assert done[2]["state"] == done[1]["state"] and done[3]["state"]["spouts"] == {"1": [[], [[7, "a"]]]}
