"""The acker against every recorded step of Storm 0.9.3."""

from __future__ import annotations

from functools import partial
from typing import Any

from kitlib.conformance.acker import Build, replay
from kitlib.conformance.golden import Conformance, bundled, conform, read_traces
from kitlib.mechanisms.acker import Acker

NAMED, RANDOM = bundled("storm", "acker_scenarios.jsonl.gz"), bundled("storm", "acker_random_public.jsonl.gz")
SCENARIOS = {trace["name"]: trace for trace in read_traces(NAMED)}


def replayed(*names: str, build: Build = Acker) -> Conformance:
    """The named scenarios, all of them without a name, replayed on an acker."""
    return conform(partial(replay, build=build), iter([SCENARIOS[name] for name in names or SCENARIOS]))


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
