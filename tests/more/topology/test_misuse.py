"""What a learner hears who misuses a running topology; never a hang, never a riddle."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kitlib.errors import KitError
from kitlib.more.topology import Spout, TopologyBuilder, TopologyConfig, TopologyError, TopologyRun
from tests.more.topology.parts import Numbers, Pass, Store, Watch, bolt_that, by_chance, chain, started


def spout_that(does: Callable[[Any], object]) -> Callable[[], Spout]:
    class Does(Numbers):
        def next_tuple(self) -> None:
            does(self)

    return Does


def endless(spout: Any) -> None:
    while True:
        spout.collector.emit([1], message_id=1)


SPOUTS: dict[str, tuple[Callable[[Any], object], str]] = {
    "values that are a text": (lambda s: s.collector.emit("a"), r"spout sends 'a', expected a list of 1 \(n\)"),
    "too many values": (lambda s: s.collector.emit([1, 2]), r"spout sends \[1, 2\], expected a list of 1 \(n\). Send one value"),
    "a loop without an end": (endless, "spout-1 sent more than 1,000 tuples in one call"),
    "an error of its own": (lambda s: 1 // 0, "spout-1 raised ZeroDivisionError in next_tuple: integer division"),
    "an exit": (lambda s: (_ for _ in ()).throw(SystemExit(3)), "spout-1 raised SystemExit in next_tuple: 3"),
    "calls without an end": (lambda s: s.next_tuple(), "spout-1 raised RecursionError in next_tuple"),
}


@pytest.mark.parametrize(("does", "says"), SPOUTS.values(), ids=SPOUTS)
def test_spout_that_does_what_it_may_not_is_told_so(
    does: Callable[[Any], object], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who, what was got, what was expected; and the run ends instead of hanging."""
    monkeypatch.setattr("kitlib.more.topology.tasks.MAX_TUPLES_A_CALL", 1_000)
    run, _ = started(chain(spout_that(does), Store))
    with pytest.raises(TopologyError, match=says):
        run.run_for(10)


BOLTS: dict[str, tuple[Callable[[Any, Any], object], str]] = {
    "the anchor before the values": (lambda b, t: b.collector.emit(t, [1]), "a sends <Tuple 1 .* .* The values come first"),
    "an anchor that is no tuple": (lambda b, t: b.collector.emit([1], anchors=[1]), "a-2 anchors to 1, which it was never given"),
    "no anchors at all": (lambda b, t: b.collector.emit([1], anchors=None), "a-2 anchors to None, which it was never given"),
    "an ack of a number": (lambda b, t: b.collector.ack(t["n"]), "a-2 acks 0, which it was never given. Use the tuple that execute"),
    "an unknown field": (lambda b, t: t["word"], "tuple 1 of spout has no field 'word'. Its fields are n"),
}


@pytest.mark.parametrize(("does", "says"), BOLTS.values(), ids=BOLTS)
def test_bolt_that_does_what_it_may_not_is_told_so(does: Callable[[Any, Any], object], says: str) -> None:
    """Who, what was got, what was expected."""
    run, _ = started(chain(Numbers, bolt_that(does), Store))
    with pytest.raises(TopologyError, match=says):
        run.run_for(10)


@pytest.mark.parametrize("ms", [-1, 0.5], ids=repr)
def test_execute_ms_that_is_no_time_is_told_of(ms: Any) -> None:
    """How long a tuple takes is a whole number of ms, whatever the class says."""
    run, _ = started(chain(Numbers, bolt_that(lambda bolt, given: None, ms)))
    with pytest.raises(TopologyError, match=f"a-2: execute_ms is {ms!r}, expected a whole number of ms from 0 on"):
        run.run_for(10)


def test_ack_of_a_tuple_of_another_task_is_refused() -> None:
    """A tuple belongs to the task that it was given to."""
    kept = []
    run, _ = started(chain(Numbers, bolt_that(lambda bolt, given: (kept.append(given), bolt.collector.emit([1]))),
                           bolt_that(lambda bolt, given: bolt.collector.ack(kept[0]))))  # fmt: skip
    with pytest.raises(TopologyError, match="b-3 acks tuple 1 of spout, which it was never given"):
        run.run_for(10)


@pytest.mark.parametrize("message_id", [0, [1, 2]], ids=repr)
def test_message_id_may_be_anything_but_none(message_id: Any) -> None:
    """The spout gets back the very object that it gave, hashable or not."""
    got = []

    class Once(Numbers):
        def next_tuple(self) -> None:
            if self.left:
                self.left = []
                self.collector.emit([1], message_id=message_id)

        def ack(self, message_id: Any) -> None:
            got.append(message_id)

    started(chain(Once, Store))[0].run_for(20)
    assert len(got) == 1 and got[0] is message_id


