"""The signs of a rewind together: in a history, in a trace, and what a look at the wrong times does not see."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kitlib.errors import KnobError, TraceError
from kitlib.experiments.lag.lag_stories import window_after
from kitlib.experiments.offsets.signs import commits_in, find_signs, lane_of, last_of_each, samples_in, signs_of
from kitlib.monitor.commit_history import Committed
from kitlib.monitor.rewinds import Excuse, Sample
from kitlib.trace import Trace

LANE = {"topic": "t", "partition": 0}


def trace_of(*rows: tuple[int, str, str, dict[str, Any]], members: int | None = None, backend: str = "model") -> Trace:
    """A trace of (ms, actor, verb, data) about one partition; the log's end follows the appends."""
    trace, end = Trace("r", "x", backend, domain="offsets"), 0
    for at_ms, actor, what, data in rows:
        end = max(end, data.get("last", -1) + 1)
        state: dict[str, Any] = {"log_end": end}
        if members is not None:
            state["group"] = {"members": ["A"] * members}
        trace.record(at_ms, actor, what, state=state, **LANE, **data)
    return trace


def consumed(at_ms: int, first: int, last: int, commit: int) -> list[tuple[int, str, str, dict[str, Any]]]:
    emits = [(at_ms, "A", "emit", {"offset": offset}) for offset in range(first, last + 1)]
    return [*emits, (at_ms, "A", "commit", {"offset": commit, "written": True})]


REWOUND = trace_of(
    (0, "log", "append", {"first": 0, "last": 9}), *consumed(10, 0, 9, 10),
    *consumed(5_000, 0, 3, 4), *consumed(5_100, 4, 6, 7), *consumed(5_200, 7, 9, 10), members=1,
)  # fmt: skip


def test_rewind_in_a_trace_has_its_three_signs_and_no_excuse() -> None:
    """The commit goes back, more goes out than came in, and the lag leaps; the sentence has a line for each."""
    signs = signs_of(REWOUND, rate_every_ms=1_000)
    assert signs.kinds == ("rewinds", "surges", "lag_spikes") and signs.is_fault
    assert (signs.rewinds[0].records, signs.surges[0].repeated, signs.lag_spikes[0].lag_after) == (6, 10, 6)
    assert str(signs).splitlines() == [
        "the committed offset goes back: at 5000 the offset went back by 6, from 10 to 4, by A: nothing excuses it",
        "more records are delivered than arrived or were waiting: from 10 to 5200, 10 records were delivered, while 0 arrived "
        "and 0 were waiting: at least 10 were repeated",
        "the lag rises by more than the log grew: from 10 to 5000 the lag rose from 0 to 6, while the log grew by 0: the committed "
        "offset went from 10 to 4",
    ]


def test_history_without_a_sign_says_so() -> None:
    """No sign, no fault."""
    signs = find_signs([Committed(0, 0, 1), Committed(1, 1, 2)])
    assert (signs.kinds, signs.is_fault, str(signs)) == ((), False, "no signs were found")


def test_looks_that_are_too_close_take_a_repetition_for_the_backlog() -> None:
    """Ten wait, and the re-read of thirty is looked at five by five: each part could be the backlog. A second's sum cannot."""
    looks = [Sample(0, 40, 30, 0), *(Sample(10 * n, 40, None, 5 * n) for n in range(1, 9))]
    assert find_signs([], samples=looks).surges == ()
    (surge,) = find_signs([], samples=[Sample(-1_000, 40, 30, 0), *looks], rate_every_ms=1_000).surges
    assert (surge.went_out, surge.waited, surge.repeated) == (40, 10, 30)


def test_thinning_keeps_the_last_look_of_each_span() -> None:
    """Spans are counted from 0; 0 keeps all."""
    looks = [Sample(at, 0, None) for at in (0, 5, 9, 10, 30)]
    assert [each.at_ms for each in last_of_each(looks, 10)] == [9, 10, 30]
    assert last_of_each(looks, 0) == looks


