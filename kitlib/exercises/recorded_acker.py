"""Where a learner's own Acker first does something else than the recorded one of Storm 0.9.3.

What is asked of it is little: it is made without arguments, and has `init(root, val, spout_task)`,
`ack(root, val)`, `fail(root)` and `tick()`. Each returns the completion that follows, as the kit's
`Completion` or as a tuple (spout_task, stream, root), or None; the stream may be "ack" or "fail" for short.
With an attribute `pending` that has buckets, a `RotatingMap` or a list of dicts with the newest first, its
ledger is compared as well. An entry is an object or a dict with val, spout_task and failed, or the three in
a list. Any other `pending` is its own affair.

Of each recorded script only the acker's part is played: what its spout tasks and the network did is no
message to an acker, and a message of later releases is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from operator import index
from types import NoneType
from typing import Any

from kitlib.conformance.acker import message_of
from kitlib.conformance.golden import Difference, bundled, conform, read_traces
from kitlib.exercises.acker_picture import Side, draw_sides, told_value
from kitlib.exercises.frame import NotYet, told, unbroken
from kitlib.exercises.recorded import FirstDifference, judged_by
from kitlib.exercises.sandbox import Outcome, run_steps
from kitlib.exercises.sandbox_values import shown
from kitlib.storm.acker import ACKER_ACK_STREAM_ID, ACKER_FAIL_STREAM_ID, Acker
from kitlib.text import plain_text

FILES = ("acker_scenarios.jsonl.gz", "acker_random_public.jsonl.gz")
METHODS = ("init", "ack", "fail", "tick")  # what a learner's acker must have
STREAMS = {"ack": ACKER_ACK_STREAM_ID, "fail": ACKER_FAIL_STREAM_ID}  # a learner's short word -> Storm's
ROOT, VAL, SPOUT_TASK, FAILED, BUCKET = range(5)  # the places in a row of a ledger
NAMES = {VAL: "the value", SPOUT_TASK: "the spout task", FAILED: "`failed`"}
BUCKETS = {0: "the newer bucket", 1: "the older bucket"}

Row = list[Any]  # root, val (0 for none), spout task or None, failed, bucket (0 is the newest)


def bundled_scripts() -> Iterator[dict[str, Any]]:
    """The acker's part of every recorded script that comes with the kit: messages, what it emitted, its ledger.

    The random ones are told with spout tasks counted from 0 instead of Storm's 1: 0 is a task like any other.
    """
    for first_task, name in ((1, FILES[0]), (0, FILES[1])):
        for trace in read_traces(bundled("storm", name)):
            if not (steps := list(_steps(trace, 1 - first_task))):
                continue
            yield {"name": trace["name"], "meaning": trace["meaning"], "steps": steps}


def _steps(trace: dict[str, Any], less: int) -> Iterator[dict[str, Any]]:
    """The steps that are the acker's, each spout task's number `less` lower than it was."""
    for number, step in enumerate(trace["steps"]):
        op, args = step["op"], step.get("args", {})
        if op in ("deliver", "spout_tick", "reset_timeout") or args.get("lost"):
            continue
        method, given = message_of(op, args)
        if method == "init":
            given = [*given[:SPOUT_TASK], given[SPOUT_TASK] - less]
        yield {
            "op": method,
            "args": {"number": number, "given": given},
            "emits": [[emit["task"] - less, emit["stream"], *emit["values"]] for emit in step["result"]["emits"]],
            "ledger": sorted(
                [root, val or 0, None if spout_task is None else spout_task - less, bool(failed), bucket]
                for bucket, entries in enumerate(step["state"]["acker"])
                for root, val, spout_task, failed in entries
            ),
        }


def operations(script: dict[str, Any]) -> dict[str, Any]:
    """A script without anything that Storm answered: what the learner's process is given."""
    return {"name": script["name"], "steps": [{"op": step["op"], **step["args"]} for step in script["steps"]]}


# -- in the learner's process -----------------------------------------------------------------------


