"""A scene: the whole run on one picture, the cursor at a step, and the same pieces in the player."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from importlib import import_module

import pytest

from kitlib.errors import KnobError, TraceError
from kitlib.trace import Trace
from kitlib.views import Player, scene, show
from kitlib.views.frames import to_frames
from kitlib.views.scene import Scene
from kitlib.views.scenes.timeline import compose
from kitlib.views.svg import el
from tests.views import toy_scene
from tests.views.projector import Projector, text_of, to_node
from tests.views.toy_scene import bell, toy

__all__ = ["toy"]
SPACE = "{http://www.w3.org/2000/svg}"


def scene_of(trace: Trace) -> Scene:
    scene = to_frames(trace).scene
    assert scene is not None
    return scene


def texts(svg: str) -> str:
    return " | ".join("".join(node.itertext()) for node in ET.fromstring(svg).iter(f"{SPACE}text"))


@pytest.mark.usefixtures("toy")
def test_a_claimed_trace_is_drawn_as_its_scene_with_the_steps_sentence_and_panel() -> None:
    """The picture asks the scene's question, says the step's sentence, and shows the panel after that step."""
    picture = show(bell(), 3)
    told = texts(picture.svg)
    assert "When does the bell ring? after step 3 of 5" in told.replace("?after", "? after")
    assert "ring!" in told and "ada: 2 times" in told and "something happens" in told
    assert repr(picture) == "After step 3 of 5 steps: ring!. Rung 2 times"
    assert show(bell(), 3) == picture, "the same bytes"


@pytest.mark.usefixtures("toy")
def test_the_body_stays_and_only_cursor_and_future_move() -> None:
    """Between two steps nothing of the body changes; the paper begins where the cursor stands and is gone at the end."""
    scene = scene_of(bell())
    for step in (0, 3, 5):
        svg = show(bell(), step).svg
        assert svg.count("data-step=") == 6
        paper = [node for node in ET.fromstring(svg).iter(f"{SPACE}rect") if node.get("opacity")]
        assert [float(str(node.get("x"))) for node in paper] == [scene.future_after(step)]
        wide = float(str(paper[0].get("width")))
        assert wide == pytest.approx(max(0, scene.right - scene.future_after(step)), abs=0.1)


@pytest.mark.usefixtures("toy")
def test_a_part_of_a_scene_is_asked_for_by_name_and_others_are_refused() -> None:
    """`part` takes the scene's own parts; the message lists them."""
    assert "When is it quiet?" in texts(show(bell(), part="silence").svg)
    for part in ("tree", "log", "nothing"):
        with pytest.raises(TraceError, match="Expected one of all, silence"):
            show(bell(), part=part)
    with pytest.raises(TraceError, match="no step 9"):
        show(bell(), 9)
    with pytest.raises(KnobError, match="Expected one of all, silence"):
        Player(bell(), part="tree")


@pytest.mark.usefixtures("toy")
def test_the_player_sends_body_and_panels_once_and_nothing_else() -> None:
    """All that a reader scrubs through is in one message: places, sentences, and each panel once; no markup."""
    player = Player(bell(), part="silence")
    sent = Projector(player.frames)
    (reel,) = sent.reels
    assert reel["question"] == "When is it quiet?" and sent.row["said"][1] == "ring!"
    told = ["".join(map(text_of, sent.track(reel["tracks"][0], step)[2:])) for step in range(6)]
    assert told == [text_of(to_node(scene_of(bell()).panel_after(step))) for step in range(6)]
    assert reel["wordsOf"] == [0, 1, 1, 2, 2, 3] and reel["words"] == [f"rung {n} times" for n in range(4)]
    assert reel["cursor"]["x"] == sorted(reel["cursor"]["x"]) and len(reel["cursor"]["x"]) == 6
    assert b"<" not in player.frames
    shown = player._repr_mimebundle_()[0]
    assert "When is it quiet?" in shown["image/svg+xml"]
    player.close()


def test_a_scene_that_forgets_a_step_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch, toy: None) -> None:
    """Every step has its place; a scene with fewer would show the wrong panel."""
    monkeypatch.setattr(toy_scene, "to_scene", lambda trace, part: Scene("The bell", "?", 10))
    with pytest.raises(TraceError, match="0 places, expected 6"):
        show(bell())


def test_a_scene_is_imported_when_a_trace_of_its_domain_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The domain alone decides: a module of a scene is imported only when a trace of its domain is drawn."""
    monkeypatch.setitem(scene.SCENES, "bell", "kitlib.views.not_there")
    trace = Trace("r", "bell")
    trace.record(0, "log", "append", topic="orders", partition=0, first=0, last=3)
    assert scene.kind_of(trace) is None and "arrive" in show(trace).svg
    with pytest.raises(ModuleNotFoundError):
        show(bell())


def test_a_step_without_a_panel_keeps_the_one_before() -> None:
    """None means: as before, in words too; a first step without a panel has its words alone."""
    a, b = el("text", "a"), el("text", "b")
    panels = [(None, "none yet"), (a, "an a"), (None, "no news"), ([b, a], "both")]
    scene = compose(bell(), [1.0, 2.0, 3.0, 4.0], "t", "q?", [], panels, 10, [], has_axis=False)
    assert ["".join(text_of(to_node(scene.panel_after(step)))) for step in range(4)] == ["", "a", "a", "ba"]
    assert list(map(scene.words_after, range(4))) == ["none yet", "an a", "an a", "both"]


@pytest.mark.parametrize("name", scene.SCENES.values())
def test_each_registered_scene_offers_what_the_registry_needs(name: str) -> None:
    """A module in the table has its parts with "all" first."""
    kind = import_module(name)
    assert next(iter(kind.PARTS)) == "all" and all(question.endswith("?") for question in kind.PARTS.values())
