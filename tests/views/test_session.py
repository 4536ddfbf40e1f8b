"""The player's half beside the models: it needs no widget."""

from __future__ import annotations

import subprocess
import sys

from kitlib.views.browser.session import Session
from tests.conftest import REPOSITORY


def test_a_session_of_every_experiment_needs_the_standard_library_alone() -> None:
    """Without any installed package each experiment runs, is judged, and its pictures are made."""
    code = f"""if True:
        import sys
        sys.path.insert(0, {str(REPOSITORY)!r})
        from kitlib.experiments import names
        from kitlib.views.browser.session import Session
        for name in names():
            assert Session(name, knobs={{"max_steps": 40}}).frames
        print(sorted({{module.partition(".")[0] for module in sys.modules}} - set(sys.stdlib_module_names) - {{"__main__"}}))
    """
    answer = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (answer.stdout.strip(), answer.stderr) == ("['kitlib']", "")


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
