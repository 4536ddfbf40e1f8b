"""Where a learner's broker state first does something else than the recorded one of Kafka 4.3.1.

Two kinds of answers go through this door. A function `check_sequence(entry, epoch, seq, count)` says one of
four words of a batch: "append", "duplicate", "out of order" or "old epoch"; what the broker remembers of the
producer is kept for it, by its own words. A class keeps that itself: it is made without arguments and has
`append(pid, epoch, seq, count, offset)`, which returns the offset of the batch (the given one for a new
batch, that of the first copy for a duplicate) or "out of order" or "old epoch"; `restart()`, after which a
broker remembers one batch of each producer; and `forget(pid)`, for a producer that has expired.

Of the recorded scripts those without transactions are played, each partition on a state of its own. A script
ends before a change of the leader that brings back what a restart had lost: that is the log's doing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import Any

from kitlib.conformance.golden import bundled, read_traces
from kitlib.exercises.frame import NotYet, told, unbroken
from kitlib.exercises.producer_picture import Sight, draw_sight
from kitlib.exercises.recorded import FirstDifference, judged_by
from kitlib.exercises.sandbox import Outcome, Raised, run_steps
from kitlib.exercises.sandbox_values import shown
from kitlib.kafka.protocol import increment_sequence
from kitlib.text import plain_text

FILES = ("producer_state_named.jsonl.gz", "producer_state_public.jsonl.gz")
METHODS = ("append", "restart", "forget")  # what a learner's class must have
APPEND, DUPLICATE, OUT_OF_ORDER, OLD_EPOCH = WORDS = ("append", "duplicate", "out of order", "old epoch")
ERRORS = {"OUT_OF_ORDER_SEQUENCE_NUMBER": OUT_OF_ORDER, "INVALID_PRODUCER_EPOCH": OLD_EPOCH}  # the recording's words
REMEMBERED = 5  # batches, of each producer
AGREES = "every recorded batch of Kafka 4.3.1's broker that is in no transaction gets the same answer from yours."


# -- what the learner is given ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RememberedBatch:
    """One batch that the broker remembers: its sequences and its place in the log."""

    first_seq: int
    last_seq: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What the broker remembers of one producer in one partition."""

    epoch: int
    batches: tuple[RememberedBatch, ...]  # the newest five of this epoch, oldest first; never empty

    @property
    def last_seq(self) -> int:
        """The sequence of the last record that was written."""
        return self.batches[-1].last_seq


@dataclass(slots=True)
class Around:
    """Keeps the entries for a learner's function, as the function decides: the whole state, made of a check."""

    check: Callable[..., Any]
    entries: dict[int, Entry] = field(default_factory=dict)

    def append(self, pid: int, epoch: int, seq: int, count: int, offset: int) -> Any:
        """What the function says of the batch; on "append" it is remembered."""
        entry = self.entries.get(pid)
        said = self.check(entry, epoch, seq, count)
        if said == APPEND:
            before = entry.batches if entry and entry.epoch == epoch else ()
            new = RememberedBatch(seq, increment_sequence(seq, count - 1), offset)
            self.entries[pid] = Entry(epoch, (*before, new)[-REMEMBERED:])
        return said

    def restart(self) -> None:
        """Of each producer the newest batch is left."""
        self.entries = {pid: replace(entry, batches=entry.batches[-1:]) for pid, entry in self.entries.items()}

    def forget(self, pid: int) -> None:
        """The producer is unknown from now on."""
        self.entries.pop(pid, None)


# -- scripts ----------------------------------------------------------------------------------------


@cache
def bundled_scripts() -> tuple[dict[str, Any], ...]:
    """The scripts without transactions that come with the kit, in the words of this module; nobody changes them."""
    traces = chain.from_iterable(read_traces(bundled("producer", name)) for name in FILES)
    named = ((trace, list(_steps(trace))) for trace in traces if trace["family"] == "idempotent")
    return tuple({"name": trace["name"], "meaning": trace["meaning"], "steps": steps} for trace, steps in named if steps)


