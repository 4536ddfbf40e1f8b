"""The word count of the source: sentences in, split into words, each word counted by one task.

The counts live in a table that outlives the tasks (on a broker a topic of the run, `counts`: a word and
its count so far), as the tasks themselves forget everything when they die.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, Literal

from kitlib.errors import KnobError
from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.storm.tree_stories import (
    SPOUT,
    Anchored,
    ExecuteMs,
    MessageIds,
    TopologyAckers,
    TopologyKnobs,
    TopologyStory,
    drain,
)
from kitlib.mechanisms.acker import ACKER_COMPONENT_ID
from kitlib.monitor.figures import MISCOUNTED
from kitlib.more.topology import BasicBolt, BasicOutputCollector, Bolt, Fault, Topology, TopologyBuilder, Tuple
from kitlib.settings import Settings

if TYPE_CHECKING:
    from kitlib.experiments.kafka_backend import Table

VOCABULARY = ("storm", "spout", "bolt", "tuple", "acker", "root", "batch", "commit", "offset", "replay", "count", "word")


def make_lines(count: int, seed: int) -> list[bytes]:
    """Lines of three to six words, the same ones for the same seed."""
    rng = Random(seed)
    return [" ".join(rng.choices(VOCABULARY, k=rng.randint(3, 6))).encode() for _ in range(count)]


def count_words(lines: Iterable[bytes]) -> Counter[str]:
    """How often each word stands in the lines."""
    return Counter(word for line in lines for word in line.decode().split())


COMPONENTS = {"split": "split", "count": "count", "acker": ACKER_COMPONENT_ID, "spout": SPOUT}


def sentence(record: Any) -> tuple[int, str]:
    """A record as the values of its tuple."""
    return record.offset, record.value.decode(errors="replace")


class SplitSentence(Bolt):
    """Makes a tuple of each word, anchored to its sentence unless it is told to forget that."""

    output_fields = ("offset", "part", "word")

    def __init__(self, is_anchored: bool) -> None:
        self.is_anchored = is_anchored

    def execute(self, given: Tuple) -> None:
        for part, word in enumerate(given["sentence"].split()):
            self.collector.emit((given["offset"], part, word), anchors=given if self.is_anchored else ())
        self.collector.ack(given)


class WordCount(BasicBolt):
    """Adds one to a word's count, which it keeps in a table."""

    def __init__(self, table: Table, execute_ms: int) -> None:
        self.table, self.execute_ms = table, execute_ms
        self.counts: dict[str, int] = {}  # this task's words; it alone writes them, so it reads each one once

    def process(self, given: Tuple, collector: BasicOutputCollector) -> None:
        word = given["word"]
        if word not in self.counts:
            self.counts[word] = int(self.table.get(word) or 0)
        self.counts[word] += 1
        self.table.put(word, str(self.counts[word]))
        self.context.note("process", offset=given["offset"], part=given["part"])


def word_count_topology(story: TopologyStory, table: Table) -> Topology:
    """Sentences, split by some tasks, counted by others; equal words meet in one task."""
    settings = story.settings
    builder = TopologyBuilder()
    builder.set_spout(SPOUT, story.kafka_spout(("offset", "sentence"), sentence))
    builder.set_bolt("split", lambda: SplitSentence(settings.anchored), settings.split_tasks).shuffle_grouping(SPOUT)
    count = builder.set_bolt("count", lambda: WordCount(table, settings.execute_ms), settings.count_tasks)
    count.fields_grouping("split", ["word"])
    return builder.create_topology()


def _faults(settings: Settings) -> list[Fault]:
    found = [Fault("fail", "count", percent=settings.fail_percent), Fault("lose", "count", percent=settings.lose_percent)]
    if settings.crash == "acker" and not settings.topology_ackers:
        raise KnobError("word_count: with topology_ackers=0 there is no acker to kill. Set topology_ackers to 1, or crash another.")
    if settings.crash != "none":
        found.append(Fault("crash", COMPONENTS[settings.crash], at_ms=settings.crash_at_ms))
    return found


@experiment(
    "The word count, lines in and counts out", TopologyStory, shared=(TopologyKnobs,), max_steps=20_000,
    figure=MISCOUNTED, front=("crash", "fail_percent", "lose_percent", "topology_ackers", "anchored"),
)
def word_count(
    story: TopologyStory,
    lines: Annotated[int, Knob("How many lines the topic holds.", "lines", 1, 5_000)] = 24,
    split_tasks: Annotated[int, Knob("How many tasks split lines.", "tasks", 1, 20)] = 2,
    count_tasks: Annotated[int, Knob("How many tasks count words.", "tasks", 1, 20)] = 4,
    fail_percent: Annotated[int, Knob("Share of words that the counting bolt fails.", "%", 0, 100, live=True)] = 3,
    lose_percent: Annotated[int, Knob("Share of words lost on the way to the counting bolt.", "%", 0, 100, live=True)] = 2,
    crash: Annotated[Literal["none", "split", "count", "acker", "spout"], Knob("Whose first task dies.")] = "none",
    crash_at_ms: Annotated[int, Knob("When it dies.", "ms", 1, 600_000)] = 40,
    topology_ackers: TopologyAckers = 1,
    message_ids: MessageIds = True,
    anchored: Anchored = True,
    execute_ms: ExecuteMs = 5,
) -> None:
    """Words are lost and tasks die along the way. The counts are kept in a table. Is each word counted once?"""
    text = make_lines(lines, story.trace.seed)
    story.append(text, parts=[len(line.split()) for line in text], name="lines")
    table = story.backend.create_table("counts")
    story.start(word_count_topology(story, table), lambda: _faults(story.settings))
    drain(story)
    counts = {word: int(count) for word, count in table.all().items()}
    story.record("counts", "result", counts=dict(sorted(counts.items())), truth=dict(sorted(count_words(text).items())))
