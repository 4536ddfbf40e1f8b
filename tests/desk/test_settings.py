"""The desk's settings: what is refused, and with which sentence."""

from __future__ import annotations

import pytest

from kitlib.desk.run import DeskRun
from kitlib.desk.settings import KNOBS, settled
from kitlib.errors import KnobError, LabError
from kitlib.experiments.knobs import UNLIMITED


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        pytest.param({"rate": -1}, "rate is -1, expected 0 to 2,000 records/s", id="a negative rate"),
        pytest.param({"lost_answers": 101}, "lost_answers is 101, expected 0 to 100 %", id="more than all answers"),
        pytest.param({"speed": 3}, "the desk has no knob 'speed'. Its knobs are rate, client", id="a knob that there is not"),
        pytest.param({"max_in_flight": 6}, "librdkafka allows at most 5 requests in flight then", id="idempotent with six in flight"),
        pytest.param({"bolt_rate": 0}, "bolt_rate is 0, expected 1 to 5,000", id="a bolt that stands still"),
        pytest.param({"client": "java"}, "client is 'java', expected one of librdkafka, kit", id="a client that there is not"),
    ],
)
def test_bad_setting_is_one_sentence(given: dict[str, object], sentence: str) -> None:
    """It says what was given, what is allowed, and what the knob is."""
    with pytest.raises(KnobError) as told:
        DeskRun(**given)
    assert sentence in str(told.value)


def test_settings_keep_what_is_not_named() -> None:
    """A turned knob leaves the others; texts are read as a command line writes them."""
    before = settled({"rate": "50", "max_offset_behind": "unlimited"})
    assert settled({"idempotence": "false"}, before) == {**before, "idempotence": False}
    assert (before["rate"], before["max_offset_behind"], len(before)) == (50, UNLIMITED, len(KNOBS))
    assert settled({"client": "kit", "max_in_flight": 10})["max_in_flight"] == 10


def test_desk_that_does_not_run_refuses_its_buttons() -> None:
    """Before the start and after the end a button is one sentence."""
    desk = DeskRun()
    for button in (desk.drain, desk.kill_spout, desk.kill_broker, desk.database_away):
        with pytest.raises(LabError, match=r"is new, so nobody can .*Start another desk"):
            button()
    desk.stop()
    with pytest.raises(KnobError, match=r"expected 0.1 to 60"):
        desk.database_away(0)
