"""A learner's own Acker beside the recorded one of Storm 0.9.3: the completions it emits, and the ledger it keeps.

It needs little: it is made without arguments, and has `init(root, val, spout_task)`, `ack(root, val)`, `fail(root)`
and `tick()`. Each returns the completion that follows, as the kit's `Completion` or as a tuple (spout_task, stream,
root), or None; the stream may be "ack" or "fail" for short. If it has an attribute `pending` with buckets, a
`RotatingMap` or a list of dicts with the newest first, its ledger is compared as well. An entry is an object or a
dict with val, spout_task and failed, or the three in a list. Any other `pending` is its own affair.

Of each recorded script only the acker's part is played: what its spout tasks and the network did is no message to
an acker, and a message of later releases is left out.

The picture asks where the two differ: the messages, and both ledgers after the step, the values in hexadecimal,
with a frame around every cell that is not the same on both sides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from operator import index
from types import NoneType
from typing import Any

from kitlib.conformance.acker import message_of
from kitlib.conformance.golden import Difference, bundled, read_traces
from kitlib.exercises import solutions
from kitlib.exercises.recorded import Recording, Script
from kitlib.exercises.sandbox_values import shown
from kitlib.exercises.shrinking import numbered, raised
from kitlib.storm.acker import ACKER_ACK_STREAM_ID, ACKER_FAIL_STREAM_ID
from kitlib.text import plain_text
from kitlib.views import Picture
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.svg import Svg, document, el, group
from kitlib.words.glyphs import RED

FILES = ("acker_scenarios.jsonl.gz", "acker_random_public.jsonl.gz")
METHODS = ("init", "ack", "fail", "tick")  # what a learner's acker must have
STREAMS = {"ack": ACKER_ACK_STREAM_ID, "fail": ACKER_FAIL_STREAM_ID}  # a learner's short word -> Storm's
ROOT, VAL, SPOUT_TASK, FAILED, BUCKET = range(5)  # the places in a row of a ledger
NAMES = {VAL: "the value", SPOUT_TASK: "the spout task", FAILED: "`failed`"}
BUCKETS = {0: "the newer bucket", 1: "the older bucket"}

Row = list[Any]  # root, val (0 for none), spout task or None, failed, bucket (0 is the newest)


@cache
def bundled_scripts() -> tuple[Script, ...]:
    """The acker's part of every recorded script that comes with the kit: messages, what it emitted, its ledger.

    In the random ones spout tasks count from 0 instead of Storm's 1: 0 is a task like any other.
    """
    traces = [(trace, less) for less, name in enumerate(FILES) for trace in read_traces(bundled("storm", name))]
    played = ((trace, list(_steps(trace, less))) for trace, less in traces)
    return tuple({"name": trace["name"], "meaning": trace["meaning"], "steps": steps} for trace, steps in played if steps)


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


def operations(script: Script) -> Script:
    """A script without anything that Storm answered: what the learner's process is given."""
    return {"name": script["name"], "steps": [{"op": step["op"], **step["args"]} for step in script["steps"]]}


# In the learner's process.


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


# In ours.

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


def _where(script: Script, at: int) -> str:
    step = script["steps"][at]
    return f"step {step['args']['number']}, {' '.join([step['op'], *map(str, step['args']['given'][:1])])}"


def _said(script: Script, first: Difference, answers: list[Any]) -> tuple[str, Callable[[str], Picture]]:
    """What differs, and its picture."""
    storm = script["steps"][first.step]
    yours = judged(answers[-1], storm)
    root = next(iter(storm["args"]["given"]), None)  # None: it is about all trees
    if not first.field.startswith("emits"):
        said, root = _ledger_said(storm["ledger"], yours["ledger"])
    elif isinstance(yours["emits"], str):
        said = f"your {storm['op']} returns {plain_text(yours['emits'], 80)}; it should return None or (spout_task, stream, root)"
    else:
        wanted, had = _emits_said(storm["emits"], root), _emits_said(yours["emits"], root)
        said = f"the acker should emit {wanted}; yours emits {had}"

    def draw(sentence: str) -> Picture:
        rows = None if rows_in(answers[-1]) is None else yours["ledger"]
        sides = Side("Storm 0.9.3", _emits_said(storm["emits"]), storm["ledger"]), Side("your code", _emits_said(yours["emits"]), rows)
        return draw_sides(script, first.step, root, *sides, sentence)

    return said, draw


