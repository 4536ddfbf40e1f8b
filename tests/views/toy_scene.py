"""A scene small enough to be read at a glance, registered only while a test asks for it."""

from __future__ import annotations

import pytest

from kitlib.trace import Trace
from kitlib.views import scene
from kitlib.views.scene import Scene
from kitlib.views.scenes.timeline import draw_axis, places
from kitlib.views.svg import HATCH, Svg, el, group
from kitlib.words import declare
from kitlib.words.word import Domain, Word

PARTS = {"all": "When does the bell ring?", "silence": "When is it quiet?"}
BELL = declare(Domain("bell", {"ring": Word("ring!", "ringer"), "hush": Word("hush!", "ringer")}))


def to_scene(trace: Trace, part: str) -> Scene:
    xs = places(trace)
    scene = Scene("The bell", PARTS[part], height=60, panel_height=24, bottom=40, x_of_step=xs)
    drawn, panels, words = [draw_axis(trace, xs, 40)], list[Svg](), list[str]()
    rung = 0
    for step, x in zip(trace, xs, strict=True):
        rung += step.what == "ring"
        drawn.append(el("rect", x=x - 3, y=20, width=6, height=10, fill=HATCH, data_step=step.number))
        panels.append(group(el("text", f"{step.data['ringer']}: {rung} times", cls="ink", x=20, y=16)))
        words.append(f"rung {rung} times")
    scene.panel_after, scene.words_after = panels.__getitem__, words.__getitem__
    scene.body = group(*drawn)
    scene.legend = [(el("rect", width=26, height=18, fill=HATCH), "something happens")]
    return scene


def bell(who: str = "ada") -> Trace:
    trace = Trace("bell", "bell", domain=BELL.name)
    for number in range(6):
        trace.record(number * number * 100, "tower", "ring" if number % 2 else "hush", ringer=who)
    return trace


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit draws traces of `bell` as this scene."""
    monkeypatch.setitem(scene.SCENES, BELL.name, "tests.views.toy_scene")
