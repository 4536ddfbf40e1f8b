"""What transactions are: seen or not seen, markers, the last stable offset, and offsets that move with the output."""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.transactions.transaction_run import TransactionRun, closing

Version = Annotated[
    Literal["1", "2"], Knob("Transaction version: 1, or 2 with an epoch for each transaction (KIP-890).")
]
Isolation = Annotated[
    Literal["read_committed", "read_uncommitted"], Knob("Which reader the verdict is about; both read.")
]
TxRecords = Annotated[int, Knob("Records per transaction.", "records", 1, 50)]
TransactionTimeoutMs = Annotated[
    int, Knob("How long until the coordinator aborts an open transaction.", "ms", 100, 900_000, scale="log")
]
MarkerDelayMs = Annotated[
    int, Knob("Time from the coordinator's decision to the markers; on a real broker, as long as it takes.", "ms", 0, 10_000)
]


class TransactionKnobs:
    """What all stories of transactions have: which reader they are about, and the transactions' version."""

    isolation: Isolation = "read_committed"
    version: Version = "1"


def _commit_position(run: TransactionRun) -> None:
    """The reader of committed records commits: its last record and one, or its position."""
    look = run.look()
    reads = [step for step in run.trace.steps if step.actor == "read_committed" and step.what == "read"]
    behind_last = reads[-1].data["offset"] + 1 if reads else 0
    offset = behind_last if run.knobs["commits"] == "last record + 1" else run.positions["read_committed"]
    run.record("read_committed", "commit", **run.where, offset=offset, end=look.lso, lag=look.lso - offset)


Transactions = Annotated[int, Knob("How many transactions the first producer runs.", "transactions", 0, 20)]
AbortEvery = Annotated[int, Knob("Every n-th one is aborted; 0: none.", "transactions", 0, 20)]
Overlap = Annotated[bool, Knob("Whether two producers' transactions overlap at the end.")]
Commits = Annotated[Literal["last record + 1", "position"], Knob("What the reader's group commits at the end.")]


@experiment("Seen, or never", TransactionRun, shared=(TransactionKnobs,))
@closing
def commit_and_abort(
    run: TransactionRun,
    transactions: Transactions = 4,
    abort_every: AbortEvery = 2,
    tx_records: TxRecords = 3,
    overlap: Overlap = True,
    commits: Commits = "last record + 1",
    marker_delay_ms: MarkerDelayMs = 0,
) -> None:
    """Transactions are committed and aborted. What does a read_committed reader get, and when, and why does its lag
    never reach 0?
    """
    run.begin()
    first = run.start("orders")
    at = 0
    for number in range(transactions):
        run.begin_tx(first)
        run.send(first, range(at, at + tx_records))
        at += tx_records
        if abort_every and (number + 1) % abort_every == 0:
            run.abort(first)
        else:
            run.commit(first)
    if overlap:
        second = run.start("payments")
        run.begin_tx(first)
        run.send(first, range(at, at + tx_records))
        run.begin_tx(second)
        run.send(second, range(at + tx_records, at + 2 * tx_records))
        run.commit(second)  # committed, and read_committed still waits before the first one's begin
        run.commit(first)
    run.pass_ms(marker_delay_ms)
    _commit_position(run)
    run.finish()
