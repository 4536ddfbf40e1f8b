"""Producers' pictures: what crosses, what waits, what the broker remembers and what the log holds after any step."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.errors import TraceError
from kitlib.experiments import get, names
from kitlib.trace import Step, Trace
from kitlib.views import Player, show
from kitlib.views.browser.played import played
from kitlib.views.film import seen_at
from kitlib.views.frames import to_frames
from kitlib.views.lives import mentions_in
from kitlib.views.look import ALL_COLOURS, WIDTH
from kitlib.views.producer.diagram import BOX_OF, CHAR, LOG_BOXES, MARKS, NEVER, ROW_BOXES, WAYS, SequenceDiagram, Way
from kitlib.views.producer.picture import draw_diagram, layers_of, scene_legend
from kitlib.words.idempotence import IDEMPOTENCE
from tests.views.payloads import HOSTILE, assert_only_text
from tests.views.producing import (
    Producing,
    answers_lost,
    broker_restart,
    everything,
    long_run,
    scene_of,
    six_in_flight,
    step_of,
    two_producers,
)
from tests.views.projector import Projector, leaves_of, placed, text_of, to_node
from tests.views.traces import story

SPACE = "{http://www.w3.org/2000/svg}"
STORIES = {
    "answers lost": answers_lost,
    "no ids": lambda: answers_lost(has_ids=False),
    "six": six_in_flight,
    "restart": broker_restart,
    "two": two_producers,
    "everything": everything,
    "long": lambda: long_run(300, 4),
}


PRODUCED = [name for name in names() if get(name).kind.__module__.endswith(".producer_run")]


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in ET.fromstring(svg).iter(SPACE + "text")]


def row_at(scene: SequenceDiagram, kind: str, step: int) -> list[tuple[str, str, str]]:
    row = next(row for row in scene.rows if row.kind == kind)
    return [(box.code, box.first, box.second) for box in row.boxes.at(step, [])]


def log_at(scene: SequenceDiagram, step: int) -> list[tuple[int, int, str]]:
    """Offset, record and code of all that one log holds."""
    log = scene.logs[0]
    start = log.start.at(step, log.base)
    return [
        (offset, one.first + offset - one.offset, one.code_after(step, start, offset))
        for one in log.segments_after(step)
        for offset in range(one.offset, one.offset + one.last - one.first + 1)
    ]


def brute_force(trace: Trace, number: int) -> list[tuple[int, int, str]]:
    """The same, by following one record at a time from the start."""
    stored: list[tuple[int, int]] = []
    told: dict[int, str] = {}
    start = 0
    for step in trace.steps[: number + 1]:
        start = step.state["broker"]["log_start"]
        if step.what == "write":
            records = range(step.data["first"], step.data["last"] + 1)
            stored += [(step.data["offset"] + place, record) for place, record in enumerate(records)]
        if step.what in ("delivered", "undelivered"):
            told |= dict.fromkeys(range(step.data["first"], step.data["last"] + 1), step.what)
    found, seen = [], set()
    for offset, record in stored:
        if offset < start:
            code = "G"
        elif record in seen:
            code = "2"
        elif seen and record < max(seen):
            code = "O"
        else:
            code = {"delivered": "A", "undelivered": "I"}.get(told.get(record, ""), "S")
        seen.add(record)
        found.append((offset, record, code))
    return found


@pytest.mark.parametrize("name", STORIES)
def test_log_agrees_with_a_record_by_record_reading(name: str) -> None:
    """After any step each record in the log has the look that its own history gives it."""
    trace = STORIES[name]()
    scene = scene_of(trace)
    for number in range(0, len(trace), 3):
        assert log_at(scene, number) == brute_force(trace, number), trace.steps[number]
    if name == "everything":
        assert scene.logs[0].words.last == "9 records, 4 deleted since"


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(20, 200), st.booleans(), st.integers(1, 8))
def test_random_runs_agree_in_log_rows_and_curves(seed: int, steps: int, has_ids: bool, at_once: int) -> None:
    """The same for made-up runs; the rows and the curves are the states' own lists, and every way has an end."""
    trace = long_run(steps, seed, has_ids=has_ids, at_once=at_once)
    scene = scene_of(trace)
    assert log_at(scene, steps - 1) == brute_force(trace, steps - 1)
    for step in trace.steps:
        state = step.state["producer"]
        assert scene.curves["waiting"][step.number] == len(state["queue"])
        assert scene.curves["in flight"][step.number] == len(state["in_flight"])
        flying = [first for code, first, _ in row_at(scene, "in flight", step.number) if code != "-"]
        assert flying == [f"batch {batch}" for _, batch, *_ in state["in_flight"]]
    assert all(low < high for low, high in pairwise(scene.x))
    assert all(way.x0 <= way.x1 and way.x0 >= scene.x[way.born] - 1 for way in scene.ways)
    lost = sum(step.what in ("lose_request", "lose_answer") for step in trace.steps)
    assert sum(way.code == "L" for way in scene.ways) == lost


