"""The word count that is wrong after a replay, and the ways to make it right: batches with a transaction id."""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.storm.lines import make_lines
from kitlib.experiments.storm.stories import PATIENCE_MS
from kitlib.experiments.storm.transactional_run import BatchRun


@experiment("A word count that survives a replay", BatchRun)
def transactional_word_count(
    run: BatchRun,
    state: Annotated[
        Literal["plain", "transactional", "opaque"],
        Knob("What is stored for a word: its count; count and batch; or count, batch and previous count."),
    ] = "transactional",
    replay_differs: Annotated[
        Literal["no", "longer", "shorter"],
        Knob("Whether a replayed batch has the same lines (no), or is longer or shorter than before."),
    ] = "no",
    lines: Annotated[int, Knob("How many lines the topic holds.", "lines", 1, 5_000)] = 24,
    batch_records: Annotated[int, Knob("How many lines make a batch.", "lines", 1, 1_000)] = 4,
    max_spout_pending: Annotated[
        int, Knob("How many batches may be in flight at once.", "batches", 1, 10_000, scale="log", live=True)
    ] = 3,
    crash_txid: Annotated[int, Knob("The batch during whose first commit the worker dies; -1 for none.", "", -1, 5_000, live=True)] = 3,
    crash_when: Annotated[
        Literal["before", "middle", "after"],
        Knob("Whether it dies before the commit's writes, in the middle of them, or after the last one.", live=True),
    ] = "middle",
    fail_percent: Annotated[
        int, Knob("Share of attempts that fail at random, while processing or between two writes.", "%", 0, 100, live=True)
    ] = 0,
    process_ms: Annotated[
        int, Knob("Mean time per batch; each takes 50 to 150 % of it.", "ms", 1, 5_000, live=True)
    ] = 40,
) -> None:
    """The worker dies while writing a batch's counts, and the batch is replayed. Which kind of state counts each word once?"""
    run.append(make_lines(lines, run.trace.seed))
    run.start()
    run.run_for(PATIENCE_MS)
    run.tell_result()
