"""The audit of a word count: is each word of the lines in the counts, once?

The lines' topic holds the truth, the counts' topic what a job made of it. Which guarantee the job gave
is what the two say, whatever its settings promise: a word that has too little lost something, a word
that has too much got something twice.

A record of the counts has a word as its key and as its value a decimal number, or the JSON list of a
batch's id and the count (and the count before) that transactional state keeps. With "totals" the last
record of a word counts, with "increments" their sum. What cannot be read is counted and passed over.

`count_audit` is a Spark job over the two topics; `audit_counts` is the same in plain Python, over records
that are already here.

Left out: what came in between. A total that was wrong for a while and then right again shows only in
`repeated` and `fell`.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kitlib.errors import KnobError, LabError
from kitlib.lab import spark as kit_spark
from kitlib.pipelines.topics import Topics, one_sentence
from kitlib.pipelines.word_count import Emit, words_of

WORDS_SHOWN = 12
COUNT = "(?:[0-9]{1,18})|(?:\\[[0-9]{1,18},([0-9]{1,18})(?:,(?:null|[0-9]{1,18}))?\\])"  # the same to Java and Python
COLUMNS = ("word", "in the lines", "counted", "missing", "too many")
GUARANTEES = {
    (False, False): "exactly once",
    (False, True): "at least once",
    (True, False): "at most once",
    (True, True): "none",
}

Record = tuple[bytes | None, bytes | None]  # key and value


@dataclass(frozen=True, slots=True)
class WordAudit:
    """One word whose count is wrong."""

    word: str
    truth: int  # how often the lines have it
    counted: int  # what the counts say

    @property
    def missing(self) -> int:
        return max(0, self.truth - self.counted)

    @property
    def extra(self) -> int:
        return max(0, self.counted - self.truth)


@dataclass(frozen=True, slots=True)
class CountAudit:
    """What a word count was worth: words, and how much is missing or too many, in all and by word."""

    words: int  # distinct words in the lines or in the counts
    equal: int  # of them, those whose count is right
    truth: int  # words in the lines, each time one stands there
    missing: int  # of them, those that are not counted
    extra: int  # counted, and not in the lines
    records: int = 0  # of the counts
    repeated: int = 0  # of them, totals that were there before: written again
    fell: int = 0  # of them, totals smaller than an earlier one of their word: the count began anew
    unreadable: int = 0  # lines and records
    wrong: tuple[WordAudit, ...] = ()  # the words that are furthest off, at most WORDS_SHOWN

    @property
    def guarantee(self) -> str:
        """The strongest guarantee that these counts agree with, by their effect."""
        return GUARANTEES[bool(self.missing), bool(self.extra)]

    @property
    def sentence(self) -> str:
        """What a learner should take away."""
        text = f"{self.equal} of {self.words} words have the right count"
        told = [f"{self.missing} of {self.truth} are missing"] * bool(self.missing)
        told += [f"{self.extra} {'is' if self.extra == 1 else 'are'} counted too many"] * bool(self.extra)
        text += f": {'; '.join(told)}." if told else "."
        if self.repeated:
            text += f" {self.repeated} of {self.records} records were written again."
        if self.fell:
            text += f" {self.fell} times a count fell."
        if self.unreadable:
            text += f" {self.unreadable} lines or records could not be read."
        return text

    def rows(self) -> list[tuple[str, ...]]:
        """The table's lines, one for each word of `wrong`."""
        return [
            (_shown(row.word), str(row.truth), str(row.counted), str(row.missing), str(row.extra)) for row in self.wrong
        ]

    def __repr__(self) -> str:
        return "\n".join([self.sentence, *(_lines([COLUMNS, *self.rows()]) if self.wrong else [])])

    def _repr_html_(self) -> str:
        return (
            f"<div><p><b>{html.escape(self.sentence)}</b></p>{_html(COLUMNS, self.rows()) if self.wrong else ''}</div>"
        )


@dataclass(frozen=True, slots=True)
class Guarantees:
    """Several audits side by side: which guarantee each job gave, as measured."""

    audits: Mapping[str, CountAudit]

    COLUMNS = ("job", "words", "lost", "doubled", "written again", "counts that fell", "guarantee")

    def rows(self) -> list[tuple[str, ...]]:
        """One line for each job, in the order of the audits."""
        return [
            (
                name,
                str(found.truth),
                str(found.missing),
                str(found.extra),
                str(found.repeated),
                str(found.fell),
                found.guarantee,
            )
            for name, found in self.audits.items()
        ]

    def __repr__(self) -> str:
        return "\n".join(_lines([self.COLUMNS, *self.rows()]))

    def _repr_html_(self) -> str:
        return _html(self.COLUMNS, self.rows())


def count_audit(
    lines: str, counts: str, *, emit: Emit = "totals", bootstrap: str | None = None, spark: SparkSession | None = None
) -> CountAudit:
    """Compare the counts in one topic with the lines in another, as a Spark job over the broker's records.

    Only committed records are read. LabError when a topic is not there or no broker answers; KnobError
    for an `emit` that there is not.
    """
    _check_emit(emit)
    topics = Topics.find(bootstrap)
    present = topics.names()
    for name in (lines, counts):
        if name not in present:
            raise LabError(
                f"audit of the word count in {counts}: there is no topic {name} at {topics.bootstrap}. "
                "Run the job first; a run's topics are named kit.<run>.<name>."
            )
    spark = spark or kit_spark.session()
    with one_sentence(f"audit of the word count in {counts}"):
        return audit_frames(topics.read_records(spark, lines), topics.read_records(spark, counts), emit)


