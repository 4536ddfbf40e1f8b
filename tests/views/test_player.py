"""The player's half in the kernel: what it answers to the browser, and the script it sends there."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import pytest

from kitlib import experiments
from kitlib.errors import KnobError
from kitlib.experiments import get, names
from kitlib.experiments.knobs import UNLIMITED, Knob, bind
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from kitlib.views import Player, show
from kitlib.views.browser.controls import stops_of
from kitlib.views.browser.played import played
from kitlib.views.browser.player import HERE, SCRIPTS, STYLES
from kitlib.views.frames import to_frames
from kitlib.views.picture import draw
from tests.views.traces import SOME_STEPS, some_steps_of, story

SMALL = "small_max_offset_behind"


def ask(player: Player, **question: Any) -> dict[str, Any]:
    """Ask as the browser does, and give back what it is told."""
    player._on_question(player, {"number": player.told["number"] + 1, **question}, [])
    told: dict[str, Any] = player.told
    return told


def test_the_step_that_is_shown_is_drawn_first_and_all_steps_when_they_are_asked_for(player: Player) -> None:
    """A knob that is turned gets the picture of its step; the others come when the page asks, of the last run; its answer stays."""
    turn = {"do": "run", "seed": "1", "knobs": {}, "shown": 2**31}
    for _ in range(2):
        ask(player, **turn)
        assert (player.told["isWhole"], json.loads(player.frames)["isWhole"]) == (False, False)
    first, number = len(player.frames), player.told["number"]
    ask(player, do="fork", at=-1)
    assert player.told["error"], "what cannot be done leaves the run, and its pictures still come"
    player._on_question(player, {"do": "complete"}, [])
    assert (player.told["number"], player.told["isWhole"]) == (number + 1, True)
    assert len(player.frames) > first and player.frames == played(to_frames(player.trace), comparison=player.session.comparison)


@pytest.mark.parametrize("name", names())
def test_player_of_each_experiment_holds_its_trace_and_verdict(name: str) -> None:
    """A player shows the run and the verdict that the experiment itself gives; in its front row stand one to five of its own knobs."""
    player = Player(name, seed=3, max_steps=SOME_STEPS)
    trace = some_steps_of(name, seed=3)
    assert player.trace.steps == trace.steps
    assert player.verdict == judge(trace)
    front, known = get(name).front, [knob.name for knob in get(name).knobs]
    assert [knob["name"] for knob in player.heading["knobs"]] == known and player.heading["front"] == list(front)
    assert 1 <= len(front) <= 5 and len(set(front)) == len(front) and set(front) <= set(known) - {"max_steps"}
    assert len(json.loads(player.session.frames)["said"]) == len(trace)


@pytest.mark.parametrize("name", names())
def test_run_that_is_cut_says_so_below_its_picture(name: str) -> None:
    """Every kind of picture, still or played, has the same line below it, and the last step's sentence says it too."""
    whole, said = to_frames(experiments.run(name)), "The run was cut at max_steps=10, so the rest of its story is missing."
    assert whole.cut == "" and "was cut" not in whole.said[-1]
    if len(whole) < 9:
        return
    player = Player(name, max_steps=10)
    frames = json.loads(player.frames)
    assert frames["cut"] == said and len(frames["said"]) == 10
    assert frames["said"][-1] == "The run stops here, at max_steps=10: anything that would come next is not in this trace."
    for picture in (show(player.trace), show(player.trace, 3)):
        assert said in picture.sentence and f">{said}</text>" in picture.svg
    told = ask(player, do="fork", at=9)
    assert "step 9 is the last one, so a fork there would change nothing." in told["error"]


def test_player_plain_output_is_a_deterministic_sentence() -> None:
    """Two players of the same run print the same text: the verdict, and no address."""
    one, other = Player(SMALL), Player(SMALL)
    assert repr(one) == repr(other)
    assert repr(one) == f"<Player of {SMALL}: {one.verdict.sentence}>"
    shown, also = one._repr_mimebundle_()[0], other._repr_mimebundle_()[0]
    assert shown["text/plain"] == repr(one)
    assert shown["image/svg+xml"] == also["image/svg+xml"]
    assert shown["image/svg+xml"].startswith("<svg")


