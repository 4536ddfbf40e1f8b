"""The exercises of notebook 10: what each reader sees, what a crash leaves, who is fenced, a reader of one's own, and a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kitlib.exercises.frame import Exercise, NotYet, a_function, knobs_for, one_of, told, values_of, whole_number
from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.trace import Step, Trace
from kitlib.views import show

SEEN: dict[str, Any] = {"transactions": 5, "abort_every": 3, "tx_records": 2, "overlap": False}  # the first exercise
CRASH_KNOBS = ("transactional", "offsets", "order", "crash")  # that may be turned in the second
ZOMBIES: tuple[dict[str, Any], ...] = (  # of the third
    {"ids": "same", "offsets": "inside"},
    {"ids": "new per start", "offsets": "outside"},
    {"ids": "new per start", "offsets": "inside"},
    {"ids": "new per start", "offsets": "inside", "generation": False},
)
LOGS: tuple[tuple[str, dict[str, Any]], ...] = (  # of the fourth: runs whose logs the learner's reader reads
    ("commit_and_abort", {}),
    ("commit_and_abort", {"transactions": 6, "abort_every": 3, "overlap": False}),
    ("delayed_marker", {}),
    ("hanging_transaction", {}),
    ("consume_transform_produce", {"transactional": False}),
    ("transaction_timeout", {}),
)


# -- what_each_sees ------------------------------------------------------------------------------------


def reads_of(trace: Trace, reader: str) -> list[int]:
    """The offsets that a reader was given, in their order."""
    return [step.data["offset"] for step in trace if step.actor == reader and step.what == "read"]


def check_what_each_sees(answer: Any) -> str:
    """Three numbers: offsets in the log, records for the one reader and for the other."""
    if not isinstance(answer, list | tuple) or len(answer) != 3:
        raise NotYet(f"the answer should be 3 numbers, this is {told(answer)}.", "")
    given = [whole_number(number, f"number {place}") for place, number in enumerate(answer, 1)]
    trace = run("commit_and_abort", **SEEN)
    truth = [
        trace.steps[-1].state["high_watermark"],
        len(reads_of(trace, "read_committed")),
        len(reads_of(trace, "read_uncommitted")),
    ]
    looks = (
        "Each transaction ends with something in the log that is no record.",
        "Which transactions are aborted, and what does this reader get of them?",
        "This reader gets every record. And what else that lies in the log?",
    )
    for place, (number, right, look) in enumerate(zip(given, truth, looks, strict=True), 1):
        if number != right:
            raise NotYet(f"number {place} is not {number}.", look, show(trace, at=len(trace) // 3))
    return (
        f"{truth[0]} offsets, of which {truth[0] - truth[2]} are markers; {truth[1]} records for read_committed, and "
        f"{truth[2] - truth[1]} more for read_uncommitted, which nobody will ever call back."
    )


# -- losing_order --------------------------------------------------------------------------------------


def check_losing_order(answer: Any) -> str:
    """Knobs of the crash with which records are lost and none is there twice."""
    knobs = knobs_for("consume_transform_produce", answer, CRASH_KNOBS)
    trace = run("consume_transform_produce", **knobs)
    counts = judge(trace).counts
    if counts["lost"] and not counts["duplicated"]:
        return (
            f"{counts['lost']} records were read, never came out, and nobody will look for them: the group's position had gone "
            "past them before their output was there. This is at most once."
        )
    picture = show(trace)
    if counts["duplicated"]:
        raise NotYet(f"with these knobs {counts['duplicated']} records are there twice, and none is missing.", picture=picture)
    raise NotYet("with these knobs every record is there once.", picture=picture)


# -- four_zombies --------------------------------------------------------------------------------------


def check_four_zombies(answer: Any) -> str:
    """How many records are there twice in four situations."""
    if not isinstance(answer, list | tuple) or len(answer) != len(ZOMBIES):
        raise NotYet(f"the answer should be {len(ZOMBIES)} numbers, this is {told(answer)}.", "")
    given = [whole_number(number, f"number {place}") for place, number in enumerate(answer, 1)]
    for place, (number, knobs) in enumerate(zip(given, ZOMBIES, strict=True), 1):
        trace = run("zombie", **knobs)
        truth = judge(trace).counts["duplicated"]
        if number != truth:
            who = "fenced" if any(step.what == "fenced" for step in trace) else "not fenced"
            raise NotYet(
                f"in situation {place} it is not {number}.",
                f"When the first worker wakes up, it is {who}. What has it written, and what does its commit do?",
                show(trace),
            )
    return (
        "one id for all its starts fences the old worker; offsets within the transaction and the group's generation fence it "
        "when the ids differ. Without any of these, both commit."
    )


# -- own_read_committed --------------------------------------------------------------------------------


def entries_of(trace: Trace) -> list[list[Any]]:
    """The log at a run's end as the learner's function gets it: first and last offset, producer id, kind."""
    rows = trace.steps[-1].state["log"]
    return [[first, last, pid, kind or ("plain" if tx is None else "data")] for first, last, pid, _, tx, kind in rows]


def check_own_read_committed(answer: Any) -> str:
    """The learner's reader of committed records, on the logs of runs."""
    function = a_function(answer)
    traces = [run(name, **knobs) for name, knobs in LOGS]
    logs = [entries_of(trace) for trace in traces]
    truths = [reads_of(trace, "read_committed") for trace in traces]
    for trace, log, truth in zip(traces, logs, truths, strict=True):  # and one record without a transaction comes last
        state = trace.steps[-1].state
        end = state["high_watermark"]
        log.append([end, end, -1, "plain"])
        truth += [end] if state["lso"] == end else []
    values = values_of(function, [[log] for log in logs])
    for (name, _), trace, log, truth, value in zip(LOGS, traces, logs, truths, values, strict=True):
        if not isinstance(value, list | tuple | set | frozenset | range):
            raise NotYet(f"for the log of {name} your function returns {told(value)}, a list of offsets was expected.", "")
        given = [whole_number(offset, "each offset") for offset in value]
        if sorted(given) == truth:
            continue
        more, less = sorted(set(given) - set(truth)), sorted(set(truth) - set(given))
        if more:
            raise NotYet(f"in the log of {name} your reader is given offset {more[0]}: {_why_not(more[0], log)}.", picture=show(trace))
        if less:
            raise NotYet(f"in the log of {name} your reader is not given offset {less[0]}, which counts.", picture=show(trace))
        raise NotYet(f"in the log of {name} your reader is given an offset more than once.", "")
    return (
        f"the same offsets as the broker's own rule in {len(LOGS)} logs. Kafka's reader does the same with less: the broker "
        "stops at the last stable offset and sends a list of the aborted transactions along."
    )


