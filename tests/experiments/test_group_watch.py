"""How a real group is looked at: one look after the other."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kitlib.experiments.groups import group_watch
from kitlib.experiments.groups.group_watch import GroupSnapshot, GroupWatch

MEMBER: dict[str, tuple[int, ...]] = {"A": (0,)}


def watch_of(admin: Any) -> GroupWatch:
    return GroupWatch(admin, "g", lambda client: client, "t")


def test_older_look_is_never_compared_with_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads look: the one that has seen an older state and was held up does not tell of it last."""
    looks = [GroupSnapshot("PreparingRebalance", held=MEMBER), GroupSnapshot("Stable", held=MEMBER)]
    is_looking, other_is_done = threading.Event(), threading.Event()

    def slow_describe(admin: Any, group: str) -> GroupSnapshot:
        found = looks.pop(0)
        if looks:
            is_looking.set()
            other_is_done.wait(0.3)  # it cannot be, if one look comes after the other
        return found

    monkeypatch.setattr(group_watch, "describe", slow_describe)
    watch = watch_of(None)
    first = threading.Thread(target=watch.look_now)
    first.start()
    assert is_looking.wait(10)
    assert watch.look_now().state == "Stable"
    other_is_done.set()
    first.join(10)
    assert [each.what for each in watch.steps] == ["prepare", "stable"] and watch.last.state == "Stable"
