"""What transactions are: seen or not seen, markers, the last stable offset, and offsets that move with the output."""

from __future__ import annotations

from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.transactions.transaction_run import TransactionRun, closing

VERSION = Knob(
    "version", "choice", "1", "Transaction version: 1, or 2 with an epoch for each transaction (KIP-890).", choices=("1", "2"), live=False
)  # fmt: skip
ISOLATION = Knob(
    "isolation", "choice", "read_committed", "Which reader the verdict is about; both read.",
    choices=("read_committed", "read_uncommitted"), live=False,
)  # fmt: skip
TX_RECORDS = Knob("tx_records", "int", 3, "How many records a transaction has.", "records", 1, 50, live=False)
TRANSACTION_TIMEOUT_MS = Knob(
    "transaction_timeout_ms", "int", 1_500, "After so long the coordinator aborts what is open.", "ms", 100, 900_000,
    scale="log", live=False,
)  # fmt: skip
MARKER_DELAY_MS = Knob(
    "marker_delay_ms", "int", 0, "From the coordinator's decision to the markers; on a real broker as long as it takes.", "ms", 0, 10_000,
    live=False,
)  # fmt: skip


@closing
def _tell_commit_and_abort(run: TransactionRun) -> None:
    knobs = run.knobs
    size, abort_every = knobs["tx_records"], knobs["abort_every"]
    run.begin()
    first = run.start("orders")
    at = 0
    for number in range(knobs["transactions"]):
        run.begin_tx(first)
        run.send(first, range(at, at + size))
        at += size
        if abort_every and (number + 1) % abort_every == 0:
            run.abort(first)
        else:
            run.commit(first)
    if knobs["overlap"]:
        second = run.start("payments")
        run.begin_tx(first)
        run.send(first, range(at, at + size))
        run.begin_tx(second)
        run.send(second, range(at + size, at + 2 * size))
        run.commit(second)  # committed, and read_committed still waits before the first one's begin
        run.commit(first)
    run.pass_ms(knobs["marker_delay_ms"])
    _commit_position(run)
    run.finish()


def _commit_position(run: TransactionRun) -> None:
    """The reader of committed records commits: its last record and one, or its position."""
    look = run.look()
    reads = [step for step in run.trace.steps if step.actor == "read_committed" and step.what == "read"]
    behind_last = reads[-1].data["offset"] + 1 if reads else 0
    offset = behind_last if run.knobs["commits"] == "last record + 1" else run.positions["read_committed"]
    run.record("read_committed", "commit", **run.where, offset=offset, end=look.lso, lag=look.lso - offset)


TRANSACTIONS = Knob(
    "transactions", "int", 4, "How many transactions the first producer makes.", "transactions", 0, 20, live=False
)
ABORT_EVERY = Knob("abort_every", "int", 2, "Every so many are aborted; 0: none.", "transactions", 0, 20, live=False)
OVERLAP = Knob("overlap", "bool", True, "Two producers' transactions overlap in the end.", live=False)
COMMITS = Knob(
    "commits", "choice", "last record + 1", "What the reader's group commits in the end.",
    choices=("last record + 1", "position"), live=False,
)  # fmt: skip

commit_and_abort = Experiment(
    "commit_and_abort",
    "Seen, or never",
    "Transactions are committed and aborted. What does a reader of committed records get, and when, and why does its lag never reach 0?",
    (TRANSACTIONS, ABORT_EVERY, TX_RECORDS, OVERLAP, COMMITS, ISOLATION, VERSION, MARKER_DELAY_MS, MAX_STEPS),
    _tell_commit_and_abort,
    TransactionRun,
)
