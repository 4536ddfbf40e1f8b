"""Producers' pictures: what crosses, what waits, what the broker remembers and what the log holds after any step."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kitlib.errors import TraceError
from kitlib.experiments import get
from kitlib.trace import Trace
from kitlib.views import show
from kitlib.views.browser.played import played
from kitlib.views.frames import to_frames
from kitlib.views.look import LOG_LOOKS
from kitlib.views.scenes.idempotence import SIGNS, Reader
from kitlib.views.scenes.lanes import Lanes, is_lost, score_of
from tests.views.lives import Lives
from tests.views.producing import (
    answers_lost,
    broker_restart,
    everything,
    long_run,
    scene_of,
    six_in_flight,
    step_of,
    two_producers,
)
from tests.views.projector import Projector
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


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in ET.fromstring(svg).iter(SPACE + "text")]


def boxes_at(trace: Trace, title: str, step: int) -> list[tuple[str, str, str]]:
    """Kind and lines of the boxes in the row that begins so, after a step."""
    row = next(row for row in Reader(trace).helds[step].rows() if row.title.startswith(title))
    return [(box.kind, box.first, box.second) for box in row.boxes]


def log_at(trace: Trace, step: int) -> list[tuple[int, int, str]]:
    """Offset, record and code of all that one log holds."""
    views = Reader(trace).views[step]
    lying = zip(views[0].records, views[0].codes, strict=True) if views else ()
    return [(views[0].base + at, record, code) for at, (record, code) in enumerate(lying)]


def lines_at(trace: Trace, number: int) -> list[str]:
    """The words at the sign of a step."""
    scene = scene_of(trace)
    assert scene.window is not None
    scene.window.draw(-1e9, 1e9, -1)
    return re.findall(r"<text[^>]*>([^<]*)</text>", str(scene.window.signs.get(number, "")))


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
            code = {"delivered": "A", "undelivered": "?"}.get(told.get(record, ""), "n")
        seen.add(record)
        found.append((offset, record, code))
    return found


@pytest.mark.parametrize("name", STORIES)
def test_log_agrees_with_a_record_by_record_reading(name: str) -> None:
    """After any step each record in the log has the look that its own history gives it."""
    trace = STORIES[name]()
    for number in range(0, len(trace), max(3, len(trace) // 20)):
        assert log_at(trace, number) == brute_force(trace, number), trace.steps[number]
    moved = get("log_start_moved").run()
    assert " deleted since" in scene_of(moved).words_after(len(moved) - 1)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(20, 200), st.booleans(), st.integers(1, 5))
def test_random_runs_agree_in_log_rows_and_curves(seed: int, steps: int, has_ids: bool, at_once: int) -> None:
    """The same for made-up runs; the rows and the curves are the states' own lists, and what is lost is what the steps lose."""
    trace = long_run(steps, seed, has_ids=has_ids, at_once=at_once)
    reader = Reader(trace)
    assert log_at(trace, len(trace) - 1) == brute_force(trace, len(trace) - 1)
    for step in trace.steps:
        state = step.state["producer"]
        assert reader.curves["waiting"][step.number] == len(state["queue"])
        assert reader.curves["in flight"][step.number] == len(state["in_flight"])
        row = next(row for row in reader.helds[step.number].rows() if row.title == "In flight")
        assert [box.first for box in row.boxes if box.kind != "free"] == [f"batch {batch}" for _, batch, *_ in state["in_flight"]]
    told = [step.what.removesuffix("_request").removesuffix("_answer") for step in trace.steps[:-1]]
    assume(trace.cut_at is None or [each for each in told if each != "lose"][-1] != "cut")  # else what was under way is not told any more
    assert sum(each.count for each in score_of(trace).travellers if is_lost(each)) == told.count("lose")


def test_answers_lost_are_crosses_between_the_lanes_and_their_retries_are_recognised() -> None:
    """Five answers vanish between the lanes; each batch that comes again is known, and the sentence says so."""
    trace = answers_lost()
    lost = [each for each in score_of(trace).travellers if is_lost(each)]
    assert [(each.source, each.target) for each in lost] == [("broker", "producer")] * 5
    again = step_of(trace, "recognise")
    said = to_frames(trace).said
    assert said[again.number] == (
        "Batch 4 (records 20-24, sequence 20) arrives a second time: the broker still remembers it and answers with offset 20 again."
    )
    retry = next(step for step in trace if step.what == "request" and step.data["attempt"])
    assert lines_at(trace, retry.number) == ["try 2", "batch 4", "seq 20-24"]
    assert "again, attempt 2" in said[retry.number]
    found = texts(show(trace, again.number).svg)
    assert {"known", "batch 4", "In the accumulator5 batches, 35 records", "The log50 records"} <= set(found)
    assert show(trace, step_of(trace, "lose_answer", 4).number, "lanes").svg.count('stroke-dasharray="3 3"') == 5
    crowded = get("answers_lost").run(records=400)
    assert any("6 batches, 58 records; 1 more" in text for step in range(0, 400, 20) for text in texts(show(crowded, step).svg))


