"""What transactions are for, and what they do not do: seen or not seen, markers, the last stable offset; crashes,
zombies, timeouts, late messages, a database outside.

In most of these a worker reads an input of a group, writes one record for each input record, and commits the group's
position. The verdict asks what a reader of the output is given of each input record that the position has passed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.transactions.model_transactions import CallResult
from kitlib.experiments.transactions.transaction_run import Actor, TransactionRun
from kitlib.mechanisms.transactions.offsets import GroupIdentity
from kitlib.monitor.figures import LAG, LOST, LOST_OR_AGAIN, PROCESSED_AGAIN, READER_WAIT

WAIT_MS = 6_000  # beyond the timeout of a transaction, until a story gives up waiting
WORKER = "worker"  # a transactional id that each start of the application uses

Version = Annotated[
    Literal["1", "2"], Knob("Transaction version: 1, or 2 with an epoch for each transaction (KIP-890).")
]
TxRecords = Annotated[int, Knob("Records per transaction.", "records", 1, 50)]
TransactionTimeoutMs = Annotated[
    int, Knob("How long until the coordinator aborts an open transaction.", "ms", 100, 900_000, scale="log")
]


class TransactionKnobs:
    """What all stories of transactions have: which reader they are about, and the transactions' version."""

    isolation: Annotated[
        Literal["read_committed", "read_uncommitted"], Knob("Which reader the verdict is about; both read.")
    ]
    version: Version = "1"


def _commit_position(run: TransactionRun) -> None:
    """The reader of committed records commits: its last record and one, or its position."""
    look = run.look()
    reads = [step for step in run.trace.steps if step.actor == "read_committed" and step.what == "read"]
    behind_last = reads[-1].data["offset"] + 1 if reads else 0
    offset = behind_last if run.settings.commits == "last record + 1" else run.positions["read_committed"]
    run.record("read_committed", "commit", **run.where, offset=offset, end=look.lso, lag=look.lso - offset)


Transactions = Annotated[int, Knob("How many transactions the first producer runs.", "transactions", 0, 20)]


@experiment(
    "Seen, or never", TransactionRun, shared=(TransactionKnobs,),
    figure=LAG, front=("isolation", "transactions", "abort_every", "overlap", "marker_delay_ms"),
)
def commit_and_abort(
    run: TransactionRun,
    transactions: Transactions = 4,
    abort_every: Annotated[int, Knob("Every n-th one is aborted; 0: none.", "transactions", 0, 20)] = 2,
    tx_records: TxRecords = 3,
    overlap: Annotated[bool, Knob("Whether two producers' transactions overlap at the end.")] = True,
    commits: Annotated[Literal["last record + 1", "position"], Knob("What the reader's group commits at the end.")] = "last record + 1",
    marker_delay_ms: Annotated[
        int, Knob("Time from the coordinator's decision to the markers; on a real broker, as long as it takes.", "ms", 0, 10_000)
    ] = 0,
) -> None:
    """Transactions are committed and aborted. What does a read_committed reader get, and when, and why does its lag
    never reach 0?
    """
    run.begin()
    first = run.start("orders")
    at = 0
    for number in range(transactions):
        run.begin_tx(first, range(at, at + tx_records))
        at += tx_records
        if abort_every and (number + 1) % abort_every == 0:
            run.abort(first)
        else:
            run.commit(first)
    if overlap:
        second = run.start("payments")
        run.begin_tx(first, range(at, at + tx_records))
        run.begin_tx(second, range(at + tx_records, at + 2 * tx_records))
        run.commit(second)  # committed, and read_committed still waits before the first one's begin
        run.commit(first)
    run.pass_ms(marker_delay_ms)
    _commit_position(run)
    run.finish()


class _Crashed(Exception):
    """The worker was killed; whoever started it starts another one."""


def _batches(run: TransactionRun, from_: int) -> list[range]:
    """The input from a position on, in batches of a transaction's size."""
    size, end = run.settings.tx_records, run.settings.records
    return [range(at, min(at + size, end)) for at in range(from_, end, size)]


Records = Annotated[int, Knob("How many records the input has.", "records", 1, 200)]
Offsets = Annotated[
    Literal["inside", "outside"], Knob("Whether the group's offset is committed in the transaction, or separately.")
]


def _work(run: TransactionRun, worker: Actor, batch: range, crashes: bool) -> None:
    """One batch, step by step; the worker is killed behind the step that the knob names."""
    settings, nobody = run.settings, run.nobody()
    inside = settings.transactional and settings.offsets == "inside"
    steps: dict[str, Callable[[], CallResult]] = {
        "begin": lambda: run.begin_tx(worker),
        "output": lambda: run.send(worker, batch) if settings.transactional else run.write_plainly(worker, batch),
        "position": lambda: run.send_offsets(worker, batch.stop, nobody) if inside else run.commit_plainly(worker, batch.stop, nobody),
        "commit": lambda: run.commit(worker),
    }
    names = [name for name in steps if (settings.transactional or name == "output") and name != "position"]
    names.insert(2 if inside else 0 if settings.order == "offsets first" else len(names), "position")
    for name in names:
        steps[name]()
        if crashes and settings.crash == f"after {name}":
            run.kill(worker)
            raise _Crashed


