"""The exercises of notebook 06: the word count from end to end.

Every truth comes out of a run, of the plain acker, or of the lines themselves when the answer is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from kitlib.exercises.frame import Exercise, NotYet, a_function, knobs_for, some_of, unbroken, whole_number
from kitlib.exercises.sandbox import run_steps
from kitlib.experiments import run
from kitlib.experiments.storm.word_stories import make_lines
from kitlib.storm.acker import ACKER_ACK_STREAM_ID, Acker
from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views import show

BATCH_RECORDS, CRASH_TXID = 6, 3  # of the first exercise
OPAQUE_KNOBS = ("replay_differs", "crash_when", "crash_txid", "batch_records")
LINES, LINES_A_BATCH = 12, 3  # of own_put

# What an acker is told of each tree: an init (val, from spout task 1), acks (val), a fail.
TREES: dict[str, list[tuple[str, int | None]]] = {
    "A": [("init", 5), ("ack", 12), ("ack", 9)],
    "B": [("init", 5), ("ack", 5), ("ack", 5)],
    "C": [("ack", 12), ("ack", 9), ("init", 5)],
    "D": [("init", 5), ("fail", None), ("ack", 5)],
    "E": [("init", 5), ("ack", 5), ("fail", None)],
    "F": [("init", 5), ("ack", 12), ("fail", None)],
}

Put = list[Any]  # word, count, batch id
Entry = list[Any]


def off_by(trace: Trace) -> tuple[int, int]:
    """How many words of the lines are not in the counts at a run's end, and how many are counted too many."""
    told = trace.steps[-1].data
    counts, truth = Counter(told["counts"]), Counter(told["truth"])
    return (truth - counts).total(), (counts - truth).total()


# -- doubled_words -------------------------------------------------------------------------------------


def check_doubled_words(answer: Any) -> str:
    """The words that a run with plain counts counts twice."""
    guess = whole_number(answer)
    trace = run(
        "transactional_word_count", state="plain", batch_records=BATCH_RECORDS, crash_txid=CRASH_TXID, crash_when="after"
    )
    _, twice = off_by(trace)
    if guess == twice:
        return (
            f"{twice} words stand in batch {CRASH_TXID}. All of them were written when the worker died, and nothing said so: "
            "the batch came again, and a plain count cannot see that it knows it already."
        )
    parts = trace.at(0).data["parts"]
    edges = [*range(0, len(parts), BATCH_RECORDS), len(parts)]
    batches = [sum(parts[first:end]) for first, end in pairwise(edges)]
    if guess == sum(parts):
        raise NotYet(f"{guess} are the words of all lines.", "Do the other batches come again, too?")
    if guess in batches:
        raise NotYet(f"{guess} words stand in batch {batches.index(guess) + 1}.", "Which batch comes again? The first one is batch 1.")
    if guess == BATCH_RECORDS:
        raise NotYet(f"{guess} lines come again.", "Words are counted, not lines.")
    if guess == len({step.data["word"] for step in trace if step.what == "put" and step.data["txid"] == CRASH_TXID}):
        raise NotYet(f"{guess} different words stand in the batch that comes again.", "A word may stand in it several times.")
    raise NotYet(f"it is not {guess}.")


# -- break_opaque --------------------------------------------------------------------------------------


def check_break_opaque(answer: Any) -> str:
    """Knobs with which opaque state miscounts: the run tells."""
    knobs = knobs_for("transactional_word_count", answer, OPAQUE_KNOBS)
    trace = run("transactional_word_count", state="opaque", **knobs)
    missing, extra = off_by(trace)
    turned = ", ".join(f"{name}={value}" for name, value in knobs.items()) or "the defaults"
    if not missing + extra:
        look = {
            "no": "Opaque state is made for a batch that differs. In which way may it differ?",
            "longer": "A longer batch brings every word of the first try again. What about one that does not?",
            "shorter": "Which words of the first try must be *written* before the worker dies?",
        }[trace.knobs["replay_differs"]]
        raise NotYet(f"with {turned} every word is counted once.", look, show(trace, part="log"))
    return (
        f"with {turned} {extra} words are counted too many. A word of the first try that is not in the second one is not "
        "taken back, since nothing asks for it; the lines that were cut off come in the next batch and count it again."
    )


# -- own_put -------------------------------------------------------------------------------------------


def batches_of(lines: list[bytes]) -> list[list[Put]]:
    """The puts of each batch of lines: each word of it once, with its count."""
    cut = [lines[first : first + LINES_A_BATCH] for first in range(0, len(lines), LINES_A_BATCH)]
    words = [Counter(b" ".join(batch).decode().split()) for batch in cut]
    return [[[word, count, txid] for word, count in found.items()] for txid, found in enumerate(words, 1)]


