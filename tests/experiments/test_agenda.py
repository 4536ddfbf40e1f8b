"""What is done later is done in the order of its time."""

from __future__ import annotations

from kitlib.experiments.agenda import AgendaRun
from kitlib.experiments.backend import ModelBackend
from kitlib.settings import Settings
from kitlib.trace import Trace


def test_agenda_goes_by_time_and_then_by_the_order_of_adding() -> None:
    """Also for actions that could not be compared with each other; time goes on to where it was to go."""
    run, done = AgendaRun(Trace("r", "test"), ModelBackend("r"), Settings()), list[tuple[int, str]]()
    for at_ms, name in ((20, "late"), (10, "first"), (10, "second"), (0, "now")):
        run.after(at_ms, lambda name=name: done.append((run.now_ms, name)))  # type: ignore[misc]
    run.run_for(15)
    assert (done, run.now_ms) == ([(0, "now"), (10, "first"), (10, "second")], 15)
    run.run_for(15)
    assert (done[-1], run.now_ms) == ((20, "late"), 30)
