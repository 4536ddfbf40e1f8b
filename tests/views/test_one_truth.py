"""What the strips count is what the verdict and the curves count."""

from __future__ import annotations

import re

import pytest

from kitlib.experiments import names, run
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from kitlib.views.frames import Frames, to_frames
from kitlib.views.partition.strip import sums_of

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
    assert_curve(frames, trace)


def assert_curve(frames: Frames, trace: Trace) -> None:
    """The strips say "pending" of as many records as the curve does."""
    for number in range(0, len(trace), -(-len(trace) // SAMPLES)):
        told = [numbers(sums_of(view)[1]).get("pending", 0) for view in frames.lanes_after(number)]
        assert sum(told) == frames.pending[number], f"step {number}"
