"""The audit of a word count: is each word of the lines in the counts, once?

The lines' topic holds the truth, the counts' topic what a job made of it. Which guarantee the job gave
is what the two say, whatever its settings promise: a word that has too little lost something, a word
that has too much got something twice.

A record of the counts has a word as its key and as its value a decimal number. With "totals" the last
record of a word counts, with "increments" their sum. What cannot be read is counted and passed over.

`count_audits` is one Spark job over the topics of several jobs.

Left out: what came in between. A total that was wrong for a while and then right again shows only in
`repeated` and `fell`.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kitlib.errors import LabError, TraceError
from kitlib.pipelines.topics import Topics, one_sentence
from kitlib.pipelines.word_count import Emit, WordCount, words_of
from kitlib.spark import sessions as kit_spark
from kitlib.text import html_table, plain_text, text_table
from kitlib.trace import Trace

WORDS_SHOWN = 12
COUNT = "[0-9]{1,18}"
EXACT = "decimal(38,0)"
COLUMNS = ("word", "in the lines", "counted", "missing", "too many")
GUARANTEES = {
    (False, False): "exactly once",
    (False, True): "at least once",
    (True, False): "at most once",
    (True, True): "none",
}


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
            (plain_text(row.word, 40), str(row.truth), str(row.counted), str(row.missing), str(row.extra)) for row in self.wrong
        ]

    def __repr__(self) -> str:
        return "\n".join([self.sentence, *(text_table([COLUMNS, *self.rows()], left=1) if self.wrong else [])])

    def _repr_html_(self) -> str:
        table = html_table(COLUMNS, self.rows()) if self.wrong else ""
        return f"<div><p><b>{html.escape(self.sentence)}</b></p>{table}</div>"


@dataclass(frozen=True, slots=True)
class Guarantees:
    """Several audits side by side: which guarantee each job gave, as measured."""

    audits: Mapping[str, CountAudit]

    COLUMNS = ("job", "words", "lost", "doubled", "written again", "counts that fell", "guarantee")

    def rows(self) -> list[tuple[str, ...]]:
        """One line for each job, in the order of the audits."""
        counts = ("truth", "missing", "extra", "repeated", "fell", "guarantee")
        return [(name, *(str(getattr(found, each)) for each in counts)) for name, found in self.audits.items()]

    def __repr__(self) -> str:
        return "\n".join(text_table([self.COLUMNS, *self.rows()], left=1))

    def _repr_html_(self) -> str:
        return html_table(self.COLUMNS, self.rows())


@dataclass(frozen=True, slots=True)
class Counted:
    """Where a word count took its lines from, and where it left its counts; a WordCount says the same."""

    lines: str
    counts: str
    emit: Emit = "totals"

    @classmethod
    def by(cls, trace: Trace) -> Counted:
        """The topics of an experiment's run. TraceError when it counted no words on a broker."""
        lines = next((str(step.data.get("topic")) for step in trace if step.what == "append"), "")
        if trace.backend != "kafka" or not lines.endswith(".lines"):
            raise TraceError(
                f"run {trace.run} of {trace.experiment} on the {trace.backend} left no counts in a topic. "
                'Run word_count with backend="kafka".'
            )
        return cls(lines, lines.removesuffix("lines") + "counts")


def count_audits(
    jobs: Mapping[str, Counted | WordCount], *, bootstrap: str | None = None, spark: SparkSession | None = None
) -> Guarantees:
    """Compare the counts of several jobs with their lines, as one Spark job over the broker's committed records.

    LabError when a topic is not there or no broker answers.
    """
    topics = Topics.find(bootstrap)
    present = topics.names()
    for name, job in jobs.items():
        for topic in (job.lines, job.counts):
            if topic not in present:
                raise LabError(
                    f"audit of the word count {plain_text(name, 40)}: there is no topic {topic} at {topics.bootstrap}. "
                    "Run the job first; a run's topics are named kit.<run>.<name>."
                )
    spark = spark or kit_spark.session()
    with one_sentence(f"audit of {len(jobs)} word counts"):
        lines = topics.read_records(spark, {job.lines for job in jobs.values()})
        counts = topics.read_records(spark, {job.counts for job in jobs.values()})
        return Guarantees(audit_frames(jobs, lines, counts))