def test_labels_of_one_lane_do_not_touch() -> None:
    """Steps keep so far from each other that labels on the same side of a lane have room."""
    for make in STORIES.values():
        scene = scene_of(make())
        ends: dict[Any, float] = {}
        for x, mark in zip(scene.x, scene.marks, strict=True):
            if mark is None or not mark.lines:
                continue
            half = max(map(len, mark.lines)) * CHAR / 2
            side = mark.y, mark.is_above
            assert x - half > ends.get(side, 0), mark
            ends[side] = x + half


def test_answers_lost_are_crosses_between_the_lanes_and_their_retries_are_recognised() -> None:
    """Five answers vanish between the lanes; each batch that comes again is known, and the sentence says so."""
    trace = answers_lost()
    scene = scene_of(trace)
    lost = [way for way in scene.ways if way.code == "L"]
    lanes = dict(scene.lanes)
    assert len(lost) == 5 and all(lanes["producer"] < way.y1 < lanes["broker"] == way.y0 for way in lost)
    again = step_of(trace, "recognise")
    said = to_frames(trace).said
    assert said[again.number] == (
        "Batch 4 (records 20-24, sequence 20) arrives a second time: the broker still remembers it and answers with offset 20 again."
    )
    retry = next(step for step in trace if step.what == "request" and step.data["attempt"])
    mark = scene.marks[retry.number]
    assert mark is not None and (mark.code, mark.lines) == ("t", ("try 2", "batch 4", "seq 20-24"))
    assert "again, attempt 2" in said[retry.number]
    found = texts(show(trace, again.number).svg)
    assert {"known", "batch 4", "In the accumulator5 batches, 35 records", "The log50 records"} <= set(found)
    svg = show(trace, step_of(trace, "lose_answer", 4).number, "lanes").svg
    assert svg.count(next(mark.path for mark in MARKS if mark.code == "L")) == 5 + 1  # and the legend's
    assert svg.count('stroke-dasharray="3 3"') == 5 == svg.count("rotate("), "five lost answers, with five arrows"
    crowded = get("answers_lost").run(records=400)
    assert any("6 batches, 58 records; 1 more" in text for step in range(0, 400, 20) for text in texts(show(crowded, step).svg))


def test_what_fell_out_of_the_brokers_memory_is_just_forgotten_until_it_changes_again() -> None:
    """The sixth batch pushes the first out: it stands crossed out beside the five, and is ringed when it is missed."""
    trace = six_in_flight()
    scene = scene_of(trace)
    before, after = step_of(trace, "write", 4).number, step_of(trace, "write", 5).number
    assert [box[0] for box in row_at(scene, "remembered", before)] == ["m"] * 5
    assert row_at(scene, "remembered", after)[:2] == [("g", "seq 0-4", "forgotten"), ("m", "seq 5-9", "at 5")]
    refused = step_of(trace, "refuse").number
    remembered = next(row for row in scene.rows if row.kind == "remembered")
    assert [box.code for box in remembered.boxes.at(refused, []) if box.subject in scene.rings[refused]] == ["g"]
    said = to_frames(trace).said
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in said[refused]
    assert remembered.words.at(after, "") == "5 batches of producer id 0, epoch 0, at most 5; it has just forgotten 1"
    last = step_of(trace, "write", 11)
    mark = scene.marks[last.number]
    assert mark is not None and (mark.code, mark.lines) == ("W", ("batch 5", "2nd copy"))
    assert said[last.number].endswith("is written again, from offset 55: a second copy in the log.")
    copies = [code for *_, code in log_at(scene, len(trace) - 1)].count("2")
    assert copies == 30 == scene.curves["second copies"][-1]
    assert "30 second copies" in repr(show(trace))


