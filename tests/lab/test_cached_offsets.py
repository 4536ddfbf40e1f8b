"""Coordinators that answer, are not ready, refuse or keep silent: each group is answered or told, within one deadline."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from kitlib.lab import broker_health as module
from kitlib.lab.broker_health import cached_offsets, unseen_topics
from kitlib.lab.clients import Cluster

OTHERS = Cluster("127.0.0.1:1", None, 1, "external")


class Answering:
    """An admin client whose answers are given: an offset, an error's code, or None for silence."""

    def __init__(self, **answers: list[int | None]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def future(self, name: str, answer: Any) -> dict[str, Future[Any]]:
        found: Future[Any] = Future()
        told = self.answers[name].pop(0)
        if told is not None and told < 100:
            found.set_exception(KafkaException(KafkaError(told)))
        elif told is not None:
            found.set_result(answer(told))
        self.asked.append(name)
        return {name: found}

    def list_consumer_group_offsets(self, groups: list[Any], request_timeout: float) -> dict[str, Future[Any]]:
        def answer(offset: int) -> Any:
            places = [SimpleNamespace(topic="t", partition=0, offset=offset), SimpleNamespace(topic="t", partition=1, offset=-1001)]
            return SimpleNamespace(topic_partitions=places)

        return self.future(groups[0].group_id, answer)

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future[Any]]:
        return {name: future for each in self.answers for name, future in self.future(each, lambda offset: offset).items()}


def test_each_group_is_answered_or_told_with_the_reason(monkeypatch: Any) -> None:
    """Who is not ready is asked again; who refuses or is silent keeps nobody waiting."""
    monkeypatch.setattr(module, "ASK_AGAIN_S", 0.0)
    monkeypatch.setattr(module, "ONE_S", 0.05)
    admin = Answering(good=[100], loads=[14, 15, 16, 200], denied=[KafkaError.GROUP_AUTHORIZATION_FAILED], silent=[None])
    found = cached_offsets(OTHERS, admin, list(admin.answers))  # type: ignore[arg-type]
    assert found.offsets == {"good": {("t", 0): 100}, "loads": {("t", 0): 200}}
    assert found.silent.keys() == {"denied", "silent"} and found.silent["silent"] == "no answer within 0.05 s"
    assert "authorization" in found.silent["denied"].lower() and admin.asked.count("loads") == 4


def test_one_deadline_is_for_all_groups() -> None:
    """When it is over nobody is asked any more, and a coordinator that never becomes ready ends with it."""
    admin = Answering(a=[100], b=[100])
    late = cached_offsets(OTHERS, admin, ["a", "b"], timeout_s=0)  # type: ignore[arg-type]
    assert late.silent == dict.fromkeys("ab", "it was not asked in time") and admin.asked == [] and late.offsets == {}
    never = cached_offsets(OTHERS, Answering(a=[14] * 9), ["a"], timeout_s=0.15)  # type: ignore[arg-type]
    assert never.offsets == {} and never.silent.keys() == {"a"}


def test_kit_s_own_broker_that_is_gone_is_told() -> None:
    """Nobody listens at that port, and it is no traceback."""
    gone = cached_offsets(Cluster("127.0.0.1:1", None, 1, "kit"), Answering(), ["a"])  # type: ignore[arg-type]
    assert gone.offsets == {} and "127.0.0.1:1" in gone.silent["a"]


def test_unseen_topic_is_one_that_may_not_be_described() -> None:
    """One that is not there is seen: everybody is told so."""
    admin = Answering(mine=[100], theirs=[KafkaError.TOPIC_AUTHORIZATION_FAILED], nowhere=[KafkaError.UNKNOWN_TOPIC_OR_PART])
    assert unseen_topics(admin, admin.answers) == {"theirs"}  # type: ignore[arg-type]
    assert unseen_topics(admin, []) == set()  # type: ignore[arg-type]
