"""What only looks like an anomaly, and how the verdict is told. Its counts on any steps are compared with Spark's in tests/pipelines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kitlib.errors import TraceError
from kitlib.monitor.delivery import ANOMALIES
from tests.monitor.stories import APPEND, APPEND_2, START, Told, each, idle, told, written

# A story -> the anomaly that it must not count.
HARMLESS: dict[str, tuple[Told, str]] = {
    "four commits that do not move": ([APPEND, START, *idle(4)], "stalled"),
    "a start between two and three": ([APPEND, START, *idle(4), START, *idle(4)], "stalled"),
    "commits at the end of the log": ([APPEND, START, *written(10), *idle(9, 10)], "stalled"),
    "commits before anything was appended": ([START, *idle(9)], "stalled"),
    "a commit that moves in between": ([APPEND, START, *idle(4), *written(1), *idle(4, 1)], "stalled"),
    "a record that still waits": ([APPEND, START, *each("emit", [0])], "lost"),
    "a record with nothing to do": (
        [("append", {"first": 0, "last": 1, "parts": [0, 1]}), START, *each("process", [1]), *written(2)], "lost"),
    "a record with all its parts": ([APPEND_2, START, *each("process", [0], part=1), *each("process", [0]), *written(1)], "lost"),
    "a record whose number of parts nobody knows": ([APPEND, START, *each("process", [0], part=3), *written(1)], "lost"),
    "a record that was processed and then deleted": (
        [("append", {"first": 0, "last": 0}), START, *each("process", [0]), ("delete", {"to": 1})], "lost"),
    "a gap in the offsets": ([("append", {"first": 0, "last": 9, "offsets": [0, 9]}), START, *written(9),
                              *each("process", [0])], "lost"),
    "a record appended after the start": ([("start", {"offset": 10, "why": "x"}), APPEND], "skipped"),
    "a record that was emitted before the jump": (
        [APPEND, START, *each("emit", range(10)), ("reset", {"from": 0, "to": 10})], "skipped"),
    "a jump back": ([APPEND, START, ("reset", {"from": 9, "to": 0})], "skipped"),
    "a second tuple of the same record later": (
        [APPEND, START, *each("process", [0], part=0), *each("process", [1]), *each("process", [0], part=1)], "reordered"),
    "a retry of what was processed already": ([APPEND, START, *each("process", [0, 1, 0])], "reordered"),
    "a first start above nothing": ([("start", {"offset": 5, "why": "x"}), ("start", {"offset": 5, "why": "x"})], "rewound"),
}  # fmt: skip


@pytest.mark.parametrize("case", HARMLESS)
def test_anomaly_that_is_none_is_not_counted(case: str) -> None:
    """What only looks like an anomaly counts as none."""
    story, kind = HARMLESS[case]
    assert told(story).counts[kind] == 0


SENTENCES: dict[str, tuple[Told, dict[str, Any], str]] = {
    "nothing happened": ([], {}, "No record was followed in this run."),
    "nothing to process": ([START], {}, "0 of 0 records were processed."),
    "nothing was processed": ([APPEND], {}, "0 of 10 records were processed; 10 still wait."),
    "all in order": (
        [APPEND, START, *each("process", range(10)), *written(10)], {},
        "10 of 10 records were processed, each of them once and in order."),
    "some in order": (
        [APPEND, START, *each("process", range(4))], {},
        "4 of 10 records were processed, each of them once and in order; 6 still wait."),
    "parts of some": (
        [("append", {"first": 0, "last": 2, "parts": [2, 0, 2]}), START, *each("process", [0], part=0),
         *each("process", [0], part=1), *each("process", [2])], {},
        "2 of 3 records were processed, each of them once and in order; 1 still waits."),
    "some replaced": (
        [APPEND, START, ("compact", {"offsets": [2, 3, 4]}), *each("process", [0, 1, 4, *range(5, 9)]), *written(9)], {},
        "7 of 10 records were processed (2 replaced by compaction), each of them once and in order; 1 still waits."),
    "a tombstone that is gone": (
        [("append", {"first": 0, "last": 9, "values": ["x"] * 9 + [None]}), START, ("pass", {"to": 10}), *each("process", range(9)),
         ("purge", {"offsets": [9]}), *written(10)], {"delete_retention_ms": 5},
        "9 of 10 records were processed: 1 lost. Explained by delete.retention.ms=5: that long after "
        "it was cleaned, a tombstone may be removed."),
    "an explained anomaly with its setting": (
        [APPEND, START, *each("process", range(10)), *each("fail", [9]), *each("process", [9])], {},
        "10 of 10 records were processed: 1 duplicated. Explained by at-least-once delivery: a record may be delivered again."),
    "a violation": (
        [APPEND, START, *each("process", range(1, 10)), *written(10)], {},
        "9 of 10 records were processed: 1 lost. Violation of the promise that no record is lost; no setting explains it."),
    "a clearing beyond its bound": (
        [APPEND, START, ("clear", {"ranges": [[0, 9]], "by": 14}), *written(10)], {"max_offset_behind": 5},
        "0 of 10 records were processed: 10 lost. Violation of the promise that no record is lost; no setting explains 1 of 10."),
    "a clearing in a run without the setting, which has no bound either": (
        [APPEND, START, ("clear", {"ranges": [[0, 9]], "by": 14}), *written(10)], {},
        "0 of 10 records were processed: 10 lost. Violation of the promise that no record is lost; no setting explains it."),
}  # fmt: skip


@pytest.mark.parametrize("case", SENTENCES)
def test_sentence_says_what_happened(case: str) -> None:
    """One sentence: how many of how many, then each anomaly with its mark, or that there is none."""
    story, knobs, sentence = SENTENCES[case]
    verdict = told(story, **knobs)
    assert verdict.sentence == sentence
    assert max(map(len, repr(verdict).splitlines())) <= 110
    by_mark = {mark: [kind for kind, told in verdict.reasons.items() if told == mark] for mark in verdict.reasons.values()}
    reasons = [f"{' and '.join(kinds)}: {mark}" for mark, kinds in by_mark.items()]
    assert " ".join(repr(verdict).split()) == " ".join([verdict.sums, *reasons] if len(verdict.reasons) > 1 else [sentence])


def test_append_with_parts_for_other_records_is_refused() -> None:
    """A trace whose append says how many parts some of its records have, but not all, cannot be judged."""
    with pytest.raises(TraceError, match=r"step 0: append to events-0 has parts for 2 records, expected 10"):
        told([("append", {"first": 0, "last": 9, "parts": [1, 2]})])


def test_to_json_holds_everything_a_script_needs() -> None:
    """The JSON form has the sums, the marks and each partition's anomalies, and is made of JSON values only."""
    verdict = told([APPEND, START, *each("process", [0]), *each("fail", [0]), *each("process", [0])])
    told_json = json.loads(json.dumps(verdict.to_json()))
    assert told_json["counts"] == verdict.counts and list(told_json["counts"]) == list(ANOMALIES)
    assert (told_json["appended"], told_json["processed"], told_json["late_ms"]) == (10, 1, 20)
    assert told_json["sentence"] == verdict.sentence and told_json["violations"] == []
    assert told_json["partitions"][0]["anomalies"]["duplicated"] == {
        "count": 1, "witness": 4, "offset": 0, "reason": "at-least-once delivery: a record may be delivered again", "unexplained": 0,
    }  # fmt: skip


def test_html_of_a_hostile_reason_is_escaped() -> None:
    """What a trace says reaches the page as text."""
    evil = "<script>alert(1)</script>"
    verdict = told([APPEND, ("start", {"offset": 10, "why": evil})])
    assert evil in verdict.sentence
    assert "<script>" not in verdict._repr_html_() and "&lt;script&gt;" in verdict._repr_html_()
