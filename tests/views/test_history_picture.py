"""A commit history, and the signs of a rewind, as pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from kitlib.experiments import run
from kitlib.monitor.commit_history import CommitHistory, Committed, GroupPartition, GroupSeen
from kitlib.monitor.rewinds import Sample, rewinds
from kitlib.views import draw_history, show
from kitlib.views.pictures.clock import Clock, clock_over
from kitlib.views.pictures.history import MOST_ROWS, points_of, short
from kitlib.views.scenes.signs import look_for_signs, thinned
from kitlib.words.glyphs import RED
from tests.views.payloads import HOSTILE, assert_only_text
from tests.views.test_scene import SPACE, texts

NOON = 1_763_812_800_000  # 2025-11-22, 12:00 UTC
ORDERS = GroupPartition("billing", "orders", 0)


def commits(*offsets: int | None, members: int | None = 1) -> list[Committed]:
    """One commit a second, from noon on."""
    return [Committed(order, NOON + order * 1_000, offset, members=members) for order, offset in enumerate(offsets)]


def red_lines(svg: str) -> list[str]:
    return [node.get("d", "") for node in ET.fromstring(svg).iter(f"{SPACE}path") if node.get("stroke") == RED]


def test_a_step_back_and_a_vanished_commit_are_marked_where_they_happened() -> None:
    """The arrow stands at the time of the smaller commit, the cross at the tombstone; the sentence counts both."""
    other = GroupPartition("billing", "orders", 1)
    picture = draw_history({ORDERS: commits(10, 500, 40, 60), other: commits(5, 9, None, 1)})
    assert repr(picture) == "7 commits of 2 partitions: 1 step back, 1 vanished commit; nothing excuses 2 of them."
    told = texts(picture.svg)
    assert "−460" in told and "vanished" in told and "2025-11-22, UTC" in told and "12:00:02.000" in told
    clock = clock_over((NOON, NOON + 3_000), 176, 736)
    assert any(line.startswith(f"M{clock.x(NOON + 2_000):g} ") for line in red_lines(picture.svg))


def test_signs_near_to_each_other_have_one_number() -> None:
    """The larger of two steps back that stand side by side is the one that is told."""
    near = [Committed(order, NOON + order, offset) for order, offset in enumerate((900, 100, 850, 800))]
    far = Committed(9, NOON + 60_000, 820)
    told = texts(draw_history({ORDERS: [*near, far]}).svg)
    assert "−800" in told and "−50" not in told


def test_an_excused_sign_is_grey_and_says_by_what() -> None:
    """A reset by hand is seen, and is no alarm."""
    found = draw_history({ORDERS: commits(500, 100, 200, 300, members=0)})
    assert "nothing excuses 0 of them" in repr(found) and "someone reset it" in found.svg
    assert draw_history({ORDERS: commits(1, 2, 3)}).sentence == "3 commits of 1 partition: 0 steps back, 0 vanished commits."


def test_groups_of_a_history_excuse_what_a_dictionary_of_commits_cannot_know() -> None:
    """A deleted group's tombstones are excused by the group's own record."""
    history = CommitHistory({ORDERS: commits(10, None)}, {"billing": [GroupSeen(2, NOON + 1_000, 0, is_gone=True)]})
    assert "nothing was committed" in texts(draw_history({}).svg)
    assert "nothing excuses 0" in repr(draw_history(history)) and "nothing excuses 1" in repr(draw_history(history.commits))


def test_signs_that_are_given_are_drawn_and_no_others() -> None:
    """Whoever looked by other rules decides what is marked."""
    history = {ORDERS: commits(10, 500, 40, 60)}
    assert "1 step back" in repr(draw_history(history, {ORDERS: rewinds(history[ORDERS])}))
    assert "0 steps back" in repr(draw_history(history, {}))


def test_partitions_with_faults_come_first_and_the_rest_is_counted() -> None:
    """Of many partitions those are drawn of which there is something to say."""
    many = {GroupPartition("g", "t", number): commits(1, 2, 3) for number in range(MOST_ROWS + 5)}
    last = GroupPartition("g", "t", MOST_ROWS + 4)
    many[last] = commits(900, 1, 2, 3)
    told = texts(draw_history(many).svg)
    assert f"t-{last.partition}" in told and "5 more partitions not drawn" in told


def test_a_long_history_stays_small_and_keeps_its_lowest_commit() -> None:
    """A column of many commits is drawn by four of them; the one that goes back is one of these."""
    rising = [Committed(order, NOON + order * 10, 100 + order) for order in range(20_000)]
    rising[10_000] = Committed(10_000, NOON + 100_000, 3)
    points = points_of(rising, Clock(NOON, NOON + 200_000, 176, 736))
    assert len(points) < 900 and min(offset for _, offset in points if offset is not None) == 3
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert len(draw_history({ORDERS: rising}).svg) < 20_000


def test_an_axis_has_few_round_times_and_says_seconds_where_there_is_no_calendar() -> None:
    """Virtual time begins at 0; real time is UTC; days where it spans many."""
    assert [Clock(0, 60_000, 0, 1).name(at) for at in Clock(0, 60_000, 0, 1).ticks()] == ["0 s", "15 s", "30 s", "45 s", "60 s"]
    week = Clock(NOON, NOON + 7 * 86_400_000, 0, 1)
    assert week.name(week.ticks()[0]) == "2025-11-24" and len(week.ticks()) <= 6
    beyond = Clock(2**62, 2**63, 0, 100)
    assert beyond.day == "" and len(beyond.ticks()) <= 7 and beyond.x(2**63) == 100


def test_names_are_cut_in_the_middle() -> None:
    """The end of a name tells the partition."""
    assert short("kit.some-long-run.orders-12", 12) == "kit.s…ers-12" and short("orders-1", 12) == "orders-1"


def rewound(at: int, seconds: int = 30) -> tuple[list[Committed], list[Sample]]:
    """Twenty records a second come in and go out; at one second the consumer begins again at offset 100."""
    position, emitted = 500, 0
    found: list[Committed] = []
    samples: list[Sample] = []
    for second in range(seconds):
        end = 500 + 20 * second
        if second == at:
            position = 100
            found.append(Committed(second, NOON + second * 1_000, 100, members=1))
        else:
            before, position = position, min(end, position + 200)
            emitted += position - before
            found.append(Committed(second, NOON + second * 1_000, position, members=1))
        samples.append(Sample(NOON + second * 1_000, end, found[-1].offset, emitted))
    return found, samples


def test_the_three_signs_stand_at_one_moment_on_one_axis() -> None:
    """The step back, the output without input and the leap of the lag; a line through all rows at the moment."""
    found, samples = rewound(12)
    seen = look_for_signs(found, samples)
    assert seen.moments_ms == [NOON + 12_000] and seen.signs.surges and seen.signs.lag_spikes
    assert seen.sentence.startswith("1 step back; 0 vanished commits; ") and "1 lag spike" in seen.sentence
    svg = show(run("stale_offset"), part="signs").svg
    assert all(f">{name}<" in svg for name in ("offsets", "rates", "lag", "−16"))
    assert "more went out than had come in and waited" in svg


def test_an_excused_step_back_is_no_moment() -> None:
    """A reset by hand is drawn in its row, and no line goes through the others."""
    by_hand = commits(500, 100, 200, 300, members=0)
    assert len(look_for_signs(by_hand, []).steps) == 1 and look_for_signs(by_hand, []).moments_ms == []


def test_many_samples_are_thinned_and_stay_counted() -> None:
    """Of a column its last look stays, so that what went out between two drawn looks is all that went out."""
    samples = [Sample(NOON + each, each, each, each) for each in range(10_000)]
    few = thinned(samples, Clock(NOON, NOON + 10_000, 0, 300))
    assert len(few) <= 102 and few[0] == samples[0] and few[-1] == samples[-1]


@pytest.mark.parametrize("payload", HOSTILE)
def test_names_of_groups_and_topics_are_text(payload: str) -> None:
    """A group and a topic may be called anything, and so may who committed."""
    by = [Committed(0, 1, 50, by=payload), Committed(1, 2, 3, by=payload)]
    assert_only_text(draw_history({GroupPartition(payload, payload, 0): by}))
