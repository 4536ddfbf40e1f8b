"""The word count that is wrong after a replay, and the ways to make it right: batches with a transaction id."""

from __future__ import annotations

from dataclasses import replace

from kitlib.experiments import knobs as k
from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.storm.lines import make_lines
from kitlib.experiments.storm.stories import PATIENCE_MS
from kitlib.experiments.storm.transactional_run import BatchRun


def _tell_transactional_word_count(run: BatchRun) -> None:
    run.append(make_lines(run.knobs["lines"], run.trace.seed))
    run.start()
    run.run_for(PATIENCE_MS)
    run.tell_result()


transactional_word_count = Experiment(
    "transactional_word_count",
    "A word count that may be told twice",
    "The worker dies while it writes a batch's counts, and the batch comes again. Which kind of state counts each word once?",
    (
        Knob(
            "state",
            "choice",
            "transactional",
            "What is stored for a word: its count; count and batch; or count, batch and the count before.",
            choices=("plain", "transactional", "opaque"),
            live=False,
        ),
        Knob(
            "replay_differs",
            "choice",
            "no",
            "Whether a replayed batch has the same lines (no), or is cut longer or shorter than before.",
            choices=("no", "longer", "shorter"),
            live=False,
        ),
        Knob("lines", "int", 24, "How many lines the topic holds.", "lines", 1, 5_000, live=False),
        Knob("batch_records", "int", 4, "How many lines make a batch.", "lines", 1, 1_000, live=False),
        replace(k.MAX_SPOUT_PENDING, default=3, help="How many batches may be on their way at once.", unit="batches"),
        Knob("crash_txid", "int", 3, "The batch in whose first commit the worker dies; -1 for none.", "", -1, 5_000),
        Knob(
            "crash_when",
            "choice",
            "middle",
            "Whether it dies before the commit's writes, in the middle of them, or after the last one.",
            choices=("before", "middle", "after"),
        ),
        replace(k.FAIL_PERCENT, help="How many of a hundred attempts fail by chance, at work or between two writes."),
        replace(k.PROCESS_MS, help="How long the bolts work on a batch, half to one and a half times."),
        MAX_STEPS,
    ),
    _tell_transactional_word_count,
    kind=BatchRun,
)
