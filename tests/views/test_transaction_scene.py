"""A transaction's picture: what is written, what is decided, and which reader was given what."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

from kitlib.experiments import run
from kitlib.trace import Trace
from kitlib.views import show
from kitlib.views.frames import to_frames
from kitlib.views.scene import Scene
from kitlib.views.scenes.transactions import (
    ABORTED,
    BOX_Y,
    COMMITTED,
    INPUT_Y,
    OPEN,
    PLAIN,
    fate_of,
    signs_of,
    states_of,
    transactions,
)
from tests.views.test_scene import texts

ZOMBIE = run("zombie")


def number_of(what: str, nth: int = 0) -> int:
    return [step.number for step in ZOMBIE if step.what == what][nth]


def scene_of(trace: Trace) -> Scene:
    scene = to_frames(trace).scene
    assert scene is not None
    return scene


FATES: list[tuple[str, list[list[Any]], list[str]]] = [
    ("undecided without a marker", [[0, 2, 0, 0, 0, None]], [OPEN]),
    ("the marker behind it decides", [[0, 2, 0, 0, 0, None], [3, 3, 0, 0, None, "COMMIT"]], [COMMITTED]),
    ("another id's marker says nothing", [[0, 2, 0, 0, 0, None], [3, 3, 1, 0, None, "ABORT"]], [OPEN]),
    (
        "the first marker behind it counts, not a later one",
        [[0, 0, 0, 0, 0, None], [1, 1, 0, 1, None, "ABORT"], [2, 2, 0, 1, 1, None], [3, 3, 0, 2, None, "COMMIT"]],
        [ABORTED, COMMITTED],
    ),
    ("a record outside of transactions", [[0, 0, -1, -1, None, None]], [PLAIN]),
]


@pytest.mark.parametrize(("log", "fates"), [row[1:] for row in FATES], ids=[row[0] for row in FATES])
def test_a_batch_is_worth_what_the_first_marker_of_its_producer_behind_it_says(
    log: list[list[Any]], fates: list[str]
) -> None:
    """That is how a reader of committed records decides, and nothing else does."""
    assert [fate_of(row, log) for row in log if row[5] is None] == fates


def steps_of(trace: Trace) -> list[float]:
    """An axis on which step n lies at n."""
    return [float(step.number) for step in trace]


def test_what_producers_coordinator_and_database_did() -> None:
    """A transaction lasts until its producer saw its end, a state until the next begins; a second charge is another sign than the first."""
    told = [(name, ref, bar.x1) for name, bar, ref in transactions(ZOMBIE, steps_of(ZOMBIE))]
    ends = [("producer 2", 1, number_of("commit_tx")), ("producer 2", 2, number_of("commit_tx", 1)), ("producer", 0, number_of("fenced"))]
    assert told == [(name, f"transaction:{tx}", end) for name, tx, end in ends]
    states = states_of(ZOMBIE, steps_of(ZOMBIE))["worker"]
    assert [bar.kind for bar in states][:5] == ["Empty", "Ongoing", "Prepare", "CompleteAbort", "Empty"]
    assert all(before.x1 == after.x0 for before, after in pairwise(states))
    for unique_key, second in ((False, "again"), (True, "known")):
        effects = [word for word in signs_of(run("outside_effect", unique_key=unique_key)) if word in ("charge", "again", "known")]
        assert effects == ["charge"] * 6 + [second] * 3 + ["charge"] * 3
    cut = run("zombie", max_steps=30)
    assert transactions(cut, steps_of(cut))[-1][1].x1 == len(cut) - 1, "what is open at the end stays so"


def test_lanes_show_who_is_told_what() -> None:
    """A lane for each actor; the legend names the messages between them and the signs on them."""
    scene = scene_of(run("delayed_marker"))
    drawn = str(scene.body)
    assert [name for name in ("producer", "coordinator", "output topic", "read_committed") if f">{name}<" not in drawn] == []
    meanings = " | ".join(meaning for _, meaning in scene.legend)
    assert "an abort" in meanings and "a request with its records" in meanings and "a producer's transaction" in meanings


def test_the_panel_shows_the_logs_boxes_by_their_worth_and_what_each_reader_was_given() -> None:
    """After the abort its records are hatched; read_committed never had them, read_uncommitted had."""
    scene, at = scene_of(ZOMBIE), number_of("marker")
    assert scene.words_after(at).startswith(
        "the log has 4 offsets, the last stable one is 4; read_committed received 0; read_uncommitted received 3"
    )
    before, after = str(scene.panel_after(number_of("freeze"))), str(scene.panel_after(at))
    assert before.count("open transaction") == 3 and after.count("open transaction") == 0
    assert after.count("aborted: stays in the log") == 3 and after.count("an abort marker") == 1
    told = texts(show(ZOMBIE, at).svg)
    assert "last stable offset" in told and "workeris PrepareAbort" in told
    assert len({str(piece) for step in range(len(ZOMBIE)) for piece in scene.panel_after(step).inside}) < 2.5 * len(ZOMBIE)


def test_a_record_given_twice_to_a_reader_says_so() -> None:
    """A reader that begins anew is given records again."""
    trace = run("zombie")
    read = next(step for step in trace if step.actor == "read_committed" and step.what == "read")
    trace.record(trace.steps[-1].at_ms, read.actor, read.what, state=trace.steps[-1].state, **read.data)
    assert "2×" not in texts(show(ZOMBIE).svg) and "2×" in texts(show(trace).svg)


def test_a_long_log_shows_its_newest_part() -> None:
    """More boxes than fit: from which offset on is said, and the cursor's line stays inside."""
    trace = run("commit_and_abort", transactions=12)
    svg = show(trace).svg
    assert "shown from offset " in texts(svg) and len(svg) < 60_000
    assert "shown from" not in texts(show(trace, 3).svg)


def looks(trace: Trace, number: int, row: int) -> list[str]:
    """The titles of the boxes of the panel's row that begins at this height."""
    drawn = str(scene_of(trace).panel_after(number))
    return re.findall(rf' y="{row}"[^>]*><title>[^:<]*: ([^<]*)', drawn)


def test_the_input_shows_both_halves_of_a_transaction() -> None:
    """While a transaction has moved the group's position the picture says where it is, and where a commit would put it."""
    trace = run("consume_transform_produce")
    moved = next(step.number for step in trace if step.what == "send_offsets")
    decided = next(step.number for step in trace if step.what == "marker")
    assert looks(trace, moved, INPUT_Y)[:4] == ["in an open transaction"] * 3 + ["not read yet"]
    assert looks(trace, decided, INPUT_Y)[:4] == ["committed"] * 3 + ["not read yet"]
    words = scene_of(trace).words_after(moved)
    assert words.endswith("the group's position in the input is 0 of 9; it becomes 3 if transaction 0 commits")


def test_a_second_copy_differs_from_the_first() -> None:
    """A record that two transactions have committed is committed in its first box and a second copy in the other."""
    trace = run("zombie", ids="new per start", offsets="outside")
    found = looks(trace, len(trace) - 1, BOX_Y)
    assert (found.count("committed"), found.count("committed again: a second copy")) == (6, 3)