def answers_to(make: Any, script: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the learner's acker returned at each step, and the ledger it has then, in JSON values."""
    acker = make()
    for step in script["steps"]:
        returned = getattr(acker, step["op"])(*step["given"])
        yield {"emits": emits_of(returned), "ledger": ledger_of(acker)}


def emits_of(returned: Any) -> list[list[Any]] | str:
    """The completions that a method returned, each [spout task, stream, root]; a text when it is something else.

    A dict is what a tick dropped, as the kit's own tick returns it.
    """
    if returned is None or isinstance(returned, dict):
        return []
    if (one := _emit(returned)) is not None:
        return [one]
    if isinstance(returned, list | tuple):
        several = [emit for emit in map(_emit, returned) if emit is not None]
        if len(several) == len(returned):
            return several
    return shown(returned)


def _emit(value: Any) -> list[Any] | None:
    if isinstance(value, list | tuple):
        parts = list(value)
    else:
        parts = [getattr(value, name, None) for name in ("spout_task", "stream", "root")]
    if len(parts) != 3 or not isinstance(parts[1], str):
        return None
    task, stream, root = parts
    return [_number(task, shown(task)), STREAMS.get(stream, stream), _number(root, shown(root))]


def ledger_of(acker: Any) -> list[Row] | None:
    """The rows of the acker's `pending`, by root; None when it has no buckets that can be read."""
    pending = getattr(acker, "pending", None)
    buckets = getattr(pending, "buckets", pending)
    if not isinstance(buckets, list | tuple | deque) or not all(isinstance(bucket, dict) for bucket in buckets):
        return None
    rows = []
    for number, bucket in enumerate(buckets):
        for root, entry in bucket.items():
            if type(root) is not int or (parts := _entry(entry)) is None:
                return None
            rows.append([root, *parts, number])
    return sorted(rows, key=lambda row: row[ROOT])


def _entry(entry: Any) -> list[Any] | None:
    """Value, spout task and failed; None when these cannot be found."""
    if isinstance(entry, list | tuple):
        parts = list(entry)
    else:
        names = ("val", "spout_task", "failed")
        parts = [entry.get(name) if isinstance(entry, dict) else getattr(entry, name, None) for name in names]
        if all(part is None for part in parts):
            return None
    if len(parts) != 3:
        return None
    val, spout_task = _number(parts[0] or 0, None), _number(parts[1], None)
    if val is None or (spout_task is None and parts[1] is not None):
        return None
    return [val, spout_task, bool(parts[2])]


def _number(value: Any, otherwise: Any) -> Any:
    """A whole number of any kind as an int."""
    try:
        return index(value)
    except TypeError:
        return otherwise


# -- in ours ----------------------------------------------------------------------------------------


def first_difference(make: Any) -> FirstDifference | None:
    """The first step that differs; None when every recorded step is repeated. NotYet when the code breaks a limit."""
    scripts = list(bundled_scripts())
    return difference_in(scripts, unbroken(run_steps(answers_to, make, [operations(script) for script in scripts])))


def check_own_acker(answer: Any) -> str:
    """A learner's own class against every recorded step of the real acker: the check of an exercise."""
    if not isinstance(answer, type):
        raise NotYet(f"the answer should be your class, this is {told(answer)}.", "Give its name without parentheses.")
    if issubclass(answer, Acker):
        raise NotYet("this is the kit's own, or built on it.", "Write init, ack, fail and tick yourself.")
    if missing := [name for name in METHODS if not callable(getattr(answer, name, None))]:
        raise NotYet(f"your class has no {' and no '.join(missing)}.", f"An acker has {', '.join(METHODS)}.")
    return judged_by(first_difference(answer), "every recorded step of the real acker of 0.9.3 comes out the same with yours.")


def difference_in(scripts: list[dict[str, Any]], outcome: Outcome) -> FirstDifference | None:
    """The first step of the scripts that was answered otherwise than Storm did; None when there is none."""
    pairs = zip(scripts, outcome.answers, strict=True)
    done = [[judged(*both) for both in zip(answers, script["steps"], strict=False)] for script, answers in pairs]
    answers = iter(done)
    found = conform(lambda _: iter(next(answers)), iter(scripts))
    if found.agrees:
        return None
    first = found.differences[0]
    number, script = next((number, each) for number, each in enumerate(scripts) if each["name"] == first.trace)
    if first.step >= len(done[number]):
        raised = outcome.raised[number]
        said = f"{_where(script, first)}: your code {f'raised {raised.what}' if raised else 'gave no answer'}."
        return FirstDifference(found.matched, found.total, first.trace, first.meaning, said, raised is not None, None)
    storm, yours = script["steps"][first.step], done[number][first.step]
    said, root = _said(first, storm, yours)
    said = f"{_where(script, first)}: {said}."
    had = rows_in(outcome.answers[number][first.step])
    sides = (
        Side("Storm 0.9.3", _told_emits(storm["emits"]), storm["ledger"]),
        Side("your code", _told_emits(yours["emits"]), None if had is None else yours["ledger"]),
    )
    picture = draw_sides(script, first.step, root, *sides, said)
    return FirstDifference(found.matched, found.total, first.trace, first.meaning, said, False, picture)


def judged(answer: Any, step: dict[str, Any]) -> dict[str, Any]:
    """An answer as it can be compared with a recorded step; a ledger that the learner's acker does not have is right."""
    rows = rows_in(answer)
    emits = answer.get("emits") if isinstance(answer, dict) else shown(answer)
    return {"emits": emits, "ledger": step["ledger"] if rows is None else rows}


def rows_in(answer: Any) -> list[Row] | None:
    """The ledger in an answer; None unless it is one that `ledger_of` gives: the learner's process may send others."""
    rows = answer.get("ledger") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 5 for row in rows):
        return None
    kinds = ((int,), (int,), (int, NoneType), (bool,), (int,))
    return rows if all(type(part) in kind for row in rows for part, kind in zip(row, kinds, strict=True)) else None


