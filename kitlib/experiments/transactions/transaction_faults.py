"""What transactions are for, and what they do not do: crashes, zombies, time-outs, late messages, a database outside.

In most of these a worker reads an input of a group, writes one record for each input record, and commits the group's
position. The verdict asks what a reader of the output is given of each input record that the position has passed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.transactions.transaction_books import Actor
from kitlib.experiments.transactions.transaction_client import Told
from kitlib.experiments.transactions.transaction_run import TransactionRun, closing
from kitlib.experiments.transactions.transaction_stories import ISOLATION, TRANSACTION_TIMEOUT_MS, TX_RECORDS, VERSION
from kitlib.kafka.transactions.offsets import GroupIdentity

WAIT_MS = 6_000  # beyond the time-out of a transaction, until a story gives up waiting
WORKER = "worker"  # a transactional id that each start of the application uses


class _Crashed(Exception):
    """The worker was killed; whoever started it starts another one."""


def _batches(run: TransactionRun, from_: int) -> list[range]:
    """The input from a position on, in batches of a transaction's size."""
    size, end = run.knobs["tx_records"], run.knobs["records"]
    return [range(at, min(at + size, end)) for at in range(from_, end, size)]


def _settled(run: TransactionRun) -> bool:
    """Wait until no transaction holds readers back any more."""
    most_ms = run.knobs.get("transaction_timeout_ms", 0) + WAIT_MS
    return run.wait_until(lambda look: look.lso == look.high_watermark, most_ms)


RECORDS = Knob("records", "int", 9, "How many records the input has.", "records", 1, 200, live=False)
OFFSETS = Knob(
    "offsets", "choice", "inside", "Whether the group's position is committed with the transaction, or by itself.",
    choices=("inside", "outside"), live=False,
)  # fmt: skip


# -- consume, transform, produce -----------------------------------------------------------------------------


@closing
def _tell_consume_transform_produce(run: TransactionRun) -> None:
    run.begin(inputs=run.knobs["records"])
    crash_left = run.knobs["crash"] != "no"
    while True:
        worker = run.start(WORKER, 60_000) if run.knobs["transactional"] else run.start_plain()
        try:
            for number, batch in enumerate(_batches(run, run.position())):
                _work(run, worker, batch, crash_left and number == min(1, run.knobs["crash_in"]))
            break
        except _Crashed:
            crash_left = False
    run.finish()


def _work(run: TransactionRun, worker: Actor, batch: range, crashes: bool) -> None:
    """One batch, step by step; the worker is killed behind the step that the knob names."""
    knobs, nobody = run.knobs, run.nobody()
    inside = knobs["transactional"] and knobs["offsets"] == "inside"
    output: list[tuple[str, Callable[[], Told]]] = [("output", lambda: run.send(worker, batch))]
    if not knobs["transactional"]:
        output = [("output", lambda: run.write_plainly(worker, batch))]
    begin: list[tuple[str, Callable[[], Told]]] = [("begin", lambda: run.begin_tx(worker))]
    commit: list[tuple[str, Callable[[], Told]]] = [("commit", lambda: run.commit(worker))]
    plainly: list[tuple[str, Callable[[], Told]]] = [
        ("position", lambda: run.commit_plainly(worker, batch.stop, nobody))
    ]
    if inside:
        within: list[tuple[str, Callable[[], Told]]] = [
            ("position", lambda: run.send_offsets(worker, batch.stop, nobody))
        ]
        steps = begin + output + within + commit
    else:
        made = begin + output + commit if knobs["transactional"] else output
        steps = plainly + made if knobs["order"] == "offsets first" else made + plainly
    for name, step in steps:
        step()
        if crashes and knobs["crash"] == f"after {name}":
            run.kill(worker)
            raise _Crashed


TRANSACTIONAL = Knob("transactional", "bool", True, "Writes the output in transactions.", live=False)
ORDER = Knob(
    "order", "choice", "output first", "What comes first where the position is committed by itself.",
    choices=("output first", "offsets first"), live=False,
)  # fmt: skip
CRASH = Knob(
    "crash", "choice", "after output", "Behind which step of a batch the worker is killed; another one begins at the group's position.",
    choices=("no", "after begin", "after output", "after position", "after commit"), live=False,
)  # fmt: skip
CRASH_IN = Knob("crash_in", "int", 1, "In which batch: the first (0) or the second (1).", "", 0, 1, live=False)

consume_transform_produce = Experiment(
    "consume_transform_produce",
    "Read, transform, write, crash",
    "A worker is killed, and another one goes on where the group's position says. What is in the output twice, or not at all?",
    (RECORDS, TX_RECORDS, TRANSACTIONAL, OFFSETS, ORDER, CRASH, CRASH_IN, ISOLATION, VERSION, MAX_STEPS),
    _tell_consume_transform_produce,
    TransactionRun,
)