def _emits_said(emits: Any, root: int | None = None) -> str:
    """`__ack_ack to task 1`, with the root where it is another one."""
    if not isinstance(emits, list) or not all(isinstance(emit, list) and len(emit) == 3 for emit in emits):
        return plain_text(emits, 80)
    each = [
        f"{plain_text(stream, 30)} to task {plain_text(task, 30)}{'' if about == root else f' for {plain_text(about, 30)}'}"
        for task, stream, about in emits[:3]
    ]
    return (" and ".join(each) + (" and more" if len(emits) > 3 else "")) or "nothing"


def _ledger_said(storm: list[Row], yours: list[Row]) -> tuple[str, int | None]:
    """The first row that differs, and its root."""
    recorded, had = ({row[ROOT]: row for row in rows} for rows in (storm, yours))
    if len(had) < len(yours):
        twice = next(root for root in had if sum(row[ROOT] == root for row in yours) > 1)
        return f"tree {twice} should be in the ledger once; yours has it in two buckets", twice
    for root in sorted(recorded.keys() | had.keys()):
        wanted, got = recorded.get(root), had.get(root)
        if wanted is None:
            return f"tree {root} should no longer be in the ledger; yours has it", root
        if got is None:
            return f"tree {root} should still be in the ledger; yours does not have it", root
        for place, name in NAMES.items():
            if wanted[place] != got[place]:
                tell = value_said if place == VAL else str
                return f"{name} of tree {root} should now be {tell(wanted[place])}; yours is {tell(got[place])}", root
        if wanted[BUCKET] != got[BUCKET]:
            buckets = [BUCKETS.get(row[BUCKET], f"bucket {row[BUCKET]}") for row in (wanted, got)]
            return f"tree {root} should now be in {buckets[0]}; yours is in {buckets[1]}", root
    return "the ledger differs", None


# Drawn.

MESSAGES_WIDE = 290  # the left column: what the acker was told
MOST_MESSAGES, MOST_ROWS = 9, 5
LINE = 20  # from one line of text to the next
# The columns of a ledger, from its left edge: bucket, root, value, spout task, failed.
BUCKET_X, ROOT_X, VALUE_X, TASK_X, FAILED_X, END_X = 0, 46, 190, 352, 392, 430
DIGIT_WIDE = 9.6
VALUE_LEFT = 66  # of the sum in the left column
BUCKET_WORDS = {0: "newer", 1: "older"}


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two ackers after the step."""

    name: str
    emits: str  # in words
    rows: list[list[Any]] | None  # root, val, spout task, failed, bucket; None: its ledger cannot be read


def value_said(value: Any) -> str:
    """A value as 16 hexadecimal digits, or as it is where it is no 64-bit number."""
    is_long = type(value) is int and -(2**63) <= value < 2**63
    return f"0x{value & (2**64 - 1):016x}" if is_long else plain_text(value, 40)


def draw_sides(script: dict[str, Any], step: int, root: int | None, storm: Side, yours: Side, said: str) -> Picture:
    """Storm's ledger above the learner's after `step`, beside the messages about `root` (about all if None)."""
    messages, messages_height = _messages(script["steps"][: step + 1], root)
    roots = _roots(root, storm, yours)
    above, above_height = _side(storm, yours, roots)
    below, below_height = _side(yours, storm, roots)
    right = LEFT + MESSAGES_WIDE
    height = max(messages_height, above_height + below_height) + 66
    body = group(
        el("text", "Where do the two ackers differ?", cls="ink", x=LEFT, y=24, font_size=14, font_weight="bold"),
        group(messages, transform=f"translate({LEFT} 40)"),
        group(above, transform=f"translate({right} 40)"),
        group(below, transform=f"translate({right} {40 + above_height})"),
        _frame(LEFT, height - 25, 18),
        el("text", "not the same on both sides", cls="ink", x=LEFT + 26, y=height - 12, font_size=11),
    )
    name = plain_text(script["name"], 60)
    return Picture(said, document(f"{name}, the first step that differs", said, body, WIDTH, height))


def _messages(steps: list[dict[str, Any]], root: Any) -> tuple[Svg, int]:
    """What the acker was told of this tree, the last message in bold; its height."""
    about = [step for step in steps if root is None or step["op"] == "tick" or step["args"]["given"][0] == root]
    if not about or about[-1] is not steps[-1]:
        about.append(steps[-1])
    title = "messages" if root is None else f"messages about tree {plain_text(root, 24)}"
    lines = [el("text", title, cls="ink", y=14, font_weight="bold")]
    y = 14 + LINE
    if len(about) > MOST_MESSAGES:
        lines.append(el("text", f"… {len(about) - MOST_MESSAGES} earlier", cls="grey", y=y, font_size=11))
        y += LINE
    for step in about[-MOST_MESSAGES:]:
        weight = "bold" if step is steps[-1] else None
        lines.append(el("text", f"step {step['args']['number']}", cls="grey", y=y, font_size=11, font_weight=weight))
        lines.append(el("text", _message(step), cls="ink", x=52, y=y, font_size=11, font_weight=weight))
        y += LINE
    return group(*lines, *_sum(steps, y + 4)), y + 4 + 3 * LINE


def _sum(steps: list[dict[str, Any]], y: int) -> list[Svg]:
    """What the last message does to the value that Storm's entry had before it: three numbers below each other."""
    given = steps[-1]["args"]["given"]
    if len(given) < 2:
        return []
    before = next((row[VAL] for row in (steps[-2]["ledger"] if len(steps) > 1 else ()) if row[ROOT] == given[0]), 0)
    lines = []
    for sign, what, val in (("", "before", before), ("⊕", steps[-1]["op"], given[1]), ("=", "value", before ^ given[1])):
        lines.append(el("text", what, cls="grey", y=y, font_size=11))
        lines.append(el("text", sign, cls="ink", x=VALUE_LEFT - 14, y=y, font_size=11))
        lines += _digits(value_said(val).removeprefix("0x"), VALUE_LEFT, y)
        y += LINE
    return lines


