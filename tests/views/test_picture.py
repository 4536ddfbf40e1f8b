"""Static pictures: well-formed SVG that says in words what it shows, the same text for the same trace."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest

from kitlib.errors import TraceError
from kitlib.experiments import get, names, run
from kitlib.trace import Trace
from kitlib.views import show
from kitlib.views.frames import to_frames
from kitlib.views.look import ALL_COLOURS, LOOKS, PLOT_RIGHT, RISE
from kitlib.views.plot import curve
from kitlib.views.svg import Svg, el
from tests.views import groves
from tests.views.payloads import FORBIDDEN
from tests.views.producing import everything, long_run
from tests.views.traces import long_trace, some_steps_of, story

SPACE = "{http://www.w3.org/2000/svg}"
OWN: dict[str, Callable[[], Trace]] = {
    "a tree": lambda: groves.word_count().trace, "all kinds of tuples": lambda: groves.everything().trace,
    "many trees": partial(groves.large, 300), "a false completion": lambda: groves.false_completion().trace,
    "a join": lambda: groves.joined().trace,
    "story": story, "long": partial(long_trace, 1000), "everything": everything, "a producer's long run": partial(long_run, 300, 4),
    "twelve tasks each": lambda: run("connect_layouts", source_tasks=12, sink_tasks=12, workers=6),
    "standalone": lambda: run("connect_layouts", mode="standalone"),
    "many threads": lambda: run("streams_tasks", threads=6, partitions=12, instances=4),
    "a layout that is cut": lambda: run("connect_worker_lost", max_steps=10),
    "a source task that is cut before its first flush": lambda: run("connect_source_crash", max_steps=10),
}  # fmt: skip
TRACES = [*names(), *OWN]


@cache
def trace_of(name: str) -> Trace:
    return OWN[name]() if name in OWN else some_steps_of(name)


def parse(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in parse(svg).iter(SPACE + "text")]


@pytest.mark.parametrize("name", TRACES)
def test_show_gives_well_formed_svg_with_title_and_description_in_the_sets_colours(name: str) -> None:
    """Each picture is an image with title and description; no colour outside the set, no text below 11 px, nothing fetched or run."""
    trace = trace_of(name)
    for at in (0, len(trace) // 2, len(trace) - 1):
        svg = show(trace, at).svg
        root = parse(svg)
        title, description = root.find(SPACE + "title"), root.find(SPACE + "desc")
        assert root.get("role") == "img"
        assert title is not None and title.text and description is not None
        assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
        assert (description.text or "").startswith(f"After step {at} of ")
    assert set(re.findall(r"#[0-9A-Fa-f]{6}\b", svg)) <= ALL_COLOURS
    assert not re.search(r"#[0-9A-Fa-f]{3}\b[\";]|rgb|hsl", svg)
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)"', svg)]
    assert sizes and min(sizes) >= 11
    assert not [word for word in (*FORBIDDEN, "@import", "javascript:", "onload") if word in svg]
    assert len(svg) < 75_000  # a run of 460 steps and three members


def test_show_twice_gives_the_same_bytes() -> None:
    """The same trace and step give the same picture, so that a notebook's output can be compared."""
    assert show(long_trace(300), 200) == show(long_trace(300), 200)
    assert show(get("restart").run(seed=4)).svg == show(get("restart").run(seed=4)).svg


def test_show_tells_in_words_what_it_draws() -> None:
    """The plain text beside a picture is one sentence with the counts, and so is its description."""
    picture = show(story())
    assert (
        repr(picture)
        == picture.sentence
        == (
            "After step 35 of 35 steps, orders, partition 0: 7 of 24 processed = 1 deleted when done + 4 committed + 1 done + 1 pending; "
            "3 lost = 2 skipped + 1 given up; 1 duplicated. 7 not read yet; 8 pending = 4 in flight + 4 waiting."
        )
    )
    assert picture._repr_svg_() == picture.svg
    assert not hasattr(picture, "_repr_html_")


def test_show_writes_each_offset_and_its_letter() -> None:
    """A short log is a row of boxes, each with its offset and a letter; the legend explains those that occur."""
    picture = show(story(), part="log")
    found = texts(picture.svg)
    assert [str(offset) for offset in range(24)] == [text for text in found if text.isdigit()]
    codes = {code for view in to_frames(story()).lanes_after(35) for code in view.codes}
    assert [look.meaning in found for look in LOOKS] == [look.code in codes for look in LOOKS]
    assert {"fetched to 17", "committed to 8", "log start 3", "log end 24", "2×"} <= set(found)


def test_show_a_long_log_has_a_bar_with_ranges_and_a_close_up() -> None:
    """A log that does not fit is a bar of runs with their ranges, and boxes where something happens."""
    found = texts(show(long_trace(1000), 620, "log").svg)
    assert [text for text in found if re.fullmatch(r"C 0 to \d+", text)]
    assert sum(text.isdigit() for text in found) == 24


def test_show_rings_the_record_of_the_step() -> None:
    """The record that the step is about has a ring, and only that one; a commit rings none."""
    trace = story()
    rings = [show(trace, at, "log").svg.count('rx="3"') for at in range(len(trace))]
    assert rings == [int("offset" in step.data and step.what != "commit") for step in trace.steps]


def test_curve_has_a_corner_wherever_the_value_changes() -> None:
    """A curve goes level to each change and then straight up or down, as far as the last step."""
    assert curve([0, 0, 4, 2, 2], [150, 297.5, 445, 592.5, 740]) == f"M150 {RISE}H445V0H592V{RISE // 2}H{PLOT_RIGHT}"
    assert (curve([], []), curve([7], [150])) == ("", "M150 0H150")


def test_show_large_offsets_stand_below_the_boxes() -> None:
    """An offset of seven digits does not fit into a box; every fifth stands below."""
    trace = Trace("far", "far")
    trace.record(0, "log", "append", topic="t", partition=0, first=6_825_674, last=6_825_690)
    found = texts(show(trace, part="log").svg)
    assert [text for text in found if text.isdigit()] == ["6825675", "6825680", "6825685", "6825690"]


def test_show_several_partitions_has_a_strip_for_each() -> None:
    """Each topic's partition has a strip of its own."""
    found = texts(show(get("same_id_other_topic").run()).svg)
    assert {"orders, partition 0", "payments, partition 0"} <= set(found)


def test_show_an_empty_trace_says_so() -> None:
    """A trace without steps is a picture without boxes, not an error."""
    picture = show(Trace("none", "none"))
    parse(picture.svg)
    assert repr(picture) == "none: the trace has no steps."


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"at": 99}, "no step 99"), ({"at": -1}, "no step -1"), ({"part": "<b>"}, "all, log, plot")],
    ids=str,
)
def test_show_refuses_what_is_not_there(options: dict[str, Any], expected: str) -> None:
    """A step or a part that does not exist is a TraceError that says what does."""
    with pytest.raises(TraceError, match=expected):
        show(story(), **options)


def test_el_escapes_text_and_attributes() -> None:
    """Whatever is not made by `el` itself is escaped, inside elements and inside attributes."""
    made = el("text", '<b>&"', el("tspan", "x"), data_x='"><script>', stroke_width=None)
    assert str(made) == '<text data-x="&quot;&gt;&lt;script&gt;">&lt;b&gt;&amp;&quot;<tspan>x</tspan></text>'
    assert isinstance(made, Svg)
