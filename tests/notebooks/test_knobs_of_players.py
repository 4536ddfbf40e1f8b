"""The knobs that a player offers beside its picture or that a notebook tells to turn there: each, turned alone, must change something."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any

import pytest

from kitlib.errors import KitError
from kitlib.experiments import get, names
from kitlib.experiments.knobs import Knob
from kitlib.monitor.delivery import judge
from kitlib.views.browser.controls import stops_of
from kitlib.views.frames import to_frames
from kitlib.views.picture import draw
from tests.conftest import REPOSITORY

ARGUMENTS = ("part", "seed", "open_at", "front")  # of a player, beside its knobs


def players() -> Iterator[tuple[str, str, dict[str, Any], list[str]]]:
    """Each player of each notebook: the notebook, the experiment, the player's arguments, and the knobs named in the text beside it."""
    for path in sorted((REPOSITORY / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) if cell["cell_type"] == "markdown" else "" for cell in cells]
        for number, cell in enumerate(cells):
            player = re.search(r"Player\(.*\)", "".join(cell["source"]))
            if cell["cell_type"] != "code" or not player:
                continue
            call = ast.parse(player[0], mode="eval").body
            assert isinstance(call, ast.Call)
            name = ast.literal_eval(call.args[0])
            given = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
            before = next(text for text in reversed(texts[:number]) if text)
            told = re.findall(r"`(\w+)", before + "".join(texts[number + 1 : number + 2]))
            yield path.stem, name, given, [knob.name for knob in get(name).knobs if knob.name in told]


PLAYERS = list(players())
TOLD = [(book, name, given, knob) for book, name, given, told in PLAYERS for knob in told]
OFFERED = [("", name, {}, knob) for name in names() for knob in get(name).front] + [
    (book, name, given, knob) for book, name, given, _ in PLAYERS for knob in given.get("front", get(name).front)
]
TURNED = [each for number, each in enumerate([*TOLD, *OFFERED]) if each not in [*TOLD, *OFFERED][:number]]


def values_to_try(knob: Knob, value: Any) -> list[Any]:
    """Some of a knob's stops, other than `value`: all where they are few, else its ends and some between."""
    stops = [False, True] if knob.kind == "bool" else stops_of(knob, value)
    kept = {*stops[:2], *stops[:: max(1, len(stops) // 8)], stops[-1]} if knob.kind != "choice" else {*stops}
    return sorted(kept - {value})


def run_with(name: str, given: dict[str, Any], **knobs: Any) -> Any:
    settings = {word: value for word, value in given.items() if word not in ARGUMENTS}
    return get(name).run(seed=given.get("seed", 1), **(settings | knobs))


class Outcome:
    """The verdict, the figure of merit and, where somebody asks for it, the last picture."""

    def __init__(self, name: str, given: dict[str, Any], **knobs: Any) -> None:
        self.trace, self.part = run_with(name, given, **knobs), given.get("part", "all")
        verdict, figure = judge(self.trace), get(name).figure
        self.told = verdict.sentence, str(figure and figure.measure(self.trace, verdict))

    @cached_property
    def picture(self) -> str:
        return draw(to_frames(self.trace, self.part), len(self.trace) - 1).svg


@cache
def begun_outcome(name: str, given: str) -> Outcome:
    """Of a player as it is opened, which the tests of all its knobs compare with."""
    return Outcome(name, ast.literal_eval(given))


def differs(begun: Outcome, name: str, given: dict[str, Any], **knobs: Any) -> bool:
    try:
        now = Outcome(name, given, **knobs)
    except KitError:
        return False
    return now.told != begun.told or now.picture != begun.picture


@pytest.mark.parametrize(
    ("book", "name", "given", "knob"), TURNED, ids=[f"{each[0][:2] or 'any'}-{each[1]}-{each[3]}" for each in TURNED]
)
def test_knob_that_is_offered_or_told_to_be_turned_changes_picture_verdict_or_figure(
    book: str, name: str, given: dict[str, Any], knob: str
) -> None:
    """Turned alone in the player as a notebook opens it, or with its defaults, a knob of the front row gives another verdict,
    figure or last picture, and so does one that the text names. A value that is refused is no change."""

    [found] = [each for each in get(name).knobs if each.name == knob]
    begun = begun_outcome(name, repr(given))
    values = values_to_try(found, given.get(knob, found.default))
    assert any(differs(begun, name, given, **{knob: value}) for value in values), f"{knob} changes nothing at any of {values}"


@pytest.mark.parametrize(("book", "name", "given", "told"), PLAYERS, ids=[f"{each[0][:2]}-{each[1]}" for each in PLAYERS])
def test_knobs_that_a_notebook_names_stand_beside_its_player(
    book: str, name: str, given: dict[str, Any], told: list[str]
) -> None:
    """Nobody has to unfold a player's settings for the knob that the text tells to turn."""
    assert set(told) <= set(given.get("front", get(name).front))


LOST = {knob: given for book, name, given, knob in TOLD if book[:2] == "07" and name == "answers_lost"}


def lost(given: dict[str, Any], **knobs: Any) -> int:
    return int(run_with("answers_lost", given, **knobs).words().get("lose_answer", 0))


@pytest.mark.parametrize("name", [name for name in LOST if name != "idempotence"])  # a switch has two values
def test_each_knob_of_the_lost_answers_moves_how_many_are_lost(name: str) -> None:
    """The first story about requests in flight: turned alone, each knob gives three different numbers of lost answers or more."""
    [knob] = [each for each in get("answers_lost").knobs if each.name == name]
    assert len({lost(LOST[name], **{name: value}) for value in stops_of(knob, knob.default)}) >= 3


def test_a_copy_can_be_had_in_the_player_of_the_lost_answers() -> None:
    """What the notebook says can be found there is there: six answers lost of six in flight, and the broker knows only five."""
    trace = run_with("answers_lost", LOST["lost_answers"], lost_answers=6, max_in_flight=6)
    assert judge(trace).counts["duplicated"] > 0
    assert LOST.keys() >= {"lost_answers", "max_in_flight", "delay_ms", "linger_ms"}