# -- the zombie --------------------------------------------------------------------------------------------------


@closing
def _tell_zombie(run: TransactionRun) -> None:
    knobs = run.knobs
    run.begin(inputs=knobs["records"])
    same = knobs["ids"] == "same"
    first = run.start(WORKER if same else f"{WORKER}-1")
    who = run.join(first) if knobs["generation"] else run.nobody()
    batch = _batches(run, 0)[0]
    run.begin_tx(first)
    run.send(first, batch)
    run.freeze(first)
    second = run.start(WORKER if same else f"{WORKER}-2")
    heir = run.join(second) if knobs["generation"] else run.nobody()
    for each in _batches(run, run.position()):
        run.begin_tx(second)
        run.send(second, each)
        _end(run, second, each.stop, heir)
    if knobs["pause"] == "beyond the time-out":
        _settled(run)
    run.thaw(first)
    _end(run, first, batch.stop, who)
    run.finish()


def _end(run: TransactionRun, worker: Actor, offset: int, who: GroupIdentity) -> bool:
    """Position and commit, inside or outside; an error that can be aborted is. Whether it was committed."""
    if run.knobs["offsets"] == "outside":
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


IDS = Knob(
    "ids", "choice", "same", "Whether each start of the worker uses the same transactional id, or one of its own.",
    choices=("same", "new per start"), live=False,
)  # fmt: skip
GENERATION = Knob(
    "generation",
    "bool",
    True,
    "The position is committed with the group's member and generation (KIP-447).",
    live=False,
)
PAUSE = Knob(
    "pause", "choice", "until the other is done", "How long the first worker stands still.",
    choices=("until the other is done", "beyond the time-out"), live=False,
)  # fmt: skip

zombie = Experiment(
    "zombie",
    "The one that comes back",
    "A worker stands still in the middle of a transaction, another one takes its place, and then the first goes on. What stops it?",
    (
        replace(RECORDS, default=6), TX_RECORDS, IDS, OFFSETS, GENERATION, PAUSE, replace(TRANSACTION_TIMEOUT_MS, default=20_000),
        ISOLATION, VERSION, MAX_STEPS,
    ),
    _tell_zombie,
    TransactionRun,
)  # fmt: skip


# -- the time-out ------------------------------------------------------------------------------------------------


@closing
def _tell_transaction_timeout(run: TransactionRun) -> None:
    knobs = run.knobs
    run.begin(inputs=knobs["records"])
    first = run.start(WORKER)
    batches = _batches(run, 0)
    half = len(batches[0]) // 2 if knobs["cause"] == "slow" and knobs["next_call"] == "batch" else len(batches[0])
    other = run.start("bystander", 60_000)  # its transaction is committed, and lies behind the open one
    run.begin_tx(first)
    run.send(first, batches[0][:half])
    run.begin_tx(other)
    run.send(other, range(knobs["records"], knobs["records"] + knobs["tx_records"]))
    run.commit(other)
    worker = first
    if knobs["cause"] != "slow":
        (run.kill if knobs["cause"] == "kill" else run.freeze)(first)
        if knobs["successor"] == "after the time-out":
            _settled(run)
        worker = run.start(WORKER)
        left = _batches(run, run.position())
    else:
        _settled(run)
        told = run.send(first, batches[0][half:])
        if told.must_abort:
            run.abort(first)
        done = not told.error and _end(run, first, batches[0].stop, run.nobody())
        if first.is_closed:
            worker = run.start(WORKER)
        # "continue" takes the error for somebody else's success and goes on with what comes next.
        left = batches[1:] if done or knobs["on_fenced"] == "continue" else _batches(run, run.position())
    for batch in left:
        run.begin_tx(worker)
        run.send(worker, batch)
        _end(run, worker, batch.stop, run.nobody())
    if knobs["cause"] == "freeze":
        run.thaw(first)
        _end(run, first, batches[0].stop, run.nobody())
    run.finish()


CAUSE = Knob(
    "cause", "choice", "kill", "Why the first transaction stays open: the worker is killed, stands still, or works for too long.",
    choices=("kill", "freeze", "slow"), live=False,
)  # fmt: skip
SUCCESSOR = Knob(
    "successor", "choice", "after the time-out", "When the next worker with the same transactional id starts.",
    choices=("at once", "after the time-out"), live=False,
)  # fmt: skip
ON_FENCED = Knob(
    "on_fenced", "choice", "go back", "What the slow worker does about the error: log it and continue, or go back to the group's position.",
    choices=("continue", "go back"), live=False,
)  # fmt: skip

