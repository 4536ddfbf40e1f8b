"""The verdict on a producer's lane: what is counted, what excuses it, and who has the last word on what is stored."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.monitor.delivery import judge
from kitlib.monitor.verdict import PRODUCER_ANOMALIES, Verdict
from kitlib.trace import Step, Trace

Told = tuple[str, dict[str, Any]]
T = {"topic": "t", "partition": 0}


def sent(first: int, last: int) -> Told:
    return "send", {"first": first, "last": last}


def write(first: int, last: int, offset: int) -> Told:
    return "write", {"first": first, "last": last, "offset": offset}


def delivered(first: int, last: int, **told: int) -> Told:
    return "delivered", {"first": first, "last": last, **told}


def undelivered(first: int, last: int) -> Told:
    return "undelivered", {"first": first, "last": last, "error": "TimeoutException"}


def read(*ranges: list[int], first_offset: int = 0) -> Told:
    return "read", {"first_offset": first_offset, "records": list(ranges)}


def trace_of(*steps: Told, **knobs: Any) -> Trace:
    trace = Trace("r", "story", settings=knobs, domain="idempotence")
    for number, (what, data) in enumerate(steps):
        trace.steps.append(Step(number, number, "producer", what, {**T, **data}))
    return trace


def verdict_on(*steps: Told, **knobs: Any) -> Verdict:
    return judge(trace_of(*steps, **knobs))


def counts(verdict: Verdict) -> dict[str, int]:
    return {kind: count for kind, count in verdict.counts.items() if count}


STORIES: dict[str, tuple[list[Told], tuple[int, int], dict[str, int], bool]] = {
    # steps -> (stored, sent), counts, whether they are a violation when no setting explains them
    "stored once": ([sent(0, 4), write(0, 4, 0), delivered(0, 4)], (5, 5), {}, False),
    "still on its way": ([sent(0, 4)], (0, 5), {}, False),
    "told stored, and is not": ([sent(0, 1), delivered(0, 1)], (0, 2), {"lost": 2}, True),
    "told failed, and is not stored": ([sent(0, 1), undelivered(0, 1)], (0, 2), {"lost": 2}, False),
    "told failed, and is stored": ([sent(0, 1), write(0, 1, 0), undelivered(0, 1)], (2, 2), {"indefinite": 2}, False),
    "stored twice": ([sent(0, 1), write(0, 1, 0), write(0, 1, 2), delivered(0, 1)], (2, 2), {"duplicated": 2}, True),
    "stored in another order": ([sent(0, 1), sent(2, 3), write(2, 3, 0), write(0, 1, 2)], (4, 4), {"reordered": 2}, True),
    "a second copy is not out of order": (
        [sent(0, 1), sent(2, 3), write(0, 1, 0), write(2, 3, 2), write(0, 1, 4)], (4, 4), {"duplicated": 2}, True,
    ),
    "the read has the last word": ([sent(0, 3), write(0, 1, 0), delivered(0, 3), read([0, 3])], (4, 4), {}, False),
    "what the read does not find is lost": ([sent(0, 3), write(0, 3, 0), delivered(0, 3), read([0, 1])], (2, 4), {"lost": 2}, True),
    "retention takes nothing from the verdict": (
        [sent(0, 3), write(0, 3, 0), delivered(0, 3), read([2, 3], first_offset=2)], (4, 4), {}, False,
    ),
    "retention, and then a second copy": (
        [sent(0, 3), write(0, 3, 0), delivered(0, 3), read([2, 3], [0, 0], first_offset=2)], (4, 4), {"duplicated": 1}, True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_producer_verdict_counts_what_became_of_each_record(story: str) -> None:
    """Each story: records stored and sent, the counts, and whether anything is a violation."""
    steps, (stored, sends), expected, is_violation = STORIES[story]
    verdict = verdict_on(*steps)
    assert (verdict.processed, verdict.appended) == (stored, sends)
    assert counts(verdict) == expected and bool(verdict.violations) is is_violation
    assert verdict.kinds == PRODUCER_ANOMALIES and f"{stored} of {sends} records were stored" in verdict.sentence


TWICE = [sent(0, 1), write(0, 1, 0), write(0, 1, 2), delivered(0, 1)]
SIX_TWICE = [sent(0, 5), write(0, 5, 0), write(0, 5, 6), delivered(0, 5)]  # each record is a batch of its own
EXCUSES: dict[str, tuple[list[Told], dict[str, Any], str]] = {
    "no idempotence": (TWICE, {"idempotence": False}, "idempotence=false"),
    "six in flight": (SIX_TWICE, {"max_in_flight": 6}, "max_in_flight=6: that is more than the 5 batches"),
    "given up, and then again": ([TWICE[0], TWICE[1], sent(9, 9), undelivered(9, 9), *TWICE[2:]], {"release": "2.0"}, "a new id"),
    "again": ([TWICE[0], *TWICE[:1], *TWICE[1:]], {}, "an application that sent it again"),
    "restart": ([*TWICE[:2], ("restart", {"how": "kill"}), *TWICE[2:]], {}, "only the last batch"),
    "expire": ([*TWICE[:2], ("expire", {"pid": 1}), *TWICE[2:]], {}, "producer.id.expiration.ms"),
    "delete": ([*TWICE[:2], ("delete", {"to": 2}), *TWICE[2:]], {}, "a log start that moved"),
    "acks 0": ([sent(0, 0), delivered(0, 0)], {"acks": "0"}, "acks=0"),
    "a shared epoch": (
        [sent(0, 0), write(0, 0, 0), delivered(0, 0), sent(1, 1), delivered(1, 1, offset=0)], {"second_epoch": "same"}, "not records",
    ),
}


@pytest.mark.parametrize("excuse", EXCUSES)
def test_producer_verdict_names_the_setting_that_explains_it(excuse: str) -> None:
    """The reason names the setting; without it the same steps are a violation."""
    steps, knobs, told = EXCUSES[excuse]
    assert told in verdict_on(*steps, **knobs).sentence and verdict_on(*steps, **knobs).violations == ()
    bare = list({id(step): step for step in steps if step[0] in ("send", "write", "delivered")}.values())
    assert verdict_on(*bare).violations


def test_producer_verdict_a_restart_before_the_record_was_sent_excuses_nothing() -> None:
    """A broker remembers what comes after its restart as well as ever."""
    assert verdict_on(sent(9, 9), ("restart", {"how": "kill"}), *TWICE).violations == ("duplicated",)


def test_producer_verdict_sending_one_record_again_excuses_no_other() -> None:
    """Only what was handed over twice may be there twice for that reason."""
    steps = [sent(0, 1), sent(0, 0), read([0, 1], [0, 1]), delivered(0, 1)]
    verdict = verdict_on(*steps)
    assert counts(verdict) == {"duplicated": 2} and verdict.first("duplicated").unexplained == 1


def test_producer_verdict_told_failed_after_a_success_is_a_violation() -> None:
    """An answer that said stored leaves nothing indefinite; one that comes too late changes nothing."""
    request, answer = ("request", {"batch": 0, "first": 0, "last": 1}), ("answer", {"batch": 0, "error": "NONE"})
    begin, failed = [sent(0, 1), request, write(0, 1, 0)], undelivered(0, 1)
    assert verdict_on(*begin, answer, failed).violations == ("indefinite",)
    assert verdict_on(*begin, failed, answer).violations == ()


def request(first: int, last: int, batch: int = 0) -> Told:
    return "request", {"batch": batch, "first": first, "last": last}


INNOCENT: dict[str, tuple[list[Told], dict[str, Any], str]] = {
    # the catalogue's reason is there, and what happened to this record has nothing to do with it
    "no idempotence, and the batch was sent once": ([TWICE[0], request(0, 1), *TWICE[1:]], {"idempotence": False}, "duplicated"),
    "an old release, and the batch was sent once": ([TWICE[0], request(0, 1), *TWICE[1:]], {"release": "0.10"}, "duplicated"),
    "six in flight, and the batch was sent once": ([TWICE[0], request(0, 1), *TWICE[1:]], {"max_in_flight": 6}, "duplicated"),
    "a restart between, and the batch was sent once": (
        [TWICE[0], request(0, 1), TWICE[1], ("restart", {"how": "kill"}), *TWICE[2:]], {}, "duplicated",
    ),
    "no idempotence, and the late batch was sent once": (
        [sent(0, 1), request(0, 1), sent(2, 3), request(2, 3, 1), write(2, 3, 0), write(0, 1, 2)], {"idempotence": False}, "reordered",
    ),
    "acks 0, and the broker had written it": ([sent(0, 1), write(0, 1, 0), delivered(0, 1), read()], {"acks": 0}, "lost"),
    "six in flight, and one other batch between": (TWICE, {"max_in_flight": 6}, "duplicated"),
    "an old release, and nothing was given up before": ([*TWICE, sent(9, 9), undelivered(9, 9)], {"release": "2.0"}, "duplicated"),
    "a shared epoch, and the offset told holds nobody else's": (
        [sent(0, 0), write(0, 0, 0), delivered(0, 0), sent(1, 1), delivered(1, 1, offset=1)], {"second_epoch": "same"}, "lost",
    ),
    "a shared epoch, and one producer alone": ([sent(0, 0), request(0, 0), delivered(0, 0)], {"second_epoch": "same"}, "lost"),
}  # fmt: skip


@pytest.mark.parametrize("story", INNOCENT)
def test_producer_verdict_a_setting_that_had_no_part_in_it_excuses_nothing(story: str) -> None:
    """The record's own history decides: how often it was sent, whether it was written, what was lost after it."""
    steps, knobs, kind = INNOCENT[story]
    assert verdict_on(*steps, **knobs).violations == (kind,)
