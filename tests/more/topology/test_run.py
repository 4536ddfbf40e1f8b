"""A topology runs: what it does when all is well."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kitlib.more.topology import TopologyBuilder, TopologyError
from tests.more.topology.parts import Endless, Holder, Numbers, Pass, Slow, Store, chain, started


def test_steps_of_one_tree_are_told_in_order_with_their_data() -> None:
    """Spout, bolt, store, three messages to the acker and its answer: what is told of one tuple."""
    run, watch = started(chain(lambda: Numbers(1), Pass, Store))
    run.run_for(100)
    told = [(event.at_ms, event.actor, event.what) for event in watch.events]
    assert told == [
        (1, "spout-1", "emit"),
        (2, "__acker-4", "acker_init"),
        (3, "a-2", "execute"),
        (3, "a-2", "send"),
        (3, "a-2", "bolt_ack"),
        (4, "__acker-4", "acker_ack"),
        (5, "b-3", "execute"),
        (5, "b-3", "process"),
        (5, "b-3", "bolt_ack"),
        (6, "__acker-4", "acker_ack"),
        (7, "spout-1", "ack"),
    ]
    emit, init, _, send, acked, first, _, _, last_acked, last, _ = watch.events
    ((number, to, edge),) = emit["tuples"]
    root, child = emit["root"], send["ids"][0][1]
    assert (number, to, emit["val"], emit["values"]) == (1, "a-2", edge, [0])
    assert send.data == {"tuple": 2, "parents": [1], "ids": [[root, child]], "to": "b-3", "values": [0]}
    assert acked.data == {"tuple": 1, "vals": [[root, edge ^ child]]} and last_acked.data == {"tuple": 2, "vals": [[root, child]]}
    assert init.data == {"root": root, "val": edge, "spout_task": 1, "before": None, "after": edge, "end": None}
    assert first.data == {"root": root, "val": edge ^ child, "before": edge, "after": child, "end": None}
    assert last.data == {"root": root, "val": child, "before": child, "after": None, "end": "ack"}


def test_run_for_until_stops_at_once_and_goes_on() -> None:
    """The run stops after the event that made `until` true, and the next call goes on from there."""
    run, watch = started(chain(Numbers, Store))
    run.run_for(10_000, until=lambda: watch.count("ack") == 3)
    assert watch.count("ack") == 3 and watch.events[-1].what == "ack" and run.now_ms == watch.events[-1].at_ms
    run.run_for(0, until=lambda: True)
    assert watch.count("ack") == 3
    run.run_for(10_000)
    assert watch.messages("ack") == list(range(10)) and run.now_ms > 10_000


@pytest.mark.parametrize("release", ["0.9.3", "2.4.0"])
def test_a_tuple_that_nobody_subscribes_to_is_an_init_of_0_and_acked_at_once(release: str) -> None:
    """No task gets it: the XOR of no ids is 0, which ends the tree at its init."""
    builder = TopologyBuilder()
    builder.set_spout("spout", Numbers)
    run, watch = started(builder.create_topology(), acker_release=release)
    run.run_for(100)
    assert watch.messages("ack") == list(range(10))
    assert {(event["val"], event["before"], event["end"]) for event in watch.of("acker_init")} == {(0, None, "ack")}


@pytest.mark.parametrize(("per_call", "peak"), [(1, 400), (5_000, 20_000)], ids=["1 a call", "5,000 a call"])
def test_max_spout_pending_is_per_task_and_asked_between_calls(per_call: int, peak: int) -> None:
    """100 for 4 tasks: 400 pending in all when a call emits one tuple, 20,000 when it emits 5,000 (B6)."""
    run, _ = started(
        chain(lambda: Endless(per_call=per_call), Holder, spouts=4), topology_max_spout_pending=100, topology_ackers=2
    )
    run.run_for(2_000)
    assert run.pending == peak and {len(spout.pending) for spout in run.spouts.values()} == {peak // 4}


def test_max_spout_pending_raised_while_it_runs_lets_a_waiting_spout_go_on() -> None:
    """Nothing ends, so that only the new bound can wake the spout."""
    run, watch = started(chain(Endless, Holder), topology_max_spout_pending=5, topology_enable_message_timeouts=False)
    run.run_for(1_000)
    assert watch.count("emit") == 5
    run.config.topology_max_spout_pending = 8
    run.run_for(1_000)
    assert watch.count("emit") == 8


def test_spout_with_nothing_to_say_is_asked_less_and_less_often() -> None:
    """10, 20, ... 320 ms between two questions; a tree's end is a reason to ask at once."""
    asked = []

    class Quiet(Numbers):
        def next_tuple(self) -> None:
            asked.append(self.context.now_ms)
            super().next_tuple()

    run, watch = started(chain(lambda: Quiet(1), Slow))
    run.run_for(1_100)
    gaps = [after - before for before, after in pairwise(asked)]
    (ended,) = [event.at_ms for event in watch.of("ack")]
    assert ended + 1 in asked
    assert gaps[:4] == [1, 10, 20, 40] and gaps[-4:] == [80, 160, 320, 320]


def test_close_calls_every_living_component_once_and_ends_the_run() -> None:
    """close and cleanup are called once; after it the run and its collectors say so."""
    closed = []

    class Closing(Numbers):
        def close(self) -> None:
            closed.append(self.context.task)

    class Cleaning(Store):
        def cleanup(self) -> None:
            closed.append(self.context.task)

    run, _ = started(chain(lambda: Closing(5), Cleaning, spouts=2))
    run.run_for(10)
    run.crash("spout", 1)
    run.close()
    run.close()
    assert closed == ["spout-1", "a-3"]
    with pytest.raises(TopologyError, match=r"run_for: the run is closed. Start another"):
        run.run_for(1)
    with pytest.raises(TopologyError, match="spout-1 sends a tuple at 10 ms through an old collector"):
        run.spouts[1].spout.collector.emit([1])
