"""The exercises of notebook 06: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kitlib.exercises import nb_06
from kitlib.experiments.storm.word_stories import make_lines


def words_of_batch(number: int) -> list[bytes]:
    return b" ".join(make_lines(24, seed=1)[6 * (number - 1) : 6 * number]).split()


def parts_of_batch(number: int) -> int:
    return len(words_of_batch(number))


def with_every_id(table: Any, word: str, count: int, batch_id: int) -> None:
    entry = table.setdefault(word, [0])
    if batch_id not in entry[1:]:
        entry[0] += count
        entry.append(batch_id)


def as_a_tuple(table: Any, word: str, count: int, batch_id: int) -> None:
    before, last = table.get(word, (0, 0))
    if batch_id > last:
        table[word] = (before + count, batch_id)


def without_an_id(table: Any, word: str, count: int, batch_id: int) -> None:
    table[word] = [table.get(word, [0])[0] + count]


SEEN: set[tuple[str, int]] = set()


def id_in_memory(table: Any, word: str, count: int, batch_id: int) -> None:
    if (word, batch_id) not in SEEN:
        SEEN.add((word, batch_id))
        table[word] = [table.get(word, [0])[0] + count]


def same_count_is_a_replay(table: Any, word: str, count: int, batch_id: int) -> None:
    before, last = table.get(word, [0, 0])
    if last != count:
        table[word] = [before + count, count]


def first_put_only(table: Any, word: str, count: int, batch_id: int) -> None:
    table.setdefault(word, [count, batch_id])


def id_under_a_key(table: Any, word: str, count: int, batch_id: int) -> None:
    without_an_id(table, word, count, batch_id)
    table["last batch"] = [0, batch_id]


def a_number(table: Any, word: str, count: int, batch_id: int) -> None:
    table[word] = table.get(word, 0) + count


def unknown_word(table: Any, word: str, count: int, batch_id: int) -> None:
    table[word][0] += count


SOLUTIONS: list[tuple[str, Any, str]] = [
    ("doubled_words", ..., "batch 2 has 29 words"),
    ("doubled_words", float(parts_of_batch(3)), "batch 2 has 29 words"),
    ("own_put", ..., "every one counted once"),
    ("own_put", with_every_id, "every one counted once"),
    ("own_put", as_a_tuple, "every one counted once"),
    ("sum_differs", ..., "D is failed for the acker and acked for the sum"),
    ("sum_differs", ["d", "b"], "B is acked for the acker and open for the sum"),
]

WRONG: list[tuple[str, Any, str]] = [
    ("doubled_words", parts_of_batch(2), "batch 1 has"),
    ("doubled_words", parts_of_batch(4), "batch 3 has"),
    ("doubled_words", sum(map(parts_of_batch, (1, 2, 3, 4))), "all lines together have"),
    ("doubled_words", 6, "Words are counted, not lines"),
    ("doubled_words", len({*words_of_batch(3)}), "A word may be in it several times"),
    ("doubled_words", 1_000, "it is not 1000"),
    ("doubled_words", "29", "should be a number"),
    ("own_put", lambda table, word, count, batch_id: None, "the table has no"),
    ("own_put", without_an_id, "in the middle of batch 2"),
    ("own_put", id_in_memory, "in the middle of batch 2"),
    ("own_put", same_count_is_a_replay, "when nothing goes wrong"),
    ("own_put", first_put_only, "when nothing goes wrong"),
    ("own_put", id_under_a_key, "the table has 'last batch', which is not a word of the lines"),
    ("own_put", a_number, "expected a list with the count first"),
    ("own_put", unknown_word, "KeyError"),
    ("own_put", {"put": 1}, "should be a function"),
    ("sum_differs", "B", "another one is missing"),
    ("sum_differs", {"D"}, "another one is missing"),
    ("sum_differs", {"B", "D", "A"}, "tree A is acked for both"),
    ("sum_differs", {"C"}, "tree C is acked for both"),
    ("sum_differs", {"F"}, "tree F is failed for both"),
    ("sum_differs", set(), "you named no tree"),
    ("sum_differs", {"G"}, "should be one of"),
    ("sum_differs", 2, "should be a set of names"),
]


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
    from kitlib.pipelines.acker_stream import MESSAGES, finish

    rows = [(kind, root, val) for root, tree in enumerate(nb_06.TREES.values(), 1) for kind, val in tree]
    told = [(n, n, kind, root, val, 1 if kind == "init" else None) for n, (kind, root, val) in enumerate(rows)]
    spark.createDataFrame(told, MESSAGES).coalesce(1).write.parquet(str(tmp_path / "source"))
    messages = spark.readStream.schema(MESSAGES).parquet(str(tmp_path / "source"))
    finish(acker_stream.start(messages, tmp_path / "stream", 60_000))
    ends = acker_stream.outcomes(spark, tmp_path / "stream", 60_000).collect()
    told_ends = {end["root"]: end["outcome"] for end in ends if end["outcome"] != "orphan"}
    assert told_ends == {root: nb_06.by_the_sum(tree) for root, tree in enumerate(nb_06.TREES.values(), 1)}
