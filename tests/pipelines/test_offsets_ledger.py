"""A ledger of committed offsets: batch after batch the same as the plain rules over the whole history."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.errors import KnobError, LabError
from kitlib.mechanisms.lag import Commit, Status
from kitlib.monitor.commit_history import GroupPartition
from kitlib.monitor.lag_window import LagStorage
from kitlib.monitor.rewinds import Excuse, Rewind, rewinds, vanished
from kitlib.more.offsets.messages import RECORD_TYPES
from kitlib.more.offsets.records import OffsetsRecord, decode, encode, read_records
from kitlib.pipelines.offsets import NOT_JUDGED, LagRules, OffsetsLedger, OffsetsReport, report_of
from tests.more.offsets.commit_bytes import TOPIC_ID, commit, history_of

Record = tuple[int, bytes | None, bytes | None]  # ms in the log, key, value
Step = tuple[dict[tuple[str, int], int], list[Record]]  # log ends by then, records

NOW_MS = 10_000_500
HERE = GroupPartition("g", "t", 0)


def fold(ledger: OffsetsLedger, first: int, records: list[Record], ends: dict[tuple[str, int], int], now_ms: int = NOW_MS) -> None:
    """One batch of records, the first one at offset `first`."""
    ledger.fold([(first + place, *each) for place, each in enumerate(records)], {where: (end,) for where, end in ends.items()}, now_ms)


def report(ledger: OffsetsLedger, end: int | None = None, topics: dict[str, str] | None = None) -> OffsetsReport:
    """What the ledger alone tells."""
    return report_of([ledger], {} if end is None else {("t", 0): (end,)}, NOW_MS, topics or {})


def folded(*records: Record, ends: dict[tuple[str, int], int] | None = None, group: str | None = None, **rules: Any) -> OffsetsLedger:
    """A ledger after one batch."""
    ledger = OffsetsLedger(LagRules(**rules), group)
    fold(ledger, 0, list(records), {("t", 0): 100} if ends is None else ends)
    return ledger


def generation(group: str, *members: str) -> tuple[bytes, bytes | None]:
    """A classic group's record; without members its end."""
    told = {"protocolType": "consumer", "generation": 1, "protocol": "range", "leader": "a", "members": [
        {"memberId": name, "clientId": "c", "clientHost": "/h", "rebalanceTimeout": 1, "sessionTimeout": 1,
         "subscription": b"", "assignment": b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"}
        for name in members
    ]}  # fmt: skip
    return encode(OffsetsRecord(RECORD_TYPES[2], {"group": group}, 3 if members else None, told if members else None))


GROUPS = st.sampled_from(["g", "h"])
PARTITIONS = st.integers(0, 1)
TIMES = st.integers(0, 8).map(lambda each: 10_000_000 + each * 250)


@st.composite
def record(draw: st.DrawFn) -> Record:
    """Mostly commits; tombstones, groups' own records and broken ones among them."""
    kind = draw(st.sampled_from(["commit"] * 6 + ["tombstone", "group", "end", "legacy", "broken", "no key", "odd"]))
    group, partition, at_ms = draw(GROUPS), draw(PARTITIONS), draw(TIMES)
    given = {"offset": draw(st.integers(0, 9)), "commitTimestamp": draw(TIMES)}
    match kind:
        case "tombstone":
            key, value = commit(group, "t", partition, None)
        case "group":
            key, value = generation(group, *draw(st.sampled_from([("a",), ("a", "b")])))
        case "end":
            key, value = generation(group)
        case "legacy":
            key, value = commit(group, "t", partition, 0, 0, **given)
        case "broken":
            key, whole = commit(group, "t", partition, **given)
            value = (whole or b"")[: draw(st.integers(0, 20))]
        case "no key":
            return at_ms, None, b""
        case "odd":
            key, value = commit(group, "t", partition, **given, metadata="m" * 16_400)
        case _:
            told = {"topicId": draw(st.sampled_from([TOPIC_ID, "A" * 22]))}
            key, value = commit(group, "t", partition, draw(st.integers(1, 4)), **given, **told)
    return at_ms, key, value


STEPS = st.lists(
    st.tuples(st.dictionaries(st.tuples(st.just("t"), PARTITIONS), st.integers(0, 12)), st.lists(record(), max_size=8)), max_size=5
)
RULES = st.builds(
    LagRules,
    intervals=st.integers(1, 4),
    min_distance_s=st.integers(0, 1),
    expire_group_s=st.sampled_from([0, 1, 1_000]),
    allowed_lag=st.integers(0, 2),
    minimum_complete=st.sampled_from([0.0, 0.5]),
    made_good_within=st.integers(0, 2),
    retention_ms=st.sampled_from([500, 10**9]),
)


def plainly(steps: list[Step], rules: LagRules) -> tuple[LagStorage, list[tuple[int, int, OffsetsRecord]], Counter[str]]:
    """The windows, the records that can be read, and the counts of both kinds, by the plain rules."""
    storage = LagStorage(rules.intervals, rules.min_distance_s, rules.expire_group_s)
    read, counts, first = [], Counter[str](), 0
    for ends, records in steps:
        for where, end in ends.items():
            storage.add_log_end(*where, end)
        numbered = [(first + place, key, value) for place, (_, key, value) in enumerate(records)]
        for order, found in read_records(numbered):
            read.append((order, records[order - first][0], found))
            if found.is_commit and found.value is not None:
                made = Commit(found.value["offset"], found.value["commitTimestamp"], order=order)
                storage.add_commit(found.key["group"], found.key["topic"], found.key["partition"], made, NOW_MS)
        first += len(records)
    counts["broken"] = first - len(read)
    counts["decoded"] = len(read)
    return storage, read, counts


@given(steps=STEPS, rules=RULES, saves=st.booleans())
@settings(max_examples=150, deadline=None)
def test_ledger_is_the_plain_rules_over_the_whole_history(
    steps: list[Step], rules: LagRules, saves: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Windows, judgements, signs and what was skipped, with the ledger written to a file between batches or not."""
    path = tmp_path_factory.getbasetemp() / "ledger"
    ledger, first = OffsetsLedger(rules), 0
    known: dict[tuple[str, int], int] = {}
    rings: dict[tuple[str, int], list[int]] = {}
    for ends, records in steps:
        known |= ends
        for where, end in ends.items():
            rings[where] = [*rings.get(where, ()), end][-rules.intervals :]
        fold(ledger, first, records, known)
        first += len(records)
        if saves:
            ledger.save(path)
            ledger = OffsetsLedger.load(path, rules)
    storage, read, counts = plainly(steps, rules)
    assert (ledger.reading.decoded, ledger.reading.broken) == (counts["decoded"], counts["broken"])
    history = history_of(read)
    rows = {row.where: row for row in report_of([ledger], rings, NOW_MS, {}).partitions}
    assert set(rows) == set(history.commits)
    for where, commits in history.commits.items():
        row, signs = rows[where], ledger.signs(ledger.places[where])
        back = rewinds(commits, rules.made_good_within)
        gone = vanished(commits, history.groups.get(where.group, ()), rules.retention_ms)
        plain = sorted([*back, *gone], key=lambda each: (each.after if isinstance(each, Rewind) else each.tombstone).order)
        again = [[getattr(each, "made_good_at", getattr(each, "begun_again", None)) for each in found] for found in (signs, plain)]
        assert list(map(str, signs)) == list(map(str, plain))
        assert [each and each.order for each in again[0]] == [each and each.order for each in again[1]]
        assert (row.rewinds, row.committed) == (sum(each.is_fault for each in back), commits[-1].offset)
        assert row.commits == sum(each.offset is not None for each in commits)
    for group in ("g", "h"):
        status = storage.status(group, NOW_MS, rules.allowed_lag, rules.minimum_complete)
        judged = {
            (where.topic, where.partition): row
            for where, row in rows.items()
            if where.group == group and row.status not in (Status.NOTFOUND.name, NOT_JUDGED)
        }
        assert set(judged) == set(status.partitions)
        for at, found in status.partitions.items():
            told = found.judgement
            row = judged[at]
            assert (row.status, row.why) == (told.status.name, told.why)
            assert (row.complete, row.lag) == (found.complete, found.current_lag)


def test_fault_is_told_with_when_by_how_much_and_who() -> None:
    """The member to which the partition was assigned is named."""
    ledger = folded(
        (1, *generation("g", "m1")),
        *((2, *commit("g", "t", 0, offset=offset, commitTimestamp=at_ms)) for at_ms, offset in ((1, 90), (2, 95), (3, 7), (4, 8))),
        ends={("t", 0): 95},
        expire_group_s=10**6,
    )
    found = report(ledger, 95)
    (row,) = found.partitions
    assert row.signs == ("at 3 the offset went back by 88, from 95 to 7, by m1 at /h: nothing excuses it",)
    assert (row.status, row.is_trouble) == ("STOP", True)
    assert found.sentence.startswith("1 of 1 partitions of 1 groups are in trouble, by 4 commits. Offsets that went back: 1,")
    assert found.faults == 1
    assert "by m1 at /h" in repr(found) and "went back by 88" in found._repr_html_()


def test_deleted_group_excuses_what_vanished() -> None:
    """The broker takes its offsets away, then the group, in one batch."""
    commits = [commit("g", "t", 0, offset=9), commit("g", "t", 0, None), generation("g")]
    ledger = folded(*((5, *each) for each in commits))
    assert [each.excuse for each in ledger.signs(ledger.places[HERE])] == [Excuse.GROUP_GONE]
    found = report(ledger)
    assert found.faults == 0 and found.rows()[0][found.COLUMNS.index("excused")] == "1"
    alone = folded(*((5, *each) for each in commits[:2]))
    assert [each.excuse for each in alone.signs(alone.places[HERE])] == [Excuse.NONE]


def test_topic_made_anew_excuses_the_step_back_of_a_later_batch() -> None:
    """Its id differs from that of the commit before, which another batch has brought."""
    ledger = folded((1, *commit("g", "t", 0, offset=9, topicId=TOPIC_ID)))
    fold(ledger, 1, [(2, *commit("g", "t", 0, offset=1, topicId="AAAAAAAAAAAAAAAAAAAAAg"))], {})
    assert [each.excuse for each in ledger.signs(ledger.places[HERE])] == [Excuse.NEW_TOPIC]


def test_group_is_as_old_as_its_last_commit_of_any_partition() -> None:
    """By the order of the log, not of the partitions' numbers, nor of the times."""
    fresh, stale = ((1, *commit("g", "t", partition, commitTimestamp=at_ms)) for partition, at_ms in ((0, NOW_MS), (1, 0)))
    for records, at_ms in (((stale, fresh), NOW_MS), ((fresh, stale), 0)):
        ledger = folded(*records, ends={("t", 0): 9, ("t", 1): 9}, expire_group_s=NOW_MS)
        assert ledger.storage.groups["g"].last_commit_ms == at_ms


def test_value_of_a_later_version_under_a_legacy_key_is_broken() -> None:
    """A key of type 0 has values of version 0 only."""
    key, _ = commit("g", "t", 0, 0, 0)
    assert folded((1, key, commit("g", "t", 0, 1)[1])).reading.broken == 1


def test_records_that_come_again_are_passed_over() -> None:
    """A batch that Spark hands over twice moves nothing."""
    ledger = folded((1, *commit("g", "t", 0, offset=5)), (1, *commit("g", "t", 0, offset=6)))
    fold(ledger, 0, [(1, *commit("g", "t", 0, offset=5)), (1, *commit("g", "t", 0, offset=6))], {})
    assert ledger.reading.decoded == 2 and ledger.places[HERE].steps == []
    fold(ledger, 1, [(1, *commit("g", "t", 0, offset=6)), (1, *commit("g", "t", 0, offset=7))], {})
    assert ledger.reading.decoded == 3 and ledger.places[HERE].commits == 3


def test_group_narrows_what_is_looked_at() -> None:
    """Nothing is known of other groups, nor of their members."""
    records = [(at_ms, *commit(group, "t", 0, offset=at_ms)) for at_ms in range(4) for group in ("g", "h")]
    ledger = folded(*records, (2, *generation("h", "m")), group="g")
    assert (list(ledger.places), ledger.reading.decoded, list(ledger.history.now)) == ([HERE], 4, ["g"])


def test_what_no_ledger_can_read_is_skipped_and_told() -> None:
    """Each kind of broken record with its offset and its reason; the clock that went back is counted."""
    key, value = commit("g", "t", 0, offset=3)
    assert value is not None
    ledger = folded((9, key, value), (3, key, b""), (4, None, None), (9, b"\x7f\xff", b""), (9, key, value[:-3]))
    assert (ledger.reading.decoded, ledger.reading.broken, ledger.clock_went_back) == (1, 4, 2)
    assert [each.offset for each in ledger.reading.told] == [1, 2, 3, 4]
    assert str(ledger.reading.told[2]) == "offset 3: Found an unknown record type 32767"


def test_history_of_any_length_leaves_the_same_ledger(tmp_path: Path) -> None:
    """A file after a thousand commits is as large as after ten thousand."""
    sizes = []
    for commits in (1_000, 10_000):
        ledger = OffsetsLedger()
        key, _ = commit("g", "t", 0)
        rows = [(NOW_MS, key, commit("g", "t", 0, offset=10**9, commitTimestamp=NOW_MS)[1])] * 1_000
        for first in range(0, commits, 1_000):
            fold(ledger, 10**9 + first, rows, {("t", 0): 10**9})
        ledger.save(tmp_path / str(commits))
        sizes.append((tmp_path / str(commits)).stat().st_size)
        assert len(ledger.places) == 1
    assert abs(sizes[0] - sizes[1]) < 20  # the digits of larger numbers


@pytest.mark.parametrize("harm", ["cut", "foreign", "other rules"])
def test_damaged_ledger_is_told_and_left_alone(harm: str, tmp_path: Path) -> None:
    """One sentence with the file's name, and nothing is changed."""
    path = tmp_path / "0"
    folded((1, *commit("g", "t", 0))).save(path)
    rules = LagRules(intervals=3) if harm == "other rules" else LagRules()
    if harm != "other rules":
        path.write_bytes(path.read_bytes()[:-40] if harm == "cut" else b"not ours")
    before = path.read_bytes()
    with pytest.raises(LabError, match=f"{path} is damaged.*nothing was changed"):
        OffsetsLedger.load(path, rules)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("name", "value"), [("intervals", 0), ("allowed_lag", -1), ("minimum_complete", 1.5)])
def test_rule_out_of_its_range_is_refused(name: str, value: float) -> None:
    """With what it is, and what it may be."""
    with pytest.raises(KnobError, match=f"{name} is {value}"):
        LagRules(**{name: value})


def test_decode_of_the_tests_own_group_record_names_its_members() -> None:
    """The bytes that these tests write are those of a real group's record."""
    members = decode(*generation("g", "m1")).members()
    assert members is not None and members[0]["assignment"]["partitions"] == [["t", 0]]