def audit_frames(lines: DataFrame, counts: DataFrame, emit: Emit = "totals") -> CountAudit:
    """The audit of records in DataFrames: `lines` with value, `counts` with partition, offset, key and value."""
    readable = F.try_validate_utf8(F.col("value").cast("string")).isNotNull()
    truth = words_of(lines).groupBy("word").agg(F.count("*").alias("truth"))
    records = _records(counts)
    readable_records = records.where(F.col("word").isNotNull())
    if emit == "totals":
        counted = readable_records.groupBy("word").agg(
            F.max_by("count", F.struct("partition", "offset")).alias("counted")
        )
    else:
        counted = readable_records.groupBy("word").agg(F.sum(F.col("count").cast("decimal(38,0)")).alias("counted"))
    both = truth.join(counted, "word", "full").select(
        "word",
        F.coalesce("truth", F.lit(0)).cast("decimal(38,0)").alias("truth"),
        F.coalesce("counted", F.lit(0)).cast("decimal(38,0)").alias("counted"),
    ).where((F.col("truth") != 0) | (F.col("counted") != 0)).persist()  # fmt: skip
    try:
        off = F.col("counted") - F.col("truth")
        sums = _one(both.agg(
            F.count("*").alias("words"), F.count_if(off == 0).alias("equal"), F.sum("truth").alias("truth"),
            F.sum(F.when(off < 0, -off)).alias("missing"), F.sum(F.when(off > 0, off)).alias("extra"),
        ))  # fmt: skip
        worst = both.where(off != 0).orderBy(F.abs(off).desc(), "word").limit(WORDS_SHOWN).collect()
    finally:
        both.unpersist()
    history = _one(_history(records, emit))
    bad_lines = lines.where(~readable).count()
    return CountAudit(
        sums["words"], sums["equal"], sums["truth"], sums["missing"], sums["extra"],
        history["records"], history["repeated"], history["fell"],
        bad_lines + history["all"] - history["records"],
        tuple(WordAudit(row["word"], int(row["truth"]), int(row["counted"])) for row in worst),
    )  # fmt: skip


def audit_counts(lines: Iterable[bytes | None], counts: Iterable[Record], emit: Emit = "totals") -> CountAudit:
    """The same audit over records that are here, in the order of their offsets."""
    _check_emit(emit)
    truth: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    highest: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    records = repeated = fell = unreadable = 0
    for line in lines:
        text = _text(line)
        unreadable += text is None
        truth.update(word for word in re.split("[ \t\n\x0b\f\r]+", text or "") if word)
    for key, value in counts:
        word, count = _text(key), _count(value)
        if word is None or count is None:
            unreadable += 1
            continue
        records += 1
        if emit == "totals":
            repeated += (word, count) in seen
            fell += count < highest.get(word, count)
            seen.add((word, count))
            highest[word] = max(count, highest.get(word, count))
            counted[word] = count
        else:
            counted[word] += count
    words = sorted((word for word in truth.keys() | counted.keys() if truth[word] or counted[word]), key=str.encode)
    audited = [WordAudit(word, truth[word], counted[word]) for word in words]
    wrong = sorted((row for row in audited if row.missing or row.extra), key=lambda row: -row.missing - row.extra)
    return CountAudit(
        len(audited), len(audited) - len(wrong), truth.total(), sum(row.missing for row in audited),
        sum(row.extra for row in audited), records, repeated, fell, unreadable, tuple(wrong[:WORDS_SHOWN]),
    )  # fmt: skip


def _records(counts: DataFrame) -> DataFrame:
    """The records of the counts: partition, offset, word, count; the last two None where one cannot be read."""
    text = F.try_validate_utf8(F.col("value").cast("string"))
    listed, plain = F.regexp_extract(text, COUNT, 1), F.regexp_extract(text, COUNT, 0)
    count = F.when(plain == text, F.when(listed != "", listed).otherwise(plain)).try_cast("bigint")
    word = F.try_validate_utf8(F.col("key").cast("string"))
    is_readable = word.isNotNull() & count.isNotNull()
    return counts.select(
        "partition", "offset", F.when(is_readable, word).alias("word"), F.when(is_readable, count).alias("count")
    )


def _history(records: DataFrame, emit: Emit) -> DataFrame:
    """One row: how many records there are and can be read, and how many totals were written again or fell."""
    sums = [F.count("*").alias("all"), F.count("word").alias("records")]
    if emit == "increments":
        return records.agg(*sums, F.lit(0).alias("repeated"), F.lit(0).alias("fell"))
    before = Window.partitionBy("word").orderBy("partition", "offset").rowsBetween(Window.unboundedPreceding, -1)
    marked = records.withColumn("fell", F.col("count") < F.max("count").over(before))
    repeated = F.count("word") - F.count_distinct("word", "count")
    return marked.agg(*sums, repeated.alias("repeated"), F.count_if("fell").alias("fell"))


def _one(frame: DataFrame) -> dict[str, int]:
    """A frame's only row as whole numbers; a sum over nothing is 0."""
    row = frame.collect()[0].asDict()
    return {name: int(value or 0) for name, value in row.items()}


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _count(value: bytes | None) -> int | None:
    text = _text(value)
    found = None if text is None else re.fullmatch(COUNT, text)
    return None if found is None else int(found[1] or found[0])


def _check_emit(emit: Any) -> None:
    if emit not in ("totals", "increments"):
        raise KnobError(f"audit of a word count: emit is {str(emit)[:40]!r}, expected totals or increments.")


def _shown(word: str) -> str:
    """A word that is fit for a screen."""
    return "".join(char if char.isprintable() else "\ufffd" for char in word[:40])


def _lines(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _html(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
