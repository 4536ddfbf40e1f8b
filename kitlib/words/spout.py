"""Words of a spout, its bolt and the log: the vocabulary of a PartitionManager's run.

log    append, delete, compact        spout  start, emit, ack, fail, reset, clear, give_up, commit, error, ...
bolt   process                        coordinator of transactional batches  batch_begin ... batch_skip, put
"""

from __future__ import annotations

from kitlib.text import plain_text
from kitlib.words.word import Data, Domain, Word, count, span, spans


def _append(who: str, data: Data) -> str:
    first, last = data["first"], data["last"]
    number = len(data["offsets"]) if "offsets" in data else last - first + 1
    arrives = "arrives" if number == 1 else "arrive"
    return f"{count(number, 'record')} {arrives} in the log: {span(first, last)}."


def _compact(who: str, data: Data) -> str:
    offsets = data["offsets"]
    return f"Compaction removes {count(len(offsets), 'record')}; their offsets stay empty."


def _start(who: str, data: Data) -> str:
    why = f": {plain_text(data['why'], 120)}" if data.get("why") else ""
    offset, stored = data["offset"], data.get("stored")
    found = "" if stored is None or stored == offset else f"Offset {stored:d} was stored."
    return f"The spout starts at offset {offset:d}{why}. {found}".rstrip()


def _emit(who: str, data: Data) -> str:
    attempt, parts = data.get("attempt", 1), data.get("parts", 1)
    again = f" again, attempt {attempt:d}" if attempt > 1 else ""
    several = f" as {parts:d} tuples" if parts != 1 else ""
    return f"The spout emits offset {data['offset']:d}{several}{again}."


def _process(who: str, data: Data) -> str:
    part = data.get("part")
    which = f", part {part:d}" if part else ""
    return f"The bolt processes offset {data['offset']:d}{which}: the effect happens now."


def _fail(who: str, data: Data) -> str:
    offset = data["offset"]
    if data.get("retry", True):
        return f"Offset {offset:d} fails; the spout will fetch it again."
    return f"Offset {offset:d} fails and is NOT retried: it stays pending, and no one will process it."


def _clear(who: str, data: Data) -> str:
    return f"That ack clears {spans(data['ranges'])} from pending: they are too far behind, so the spout stops waiting for them."


def _commit(who: str, data: Data) -> str:
    if data.get("written", True):
        return f"The spout commits offset {data['offset']:d}: everything below it counts as done."
    return f"Nothing new to commit: still offset {data['offset']:d}."


def _reset(who: str, data: Data) -> str:
    before, after = data["from"], data["to"]
    asked, way = data.get("asked", before), "forward" if after > before else "back"
    if asked == before:
        return f"Offset {before:d} is out of range; the spout moves {way} to {after:d}."
    moves = f"stays at {after:d}" if after == before else f"moves {way} from {before:d} to {after:d}"
    return f"Failed offset {asked:d} is out of range; the spout's position {moves}."


def _crash(who: str, data: Data) -> str:
    lost = data.get("on_their_way", 0)
    return f"The worker dies; {count(lost, 'in-flight tuple')} {'is' if lost == 1 else 'are'} lost with it."


def _error(who: str, data: Data) -> str:
    message = plain_text(data.get("message", ""), 160)
    return f"The spout throws {plain_text(data['error'], 60)}" + (f": {message}" if message else "") + "."


# Transactional batches, and what a story adds


def _batch_begin(who: str, data: Data) -> str:
    again = f" again, attempt {data['attempt']:d}" if data["attempt"] > 1 else ""
    return f"Batch {data['txid']:d} is emitted{again}: {span(data['first'], data['last'])}."


def _batch_fail(who: str, data: Data) -> str:
    others = len(data["ended"]) - 1
    more = f" {count(others, 'later batch', 'later batches')} must be emitted again with it." if others > 0 else ""
    return f"Batch {data['txid']:d} fails: {plain_text(data['why'], 120)}.{more}"