def _why_not(offset: int, log: list[list[Any]]) -> str:
    """Why a reader of committed records is not given an offset."""
    entry = next((one for one in log if one[0] <= offset <= one[1]), None)
    if entry is None:
        return "there is no such offset"
    if entry[3] in ("COMMIT", "ABORT"):
        return "that is a marker, and no record"
    decided = next((kind for first, _, pid, kind in log if pid == entry[2] and first > offset and kind in ("COMMIT", "ABORT")), None)
    if decided == "ABORT":
        return "the next marker of its producer says abort"
    return "an older transaction is open, and nobody reads past its first record" if decided or entry[3] == "plain" else "it is not decided"


# -- right_key -----------------------------------------------------------------------------------------


def keys_of(trace: Trace) -> dict[str, Callable[[Step], Any]]:
    """What each choice gives as a key for an effect in the database."""
    begun: dict[str, int] = {}
    identity: dict[str, tuple[int, int]] = {}
    offsets: dict[tuple[str, int], int] = {}
    known: dict[int, tuple[Any, ...]] = {}
    for step in trace:
        if step.what == "begin":
            begun[step.actor] = step.data["tx"]
        elif step.what == "id":
            identity[step.actor] = (step.data["pid"], step.data["epoch"])
        elif step.what == "effect":
            known[step.number] = (begun[step.data["by"]], identity[step.data["by"]])
    for step in trace:
        if step.what == "write":
            for place, record in enumerate(range(step.data["first"], step.data["last"] + 1)):
                offsets[step.data["tx"], record] = step.data["offset"] + place
    return {
        "the transaction's number": lambda step: known[step.number][0],
        "producer id and epoch": lambda step: known[step.number][1],
        "the offset of the output record": lambda step: offsets.get((known[step.number][0], step.data["record"])),
        "the offset of the input record": lambda step: step.data["record"],
    }


