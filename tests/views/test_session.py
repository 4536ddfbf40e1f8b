"""The player's half beside the models: it needs no widget."""

from __future__ import annotations

from kitlib.views.browser.session import Session


def test_a_knob_keeps_the_place_in_time() -> None:
    """Of another run the step is shown at which as much time has passed; the first stays the first, and the last the last."""
    session = Session("small_max_offset_behind")
    before = session.trace
    places = {}
    for shown in (0, 1, 150, 2**31):
        session.answer({"number": 1, "do": "run", "knobs": {"max_offset_behind": 5}, "seed": 1})
        session.answer({"number": 2, "do": "run", "knobs": {"max_offset_behind": 60}, "seed": 1, "shown": shown})
        places[shown] = session.told["at"]
    now = session.trace
    assert (places[0], places[1], places[2**31]) == (0, 1, len(now) - 1)
    at = places[150]
    assert now.at(at).at_ms <= before.at(150).at_ms < now.at(at + 1).at_ms