def _where(script: dict[str, Any], first: Difference) -> str:
    step = script["steps"][first.step]
    operation = " ".join([step["op"], *map(str, step["args"]["given"][:1])])
    return f"script '{first.trace}', step {step['args']['number']}, {operation}"


def _said(first: Difference, storm: dict[str, Any], yours: dict[str, Any]) -> tuple[str, int | None]:
    """What differs, and the root it is about; None where it is about all."""
    root = next(iter(storm["args"]["given"]), None)
    if not first.field.startswith("emits"):
        return _ledger_said(storm["ledger"], yours["ledger"])
    if isinstance(yours["emits"], str):
        returned = plain_text(yours["emits"], 80)
        return f"your {storm['op']} returns {returned}, and should return None or (spout_task, stream, root)", root
    wanted, had = _told_emits(storm["emits"], root), _told_emits(yours["emits"], root)
    return f"the acker should emit {wanted}, yours emits {had}", root


def _told_emits(emits: Any, root: int | None = None) -> str:
    """`__ack_ack to task 1`; the root is told where it is another one."""
    if not isinstance(emits, list) or not all(isinstance(emit, list) and len(emit) == 3 for emit in emits):
        return plain_text(emits, 80)
    each = [
        f"{plain_text(stream, 30)} to task {plain_text(task, 30)}{'' if about == root else f' for {plain_text(about, 30)}'}"
        for task, stream, about in emits[:3]
    ]
    return (" and ".join(each) + (" and more" if len(emits) > 3 else "")) or "nothing"


def _ledger_said(storm: list[Row], yours: list[Row]) -> tuple[str, int | None]:
    """The first row that differs."""
    recorded, had = ({row[ROOT]: row for row in rows} for rows in (storm, yours))
    if len(had) < len(yours):
        twice = next(root for root in had if sum(row[ROOT] == root for row in yours) > 1)
        return f"tree {twice} should be in the ledger once, yours has it in two buckets", twice
    for root in sorted(recorded.keys() | had.keys()):
        wanted, got = recorded.get(root), had.get(root)
        if wanted is None:
            return f"tree {root} should not be in the ledger then, yours has it", root
        if got is None:
            return f"tree {root} should still be in the ledger then, yours does not have it", root
        for place, name in NAMES.items():
            if wanted[place] != got[place]:
                tell = told_value if place == VAL else str
                return f"{name} of tree {root} should be {tell(wanted[place])} then, yours is {tell(got[place])}", root
        if wanted[BUCKET] != got[BUCKET]:
            buckets = [BUCKETS.get(row[BUCKET], f"bucket {row[BUCKET]}") for row in (wanted, got)]
            return f"tree {root} should be in {buckets[0]} then, yours is in {buckets[1]}", root
    return "the ledger should be another one", None
