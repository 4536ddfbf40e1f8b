"""A wait in a group's story that is in vain is a sentence: the story does not go on to a verdict on something else."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import LabError
from kitlib.experiments import get
from kitlib.experiments.groups.group_run import GroupRun

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
