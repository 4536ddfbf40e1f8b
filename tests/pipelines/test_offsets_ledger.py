"""A ledger of committed offsets: batch after batch the same as the plain rules over the whole history."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.lab.offsets_topic import RawRecord
from kitlib.mechanisms.lag import Commit
from kitlib.monitor.lag_window import LagStorage
from kitlib.monitor.rewinds import Rewind, Vanished, rewinds, vanished
from kitlib.more.offsets.messages import RECORD_TYPES
from kitlib.more.offsets.records import OffsetsRecord, encode, read_records
from kitlib.pipelines.offsets import OffsetsLedger
from tests.more.offsets.commit_bytes import TOPIC_ID, commit, history_of

Record = tuple[int, bytes | None, bytes | None]  # ms in the log, key, value

NOW_MS = 10_000_500


def fold(ledger: OffsetsLedger, first: int, records: Sequence[Record]) -> None:
    """One batch of records, the first one at offset `first`."""
    ledger.fold((RawRecord(0, first + place, *each) for place, each in enumerate(records)), NOW_MS)


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
            key, value = commit(group, "t", partition, **given, metadata="m" * 200)
        case _:
            told: dict[str, Any] = {"topicId": draw(st.sampled_from([TOPIC_ID, "A" * 22]))}
            key, value = commit(group, "t", partition, draw(st.integers(1, 4)), **given, **told)
    return at_ms, key, value


@given(st.lists(st.lists(record(), max_size=8), max_size=5), st.dictionaries(st.tuples(st.just("t"), PARTITIONS), st.integers(0, 12)),
       st.sampled_from([500, 10**9]))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_ledger_is_the_plain_rules_over_the_whole_history(
    batches: list[list[Record]], ends: dict[tuple[str, int], int], retention_ms: int
) -> None:
    """Windows, judgements, signs and what was skipped, in as many batches as a task is given."""
    ledger, storage, first = OffsetsLedger(), LagStorage(), 0
    for (topic, partition), end in ends.items():
        storage.add_log_end(topic, partition, end)
        ledger.storage.add_log_end(topic, partition, end)
    for records in batches:
        fold(ledger, first, records)
        first += len(records)
    rows = [row for records in batches for row in records]
    read = [(order, rows[order][0], found) for order, found in read_records((at, key, value) for at, (_, key, value) in enumerate(rows))]
    assert (ledger.log.reading.decoded, ledger.log.reading.broken) == (len(read), len(rows) - len(read))
    history = history_of(read)
    reports = {report.where: report for report in ledger.report(NOW_MS, retention_ms).partitions}
    assert set(reports) == set(history.commits)
    for where, commits in history.commits.items():
        report = reports[where]
        plain: list[Rewind | Vanished] = [*rewinds(commits), *vanished(commits, history.groups.get(where.group, ()), retention_ms)]
        plain.sort(key=lambda each: (each.after if isinstance(each, Rewind) else each.tombstone).order)
        assert report.signs == tuple(plain)
        assert (report.committed, report.commits) == (commits[-1].offset, sum(each.offset is not None for each in commits))
        for each in commits:
            if each.offset is not None:
                storage.add_commit(*where, Commit(each.offset, each.at_ms, order=each.order), NOW_MS)
    for where, report in reports.items():
        assert report.judged == storage.status(where.group, NOW_MS).partitions.get((where.topic, where.partition))


def test_report_tells_a_fault_with_when_by_how_much_and_who() -> None:
    """The member to which the partition was assigned is named; what could not be read, and a clock that went back, is noted."""
    ledger = OffsetsLedger()
    ledger.storage.add_log_end("t", 0, 95)
    told = ((1, 90), (2, 95), (4, 7), (3, 8))
    commits = [(at_ms, *commit("g", "t", 0, offset=offset, commitTimestamp=at_ms)) for at_ms, offset in told]
    fold(ledger, 0, [(1, *generation("g", "m1")), *commits, (9, b"\x7f\xff", b"")])
    found = ledger.report(NOW_MS)
    (row,) = found.partitions
    assert [str(each) for each in row.signs] == ["at 4 the offset went back by 88, from 95 to 7, by m1 at /h: nothing excuses it"]
    assert (row.status, row.rewinds, row.vanished, row.excused) == ("STOP", 1, 0, 0)
    assert "by m1 at /h" in repr(found) and "offset 5: Found an unknown record type 32767" in found.notes[0]
    assert "the clock went back 1 times" in found.notes[1]


def test_group_narrows_what_is_looked_at() -> None:
    """Nothing is kept of other groups, nor of their members."""
    ledger = OffsetsLedger("g")
    fold(ledger, 0, [(0, *commit(group, "t", 0, offset=1)) for group in ("g", "h")] + [(2, *generation("h", "m"))])
    assert (ledger.log.groups(), list(ledger.commits.values()), list(ledger.log.history.now)) == (["g"], [1], ["g"])


def test_history_of_any_length_leaves_the_same_ledger() -> None:
    """What a task sends back after a thousand commits is as large as after ten thousand."""
    sizes = []
    for commits in (1_000, 10_000):
        ledger = OffsetsLedger()
        key, value = commit("g", "t", 0, offset=10**9, commitTimestamp=NOW_MS)
        for first in range(0, commits, 1_000):
            fold(ledger, 10**9 + first, [(NOW_MS, key, value)] * 1_000)
        sizes.append(len(pickle.dumps(ledger)))
    assert abs(sizes[0] - sizes[1]) < 20  # the digits of larger numbers
