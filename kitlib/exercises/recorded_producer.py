"""A learner's broker state beside the recorded one of Kafka 4.3.1.

Two kinds of answers. A function `check_sequence(entry, epoch, seq, count)` says one of four words of a batch:
"append", "duplicate", "out of order" or "old epoch"; the kit remembers the batches for it, as those words say. A
class remembers them itself: it is made without arguments and has `append(pid, epoch, seq, count, offset)`, which
returns the offset of the batch (the given one for a new batch, that of the first copy for a duplicate) or "out of
order" or "old epoch"; `restart()`, after which a broker remembers one batch of each producer; and `forget(pid)`,
for a producer that has expired.

Of the recorded scripts those without transactions are played, each partition on a state of its own. A script ends
before a change of the leader that brings back what a restart had lost: that is the log's doing.

The picture asks: is this batch new, known, or neither? Sequences run to the right, a box for each batch and not to
scale. What the broker remembers is filled, what it has written and forgotten is hollow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from typing import Any

from kitlib.conformance.golden import Difference, bundled, read_traces
from kitlib.exercises import solutions
from kitlib.exercises.recorded import Recording, Script
from kitlib.exercises.sandbox_values import shown
from kitlib.exercises.shrinking import numbered, raised
from kitlib.kafka.protocol import MAX_SEQUENCE, increment_sequence
from kitlib.text import plain_text
from kitlib.views import Picture
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.svg import Svg, document, el, group
from kitlib.words.glyphs import BLACK, BLUE, ORANGE, RED, WHITE

FILES = ("producer_state_named.jsonl.gz", "producer_state_public.jsonl.gz")
METHODS = ("append", "restart", "forget")  # what a learner's class must have
APPEND, DUPLICATE, OUT_OF_ORDER, OLD_EPOCH = WORDS = ("append", "duplicate", "out of order", "old epoch")
ERRORS = {"OUT_OF_ORDER_SEQUENCE_NUMBER": OUT_OF_ORDER, "INVALID_PRODUCER_EPOCH": OLD_EPOCH}  # the recording's words
AGREES = "every recorded batch of Kafka 4.3.1's broker that is in no transaction gets the same answer from your code."
REMEMBERED = 5  # batches, of each producer
MOST_FORGOTTEN = 2  # boxes of batches that are no longer remembered
SLOT, GAP, TALL = 82, 6, 34  # a box's width, the space between two, and its height
TOP = 62  # of the broker's row
BELOW = TOP + TALL + 44  # of the arriving batch


# What the learner is given.


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


# Scripts.


@cache
def bundled_scripts(is_function: bool) -> tuple[Script, ...]:
    """The scripts without transactions that come with the kit; a function is asked for words, a class for offsets."""
    traces = chain.from_iterable(read_traces(bundled("producer", name)) for name in FILES)
    played = ((trace, list(_steps(trace, is_function))) for trace in traces if trace["family"] == "idempotent")
    return tuple({"name": trace["name"], "meaning": trace["meaning"], "steps": steps} for trace, steps in played if steps)


def _steps(trace: dict[str, Any], is_function: bool) -> Iterator[dict[str, Any]]:
    """`args` go over to the learner's side but for what the broker had `before`; `answer` stays here."""
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
                word, offset = _wanted(step["result"])
                about = {"number": number, "given": given, "before": known.get(str(args["pid"])), "word": word}
                yield {"op": "append", "args": about, "answer": word if is_function or offset is None else offset}
            producers[partition] = known | state["producers"]
        else:
            after = state["producers"]
            if step["op"].endswith("_restart"):
                yield {"op": "restart", "args": {"number": number, "given": [partition]}, "answer": None}
                known = {pid: {**each, "batches": each["batches"][-1:]} for pid, each in known.items()}
            for pid in sorted(known.keys() - after.keys()):
                yield {"op": "forget", "args": {"number": number, "given": [partition, int(pid)]}, "answer": None}
            if any(after[pid] != known.get(pid) for pid in after):
                return
            producers[partition] = after
        ends[partition] = state["log_end_offset"]