CHOICES = ("the transaction's number", "producer id and epoch", "the offset of the output record", "the offset of the input record")


def check_right_key(answer: Any) -> str:
    """Which unique key makes a repeated effect harmless."""
    chosen = one_of(answer, CHOICES)
    trace = run("outside_effect")
    key_of = keys_of(trace)[chosen]
    keys: dict[int, list[Any]] = {}
    for step in trace:
        if step.what == "effect":
            keys.setdefault(step.data["record"], []).append(key_of(step))
    everything = [key for found in keys.values() for key in dict.fromkeys(found)]
    if len(set(everything)) < len(keys):
        raise NotYet(f"{chosen} is the same for several records, so the second record of a batch is refused.", "What is one record's own?")
    if any(len(set(found)) > 1 for found in keys.values()):
        record, found = next((record, found) for record, found in keys.items() if len(set(found)) > 1)
        raise NotYet(f"record {record} is charged under {found[0]} at first, and under {found[1]} after the crash.")
    return (
        f"{chosen} is the same at every attempt, so the second charge meets a row that is there. Write both in one transaction of "
        "the database, and Kafka may hand the record out as often as it likes."
    )


EXERCISES = (
    Exercise(
        "what_each_sees",
        f"`commit_and_abort` with {SEEN['transactions']} transactions of {SEEN['tx_records']} records, every third one aborted, and no "
        "overlap. How many offsets does the log have in the end, how many records is the `read_committed` reader given, and how many "
        "the `read_uncommitted` one? A list of three numbers.",
        check_what_each_sees,
        (
            "Count the records of all transactions first, then those of the aborted ones.",
            "A marker for each transaction, committed or aborted, takes an offset. No reader is given it.",
        ),
    ),
    Exercise(
        "losing_order",
        "Find knobs for `consume_transform_produce` among `transactional`, `offsets`, `order` and `crash` with which records are lost, "
        "and none is there twice.",
        check_losing_order,
        (
            "Records are lost when the group's position goes past them and their output never comes. Can that be within a transaction?",
            "Position first, output second, and the crash between the two.",
        ),
    ),
    Exercise(
        "four_zombies",
        "A worker with 3 records in its open transaction stands still, another one takes its place and does the same 3 records, and then "
        "the first one goes on and commits. How many records does a `read_committed` reader get twice? (1) One transactional id for both, "
        "offsets within the transaction. (2) An id per start, offsets committed by themselves. (3) An id per start, offsets within the "
        "transaction. (4) As 3, but the offsets do not carry the group's generation. A list of four numbers.",
        check_four_zombies,
        (
            "What does the broker check when the first worker wants to commit: an epoch, a generation, or nothing?",
            "`zombie` has the knobs ids, offsets and generation.",
        ),
    ),
    Exercise(
        "own_read_committed",
        "Write `read_committed(log)`. Each entry of the log is `[first_offset, last_offset, producer_id, kind]`, where `kind` is "
        '`"data"` (in a transaction), `"plain"` (in none), `"COMMIT"` or `"ABORT"` (markers). Return the offsets that a reader of '
        "committed records is given.",
        check_own_read_committed,
        (
            "What a batch is worth says the first marker of its producer id behind it. Without one, it is open.",
            "The reader stops at the first open batch, whoever else has committed behind it.",
        ),
    ),
    Exercise(
        "right_key",
        "The database gets a unique key, so that a charge that is repeated after a crash changes nothing. What should the key be: "
        + ", ".join(f'`"{choice}"`' for choice in CHOICES[:-1])
        + f' or `"{CHOICES[-1]}"`?',
        check_right_key,
        (
            "After the crash another transaction handles the same record. What of it is as it was?",
            "Look at the record as it lies in the input topic.",
        ),
    ),
)