def _put(who: str, data: Data) -> str:
    before = "begins at" if data["before"] is None else f"goes from {data['before']:,} to"
    return (
        f"The count of {plain_text(data['word'], 40)} {before} {data['value']:,}, stored with batch {data['txid']:d}."
    )


def _batch_skip(who: str, data: Data) -> str:
    word = plain_text(data["word"], 40)
    return f"The count of {word} stays {data['value']:,}: batch {data['txid']:d} has already been applied to it."


def _result(who: str, data: Data) -> str:
    counts, truth = data["counts"], data["truth"]
    wrong = sum(counts.get(word) != truth.get(word) for word in counts.keys() | truth.keys())
    told = f"{wrong:,} of them wrong" if wrong else "all of them right"
    return f"The table holds the counts of {count(len(counts), 'word')}, {told}."


def _sample(who: str, data: Data) -> str:
    return (
        f"So far {count(data['acked'], 'tree')} acked and {data['failed']:,} failed; {data['wasted']:,} of "
        f"{count(data['executed'], 'effect')} wasted; {data['pending']:,} trees pending, {data['queue']:,} tuples queued."
    )


def _odds(who: str, data: Data) -> str:
    messages, false = data["messages"], data["false_completions"]
    return (
        f"{count(messages, 'message')} arrived while a tree still had open tuples: its ack value was zero by chance "
        f"{count(false, 'time')}; {data['predicted']:g} were expected."
    )


SPOUT = Domain(
    "spout",
    {
        "append": Word(_append, "first last", "offsets parts", judged="append"),
        "delete": Word("Retention deletes the start of the log: it now begins at offset {to:d}.", "to", judged="delete"),
        "compact": Word(_compact, "offsets", judged="compact"),
        "start": Word(_start, "offset", "stored topology_id txid why", judged="start"),
        "emit": Word(_emit, "offset", "attempt parts txid", judged="emit"),
        "process": Word(_process, "offset", "part", judged="process"),
        "ack": Word("Offset {offset:d} is acked.", "offset", judged="ack"),
        "fail": Word(_fail, "offset", "retry", judged="fail"),
        "clear": Word(_clear, "ranges", "by", judged="clear"),
        "give_up": Word(
            "The spout gives up on offset {offset:d}: no retries are left.", "offset", judged="give_up"
        ),
        "crash": Word(_crash, "", "lost on_their_way"),
        "lose": Word("A tuple of offset {offset:d} is lost: the bolt never sees it, and the spout waits.", "offset", "attempt"),
        "lose_ack": Word(
            "The ack of offset {offset:d} is lost: its effect has happened, and the spout waits.", "offset", "attempt",
            judged="lose_ack",
        ),
        "delay": Word("A tuple of offset {offset:d} is held back for {ms:,} ms.", "ms offset", "attempt"),
        "double": Word("A tuple of offset {offset:d} is delivered twice.", "offset", "attempt"),
        "commit": Word(_commit, "offset", "txid written", judged="commit"),
        "reset": Word(_reset, "from to", "asked", judged="reset"),
        "idle": Word("The spout finds nothing to emit."),
        "error": Word(_error, "error", "message", judged="error"),
        "stop": Word("The spout stops."),
        "batch_begin": Word(_batch_begin, "attempt first last txid"),
        "batch_done": Word("Batch {txid:d} is processed and waits for its turn to commit.", "txid", "attempt"),
        "batch_commit": Word("It is batch {txid:d}'s turn: its commit begins.", "txid", "attempt"),
        "batch_fail": Word(_batch_fail, "ended txid why", "attempt"),
        "batch_skip": Word(_batch_skip, "txid value word"),
        "put": Word(_put, "before txid value word"),
        "result": Word(_result, "counts truth"),
        "sample": Word(_sample, "acked executed failed pending queue wasted", "late"),
        "odds": Word(_odds, "false_completions messages predicted"),
    },
)
