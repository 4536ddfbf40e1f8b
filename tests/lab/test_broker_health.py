"""The files of a broker that tell how far its cleaner has come, and its coordinators: each group is answered or told."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kitlib.lab.brokers import health as broker_health
from kitlib.lab.brokers.health import (
    PartitionFiles,
    cached_offsets,
    files_of,
    read_checkpoint,
    segments_of,
    unseen_topics,
)
from kitlib.lab.clients import Cluster

SEGMENTS = ((0, 400), (100, 300), (200, 300), (300, 9_999))


@pytest.mark.parametrize(
    ("first_dirty", "ratio"),
    [
        pytest.param(None, 1.0, id="no pass has been over it"),
        pytest.param(0, 1.0, id="a pass that did nothing"),
        pytest.param(100, 0.6, id="the first segment is clean"),
        pytest.param(200, 0.3, id="two are clean"),
        pytest.param(300, 0.0, id="all but the active one, which does not count"),
        pytest.param(250, 0.3, id="a pass that ended within a segment has not done it"),
    ],
)
def test_dirty_ratio_is_the_share_of_bytes_before_the_active_segment(first_dirty: int | None, ratio: float) -> None:
    """By the segments' sizes, as the broker reckons it."""
    assert PartitionFiles(0, SEGMENTS, first_dirty, None).dirty_ratio == pytest.approx(ratio)


def test_dirty_ratio_of_one_segment_is_none() -> None:
    """There is nothing that a pass could take."""
    assert PartitionFiles(0, ((0, 5_000),), None, None).dirty_ratio == 0.0


def test_checkpoint_is_read_and_what_is_no_line_of_it_is_left_out(tmp_path: Path) -> None:
    """Version, count, lines; a file cut short has fewer lines, one that is not there has none."""
    file = tmp_path / "cleaner-offset-checkpoint"
    file.write_text("0\n4\n__consumer_offsets 3 250\na b 1\nt 0 x\nt 1 7\nt 2", encoding="utf-8")
    assert read_checkpoint(file) == {("__consumer_offsets", 3): 250, ("t", 1): 7}
    assert read_checkpoint(tmp_path / "nothing") == {}


def test_segments_are_the_log_files_by_their_first_offsets(tmp_path: Path) -> None:
    """Indexes and files that are being cleaned are none."""
    for name, size in (("00000000000000000100.log", 7), ("00000000000000000000.log", 5), ("00000000000000000000.index", 9),
                       ("00000000000000000200.log.cleaned", 3), ("x.log", 1)):  # fmt: skip
        (tmp_path / name).write_bytes(b"x" * size)
    assert segments_of(tmp_path) == [(0, 5), (100, 7)]


def test_files_of_another_cluster_are_not_looked_for() -> None:
    """Only the kit's own brokers keep their data where the kit can read it."""
    assert files_of(Cluster("127.0.0.1:1", None, 1, "external")) == []


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
    monkeypatch.setattr(broker_health, "ASK_AGAIN_S", 0.0)
    monkeypatch.setattr(broker_health, "ONE_S", 0.05)
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
