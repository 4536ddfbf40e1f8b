"""What is done later is done in the order of its time."""

from __future__ import annotations

from kitlib.experiments.agenda import Agenda


def test_agenda_goes_by_time_and_then_by_the_order_of_adding() -> None:
    """Also for actions that could not be compared with each other."""
    agenda, done = Agenda(), list[str]()
    for at_ms, name in ((20, "late"), (10, "first"), (10, "second"), (0, "now")):
        agenda.add(at_ms, lambda name=name: done.append(name))  # type: ignore[misc]
    times = []
    while agenda:
        assert agenda.next_ms(otherwise=99) <= 20
        at_ms, action = agenda.pop()
        times.append(at_ms)
        action()
    assert (times, done) == ([0, 10, 10, 20], ["now", "first", "second", "late"])
    assert agenda.next_ms(otherwise=99) == 99
