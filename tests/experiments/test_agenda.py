"""What is done later is done in the order of its time; tables are as wide as their cells, and escape them."""

from __future__ import annotations

from kitlib.experiments.agenda import Agenda
from kitlib.experiments.plain_table import as_html, as_text


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


def test_table_as_text_and_as_html() -> None:
    """No blanks at the end of a line; no cell is taken for HTML."""
    head, rows = ("who", "says"), [("java", "<b>"), ("librdkafka", "no & yes")]
    assert as_text(head, rows) == "who         says\njava        <b>\nlibrdkafka  no & yes"
    assert "<th>says</th>" in as_html(head, rows) and "<td>&lt;b&gt;</td>" in as_html(head, rows)
    assert as_html(head, rows).count("<tr>") == 3
