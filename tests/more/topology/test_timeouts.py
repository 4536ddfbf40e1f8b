"""The timeout: ticks, ages, what a timeout does not do (it cancels nothing), and a window that outlasts it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kitlib.more.topology import Fault
from tests.more.topology.parts import Endless, Holder, Numbers, Store, chain, started


class AtRandom(Endless):
    """Emits at random times."""

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.rng = Random(context.task_id)

    def next_tuple(self) -> None:
        self.every_ms = self.rng.randrange(1, 400)
        super().next_tuple()


@pytest.mark.parametrize(("release", "least", "most"), [("0.9.3", 30_000, 60_000), ("2.4.0", 60_000, 90_000)])
def test_time_out_comes_after_30_to_60_s_in_the_spout_and_later_in_the_acker_of_2_4_0(release: str, least: int, most: int) -> None:
    """Two buckets, three in the later acker, rotated every 30 s: how long what nobody touches lives (B4)."""
    run, watch = started(chain(AtRandom, Holder), acker_release=release)
    run.run_for(900_000)
    ages, dropped = watch.ages()
    assert len(ages) > 1_000 and 30_000 <= min(ages) < 30_500 and 59_500 < max(ages) <= 60_000
    assert len(dropped) > 1_000 and least - 1 <= min(dropped) < least + 500 and most - 500 < max(dropped) <= most


def test_time_out_is_counted_in_ticks_of_the_task_s_own() -> None:
    """Ticks come every timeout from the task's start, whatever is emitted; each rotates both maps once."""
    run, watch = started(chain(Numbers, Holder), topology_message_timeout_secs=7)
    run.run_for(30_000)
    assert [event.at_ms for event in watch.of("spout_tick")] == [event.at_ms for event in watch.of("acker_tick")]
    assert [(event.at_ms, event["expired"]) for event in watch.of("spout_tick")] == [
        (7_000, 0),
        (14_000, 10),
        (21_000, 0),
        (28_000, 10),
    ]


@pytest.mark.parametrize(
    ("release", "late"),
    [("0.9.3", []), ("2.4.0", ["ack"])],
    ids=["0.9.3: its acker has forgotten the tree, too", "2.4.0: its acker still answers, for a root that is not pending"],
)
def test_time_out_cancels_nothing_and_the_late_ack_is_ignored(release: str, late: list[str]) -> None:
    """A replay queues behind the old copy, which is done, too; the old copy's ack helps nobody (B2)."""
    faults = [Fault("hang", "a", nth=[1], ms=70_000)]
    run, watch = started(chain(lambda: Numbers(1), Store), faults, acker_release=release)
    run.run_for(150_000)
    first, second = watch.of("emit")
    assert len(watch.of("fail")) == 1 and watch.effects()[0] == 2 and watch.messages("ack") == [0]
    assert [(event["root"], event["answer"]) for event in watch.of("late")] == [(first["root"], word) for word in late]
    old, new = watch.of("acker_ack")
    assert (old["before"] is None) == (not late) and (new["root"], new["end"]) == (second["root"], "ack")
