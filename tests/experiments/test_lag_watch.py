"""What a watch makes of a group whose partitions are not all in use; no broker here."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import LabError
from kitlib.experiments.cluster_audit import lag_watch
from kitlib.experiments.cluster_audit.lag_watch import LagWatch, is_well
from kitlib.lab.log_ends import Offsets
from kitlib.monitor.commit_history import Committed, GroupPartition
from kitlib.monitor.lag_window import LagStorage
from kitlib.monitor.rewinds import NO_TOPIC, Excuse

NOW_MS = 10**12
DAY_MS = 24 * 3_600_000
LIVE, OTHER = ("orders", 0), ("bills", 0)


class Ends:
    """Tells no log end that is not known yet."""

    admin = None

    def ends(self, partitions: list[tuple[str, int]]) -> Offsets:
        return Offsets({})


def watch_of(commits: dict[tuple[str, int], list[Committed]], **more: Any) -> LagWatch:
    """A watch that has read these commits, all logs ending at 9."""
    watch = LagWatch("mail", None, Ends(), LagStorage(10, 0), now_ms=lambda: NOW_MS)  # type: ignore[arg-type]
    for (topic, partition), found in commits.items():
        watch.log.history.commits[GroupPartition("mail", topic, partition)] = found
        watch.storage.add_log_end(topic, partition, 9)
    watch._take_new()
    for name, value in more.items():
        setattr(watch, name, value)
    return watch


def live(ago_ms: int = 1_000) -> dict[tuple[str, int], list[Committed]]:
    return {LIVE: [Committed(5, NOW_MS - ago_ms, 9)]}


def test_quiet_partition_of_a_live_group_is_passed_over() -> None:
    """Its last commit is older than Burrow looks; the group has committed elsewhere a second ago."""
    quiet = {OTHER: [Committed(1, NOW_MS - 8 * DAY_MS, 4)]}
    look = watch_of(live() | quiet)._told(NOW_MS)
    found = look.partition(*OTHER)
    assert (found.word, found.lag) == ("NONE", 5) and "last commit of this partition is older than 604800 s" in found.why
    assert is_well(look)
    forgotten = watch_of(live(8 * DAY_MS) | quiet)._told(NOW_MS)
    assert "the last commit of the group is older" in forgotten.partition(*OTHER).why and not is_well(forgotten)
    unreadable = watch_of(live() | quiet, skipped={OTHER: "nobody leads it"})._told(NOW_MS)
    assert not is_well(unreadable)


LOST = {OTHER: [Committed(1, NOW_MS - 9_000, 4, topic_id="a"), Committed(2, NOW_MS - 8_000, None)]}


@pytest.mark.parametrize(("ids", "excuse"), [({"bills": NO_TOPIC}, Excuse.TOPIC_GONE), ({"bills": "a"}, Excuse.NONE), ({}, Excuse.NONE)])
def test_lost_commit_is_no_harm_when_its_topic_was_deleted(
    ids: dict[str, str], excuse: Excuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic is looked for, and only that of the lost commit."""
    watch, asked = watch_of(live() | LOST), []
    monkeypatch.setattr(lag_watch, "topic_ids", lambda admin, names: asked.append(names) or ids)
    watch._ask_topics()
    look = watch._told(NOW_MS)
    (sign,) = look.partition(*OTHER).signs
    assert asked == [{"bills"}] and sign.excuse is excuse and is_well(look) == (excuse is Excuse.TOPIC_GONE)
    assert ("the topic has been deleted" in look.partition(*OTHER).why) == (excuse is Excuse.TOPIC_GONE)


def test_broker_that_does_not_say_which_topics_there_are_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look goes on with what was known."""
    watch = watch_of(live() | LOST, topics={"bills": NO_TOPIC})

    def silent(*asked: object) -> dict[str, str]:
        raise LabError("no answer.")

    monkeypatch.setattr(lag_watch, "topic_ids", silent)
    watch._ask_topics()
    look = watch._told(NOW_MS)
    assert look.notes[0] == "no answer. What is told here is as it was." and is_well(look)


def test_retention_of_the_cluster_decides_what_has_expired() -> None:
    """Where offsets are kept for a second, a loss after one is none."""
    signs = [watch_of(live() | LOST, retention_ms=kept)._told(NOW_MS).partition(*OTHER).signs[0] for kept in (1_000, 1_001)]
    assert [each.excuse for each in signs] == [Excuse.EXPIRED, Excuse.NONE]
