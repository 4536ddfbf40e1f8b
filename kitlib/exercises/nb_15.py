"""The exercises of notebook 15: what each reader sees, what a crash leaves, who is fenced, a reader of one's own, and a key."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kitlib.exercises import solutions
from kitlib.exercises.answers import HalfRight, NotYet, as_text, choice, expected, sequence, whole_number
from kitlib.exercises.frame import Each, Function, Given, Knobs, Rows, Turned, Unlike, exercise, first_of
from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.trace import Step, Trace
from kitlib.views import show

SEEN: dict[str, Any] = {"transactions": 5, "abort_every": 3, "tx_records": 2, "overlap": False}  # the first exercise
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
CHOICES = ("the transaction's number", "producer id and epoch", "the offset of the output record", "the offset of the input record")


def reads_of(trace: Trace, reader: str) -> list[int]:
    """The offsets that a reader was given, in their order."""
    return [step.data["offset"] for step in trace if step.actor == reader and step.what == "read"]


@exercise(Given(sequence(3)), solution=[15, 8, 10], part="a")
def what_each_sees(given: tuple[int, ...]) -> Rows:
    trace = run("commit_and_abort", **SEEN)
    end, committed, uncommitted = truth = [
        trace.steps[-1].state["high_watermark"],
        len(reads_of(trace, "read_committed")),
        len(reads_of(trace, "read_uncommitted")),
    ]
    looks = (
        "Each transaction ends with something in the log that is not a record.",
        "Which transactions are aborted, and what does this reader get of them?",
        "This reader gets every record. Does it also get what else is in the log?",
    )
    wrong = [
        NotYet(f"number {place} is not {number}.", look, show(trace, at=len(trace) // 3))
        for place, (number, right, look) in enumerate(zip(given, truth, looks, strict=True), 1) if number != right
    ]  # fmt: skip
    yield from first_of(wrong, len(truth))
    yield (
        f"{end} offsets, of which {end - uncommitted} are markers; {committed} records for read_committed, and "
        f"{uncommitted - committed} more for read_uncommitted, which no one will ever take back."
    )


@exercise(
    Knobs("consume_transform_produce", only=("transactional", "offsets", "order", "crash")),
    solution={"transactional": False, "order": "offsets first", "crash": "after position"},
    part="a",
)
def losing_order(turned: Turned) -> Rows:
    counts = turned.verdict.counts
    twice, lost = counts["duplicated"], counts["lost"]
    missing = "none is missing" if not lost else f"{lost} are missing"
    yield twice and (HalfRight if lost else NotYet)(
        f"with these knobs {twice} records are there twice, and {missing}.", None if lost else 2, show(turned.trace)
    )
    yield not lost and NotYet("with these knobs every record is there once.", picture=show(turned.trace))
    yield (
        f"{lost} records were read, never came out, and no one will look for them: the group's position had gone past them before "
        "their output was there. This is at most once."
    )


@exercise(
    Each(
        ("",) * len(ZOMBIES), whole_number,
        "one id for all its starts fences the old worker; offsets within the transaction and the group's generation fence it "
        "when the ids differ. Without any of these, both commit.",
        noun="numbers",
    ),
    solution=[0, 3, 0, 3],
    part="b",
)
def four_zombies(number: int, place: int) -> Rows:
    trace = run("zombie", **ZOMBIES[place])
    fenced = "fenced" if any(step.what == "fenced" for step in trace) else "not fenced"
    yield number != judge(trace).counts["duplicated"] and Unlike(
        look=f"When the first worker wakes up, it is {fenced}. What has it written, and what does its commit do?",
        picture=partial(show, trace),
    )


def entries_of(trace: Trace) -> list[list[Any]]:
    """The log at a run's end as the learner's function gets it: first and last offset, producer id, kind."""
    rows = trace.steps[-1].state["log"]
    return [[first, last, pid, kind or ("plain" if tx is None else "data")] for first, last, pid, _, tx, kind in rows]


def log_cases() -> list[list[Any]]:
    """Logs, each with its run, its name and the offsets that the run's own reader was given."""
    found = []
    for name, knobs in LOGS:
        trace = run(name, **knobs)
        state, truth = trace.steps[-1].state, reads_of(trace, "read_committed")
        end = state["high_watermark"]  # and one record without a transaction comes last
        found.append([[*entries_of(trace), [end, end, -1, "plain"]], trace, name, truth + [end] * (state["lso"] == end)])
    return found