def test_values_changed_after_the_emit_do_not_change_the_tuple() -> None:
    """A list that is used again is copied when it is sent."""

    class Reuses(Numbers):
        def open(self, *told: Any) -> None:
            self.row = [0]

        def next_tuple(self) -> None:
            self.row[0] += 1
            self.collector.emit(self.row)

    run, watch = started(chain(Reuses, Store))
    run.run_for(6)
    assert [event["n"] for event in watch.of("process")] == [1, 2, 3, 4]


@pytest.mark.parametrize("where", ["open", "ack", "fail", "is_retried", "close"])
def test_error_of_a_spout_s_other_methods_names_the_method(where: str) -> None:
    """Whatever of it Storm calls: the task, the error, the method."""

    def broken(self: Any, *told: Any) -> None:
        raise ValueError("no table")

    Broken = type("Broken", (Numbers,), {where: broken})
    is_failed, told = where in ("fail", "is_retried"), "fail" if where == "is_retried" else where
    fails = bolt_that(lambda bolt, given: bolt.collector.fail(given) if is_failed else bolt.collector.ack(given))
    with pytest.raises(TopologyError, match=f"spout-1 raised ValueError in {told}: no table. In Storm its worker would die"):
        run, _ = started(chain(lambda: Broken(1), fails))
        run.run_for(10)
        run.close()


def test_error_with_crash_the_task_dies_of_it_and_comes_back() -> None:
    """errors="crash": a KitError of a component, too, is what Storm's worker would die of; misuse still ends the run."""

    def raises_once(bolt: Any, given: Any) -> None:
        if bolt.context.now_ms < 100:
            raise KitError("the disk is full. Make room.")
        bolt.collector.ack(given)

    run, watch = started(chain(Numbers, bolt_that(raises_once)), errors="crash", restart_ms=200)
    run.run_for(61_000)
    assert watch.of("fault", "a")[0].data == {"kind": "raise", "error": "KitError: the disk is full. Make room."}
    assert [event.at_ms for event in watch.of("restart")] == [watch.of("crash")[0].at_ms + 200]
    assert sorted(watch.messages("ack")) == list(range(10)) and len(watch.of("fail")) == 10
    run, _ = started(chain(Numbers, bolt_that(lambda bolt, given: bolt.collector.ack(None))), errors="crash")
    with pytest.raises(TopologyError, match="a-2 acks None"):
        run.run_for(10)


def test_error_of_the_kit_s_own_passes_as_it_is() -> None:
    """errors="raise": a KitError says already what to do, and is not wrapped."""

    def full(spout: Any) -> None:
        raise KitError("the disk is full. Make room.")

    run, _ = started(chain(spout_that(full), Store))
    with pytest.raises(KitError, match=r"^the disk is full. Make room.$"):
        run.run_for(10)


@pytest.mark.parametrize("errors", ["raise", "crash"])
@pytest.mark.parametrize("word", ["emit", "execute", "send", "process", "acker_init", "ack", "spout_tick"])
def test_what_an_observer_raises_ends_the_run_and_nobody_is_blamed(word: str, errors: str) -> None:
    """An observer may end a run from within a component's call; no task dies of it."""

    class Enough(Exception):
        pass

    class Stops(Watch):
        def __call__(self, actor: str, what: str, data: dict[str, Any]) -> None:
            super().__call__(actor, what, data)
            if what == word:
                raise Enough

    watch = Stops()
    topology, config = chain(Numbers, Pass, Store), TopologyConfig(errors=errors)
    run = TopologyRun(topology, config, rng=Random(1), chance=by_chance, observer=watch)
    with pytest.raises(Enough):
        run.run_for(60_000)
    assert watch.events[-1].what == word and not watch.of("crash")


def test_bolts_that_breed_without_time_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cycle that sends more and more ends with a sentence before it fills the memory."""
    monkeypatch.setattr("kitlib.more.topology.run.MAX_EVENTS_AT_ONCE", 1_000)
    builder = TopologyBuilder()
    builder.set_spout("spout", lambda: Numbers(1))
    breeds = bolt_that(lambda bolt, given: [bolt.collector.emit([1], anchors=given) for _ in range(3)], 0)
    builder.set_bolt("a", breeds).shuffle_grouping("spout").shuffle_grouping("a")
    run, _ = started(builder.create_topology())
    with pytest.raises(TopologyError, match=r"1,000 things happened without time moving.*Look at the cycles"):
        run.run_for(1_000)
