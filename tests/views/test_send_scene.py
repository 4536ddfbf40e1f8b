"""The picture of the send path: which traces it draws, what its panel shows, and that it never tells raw data."""

from __future__ import annotations

import re

from kitlib.experiments import get
from kitlib.trace import Step, Trace
from kitlib.views import show
from kitlib.views.frames import to_frames
from kitlib.views.scenes.send_path import paths, to_scene
from kitlib.words.send_path import STAGES


def test_scene_of_two_sends_numbers_the_nine_steps() -> None:
    """One circle for each of the source's steps, on the lanes of those who take them."""
    scene = to_scene(get("two_sends").run(), "all")
    assert sorted(re.findall(r">(\d)</text>", str(scene.body))) == [str(number) for number in range(1, len(STAGES) + 1)]
    assert to_frames(get("two_sends").run()).said[2] == "(1) The application calls send for record 0."
    assert "one of the nine steps of a first send" in [meaning for _, meaning in scene.legend]


def rows_after(trace: Trace) -> list[list[tuple[str, list[list[str]]]]]:
    """The table's rows after each step: a partition's name, and the words in the boxes of its columns."""
    return [[(name, [[cell.words for cell in cells] for cells in columns]) for name, columns, *_ in path.rows()] for path in paths(trace)]


def test_panel_follows_a_batch_through_the_table() -> None:
    """It waits, is in flight, is in the log; meanwhile the call that blocks is named."""
    trace = get("two_sends").run()
    at = {step.data["stage"]: step.number for step in trace if "stage" in step.data}
    after = rows_after(trace)
    assert after[at[3]] == [(f"partition {number}", [[], [], []]) for number in range(3)]
    assert "send of record 0 waits for metadata" in show(trace, at[3]).svg
    assert after[at[7]][0] == ("partition 0", [["×1"], [], []])
    assert after[at[9] - 1][0] == ("partition 0", [[], ["×1"], ["1"]])
    assert [columns[2] for _, columns in after[-1]] == [["1"], [], ["1"]]


def test_panel_of_a_trace_without_states_is_read_from_its_words() -> None:
    """What real clients show: batches from send to answer."""
    modelled = get("blocked_send").run(fault="none")
    steps = [Step(step.number, step.at_ms, step.actor, step.what, step.data) for step in modelled]
    bare = Trace("x", "x", steps=steps, domain="send_path")
    for before, after in zip(rows_after(modelled), rows_after(bare), strict=True):
        told = [dict(rows).get("partition 0", [[], [], []])[1:] for rows in (before, after)]
        assert told[0] == told[1]
    assert "0 in flight" in repr(show(bare, len(bare) - 1))


def test_lanes_show_what_crosses() -> None:
    """The legend names each sign, arrow and spell of the run, the arrows say whose request they are."""
    scene = to_scene(get("stale_metadata").run(), "all")
    meanings = [meaning for _, meaning in scene.legend]
    assert {"a request with its records", "a batch is refused", "a call that blocks"} <= set(meanings)
    assert len(meanings) == len(set(meanings))
    assert "sent once more" in " ".join(meanings) and 'data-ref="request:0"' in str(scene.body)
    assert [name for name in ("application", "accumulator", "sender", "broker 0", "broker 1") if f">{name}<" not in str(scene.body)] == []


def test_clock_of_the_scene_says_when_metadata_is_asked_for() -> None:
    """The source's 299,839 ms after the answer; now when a topic is wanted; the answer awaited in between."""
    trace = get("two_sends").run()
    scene = to_scene(trace, "clock")
    drawn = [str(scene.panel_after(number)) for number in range(len(trace))]
    wanted = next(step.number for step in trace if step.what == "request_update")
    asked = next(step.number for step in trace if step.data.get("stage") == 3)
    told = next(step.number for step in trace if step.data.get("stage") == 4)
    assert "is asked for now" in drawn[wanted] and "the answer is awaited" in drawn[asked] and "in 299,839 ms" in drawn[told]


def test_scene_with_data_that_are_not_what_the_word_promises_tells_them_as_they_stand() -> None:
    """A recorded trace may hold anything."""
    trace = Trace("x", "x", domain="send_path")
    for number, (actor, what, data) in enumerate((("user", "call", {"record": "<b>"}), ("network", "select", {"timeout": None}),
                                                  ("sender", "request", {"request": "?", "batch": None}))):
        trace.steps.append(Step(number, number, actor, what, data))
    assert [trace.sentence(step)[:12] for step in trace] == ["user: call r", "network: sel", "sender: requ"]
    assert "<b>" not in show(trace, 2).svg