def _wanted(result: dict[str, Any]) -> tuple[str, int | None]:
    """What the broker did with a batch, in a word, and the offset that it answered; None where it refused."""
    if result["outcome"] == "REJECTED":
        return ERRORS[result["error"]], None
    return APPEND if result["outcome"] == "APPENDED" else DUPLICATE, result["base_offset"]


def operations(script: Script) -> Script:
    """A script without anything that Kafka answered: what the learner's process is given."""
    return {"name": script["name"], "steps": [{"op": step["op"], "given": step["args"]["given"]} for step in script["steps"]]}


# In the learner's process.


def answers_to(make: Any, script: Script) -> Iterator[Any]:
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
        return str(ERRORS.get(name, name[:200]))
    is_number = hasattr(type(returned), "__index__") and not isinstance(returned, bool)
    return int(returned.__index__()) if is_number else shown(returned)


# In ours.


def _judged(answer: Any, step: dict[str, Any]) -> dict[str, Any]:
    """What restart and forget return is not asked for."""
    return {"answer": answer if step["op"] == "append" else step["answer"]}


def _where(script: Script, at: int) -> str:
    step = script["steps"][at]
    where = f"step {step['args']['number']}, "
    if step["op"] != "append":
        return f"{where}{step['op']}"
    _, pid, epoch, seq, count, _ = step["args"]["given"]
    return f"{where}producer {pid} epoch {epoch} sends {count} record{'s' * (count > 1)} from sequence {seq} on"


def _said(is_function: bool, script: Script, first: Difference, answers: list[Any]) -> tuple[str, Callable[[str], Picture]]:
    """What the two said of a batch, and why Kafka's broker said what it did."""
    step, answer = script["steps"][first.step]["args"], answers[-1]
    partition, pid, epoch, seq, count, offset = step["given"]
    kafka, yours = _answered(first.expected, step["word"]), _yours(answer, offset, is_function)

    def draw(sentence: str) -> Picture:
        earlier = [
            each["args"]["given"]
            for each in script["steps"][: first.step]
            if each["op"] == "append" and each["args"]["given"][:2] == [partition, pid] and each["args"]["word"] == APPEND
        ]
        written = [[given[3], increment_sequence(given[3], given[4] - 1)] for given in earlier if given[2] == epoch]
        last = increment_sequence(seq, count - 1)
        return draw_sight(script["name"], Sight(pid, step["before"], written, epoch, seq, last, kafka, yours), sentence)

    return f"{_state_said(step['before'])}, so the broker says {kafka}; yours says {yours}", draw


def _answered(answer: Any, word: str) -> str:
    if isinstance(answer, str):
        return f'"{answer}"'
    return f"offset {answer}" + (" (of the first copy)" if word == DUPLICATE else " (a new batch)")


def _yours(answer: Any, offset: int, is_function: bool) -> str:
    if type(answer) is int and not is_function:
        return f"offset {answer}" + (" (a new batch)" if answer == offset else "")
    return f'"{answer}"' if answer in WORDS else plain_text(answer, 60)


def _state_said(before: dict[str, Any] | None) -> str:
    """What the broker remembered of the producer when the batch came."""
    if before is None:
        return "the broker does not know this producer"
    ranges = ", ".join(f"{first}-{last}" if first != last else str(first) for first, last, _, _ in before["batches"])
    return f"the broker remembers {ranges} of epoch {before['epoch']}"


# Drawn.


@dataclass(frozen=True, slots=True)
class Sight:
    """What is to be seen at one batch."""

    pid: int
    before: dict[str, Any] | None  # the recorded entry when it came; None: the producer is not known
    written: list[list[int]]  # [first, last] of each batch of its epoch that was written so far, oldest first
    epoch: int
    first_seq: int
    last_seq: int
    kafka: str  # the broker's answer in words
    yours: str


def draw_sight(script: str, sight: Sight, said: str) -> Picture:
    """The broker's memory, the arriving batch below the place where it belongs, and both answers."""
    body = group(
        el("text", "Is this batch new, known, or neither?", cls="ink", x=LEFT, y=24, font_size=14, font_weight="bold"),
        el("text", _heading(sight), cls="grey", x=LEFT, y=TOP - 12, font_size=11),
        *_row(sight),
        *_arriving(sight),
        *_answers(sight),
    )
    name = f"{plain_text(script, 60)}, the first batch with a different answer"
    return Picture(said, document(name, said, body, WIDTH, BELOW + TALL + 92))


