"""A transaction's picture: what is written, what is decided, and which reader was given what."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest

from kitlib.errors import TraceError
from kitlib.experiments import run
from kitlib.trace import Trace
from kitlib.views import Player, show
from kitlib.views.frames import to_frames
from kitlib.views.scene import Scene
from kitlib.views.scenes.transactions import (
    ABORTED,
    BOX_Y,
    COMMITTED,
    INPUT_Y,
    OPEN,
    PLAIN,
    TransactionStory,
    fate_of,
    read_transactions,
)
from kitlib.words.transactions import TRANSACTIONS
from tests.views.payloads import HOSTILE, assert_only_text
from tests.views.test_scene import texts
from tests.views.transacting import Transacting, a_zombie


@pytest.fixture(scope="module")
def story() -> TransactionStory:
    """The story on an axis where step n lies at n."""
    trace = a_zombie()
    return read_transactions(trace, [float(step.number) for step in trace])


def number_of(what: str, nth: int = 0) -> int:
    return [step.number for step in a_zombie() if step.what == what][nth]


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


def test_what_producers_coordinator_and_database_did(story: TransactionStory) -> None:
    """A transaction's box ends where its producer saw its end; a state's box ends where the next begins."""
    spans = {name: [(span.name, span.end) for span in row.spans] for name, row in story.producers.items()}
    assert spans == {"producer": [("0", "commit_tx"), ("1", "gone")], "producer 2": [("2", "")]}
    fenced = number_of("fenced")
    assert [span.x1 for span in story.producers["producer"].spans] == [number_of("commit_tx"), fenced]
    assert story.producers["producer 2"].spans[0].x1 == len(a_zombie()) - 1, "what is open at the end stays so"
    assert [what for what, _ in story.producers["producer"].signs] == ["freeze", "thaw", "fenced"]
    states = story.ids["orders"]
    assert [span.name for span in states][:4] == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert all(before.x1 == after.x0 for before, after in pairwise(states))
    assert [what for _, what in story.effects] == ["charge", "again", "known"]
    assert [what for _, what in story.network] == ["late_marker"]


def test_the_log_and_its_stable_part_are_followed(story: TransactionStory) -> None:
    """While a transaction is open the last stable offset stands at its first record, and then jumps."""
    write, marker = number_of("write"), number_of("marker")
    assert (story.ends[write], story.stable[write]) == (3, 0)
    assert (story.ends[marker], story.stable[marker]) == (4, 4)
    assert story.records[4] == "3" and story.records[7] == "3", "record 3 lies in the log twice"


def test_the_panel_shows_the_logs_boxes_by_their_worth_and_what_each_reader_was_given() -> None:
    """After the abort its records are hatched; read_committed never had them, read_uncommitted had."""
    trace = a_zombie()
    scene = scene_of(trace)
    at = number_of("marker", 1)
    assert scene.words_after(at) == (
        "the log has 7 offsets, the last stable one is 7; read_committed received 3; read_uncommitted received 5"
    )
    before, after = str(scene.panel_after(number_of("freeze"))), str(scene.panel_after(at))
    assert before.count("open transaction") == 2 and after.count("open transaction") == 0
    assert after.count("aborted: stays in the log") == 2 and after.count("an abort marker") == 1
    told = texts(show(trace, at).svg)
    assert (
        "last stable offset" in told
        and "0/1" in told
        and "orders | is PrepareAbort" in told.replace("ordersis", "orders | is")
    )
    assert len({str(piece) for panel in scene.panels for piece in panel.inside}) < 2.5 * len(trace)


def test_a_record_given_twice_to_a_reader_says_so() -> None:
    """A reader that begins anew is given records again."""
    run = Transacting()
    run.write("producer", 0, 0, 0, 0, 1)
    run.mark("COMMIT", 0, 0)
    run.read("read_committed", 0, 1, 0)
    assert "2×" in texts(show(run.trace).svg)


def test_a_long_log_shows_its_newest_part() -> None:
    """More boxes than fit: from which offset on is said, and the cursor's line stays inside."""
    run = Transacting()
    for tx in range(20):
        run.write("producer", tx, 0, 0, 3 * tx, 3 * tx + 2)
        run.mark("COMMIT", 0, 0)
    svg = show(run.trace).svg
    assert "shown from offset 50 on" in texts(svg) and len(svg) < 60_000
    assert texts(show(run.trace, 3).svg).count("shown from") == 0


def test_parts_of_a_transactions_picture() -> None:
    """The log alone is a part; the strips of other traces are not."""
    trace = a_zombie()
    told = texts(show(trace, part="log").svg)
    assert "where does read_committed stop?" in told and "producer 2" not in told
    with pytest.raises(TraceError, match="Expected one of all, log"):
        show(trace, part="plot")
    player = Player(trace)
    assert json.loads(player.frames)["reels"][0]["question"].startswith("What is written")
    player.close()


