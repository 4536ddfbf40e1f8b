"""Static pictures of trees, ledgers, maps and curves: well-formed, readable, deterministic, and deaf to hostile text."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from kitlib.errors import TraceError
from kitlib.experiments import get
from kitlib.trace import Trace
from kitlib.views import show
from kitlib.views.frames import to_frames
from kitlib.views.plot import bearable, curves_of
from kitlib.views.trees.buckets import MapsOf
from kitlib.views.trees.layout import LOOSE_PAINT, TONES, TUPLE_LOOK_OF, TUPLE_LOOKS, tuple_code_of
from kitlib.views.trees.ledger import digits_of
from kitlib.views.trees.ledger_rows import WIDEST_TONED, unsigned, wrapped
from kitlib.words.glyphs import BLACK, WHITE
from kitlib.words.topology import bits_of, to_id, to_root
from tests.views.groves import ACKER, SPLIT, SPOUT, Grove, everything, false_completion, word_count
from tests.views.test_look import contrast
from tests.views.traces import story

SPACE = "{http://www.w3.org/2000/svg}"
def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in ET.fromstring(svg).iter(SPACE + "text")]


def test_picture_shows_ids_in_binary_and_the_sum_bit_by_bit() -> None:
    """Each box has its task and its id; the three numbers of the ledger stand below each other, digit by digit."""
    grove = word_count(words=2)
    step = next(s.number for s in grove.trace if s.what == "acker_ack")
    found = texts(show(grove.trace, step, "tree").svg)
    ids = {to_id(value, 8) for s in grove.trace.steps[: step + 1] if s.what == "send" for _, value in s.data["ids"]}
    assert ids <= set(found) and {"split-2", "count-3", "count-4", "sentences-1", "offset 12"} <= set(found)
    data = grove.trace.at(step).data
    digits = "".join(text for text in found if text in ("0", "1"))
    assert digits == "".join(f"{data[name]:08b}" for name in ("before", "val", "after"))


def test_picture_of_a_finished_tree_says_zero() -> None:
    """At the end the number is visibly zero, in digits and in words."""
    trace = word_count().trace
    found = texts(show(trace, part="tree").svg)
    assert "= after: zero" in found and "".join(t for t in found if t in ("0", "1")).endswith("0" * 8)
    assert "Zero: every id came twice. The" in found
    assert show(trace).sentence.startswith(
        "After step 29 of 29 steps, the tree of offset 12: root …b1f5: acked: 0 of 7 tuples not acked"
    )


def test_picture_of_a_false_completion_calls_it_out() -> None:
    """Zero by chance is said in capitals, and the tuples that it leaves behind have a meaning of their own."""
    trace = false_completion().trace
    step = next(s.number for s in trace if s.what == "acker_ack" and s.data["end"] == "ack")
    assert [text for text in texts(show(trace, step, "tree").svg) if text.startswith("ZERO BY CHANCE")]
    found = texts(show(trace, step + 1, "tree").svg)
    assert TUPLE_LOOK_OF["X"].meaning in found and "falsely acked: 2 of 3 tuples not acked" in found


def test_legend_explains_the_boxes_that_occur_and_no_others() -> None:
    """Each code that is drawn is in the legend, and the dashed boxes where there are some."""
    trace = everything().trace
    frames = to_frames(trace)
    assert frames.forest is not None
    for step in range(0, len(trace), 3):
        found = texts(show(trace, step, "tree").svg)
        codes = set(frames.forest.codes_of(frames.forest.focus[step], step)) - {"."}
        assert {look.code for look in TUPLE_LOOKS if look.meaning in found} == codes


def test_looks_differ_by_sign_and_letters_can_be_read() -> None:
    """No two codes differ by colour alone; the words on boxes and behind sentences have a contrast of 4.5."""
    assert len({(look.sign, look.hatch) for look in TUPLE_LOOKS}) == len(TUPLE_LOOKS)
    pairs = [(look.text, look.fill) for look in TUPLE_LOOKS if look.fill != "none"] + [
        (ink, tone) for tone, ink in TONES.values()
    ]
    assert {pair for pair in pairs if contrast(*pair) < 4.5} == set()
    assert {ink for ink, _ in pairs} <= {BLACK, WHITE} and LOOSE_PAINT["dash"]
    assert {tuple_code_of(flags) for flags in range(256)} == set(TUPLE_LOOK_OF) | {"."} and tuple_code_of(0) == "."


NUMBERS = [
    (None, 4, "    ", "no number is blank"),
    (0, 4, "0000", "zero has all its digits"),
    (6, 4, "0110", "the highest bit comes first"),
    (-1, 64, "f" * 16, "minus one is sixty-four ones, four in a digit"),
    (-(2**63), 64, "8" + "0" * 15, "the smallest long has its sign alone"),
]


@pytest.mark.parametrize(("value", "bits", "digits", "sentence"), NUMBERS, ids=[case[3] for case in NUMBERS])
def test_digits_of_number_case(value: int | None, bits: int, digits: str, sentence: str) -> None:
    """A signed number becomes the digits of what Java would hold."""
    assert digits_of(unsigned(value), bits) == digits, sentence


def test_ids_roots_and_widths_are_told_shortly() -> None:
    """Small ids in groups of four bits, large ones by their last digits; a run's declared width is kept."""
    assert (to_id(0b1011_0010, 8), to_id(-2, 64), to_root(-1), to_root(9)) == ("1011 0010", "…fffe", "…ffff", "9")
    assert (bits_of(8, [3]), bits_of(None, [200]), bits_of(4, [200]), bits_of(None, [-1]), bits_of(None, [])) == (
        8,
        8,
        8,
        64,
        64,
    )
    assert max(len(line) for line, _ in wrapped("word " * 30, "red")) <= WIDEST_TONED


