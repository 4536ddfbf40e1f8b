"""The experiment with the length of the offsets topic: what the cleaner saves, and what a coordinator pays without it.

The words of such a trace:

    offsets log    write_many {records, keys}   clean_many {removed}   size {records, bytes, segments, dirty_ratio}
    cleaner        dies {why}
    coordinator 2  load_begin {records}   load_end {records, ms, offsets}
    offsets log    result {commits, keys, records, load_ms}
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from kitlib.experiments.compaction.sized_log import Size, SizedLog, sized_log
from kitlib.experiments.experiment import experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import Run

LOG, CLEANER, COORDINATOR = "offsets log", "cleaner", "coordinator 2"


@dataclass(slots=True)
class SizeRun(Run):
    """One run: the log, what is counted, and the trace."""

    domain: ClassVar[str] = "offsets"

    log: SizedLog = field(init=False)
    size: Size = field(default_factory=lambda: Size(0, 0, 1, 0.0))
    commits: int = 0
    is_clean: bool = True  # the cleaner runs

    def __post_init__(self) -> None:
        self.log = sized_log(self.stage, self.trace.run, self.knobs["load_records_per_s"])

    def commit(self, count: int) -> None:
        """The groups commit so often, each of their partitions in turn, and the segment is full."""
        keys = self.knobs["keys"]
        commits = [(number % keys, number // keys + 1) for number in range(self.commits, self.commits + count)]
        self.log.append(commits, 1000 / self.knobs["commits_per_s"])
        self.log.roll()
        self.commits += count
        self.note(LOG, "write_many", records=count, keys=keys)

    def kill_cleaner(self) -> None:
        """The cleaner's thread ends."""
        self.is_clean = False
        self.log.kill_cleaner()
        self.note(CLEANER, "dies", why="an exception in its thread")

    def clean(self) -> None:
        """The cleaner passes, if it runs."""
        if self.is_clean:
            removed = self.log.clean()
            self.note(LOG, "clean_many", removed=removed)

    def look(self) -> None:
        """Measure the log."""
        self.size = self.log.look()
        size = self.size
        self.note(
            LOG, "size", records=size.records, bytes=size.size_bytes, segments=size.segments,
            dirty_ratio=round(size.dirty_ratio, 3),
        )  # fmt: skip

    def load(self) -> None:
        """Another broker becomes the coordinator, and reads the log."""
        self.note(COORDINATOR, "load_begin", records=self.size.records)
        records, ms, offsets = self.log.load()
        self.note(COORDINATOR, "load_end", records=records, ms=ms, offsets=offsets)
        self.note(LOG, "result", commits=self.commits, keys=offsets, records=records, load_ms=ms)

    def note(self, actor: str, what: str, /, **data: Any) -> None:
        """Write a step."""
        now_ms = self.log.now_ms
        size = {"records": self.size.records, "bytes": self.size.size_bytes, "commits": self.commits}
        state = {"size": size, "cleaner": "runs" if self.is_clean else "dead", "now_ms": now_ms}
        self.write(now_ms, actor, what, data, state)


@experiment("How long the offsets topic gets", SizeRun)
def size_of_offsets_topic(
    run: SizeRun,
    cleaner: Annotated[
        Literal["runs", "dies half-way", "is off"], Knob("Whether the log cleaner runs, stops half-way, or never ran.")
    ] = "runs",
    keys: Annotated[int, Knob("How many group-partitions commit.", "keys", 1, 100)] = 10,
    segment_records: Annotated[int, Knob("Commits that fill a segment.", "records", 1, 1_000)] = 500,
    segments: Annotated[int, Knob("How many segments are written.", "segments", 1, 20)] = 6,
    commits_per_s: Annotated[
        int, Knob("Commits per second on the model.", "commits/s", 1, 100_000, scale="log")
    ] = 1_000,
    load_records_per_s: Annotated[
        int, Knob("How fast the model's new coordinator reads the log.", "records/s", 1, 10_000_000, scale="log")
    ] = 10_000,
) -> None:
    """A few groups commit all the time. How many of their records must a new coordinator read, and how long does that
    take?
    """
    # Commits come segment by segment; between them the cleaner passes, or does not; at the end a coordinator has to
    # load it all.
    dies_at = {"runs": segments + 1, "dies half-way": segments // 2, "is off": 0}[cleaner]
    try:
        for number in range(segments):
            if number == dies_at:
                run.kill_cleaner()
            run.commit(segment_records)
            run.clean()
            run.look()
        run.load()
    finally:
        run.log.close()
