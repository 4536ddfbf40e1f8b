"""What has become of a partition's records, and how the group's picture draws those that are lost."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.experiments import get
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace, from_ranges
from kitlib.views.frames import to_frames
from kitlib.views.picture import draw
from kitlib.views.scenes.groups import fates_of, told_ranges
from tests.views.test_scene import texts

ORDERS_0 = ("orders", 0)
GROUPS: dict[str, list[dict[str, Any]]] = {
    "auto_commit": [{}, {"library": "librdkafka"}, {"rule": "handed to a pool"}],
    "reset_policy": [{"state": state, "policy": policy} for state in ("committed but forgotten", "beyond the end", "committed but deleted")
                     for policy in ("earliest", "latest", "none")],
    "worker_pool": [{}], "off_by_one": [{}], "retention_overtakes": [{}], "new_partition_latest": [{}],
    "reset_by_hand": [{}], "rebalance": [{}],
}  # fmt: skip


def lost_after(trace: Trace, number: int) -> list[list[int]]:
    """What is lost of partition 0 after a step."""
    fates = fates_of(trace)
    for step in trace.steps[: number + 1]:
        fates.take(step)
    return fates.lost(ORDERS_0, trace.steps[number].state["cursors"]["orders-0"][0] or 0)


def test_records_in_the_hands_of_a_member_are_lost_when_it_dies() -> None:
    """200 are committed while A works on the 150th: the other 50 are in its hands, and lost from its death on."""
    trace = get("auto_commit").run(library="librdkafka")
    killed = next(step.number for step in trace if step.what == "kill")
    assert (lost_after(trace, killed - 1), lost_after(trace, killed)) == ([], [[150, 199]])
    assert lost_after(trace, len(trace) - 1) == [[150, 199]]


@pytest.mark.parametrize(
    ("name", "knobs"),
    [(name, knobs) for name, each in GROUPS.items() for knobs in each],
    ids=lambda value: str(value)[:70],
)
def test_the_picture_has_lost_at_the_end_what_the_verdict_counts(name: str, knobs: dict[str, Any]) -> None:
    """Picture and verdict find the same number of lost records in each partition."""
    trace = get(name).run(**knobs)
    fates, committed = fates_of(trace), {}
    for step in trace:
        fates.take(step)
        committed |= {key: row[0] or 0 for key, row in step.state.get("cursors", {}).items()}
    for lane in judge(trace).lanes:
        lost = fates.lost((lane.topic, lane.partition), committed[f"{lane.topic}-{lane.partition}"])
        assert len(from_ranges(lost)) == lane.count("lost"), lane


def test_the_bar_of_processed_records_has_a_hole_and_the_hole_is_marked_as_lost() -> None:
    """Processed are 0 to 149 and 200 to 299; between them lie 50 lost records, in the picture, its legend and its words."""
    trace = get("auto_commit").run(library="librdkafka")
    last = len(trace) - 1
    picture = draw(to_frames(trace), last)
    for title in ("processed 0 to 149", "processed 200 to 299", "lost: 150 to 199"):
        assert f"<title>{title}</title>" in picture.svg
    assert "lost: will never be processed" in texts(picture.svg)
    assert "250 processed, committed to 300, log end 300, 50 lost: 150 to 199" in repr(picture)
    whole = get("auto_commit").run(rule="kept after the work", library="librdkafka")
    assert "lost" not in texts(draw(to_frames(whole), len(whole) - 1).svg)


def test_ranges_are_told_in_words() -> None:
    """A single offset has no end."""
    assert told_ranges([[3, 3], [5, 1200]]) == "3, 5 to 1,200"