def test_a_restart_forgets_all_but_the_last_batch() -> None:
    """After the kill four batches are crossed out, and what was held back dies with the connection."""
    trace = broker_restart()
    scene = scene_of(trace)
    at = step_of(trace, "restart").number
    assert [box[0] for box in row_at(scene, "remembered", at)][:5] == ["g", "g", "g", "g", "m"]
    cut = scene.x[step_of(trace, "cut").number]
    assert [(way.x1, way.has_cross) for way in scene.ways if way.code == "L"] == [(cut, True)] * 5
    heights = [way.y1 for way in scene.ways if way.code == "L"]
    assert heights == sorted(heights) and len(set(heights)) > 1, "the earlier an answer left, the farther it came"
    assert not [mark for mark in scene.marks if mark and mark.code == "L"]
    assert show(trace, step_of(trace, "no_answer").number).svg.count(next(mark.path for mark in MARKS if mark.code == "L"))


def test_a_second_producer_has_its_lane_below_the_broker() -> None:
    """Each producer has rows of its own; requests with the same numbers are told apart."""
    trace = two_producers()
    scene = scene_of(trace)
    assert [name for name, _ in scene.lanes] == ["producer", "broker", "producer 2"]
    assert [row.title for row in scene.rows][:4] == [
        "producer: waiting", "producer: in flight", "producer 2: waiting", "producer 2: in flight",
    ]  # fmt: skip
    bottom = scene.lanes[2][1]
    assert {(way.y0, way.code) for way in scene.ways if bottom in (way.y0, way.y1)} == {
        (bottom, "R"), (scene.lanes[1][1], "A"),
    }  # fmt: skip
    refused = step_of(trace, "refuse")
    sent = next(step for step in trace if step.what == "request" and step.data["request"] == refused.data["request"])
    assert next(way.x1 for way in scene.ways if way.born == sent.number) == scene.x[refused.number]
    assert len(scene.clients) == 2 and not [way for way in scene.ways if way.is_open]


def test_a_duplicated_request_forks_and_what_never_ends_stays_on_its_way() -> None:
    """The copy leaves the first message's line where the network doubled it; an open message never arrives."""
    trace = everything()
    scene = scene_of(trace)
    fork = next(way for way in scene.ways if way.code == "C")
    first = next(way for way in scene.ways if way.code == "R")
    assert fork.y0 == first.y_at(fork.x0) and fork.y1 == first.y1
    held = step_of(trace, "delay").number
    mark = scene.marks[held]
    assert mark is not None and mark.y in [way.y_at(scene.x[held]) for way in scene.ways], "it stands on the message's way"
    still = [way for way in scene.ways if way.is_open]
    assert len(still) == 2 and all(way.x0 < way.end_x < way.x1 for way in still)
    assert (Way(0, 0, 100, 50, 0, "R").y_at(40), Way(0, 0, 100, 50, 0, "R").end_x) == (20, 100)


def test_read_has_the_last_word_on_the_log() -> None:
    """Where nobody saw the broker's writes, the log appears when the topic is read: copies and order as read."""
    trace = Trace("real", "real", backend="kafka", domain="idempotence")
    place = {"topic": "kit.real.orders", "partition": 0}
    trace.record(0, "producer", "send", **place, batch=0, first=0, last=7)
    trace.record(
        0, "producer", "request", **place, request=0, batch=0, first=0, last=7, seq=0, epoch=0, pid=5, attempt=0
    )
    trace.record(9, "producer", "answer", **place, request=0, batch=0, error="NONE", offset=3)
    trace.record(9, "producer", "delivered", **place, batch=0, first=0, last=3, offset=3)
    trace.record(20, "broker", "read", **place, first_offset=3, records=[[0, 3], [6, 7], [4, 5], [6, 6]])
    scene = scene_of(trace)
    assert scene.logs[0].name == "orders, partition 0"
    assert log_at(scene, 3) == []
    assert "".join(code for *_, code in log_at(scene, 4)) == "AAAASSOO2"
    assert [record for _, record, _ in log_at(scene, 4)] == [0, 1, 2, 3, 6, 7, 4, 5, 6]
    assert scene.logs[0].words.last == "9 records, 1 second copy, 2 out of order"
    trace.record(30, "broker", "read", **place, first_offset=3, records=[[1, 1], [0, 0]])
    assert log_at(scene_of(trace), 5) == [(3, 1, "A"), (4, 0, "O")]
    request, answer = scene.ways
    assert request.x1 == answer.x0 and request.y1 == answer.y0, "nobody told when it arrived: half way between"


