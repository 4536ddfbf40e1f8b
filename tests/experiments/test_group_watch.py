"""How a real group is looked at: one look after the other, and a broker that is silent is a sentence."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kitlib.errors import LabError
from kitlib.experiments.groups import group_watch
from kitlib.experiments.groups.group_watch import GroupSnapshot, GroupWatch, describe
from kitlib.lab import clients

MEMBER: dict[str, tuple[int, ...]] = {"A": (0,)}


class Admin:
    """An admin client that is given one answer."""

    def __init__(self, answer: BaseException | None) -> None:
        self.answer: Future[Any] = Future()
        self.asked = threading.Event()
        if answer is not None:
            self.answer.set_exception(answer)

    def describe_consumer_groups(self, groups: list[str], request_timeout: float) -> dict[str, Future[Any]]:
        self.asked.set()
        return {groups[0]: self.answer}


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


def test_silence_and_refusals_of_a_broker_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that is not there is Dead; every other error, and no answer at all, names the group."""
    monkeypatch.setattr(clients, "ADMIN_S", 0.01)
    unknown, denied = (
        KafkaException(KafkaError(code)) for code in (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.GROUP_AUTHORIZATION_FAILED)
    )
    assert describe(Admin(unknown), "g") == GroupSnapshot()  # type: ignore[arg-type]
    with pytest.raises(LabError, match=r"^group g could not be described: Broker: Group authorization failed"):
        describe(Admin(denied), "g")  # type: ignore[arg-type]
    for silent in (Admin(None), Admin(TimeoutError())):
        with pytest.raises(LabError, match=r"^group g could not be described: no answer within 0\.01 s\. Look at `kit status`"):
            describe(silent, "g")  # type: ignore[arg-type]


def test_watch_goes_on_after_a_silent_broker() -> None:
    """The thread that looks does not end with an answer that does not come."""
    admin = Admin(TimeoutError())
    watch = watch_of(admin)
    watch.start()
    try:
        for _ in range(2):
            admin.asked.clear()
            assert admin.asked.wait(10)
    finally:
        watch.stop()
    assert watch.steps == []