def test_the_shown_tree_has_a_box_where_not_all_fit() -> None:
    """In a bucket with too many boxes the shown tree's is the last that is drawn, with its ring, and the rest is counted."""
    grove = Grove(64)
    for offset in range(20):
        grove.emit(offset, SPLIT)
    forest = to_frames(grove.trace).forest
    assert forest is not None
    maps, last = MapsOf(forest), len(grove.trace) - 1
    pending = maps.pending_of(forest.tasks.index(SPOUT))
    room, found = pending.room, pending.found_at(last)
    drawn = [text for piece in pending.pieces(last, found) for text in texts(f'<svg xmlns="{SPACE[1:-1]}">{piece}</svg>')]
    assert [text for text in drawn if text.endswith("open")] == [f"{tree}: 1 open" for tree in range(room - 1)]
    assert f"and {21 - room} more" in drawn
    rings = pending.rings(last, found)
    assert [len(rings[tree]) for tree in (0, room - 2, room - 1, 19)] == [1, 1, 2, 2], "a ring, and its own box where it has none"
    assert ">19: 1 open<" in str(rings[19][0]) and rings[19][1] is rings[room - 2][0]


def test_pending_map_tells_what_the_tick_dropped() -> None:
    """The maps name their owners, count what they hold, and show what a tick has dropped."""
    trace = everything().trace
    step = [s.number for s in trace if s.what == "spout_tick"][-1]
    found = texts(show(trace, step, "pending").svg)
    assert {f"{SPOUT}'s pending map", f"{ACKER}'s map", "dropped by the tick: timed out", "0: 2 open"} <= set(found)
    assert "1 pending, ended so far: 1 failed" in found


def test_picture_of_a_short_run_without_records_leaves_the_strips_out() -> None:
    """Where no log was written there is no strip, and the curves count trees and tuples."""
    grove = Grove()
    grove.emit(1, SPLIT)
    found = texts(show(grove.trace).svg)
    assert "Where is each record?" not in found
    assert {"pending trees", "tuples out"} <= set(found)


def livelock(max_spout_pending: int) -> Trace:
    return get("livelock").run(max_spout_pending=max_spout_pending, duration_s=150)


def test_curves_of_a_livelock_show_work_that_is_worth_nothing() -> None:
    """600 pending at 100 ms a tuple and 30 s: the bolt goes on at ten a second, and soon nothing is acked in time."""
    trace = livelock(600)
    values = {found.name: found.values for found in curves_of(to_frames(trace))}
    assert bearable(trace) == 300
    assert (values["worked / s"][-1], values["acked / s"][-1], values["acked / s"][0]) == (10, 0, 10)
    picture = show(trace, part="curves")
    found = texts(picture.svg)
    rows = {name: found[at + 1] for at, name in enumerate(found[:-1])}
    wanted = {"worked / s": "highest 10", "acked / s": "highest 10", "work in 30 s": "highest 300", "failed / s": "highest 60"}
    assert wanted.items() <= rows.items() and {"0 ms", "60 s"} <= set(found)
    assert found[0].startswith("Is the work that is done still worth something?")
    assert picture.svg == show(trace, part="curves").svg


def test_curves_below_the_bound_stay_healthy() -> None:
    """200 pending is less than one timeout's work: what is worked through is acked."""
    values = {found.name: found.values for found in curves_of(to_frames(livelock(200)))}
    assert values["acked / s"][-1] == values["worked / s"][-1] > 0 and not any(values["failed / s"])


def test_curves_over_steps_hold_each_sample_until_the_next() -> None:
    """In the player a sample's value stays until the next sample."""
    frames = to_frames(livelock(200))
    by_name = {found.name: found.values for found in curves_of(frames)}
    queue, samples = by_name["in queues"], frames.samples
    first, after = samples[3].number, samples[4].number
    assert len(queue) == len(frames) and queue[first:after] == [samples[3].data["queue"]] * (after - first)


@pytest.mark.parametrize(
    ("trace", "part", "expected"),
    [
        (story(), "tree", "sample has no trees.*Expected all, log or plot."),
        (story(), "pending", "has no trees"),
        (word_count().trace, "curves", "grove has no samples.*Expected all, log or plot, tree or pending."),
    ],
    ids=["no tree in a spout's run", "no pending map in a spout's run", "no curves in a run of whole trees"],
)
def test_a_part_that_a_trace_has_not_is_refused(trace: Trace, part: str, expected: str) -> None:
    """A picture of what the trace does not hold is a TraceError that says what it does hold."""
    with pytest.raises(TraceError, match=expected):
        show(trace, part=part)