def test_what_fell_out_of_the_brokers_memory_is_just_forgotten_until_it_changes_again() -> None:
    """The sixth batch pushes the first out: it stands crossed out beside the five, and is ringed when it is missed."""
    trace = six_in_flight()
    before, after = step_of(trace, "write", 4).number, step_of(trace, "write", 5).number
    assert [kind for kind, *_ in boxes_at(trace, "The broker", before)] == ["remembered"] * 5
    assert boxes_at(trace, "The broker", after)[:2] == [("forgotten", "seq 0-4", "forgotten"), ("remembered", "seq 5-9", "at 5")]
    refused, said = step_of(trace, "refuse").number, to_frames(trace).said
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in said[refused]
    assert "5 batches of producer id 0, epoch 0, at most 5; it has just forgotten 1" in scene_of(trace).words_after(after)
    last = step_of(trace, "write", 11)
    assert lines_at(trace, last.number) == ["batch 5", "2nd copy"]
    assert said[last.number].endswith("is written again, from offset 55: a second copy in the log.")
    copies = [code for *_, code in log_at(trace, len(trace) - 1)].count("2")
    assert copies == 30 == scene_of(trace).curves["second copies"][-1]
    assert "30 second copies" in repr(show(trace))


def test_a_restart_forgets_all_but_the_last_batch() -> None:
    """After the kill four batches are crossed out; of what dies with the connection the earlier came farther."""
    trace = broker_restart()
    at = step_of(trace, "restart").number
    assert [kind for kind, *_ in boxes_at(trace, "The broker", at)][:5] == [*["forgotten"] * 4, "remembered"]
    reaches = [each.reach for each in Lanes(trace, [20.0 * step.number for step in trace], SIGNS).ways if is_lost(each)]
    assert len(reaches) == 5 and reaches == sorted(reaches, reverse=True) and len(set(reaches)) == 5


def test_a_second_producer_has_its_lane_below_the_broker() -> None:
    """Each producer has rows of its own; requests with the same numbers are told apart."""
    trace = two_producers()
    told = texts(show(trace, part="lanes").svg)
    assert [name for name in told if name in ("producer", "broker", "producer 2")] == ["producer", "producer 2", "broker"]
    assert [row.title for row in Reader(trace).held.rows()][:4] == [
        "producer: waiting", "producer: in flight", "producer 2: waiting", "producer 2: in flight",
    ]  # fmt: skip
    refused = step_of(trace, "refuse")
    sent = next(step for step in trace if step.what == "request" and step.data["request"] == refused.data["request"])
    ends = [each.t1 for each in score_of(trace).travellers if each.target == "broker" and each.t0 == sent.number]
    assert ends == [refused.number]


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
    assert log_at(trace, 3) == []
    assert "".join(code for *_, code in log_at(trace, 4)) == "AAAAnnOO2"
    assert [record for _, record, _ in log_at(trace, 4)] == [0, 1, 2, 3, 6, 7, 4, 5, 6]
    assert "the log of orders, partition 0: 9 records, 1 second copy, 2 out of order" in scene_of(trace).words_after(4)
    trace.record(30, "broker", "read", **place, first_offset=3, records=[[1, 1], [0, 0]])
    assert log_at(trace, 5) == [(3, 1, "A"), (4, 0, "O")]


def test_parts_hold_their_part_and_others_are_refused() -> None:
    """Each part has its own question; a spout's trace has no lanes, a producer's none of the trees."""
    trace = answers_lost()
    assert not [text for text in texts(show(trace, part="lanes").svg) if re.match("The (log|broker rem)", text)]
    with pytest.raises(TraceError, match=r"there is no part 'lanes'\. Expected one of all, log, plot, tree"):
        show(story(), part="lanes")
    with pytest.raises(TraceError, match=r"there is no part 'tree'\. Expected one of all, lanes"):
        show(trace, part="tree")


def test_signs_differ_in_more_than_colour() -> None:
    """Colour never stands alone: signs differ by their path or fill, the log's boxes by letter, hatch or outline."""
    assert len({(glyph.path, glyph.fill, glyph.edge) for glyph in SIGNS.values()}) == len(SIGNS)
    assert len({(look.code if look.shape == "letter" else look.shape, look.edge, look.hatch) for look in LOG_LOOKS}) == len(LOG_LOOKS)


@pytest.mark.parametrize("name", STORIES)
def test_batches_requests_and_answers_say_by_which_name_they_can_be_asked_for(name: str) -> None:
    """Each of these names is one by which the run's own index of lives knows the thing."""
    trace = STORIES[name]()
    index = Lives(trace)
    known = {ref for step in range(len(trace)) for ref in index.named(step)}
    heads = [attributes.get("data-ref", "") for _, attributes in Projector(played(to_frames(trace))).heads]
    refs = {ref for ref in heads if ref.startswith(("batch:", "request:", "answer:"))}
    assert {ref.partition(":")[0] for ref in refs} == {"batch", "request", "answer"}
    assert refs - known <= {f"answer:{way.partition(':')[2]}" for way in known if way.startswith("request:")}, "one still under way"


def test_partitions_have_rows_and_logs_of_their_own() -> None:
    """The same sequence numbers in two partitions are two boxes."""
    reader = Reader(get("one_partition_waits").run())
    assert [row.title for row in reader.held.rows()][2:] == [f"The broker remembers of partition {p}" for p in range(3)]
    assert [view.words for view in reader.views[-1]] == ["30 records"] * 3


def test_a_client_that_refuses_to_start_is_a_picture_too() -> None:
    """A run without a single request shows the refusal and nothing else."""
    trace = Trace("refused", "refused_settings", domain="idempotence")
    trace.record(0, "producer", "refuse_to_start", error="acks must be all")
    picture = show(trace)
    assert "refuses" in texts(picture.svg)
    assert "The producer refuses to start: acks must be all" in texts(picture.svg)