@pytest.mark.parametrize("name", [*STORIES, *PRODUCED])
def test_every_step_is_a_picture_inside_its_frame(name: str) -> None:
    """All steps and parts are well-formed SVG in the set's colours, no text below 11 px or outside the picture."""
    trace = STORIES[name]() if name in STORIES else get(name).run(max_steps=150)
    for at in range(0, len(trace), max(1, len(trace) // 12)):
        svg = show(trace, at).svg
        assert set(re.findall(r"#[0-9A-Fa-f]{6}\b", svg)) <= ALL_COLOURS
        assert min(float(size) for size in re.findall(r'font-size="([\d.]+)"', svg)) >= 11
        assert len(svg) < 60_000
        for x, _, (tag, told, *inside) in placed(to_node(svg)):
            words = text_of([tag, told, *inside]) if tag == "text" else ""
            wide = len(words) * CHAR * float(told.get("font-size", 12)) / 11.7
            left = x + float(told.get("x", 0)) - wide * {"middle": 0.5, "end": 1}.get(told.get("text-anchor", ""), 0)
            assert not words or (left >= -1 and left + wide <= WIDTH + 1), words
    for part in ("lanes", "remembered", "log", "plot"):
        ET.fromstring(show(trace, part=part).svg)
    assert show(trace, len(trace) // 2) == show(trace, len(trace) // 2)


def test_all_experiments_on_producers_have_such_a_picture() -> None:
    """Those that are drawn here are those that send records, and no others."""
    assert {"answers_lost", "six_in_flight", "broker_restart", "two_producers_one_id"} <= set(PRODUCED)
    for name in PRODUCED:
        assert max(map(len, to_frames(get(name).run(max_steps=150)).said)) <= 180, "a sentence has two lines"


def test_parts_hold_their_part_and_others_are_refused() -> None:
    """Each part has its own question; a spout's trace has no lanes, a producer's none of the trees."""
    trace = answers_lost()
    assert "The broker remembers" in "".join(texts(show(trace, part="remembered").svg))
    assert not [text for text in texts(show(trace, part="lanes").svg) if re.match("The (log|broker rem)", text)]
    assert [text[:7] for text in texts(show(trace, part="log").svg)].count("The log") == 1
    with pytest.raises(TraceError, match=r"sample has no producer.*Expected all, log or plot\."):
        show(story(), part="lanes")
    with pytest.raises(TraceError, match=r"has no trees.*Expected all, log or plot, lanes or remembered"):
        show(trace, part="tree")


def test_signs_differ_in_more_than_colour() -> None:
    """Colour never stands alone: marks differ by their path, ways by dash or weight, a log's boxes by dash or sign."""
    assert len({mark.path for mark in MARKS}) >= len(MARKS) - 3, "discs, diamonds and crosses also differ in their fill"
    assert len({(way.dash, way.thick) for way in WAYS}) >= len(WAYS) - 1
    assert len({(box.dash, box.hatch, box.flag, box.sign) for box in LOG_BOXES}) == len(LOG_BOXES)
    assert len(BOX_OF) == len(ROW_BOXES) + len(LOG_BOXES)


@pytest.mark.parametrize("payload", HOSTILE, ids=lambda p: ascii(p)[:30])
def test_hostile_names_and_numbers_stay_text(payload: str) -> None:
    """A topic, an error, a batch or a state made of markup is only ever text, and breaks nothing."""
    trace = Trace("x", payload, backend=payload, settings={"max_in_flight": payload, "remembered_batches": payload}, domain="idempotence")
    place = {"topic": payload, "partition": payload}
    bad: dict[str, Any] = {"batch": payload, "first": payload, "last": payload, "request": payload, "seq": payload}
    state = {
        "producer": {"pid": payload, "queue": [[payload] * 4, payload], "in_flight": [[payload, payload, None, -3]]},
        "broker": {"log_start": payload, "log_end": payload, "remembered": [[payload, 3, 0, 1], [1]]},
    }
    trace.record(0, "producer", "request", state=state, **place, **bad, pid=payload, epoch=payload, attempt=payload)
    for what in IDEMPOTENCE.words:
        for actor in ("producer", "network", "broker", f"producer {payload}"):
            records = {"records": [], "first_offset": payload} if what == "read" else {}
            data = place | bad | records | {"error": payload, "why": payload, "how": payload}
            trace.steps.append(Step(len(trace), 0, actor, what, data, state))
    trace.record(0, "broker", "write", state={"broker": payload}, **place, batch=2**70, first=-5, last=2**70, offset=-9)
    for at in (0, len(trace) // 2, len(trace) - 1):
        assert_only_text(show(trace, at))


def test_frames_of_a_thousand_steps_are_small_and_the_player_takes_them() -> None:
    """What the browser gets of 1,000 steps is less than 500 kB, and of a run that is made up to be dense less than 600."""
    assert len(played(to_frames(get("answers_lost").run(records=800, linger_ms=2, max_steps=1000)))) < 500_000
    player = Player(long_run(1000))
    frames = player.session.frames
    assert len(frames) < 600_000 and len(player.frames) < 150_000
    titles = [reel["title"] for reel in json.loads(frames)["reels"]]
    assert titles == ["What crosses, and what does each side know?", "in flight, waiting, acked, second copies over the run"]
    player.close()


@pytest.mark.parametrize("name", STORIES)
def test_a_player_is_sent_the_diagram_that_a_picture_has(name: str) -> None:
    """After any step all pieces and the legend are those of the static picture, and so they are when that step alone is sent."""
    frames = to_frames(STORIES[name]())
    scene = frames.diagram
    assert scene is not None
    sent, layers = Projector(played(frames)), layers_of(scene)[0]
    spans = [span for layer in layers for span in layer.spans]
    for step in (*range(0, len(frames), max(1, len(frames) // 15)), len(frames) - 1):
        drawn = to_node(draw_diagram(scene, step, "all", 0)[0])
        expected = leaves_of([*drawn[:-1], drawn[-1][:-1]])  # without the legend
        assert sent.leaves(0, step) == expected, step
        assert sorted(Projector(played(frames, step)).leaves(0, step)) == sorted(expected), step
        seen = seen_at(spans, step)
        assert sent.meanings(0, step) == {item.meaning for item in scene_legend() if item.key in seen}


@pytest.mark.parametrize("name", STORIES)
def test_batches_requests_and_answers_say_by_which_name_they_can_be_asked_for(name: str) -> None:
    """Each of these names is one by which the run's own index of lives knows the thing."""
    trace = STORIES[name]()
    known = {ref for step in mentions_in(trace) for mention in step for ref in mention.refs()}
    heads = [attributes.get("data-ref", "") for _, attributes in Projector(played(to_frames(trace))).heads]
    refs = {ref for ref in heads if ref.startswith(("batch:", "request:", "answer:"))}
    assert {ref.partition(":")[0] for ref in refs} == {"batch", "request", "answer"}
    assert refs - known <= {f"answer:{way.partition(':')[2]}" for way in known if way.startswith("request:")}, "one still under way"


def test_partitions_have_rows_and_logs_of_their_own() -> None:
    """The same sequence numbers in two partitions are two boxes; only the step's own one is ringed."""
    run, other = Producing(), Producing(partition=1)
    other.trace, other.next_request = run.trace, 9
    for each in (run, other):
        each.id()
        each.send()
        each.round_trip()
    scene = scene_of(run.trace)
    assert [row.title for row in scene.rows][2:] == [f"The broker remembers of partition {p}" for p in (0, 1)]
    written = step_of(run.trace, "write", 1).number
    ringed = [[box for box in row.boxes.at(written, []) if box.subject in scene.rings[written]] for row in scene.rows[2:]]
    assert [len(boxes) for boxes in ringed] == [0, 1]
    assert [log.words.last for log in scene.logs] == ["5 records"] * 2


def test_a_client_that_refuses_to_start_is_a_picture_too() -> None:
    """A run without a single request shows the refusal and nothing else."""
    run = Producing("refused_settings")
    run.record("producer", "refuse_to_start", error="acks must be all")
    picture = show(run.trace)
    assert "refuses" in texts(picture.svg)
    assert "The producer refuses to start: acks must be all" in texts(picture.svg)
    assert scene_of(run.trace).ways == [] and NEVER == -1

