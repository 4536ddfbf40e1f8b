"""The word count on Spark: what each kind of death does to the counts, measured by the audit."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kitlib.errors import KnobError, LabError
from kitlib.experiments.kafka_backend import KafkaBackend, KafkaTopic
from kitlib.experiments.storm.word_stories import make_lines
from kitlib.lab import workspace
from kitlib.lab.kafka_server import Cluster
from kitlib.pipelines.count_audit import CountAudit, count_audits
from kitlib.pipelines.word_count import Death, Outcome, WordCount

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(360)]

LINES = make_lines(12, seed=1)
WORDS = sum(len(line.split()) for line in LINES)
IN_BATCH_1 = sum(len(line.split()) for line in LINES[6:])


@dataclass
class Room:
    """A topic of twelve lines, and names for topics of counts and for checkpoints."""

    lines: KafkaTopic
    folder: Path
    made: int = 0

    def job(self, **settings: Any) -> WordCount:
        """A word count in two batches, with a topic and a checkpoint of its own."""
        self.made += 1
        name = f"{self.lines.name}-{self.made}"
        return WordCount(self.lines.name, name, **({"checkpoint": self.folder / name, "lines_per_batch": 6} | settings))


@pytest.fixture(scope="module")
def backend(broker: Cluster) -> Iterator[KafkaBackend]:
    opened = KafkaBackend.open(f"word-count-{uuid.uuid4().hex[:8]}")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def room(backend: KafkaBackend, tmp_path_factory: pytest.TempPathFactory) -> Room:
    topic = backend.create_topic("lines", 100)
    topic.append(LINES)
    return Room(topic, tmp_path_factory.mktemp("checkpoints"))


def audited(job: WordCount) -> CountAudit:
    return count_audits({"": job}).audits[""]


def told(found: CountAudit) -> tuple[int, int, int, int]:
    return found.missing, found.extra, found.repeated, found.fell


def test_word_count_without_a_fault_is_right(spark: Any, room: Room) -> None:
    """Spark's own Kafka sink: every line once, batch by batch; a further run finds nothing to do."""
    job = room.job()
    assert job.run() == Outcome(lines=12, batches=2, passed_over=0, died_in_batch=None)
    assert job.run() == Outcome(0, 0, 0, None)
    found = audited(job)
    assert told(found) == (0, 0, 0, 0) and (found.truth, found.guarantee) == (WORDS, "exactly once")


def test_word_count_stopped_and_started_goes_on_from_the_checkpoint(spark: Any, backend: KafkaBackend, room: Room) -> None:
    """Lines that came while it was down are counted, those from before are not counted again."""
    lines = backend.create_topic("more-lines", 100)
    job = WordCount(lines.name, lines.name + "-counts", room.folder / "stopped")
    for some in (LINES[:5], LINES[5:]):
        lines.append(some)
        assert job.run().lines == len(some)
    assert told(audited(job)) == (0, 0, 0, 0)


# (emit, sink, when it dies in batch 1) -> (missing, too many, written again, fell), and whether the batch is passed over
DEATHS: dict[tuple[str, str, str], tuple[tuple[int, int, bool], int]] = {
    ("totals", "kafka", "after"): ((0, 0, True), 0),
    ("totals", "once", "after"): ((0, 0, False), 1),
    ("increments", "kafka", "middle"): ((0, (IN_BATCH_1 + 1) // 2, False), 0),
    ("increments", "kafka", "after"): ((0, IN_BATCH_1, False), 0),
    ("increments", "once", "middle"): ((0, 0, False), 0),
    ("increments", "once", "after"): ((0, 0, False), 1),
}


def test_word_counts_that_die_and_come_back(spark: Any, room: Room) -> None:
    """A batch that was written but not noted is written again: totals stand it, increments do not, transactions prevent it."""
    jobs = {}
    for (emit, sink, when), (_, passed_over) in DEATHS.items():
        job = jobs[" ".join((emit, sink, when))] = room.job(emit=emit, sink=sink)
        assert job.run(Death(1, when)) == Outcome(6, 1, 0, 1)  # type: ignore[arg-type]
        assert job.run() == Outcome(6, 1, passed_over, None)
    audits = count_audits(jobs).audits
    for case, ((missing, extra, is_repeated), _) in DEATHS.items():
        found = audits[" ".join(case)]
        assert (found.missing, found.extra, bool(found.repeated), found.fell) == (missing, extra, is_repeated, 0), case


def test_without_a_checkpoint_the_job_starts_over(spark: Any, room: Room) -> None:
    """From the earliest line on, increments come twice and totals fall; nothing is left in the workspace."""
    increments, totals = room.job(emit="increments", checkpoint=None), room.job(checkpoint=None)
    for job in (increments, totals):
        job.run(Death(1, "after"))
        assert job.run().lines == 12
    assert told(audited(increments)) == (0, WORDS, 0, 0)
    found = audited(totals)
    assert (found.missing, found.extra) == (0, 0) and found.fell > 0
    assert not list(workspace.spark_dir().glob("word-count-*"))


def test_without_a_checkpoint_latest_loses_what_came_meanwhile(spark: Any, room: Room) -> None:
    """From the latest line on, all that was not counted before the death is lost."""
    job = room.job(checkpoint=None, starting="latest")
    first = WordCount(job.lines, job.counts, None, lines_per_batch=6)
    first.run(Death(1, "before"))
    assert job.run().lines == 0
    found = audited(job)
    assert (found.missing, found.guarantee) == (IN_BATCH_1, "at most once")


def test_batch_numbers_of_another_checkpoint_do_not_count(spark: Any, room: Room) -> None:
    """Once is once for each checkpoint: with a new one the numbers begin anew, and so does the counting."""
    job = room.job(emit="increments", sink="once", lines_per_batch=None)
    job.run()
    other = WordCount(job.lines, job.counts, room.folder / "other", emit="increments", sink="once")
    assert other.run() == Outcome(12, 1, 0, None)
    assert told(audited(job)) == (0, WORDS, 0, 0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"emit": "sums"}, "emit is 'sums', expected one of totals, increments"),
        ({"sink": "twice"}, "sink is 'twice', expected one of kafka, once"),
        ({"starting": "now"}, "starting is 'now', expected one of earliest, latest"),
        ({"lines_per_batch": 0}, "lines_per_batch is 0, expected 1 or more"),
    ],
)
def test_unknown_setting_is_refused(room: Room, settings: dict[str, Any], words: str) -> None:
    """A setting that there is not is named, with those that there are."""
    with pytest.raises(KnobError, match=words):
        room.job(**settings).run()


def test_lines_that_are_not_there_are_a_sentence(broker: Cluster, room: Room) -> None:
    """A missing topic is named at once, and nothing is made."""
    with pytest.raises(LabError, match=r"there is no topic kit\.none"):
        WordCount("kit.none", "kit.none-counts", room.folder / "none").run()
    assert not (room.folder / "none").exists()


def test_checkpoint_of_another_job_is_a_sentence(spark: Any, room: Room) -> None:
    """A checkpoint that cannot be gone on from ends the job with a LabError, and is left as it is."""
    job = room.job()
    assert job.checkpoint is not None
    (job.checkpoint / "query" / "offsets").mkdir(parents=True)
    (job.checkpoint / "query" / "offsets" / "0").write_text("nonsense")
    with pytest.raises(LabError, match=r"word count from .*\. Spark's log is"):
        job.run()
    assert (job.checkpoint / "query" / "offsets" / "0").read_text() == "nonsense"
