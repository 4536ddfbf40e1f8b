"""Which settings explain an anomaly, and what remains a violation."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.monitor.reasons import BEGINS_AGAIN, MAX_OFFSET, Begin, KeptReasons, OffsetReasons, RecordHistory
from kitlib.settings import Settings
from tests.monitor.stories import APPEND, APPEND_2, START, Told, each, idle, told, written

# The settings of a topology that loses nothing; a trace step takes 10 ms.
TRACKED = {"topology_ackers": 1, "message_ids": True, "anchored": True, "id_bits": 64, "topology_message_timeout_secs": 1}
OUT_OF_RANGE = ("error", {"error": "OFFSET_OUT_OF_RANGE"})


def child(parents: list[int]) -> Told:
    """Record 0 is emitted as tuple 1, and the bolt that executes it sends tuple 2, anchored to these."""
    send = ("send", {"tuple": 2, "parents": parents})
    return [*each("emit", [0], tuples=[[1, "bolt", 5]]), ("execute", {"tuple": 1}), send]


# A story, its knobs -> the anomaly, its count, its first witness, and the reason's words (none: a violation).
MARKS: dict[str, tuple[Told, dict[str, Any], tuple[str, int, int, str]]] = {
    "a record that was cleared is lost by the bound": (
        [APPEND, START, *each("emit", range(3)), ("clear", {"ranges": [[0, 0]]}), *each("process", [1, 2]), *written(3)],
        {"max_offset_behind": 1}, ("lost", 1, 5, "max_offset_behind=1: records further back are given up")),
    "a record that was given up is lost by the limit": (
        [APPEND, START, *each("emit", [0]), *each("fail", [0, 0, 0]), ("give_up", {"offset": 0}), *written(1)],
        {"retry_limit": 3}, ("lost", 1, 6, "retry_limit=3: a record is given up")),
    "one that was given up before its last retry is a violation": (
        [APPEND, START, *each("emit", [0]), *each("fail", [0, 0]), ("give_up", {"offset": 0}), *written(1)],
        {"retry_limit": 3}, ("lost", 1, 5, "")),
    "a record that retention took is lost by retention": (
        [APPEND, ("delete", {"to": 4}), START], {}, ("lost", 4, 1, "retention, which deleted")),
    "a record that the commit has passed for no reason is a violation": (
        [APPEND, START, *each("emit", [0]), *written(1)], {}, ("lost", 1, 3, "")),
    "a record that a forced start at the end passed over is lost by it": (
        [APPEND, ("start", {"offset": 10, "why": "no stored offset"})], {"force_from_start": False},
        ("lost", 10, 1, "no stored offset (force_from_start=False)")),
    "a record below a stored offset is a violation: nothing says that it was ever read": (
        [APPEND, ("start", {"offset": 10, "why": "stored offset"})], {}, ("skipped", 10, 1, "")),
    "a record with a part undone that the commit has passed is a violation": (
        [APPEND_2, START, *each("emit", [0]), *each("process", [0], part=1), *each("ack", [0]), *written(1)], TRACKED,
        ("lost", 1, 5, "")),
    "a record with a part undone whose failure was not retried is the bound's": (
        [APPEND_2, START, *each("emit", [0]), *each("process", [0], part=1), *each("ack", [0]),
         *each("fail", [0], retry=False), *written(1)], {"max_offset_behind": 3},
        ("lost", 1, 6, "max_offset_behind=3: a failure that far back is not retried")),
    "one that was handed out again after it is a violation": (
        [APPEND_2, START, *each("emit", [0]), *each("fail", [0], retry=False), *each("emit", [0]), *each("ack", [0]), *written(1)],
        {"max_offset_behind": 3}, ("lost", 1, 6, "")),
    "a record lost without ackers is lost by that": (
        [APPEND, START, *each("emit", [0]), *each("ack", [0]), *written(1)], TRACKED | {"topology_ackers": 0},
        ("lost", 1, 4, "topology_ackers=0: each tuple is acked as soon as it is emitted")),
    "without ackers one that was lost before a restart, too": (
        [APPEND, START, *each("emit", [0]), *each("ack", [0]), *written(1), ("start", {"offset": 1, "why": "stored offset"})],
        TRACKED | {"topology_ackers": 0}, ("lost", 1, 5, "topology_ackers=0")),
    "a record that was never handed out is a violation without ackers, too": (
        [APPEND, START, *written(1)], TRACKED | {"topology_ackers": 0}, ("lost", 1, 2, "")),
    "a record lost without a message id is lost by that": (
        [APPEND, START, *each("emit", [0]), *written(1)], TRACKED | {"message_ids": False},
        ("lost", 1, 3, "message_ids=false: a tuple without a message id is never tracked")),
    "a part lost by an unanchored child is lost by that": (
        [APPEND_2, START, *child([]), *each("process", [0]), *each("ack", [0], outstanding=0), *written(1)],
        TRACKED | {"anchored": False}, ("lost", 1, 7, "anchored=false: an unanchored child can be lost unnoticed")),
    "one whose children were anchored is a violation": (
        [APPEND_2, START, *child([1]), *each("process", [0]), *each("ack", [0], outstanding=0), *written(1)],
        TRACKED | {"anchored": False}, ("lost", 1, 7, "")),
    "a record whose tuple began a tree is a violation without ackers, too": (
        [APPEND, START, *each("emit", [0], root=7, tuples=[]), *each("ack", [0]), *written(1)], TRACKED | {"topology_ackers": 0},
        ("lost", 1, 4, "")),
    "and without message ids": (
        [APPEND, START, *each("emit", [0], root=7, tuples=[]), *written(1)], TRACKED | {"message_ids": False}, ("lost", 1, 3, "")),
    "a record that is handed out after the commit has passed it is a violation without ackers, too": (
        [APPEND, START, *written(1), *each("emit", [0])], TRACKED | {"topology_ackers": 0}, ("lost", 1, 3, "")),
    "an unanchored record that nobody acked is a violation": (
        [APPEND, START, *each("emit", [0]), *written(1)], TRACKED | {"anchored": False}, ("lost", 1, 3, "")),
    "a part lost by a ledger that was zero by chance is lost by short ids": (
        [APPEND_2, START, *each("emit", [0]), *each("ack", [0], outstanding=3), *written(1)], TRACKED | {"id_bits": 4},
        ("lost", 1, 4, "id_bits=4: an ack value was zero by chance")),
    "short ids whose ledger was right are no excuse": (
        [APPEND_2, START, *each("emit", [0]), *each("ack", [0], outstanding=0), *written(1)], TRACKED | {"id_bits": 4},
        ("lost", 1, 4, "")),
    "a ledger of 64 bits that was zero too early is a violation": (
        [APPEND_2, START, *each("emit", [0]), *each("ack", [0], outstanding=3), *written(1)], TRACKED | {"anchored": False},
        ("lost", 1, 4, "")),
    "a record jumped over by a reset is skipped by that setting": (
        [APPEND, START, ("reset", {"from": 0, "to": 6, "asked": 12})], {"force_from_start": True},
        ("skipped", 6, 2, "moves the spout to start_offset_time (force_from_start=True)")),
    "a record jumped over by a reset to the end is skipped by that setting": (
        [APPEND, START, ("reset", {"from": 0, "to": 10, "asked": 12})], {"force_from_start": False},
        ("skipped", 10, 2, "moves the spout to the log end")),
    "a record processed again after its own failure is explained": (
        [APPEND, START, *each("emit", [0]), *each("process", [0]), *each("fail", [0]), *each("emit", [0]), *each("process", [0])], {},
        ("duplicated", 1, 6, "at-least-once delivery: a record may be delivered again")),
    "one in flight at a restart is explained": (
        [APPEND, START, *each("emit", [0]), *each("process", [0]), START, *each("emit", [0]), *each("process", [0])], {},
        ("duplicated", 1, 6, "at-least-once delivery")),
    "one that is processed again although another record failed is a violation": (
        [APPEND, START, *each("emit", [0, 1]), *each("process", [0, 1]), *each("ack", [1]), *each("fail", [0]),
         *each("emit", [0, 1]), *each("process", [1])], {}, ("duplicated", 1, 10, "")),
    "one that is processed again and never failed is a violation": (
        [APPEND, START, *each("emit", [0]), *each("process", [0, 0])], {}, ("duplicated", 1, 4, "")),
    "parts of one record are no duplicates, the same part is": (
        [APPEND, START, *each("process", [0], part=0), *each("process", [0], part=1), *each("fail", [0]),
         *each("process", [0], part=1)], {}, ("duplicated", 1, 5, "at-least-once delivery")),
    "an order changed by several tuples at once is explained": (
        [APPEND, START, *each("emit", [0, 1]), *each("process", [1, 0])], {"max_spout_pending": 10},
        ("reordered", 1, 5, "max_spout_pending=10: tuples may finish in any order")),
    "one of which the older had not left when the newer was done is a violation, however many may be out": (
        [APPEND, START, *each("emit", [1]), *each("process", [1]), *each("emit", [0]), *each("process", [0])], {"max_spout_pending": 10},
        ("reordered", 1, 5, "")),
    "an order changed by a retry is explained": (
        [APPEND, START, *each("emit", [0]), *each("fail", [0]), *each("emit", [1, 0]), *each("process", [1, 0])], {"max_spout_pending": 1},
        ("reordered", 1, 7, "delivered again, after newer ones")),
    "an order changed by a second emit that nothing called for is a violation": (
        [APPEND, START, *each("emit", [0, 1, 0]), *each("process", [1, 0])], {"max_spout_pending": 1}, ("reordered", 1, 6, "")),
    "an order changed with one tuple at a time is a violation": (
        [APPEND, START, *each("emit", [0, 1]), *each("process", [1, 0])], {"max_spout_pending": 1},
        ("reordered", 1, 5, "")),
    "an order changed without ackers is explained, as nothing holds newer tuples back": (
        [APPEND, START, *each("emit", [0, 1]), *each("process", [1, 0])], {"max_spout_pending": 1, "topology_ackers": 0},
        ("reordered", 1, 5, "topology_ackers=0: each tuple is acked as soon as it is emitted")),
    "an order changed without a bound on pending tuples is explained": (
        [APPEND, START, *each("emit", [0, 1]), *each("process", [1, 0])], {"max_spout_pending": None},
        ("reordered", 1, 5, "max_spout_pending=unlimited")),
    "a commit that goes back after a late failure is explained": (
        [APPEND, START, *each("emit", [3]), *written(5), *each("fail", [3]), *written(3)], {}, ("rewound", 1, 5, "failed after its ack")),
    "a commit that goes back to a record that never failed is a violation, whatever else failed": (
        [APPEND, START, *each("emit", [3, 4]), *written(5), *each("fail", [4]), *written(3)], {}, ("rewound", 1, 6, "")),
    "or to one that had failed and was acked before the commit passed it": (
        [APPEND, START, *each("emit", [3]), *each("fail", [3]), *each("emit", [3]), *each("ack", [3]), *written(5), *written(3)], {},
        ("rewound", 1, 7, "")),
    "a start from the stored offset that lies back is a violation": (
        [APPEND, START, *written(5), ("start", {"offset": 3, "why": "stored offset"})], {}, ("rewound", 1, 3, "")),
    "a start forced back is explained": (
        [APPEND, START, *written(5), ("start", {"offset": 0, "why": "another topology id"})], {"force_from_start": True},
        ("rewound", 1, 3, "another topology id (force_from_start=True)")),
    "a reset that goes back is explained": (
        [APPEND, START, ("reset", {"from": 11, "to": 2})], {}, ("rewound", 1, 2, "out of range")),
    "one from an offset that is in the log is a violation": (
        [APPEND, START, ("reset", {"from": 8, "to": 2})], {}, ("rewound", 1, 2, "")),
    "or one of a spout that is told to stop there": (
        [APPEND, START, ("reset", {"from": 11, "to": 2})], {"use_start_offset_time_if_offset_out_of_range": False}, ("rewound", 1, 2, "")),
    "five commits that do not move for no reason are a violation": (
        [APPEND, START, *idle(5)], {}, ("stalled", 1, 2, "")),
    "a stall behind a failure that is not retried is the bound's": (
        [APPEND, START, *each("emit", [0]), *each("fail", [0], retry=False), *idle(5)], {"max_offset_behind": 5},
        ("stalled", 1, 4, "max_offset_behind=5: a failure that far back is not retried")),
    "a stall behind a record that is retried again and again is explained": (
        [APPEND, START, *each("emit", [0]), *each("fail", [0], retry=True), *idle(3), *each("emit", [0]), *idle(3)],
        {"max_offset_behind": MAX_OFFSET}, ("stalled", 1, 4, "retried without limit")),
    "a stall behind a failure whose retry never comes is a violation": (
        [APPEND, START, *each("emit", [0]), *each("fail", [0], retry=True), *idle(6)], {}, ("stalled", 1, 4, "")),
    "a stall behind a retry that comes after what was fetched already is explained": (
        [APPEND, START, *each("emit", [0]), *each("fail", [0], retry=True), *idle(3), *each("emit", [1]), *idle(3)], {},
        ("stalled", 1, 4, "retried without limit")),
    "a stall behind a retry for which there is no room is explained": (
        [APPEND, START, *each("emit", [0, 1]), *each("fail", [0], retry=True), *idle(6)], {"max_spout_pending": 1},
        ("stalled", 1, 5, "retried without limit")),
    "with room for it, it is a violation": (
        [APPEND, START, *each("emit", [0, 1]), *each("fail", [0], retry=True), *idle(6)], {"max_spout_pending": 2},
        ("stalled", 1, 5, "")),
    "a stall behind a retry that waits its turn is explained": (
        [APPEND, START, *each("emit", [0]), *each("fail", [0], retry=True), *idle(6)], {"retry_initial_delay_ms": 5},
        ("stalled", 1, 4, "waits for its next retry")),
    "a stall behind a tuple that is neither acked nor failed is explained": (
        [APPEND, START, *each("emit", [0]), *idle(5)], {}, ("stalled", 1, 3, "neither acked nor failed")),
    "a stall behind a slow tuple that is finished later is explained": (
        [APPEND, START, *each("emit", [0]), *idle(150), *each("ack", [0]), *written(1)], TRACKED,
        ("stalled", 1, 3, "topology_message_timeout_secs=1: the spout waits up to twice that long")),
    "a stall behind a processed record whose acks were lost is explained": (
        [APPEND, START, *each("emit", [0]), *each("process", [0]), *idle(5)], TRACKED,
        ("stalled", 1, 4, "waits up to twice that long for a tree")),
    "without trees a processed record is not waited for": (
        [APPEND, START, *each("emit", [0]), *each("process", [0]), *idle(5)], {}, ("stalled", 1, 4, "")),
    "a stall longer than twice the timeout is a violation": (
        [APPEND, START, *each("emit", [0]), *idle(201)], TRACKED, ("stalled", 1, 3, "")),
    "with timeouts switched off it is explained": (
        [APPEND, START, *each("emit", [0]), *idle(201)], TRACKED | {"topology_enable_message_timeouts": False},
        ("stalled", 1, 3, "topology_enable_message_timeouts=false: the spout waits for a tree forever")),
    "with timeouts switched off a record that is not out is not waited for": (
        [APPEND, START, *each("emit", [0]), *each("ack", [0]), *idle(5)],
        TRACKED | {"topology_enable_message_timeouts": False}, ("stalled", 1, 4, "")),
    "a record that nobody waits for after a restart is not waited for": (
        [APPEND, START, *each("emit", [0]), START, *idle(5)], TRACKED, ("stalled", 1, 4, "")),
    "a stall behind a tree that times out again and again is explained": (
        [APPEND, START, *each("emit", [0]), *each("fail", [0], retry=True, why="timeout"), *each("emit", [0]), *idle(5)],
        TRACKED, ("stalled", 1, 5, "topology_message_timeout_secs=1: a tree that is not complete by then is replayed")),
    "a stall behind a failure that was over is a violation": (
        [APPEND, START, *each("emit", [0]), *each("fail", [0]), *each("emit", [0]), *each("ack", [0]), *idle(5)], {},
        ("stalled", 1, 6, "")),
    "so is one that a failure has followed": (
        [APPEND, START, *idle(5), *each("emit", [0]), *each("fail", [0]), *written(1)], {}, ("stalled", 1, 2, "")),
    "or one that nothing held before a failure did": (
        [APPEND, START, *idle(5), *each("emit", [0]), *each("fail", [0]), *idle(2)], {}, ("stalled", 1, 2, "")),
    "or one after an error that is over": (
        [APPEND, ("start", {"offset": 0, "why": "x"}), OUT_OF_RANGE, *each("emit", [0]), *each("ack", [0]), *idle(5)], {},
        ("stalled", 1, 5, "")),
    "a stall at an offset that retention took is a violation": (
        [APPEND, START, *each("fail", [0], retry=True), ("delete", {"to": 5}), *idle(5)], {}, ("stalled", 1, 4, "")),
    "a stall at such an offset of a spout that is told to go on is a violation": (
        [APPEND, ("start", {"offset": 0, "why": "x"}), OUT_OF_RANGE, *idle(5)], {"use_start_offset_time_if_offset_out_of_range": True},
        ("stalled", 1, 3, "")),
    "a stall of a spout that is told to stop there is explained": (
        [APPEND, ("start", {"offset": 0, "why": "x"}), OUT_OF_RANGE, *idle(5)], {},
        ("stalled", 1, 3, "use_start_offset_time_if_offset_out_of_range=False: the spout stops")),
}  # fmt: skip


@pytest.mark.parametrize("case", MARKS)
def test_anomaly_is_explained_or_a_violation(case: str) -> None:
    """An anomaly that a setting explains names that setting; one that none explains is a violation."""
    story, knobs, (kind, count, witness, words) = MARKS[case]
    verdict = told(story, **knobs)
    found = verdict.first(kind)
    assert (found.count, found.witness) == (count, witness)
    assert words in found.reason and bool(found.reason) is bool(words)
    assert found.is_violation is (kind in verdict.violations) is (not words)
    assert found.unexplained == (0 if words else count)


def test_mark_some_explained_and_some_not_is_a_violation_that_counts_them() -> None:
    """One record without an explanation makes the anomaly a violation, however many are explained."""
    verdict = told([APPEND, START, ("clear", {"ranges": [[0, 2]]}), *written(4)], max_offset_behind=1)
    found = verdict.first("lost")
    assert (found.count, found.unexplained, found.is_violation) == (4, 1, True)
    assert str(found) == "4 lost, first at offset 0 (violation: no setting explains 1)"


def purged(*before: tuple[str, dict[str, Any]], values: list[str | None]) -> Told:
    """A record of this value is read by nobody before the cleaner removes it."""
    buried = ("append", {"first": 10, "last": 10, "values": values})
    return [buried, *each("process", range(8)), *before, *each("process", [8, 9]), ("purge", {"offsets": [10]}), *written(11)]


def elect(unclean: bool) -> tuple[str, dict[str, Any]]:
    return "elect", {"leader": 3, "epoch": 2, "unclean": unclean}


PASS = ("pass", {"to": 11})
CUT, CORRUPT = (("cut", {"from": 10, "to": 6, "why": why}) for why in ("an unclean election", "a flipped bit"))
LATEST, OUT, NO_OFFSET = (("start", {"offset": 10, "why": why}) for why in ("latest", "latest, out of range", "no stored offset"))
READ_2 = [*each("emit", [0, 1]), *each("process", [0, 1]), *written(2)]
AGAIN = [*each("acquire", [0, 1]), *each("process", [1]), *each("acquire", [0]), ("process", {"offset": 0, "who": "y"})]
# What it was, and what it could not have been: no setting has had a part in that, although the catalogue has one for each.
BOTH: dict[str, tuple[Told, Told]] = {
    "share duplicated": (
        timed_out := [*each("acquire", [0]), *each("process", [0]), ("time_out", {"offset": 0}), *each("process", [0])],
        [*timed_out, *each("process", [0])]),
    "share lost": (
        [*each("acquire", [0]), *each("accept", [0], failed=True), ("move", {"offset": 1})],
        [*each("acquire", [0]), *each("accept", [0]), ("move", {"offset": 1})]),
    "share reordered, by one consumer": (
        [*each("acquire", [0, 1]), *each("process", [1]), ("process", {"offset": 0, "who": "y"})],
        [*each("acquire", [0, 1]), *each("process", [1, 0])]),
    "share reordered, handed to the other only afterwards": (
        [*each("acquire", [0, 1]), *each("process", [1]), ("process", {"offset": 0, "who": "y"})],
        [*each("acquire", [1]), *each("process", [1]), *each("acquire", [0]), ("process", {"offset": 0, "who": "y"})]),
    "share reordered, handed out again before its lock ran out": ([*AGAIN[:3], ("time_out", {"offset": 0}), *AGAIN[3:]], AGAIN),
    "checkpoint duplicated": (
        [(batch := ("offsets", {"first": 0, "last": 1})), *each("process", [0]), START, batch, *each("process", [0])],
        [batch, *each("process", [0, 0])]),
    "replication lost, the last election was clean": ([elect(True), CUT], [elect(True), elect(False), CUT]),
    "replication lost, an election cuts once": ([elect(True), CUT], [elect(True), ("cut", CUT[1] | {"to": 8}), CUT]),
    "replication lost, no bit had flipped": ([("flip", {"offset": 7}), CORRUPT], [CORRUPT]),
    "compaction lost, too early": (purged(PASS, values=[None]), [*purged(values=[None])[:-2], PASS, *purged(values=[None])[-2:]]),
    "compaction lost, no tombstone": (purged(PASS, values=[None]), purged(PASS, values=["order 1"])),
    "groups lost skipped, an offset was committed": ([LATEST], [*READ_2, LATEST]),
    "groups lost skipped, the offset was in the log": ([*READ_2, ("delete", {"to": 5}), OUT], [*READ_2, OUT]),
    "spout lost skipped, an offset was stored": ([NO_OFFSET], [*READ_2, NO_OFFSET]),
}  # fmt: skip


@pytest.mark.parametrize("case", BOTH)
def test_reason_is_taken_from_what_happened_to_the_record(case: str) -> None:
    """The settings are the same in both stories of a pair; only in the first have they anything to do with it."""
    domain, *kinds = case.partition(",")[0].split()
    for story, violations in zip(BOTH[case], ((), tuple(kinds)), strict=True):
        verdict = told(
            [APPEND, START, *story], domain, consumers=2, acknowledge="implicit", lock_ms=9, sink="append", delete_retention_ms=15,
            unclean_leader_election=True, replicas=1,
        )  # fmt: skip
        assert verdict.violations == violations and all(verdict.counts[kind] for kind in kinds), verdict


EARLY, EXPIRED = OffsetReasons(Settings(coordinator_rules="0.8.2")), KeptReasons(Settings(offsets_retention_ms=1))


@pytest.mark.parametrize("reasons", [EARLY, EXPIRED], ids=["0.8.2", "expired"])
def test_coordinator_is_innocent_where_the_reader_only_started_again(reasons: OffsetReasons | KeptReasons) -> None:
    """The knob is there in both; only the reader that was told to go back has it as its reason."""
    began, told_back = RecordHistory(2, False, False), RecordHistory(2, False, False, went_back="an answer")
    assert reasons.again(began, 2, 2) == BEGINS_AGAIN != reasons.again(told_back, 2, 2) and reasons.again(told_back, 3, 2) == ""


@pytest.mark.parametrize(("reasons", "innocent"), [
    (EARLY, Begin(is_committed=False)), (EARLY, Begin(is_moved=False)), (EXPIRED, Begin(idle_ms=0)),
    (KeptReasons(Settings(rules="0.8.2")), Begin(is_moved=False)),
])  # fmt: skip
def test_coordinator_is_innocent_of_what_it_could_not_have_caused(reasons: OffsetReasons | KeptReasons, innocent: Begin) -> None:
    """Nothing expires before its time, and a coordinator that was there when the offset was committed has not loaded it."""
    told = {type(reasons).start(reasons, "earliest", begin) for begin in (innocent, Begin())}
    assert told & {"", "auto.offset.reset=earliest: no offset is committed"} and len(told) == 2