def _heading(sight: Sight) -> str:
    if sight.before is None:
        return f"the broker does not know producer {sight.pid}"
    return f"what the broker remembers of producer {sight.pid}, epoch {sight.before['epoch']}"


def _boxes(sight: Sight) -> list[tuple[int, int, bool]]:
    """First and last sequence of each box, and whether the broker remembers the batch."""
    if sight.before is None:
        return []
    remembered = [(first, last) for first, last, _, _ in sight.before["batches"]]
    forgotten = [(first, last) for first, last in map(tuple, sight.written) if (first, last) not in remembered]
    if sight.before["epoch"] != sight.epoch:
        forgotten = []
    return [(*each, False) for each in forgotten[-MOST_FORGOTTEN:]] + [(*each, True) for each in remembered]


def _next(sight: Sight) -> int | None:
    """The sequence that the broker expects under the batch's epoch; None where it takes any, or none."""
    if sight.before is None or sight.epoch < sight.before["epoch"]:
        return None
    return 0 if sight.epoch > sight.before["epoch"] else increment_sequence(sight.before["last_seq"], 1)


def _left(place: float) -> float:
    return LEFT + place * (SLOT + GAP)


def _row(sight: Sight) -> list[Svg]:
    boxes = _boxes(sight)
    parts = []
    for place, (first, last, is_remembered) in enumerate(boxes):
        fill, ink = (BLUE, WHITE) if is_remembered else ("none", None)
        parts += _box(_left(place), TOP, fill, ink, first, last, dash=None if is_remembered else "4 3")
        if not is_remembered:
            parts.append(_small(_left(place) + SLOT / 2, TOP + TALL + 13, "forgotten"))
    x, expected = _left(len(boxes)), _next(sight)
    parts.append(el("rect", cls="grey-line", x=x, y=TOP, width=SLOT, height=TALL, rx=4, fill="none", stroke_dasharray="2 3"))
    words = "any" if sight.before is None else "none" if expected is None else f"{expected}"
    parts.append(el("text", words, cls="ink", x=x + SLOT / 2, y=TOP + 21, font_size=11, text_anchor="middle"))
    under = f"expected under epoch {sight.epoch}" if sight.before and sight.before["epoch"] != sight.epoch else "expected"
    parts.append(_small(x + SLOT / 2, TOP + TALL + 13, under))
    return parts


def _place(sight: Sight) -> float:
    """Where on the row the arriving batch begins, in boxes from the left."""
    boxes, expected = _boxes(sight), _next(sight)
    if expected is None:
        return len(boxes)
    ahead = _distance(expected, sight.first_seq)
    if ahead >= 0:
        return len(boxes) + (0.5 if ahead else 0)
    if sight.before is None or sight.before["epoch"] != sight.epoch:
        return len(boxes) - 0.5
    for place, (first, last, _) in enumerate(boxes):
        if sight.first_seq == first:
            return place
        if 0 < _distance(first, sight.first_seq) <= _distance(first, last):
            return place + 0.5
    return 0


def _distance(start: int, end: int) -> int:
    """How many sequences `end` lies after `start`, the shorter way round; negative when it lies before."""
    ahead = (end - start) % (MAX_SEQUENCE + 1)
    return ahead if ahead <= MAX_SEQUENCE // 2 else ahead - MAX_SEQUENCE - 1


def _arriving(sight: Sight) -> list[Svg]:
    x = min(_left(_place(sight)), WIDTH - LEFT - SLOT)
    middle = x + SLOT / 2
    return [
        el("path", cls="ink-line", d=f"M{middle:.1f} {BELOW - 4}V{TOP + TALL + 22}", fill="none"),
        el("path", cls="ink", d=f"M{middle:.1f} {TOP + TALL + 17}l-4 8h8z"),
        *_box(x, BELOW, ORANGE, BLACK, sight.first_seq, sight.last_seq),
        _small(middle, BELOW + TALL + 13, f"arrives, epoch {sight.epoch}"),
    ]