def audit_frames(jobs: Mapping[str, Counted | WordCount], lines: DataFrame, counts: DataFrame) -> dict[str, CountAudit]:
    """The audits of records in DataFrames: topic and value of the lines; topic, partition, offset, key and value of the counts."""
    spark = lines.sparkSession
    rows = [(name, job.lines, job.counts, job.emit) for name, job in jobs.items()]
    table = F.broadcast(spark.createDataFrame(rows, "job STRING, lines STRING, counts STRING, emit STRING"))
    words = words_of(lines).groupBy("topic", "word").agg(F.count("*").alias("truth"))
    truth = words.join(table, F.col("topic") == F.col("lines")).select("job", "word", "truth")
    records = _records(counts).join(table, F.col("topic") == F.col("counts")).drop("topic", "lines", "counts").persist()
    both = truth.join(_counted(records), ["job", "word"], "full").select(
        "job",
        "word",
        F.coalesce("truth", F.lit(0)).cast(EXACT).alias("truth"),
        F.coalesce("counted", F.lit(0)).cast(EXACT).alias("counted"),
    ).where((F.col("truth") != 0) | (F.col("counted") != 0)).persist()  # fmt: skip
    off = F.col("counted") - F.col("truth")
    try:
        sums = _by("job", both.groupBy("job").agg(
            F.count("*").alias("words"), F.count_if(off == 0).alias("equal"), F.sum("truth").alias("truth"),
            F.sum(F.when(off < 0, -off)).alias("missing"), F.sum(F.when(off > 0, off)).alias("extra"),
        ))  # fmt: skip
        place = F.row_number().over(Window.partitionBy("job").orderBy(F.abs(off).desc(), "word"))
        worst = both.where(off != 0).withColumn("place", place).where(F.col("place") <= WORDS_SHOWN).orderBy("place").collect()
        history = _by("job", _history(records))
    finally:
        both.unpersist()
        records.unpersist()
    is_bad = F.try_validate_utf8(F.col("value").cast("string")).isNull()
    bad_lines = _by("topic", lines.where(is_bad).groupBy("topic").agg(F.count("*").alias("bad")))
    nothing = dict.fromkeys(("words", "equal", "truth", "missing", "extra", "records", "repeated", "fell", "unreadable"), 0)
    audits = {}
    for name, job in jobs.items():
        told = nothing | sums.get(name, {}) | history.get(name, {})
        told["unreadable"] += bad_lines.get(job.lines, {}).get("bad", 0)
        wrong = tuple(WordAudit(row["word"], int(row["truth"]), int(row["counted"])) for row in worst if row["job"] == name)
        audits[name] = CountAudit(**told, wrong=wrong)
    return audits


def _records(counts: DataFrame) -> DataFrame:
    """The records of the counts: topic, partition, offset, word, count; the last two None where one cannot be read."""
    text = F.try_validate_utf8(F.col("value").cast("string"))
    count = F.when(F.regexp_extract(text, COUNT, 0) == text, text).try_cast("bigint")
    word = F.try_validate_utf8(F.col("key").cast("string"))
    is_readable = word.isNotNull() & count.isNotNull()
    return counts.select(
        "topic",
        "partition",
        "offset",
        F.when(is_readable, word).alias("word"),
        F.when(is_readable, count).alias("count"),
    )


def _counted(records: DataFrame) -> DataFrame:
    """What the records say of each word: job, word, counted."""
    last = F.max_by("count", F.struct("partition", "offset")).cast(EXACT)
    total = F.sum(F.col("count").cast(EXACT))
    counted = F.when(F.first("emit") == "totals", last).otherwise(total)
    return records.where(F.col("word").isNotNull()).groupBy("job", "word").agg(counted.alias("counted"))


def _history(records: DataFrame) -> DataFrame:
    """For each job: how many records can be read and how many cannot, and how many totals were written again or fell."""
    is_total = F.col("emit") == "totals"
    before = Window.partitionBy("job", "word").orderBy("partition", "offset").rowsBetween(Window.unboundedPreceding, -1)
    marked = records.withColumn("fell", is_total & (F.col("count") < F.max("count").over(before)))
    total = F.when(is_total, F.struct("word", "count"))
    readable_total = F.when(F.col("word").isNotNull(), total)
    return marked.groupBy("job").agg(
        F.count("word").alias("records"),
        F.count_if(F.col("word").isNull()).alias("unreadable"),
        (F.count(readable_total) - F.count_distinct(readable_total)).alias("repeated"),
        F.count_if("fell").alias("fell"),
    )


def _by(name: str, frame: DataFrame) -> dict[str, dict[str, int]]:
    """A frame's rows by one of its columns, the other ones as whole numbers; a sum over nothing is 0."""
    rows = (row.asDict() for row in frame.collect())
    return {row.pop(name): {part: int(value or 0) for part, value in row.items()} for row in rows}
