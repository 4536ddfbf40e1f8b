"""The scenes of Connect, of Streams, of a source task and of added partitions: what they must show, and that they always can be drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from kitlib import experiments
from kitlib.trace import Trace
from kitlib.views.frames import to_frames
from kitlib.views.picture import show
from kitlib.views.scene import kind_of
from kitlib.views.scenes.timeline import Bar, bars
from kitlib.words.glyphs import PINK


def texts(trace: Trace, at: int, part: str = "layout") -> list[str]:
    return [
        node.text or "" for node in ET.fromstring(show(trace, at, part).svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_layout_shows_what_runs_nowhere_during_the_delay() -> None:
    """The dead worker has nothing, and its tasks stand in the row of nowhere."""
    trace = experiments.run("connect_worker_lost")
    at = next(step.number for step in trace if step.what == "delay")
    told = texts(trace, at)
    assert (
        "w3: dead" in told
        and told.index("nowhere") < told.index("sink-2")
        and told.index("nowhere") < told.index("source-2")
    )
    assert "w1 leads" in told


def test_streams_layout_shows_what_restores() -> None:
    """Until its store is whole a task is marked, and the legend says how."""
    trace = experiments.run("streams_failover")
    at = max(step.number for step in trace if step.what == "restoring")
    assert "1_1 …" in texts(trace, at) and any("restoring" in text for text in texts(trace, at))
    assert "1_1 …" not in texts(trace, len(trace) - 1)


def test_source_chart_has_duplicates_only_where_a_reader_has_seen_them() -> None:
    """An aborted transaction's records are read again, and are no duplicates."""

    def has_pink(**knobs: Any) -> bool:
        return PINK in str(to_frames(experiments.run("connect_source_crash", **knobs)).scene.body)  # type: ignore[union-attr]

    assert (
        has_pink() and not has_pink(exactly_once=True, transaction_boundary="interval") and not has_pink(ending="stop")
    )


def test_bars_join_equal_neighbours_and_leave_gaps() -> None:
    """A state holds until the next step; None leaves the row empty."""
    found = bars(
        [None, ("runs", "w1"), ("runs", "w1"), ("nobody", "nobody"), None, ("runs", "w1")], [0, 10, 20, 30, 40, 50], 60
    )
    assert found == [Bar(10, 30, "runs", "w1"), Bar(30, 40, "nobody", "nobody"), Bar(50, 60, "runs", "w1")]


@pytest.mark.parametrize("name", experiments.names())
def test_a_legend_of_a_scene_has_at_most_8_rows(name: str) -> None:
    """Whatever occurs in an experiment, what the signs mean takes no more room than that, in two columns or in three."""
    trace = experiments.run(name)
    kind = kind_of(trace)
    for part in kind.PARTS if kind else ():
        scene = kind.to_scene(trace, part) if kind else None
        assert scene is not None and scene.draw_legend()[1] <= 8 * 22 + 8, part