@experiment(
    "Read, transform, write, crash", TransactionRun, shared=(TransactionKnobs,),
    figure=LOST_OR_AGAIN, front=("transactional", "offsets", "crash", "crash_in", "isolation"),
)
def consume_transform_produce(
    run: TransactionRun,
    records: Records = 9,
    tx_records: TxRecords = 3,
    transactional: Annotated[bool, Knob("Whether the output is written in transactions.")] = True,
    offsets: Offsets = "inside",
    order: Annotated[
        Literal["output first", "offsets first"], Knob("What comes first if the offset is committed separately.")
    ] = "output first",
    crash: Annotated[
        Literal["no", "after begin", "after output", "after position", "after commit"],
        Knob("The step of a batch after which the worker is killed; another one starts at the group's offset."),
    ] = "after output",
    crash_in: Annotated[int, Knob("In which batch: the first (0) or the second (1).", "", 0, 1)] = 1,
) -> None:
    """A worker is killed, and another one continues from the group's committed offset. What is in the output twice, or not at all?"""
    run.begin(inputs=records)
    crash_left = crash != "no"
    while True:
        worker = run.start(WORKER, 60_000) if transactional else run.start_plain()
        try:
            for number, batch in enumerate(_batches(run, run.position())):
                _work(run, worker, batch, crash_left and number == min(1, crash_in))
            break
        except _Crashed:
            crash_left = False
    run.finish()


def _end(run: TransactionRun, worker: Actor, offset: int, who: GroupIdentity) -> bool:
    """Position and commit, inside or outside; an error that can be aborted is. Whether it was committed."""
    if run.settings.offsets == "outside":
        told = run.commit(worker)
        if not told.error:
            run.commit_plainly(worker, offset, who)
    else:
        told = run.send_offsets(worker, offset, who)
        if not told.error:
            told = run.commit(worker)
    if told.must_abort and worker.tx is not None:
        run.abort(worker)
    return not told.error


@experiment(
    "The worker that comes back", TransactionRun, shared=(TransactionKnobs,),
    figure=LOST_OR_AGAIN, front=("ids", "offsets", "generation", "transaction_timeout_ms", "isolation"),
)
def zombie(
    run: TransactionRun,
    records: Records = 6,
    tx_records: TxRecords = 3,
    ids: Annotated[
        Literal["same", "new per start"], Knob("Whether each start of the worker uses the same transactional id, or a new one.")
    ] = "same",
    offsets: Offsets = "inside",
    generation: Annotated[bool, Knob("Whether the offset is committed with the group's member id and generation (KIP-447).")] = True,
    pause: Annotated[
        Literal["until the other is done", "beyond the timeout"], Knob("How long the first worker is paused.")
    ] = "until the other is done",
    transaction_timeout_ms: TransactionTimeoutMs = 20_000,
) -> None:
    """A worker is paused in the middle of a transaction, another one takes its place, and then the first one resumes.
    What stops it?
    """
    run.begin(inputs=records)
    same = ids == "same"
    first = run.start(WORKER if same else f"{WORKER}-1")
    who = run.join(first) if generation else run.nobody()
    batch = _batches(run, 0)[0]
    run.begin_tx(first, batch)
    run.freeze(first)
    second = run.start(WORKER if same else f"{WORKER}-2")
    heir = run.join(second) if generation else run.nobody()
    for each in _batches(run, run.position()):
        run.begin_tx(second, each)
        _end(run, second, each.stop, heir)
    if pause == "beyond the timeout":
        run.settle(transaction_timeout_ms + WAIT_MS)
    run.thaw(first)
    _end(run, first, batch.stop, who)
    run.finish()


@experiment(
    "Left open", TransactionRun, shared=(TransactionKnobs,),
    figure=READER_WAIT, front=("cause", "successor", "offsets", "transaction_timeout_ms"),
)
def transaction_timeout(
    run: TransactionRun,
    records: Records = 9,
    tx_records: TxRecords = 3,
    cause: Annotated[
        Literal["kill", "freeze", "slow"],
        Knob("Why the first transaction stays open: the worker is killed, pauses, or takes too long."),
    ] = "kill",
    successor: Annotated[
        Literal["at once", "after the timeout"], Knob("When the next worker with the same transactional id starts.")
    ] = "after the timeout",
    on_fenced: Annotated[
        Literal["continue", "go back"],
        Knob("What the slow worker does about the error: log it and continue, or go back to the group's offset."),
    ] = "go back",
    next_call: Annotated[
        Literal["position", "batch"], Knob("What the slow worker requests first: the commit of its offset, or one more batch.")
    ] = "position",
    offsets: Offsets = "inside",
    transaction_timeout_ms: TransactionTimeoutMs = 1_500,
) -> None:
    """A transaction is left open. How long do read_committed readers wait, who ends it, and what does its producer find
    out?
    """
    run.begin(inputs=records)
    first = run.start(WORKER)
    batches = _batches(run, 0)
    half = len(batches[0]) // 2 if cause == "slow" and next_call == "batch" else len(batches[0])
    other = run.start("bystander", 60_000)  # its transaction is committed, and lies behind the open one
    run.begin_tx(first, batches[0][:half])
    run.begin_tx(other, range(records, records + tx_records))
    run.commit(other)
    worker = first
    if cause != "slow":
        (run.kill if cause == "kill" else run.freeze)(first)
        if successor == "after the timeout":
            run.settle(transaction_timeout_ms + WAIT_MS)
        worker = run.start(WORKER)
        left = _batches(run, run.position())
    else:
        run.settle(transaction_timeout_ms + WAIT_MS)
        told = run.send(first, batches[0][half:])
        if told.must_abort:
            run.abort(first)
        done = not told.error and _end(run, first, batches[0].stop, run.nobody())
        if first.is_closed:
            worker = run.start(WORKER)
        # "continue" takes the error for somebody else's success and goes on with what comes next.
        left = batches[1:] if done or on_fenced == "continue" else _batches(run, run.position())
    for batch in left:
        run.begin_tx(worker, batch)
        _end(run, worker, batch.stop, run.nobody())
    if cause == "freeze":
        run.thaw(first)
        _end(run, first, batches[0].stop, run.nobody())
    run.finish()


