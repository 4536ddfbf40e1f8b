"""A ledger of committed offsets: batch after batch the same as the plain rules over the whole history."""

from __future__ import annotations

import pickle
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.mechanisms.lag import Commit
from kitlib.monitor.commit_history import GroupPartition
from kitlib.monitor.lag_window import LagStorage
from kitlib.monitor.rewinds import Rewind, rewinds, vanished
from kitlib.more.offsets.messages import RECORD_TYPES
from kitlib.more.offsets.records import OffsetsRecord, encode, read_records
from kitlib.pipelines.offsets import OffsetsLedger, OffsetsReport, report_of
from tests.more.offsets.commit_bytes import TOPIC_ID, commit, history_of

Record = tuple[int, bytes | None, bytes | None]  # ms in the log, key, value
Step = tuple[dict[tuple[str, int], int], list[Record]]  # log ends by then, records

NOW_MS = 10_000_500
HERE = GroupPartition("g", "t", 0)


def fold(ledger: OffsetsLedger, first: int, records: list[Record], ends: dict[tuple[str, int], int], now_ms: int = NOW_MS) -> None:
    """One batch of records, the first one at offset `first`."""
    ledger.fold([(first + place, *each) for place, each in enumerate(records)], {where: (end,) for where, end in ends.items()}, now_ms)


def report(ledger: OffsetsLedger, end: int = 100) -> OffsetsReport:
    """What the ledger alone tells."""
    return report_of([ledger], {("t", 0): (end,)}, NOW_MS, {})


def folded(*records: Record, ends: dict[tuple[str, int], int] | None = None, group: str | None = None) -> OffsetsLedger:
    """A ledger after one batch."""
    ledger = OffsetsLedger(group=group)
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


def plainly(steps: list[Step]) -> tuple[LagStorage, list[tuple[int, int, OffsetsRecord]], Counter[str]]:
    """The windows, the records that can be read, and the counts of both kinds, by the plain rules."""
    storage = LagStorage()
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


@given(STEPS, st.sampled_from([500, 10**9]))
@settings(max_examples=150, deadline=None)
def test_ledger_is_the_plain_rules_over_the_whole_history(steps: list[Step], retention_ms: int) -> None:
    """Windows, judgements, signs and what was skipped, in as many batches as a task is given."""
    ledger, first = OffsetsLedger(retention_ms), 0
    known: dict[tuple[str, int], int] = {}
    rings: dict[tuple[str, int], list[int]] = {}
    for ends, records in steps:
        known |= ends
        for where, end in ends.items():
            rings[where] = [*rings.get(where, ()), end]
        fold(ledger, first, records, known)
        first += len(records)
    storage, read, counts = plainly(steps)
    assert (ledger.reading.decoded, ledger.reading.broken) == (counts["decoded"], counts["broken"])
    history = history_of(read)
    rows = {row.where: row for row in report_of([ledger], rings, NOW_MS, {}).partitions}
    assert set(rows) == set(history.commits)
    for where, commits in history.commits.items():
        row, signs = rows[where], ledger.signs(ledger.places[where])
        back = rewinds(commits)
        gone = vanished(commits, history.groups.get(where.group, ()), retention_ms)
        plain = sorted([*back, *gone], key=lambda each: (each.after if isinstance(each, Rewind) else each.tombstone).order)
        again = [[getattr(each, "made_good_at", getattr(each, "begun_again", None)) for each in found] for found in (signs, plain)]
        assert list(map(str, signs)) == list(map(str, plain))
        assert [each and each.order for each in again[0]] == [each and each.order for each in again[1]]
        faults = [sum(each.is_fault for each in found) for found in (back, gone)]
        assert (row.rewinds, row.vanished, row.excused) == (*faults, len(plain) - sum(faults))
        assert row.committed == commits[-1].offset
        assert row.commits == sum(each.offset is not None for each in commits)
    for group in ("g", "h"):
        judged = {where[1:]: row.judged for where, row in rows.items() if where.group == group and row.judged}
        assert judged == storage.status(group, NOW_MS).partitions


def test_fault_is_told_with_when_by_how_much_and_who() -> None:
    """The member to which the partition was assigned is named."""
    ledger = folded(
        (1, *generation("g", "m1")),
        *((2, *commit("g", "t", 0, offset=offset, commitTimestamp=at_ms)) for at_ms, offset in ((1, 90), (2, 95), (3, 7), (4, 8))),
        ends={("t", 0): 95},
    )
    found = report(ledger, 95)
    (row,) = found.partitions
    assert row.signs == ("at 3 the offset went back by 88, from 95 to 7, by m1 at /h: nothing excuses it",)
    assert (row.status, row.is_trouble) == ("STOP", True)
    assert found.sentence.startswith("1 of 1 partitions of 1 groups are in trouble, by 4 commits. Offsets that went back: 1,")
    assert found.faults == 1
    assert "by m1 at /h" in repr(found) and "went back by 88" in found._repr_html_()


def test_group_narrows_what_is_looked_at() -> None:
    """Nothing is known of other groups, nor of their members, nor of what is broken in their records."""
    records = [(at_ms, *commit(group, "t", 0, offset=at_ms)) for at_ms in range(4) for group in ("g", "h")]
    ledger = folded(*records, (2, *generation("h", "m")), (2, commit("h", "t", 0)[0], b""), (2, None, b""), group="g")
    assert (list(ledger.places), ledger.reading.decoded, ledger.reading.broken, list(ledger.history.now)) == ([HERE], 4, 0, ["g"])


def test_what_no_ledger_can_read_is_skipped_and_told() -> None:
    """Each kind of broken record with its offset and its reason; the clock that went back is counted."""
    key, value = commit("g", "t", 0, offset=3)
    assert value is not None
    ledger = folded((9, key, value), (3, key, b""), (4, None, None), (9, b"\x7f\xff", b""), (9, key, value[:-3]))
    assert (ledger.reading.decoded, ledger.reading.broken, ledger.clock_went_back) == (1, 4, 2)
    assert [each.offset for each in ledger.reading.told] == [1, 2, 3, 4]
    assert str(ledger.reading.told[2]) == "offset 3: Found an unknown record type 32767"


def test_history_of_any_length_leaves_the_same_ledger() -> None:
    """What a task sends back after a thousand commits is as large as after ten thousand."""
    sizes = []
    for commits in (1_000, 10_000):
        ledger = OffsetsLedger()
        key, value = commit("g", "t", 0, offset=10**9, commitTimestamp=NOW_MS)
        for first in range(0, commits, 1_000):
            fold(ledger, 10**9 + first, [(NOW_MS, key, value)] * 1_000, {("t", 0): 10**9})
        sizes.append(len(pickle.dumps(ledger)))
    assert abs(sizes[0] - sizes[1]) < 20  # the digits of larger numbers
