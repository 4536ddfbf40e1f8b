"""The offsets topic and a compacted topic as pictures: live records, the cache during a load, before and after a pass."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from kitlib.experiments import run
from kitlib.trace import Trace
from kitlib.views import Player, show
from kitlib.views.frames import to_frames
from kitlib.views.scene import kind_of
from kitlib.views.scenes.log_panel import (
    MOST_BOXES,
    PER_ROW,
    KeyedLog,
    boxes_in,
    draw_cache,
    draw_log,
    keyed_log,
    labels_of,
    log_words,
)
from kitlib.views.scenes.offset_rows import coordinator_states
from kitlib.views.svg import HATCH
from kitlib.words.glyphs import BLUE, RED
from kitlib.words.offsets import OFFSETS, in_words
from tests.views.test_scene import texts

BILLING = "billing orders-0"
STALE, TOMBSTONES = run("stale_offset"), run("tombstones")
LOG = KeyedLog([(3, 0, 10), (5, 1, 40), (6, 0, 12), (7, 1, None)], [BILLING, "b"], [(3, 6, False), (6, 8, True)])


def steps_of(trace: Trace, what: str) -> list[int]:
    return [step.number for step in trace if step.what == what]


def test_the_last_record_of_each_key_is_live() -> None:
    """One value and one tombstone live; what they replaced does not count, whatever its value."""
    assert LOG.live == {6, 7} and LOG.counts() == (1, 1, 2) and LOG.values == {BILLING: 12, "b": None}
    drawn = "".join(map(str, draw_log(LOG)))
    assert drawn.count(f'fill="{BLUE}"') == 1 and drawn.count(f'stroke="{RED}"') == 1
    assert "".join(map(str, draw_log(LOG, {3, 5}))).count(f'fill="{HATCH}"') == 2


def test_a_log_that_is_too_long_for_boxes_is_a_bar_filled_as_far_as_it_is_live() -> None:
    """Eighty records of one key: one cell has something live, and the picture has no element for each record."""
    long = KeyedLog([(offset, 0, offset) for offset in range(80)], ["a"])
    bar = str(draw_log(long)[0])
    assert bar.count("<rect") == 1 and bar.count("<path") == 2 and "offset 0" in bar
    assert boxes_in([LOG, None]) == MOST_BOXES and boxes_in([LOG, long]) == PER_ROW
    assert "the log is empty" in "".join(map(str, draw_log(KeyedLog())))


def test_keys_of_the_old_format_are_others_to_the_cleaner_and_the_same_to_the_coordinator() -> None:
    """Both keep their live record; what the log says of the group is the later one of the two."""
    old = f"{BILLING}, old format"
    labels = labels_of([{"offsets": {"keys": [old, BILLING, "audit orders-0"]}}])
    assert labels == {old: "a°", BILLING: "a", "audit orders-0": "b"}
    state = {"offsets": {"records": [[0, 0, 3], [1, 1, 9]], "keys": [old, BILLING], "cache": {BILLING: 3}}}
    log = keyed_log(state, labels)
    assert log is not None and log.live == {0, 1} and log.values == {BILLING: 9}
    told = "".join(map(str, draw_cache(log)))
    assert "the log: 9" in told and "differs from the log in billing orders-0" in log_words(log)


def test_short_keys_are_their_own_names_and_letters_go_on_after_z() -> None:
    """A letter stays a key's own for the whole run."""
    assert labels_of([{"offsets": {"keys": ["a", "bob"]}}, {}]) == {"a": "a", "bob": "bob"}
    many = labels_of([{"offsets": {"keys": [f"group {number} t-0" for number in range(30)]}}])
    assert many["group 26 t-0"] == "a1" and len(set(many.values())) == 30


def test_the_cache_says_what_it_lacks_and_whether_that_will_still_come() -> None:
    """While it is loaded a key is not read yet; afterwards it is missing. A key that both lack has no offset, and no green tick."""
    told = "".join(map(str, draw_cache(KeyedLog(LOG.records, LOG.keys, cache={}, loading=(1, 4)))))
    assert "not read yet" in told and "loading: 1 of 4 records read" in told
    told = "".join(map(str, draw_cache(KeyedLog(LOG.records, LOG.keys, cache={}))))
    assert "the log: 12" in told and told.count(">none<") == 2 and "−1" not in told
    assert told.count("deleted in the log, too") == 1 and "as the log says" not in told, "a group without its offset is no good news"
    assert draw_cache(LOG) == []