def _steps(trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """`given` is what the learner's side is told; `wanted` and `before` stay here."""
    producers: dict[int, dict[str, Any]] = {}  # partition -> what the broker has of each producer then
    ends: dict[int, int] = {}  # partition -> end of its log
    for number, step in enumerate(trace["steps"]):
        state, args = step["state"], step["args"]
        if state is None:
            continue  # the clock alone has moved
        partition = args["partition"]
        known = producers.get(partition, {})
        if step["op"] == "append":
            if args["pid"] >= 0:
                given = [partition, *(args[name] for name in ("pid", "epoch", "seq", "count")), ends.get(partition, 0)]
                before = known.get(str(args["pid"]))
                yield {"op": "append", "number": number, "given": given, "wanted": _wanted(step["result"]), "before": before}
            producers[partition] = known | state["producers"]
        else:
            after = state["producers"]
            if step["op"].endswith("_restart"):
                yield {"op": "restart", "number": number, "given": [partition]}
                known = {pid: {**each, "batches": each["batches"][-1:]} for pid, each in known.items()}
            for pid in sorted(known.keys() - after.keys()):
                yield {"op": "forget", "number": number, "given": [partition, int(pid)]}
            if any(after[pid] != known.get(pid) for pid in after):
                return
            producers[partition] = after
        ends[partition] = state["log_end_offset"]


def _wanted(result: dict[str, Any]) -> list[Any]:
    """What the broker did with a batch, in a word, and the offset that it answered; None where it refused."""
    if result["outcome"] == "REJECTED":
        return [ERRORS[result["error"]], None]
    return [APPEND if result["outcome"] == "APPENDED" else DUPLICATE, result["base_offset"]]


def operations(script: dict[str, Any]) -> dict[str, Any]:
    """A script without anything that Kafka answered: what the learner's process is given."""
    steps = [{"op": step["op"], "given": step["given"]} for step in script["steps"]]
    return {"name": script["name"], "steps": steps}


# -- in the learner's process -----------------------------------------------------------------------


def answers_to(make: Any, script: dict[str, Any]) -> Iterator[Any]:
    """What the learner's class, or their function in `Around`, returned at each step, in JSON values."""
    states: dict[int, Any] = {}
    for step in script["steps"]:
        partition, *given = step["given"]
        if partition not in states:
            states[partition] = make() if isinstance(make, type) else Around(make)
        returned = getattr(states[partition], step["op"])(*given)
        yield answer_of(returned) if step["op"] == "append" else None


def answer_of(returned: Any) -> int | str:
    """An answer as an offset or a word; a text that is no word of ours when it is something else."""
    name = getattr(returned, "name", returned)  # an ErrorCode goes by its name
    if isinstance(name, str):
        return ERRORS.get(name, name[:200])
    is_number = hasattr(type(returned), "__index__") and not isinstance(returned, bool)
    return int(returned.__index__()) if is_number else shown(returned)


# -- on this side -----------------------------------------------------------------------------------


def check_own_check(answer: Any) -> str:
    """A learner's function against every recorded batch: the check of an exercise."""
    if not callable(answer) or isinstance(answer, type):
        raise NotYet(f"the answer should be your function, this is {told(answer)}.", "Give its name without parentheses.")
    return judged_by(first_difference(answer), AGREES)


def check_own_state(answer: Any) -> str:
    """A learner's own class against every recorded batch: the check of an exercise."""
    if not isinstance(answer, type):
        raise NotYet(f"the answer should be your class, this is {told(answer)}.", "Give its name without parentheses.")
    if answer.__module__.startswith("kitlib."):
        raise NotYet("this is the kit's own.", "Write append, restart and forget yourself.")
    if missing := [name for name in METHODS if not callable(getattr(answer, name, None))]:
        raise NotYet(f"your class has no {' and no '.join(missing)}.", f"It should have {', '.join(METHODS)}.")
    return judged_by(first_difference(answer), AGREES)


def first_difference(make: Any) -> FirstDifference | None:
    """The first step that differs; None when every batch is answered alike. NotYet when the code breaks a limit."""
    scripts = bundled_scripts()
    outcome = unbroken(run_steps(answers_to, make, [operations(script) for script in scripts]))
    return difference_in(scripts, outcome, is_function=not isinstance(make, type))


def difference_in(scripts: Sequence[dict[str, Any]], outcome: Outcome, *, is_function: bool) -> FirstDifference | None:
    """The first step of the scripts that was answered otherwise than Kafka did; None when there is none."""
    matched, first = 0, None
    for script, answers, raised in zip(scripts, outcome.answers, outcome.raised, strict=True):
        agreed = _agreed(script, answers, is_function)
        matched += agreed
        if agreed < len(script["steps"]) and first is None:
            first = (script, agreed, answers[agreed] if agreed < len(answers) else None, raised)
    if first is None:
        return None
    script, at, answer, raised = first
    raised = raised if answer is None else None
    said, picture = _told(script, at, answer, raised, is_function)
    total = sum(len(each["steps"]) for each in scripts)
    return FirstDifference(matched, total, script["name"], script["meaning"], said, raised is not None, picture)


def _agreed(script: dict[str, Any], answers: list[Any], is_function: bool) -> int:
    """How many steps from the first on are right."""
    for at, (step, answer) in enumerate(zip(script["steps"], answers, strict=False)):
        if step["op"] == "append" and not _is_right(step, answer, is_function):
            return at
    return min(len(answers), len(script["steps"]))


def _is_right(step: dict[str, Any], answer: Any, is_function: bool) -> bool:
    word, offset = step["wanted"]
    wanted = word if is_function or offset is None else offset
    return type(answer) is type(wanted) and answer == wanted


def _told(script: dict[str, Any], at: int, answer: Any, raised: Raised | None, is_function: bool) -> tuple[str, Any]:
    """What differs at that step in one sentence, and drawn; without a picture where the code gave no answer."""
    step = script["steps"][at]
    if step["op"] != "append":
        where = f"script '{script['name']}', step {step['number']}, {step['op']}"
        return f"{where}: your code {f'raised {raised.what}' if raised else 'gave no answer'}.", None
    partition, pid, epoch, seq, count, offset = step["given"]
    last = increment_sequence(seq, count - 1)
    batch = f"{count} record{'s' * (count > 1)} from sequence {seq} on"
    where = f"script '{script['name']}', step {step['number']}, producer {pid} epoch {epoch} sends {batch}"
    if answer is None:
        return f"{where}: your code {f'raised {raised.what}' if raised else 'gave no answer'}.", None
    word, answered = step["wanted"]
    kafka = _answered(word, answered, is_function)
    yours = _yours(answer, offset, is_function)
    said = f"{where}: {_state_told(step['before'])}, so the broker says {kafka}; yours says {yours}."
    earlier = [
        each["given"]
        for each in script["steps"][:at]
        if each["op"] == "append" and each["given"][:2] == [partition, pid] and each["wanted"][0] == APPEND
    ]
    gone = [[each[3], increment_sequence(each[3], each[4] - 1)] for each in earlier if each[2] == epoch]
    sight = Sight(pid, step["before"], gone, epoch, seq, last, kafka, yours)
    return said, draw_sight(script["name"], sight, said)


def _answered(word: str, offset: int | None, is_function: bool) -> str:
    if offset is None or is_function:
        return f'"{word}"'
    return f"offset {offset}" + (" (of the first copy)" if word == DUPLICATE else " (a new batch)")


def _yours(answer: Any, offset: int, is_function: bool) -> str:
    if type(answer) is int and not is_function:
        return f"offset {answer}" + (" (a new batch)" if answer == offset else "")
    return f'"{answer}"' if answer in WORDS else plain_text(answer, 60)


def _state_told(before: dict[str, Any] | None) -> str:
    """What the broker remembered of the producer when the batch came."""
    if before is None:
        return "the broker knows no such producer"
    ranges = ", ".join(f"{first}-{last}" if first != last else str(first) for first, last, _, _ in before["batches"])
    return f"the broker remembers {ranges} of epoch {before['epoch']}"
