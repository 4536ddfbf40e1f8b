"""What a step says to a learner: one plain sentence for each word that a trace may hold.

The words and their data are listed in `kitlib.monitor.delivery`; what the tasks of a topology do is in
`kitlib.views.task_sentences`, what producers and brokers do in `kitlib.views.producer_sentences`. A
word that is not known is told as it stands, so a new mechanism's trace can be shown before its
sentences are written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kitlib.trace import Range, Step
from kitlib.views.producer_sentences import PRODUCER_TELLERS, is_side
from kitlib.views.task_sentences import TASK_TELLERS, is_task
from kitlib.views.text import plain_text

Data = dict[str, Any]


def tell(step: Step) -> str:
    """The step's sentence: printable text on one line, not escaped for HTML."""
    if step.cut_at is not None:
        return f"The run is cut here, at max_steps={step.cut_at}: whatever would come next is not in this trace."
    try:
        if step.what in PRODUCER_TELLERS and is_side(step.actor):
            return PRODUCER_TELLERS[step.what](plain_text(step.actor, 40), step.data)
        if step.what in TASK_TELLERS and (step.what not in _TELLERS or is_task(step.actor)):
            return TASK_TELLERS[step.what](plain_text(step.actor, 40), step.data)
        if step.what in _TELLERS:
            return _TELLERS[step.what](step.data)
    except (AttributeError, KeyError, TypeError, ValueError):
        pass  # the data are not what the word promises: tell them as they stand
    return as_it_stands(step)


def as_it_stands(step: Step) -> str:
    """The step's actor, word and data, where there is no sentence for them."""
    return plain_text(f"{step.actor}: {step.what} {_told(step.data)}".strip())


def place(data: Data, run: str) -> str:
    """`orders, partition 0`: without the run's own prefix, so that both backends' pictures say the same."""
    topic = str(data["topic"]).removeprefix(f"kit.{run}.")
    return f"{plain_text(topic, 60)}, partition {plain_text(data['partition'], 12)}"


