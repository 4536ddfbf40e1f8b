"""The world's clock and its lines: what is done when, and which messages come."""

from __future__ import annotations

from kitlib.experiments.backend import ModelBackend
from kitlib.experiments.script import Intervention
from kitlib.experiments.world import LOST_MS, World
from kitlib.settings import Settings
from kitlib.trace import Trace


def world() -> World:
    return World(Trace("r", "test"), ModelBackend("r"), Settings())


def test_agenda_goes_by_time_and_then_by_the_order_of_adding() -> None:
    """Also for actions that could not be compared with each other; time goes on to where it was to go."""
    run, done = world(), list[tuple[int, str]]()
    for at_ms, name in ((20, "late"), (10, "first"), (10, "second"), (0, "now")):
        run.after(at_ms, lambda name=name: done.append((run.now_ms, name)))  # type: ignore[misc]
    run.run_for(15)
    assert (done, run.now_ms) == ([(0, "now"), (10, "first"), (10, "second")], 15)
    run.run_for(15)
    assert (done[-1], run.now_ms) == ((20, "late"), 30)


def test_what_follows_a_late_message_waits_and_what_follows_a_lost_one_is_lost() -> None:
    """On its line, until the network ends that; what is under way then never comes, and the next connection is as good as new."""
    run, done = world(), list[tuple[int, str]]()

    def end() -> None:
        done.append((run.now_ms, "ends"))
        line.cut()

    line = run.line("A", end)

    def carry(name: str, script: str = "") -> None:
        found = Intervention.parse(script) if script else None
        run.carry("answer", found, 5, lambda: done.append((run.now_ms, name)), lambda what, **ms: done.append((run.now_ms, what)), line)

    carry("late", "delay answer 1 by 20 ms")
    carry("behind it")
    run.run_for(30)
    carry("lost", "lose answer 3")
    carry("lost with it")
    run.run_for(LOST_MS)
    carry("again")
    run.run_for(10)
    assert done == [
        (0, "delay"), (25, "late"), (25, "behind it"), (30, "lose_answer"), (30, "lose_answer"), (30 + LOST_MS, "ends"),
        (35 + LOST_MS, "again"),
    ]  # fmt: skip
