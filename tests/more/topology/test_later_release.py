"""A topology with the acker of Storm 2.4.0 beside the same one with that of 0.9.3."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.more.topology import Bolt
from tests.more.topology.parts import Numbers, Once, Pass, Store, chain, started


@pytest.mark.parametrize(("release", "is_dropped"), [("0.9.3", False), ("2.4.0", True)], ids=["0.9.3", "2.4.0"])
def test_acker_s_entry_is_renewed_by_acks_in_0_9_3_only(release: str, is_dropped: bool) -> None:
    """A tree that moves on every 20 s times out; 0.9.3's acker keeps its entry, the later one forgets it after three ticks."""

    class TwentySeconds(Pass):
        execute_ms = 20_000

    run, watch = started(chain(lambda: Once(1), *[TwentySeconds] * 6), acker_release=release)
    run.run_for(110_000)
    dropped = [(event.at_ms, len(event["dropped"])) for event in watch.of("acker_tick") if event["dropped"]]
    assert dropped == ([(90_000, 1)] if is_dropped else [])
    assert [event.at_ms for event in watch.of("fail")] == [60_000], "the spout's timeout is the same"


def slow_bolt(asks: bool) -> type[Bolt]:
    class SlowBolt(Bolt):
        def prepare(self, *told: Any) -> None:
            self.work: list[Any] = []

        def execute(self, given: Any) -> None:
            """The first tuple is worked on for 200 s; the others are a clock."""
            if given["n"] == 0:
                self.work.append(given)
                return
            self.collector.ack(given)
            for tuple_ in self.work:
                if self.context.now_ms > 200_000:
                    self.collector.ack(tuple_)
                elif asks:
                    self.collector.reset_timeout(tuple_)

    return SlowBolt


@pytest.mark.parametrize("asks", [True, False], ids=["it asks for more time", "it does not"])
def test_reset_timeout_lets_a_slow_bolt_keep_its_tuple(asks: bool) -> None:
    """Asked every 10 s, the acker and the spout renew the tree, which is acked after 200 s; else it times out."""

    run, watch = started(chain(lambda: Once(30, every_ms=10_000), slow_bolt(asks)), acker_release="2.4.0")
    run.run_for(230_000)
    fails = [(event.at_ms, event["message_id"], event["why"]) for event in watch.of("fail")]
    assert fails == ([] if asks else [(60_000, 0, "timeout")])
    assert (0 in watch.messages("ack")) == asks
    resets = watch.of("acker_reset")
    assert bool(resets) == asks and {event["end"] for event in resets} <= {"reset"}
    assert all(event["before"] == event["after"] for event in resets), "the ledger is as before"


def test_reset_timeout_of_a_tree_that_is_over_renews_nothing() -> None:
    """After the spout has given it up an answer to a reset finds nothing pending, and changes nothing."""

    class AsksLate(Bolt):
        execute_ms = 70_000

        def execute(self, given: Any) -> None:
            self.collector.reset_timeout(given)

    run, watch = started(chain(lambda: Once(1), AsksLate), acker_release="2.4.0")
    run.run_for(75_000)
    assert [event["why"] for event in watch.of("fail")] == ["timeout"]
    assert [event["end"] for event in watch.of("acker_reset")] == ["reset"] and run.pending == 0


def test_release_changed_while_it_runs_comes_with_the_acker_s_next_life() -> None:
    """An acker that lives keeps its rules; after a crash it has those of the release that is set now."""
    run, watch = started(chain(lambda: Numbers(1), Store))
    run.run_for(100)
    run.config.acker_release = "2.4.0"
    run.crash("__acker")
    run.run_for(2_000)
    ((acker,),) = (list(run.ackers.values()),)
    assert type(acker.acker).__name__ == "LaterAcker" and len(acker.acker.pending.buckets) == 3
    assert len(watch.of("restart", "__acker")) == 1
