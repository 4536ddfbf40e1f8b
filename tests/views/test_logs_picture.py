"""Two logs, one below the other: the broker's under the model's, and settings side by side."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from kitlib.errors import TraceError
from kitlib.experiments import run
from kitlib.experiments.stored import compare_logs, send_figures, stored
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from kitlib.views import lay_under, side_by_side

SCRIPT = "reordering_by_retry batches=20 failing_batch=200\nbreak broker at 105 ms for 50 ms"


def texts(svg: str) -> list[str]:
    return ["".join(found.itertext()) for found in ElementTree.fromstring(svg).iter() if found.tag.endswith("}text")]


def test_settings_side_by_side_show_what_each_gives_and_costs() -> None:
    """Five in flight send more than twice as many records a second as one, each with less latency, under the same loss."""
    shown = side_by_side(over="max_in_flight", values=(1, 5), script=SCRIPT)
    one, five = shown.loc[1], shown.loc[5]
    assert five["records a second"] == 690 > 2 * one["records a second"] and five["median latency, ms"] < one["median latency, ms"]
    assert [*shown["copies in the log"]] == [5, 25]


def test_figures_are_counted_from_first_send_to_last_report() -> None:
    """Rate, latency and copies of a small run are those of its steps: three records that are sent at once."""
    trace = run("answers_lost", records=3, lost_answers=0, linger_ms=0, delay_ms=10, max_in_flight=1, send_every_ms=0)
    told = [step for step in trace if step.what == "delivered"]
    found = send_figures(trace)
    assert found.worst_ms == max(step.at_ms for step in told) - min(step.at_ms for step in trace if step.what == "send")
    assert found.records_per_s == pytest.approx(3000 / found.worst_ms)
    assert found.copies == 0


def test_log_is_told_in_pieces_with_their_copies() -> None:
    """A piece ends where the numbers do not go on and where copies begin: here batch 2's second copy follows its first."""
    trace = run(script="answers_lost lost_answers=0 idempotence=false\ndouble request 2")
    assert [(piece.offset, piece.first, piece.last, piece.copy) for piece in stored(trace)[0]] == [
        (0, 0, 14, 1), (15, 10, 14, 2), (20, 15, 59, 1)
    ]  # fmt: skip


def test_logs_that_differ_are_told_with_the_offset() -> None:
    """Where two logs part, the sentence names the offset and both records; equal ones are told as such."""
    plain, doubled = (run(script=f"answers_lost lost_answers=0 idempotence=false\n{line}") for line in ("", "double request 2"))
    assert compare_logs(plain, plain) == "The broker's log is the model's, record by record: 60 records, each of them once."
    assert compare_logs(plain, doubled) == "The logs part at offset 15: the model's has record 15 there, the broker's record 10."
    shown = lay_under(plain, doubled)
    assert shown.sentence.startswith("The logs part at offset 15")
    assert {"model", "broker", "a copy", "10-14"} <= {*texts(shown.svg)}


def test_logs_of_several_partitions_are_compared_one_by_one() -> None:
    """Each partition has a strip of its own in each run, and the sentence names the partition in which the logs part."""
    plain, lossy = (run(script=f"one_partition_waits idempotence=false\n{line}") for line in ("", "lose answer 2"))
    assert compare_logs(plain, plain) == "The broker's log is the model's, record by record: 90 records in 3 partitions, each of them once."
    shown = lay_under(plain, lossy)
    assert shown.sentence == "The logs of partition 0 part at its offset 20: the model's has record 60 there, the broker's record 45."
    assert {f"{name}, {partition}" for name in ("model", "broker") for partition in range(3)} <= {*texts(shown.svg)}
    assert send_figures(lossy).copies == judge(lossy).counts["duplicated"] > 0


def test_what_has_no_log_is_refused() -> None:
    """A run of another kind, and one that delivered nothing, end in a sentence."""
    with pytest.raises(TraceError, match="has not read its topic back"):
        side_by_side("happy_path", over="records", values=(5,))
    with pytest.raises(TraceError, match="reported no record as stored"):
        send_figures(replace_steps(run("answers_lost"), "delivered"))


def replace_steps(trace: Trace, without: str) -> Trace:
    return replace(trace, steps=[step for step in trace if step.what != without])