def put_stories(lines: list[bytes]) -> dict[str, list[list[Put]]]:
    """What is put, by each worker after the one that died."""
    first, second, third, last = batches_of(lines)
    return {
        "nothing goes wrong": [first + second + third + last],
        "the worker dies in the middle of batch 2": [first + second[: len(second) // 2], second + third + last],
        "the worker dies after the last put of batch 2": [first + second, second + third + last],
    }


def written(put: Any, script: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The table after the learner's puts; runs in the learner's process, a new one for each worker."""
    table = dict(script["table"])
    for word, count, batch_id in script["puts"]:
        put(table, word, count, batch_id)
    yield table


def table_after(put: Any, name: str, lives: list[list[Put]]) -> Any:
    """The table that a story's last worker leaves; each worker is a process of its own."""
    table: Any = {}
    for puts in lives:
        outcome = unbroken(run_steps(written, put, [{"name": name, "table": table, "puts": puts}]))
        if (raised := outcome.raised[0]) is not None:
            raise NotYet(f"when {name}, your code raised {raised.what}.", "Look at that line first.")
        table = outcome.answers[0][0]
    return table


def check_own_put(answer: Any) -> str:
    """The learner's put in some stories, each worker in a process of its own, against the words of the lines."""
    put = a_function(answer, "put")
    lines = make_lines(LINES, seed=6)
    truth = Counter(b" ".join(lines).decode().split())
    for name, lives in put_stories(lines).items():
        compare_table(name, table_after(put, name, lives), truth)
    return (
        f"{truth.total()} words, every one counted once wherever the worker dies. A replayed put finds its own batch's id beside the "
        "count and changes nothing. The id has to lie where the count lies: whatever is kept elsewhere may die between the two."
    )


def compare_table(name: str, table: Any, truth: Counter[str]) -> None:
    """NotYet with the first word that is wrong in the table."""
    for word, times in truth.items():
        entry = table.get(word) if isinstance(table, dict) else None
        if entry is None:
            raise NotYet(f"when {name}, the table has no '{word}'.", "Set `table[word]` for every word that is new.")
        if not isinstance(entry, list | tuple) or not entry or type(entry[0]) is not int:
            raise NotYet(
                f"when {name}, table['{word}'] is {plain_text(entry, 40)}, expected a list with the count first.",
                "Store `[count, ...]`: the count, and whatever you need beside it.",
            )
        if entry[0] != times:
            raise NotYet(f"when {name}, '{word}' is counted {entry[0]} times and stands {times} times in the lines.")
    if strange := sorted(map(str, table.keys() - truth.keys())):
        raise NotYet(f"when {name}, the table has '{plain_text(strange[0], 40)}', and no line has that word.")


# -- sum_differs ---------------------------------------------------------------------------------------


def by_the_acker(messages: list[tuple[str, int | None]]) -> str:
    """How the plain acker ends a tree: what it tells the spout first, or "open"."""
    acker = Acker()
    for kind, val in messages:
        if kind == "fail":
            told = acker.fail(1)
        else:
            told = acker.init(1, val or 0, spout_task=1) if kind == "init" else acker.ack(1, val or 0)
        if told is not None:
            return "acked" if told.stream == ACKER_ACK_STREAM_ID else "failed"
    return "open"


def by_the_sum(messages: list[tuple[str, int | None]]) -> str:
    """How one aggregate over all messages of a tree ends it, whatever their order; before its time-out."""
    total = 0
    for _, val in messages:
        total ^= val or 0
    if total == 0:
        return "acked"
    return "failed" if any(kind == "fail" for kind, _ in messages) else "open"


def check_sum_differs(answer: Any) -> str:
    """The trees of which the plain acker and the sum tell different ends."""
    named = some_of(answer, TREES)
    if not named:
        raise NotYet("no tree is named.")
    ends = {name: (by_the_acker(messages), by_the_sum(messages)) for name, messages in TREES.items()}
    for name in sorted(named):
        if ends[name][0] == ends[name][1]:
            raise NotYet(f"tree {name} is {ends[name][0]} for both of them.")
    right = {name for name, (plain, total) in ends.items() if plain != total}
    if named != right:
        raise NotYet(f"{' and '.join(sorted(named))} {'is' if len(named) == 1 else 'are'} right, and another one is missing.")
    told = "; ".join(f"{name} is {ends[name][0]} for the acker and {ends[name][1]} for the sum" for name in sorted(right))
    return f"{told}. A sum knows what came, and not in which order it came."


EXERCISES = (
    Exercise(
        "doubled_words",
        f"Plain counts, {BATCH_RECORDS} lines in a batch. The worker dies right after the last write of batch {CRASH_TXID}, before the "
        "commit is known. How many words will be counted too many in the end?",
        check_doubled_words,
        (
            "Which lines come again? Batch 1 begins with the first line.",
            f"`parts` says how many words each line has. Add up those of batch {CRASH_TXID}.",
        ),
    ),
    Exercise(
        "break_opaque",
        "Opaque state was right in part 2. Make it wrong: turn `replay_differs`, `crash_when`, `crash_txid` or `batch_records` so that "
        "a word is miscounted although its state is opaque.",
        check_break_opaque,
        (
            "Opaque state takes a word's last write back when the *word* comes again under the same id.",
            "So let a word be written that does not come again with that batch. The batch has to become shorter.",
        ),
    ),
    Exercise(
        "own_put",
        "Write `put(table, word, count, batch_id)`. It adds a batch's count of a word to `table[word]`, a list that begins with the "
        "word's count. Ids are 1, 2, 3, ... and committed in this order. The worker may die at any time and remembers nothing but "
        "the table; a batch that was not finished comes again with the same words. In the end each word must be counted once.",
        check_own_put,
        (
            "What must lie beside the count, so that a put can see that it has been done already?",
            "Store `[count, batch_id]`. What does it mean when the stored id is the one that you are given?",
        ),
    ),
    Exercise(
        "sum_differs",
        "Six trees, each told to the acker in these messages, and no time passes. Of which trees does one sum over all messages tell "
        "another end than the plain acker?",
        check_sum_differs,
        (
            "For each tree: what does the acker say when it first says something? And what is the XOR of all values?",
            "The acker stops at its first word. Look for trees in which something comes after it.",
        ),
    ),
)
