"""A film: pictures of all steps, each piece kept once, and what is read back from it."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from kitlib.experiments import get
from kitlib.views import show
from kitlib.views.browser.played import packed, played
from kitlib.views.film import NOTHING, Film, Reel, Slot, Track, pieces_at
from kitlib.views.frames import to_frames
from kitlib.views.svg import Item, Svg, el, group
from tests.clock import at_pace, min_until
from tests.views.groves import large
from tests.views.lives import Lives
from tests.views.producing import long_run
from tests.views.projector import Projector, leaves_of, text_of, to_node
from tests.views.traces import long_trace


def project(film: Film, *tracks: Track) -> Projector:
    """A film and its only picture, as a player gets them."""
    reel = Reel("t", "q", 10, tracks=list(tracks))
    return Projector(json.dumps({"reels": [reel.to_json(film)], **film.to_json()}).encode())


def test_what_is_read_back_is_what_was_drawn() -> None:
    """Elements, attributes, text in order, and pieces without a head; text that looks like markup is text again."""
    film = Film()
    drawn = group(
        el("text", "a < b", el("tspan", "&", dx=8), "tail", cls="ink", x=1.5), Svg("", [el("path", d='M0 "0"')])
    )
    number = film.add(drawn)
    assert project(film).node(number) == to_node(drawn)[2]
    assert (
        film.add(group(el("text", "a < b", el("tspan", "&", dx=8), "tail", cls="ink", x=1.5), el("path", d='M0 "0"')))
        == number
    )


def test_a_track_keeps_the_steps_at_which_a_piece_changes() -> None:
    """A piece that stays is told once; one that goes leaves nothing; the last word on a step counts."""
    film, (a, b) = Film(), (el("text", "a"), el("text", "b"))
    track = Track(transform="translate(3 4)")
    for step, pieces in ((0, [a, b]), (1, [a, b]), (2, [b]), (5, [a]), (5, [b, a])):
        track.show(step, pieces)
    told = [
        [text_of(node) for node in project(film, track).track(track.to_json(film), step)[2:]] for step in (0, 1, 2, 4, 5)
    ]
    assert told == [["a", "b"], ["a", "b"], ["b", ""], ["b", ""], ["b", "a"]]
    assert [steps for steps, _ in track.rows[0]] == [[0, 2, 5], [0, 2, 5]]
    assert leaves_of(to_node(NOTHING)) == []


def test_slots_are_told_at_the_steps_at_which_they_change_and_a_choice_shows_its_row() -> None:
    """Before its first step a piece is not there; of several rows the chosen one is shown, and none where there is none."""
    film, texts = Film(), [el("text", str(number)) for number in range(9)]
    track = Track(2, [1, -1, 0])
    slots = [Slot([2, 3, 7], lambda step: texts[step // 2]), Slot([0], lambda step: texts[8])]
    track.play(slots)
    track.show(4, [texts[0]], 1)

    def told(step: int, choice: int) -> list[str]:
        return [text_of(node) for node in project(film, track).track(track.to_json(film), step, choice)[2:]]

    assert [told(step, 2) for step in (1, 2, 3, 6, 7)] == [["8"], ["1", "8"], ["1", "8"], ["1", "8"], ["3", "8"]]
    assert [told(step, 2) for step in (1, 3)] == [[text_of(to_node(piece)) for piece in pieces_at(slots, step)] for step in (1, 3)]
    assert track.rows[0][0][0] == [2, 7], "a piece that stays is told once"
    assert [text_of(to_node(track.still(step, 2))) for step in (1, 3, 7)] == ["8", "18", "38"], "a still is a step of it"
    assert ([told(step, 0) for step in (3, 4)], told(9, 1)) == ([[], ["0"]], [])


def test_a_legend_explains_what_occurs_in_the_run_and_says_when() -> None:
    """Items that never occur are left out; the bits of a step say which of the others are in its picture."""
    items = [Item(key, el("rect"), key * 3) for key in "abc"]
    reel = Reel("t", "q", 10)
    reel.explain(items, enumerate([{"a"}, {"c", "a"}, {"c", "a"}, set()]), [(2, "c")])
    assert ([item.meaning for item in reel.legend], reel.seen) == (["aaa", "ccc"], [([0, 1, 3], [1, 3, 0]), ([2], [2])])


def test_tuples_and_trees_say_by_which_name_they_can_be_asked_for() -> None:
    """The trace's own number of a tuple and root of a tree, in a picture as in what a player is sent."""
    trace = get("tuple_tree").run(records=3)
    tuples = {str(number) for step in trace if step.what == "emit" for number, _, _ in step.data["tuples"]}
    tuples |= {str(step.data["tuple"]) for step in trace if step.what == "send"}
    roots = {str(step.data["root"]) for step in trace if step.what == "emit"}
    heads = [attributes.get("data-ref", "") for _, attributes in Projector(played(to_frames(trace))).heads]
    index = Lives(trace)
    found = {kind: {ref.removeprefix(kind) for ref in heads if ref.startswith(kind)} for kind in ("tuple:", "tree:")}
    assert found == {"tuple:": tuples, "tree:": roots}
    known = {ref for step in range(len(trace)) for ref in index.named(step)}
    assert {f"tuple:{name}" for name in tuples} | {f"tree:{name}" for name in roots} <= known, "the index of lives knows them"
    assert set(re.findall(r'data-ref="(tuple|tree):', show(trace, 20).svg)) == {"tuple", "tree"}


RUNS: list[tuple[str, dict[str, Any]]] = [
    ("poison_record", {"records": 60, "max_steps": 300}),
    ("tuple_tree", {"id_bits": 8, "records": 12, "fan_out": 3, "max_spout_pending": 5, "fault": "drop", "max_steps": 1000}),
    ("tuple_tree", {"id_bits": 64, "join": True, "fault": "unanchored"}),
    ("acker_crash", {}),
]


@pytest.mark.parametrize(("name", "knobs"), RUNS, ids=str)
def test_a_film_of_one_step_shows_what_the_whole_one_shows_there(name: str, knobs: dict[str, Any]) -> None:
    """Each of its pictures with what explains it, of the tree that was chosen too, is that of the step in the film of all steps."""
    frames = to_frames(get(name).run(**knobs))
    whole, last = Projector(played(frames)), len(frames) - 1
    for step in (0, 1, *range(last // 2, last // 2 + 12), last):
        sent = Projector(played(frames, step))
        for reel in range(len(whole.reels)):
            assert sent.leaves(reel, step) == whole.leaves(reel, step) and sent.meanings(reel, step) == whole.meanings(reel, step)
        assert (sent.row["isWhole"], whole.row["isWhole"]) == (False, True)
    if frames.forest is not None:
        assert Projector(played(frames, 5, chosen=1)).leaves(0, 0) == whole.leaves(0, 5, 1)


LONG = {"spout": (long_trace, 120_000), "tree": (large, 130_000), "producer": (long_run, 90_000)}


@pytest.mark.parametrize("of", LONG)
def test_a_thousand_steps_are_sent_in_few_kb(of: str) -> None:
    """What the player is sent, packed."""
    make, size = LONG[of]
    frames = to_frames(make(1000))
    assert len(packed(played(frames))) < size


@pytest.mark.pace
@pytest.mark.parametrize("of", LONG)
def test_a_thousand_steps_are_drawn_in_150_ms(of: str) -> None:
    """From a run to what the player is sent; a slower machine has longer, in proportion."""
    trace = LONG[of][0](1000)

    def once() -> float:
        began = time.process_time()
        played(to_frames(trace))
        return time.process_time() - began

    assert min_until(0.150, lambda: at_pace(once)) < 0.150