PLACE = {"topic": "output", "partition": 0}
SENT = {"request": 3, "api": "AddOffsetsToTxn", "by": "worker-1"}
SAID: list[tuple[str, str, dict[str, Any], str]] = [
    ("broker", "open", PLACE, "The topic exists and is empty."),
    ("broker", "open", PLACE | {"inputs": 8}, "The topics exist, with 8 input records."),
    (
        "producer",
        "id",
        {"transactional_id": "orders", "pid": 0, "epoch": 1},
        "The producer starts as orders and gets producer id 0, epoch 1; any earlier producer with that id is fenced.",
    ),
    (
        "producer",
        "join",
        {"group": "g", "generation": 2},
        "The producer is now a member of its group, generation 2; its offset commits will carry that number.",
    ),
    ("producer", "begin", {"tx": 3}, "The producer begins transaction 3; so far no one else knows."),
    ("producer 2", "send", {"first": 0, "last": 2, "tx": 1}, "Producer 2 sends records 0-2 in transaction 1."),
    (
        "producer",
        "send",
        {"first": 4, "last": 4, "tx": None, "held": True},
        "The producer sends record 4 outside any transaction. The network holds the request back.",
    ),
    (
        "producer",
        "send_offsets",
        {"offset": 5, "tx": 1},
        "The producer adds input offset 5 of its group to transaction 1.",
    ),
    ("producer", "commit_tx", {"tx": 1}, "The producer is notified: transaction 1 is committed."),
    ("producer", "abort_tx", {"tx": 1}, "The producer is notified: transaction 1 is aborted."),
    (
        "producer",
        "fenced",
        {"error": "PRODUCER_FENCED", "tried": "commit_tx"},
        "The producer is fenced when it tries to commit: PRODUCER_FENCED. Its transactional id has a newer epoch.",
    ),
    (
        "producer",
        "unknown",
        {"error": "INVALID_PRODUCER_EPOCH", "fatal": False, "must_abort": True, "tried": "commit_tx"},
        "The producer gets INVALID_PRODUCER_EPOCH in answer to its commit: the transaction must be aborted first.",
    ),
    (
        "producer",
        "unknown",
        {"error": "TIMED_OUT", "fatal": False, "must_abort": False},
        "The producer gets TIMED_OUT: the operation can be retried.",
    ),
    ("producer", "kill", {}, "The producer is killed; its transaction, if any, stays open."),
    ("producer", "freeze", {}, "The producer is paused, as by a long garbage collection."),
    ("producer", "thaw", {}, "The producer resumes, unaware that it was paused."),
    (
        "coordinator",
        "transition",
        {"transactional_id": "orders", "to": "PrepareAbort", "pid": 0, "epoch": 1, "why": "timed out"},
        "The coordinator: orders, producer id 0, epoch 1, has decided to abort; the markers follow (timed out).",
    ),
    (
        "broker",
        "write",
        PLACE | {"first": 0, "last": 2, "offset": 4, "tx": 1},
        "Records 0-2 are written from offset 4 in transaction 1; only a marker will decide whether they count.",
    ),
    (
        "broker",
        "marker",
        PLACE | {"offset": 7, "kind": "ABORT", "pid": 0, "epoch": 1},
        "Offset 7 is an ABORT marker for producer id 0, epoch 1: what it wrote since its previous marker does not count.",
    ),
    (
        "broker",
        "refuse",
        {"first": 0, "last": 0, "error": "INVALID_TXN_STATE"},
        "The broker refuses record 0: INVALID_TXN_STATE.",
    ),
    (
        "read_committed",
        "read",
        PLACE | {"offset": 4, "record": 0, "tx": 1},
        "The read_committed reader receives record 0 at offset 4 (in transaction 1).",
    ),
    (
        "read_committed",
        "waits",
        PLACE | {"at": 4},
        "The read_committed reader waits at offset 4, the last stable offset, although the log goes on: a transaction is open there.",
    ),
    (
        "read_committed",
        "commit",
        PLACE | {"offset": 19, "end": 20, "lag": 1},
        "The read_committed reader's group commits offset 19; the log ends at 20, so the lag is 1.",
    ),
    ("read_committed", "end", PLACE | {"position": 9}, "The read_committed reader ends at offset 9."),
    ("network", "release", PLACE, "The messages that were held back arrive now."),
    (
        "network",
        "late_marker",
        PLACE | {"kind": "ABORT", "pid": 0, "epoch": 0, "error": "INVALID_PRODUCER_EPOCH"},
        "An ABORT marker for producer id 0, epoch 0 arrives late: refused, INVALID_PRODUCER_EPOCH.",
    ),
    (
        "network",
        "late_marker",
        PLACE | {"kind": "ABORT", "pid": 0, "epoch": 0, "error": "NONE"},
        "An ABORT marker for producer id 0, epoch 0 arrives late, and the log accepts it.",
    ),
    (
        "database",
        "effect",
        {"record": 3, "charged": True, "by": "producer"},
        "Outside Kafka, the producer charges for record 3: no abort can undo that.",
    ),
    (
        "database",
        "effect",
        {"record": 3, "charged": False, "by": "producer 2"},
        "Outside Kafka, record 3 has already been charged: its key is known, so producer 2 charges nothing.",
    ),
    (
        "producer",
        "commit_offsets",
        {"offset": 5, "error": "NONE"},
        "The producer commits input offset 5 outside any transaction.",
    ),
    (
        "broker",
        "marker",
        PLACE | {"offset": 7, "kind": "MAYBE", "pid": 0, "epoch": 1},
        "broker: marker offset 7, kind MAYBE, pid 0, epoch 1",
    ),
    ("network", "lose_request", SENT, "The network loses request 3 of worker-1 (AddOffsetsToTxn): the broker never sees it."),
    (
        "network",
        "lose_answer",
        SENT,
        "The network loses the answer to request 3 of worker-1 (AddOffsetsToTxn): the broker has done it, and its producer does not know.",
    ),
    ("network", "duplicate_request", SENT, "The network delivers request 3 of worker-1 (AddOffsetsToTxn) twice."),
    (
        "network",
        "delay",
        SENT | {"message": "answer", "ms": 1500},
        "The network holds back the answer to request 3 of worker-1 (AddOffsetsToTxn) for 1,500 ms.",
    ),
    (
        "broker",
        "down",
        {},
        "The broker goes down, and with it the coordinator. Its connections end, and no one answers until it is back.",
    ),
    ("broker", "restart", {}, "The broker is back with its log and the coordinator's."),
]