def _digits(digits: str, left: float, y: int) -> list[Svg]:
    """Each digit in a cell of its own, so that numbers can be compared down the columns."""
    middles = [left + (place + 0.5) * DIGIT_WIDE for place in range(len(digits))]
    pairs = zip(digits, middles, strict=True)
    return [el("text", digit, cls="ink", x=x, y=y, font_size=11, text_anchor="middle") for digit, x in pairs]


def _message(step: dict[str, Any]) -> str:
    given = step["args"]["given"]
    parts = [step["op"], *(value_said(val) for val in given[1:2]), *(f"task {task}" for task in given[2:3])]
    return "  ".join(parts)


def _roots(root: Any, storm: Side, yours: Side) -> list[Any]:
    """The trees to be drawn: the one the step is about, then those that differ, then the others."""
    mine, other = ({row[0]: row for row in side.rows or []} for side in (storm, yours))
    known = list(dict.fromkeys([*mine, *other]))
    if root is not None and root not in known:
        known.append(root)
    return sorted(known, key=lambda each: (each != root, mine.get(each) == other.get(each)))


def _side(side: Side, other: Side, roots: list[Any]) -> tuple[Svg, int]:
    """One acker: what it emits, and its ledger; its height."""
    parts = [el("text", side.name, cls="ink", y=14, font_size=13, font_weight="bold")]
    parts.append(el("text", f"emits {side.emits}", cls="ink", x=2, y=14 + LINE, font_size=12))
    if side.emits != other.emits:
        parts.append(_frame(-3, 14 + LINE - 14, min(END_X, 12 + 7 * (len(side.emits) + 6))))
    y = 14 + 2 * LINE
    if side.rows is None:
        parts.append(el("text", "has no readable `pending`: only what it emits counts", cls="grey", y=y, font_size=11))
        return group(*parts), y + LINE
    for x, name in ((BUCKET_X, "bucket"), (ROOT_X, "tree"), (VALUE_X, "value"), (TASK_X, "task"), (FAILED_X, "failed")):
        parts.append(el("text", name, cls="grey", x=x, y=y, font_size=11))
    mine, others = ({row[ROOT]: row for row in each.rows or []} for each in (side, other))
    for root in roots[:MOST_ROWS]:
        y += LINE
        twin = others.get(root) if other.rows is not None else mine.get(root)
        parts += _row(root, mine.get(root), twin, y)
    if len(roots) > MOST_ROWS:
        y += LINE
        parts.append(el("text", f"… {len(roots) - MOST_ROWS} more trees", cls="grey", y=y, font_size=11))
    return group(*parts), y + LINE