def offsets_given(value: Any, what: str) -> list[int]:
    """Offsets in a list or set, with those that are there twice."""
    if not isinstance(value, list | tuple | set | frozenset | range):
        raise expected(what, "a list of offsets", value)
    return sorted(whole_number(offset, "each offset") for offset in value)


@exercise(
    Function(
        "read_committed", log_cases,
        "the same offsets as the broker's own rule in {n} logs. Kafka's reader does the same with less: the broker stops at the last "
        "stable offset and sends a list of the aborted transactions along.",
        offsets_given, asks=1,
    ),
    solution=solutions.read_committed,
    part="a",
)
def own_read_committed(given: list[int], log: list[list[Any]], trace: Trace, name: str, truth: list[int]) -> Rows:
    more, less = sorted(set(given) - set(truth)), sorted(set(truth) - set(given))
    where, rest, drawn = f"in the log of {name} your reader", f"expected {as_text(truth)}.", partial(show, trace)
    yield more and NotYet(f"{where} gets offset {more[0]}: {why_not(more[0], log)}; {rest}", picture=drawn)
    yield less and NotYet(f"{where} does not get offset {less[0]}, which counts; {rest}", picture=drawn)
    yield given != truth and NotYet(f"{where} gets an offset more than once; {rest}", "")


def why_not(offset: int, log: list[list[Any]]) -> str:
    """Why a reader of committed records is not given an offset."""
    entry = next((one for one in log if one[0] <= offset <= one[1]), None)
    if entry is None:
        return "there is no such offset"
    if entry[3] in ("COMMIT", "ABORT"):
        return "that is a marker, not a record"
    decided = next((kind for first, _, pid, kind in log if pid == entry[2] and first > offset and kind in ("COMMIT", "ABORT")), None)
    if decided == "ABORT":
        return "the next marker of its producer says abort"
    return "an older transaction is open, and no one reads past its first record" if decided or entry[3] == "plain" else "it is not decided"


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
        elif step.what == "write":
            for place, record in enumerate(range(step.data["first"], step.data["last"] + 1)):
                offsets[step.data["tx"], record] = step.data["offset"] + place
    keys: tuple[Callable[[Step], Any], ...] = (
        lambda step: known[step.number][0],
        lambda step: known[step.number][1],
        lambda step: offsets.get((known[step.number][0], step.data["record"])),
        lambda step: step.data["record"],
    )
    return dict(zip(CHOICES, keys, strict=True))


@exercise(Given(choice(*CHOICES)), solution="the offset of the input record", part="b")
def right_key(chosen: str) -> Rows:
    trace = run("outside_effect")
    key_of, keys = keys_of(trace)[chosen], dict[int, list[Any]]()
    for step in trace:
        if step.what == "effect":
            keys.setdefault(step.data["record"], []).append(key_of(step))
    everything = [key for found in keys.values() for key in dict.fromkeys(found)]
    yield len(set(everything)) < len(keys) and NotYet(
        f"{chosen} is the same for several records, so the second record of a batch is refused.", "What belongs to one record alone?"
    )
    record, found = next(((record, found) for record, found in keys.items() if len(set(found)) > 1), (None, []))
    yield found and NotYet(f"record {record} is charged under {found[0]} at first, and under {found[1]} after the crash.")
    yield (
        f"{chosen} is the same at every attempt, so the second charge finds an existing row. Write both in one transaction of "
        "the database, and Kafka may deliver the record as often as it likes."
    )