@pytest.mark.parametrize(("actor", "what", "data", "said"), SAID, ids=lambda value: str(value)[:30])
def test_a_step_of_a_transaction_is_told(actor: str, what: str, data: dict[str, Any], said: str) -> None:
    """Each word of a transaction's run has its sentence."""
    assert TRANSACTIONS.sentence(actor, what, data) == said


def test_every_word_of_a_transaction_has_a_case() -> None:
    """No sentence is left without a test."""
    assert {what for _, what, _, _ in SAID} == set(TRANSACTIONS.words)


@pytest.mark.parametrize("payload", HOSTILE)
def test_names_in_a_transactions_trace_are_text(payload: str) -> None:
    """Ids, topics and reasons may hold anything."""
    run = Transacting(topic=payload)
    run.tell("producer", "id", transactional_id=payload, pid=0, epoch=0)
    run.move(payload, "Ongoing", 0, 0, payload)
    run.move("orders", payload, 0, 0)
    run.write("producer", 0, 0, 0, 0, 1)
    run.tell("producer", "unknown", error=payload, fatal=True, must_abort=False, tx=0)
    run.tell("database", "effect", record=payload, charged=True, by=payload)
    for at in range(len(run.trace)):
        assert_only_text(show(run.trace, at))


def looks(trace: Trace, number: int, row: int) -> list[str]:
    """The titles of the boxes of the panel's row that begins at this height."""
    drawn = str(scene_of(trace).panel_after(number))
    return re.findall(rf'translate\(\d+ {row}\)"[^>]*><g><title>([^<]*)', drawn)


def test_the_input_shows_both_halves_of_a_transaction() -> None:
    """While a transaction has moved the group's position the picture says where it is, and where a commit would put it."""
    trace = run("consume_transform_produce")
    moved = next(step.number for step in trace if step.what == "send_offsets")
    decided = next(step.number for step in trace if step.what == "marker")
    assert looks(trace, moved, INPUT_Y)[:4] == ["in an open transaction"] * 3 + ["not read yet"]
    assert looks(trace, decided, INPUT_Y)[:4] == ["committed"] * 3 + ["not read yet"]
    words = scene_of(trace).words[moved]
    assert words.endswith("the group's position in the input is 0 of 9; it becomes 3 if transaction 0 commits")


def test_a_second_copy_differs_from_the_first() -> None:
    """A record that two transactions have committed is committed in its first box and a second copy in the other."""
    trace = run("zombie", ids="new per start", offsets="outside")
    found = looks(trace, len(trace) - 1, BOX_Y)
    assert (found.count("committed"), found.count("committed again: a second copy")) == (6, 3)