@experiment(
    "A marker too late", TransactionRun, shared=(TransactionKnobs,),
    figure=LOST, front=("late_marker", "version", "isolation"),
)
def delayed_marker(
    run: TransactionRun,
    tx_records: TxRecords = 3,
    late_marker: Annotated[bool, Knob("Whether the first transaction's abort marker arrives a second time.")] = True,
    version: Version = "1",
) -> None:
    """A second copy of an aborted transaction's marker arrives while its producer's next transaction is open. What is
    committed?
    """
    run.begin()
    who = run.start(WORKER)
    run.begin_tx(who, range(tx_records))
    run.abort(who)
    markers = [step.data for step in run.trace.steps if step.what == "marker"]
    run.begin_tx(who, range(tx_records, 2 * tx_records))
    if late_marker and markers:
        run.late_marker((run.ids[markers[-1]["pid"]], markers[-1]["epoch"]), commit=False, version=int(version))
    run.send(who, range(2 * tx_records, 3 * tx_records))
    run.commit(who)
    run.finish()


@experiment(
    "A transaction that no one ends", TransactionRun, shared=(TransactionKnobs,),
    figure=READER_WAIT, front=("verification", "rescue", "isolation", "version"),
)
def hanging_transaction(
    run: TransactionRun,
    tx_records: TxRecords = 3,
    verification: Annotated[bool, Knob("Whether a leader asks the coordinator before a transaction starts there.")] = False,
    rescue: Annotated[bool, Knob("Whether an administrator aborts it by hand (kafka-transactions.sh abort).")] = False,
    transaction_timeout_ms: TransactionTimeoutMs = 500,
) -> None:
    """A batch arrives after the end of its transaction. To the partition, it is the first one of a new transaction. Who
    ends that one?
    """
    run.begin()
    who = run.start(WORKER)
    run.begin_tx(who, range(tx_records))
    run.send(who, range(tx_records, 2 * tx_records), hold=True)
    run.abort(who)
    run.release(who)
    other = run.start("bystander", 60_000)
    run.begin_tx(other, range(2 * tx_records, 3 * tx_records))
    run.commit(other)
    run.pass_ms(transaction_timeout_ms + 1_000)  # no timeout ends what the coordinator knows nothing of
    written = [step.data for step in run.trace.steps if step.what == "write"]
    if rescue and len(written) > 1:
        hangs = written[1]
        run.late_marker((run.ids[hangs["pid"]], hangs["epoch"]), commit=False, version=1)
    run.finish()


@experiment(
    "What the transaction does not cover", TransactionRun, shared=(TransactionKnobs,),
    figure=PROCESSED_AGAIN, front=("unique_key", "crash", "tx_records", "isolation"),
)
def outside_effect(
    run: TransactionRun,
    records: Records = 9,
    tx_records: TxRecords = 3,
    unique_key: Annotated[bool, Knob("Whether the database refuses a second row for the same record.")] = False,
    crash: Annotated[bool, Knob("Whether the worker is killed in its second batch.")] = True,
) -> None:
    """A worker also writes to a database and is killed before its commit. How many times is each record in the output,
    and in the database?
    """
    run.begin(inputs=records)
    charged: set[int] = set()  # the database's rows, which outlive the worker
    crash_left = crash
    while True:
        worker = run.start(WORKER, 60_000)
        batches = _batches(run, run.position())
        for number, batch in enumerate(batches):
            run.begin_tx(worker, batch)
            for record in batch:
                is_new = not (unique_key and record in charged)
                charged.add(record)
                run.effect(worker, record, is_new)
            if crash_left and number == min(1, len(batches) - 1):
                run.kill(worker)
                break
            run.send_offsets(worker, batch.stop, run.nobody())
            run.commit(worker)
        else:
            break
        crash_left = False
    run.finish()
