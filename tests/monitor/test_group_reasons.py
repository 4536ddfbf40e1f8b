"""Which settings of a group's run explain an anomaly, and what remains a violation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.monitor.stories import APPEND, Told, each, told


def start(offset: int, why: str = "committed offset") -> tuple[str, dict[str, Any]]:
    return "start", {"offset": offset, "why": why}


def commit(offset: int, error: str = "") -> tuple[str, dict[str, Any]]:
    return "commit", {"offset": offset, "written": not error} | ({"error": error} if error else {})


BEGUN = [APPEND, start(0, "earliest")]
AUTO = {"rule": "killed", "library": "librdkafka"}
BEYOND = [*BEGUN, *each("emit", [0, 1]), *each("process", [0]), commit(2)]  # 1 is committed and not processed
OVERTAKEN = [*BEGUN, *each("emit", [0, 1, 2]), *each("process", [0]), commit(2), *each("process", [2])]  # 1 is passed over
TWICE = [*BEGUN, *each("emit", [0, 1]), *each("process", [0, 1]), commit(1)]  # 1 is processed and not committed
BACK = [*BEGUN, *each("emit", [0, 1]), commit(2), commit(1)]
KEPT = [*BEGUN, *each("emit", [0, 1]), commit(2), start(2), commit(1)]
AGAIN = [*TWICE, start(1), *each("emit", [1]), *each("process", [1])]
# A story, its knobs -> the anomaly, its count, and the reason's words ("": a violation).
MARKS: dict[str, tuple[Told, dict[str, Any], tuple[str, int, str]]] = {
    "what was committed for no reason is lost for none": (BEYOND, {}, ("lost", 1, "")),
    "librdkafka counts it as done when it is handed out": (BEYOND, AUTO, ("lost", 1, "library=librdkafka: a record counts as done")),
    "Java does not, when it is killed": (BEYOND, AUTO | {"library": "java"}, ("lost", 1, "")),
    "nor does anybody whose user keeps offsets after the work": (BEYOND, AUTO | {"rule": "kept after the work"}, ("lost", 1, "")),
    "close() does": (BEYOND, {"rule": "closed after an error", "library": "java"}, ("lost", 1, "in close(), java commits everything")),
    "so does a pool's thread": (
        BEYOND, {"rule": "handed to a pool", "library": "java"}, ("lost", 1, "java commits what poll returned")),
    "a worker's own commit does": (
        [*BEGUN, *each("emit", [0, 1, 2]), *each("process", [0, 2]), commit(3)], {"commits": "own"},
        ("lost", 1, "commits=own: a commit claims everything below it")),
    "but not one behind which nothing was done": (
        [*BEGUN, *each("emit", [0, 1, 2]), *each("process", [0]), commit(3)], {"commits": "own"}, ("lost", 2, "")),
    "nor the commit of the record itself": (BEYOND, {"commits": "own"}, ("lost", 1, "")),
    "nobody was killed who goes on to the next": (OVERTAKEN, AUTO, ("lost", 1, "")),
    "or closed": (OVERTAKEN, {"rule": "closed after an error", "library": "java"}, ("lost", 1, "")),
    "what was handed out after the commit is lost for no reason": ([*BEGUN, *each("emit", [0]), commit(2), *each("emit", [1])], AUTO,
                                                                   ("lost", 2, "")),
    "a contiguous one does not": (BEYOND, {"commits": "contiguous"}, ("lost", 1, "")),
    "what nobody was handed is lost for no reason": ([*BEGUN, *each("emit", [0]), commit(2)], AUTO, ("lost", 2, "")),
    "a new owner does again what was not committed": (
        AGAIN, {}, ("duplicated", 1, "a new owner, which starts at the committed offset")),
    "also when the old one finishes later": (
        [*BEGUN, *each("emit", [0, 1]), commit(1), start(1), *each("emit", [1]), *each("process", [0, 1, 1])], {},
        ("duplicated", 1, "a new owner, which starts")),
    "with the last offset instead of the next that is why": (
        AGAIN, {"commits": "offset"}, ("duplicated", 1, "commits=offset: the commit names the last")),
    "the next records are done again by a new owner with it, too": (
        [*TWICE, *each("emit", [2]), *each("process", [2]), start(1), *each("emit", [1, 2]), *each("process", [2])], {"commits": "offset"},
        ("duplicated", 1, "a new owner, which starts")),
    "what is handed out twice to one owner is a violation": (
        [*TWICE, *each("emit", [1]), *each("process", [1])], {}, ("duplicated", 1, "")),
    "what is processed twice by one owner is": ([*TWICE, *each("process", [1])], {}, ("duplicated", 1, "")),
    "a start above it is no reason": ([*TWICE, start(2), *each("emit", [1]), *each("process", [1])], {}, ("duplicated", 1, "")),
    "a commit that goes back is a violation": (BACK, {}, ("rewound", 1, "")),
    "unless the user kept an offset": (KEPT, {"keeper": "the user"}, ("rewound", 1, "keeper=the user: an offset from before")),
    "which today's librdkafka does not": (KEPT, {"keeper": "librdkafka"}, ("rewound", 1, "")),
    "nobody kept one who has had the partition all the time": (BACK, {"keeper": "the user"}, ("rewound", 1, "")),
    "or who has never read that far down": (
        [APPEND, start(5), *each("emit", [5]), commit(6), start(6), commit(3)], {"keeper": "the user"}, ("rewound", 1, "")),
    "or each worker commits": (
        [*BEGUN, *each("emit", [0, 1]), *each("process", [1]), commit(2), *each("process", [0]), commit(1)], {"commits": "own"},
        ("rewound", 1, "commits=own: workers finish in any order")),
    "in whose order the records were finished": (
        [*BEGUN, *each("emit", [0, 1]), *each("process", [0, 1]), commit(2), commit(1)], {"commits": "own"}, ("rewound", 1, "")),
    "a former member of a group without a coordinator commits": (
        [*BEGUN, *each("emit", [0, 1]), ("start", {"offset": 0, "who": "B"}), ("commit", {"offset": 2, "who": "B"}), commit(1)],
        {"zookeeper_session_timeout_ms": 1}, ("rewound", 1, "a former member that still commits")),
    "the only one is none": (BACK, {"zookeeper_session_timeout_ms": 1}, ("rewound", 1, "")),
    "a start below the committed offset is a violation": ([*BEGUN, *each("emit", [0, 1]), commit(2), start(1)], {}, ("rewound", 1, "")),
    "an order changed by workers is explained": (
        [*BEGUN, *each("emit", [0, 1]), *each("process", [1, 0])], {"workers": 8}, ("reordered", 1, "workers=8: they finish in any order")),
    "what one of them was handed after the newer was done is not late by them": (
        [*BEGUN, *each("emit", [1]), *each("process", [1]), *each("emit", [0]), *each("process", [0])], {"workers": 8},
        ("reordered", 1, "")),
    "nor what was handed out twice for no reason": (
        [*BEGUN, *each("emit", [1]), *each("process", [1]), *each("emit", [0, 0]), *each("process", [0])], {}, ("reordered", 1, "")),
    "by nobody it is a violation": ([*BEGUN, *each("emit", [0, 1]), *each("process", [1, 0])], {"workers": 1}, ("reordered", 1, "")),
    "by a record that was handed out again it is explained": (
        [*BEGUN, *each("emit", [0, 1]), *each("process", [1]), start(0), *each("emit", [0]), *each("process", [0])], {},
        ("reordered", 1, "delivered again, after newer ones")),
    "commits that are refused stand still": (
        [*BEGUN, *each("emit", [0]), commit(0), *[commit(1, "UNKNOWN_MEMBER_ID")] * 5], {},
        ("stalled", 1, "no longer a member: its commits are refused")),
    "also in a rebalance": (
        [*BEGUN, *each("emit", [0]), commit(0), *[commit(1, "REBALANCE_IN_PROGRESS")] * 5], {}, ("stalled", 1, "in the middle of")),
    "a refused one is over when the next ones are not": (
        [*BEGUN, *each("emit", [0]), commit(0), commit(1, "UNKNOWN_MEMBER_ID"), *[commit(0)] * 5], {}, ("stalled", 1, "")),
    "commits that stand still for no reason are a violation": ([*BEGUN, *each("emit", [0]), *[commit(0)] * 6], {}, ("stalled", 1, "")),
    "a start above what was read, at the committed offset, is a violation": ([*BEGUN, start(5)], {}, ("skipped", 5, "")),
}  # fmt: skip


@pytest.mark.parametrize("case", MARKS)
def test_group_anomaly_is_marked(case: str) -> None:
    """An anomaly is explained when a setting of the run explains it, and a violation when none does."""
    story, knobs, (kind, count, words) = MARKS[case]
    verdict = told(story, "groups", **knobs)
    assert verdict.counts[kind] == count
    assert (kind in verdict.violations) is (not words)
    assert words in verdict.first(kind).reason
