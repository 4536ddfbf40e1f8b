"""Connect's leader against every recorded rebalance of Kafka 4.3.1."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kitlib.conformance.connect import broken_rule, exact_replay, members_of, replay
from kitlib.conformance.golden import bundled, conform, read_traces
from kitlib.more.connect.assignors import IncrementalCooperativeAssignor
from kitlib.more.connect.work import as_told
from tests.conformance.changes import changed_in

FILES = ("connect_named", "connect_public")
TRACES = {each["name"]: each for file in FILES for each in read_traces(bundled("groups", f"{file}.jsonl.gz"))}

def test_connect_agrees_with_every_step() -> None:
    """All 362 rebalances, those that hang on Java's hash order too."""
    found = conform(exact_replay, iter(TRACES.values()))
    assert found.agrees, str(found)
    assert (found.traces, found.matched, found.total) == (62, 362, 362)


def test_connect_work_comes_back_in_the_order_of_the_wire() -> None:
    """What a worker was told and kept, sent twice over the wire, is what the leader sees next, in that order."""
    compared = 0
    for trace in TRACES.values():
        held: dict[str, Any] = {}
        for step, done in zip(trace["steps"], exact_replay(trace), strict=True):
            args, members = step["args"], members_of(step["args"])
            for name in held.keys() & members.keys() - set(args.get("restarted", [])):
                assert (list(members[name].connectors), list(members[name].tasks)) == held[name]
                compared += 1
            held = {}
            for name, told in done["result"]["workers"].items() if trace["protocol"] != "default" else ():
                if name in args["lost_sync"]:
                    continue
                new = as_told(told["assigned_connectors"], [(task[0], task[1]) for task in told["assigned_tasks"]])
                new.add(members[name])
                gone = {*told["revoked_connectors"], *((task[0], task[1]) for task in told["revoked_tasks"])}
                again = as_told([c for c in new.connectors if c not in gone], [t for t in new.tasks if t not in gone])
                held[name] = list(again.connectors), list(again.tasks)
    assert compared > 400


class OtherOrder(IncrementalCooperativeAssignor):
    """As the kit's, but it goes through the workers by name."""

    def perform_task_assignment(
        self, connectors: Any, completed: int, generation: int, members: Any, now_ms: int
    ) -> Any:
        renamed = {f"{'abcdefghijklmnop'[at]}": name for at, name in enumerate(sorted(members))}
        self.previous_members = frozenset(
            letter for letter, name in renamed.items() if name in self.previous_members
        ) | frozenset(name for name in self.previous_members if name not in members)
        told = super().perform_task_assignment(
            connectors, completed, generation, {letter: members[name] for letter, name in renamed.items()}, now_ms
        )
        self.previous_members = frozenset(members)
        return {renamed[letter]: each for letter, each in told.items()}


ORDER_SENSITIVE = [each for each in TRACES.values() if each["order_sensitive"]]


def test_connect_leader_of_another_order_is_judged_by_invariants() -> None:
    """It differs from the recordings that say so, and is right all the same."""
    assert not conform(partial(exact_replay, build=OtherOrder), iter(ORDER_SENSITIVE)).agrees
    found = conform(partial(replay, build=OtherOrder), iter(ORDER_SENSITIVE))
    assert found.agrees and found.traces == len(ORDER_SENSITIVE), str(found)


def _told(**of: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {
        f"{kind}_{what}": [] for kind in ("assigned", "revoked") for what in ("connectors", "tasks")
    }
    return {"delay_ms": 0, "workers": {name: nothing | told for name, told in of.items()}}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (_told(w1={}), "every worker"),
        (_told(w1={"assigned_connectors": ["b"]}, w2={}), "only what is configured"),
        (_told(w1={}, w2={"assigned_tasks": [["a", 0]]}), "another worker runs"),
        (_told(w1={"assigned_tasks": [["a", 1]]}, w2={"assigned_tasks": [["a", 1]]}), "was given too"),
        (_told(w1={}, w2={"revoked_connectors": ["a"]}), "stop only what it runs"),
        (_told(w1={"revoked_tasks": [["a", 0]]}, w2={"assigned_tasks": [["a", 1]]}), ""),
    ],
)
def test_connect_broken_rule_names_it(result: dict[str, Any], words: str) -> None:
    """Each rule that no order excuses has its sentence."""
    args = {
        "connectors": {"a": 2},
        "members": [
            {"id": "w1", "connectors": ["a"], "tasks": [["a", 0]]},
            {"id": "w2", "connectors": [], "tasks": []},
        ],
    }
    found = broken_rule(args, result, is_eager=False)
    assert words in found and bool(found) == bool(words)


def test_connect_replay_sees_a_changed_answer() -> None:
    """One task at another worker is the first difference, with its path."""
    changed = changed_in(TRACES, "second_worker_joins", 2, "result.workers.w2.assigned_tasks", [["a", 0]])
    found = conform(replay, iter([changed]))
    assert not found.agrees and "w2.assigned_tasks" in str(found.differences[0]) and found.matched == 2
