"""What a run with an offsets topic of its own knows, and the trace that it writes.

The words of such a trace, besides those of `kitlib.monitor.delivery`, whose `start`, `emit`, `process`
and `commit` are the consumer's, and whose `delete` is retention's:

    offsets log    write {offset, key, value, timestamp_ms, format?}   roll {base}   clean {removed, kept, to}
    coordinator N  move {from, to}   load_begin {records}   load {from, to}   load_end {records, ms}
                   load_failed {at, why}   evict {key, why}   answer {group, topic, partition, offset, error?}
    cleaner        pass {dirty_ratio}   dies {why}
    <consumer>     leave {}
    monitor        health {...}: the fields of `kitlib.monitor.health.Health` that are known

A key is told as "group topic-partition". Each state has `offsets`: the log's segments and records, whose keys are
numbered (one of the old format is another key to the cleaner), what the coordinator has in its cache, and the
cleaner; and `now_ms`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kitlib.experiments.run import Run
from kitlib.kafka.offsets.compaction import CleanerConfig, LogCleaner
from kitlib.kafka.offsets.offset_cache import key_text
from kitlib.kafka.offsets.offset_manager import OffsetManager
from kitlib.kafka.offsets.offset_rules import OffsetEvent
from kitlib.kafka.offsets.segments import SegmentedLog
from kitlib.monitor.health import Health
from kitlib.trace import Trace
from kitlib.words.word import Range

OF_LOG = ("write",)  # of a coordinator's notes, those that the log says; `cache` is seen in the state


@dataclass(slots=True)
class OffsetsBook(Run):
    """One run: the offsets topic, who coordinates, the partition that one consumer reads, and the trace."""

    now_ms: int = 0
    log: SegmentedLog = field(default_factory=lambda: SegmentedLog("__consumer_offsets-0"))
    cleaner: LogCleaner = field(init=False)
    cleaner_runs: bool = True
    manager: OffsetManager | None = None
    topic: str = "orders"
    bounds: Range = field(default_factory=lambda: [0, 0])  # of the consumer's partition: [start, end)
    processed: list[Range] = field(default_factory=list)
    committed_to: int = 0
    emitted_to: int = 0
    keys: list[tuple[str, bool]] = field(default_factory=list)  # as told, and whether in the old format
    told: dict[int, tuple[int, int | None]] = field(default_factory=dict)  # offset -> key's number, committed offset
    _shown: dict[str, Any] | None = None  # the state's part, until something changes it

    def __post_init__(self) -> None:
        self.cleaner = LogCleaner(self.log, CleanerConfig())

    @property
    def actor(self) -> str:
        """Who coordinates."""
        return f"coordinator {self.manager.broker}" if self.manager is not None else "nobody"

    # -- the trace -----------------------------------------------------------------------------------

    def note(self, actor: str, what: str, /, **data: Any) -> None:
        """Write a step that is about no partition of the consumer's."""
        self._step(actor, what, data, self._state())

    def lane(self, actor: str, what: str, /, **data: Any) -> None:
        """Write a step about the consumer's partition."""
        state = {
            "log_start": self.bounds[0], "log_end": self.bounds[1], "processed": [list(each) for each in self.processed],
            "committed_to": self.committed_to, "emitted_to_offset": self.emitted_to,
        }  # fmt: skip
        self._step(actor, what, {"topic": self.topic, "partition": 0} | data, state | self._state())

    def take_notes(self, notes: Iterable[OffsetEvent]) -> None:
        """Write down what a coordinator did."""
        happened = list(notes)
        for noted in happened:  # before any step: the log has all of them by now
            if noted.what == "write":
                self._keep(noted.data)
        self.changed()
        for noted in happened:
            if noted.what != "cache":
                self.note("offsets log" if noted.what in OF_LOG else self.actor, noted.what, **noted.data)

    def changed(self) -> None:
        """The state's part is to be made anew."""
        self._shown = None

    def _step(self, actor: str, what: str, data: dict[str, Any], state: dict[str, Any]) -> None:
        self.write(self.now_ms, actor, what, data, state)

    # -- the offsets topic as the steps show it --------------------------------------------------------

    def _keep(self, data: dict[str, Any]) -> None:
        assert self.manager is not None
        key = str(data["key"]), self.manager.rules.written_type == 0
        if key not in self.keys:
            self.keys.append(key)
        self.told[data["offset"]] = self.keys.index(key), data["value"]

    def _state(self) -> dict[str, Any]:
        if self._shown is None:
            ends = [each.base_offset for each in self.log.segments[1:]] + [self.log.end_offset]
            active = self.log.active
            load = self.manager.led[0].load if self.manager is not None and 0 in self.manager.led else None
            self._shown = {
                "segments": [[each.base_offset, end, each is active] for each, end in zip(self.log.segments, ends, strict=True)],
                "records": [[each.offset, *self.told[each.offset]] for each in self.log.records()],
                "keys": self.named_keys(),
                "cache": self.cached(),
                "loading": None if load is None else list(load.progress()),
                "dirty_ratio": round(self.cleaner.look(self.now_ms).dirty_ratio, 3),
                "cleaner": "runs" if self.cleaner_runs else "dead",
            }
        return {"offsets": self._shown, "now_ms": self.now_ms}

    def named_keys(self) -> list[str]:
        """The keys; those of the old format say so as soon as there are others."""
        has_both = len({is_old for _, is_old in self.keys}) > 1
        return [name + (", old format" if is_old and has_both else "") for name, is_old in self.keys]

    def cached(self) -> dict[str, int]:
        """What the coordinator has in its cache."""
        offsets = () if self.manager is None else self.manager.offsets()
        return {key_text(key): value.committed_offset for key, value in offsets}

    def live_keys(self) -> int:
        """How many group-partitions have a value in the log, in whichever format."""
        last: dict[str, int | None] = {}
        for record in self.log.records():
            number, value = self.told[record.offset]
            last[self.keys[number][0]] = value
        return sum(value is not None for value in last.values())


def health_in(trace: Trace) -> list[Health]:
    """The looks at its health that a run has written down."""
    looks = (step for step in trace if step.actor == "monitor" and step.what == "health")
    return [Health(**({"at_ms": step.at_ms} | step.data)) for step in looks]
