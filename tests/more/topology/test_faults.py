"""Faults: what each does to the trees, and the three crashes with the outcome that Storm promises."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.more.topology import Fault, TopologyError
from tests.more.topology.parts import Numbers, Pass, Slow, Store, chain, started

EACH_ONCE = dict.fromkeys(range(10), 1)
THIRD_TWICE = EACH_ONCE | {2: 2}

KINDS: dict[str, tuple[Fault, list[tuple[int, str]], dict[int, int], int]] = {
    "fail: the spout hears of it at once": (Fault("fail", "b", nth=[3]), [(2, "failed")], EACH_ONCE, 1_000),
    "drop: the tree times out": (Fault("drop", "b", nth=[3]), [(2, "timeout")], EACH_ONCE, 70_000),
    "ack_twice while a child is open: the effect is there, and the tree times out": (
        Fault("ack_twice", "a", nth=[3]),
        [(2, "timeout")],
        THIRD_TWICE,
        70_000,
    ),
    "ack_twice of the last tuple: the first one ends the tree": (Fault("ack_twice", "b", nth=[3]), [], EACH_ONCE, 70_000),
    "hang for less than the timeout: nothing but a delay": (Fault("hang", "b", nth=[3], ms=20_000), [], EACH_ONCE, 70_000),
    "lose a tuple: the tree times out": (Fault("lose", "b", nth=[3]), [(2, "timeout")], EACH_ONCE, 70_000),
    "lose an init: the tree times out though all is done": (
        Fault("lose", "__acker", nth=[2]),
        [(1, "timeout")],
        EACH_ONCE | {1: 2},
        70_000,
    ),
    "lose an ack: the same": (Fault("lose", "__acker", nth=[3]), [(0, "timeout")], EACH_ONCE | {0: 2}, 70_000),
    "lose the answer to the spout: the same": (Fault("lose", "spout", nth=[3]), [(2, "timeout")], THIRD_TWICE, 70_000),
    "unanchored, and all goes well: nothing to see": (Fault("unanchored", "a", nth=[3]), [], EACH_ONCE, 70_000),
}


@pytest.mark.parametrize(("fault", "fails", "effects", "ms"), KINDS.values(), ids=KINDS)
def test_fault_of_each_kind_has_its_outcome(
    fault: Fault, fails: list[tuple[int, str]], effects: dict[int, int], ms: int
) -> None:
    """One fault in ten numbers: who fails and why, what is done how often; and at the end every number is acked."""
    run, watch = started(chain(Numbers, Pass, Store), [fault])
    run.run_for(ms)
    assert [(event["message_id"], event["why"]) for event in watch.of("fail")] == fails
    assert watch.effects() == effects and sorted(watch.messages("ack")) == list(range(10)) and run.pending == 0
    (told,) = watch.of("fault")
    component = {"__acker": "__acker-4", "spout": "spout-1", "a": "a-2", "b": "b-3"}[fault.component]
    assert (told.actor, told["kind"]) == (component, fault.kind)


def test_unanchored_and_lost_below_is_lost_unseen() -> None:
    """One emit that forgets its anchor, and that child dropped: acked, and its effect is missing for good."""
    run, watch = started(chain(Numbers, Pass, Store), [Fault("unanchored", "a", nth=[3]), Fault("drop", "b", nth=[3])])
    run.run_for(100_000)
    assert sorted(watch.messages("ack")) == list(range(10)) and not watch.of("fail")
    assert set(watch.effects()) == set(range(10)) - {2}


def test_hang_for_ever_stops_the_task_until_it_is_restarted() -> None:
    """What waits behind the hanging tuple times out with it, again and again; a crash of the task ends it."""
    faults = [Fault("hang", "a", nth=[3]), Fault("crash", "a", at_ms=100_000)]
    run, watch = started(chain(Numbers, Store), faults)
    run.run_for(99_000)
    assert watch.messages("ack") == [0, 1] and set(watch.messages("fail")) == set(range(2, 10)) and run.queued > 8
    run.run_for(100_000)
    assert sorted(watch.messages("ack")) == list(range(10))


def test_raise_the_task_dies_of_it_with_its_inbox_and_comes_back() -> None:
    """What waited with the tuple is lost, what came while it was dead is lost, and all of it times out."""
    run, watch = started(chain(lambda: Numbers(30), Slow), [Fault("raise", "a", nth=[3])], restart_ms=500)
    run.run_for(20)
    run.run_for(70_000)
    (crash,), (restart,) = watch.of("crash"), watch.of("restart")
    assert [event["kind"] for event in watch.of("fault")] == ["raise"] and restart.at_ms == crash.at_ms + 500
    assert crash["lost"] == 28 and len(watch.of("fail")) == 28
    assert sorted(watch.messages("ack")) == list(range(30))


def test_percent_meets_about_so_many_and_the_same_ones_each_time() -> None:
    """A tenth of 1,000 tuples, by chance; the chance depends on the count alone."""
    told = []
    for _ in range(2):
        run, watch = started(chain(lambda: Numbers(1_000), Store), [Fault("fail", "a", percent=10)])
        run.run_for(10_000)
        told.append(watch.messages("fail"))
        assert len(watch.of("ack")) == 1_000
    assert told[0] == told[1] and 70 < len(told[0]) < 160


def test_plant_other_faults_while_it_runs_are_the_only_ones_and_tuples_are_counted_on() -> None:
    """A crash that is planned no more does not come, a new one does; the count of tuples goes on."""
    first = [Fault("crash", "a", at_ms=500), Fault("fail", "a", nth=[3, 30])]
    run, watch = started(chain(lambda: Numbers(40), Store), first)
    run.run_for(10)
    assert watch.messages("fail") == [2]
    run.plant([Fault("fail", "a", nth=[20]), Fault("crash", "a", at_ms=700), Fault("crash", "a", at_ms=5)])
    run.run_for(1_000)
    assert len(watch.of("bolt_fail")) == 2 and watch.of("bolt_fail")[1]["tuple"] == 20
    assert [event.at_ms for event in watch.of("crash")] == [700]
    with pytest.raises(TopologyError, match="component is 'x', expected one of a"):
        run.plant([Fault("drop", "x")])


def test_crash_of_a_dead_task_changes_nothing() -> None:
    """A task that is not there cannot die; it comes back once."""
    run, watch = started(chain(Numbers, Store))
    for _ in range(3):
        run.crash("a")
        run.run_for(100)
    run.run_for(2_000)
    assert len(watch.of("crash")) == len(watch.of("restart")) == 1


def test_crash_of_an_acker_all_its_trees_time_out_and_are_handed_out_again() -> None:
    """The work was done, and nobody knows: the acker's trees time out, are replayed and done twice; others are not."""
    faults = [Fault("crash", "__acker", at_ms=100, task_index=0)]
    run, watch = started(chain(lambda: Numbers(60), Slow), faults, topology_ackers=2)
    run.run_for(99)
    pending = {event["root"]: event["message_id"] for event in watch.of("emit")}
    by_acker = {event["root"]: event.actor for event in watch.of("acker_init")}
    gone = {pending[root] for root, actor in by_acker.items() if actor == "__acker-3"}
    assert 15 < len(gone) < 45
    run.run_for(200_000)
    (crash,) = watch.of("crash")
    assert (crash.actor, crash["lost"]) == ("__acker-3", len(gone))
    assert set(watch.messages("fail")) == gone and {event["why"] for event in watch.of("fail")} == {"timeout"}
    assert sorted(watch.messages("ack")) == list(range(60))
    assert watch.effects() == {n: 2 if n in gone else 1 for n in range(60)}