def test_operator_s_reset_is_one_of_a_group_without_members() -> None:
    """alter sets an offset, forget takes it away; one that was refused did nothing."""
    trace = trace_of(
        *consumed(1, 0, 9, 10),
        (2, "operator", "alter", {"offset": 3, "before": 10, "error": "UNKNOWN_MEMBER_ID"}),
        (3, "operator", "alter", {"offset": 3, "before": 10}), (4, "operator", "forget", {"before": 3}), members=0,
    )  # fmt: skip
    told = [(each.offset, each.by, each.members) for each in commits_in(trace, "t")]
    assert told == [(10, "A", 0), (3, "operator", 0), (None, "operator", 0)]
    signs = signs_of(trace)
    assert [each.excuse for each in signs.rewinds] == [Excuse.BY_HAND] and len(signs.vanished) == 1


def test_refused_commit_is_none() -> None:
    """A commit with an error, or that was not written, is not in the offsets topic."""
    trace = trace_of(
        (0, "A", "commit", {"offset": 5, "written": False, "error": "ILLEGAL_GENERATION"}),
        (1, "A", "commit", {"offset": 6, "written": False}), (2, "A", "commit", {"offset": 7}),
    )  # fmt: skip
    assert [each.offset for each in commits_in(trace, "t")] == [7]


def test_tombstone_in_the_offsets_log_ends_the_offset_of_its_key_alone() -> None:
    """The key ends with the topic and the partition; another partition's tombstone is none of ours."""
    trace = trace_of(*consumed(0, 0, 4, 5))
    for key, value in (("g t-1", None), ("g xt-0", None), ("g t-0", 5), ("g t-0", None)):
        trace.record(1, "offsets log", "write", offset=9, key=key, value=value)
    assert [each.offset for each in commits_in(trace, "t")] == [5, None]
    assert samples_in(trace, "t")[-1] == Sample(1, 5 - 5, None, 5)


def test_samples_take_the_coordinator_s_word_over_the_last_commit() -> None:
    """A monitor that asks is told the old offset before anybody commits it; an error tells nothing."""
    trace = trace_of(
        (0, "log", "append", {"first": 0, "last": 9}), *consumed(1, 0, 9, 10),
        (2, "coordinator 2", "answer", {"group": "g", "offset": -1, "error": "COORDINATOR_LOAD_IN_PROGRESS"}),
        (3, "coordinator 2", "answer", {"group": "g", "offset": 4}),
        (4, "coordinator 2", "answer", {"group": "g", "offset": -1}),
    )  # fmt: skip
    assert [each.committed for each in samples_in(trace, "t")] == [None, 10, 10, 4, None]


def test_lane_that_there_is_none_of_is_refused() -> None:
    """Another topic, another partition, or a trace about nothing."""
    assert lane_of(REWOUND) == ("t", 0) == lane_of(REWOUND, "t", 0)
    for topic, partition, named in (("u", 0, "0 of u"), (None, 1, "1 of any topic")):
        with pytest.raises(TraceError, match=f"no step is about partition {named}"):
            lane_of(REWOUND, topic, partition)


@pytest.mark.parametrize(
    ("story", "words"),
    [
        ({"commits": [], "log_ends": [1]}, "at least one commit"),
        ({"commits": [None], "log_ends": [1]}, "at least one commit"),
        ({"commits": [1], "log_ends": []}, "and one log end"),
        ({"commits": [1], "log_ends": [1], "every_s": 0}, "every_s is 0"),
        ({"commits": [1], "log_ends": [1], "silent_s": -1}, "silent_s -1"),
        ({"commits": [1], "log_ends": [1], "ends_every_s": 0}, "ends_every_s 0"),
        ({"commits": [1], "log_ends": [1], "silent_s": 10**6}, "is forgotten"),
    ],
)
def test_story_without_sense_is_refused(story: dict[str, Any], words: str) -> None:
    """An empty window, and times that go nowhere, are told as such."""
    with pytest.raises(KnobError, match=re.escape(words)):
        window_after(**story)