def _answers(sight: Sight) -> list[Svg]:
    y = BELOW + TALL + 44
    parts = []
    for name, answer in (("Kafka 4.3.1", sight.kafka), ("your code", sight.yours)):
        parts.append(el("text", name, cls="ink", x=LEFT, y=y, font_size=12, font_weight="bold"))
        parts.append(el("text", answer, cls="ink", x=LEFT + 96, y=y, font_size=12))
        y += 24
    wide = min(WIDTH - 2 * LEFT, 110 + 7 * len(sight.yours))
    parts.append(el("rect", x=LEFT - 6, y=y - 40, width=wide, height=22, fill="none", stroke=RED, stroke_width=1.5))
    return parts


def _box(x: float, y: float, fill: str, ink: str | None, first: int, last: int, dash: str | None = None) -> list[Svg]:
    """A batch with its sequences; long numbers stand on two lines."""
    rect = el("rect", cls="ink-line", x=x, y=y, width=SLOT, height=TALL, rx=4, fill=fill, stroke_dasharray=dash)
    lines = [str(first)] if first == last else [f"{first}-{last}"]
    if len(lines[0]) > 11 and first != last:
        lines = [f"{first}-", str(last)]
    start = y + (21 if len(lines) == 1 else 14)
    return [
        rect,
        *(
            el("text", line, cls=None if ink else "ink", fill=ink, x=x + SLOT / 2, y=start + 14 * row, font_size=11, text_anchor="middle")
            for row, line in enumerate(lines)
        ),
    ]


def _small(x: float, y: float, text: str) -> Svg:
    return el("text", text, cls="grey", x=x, y=y, font_size=11, text_anchor="middle")


# Made smaller.


def differ(right: Any, got: Any) -> str:
    """How an answer is not the right one, in words; "" when it is."""
    if found := raised(got):
        return found
    return "" if right == got and type(right) is type(got) else f"it should return {right!r}; yours returns {plain_text(repr(got), 80)}"


def simpler(steps: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The same batches in partition 0, of producers 1, 2, ..., at the offsets that they have then; and from sequence 0 or 10 on."""
    pids, ends, shorter = numbered([step["given"][1] for step in steps if len(step["given"]) > 1]), 0, []
    for step in steps:
        given = [0, *(pids[pid] for pid in step["given"][1:2]), *step["given"][2:]]
        if step["op"] == "append":
            given[-1], ends = ends, ends + given[4]
        shorter.append({**step, "given": given})
    yield shorter
    first = next((step["given"][3] for step in shorter if step["op"] == "append"), 0)
    for begin in (0, 10) if first > 10 else ():
        yield [_later(step, begin - first) if step["op"] == "append" else step for step in shorter]


def _later(step: dict[str, Any], by: int) -> dict[str, Any]:
    given = step["given"]
    return {**step, "given": [*given[:3], increment_sequence(given[3], by), *given[4:]]}


def call(step: dict[str, Any]) -> str:
    """`append(1, 0, 5, 2, 10)`: without the partition."""
    return f"{step['op']}({', '.join(map(str, step['given'][1:]))})"


def rows(answer: Any) -> dict[str, str]:
    """What was answered."""
    return {"answers": "" if answer is None else plain_text(answer, 80)}


def batch(step: dict[str, Any]) -> str:
    """A batch in words, for a function that is asked about each one."""
    if step["op"] != "append":
        return call(step)
    pid, epoch, seq, count = step["given"][1:5]
    return f"producer {pid} sends epoch={epoch}, seq={seq}, count={count}"


def _recording(name: str, is_function: bool) -> Recording:
    right, told = (solutions.check_sequence, batch) if is_function else (solutions.BrokerState, call)
    scripts, said = partial(bundled_scripts, is_function), partial(_said, is_function)
    return Recording(
        scripts, operations, answers_to, _judged, _where, said,
        name=f"{__name__}:{name}", right=right, differ=differ, simpler=simpler, call=told, rows=rows, original="Kafka 4.3.1",
        kits=("kitlib.kafka.broker.producer_state:ProducerStateManager",),
    )  # fmt: skip


CHECK, STATE = _recording("CHECK", True), _recording("STATE", False)