def test_the_offsets_topic_is_drawn_with_the_log_and_the_cache_after_each_step() -> None:
    """After the load that ended early the cache lacks what the log says; the picture says both."""
    kind = kind_of(STALE)
    assert kind is not None and kind.__name__ == "kitlib.views.scenes.offsets"
    picture = show(STALE, steps_of(STALE, "load_failed")[0])
    told = texts(picture.svg)
    assert "the log: 25" in told and "What does the log hold" in told and "its cache is not all of the log" in told
    assert "differs from the log in mail orders-0" in repr(picture)
    before = show(STALE, steps_of(STALE, "write")[0])
    assert "differs" not in repr(before)


def test_who_answers_for_the_group_is_followed_through_a_move_and_a_load() -> None:
    """The first broker, the second one, its load, and a cache that is not all of the log."""
    states = coordinator_states(STALE)
    changes = [(step, told) for step, (told, before) in enumerate(zip(states, [None, *states], strict=False)) if told and told != before]
    assert [told[1].partition("|")[0] for _, told in changes[2:]] == [
        "coordinator 2: ready", "coordinator 2: loading", "coordinator 2: ready",
        "coordinator 1: ready", "coordinator 1: loading", "coordinator 1: failed",
    ]  # fmt: skip
    assert [step for step, _ in changes[5:]] == [steps_of(STALE, what)[-1] for what in ("move", "load_begin", "load_failed")]


def test_each_part_asks_its_own_question_and_the_load_has_the_room() -> None:
    """Part "load" gives the load's steps most of the axis; part "signs" shows what a monitor saw."""
    trace = run("coordinator_moves")
    scene = to_frames(trace, "load").scene
    assert scene is not None
    begin, end = steps_of(trace, "load_begin")[-1], steps_of(trace, "load_end")[-1]
    assert scene.x_of_step[end] - scene.x_of_step[begin] > 150
    assert "What does the cache know" in texts(show(trace, part="load").svg)
    signs = show(STALE, part="signs")
    assert "rates" in texts(signs.svg) and "1 vanished commit" not in repr(show(TOMBSTONES))
    player = Player(trace, part="load")
    assert b"What does the cache know" in player.frames
    player.close()


def test_a_compacted_topic_is_drawn_before_and_after_the_pass() -> None:
    """What the last pass took out is hatched above; below is the log as it is now. Before the first pass there is nothing to compare."""
    kind = kind_of(TOMBSTONES)
    assert kind is not None and kind.__name__ == "kitlib.views.scenes.compaction"
    first, second = steps_of(TOMBSTONES, "pass")

    def hatched(at: int) -> int:
        svg = show(TOMBSTONES, at, "before_after").svg
        return sum("hatch" in str(node.get("fill")) for node in ET.fromstring(svg).iter()) - 1  # one is the legend's

    assert hatched(first + 1) == 2 and hatched(second + 1) == 1
    assert "the cleaner has not been here yet" in texts(show(TOMBSTONES, first - 1, "before_after").svg)
    assert "4 records in the log: 3 live" in repr(show(TOMBSTONES))


@pytest.mark.parametrize("trace", [run("coordinator_moves", others_records=600), TOMBSTONES], ids=lambda trace: trace.experiment)
def test_a_long_run_stays_small(trace: Trace) -> None:
    """Long logs are bars, ticks are one path; no part is longer than notebooks bear."""
    kind = kind_of(trace)
    assert kind is not None
    for part in kind.PARTS:
        assert len(show(trace, part=part).svg) < 60_000


# A step that no default run has -> what it says; `tests/test_net.py` keeps the sentences of all others.
SAID: list[tuple[str, str, dict[str, object], str]] = [
    ("log", "rest", {"to": 5}, "The cleaner does not run: below offset 5 there is nothing new to clean."),
    ("coordinator 2", "cache", {"key": BILLING, "value": 12}, "Coordinator 2's cache: billing orders-0 = 12."),
]  # fmt: skip


@pytest.mark.parametrize(("actor", "what", "data", "said"), SAID, ids=lambda value: str(value)[:30])
def test_a_step_of_the_offsets_topic_is_told(actor: str, what: str, data: dict[str, object], said: str) -> None:
    """Each word has its sentence."""
    assert OFFSETS.sentence(actor, what, data) == said


def test_durations_are_told_in_the_unit_that_people_use() -> None:
    """From milliseconds to days."""
    told = [in_words(each) for each in (8, 2_500, 90_000, 7_200_000, 3 * 86_400_000)]
    assert told == ["8 ms", "2.5 s", "90 s", "2 hours", "3 days"]