def _row(root: Any, row: Row | None, twin: Row | None, y: int) -> list[Svg]:
    """A tree's entry, with a frame around each cell in which the other side's differs."""
    parts = [el("text", plain_text(root, 24), cls="ink", x=ROOT_X, y=y, font_size=11)]
    if row is None:
        parts.append(el("text", "no entry", cls="grey", x=VALUE_X, y=y, font_size=11))
        return [*parts, _frame(VALUE_X - 4, y - 13, 60)] if twin is not None else parts
    if twin is None:
        parts.append(_frame(ROOT_X - 4, y - 13, END_X - ROOT_X))
    cells = (
        (BUCKET_X, BUCKET_WORDS.get(row[BUCKET], plain_text(row[BUCKET], 6)), BUCKET, 42),
        (TASK_X, "–" if row[SPOUT_TASK] is None else plain_text(row[SPOUT_TASK], 5), SPOUT_TASK, 36),
        (FAILED_X, "yes" if row[FAILED] else "no", FAILED, 36),
    )
    for x, text, place, wide in cells:
        parts.append(el("text", text, cls="ink", x=x, y=y, font_size=11))
        if twin is not None and twin[place] != row[place]:
            parts.append(_frame(x - 4, y - 13, wide))
    digits = value_said(row[VAL]).removeprefix("0x")[:16]
    against = digits if twin is None else value_said(twin[VAL]).removeprefix("0x")
    parts += _digits(digits, VALUE_X, y)
    differing = [place for place, digit in enumerate(digits) if against[place : place + 1] != digit]
    return parts + [_frame(VALUE_X + place * DIGIT_WIDE, y - 13, DIGIT_WIDE) for place in differing]


def _frame(x: float, y: float, width: float) -> Svg:
    return el("rect", x=x, y=y, width=width, height=18, fill="none", stroke=RED, stroke_width=1.5)


# Made smaller.


def differ(right: Any, got: Any) -> str:
    """How an answer is not the right one, in words; "" when it is."""
    if found := raised(got):
        return found
    yours = judged(got, right)
    if yours["emits"] != right["emits"]:
        both = [*right["emits"], *(yours["emits"] if isinstance(yours["emits"], list) else [])]
        roots = [emit[-1] for emit in both if isinstance(emit, list) and emit]
        root = roots[0] if roots and roots.count(roots[0]) == len(roots) else None
        return f"it should emit {_emits_said(right['emits'], root)}; yours emits {_emits_said(yours['emits'], root)}"
    return "" if yours["ledger"] == right["ledger"] else _ledger_said(right["ledger"], yours["ledger"])[0]


def simpler(steps: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The same messages with trees 1, 2, ...; then with such spout tasks and small values, too."""
    roots = numbered([step["given"][0] for step in steps if step["given"]])
    tasks = numbered([step["given"][2] for step in steps if len(step["given"]) > SPOUT_TASK])
    vals = {val: 2**number // 2 for val, number in numbered([step["given"][1] for step in steps if len(step["given"]) > 1]).items()}

    for maps in ((roots, {}, {}), (roots, vals, {}), (roots, {}, tasks), (roots, vals, tasks)):
        yield [{**step, "given": [names.get(value, value) for names, value in zip(maps, step["given"], strict=False)]} for step in steps]


def rows(answer: Any) -> dict[str, str]:
    """What was emitted, and each tree's entry, in words."""
    emits = answer.get("emits") if isinstance(answer, dict) else answer
    found = {"emits": _emits_said(emits)}
    for root, val, task, failed, bucket in rows_in(answer) or ():
        told = [f"value {value_said(val)}", "no spout" if task is None else f"task {task}", *(["failed"] if failed else [])]
        found[f"tree {root}"] = ", ".join([*told, BUCKETS.get(bucket, f"bucket {bucket}")])
    return found


def call(step: dict[str, Any]) -> str:
    """`init(1, 5, 1)`."""
    return f"{step['op']}({', '.join(map(str, step['given']))})"


ACKER = Recording(
    bundled_scripts, operations, answers_to, judged, _where, _said,
    name=f"{__name__}:ACKER", right=solutions.OwnAcker, differ=differ, simpler=simpler, call=call, rows=rows,
    kits=("kitlib.storm.acker:Acker", "kitlib.storm.later_acker:LaterAcker"),
)  # fmt: skip
