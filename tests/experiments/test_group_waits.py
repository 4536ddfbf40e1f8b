"""A wait in a group's story that is in vain is a sentence: the story does not go on to a verdict on something else."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import LabError
from kitlib.experiments import get
from kitlib.experiments.backend import ModelBackend
from kitlib.experiments.groups.group_knobs import settings_of, take_all
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.settings import Settings
from kitlib.trace import Trace

POLL = GroupRun.poll


def forget_error(run: GroupRun, name: str, *args: Any, **more: Any) -> Any:
    records = POLL(run, name, *args, **more)
    run.members[name].error = ""
    return records


def leave_out_c(run: GroupRun, name: str, *args: Any, **more: Any) -> Any:
    if name == "C":
        return run.pass_ms(50)
    return POLL(run, name, *args, **more)


@pytest.mark.parametrize(
    ("name", "knobs", "method", "instead", "words"),
    [
        ("static_member", {"what": "two with one id"}, "poll", forget_error, "the refusal of A's next heartbeat"),
        ("commit_during_rebalance", {}, "poll", leave_out_c, "the rebalance for C"),
        ("rebalance_protocols", {}, "is_settled", lambda *_: False, "a quiet group of A"),
    ],
)
def test_wait_in_vain_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, knobs: dict[str, Any], method: str, instead: Any, words: str
) -> None:
    """It says what did not happen and how the group was."""
    monkeypatch.setattr(GroupRun, method, instead)
    with pytest.raises(LabError, match=rf"{words} did not happen within \d+ ms; GroupView\(state="):
        get(name).run(**knobs)


def run_of(partitions: int, *names: str) -> GroupRun:
    """A settled group with five records in each partition."""
    run = GroupRun(Trace("r", "test", domain="groups"), ModelBackend("r"), Settings())
    run.create(partitions, 5)
    run.start(settings_of(run), *names)
    return run


def test_member_that_does_not_know_yet_where_it_begins_is_polled_until_it_does() -> None:
    """On a real broker a partition may come with a commit's answer, before its position has been asked for."""
    run = run_of(2, "A")
    member = run.members["A"]
    assert member.held == {0, 1}
    del member.position[1]
    take_all(run, ["A"])
    assert run.processed == {0: [[0, 4]], 1: [[0, 4]]}


def test_group_that_is_dealt_anew_while_one_is_handed_records_goes_on_with_all_of_them() -> None:
    """The coordinator removes a member after the group was settled: whoever is polled alone then waits for the others."""
    run = run_of(3, "A", "B", "C")
    run.cut_off("C")
    run.until(lambda: "C" not in run.group.view().members, "the removal of C")
    take_all(run, ["A", "B"])
    assert run.processed == {0: [[0, 4]], 1: [[0, 4]], 2: [[0, 4]]}
