"""The exercises of notebook 06: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kitlib.exercises import nb_06
from kitlib.experiments.storm.word_stories import make_lines
from tests.exercises.solutions import slip, slips


def words_of_batch(number: int) -> list[bytes]:
    return b" ".join(make_lines(24, seed=1)[6 * (number - 1) : 6 * number]).split()


def parts_of_batch(number: int) -> int:
    return len(words_of_batch(number))


def with_every_id(table: Any, word: str, count: int, batch_id: int) -> None:
    entry = table.setdefault(word, [0])
    if batch_id not in entry[1:]:
        entry[0] += count
        entry.append(batch_id)


PUT = "[before + count, batch_id]"


SOLUTIONS: list[tuple[str, Any, str]] = [
    ("doubled_words", ..., "batch 2 has 29 words"),
    ("doubled_words", float(parts_of_batch(3)), "batch 2 has 29 words"),
    ("own_put", ..., "every one counted once"),
    ("own_put", with_every_id, "every one counted once"),
    ("own_put", slip("own_put", PUT, "(before + count, batch_id)"), "every one counted once"),
    ("sum_differs", ..., "D is failed for the acker and acked for the sum"),
    ("sum_differs", ["d", "b"], "B is acked for the acker and open for the sum"),
]

WRONG: list[tuple[str, Any, str]] = [
    ("doubled_words", parts_of_batch(2), "batch 1 has"),
    ("doubled_words", sum(map(parts_of_batch, (1, 2, 3, 4))), "all lines together have"),
    ("doubled_words", 6, "Words are counted, not lines"),
    ("doubled_words", len({*words_of_batch(3)}), "A word may be in it several times"),
    ("doubled_words", 1_000, "it is not 1000"),
    ("own_put", lambda table, word, count, batch_id: None, "the table has no"),
    *slips(
        "own_put",
        ("last != batch_id", "True", "in the middle of batch 2"),
        ("import Any", "import Any\n\nSEEN = set()",
         "if last != batch_id:", "if (word, batch_id) not in SEEN:\n        SEEN.add((word, batch_id))", "in the middle of batch 2"),
        ("last != batch_id", "last != count", PUT, "[before + count, count]", "when nothing goes wrong"),
        ("last != batch_id", "word not in table", "when nothing goes wrong"),
        (PUT, f'{PUT}\n    table["last batch"] = [0, batch_id]', "the table has 'last batch', which is not a word of the lines"),
        ("table.get(word, [0, 0])", "table.get(word, 0), None", PUT, "before + count", "expected a list with the count first"),
        ("table.get(word, [0, 0])", "table[word]", "KeyError"),
    ),
    ("sum_differs", {"D"}, "another one is missing"),
    ("sum_differs", {"B", "D", "A"}, "tree A is acked for both"),
    ("sum_differs", set(), "you named no tree"),
]  # fmt: skip


def test_stories_of_own_put_replay_whole_batches() -> None:
    """Who dies has written a part of batch 2 at least, and the next worker begins with the whole of it."""
    stories = list(nb_06.put_stories(make_lines(nb_06.LINES, seed=6)).values())
    assert [len(lives) for lives in stories] == [1, 2, 2]
    [[all_puts], *others] = stories
    for before, after in others:
        again = [each for each in before if each in after]
        assert again and {batch_id for _, _, batch_id in again} == {2}
        assert sorted(map(str, before + [each for each in after if each not in before])) == sorted(map(str, all_puts))


@pytest.mark.spark
@pytest.mark.slow
def test_sum_of_the_exercise_is_what_the_aggregate_on_spark_says(spark: Any, tmp_path: Path) -> None:
    """The trees of the exercise as a stream of messages end as the aggregate ends them."""
    from kitlib.pipelines import acker_stream
    from kitlib.pipelines.acker_stream import MESSAGES

    rows = [(kind, root, val) for root, tree in enumerate(nb_06.TREES.values(), 1) for kind, val in tree]
    told = [(n, n, kind, root, val, 1 if kind == "init" else None) for n, (kind, root, val) in enumerate(rows)]
    spark.createDataFrame(told, MESSAGES).coalesce(1).write.parquet(str(tmp_path / "source"))
    messages = spark.readStream.schema(MESSAGES).parquet(str(tmp_path / "source"))
    ends = acker_stream.outcomes(messages, tmp_path / "stream", 60_000).collect()
    told_ends = {end["root"]: end["outcome"] for end in ends if end["outcome"] != "orphan"}
    assert told_ends == {root: nb_06.by_the_sum(tree) for root, tree in enumerate(nb_06.TREES.values(), 1)}
