"""What the strips count is what the verdict and the curves count."""

from __future__ import annotations

import re

import pytest

from kitlib.experiments import names, run
from kitlib.monitor.delivery import judge
from kitlib.views.frames import to_frames
from kitlib.views.partition.reader import LaneView
from kitlib.views.partition.strip import sums_of
from kitlib.views.stage.picture import stage_of

SAMPLES = 40  # steps of a run that are looked at


def numbers(told: str) -> dict[str, int]:
    """Each count of a summary by its name; of a sum also its terms, as "lost: skipped". The terms add up."""
    found: dict[str, int] = {}
    for clause in re.split("; ", told):
        total, _, terms = clause.partition(" = ")
        match = re.fullmatch(r"([\d,]+)(?: of ([\d,]+))? ([^(]+?)(?: \([\d,]+ records?\))?", total)
        if match is None:
            continue
        name = match[3]
        found[name] = int(match[1].replace(",", ""))
        if match[2]:
            found["of"] = int(match[2].replace(",", ""))
        parts = [term.split(" ", 1) for term in terms.split(" + ")] if terms else []
        found |= {f"{name}: {part}": int(count.replace(",", "")) for count, part in parts}
        assert not parts or found[name] == sum(int(count.replace(",", "")) for count, _ in parts), clause
    return found


@pytest.mark.parametrize("name", names())
def test_the_strip_of_a_run_says_what_its_verdict_says(name: str) -> None:
    """Processed, lost, skipped and duplicated are the same numbers in both, or the terms of a sum that is shown."""
    trace = run(name)
    frames = to_frames(trace)
    verdict = judge(trace)
    if not frames.lanes or trace.cut_at is not None:
        return
    lanes = [lane for lane in verdict.lanes if lane.appended or lane.processed]
    views = [view for view in frames.lanes_after(len(trace) - 1) if sums_of(view)[0] != "the log is empty"]
    assert len(lanes) == len(views)
    for lane, view in zip(lanes, views, strict=True):
        told = numbers(sums_of(view)[0])
        skipped = told.get("lost: skipped", 0) + told.get("skipped, not lost yet", 0)
        of_strip = (told["processed"], told["of"], told.get("lost", 0), told.get("duplicated", 0))
        assert of_strip == (lane.processed, lane.appended, lane.count("lost"), lane.count("duplicated"))
        assert skipped == lane.count("skipped")


@pytest.mark.parametrize("name", names())
def test_stage_strip_and_curves_say_one_number_for_one_thing(name: str) -> None:
    """After every step "in flight" is one number in curve and strip; the spout's line and the store say what the strip says."""
    trace = run(name)
    frames = to_frames(trace)
    sampled = range(0, len(trace), -(-len(trace) // SAMPLES))
    for number in sampled:
        told = [numbers(sums_of(view)[1]).get("pending: in flight", 0) for view in frames.lanes_after(number)]
        assert sum(told) == frames.in_flight[number], f"step {number}"
    stage = stage_of(trace, frames.clock)
    if trace.domain != "spout" or stage is None or len(frames.lanes) != 1:
        return
    views = dict(frames.lanes[0].views())
    places, of_strip = frames.clock.places, dict[str, str]()
    for number, place in enumerate(places):
        of_strip = stage_words(views[number]) if number in views else of_strip
        for who, words in of_strip.items():
            shown = next((text for since, text in reversed(stage.actors[who].lines) if since <= place), words)
            assert shown == words or stage.actors[who].at(place) != "up", f"{who} at step {number}"


def stage_words(view: LaneView) -> dict[str, str]:
    """What the spout and the store must show beside this strip; of the store only what the strip knows."""
    told = numbers(sums_of(view)[1])
    failed = told.get("pending: failed", 0) + told.get("pending: lost", 0)  # since deleted, which the spout does not know
    words = {"spout": f"{told.get('pending', 0)} pending" + (f", {failed} failed" if failed else "")}
    return words | ({"commit": f"{view.at.marks[2]}"} if view.at.is_stored else {})


def test_an_offset_store_is_empty_until_something_is_written() -> None:
    """Nothing travels to or from it before, the spout begins where the log says, and the strip's commit is not a stored one."""
    trace = run("restart", records=5, process_ms=5, max_spout_pending=1, crash_at_ms=45, records_while_down=1)
    frames = to_frames(trace)
    stage = stage_of(trace, frames.clock)
    assert stage is not None
    starts = [step for step in trace.steps if step.what == "start"]
    assert [step.data["stored"] for step in starts] == [None, None]
    assert [text for _, text in stage.actors["commit"].lines] == ["empty"]
    assert not [each for each in stage.travellers if "commit" in (each.source, each.target)]
    from_log = [each.label for each in stage.travellers if (each.source, each.target, each.style.name) == ("log", "spout", "answer")]
    assert from_log == [f"{step.data['offset']}" for step in starts]
    (view,) = frames.lanes_after(len(trace) - 1)
    assert (view.at.is_stored, "C" in view.codes) == (False, False)