def test_crash_forgets_the_ticks_of_the_former_life() -> None:
    """A new life has ticks of its own, a whole timeout after its start; the old ones do not come any more."""
    faults = [Fault("crash", "spout", at_ms=10_000), Fault("crash", "__acker", at_ms=35_000)]
    run, watch = started(chain(Numbers, Store), faults, restart_ms=5_000)
    run.run_for(101_000)
    assert [event.at_ms for event in watch.of("spout_tick")] == [45_000, 75_000]
    assert [event.at_ms for event in watch.of("acker_tick")] == [30_000, 70_000, 100_000]


def test_collector_of_a_dead_task_says_that_its_life_is_over() -> None:
    """Whoever kept it, while the task is dead and after it came back: the new life has another collector."""
    kept: list[Any] = []

    class Keeps(Numbers):
        def open(self, conf: Any, context: Any, collector: Any) -> None:
            kept.append(collector)

    class KeepsTuple(Store):
        def process(self, given: Any, collector: Any) -> None:
            kept.append(self.collector)
            kept.append(given)

    run, _ = started(chain(Keeps, KeepsTuple), [Fault("crash", "spout", at_ms=6), Fault("crash", "a", at_ms=6)])
    says = "through an old collector"
    for ms, now in ((10, 10), (2_000, 2_010)):
        run.run_for(ms)
        with pytest.raises(TopologyError, match=f"spout-1 sends a tuple at {now} ms {says}"):
            kept[0].emit([1])
        with pytest.raises(TopologyError, match=f"a-2 acks a tuple at {now} ms {says}"):
            kept[1].ack(kept[2])
        with pytest.raises(TopologyError, match=f"a-2 anchors to a tuple at {now} ms {says}|a-2 sends a tuple at {now} ms {says}"):
            kept[1].emit([1], anchors=kept[2])


def test_crash_loop_of_a_spout_that_cannot_open_ends_with_the_time() -> None:
    """errors="crash": it dies at each start and comes back each second; nothing hangs."""

    class Closed(Numbers):
        def open(self, *told: Any) -> None:
            raise OSError("the queue is closed")

    run, watch = started(chain(Closed, Store), errors="crash")
    run.run_for(10_500)
    assert len(watch.of("crash")) == 11 and len(watch.of("restart")) == 10


def test_crash_in_the_middle_of_a_tick_takes_the_rest_of_what_expired() -> None:
    """A spout that dies of the first failure hears of no further one; its trees are forgotten."""

    class Fragile(Numbers):
        def fail(self, message_id: Any) -> None:
            raise OSError("the queue is closed")

    run, watch = started(chain(Fragile, Store), [Fault("drop", "a", nth=range(1, 11))], errors="crash")
    run.run_for(60_500)
    assert len(watch.of("crash")) == 1 and not watch.of("fail") and run.pending == 0 and not run.open_tuples
