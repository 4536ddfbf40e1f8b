"""The exercises of notebook 15: what each reader sees, what a crash leaves, who is fenced, a reader of one's own, and a key."""

from __future__ import annotations

from functools import partial
from typing import Any

from kitlib.exercises.answers import as_text, choice, in_order, whole_number
from kitlib.exercises.frame import Each, Function, Given, Half, Knobs, Miss, Right, Rows, Turned, Unlike, exercise
from kitlib.experiments import run
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
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


def seen_in(trace: Trace) -> dict[str, int]:
    """What the first exercise asks for, in the order of its numbers, and what follows from them."""
    end, committed = trace.steps[-1].state["high_watermark"], len(reads_of(trace, "read_committed"))
    uncommitted = len(reads_of(trace, "read_uncommitted"))
    told = {"end": end, "committed": committed, "uncommitted": uncommitted}
    return told | {"markers": end - uncommitted, "more": uncommitted - committed}


@exercise(Each(("",) * 3, whole_number, noun="numbers", facts=lambda: seen_in(run("commit_and_abort", **SEEN))))
def what_each_sees(number: int, place: int) -> Rows:
    trace = run("commit_and_abort", **SEEN)
    picture = partial(show, trace, at=len(trace) // 3)
    yield number != list(seen_in(trace).values())[place] and Miss("other", place=place + 1, number=number, picture=picture)


@exercise(Knobs("consume_transform_produce", only=("transactional", "offsets", "order", "crash")))
def losing_order(turned: Turned) -> Rows:
    counts = turned.verdict.counts
    twice, lost = counts["duplicated"], counts["lost"]
    missing = "none is missing" if not lost else f"{lost} are missing"
    yield twice and (Half if lost else Miss)("twice", twice=twice, missing=missing, look=None if lost else 2, picture=show(turned.trace))
    yield not lost and Miss("once", picture=show(turned.trace))
    yield Right(lost=lost)


@exercise(Each(("",) * len(ZOMBIES), whole_number, noun="numbers"))
def four_zombies(number: int, place: int) -> Rows:
    trace = run("zombie", **ZOMBIES[place])
    fenced = "fenced" if any(step.what == "fenced" for step in trace) else "not fenced"
    yield number != judge(trace).counts["duplicated"] and Unlike(name="not right", fenced=fenced, picture=partial(show, trace))


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


@exercise(Function(log_cases, in_order("a list of offsets", "offset", set, frozenset)))
def own_read_committed(given: list[int], log: list[list[Any]], trace: Trace, name: str, truth: list[int]) -> Rows:
    more, less = sorted(set(given) - set(truth)), sorted(set(truth) - set(given))
    where, rest, drawn = f"in the log of {name} your reader", f"expected {as_text(truth)}.", partial(show, trace)
    yield more and Miss("gets", where=where, more=more, why=why_not(more[0], log), rest=rest, picture=drawn)
    yield less and Miss("misses", where=where, less=less, rest=rest, picture=drawn)
    yield sorted(given) != truth and Miss("more than once", where=where, rest=rest, look="")


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


def effects_of(trace: Trace) -> list[tuple[int, tuple[Any, ...]]]:
    """Each effect in the database: its record, and what each choice gives as a key for it."""
    begun: dict[str, int] = {}
    identity: dict[str, tuple[int, int]] = {}
    offsets: dict[tuple[int, int], int] = {}
    effects: list[tuple[int, int, tuple[int, int]]] = []
    for step in trace:
        data = step.data
        if step.what == "begin":
            begun[step.actor] = data["tx"]
        elif step.what == "id":
            identity[step.actor] = (data["pid"], data["epoch"])
        elif step.what == "effect":
            effects.append((data["record"], begun[data["by"]], identity[data["by"]]))
        elif step.what == "write":
            written = range(data["first"], data["last"] + 1)
            offsets |= {(data["tx"], record): data["offset"] + place for place, record in enumerate(written)}
    return [(record, (tx, who, offsets.get((tx, record)), record)) for record, tx, who in effects]


@exercise(Given(choice(*CHOICES)))
def right_key(chosen: str) -> Rows:
    keys: dict[int, list[Any]] = {}
    for record, given in effects_of(run("outside_effect")):
        keys.setdefault(record, []).append(given[CHOICES.index(chosen)])
    everything = [key for found in keys.values() for key in dict.fromkeys(found)]
    yield len(set(everything)) < len(keys) and Miss("shared", chosen=chosen)
    for record, found in keys.items():
        yield len(set(found)) > 1 and Miss("changes", record=record, found=found)
    yield Right(chosen=chosen)