def test_a_player_opens_at_the_start_and_its_still_picture_is_the_outcome(player: Player) -> None:
    """A run is told from its first step on; where nothing can be moved its last step is shown."""
    assert player.told["at"] == 0
    still = player._repr_mimebundle_()[0]["image/svg+xml"]
    assert still == draw(to_frames(player.trace), len(player.trace) - 1).svg


def test_a_player_opens_where_it_is_asked_to() -> None:
    """A step's number is that step; "anomaly" is the first loss where there are losses, however early a record was late."""
    assert Player(SMALL, open_at=17).told["at"] == 17
    opened = Player(SMALL, open_at="anomaly")
    witnesses = {anomaly["kind"]: anomaly["witness"] for anomaly in opened.told["verdict"]["anomalies"] if anomaly["count"]}
    assert opened.told["at"] == witnesses["lost"] > witnesses["reordered"] > 0
    assert Player("answers_lost", open_at="anomaly").told["at"] == 0


@pytest.mark.parametrize("step", [-1, 10**6, "end", True, None], ids=repr)
def test_a_player_opened_where_there_is_no_step_is_refused(step: Any) -> None:
    """A step that the run does not have is refused with the steps that it has."""
    with pytest.raises(KnobError, match=r'open_at is .*, expected "anomaly" or a step of this run, 0 to \d+\.'):
        Player(SMALL, open_at=step)


def test_no_knob_has_the_name_of_an_argument_of_players() -> None:
    """Each knob of each experiment can be given to a player."""
    arguments = {"backend", "seed", "part", "open_at", "front"}
    assert [knob.name for name in names() for knob in get(name).knobs if knob.name in arguments] == []
    assert Player("static_member", what="gone for good").trace.settings.what == "gone for good"


def test_a_lesson_chooses_the_knobs_beside_its_player() -> None:
    """`front` replaces the experiment's own choice, in its order; a name that is no knob is refused with those that are."""
    assert Player(SMALL, front=("process_ms", "records")).heading["front"] == ["process_ms", "records"]
    with pytest.raises(KnobError, match=r"front names 'speed', which is no knob here\. Its knobs are records, fetch_records"):
        Player(SMALL, front=("speed",))
    with pytest.raises(KnobError, match=r"A recorded trace has no knobs\."):
        Player(story(), front=("records",))


def test_a_knob_moved_gives_another_run(player: Player) -> None:
    """A knob's new value, sent as text, runs the experiment anew; 2^63 - 1 arrives exactly."""
    told = ask(player, do="run", knobs={"max_offset_behind": str(UNLIMITED)}, seed="1")
    assert told["error"] == ""
    assert player.trace.settings.max_offset_behind == UNLIMITED
    assert player.verdict.counts["lost"] == 0
    assert told["verdict"]["sentence"] == player.verdict.sums
    assert told["values"]["max_offset_behind"] == str(UNLIMITED)


BAD = [
    ({"do": "run", "knobs": {"max_offset_behind": "-7"}, "seed": "1"}, "max_offset_behind"),
    ({"do": "run", "knobs": {"records": "NaN"}, "seed": "1"}, "records"),
    ({"do": "run", "knobs": {"<b>": "1"}, "seed": "1"}, "no knob"),
    ({"do": "run", "knobs": {}, "seed": "-1"}, "seed"),
    ({"do": "run", "knobs": {}, "seed": "9" * 40}, "seed"),
    ({"do": "run", "knobs": {}, "seed": ""}, "seed"),
    ({"do": "fork", "at": 10**6}, "no step 1000000"),
    ({"do": "fork", "at": 272}, "Go back to one of the steps 0 to 271 and fork there."),
]