NEXT_CALL = Knob(
    "next_call", "choice", "position", "What the slow worker asks for first: its position's commit, or one more batch.",
    choices=("position", "batch"), live=False,
)  # fmt: skip

transaction_timeout = Experiment(
    "transaction_timeout",
    "Left open",
    "A transaction is left open. For how long do readers of committed records wait, who ends it, and what is its producer told?",
    (
        RECORDS, TX_RECORDS, CAUSE, SUCCESSOR, ON_FENCED, NEXT_CALL, OFFSETS, TRANSACTION_TIMEOUT_MS,
        ISOLATION, VERSION, MAX_STEPS,
    ),
    _tell_transaction_timeout,
    TransactionRun,
)  # fmt: skip


# -- messages that come late -----------------------------------------------------------------------------------------


@closing
def _tell_delayed_marker(run: TransactionRun) -> None:
    size = run.knobs["tx_records"]
    run.begin()
    who = run.start(WORKER)
    run.begin_tx(who)
    run.send(who, range(size))
    run.abort(who)
    state = next(step for step in reversed(run.trace.steps) if step.what == "marker").data
    marker = (run.books.ids[state["pid"]], state["epoch"])
    run.begin_tx(who)
    run.send(who, range(size, 2 * size))
    if run.knobs["late_marker"]:
        run.late_marker(marker, commit=False, version=int(run.knobs["version"]))
    run.send(who, range(2 * size, 3 * size))
    run.commit(who)
    run.finish()


LATE_MARKER = Knob("late_marker", "bool", True, "The first transaction's abort marker comes a second time.", live=False)

delayed_marker = Experiment(
    "delayed_marker",
    "A marker too late",
    "A second copy of an aborted transaction's marker arrives when its producer's next transaction is open. What is committed?",
    (TX_RECORDS, LATE_MARKER, VERSION, ISOLATION, MAX_STEPS),
    _tell_delayed_marker,
    TransactionRun,
)


@closing
def _tell_hanging_transaction(run: TransactionRun) -> None:
    knobs = run.knobs
    size = knobs["tx_records"]
    run.begin()
    who = run.start(WORKER)
    run.begin_tx(who)
    run.send(who, range(size))
    run.send(who, range(size, 2 * size), hold=True)
    run.abort(who)
    run.release(who)
    other = run.start("bystander", 60_000)
    run.begin_tx(other)
    run.send(other, range(2 * size, 3 * size))
    run.commit(other)
    run.pass_ms(knobs["transaction_timeout_ms"] + 1_000)  # no time-out ends what the coordinator knows nothing of
    if knobs["rescue"]:
        hangs = [step for step in run.trace.steps if step.what == "write"][1].data
        run.late_marker((run.books.ids[hangs["pid"]], hangs["epoch"]), commit=False, version=1)
    run.finish()


VERIFICATION = Knob(
    "verification", "bool", False, "A leader asks the coordinator before a transaction begins there.",
    live=False,
)  # fmt: skip
RESCUE = Knob("rescue", "bool", False, "An administrator ends it by hand (kafka-transactions.sh abort).", live=False)

hanging_transaction = Experiment(
    "hanging_transaction",
    "A transaction that nobody ends",
    "A batch arrives after the end of its transaction. To the partition it is the first one of a new transaction. Who ends that?",
    (TX_RECORDS, VERIFICATION, RESCUE, replace(TRANSACTION_TIMEOUT_MS, default=500), VERSION, ISOLATION, MAX_STEPS),
    _tell_hanging_transaction,
    TransactionRun,
)


# -- the world outside -------------------------------------------------------------------------------------------------


@closing
def _tell_outside_effect(run: TransactionRun) -> None:
    knobs = run.knobs
    run.begin(inputs=knobs["records"])
    charged: set[int] = set()  # the database's rows, which outlive the worker
    crash_left = knobs["crash"]
    while True:
        worker = run.start(WORKER, 60_000)
        batches = _batches(run, run.position())
        for number, batch in enumerate(batches):
            run.begin_tx(worker)
            run.send(worker, batch)
            for record in batch:
                is_new = not (knobs["unique_key"] and record in charged)
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


UNIQUE_KEY = Knob("unique_key", "bool", False, "The database refuses a second row for the same record.", live=False)

outside_effect = Experiment(
    "outside_effect",
    "What the transaction does not reach",
    "A worker writes to a database too, and is killed before its commit. How often is each record in the output, and in the database?",
    (
        RECORDS, TX_RECORDS, UNIQUE_KEY, Knob("crash", "bool", True, "The worker is killed in its second batch.", live=False),
        ISOLATION, VERSION, MAX_STEPS,
    ),
    _tell_outside_effect,
    TransactionRun,
)  # fmt: skip