def count(number: int, one: str, many: str = "") -> str:
    """`1 record`, `1,000 records`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def span(first: int, last: int) -> str:
    """`offset 7`, or `offsets 7 to 9`."""
    return f"offset {first:d}" if first == last else f"offsets {first:d} to {last:d}"


def spans(ranges: list[Range]) -> str:
    """`offsets 7 to 9, 12`, at most four ranges of them."""
    told = [f"{a:d}" if a == b else f"{a:d} to {b:d}" for a, b in ranges[:4]]
    more = f" and {len(ranges) - 4} more ranges" if len(ranges) > 4 else ""
    is_one = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    return f"{'offset' if is_one else 'offsets'} {', '.join(told)}{more}"


def _told(data: Data) -> str:
    return ", ".join(f"{key} {value}" for key, value in data.items() if key not in ("topic", "partition"))


def _append(data: Data) -> str:
    first, last = data["first"], data["last"]
    number = len(data["offsets"]) if "offsets" in data else last - first + 1
    arrives = "arrives" if number == 1 else "arrive"
    return f"{count(number, 'record')} {arrives} in the log: {span(first, last)}."


def _delete(data: Data) -> str:
    return f"Retention deletes the log's start: it now begins at offset {data['to']:d}."


def _compact(data: Data) -> str:
    offsets = data["offsets"]
    return f"Compaction removes {count(len(offsets), 'record')}; their offsets stay empty."


def _start(data: Data) -> str:
    why = f": {plain_text(data['why'], 120)}" if data.get("why") else ""
    offset, stored = data["offset"], data.get("stored")
    found = "" if stored is None or stored == offset else f"Offset {stored:d} was stored."
    return f"The spout starts at offset {offset:d}{why}. {found}".rstrip()


def _emit(data: Data) -> str:
    attempt, parts = data.get("attempt", 1), data.get("parts", 1)
    again = f" again, attempt {attempt:d}" if attempt > 1 else ""
    several = f" as {parts:d} tuples" if parts != 1 else ""
    return f"The spout emits offset {data['offset']:d}{several}{again}."


def _process(data: Data) -> str:
    part = data.get("part")
    which = f", part {part:d}" if part else ""
    return f"The bolt works on offset {data['offset']:d}{which}: the effect happens now."


def _fail(data: Data) -> str:
    offset = data["offset"]
    if data.get("retry", True):
        return f"Offset {offset:d} fails; the spout will fetch it again."
    return f"Offset {offset:d} fails and is NOT retried: it stays pending and nobody works on it."


def _clear(data: Data) -> str:
    return f"That ack clears {spans(data['ranges'])} from pending: too far behind, nobody waits for them now."


def _commit(data: Data) -> str:
    if data.get("written", True):
        return f"The spout commits offset {data['offset']:d}: everything below it counts as done."
    return f"Nothing new to commit: still offset {data['offset']:d}."


def _reset(data: Data) -> str:
    before, after = data["from"], data["to"]
    asked, way = data.get("asked", before), "forward" if after > before else "back"
    if asked == before:
        return f"Offset {before:d} is out of range; the spout moves {way} to {after:d}."
    moves = f"stays at {after:d}" if after == before else f"moves {way} from {before:d} to {after:d}"
    return f"Failed offset {asked:d} is out of range; the spout's position {moves}."


def _crash(data: Data) -> str:
    lost = data.get("on_their_way", 0)
    return f"The worker dies; {count(lost, 'tuple')} on their way {'is' if lost == 1 else 'are'} forgotten with it."


def _error(data: Data) -> str:
    message = plain_text(data.get("message", ""), 160)
    return f"The spout throws {plain_text(data['error'], 60)}" + (f": {message}" if message else "") + "."


# Transactional batches, and what a story adds


def _batch_begin(data: Data) -> str:
    again = f" again, attempt {data['attempt']:d}" if data["attempt"] > 1 else ""
    return f"Batch {data['txid']:d} is emitted{again}: {span(data['first'], data['last'])}."


def _batch_fail(data: Data) -> str:
    others = len(data["ended"]) - 1
    more = f" {count(others, 'later batch', 'later batches')} must be emitted again with it." if others > 0 else ""
    return f"Batch {data['txid']:d} fails: {plain_text(data['why'], 120)}.{more}"


def _put(data: Data) -> str:
    before = "begins at" if data["before"] is None else f"goes from {data['before']:,} to"
    return (
        f"The count of {plain_text(data['word'], 40)} {before} {data['value']:,}, stored with batch {data['txid']:d}."
    )


def _batch_skip(data: Data) -> str:
    word = plain_text(data["word"], 40)
    return f"The count of {word} stays {data['value']:,}: batch {data['txid']:d} was written there already."


def _result(data: Data) -> str:
    counts, truth = data["counts"], data["truth"]
    wrong = sum(counts.get(word) != truth.get(word) for word in counts.keys() | truth.keys())
    told = f"{wrong:,} of them wrong" if wrong else "all of them right"
    return f"The table holds the counts of {count(len(counts), 'word')}, {told}."


def _sample(data: Data) -> str:
    return (
        f"So far {count(data['acked'], 'tree')} acked and {data['failed']:,} failed; {data['wasted']:,} of "
        f"{count(data['executed'], 'effect')} in vain; {data['pending']:,} trees pending, {data['queue']:,} tuples in queues."
    )


def _odds(data: Data) -> str:
    messages, false = data["messages"], data["false_completions"]
    return (
        f"{count(messages, 'message')} came while a tree had open tuples: its number was zero by chance "
        f"{count(false, 'time')}, {data['predicted']:g} predicted."
    )


_TELLERS: dict[str, Callable[[Data], str]] = {
    "append": _append,
    "delete": _delete,
    "compact": _compact,
    "start": _start,
    "emit": _emit,
    "process": _process,
    "ack": lambda data: f"Offset {data['offset']:d} is acked.",
    "fail": _fail,
    "clear": _clear,
    "give_up": lambda data: f"The spout gives offset {data['offset']:d} up: it has used all its retries.",
    "crash": _crash,
    "commit": _commit,
    "reset": _reset,
    "idle": lambda data: "The spout finds nothing to emit.",
    "error": _error,
    "stop": lambda data: "The spout stops.",
    "batch_begin": _batch_begin,
    "batch_done": lambda data: f"Batch {data['txid']:d} is processed and waits for its turn to commit.",
    "batch_commit": lambda data: f"It is the turn of batch {data['txid']:d}: its commit begins.",
    "batch_fail": _batch_fail,
    "batch_skip": _batch_skip,
    "put": _put,
    "result": _result,
    "sample": _sample,
    "odds": _odds,
}