@pytest.mark.parametrize(("question", "expected"), BAD, ids=lambda v: str(v)[:50])
def test_a_bad_value_is_answered_by_a_sentence_and_changes_nothing(
    player: Player, question: dict[str, Any], expected: str
) -> None:
    """A bad knob, seed or step is told as the KitError's sentence; the picture stays as it was."""
    before = (player.trace, player.verdict, player.frames)
    told = ask(player, **question)
    assert expected in told["error"] and "Traceback" not in told["error"]
    assert (player.trace, player.verdict, player.frames) == before
    assert ask(player, do="run", knobs={}, seed="2")["error"] == ""


def test_an_unexpected_failure_still_answers(player: Player) -> None:
    """Even a bug in the kit is answered, or the browser would wait for ever; the log gets the traceback."""
    with pytest.raises(KeyError):
        ask(player, do="run", seed="1")
    assert "KeyError" in player.told["error"] and player.told["number"] == 1


def test_fork_keeps_the_past_and_changes_the_future(player: Player) -> None:
    """After a fork only the steps behind it change, and a knob of the whole run is refused."""
    before = player.trace
    told = ask(player, do="fork", at=100)
    assert told["at"] == 100 and player.trace.parent == {"run": before.run, "at": 100}
    ask(player, do="run", knobs={"max_offset_behind": str(UNLIMITED)}, seed="1")
    assert player.trace.steps[:101] == before.steps[:101]
    assert len(player.trace) != len(before)
    assert "already" in ask(player, do="fork", at=50)["error"]
    told = ask(player, do="start over")
    assert player.trace is before and told["set"] and told["error"] == ""


def test_a_recorded_trace_has_no_knobs() -> None:
    """A trace can be played without its experiment, and cannot be changed."""
    player = Player(story())
    assert player.heading["knobs"] == [] and player.experiment is None
    assert player.heading["title"] == "sample"
    assert "recorded" in ask(player, do="fork", at=1)["error"]
    with pytest.raises(KnobError, match="recorded trace has no knobs"):
        Player(story(), records=3)


@pytest.mark.parametrize("name", names())
def test_stops_lead_from_end_to_end_and_all_are_allowed(name: str) -> None:
    """A slider stops at the ends, at the default and at the value it stands on; every stop is a good value."""
    for knob in get(name).knobs:
        stops = stops_of(knob, knob.default)
        if knob.kind == "bool":
            assert stops == []
            continue
        assert knob.default in stops and len(stops) <= 210
        assert [knob.check(str(stop)) for stop in stops] == stops
        if knob.kind != "choice":
            assert (stops[0], stops[-1]) == (knob.low, knob.high) and stops == sorted(set(stops))


def test_stops_of_a_logarithmic_knob_grow_and_end_at_unlimited() -> None:
    """max_offset_behind goes 0, 1, 2, 3, 4, 5, 6, 8, 10, ... and then there is no bound."""
    knob = next(knob for knob in get(SMALL).knobs if knob.name == "max_offset_behind")
    stops = stops_of(knob, 7)
    assert stops[:10] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10] and stops[-2:] == [10**6, UNLIMITED]
    told = Player(SMALL).heading["knobs"]
    assert next(k for k in told if k["name"] == "max_offset_behind")["stops"][-1]["label"] == "unlimited"


def test_stops_of_a_fraction_are_even() -> None:
    """A knob of fractions has about a hundred even stops."""
    stops = stops_of(bind("share", Annotated[float, Knob("Help.", low=0, high=1)], 0.5), 0.5)
    assert len(stops) == 101 and stops[1] == 0.01


def test_an_empty_trace_can_be_played() -> None:
    """A trace without steps does not break the player."""
    assert json.loads(Player(Trace("none", "none")).frames)["said"] == []


def test_script_is_complete_readable_and_puts_text_in_as_text() -> None:
    """The JavaScript, of the pages too, needs nothing from elsewhere, never writes markup, and no part is longer than 400 lines."""
    for name in (*SCRIPTS, *STYLES, "page_model.js", "saved_page.js", "site.js", "site_worker.js"):
        text = (HERE / name).read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 400, name
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|\bimport\b|https?://[^w]|@import|url\(h",
            text,
        )
        assert {*found} <= ({"import"} if name.startswith("site") else set()), (name, found)
    assert Player._esm.count("export default") == 1
