"""A player composes with other widgets: knobs, seed, step and verdict are traitlets."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments import get
from kitlib.experiments.knobs import UNLIMITED
from kitlib.views import Player

SMALL = "small_max_offset_behind"


def test_setting_values_runs_anew_and_tells_who_observes(player: Player) -> None:
    """A knob set in Python gives the experiment's own run; the others stay; verdict, trace, sentence and values tell it once each."""
    told: list[str] = []
    player.observe(lambda change: told.append(change["name"]), ["values", "seed", "step", "verdict", "trace", "sentence"])
    player.values = {"max_offset_behind": 100}
    assert player.trace.steps == get(SMALL).run(max_offset_behind=100).steps
    assert player.values == player.trace.settings and player.values["max_offset_behind"] == 100
    assert player.sentence == player.verdict.sentence
    assert sorted(told) == ["sentence", "trace", "values", "verdict"]
    told.clear()
    player.seed = 5
    assert player.trace.seed == 5 and "values" not in told and "seed" in told
    assert player.told["set"], "the controls follow"


def test_values_and_seed_set_together_are_one_run(player: Player) -> None:
    """Who holds the notifications gets a single run with both."""
    runs: list[Any] = []
    player.observe(lambda change: runs.append(change["new"]), "trace")
    with player.hold_trait_notifications():
        player.values, player.seed = {"records": 30}, 7
    assert [(trace.seed, trace.settings.records) for trace in runs] == [(7, 30)]


BAD: tuple[tuple[dict[str, Any], str], ...] = (
    ({"max_offset_behind": -3}, "max_offset_behind is -3"),
    ({"records": "many"}, "records is 'many'"),
    ({"speed": 1}, "has no knob 'speed'"),
)


@pytest.mark.parametrize(("values", "sentence"), BAD, ids=[each[1] for each in BAD])
def test_bad_values_are_a_knob_error_in_python_and_a_sentence_in_the_page(
    player: Player, values: dict[str, Any], sentence: str
) -> None:
    """A bad value changes nothing. Set in Python it is raised; set by a linked widget it is told in the player."""
    before = (player.trace, player.values)
    with pytest.raises(KnobError, match=sentence):
        player.values = values
    assert (player.trace, player.values) == before
    player.set_state({"values": values})
    assert sentence in player.told["error"] and (player.trace, player.values) == before
    with pytest.raises(KnobError, match="expected a whole number"):
        player.seed = -1
    player.set_state({"values": {"records": 30}})
    assert (player.told["error"], player.trace.settings.records) == ("", 30)


def test_a_step_outside_of_the_run_is_its_nearest_end(player: Player) -> None:
    """A linked slider may be longer than the run."""
    last = len(player.trace) - 1
    for asked, shown in ((12, 12), (10**6, last), (-5, 0)):
        player.step = asked
        assert player.step == shown
    assert Player(SMALL, open_at="anomaly").step > 0


def test_whole_numbers_arrive_exactly(player: Player) -> None:
    """What JavaScript would round is sent as a word or as text, and read back as the number."""
    player.values = {"max_offset_behind": UNLIMITED}
    assert player.get_state(["values"])["values"]["max_offset_behind"] == "unlimited"
    player.seed = 10**18 - 1
    sent = player.get_state(["seed"])["seed"]
    player.seed = 1
    player.set_state({"seed": sent, "values": {"max_offset_behind": "unlimited"}})
    assert str(player.seed) == sent and player.values["max_offset_behind"] == UNLIMITED
