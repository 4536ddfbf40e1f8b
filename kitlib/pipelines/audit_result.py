"""What an audit found: counts, first witnesses and delays for each partition, and one sentence.

Left out: whether a setting allows what was found. An audit knows what happened; the trace's own
verdict (`kitlib.monitor.verdict`) also knows the settings. `differences` compares the two.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kitlib.monitor.verdict import (
    ANOMALIES,
    PRODUCER_ANOMALIES,
    Anomaly,
    Judged,
    LaneVerdict,
    Verdict,
)
from kitlib.text import html_table, text_table

# By what counts as done in a lane: its anomalies, and what a table calls the records that ought to be done and those that are.
KINDS = {"processed": ANOMALIES, "stored": PRODUCER_ANOMALIES}
CALLED = {"processed": ("written", "processed"), "stored": ("sent", "stored")}
MORE = ("median_late_ms", "found", "unmentioned", "unreadable")  # what an audit knows of a lane and a verdict does not
WITNESS = ("count", "witness", "offset")  # of an anomaly, as JSON


@dataclass(frozen=True, slots=True)
class LaneAudit(LaneVerdict):
    """The audit of one partition of one topic; what was `appended` the trace says, or the topic holds it."""

    median_late_ms: float = 0.0
    found: int = 0  # records that lie in the topic now; retention may have taken others
    unmentioned: int = 0  # of them, those that the trace says nothing of
    unreadable: int = 0  # of them, those that are empty or no text; a producer's: no record's number

    def row(self) -> tuple[str, ...]:
        """This partition's line of the table."""
        counts = (str(self.count(kind)) for kind in KINDS[self.verb])
        late = (str(self.late_ms),) if self.verb != "processed" else (str(self.late_ms), f"{self.median_late_ms:g}")
        return (self.topic, str(self.partition), str(self.appended), str(self.processed), *counts, *late, str(self.unreadable))


@dataclass(frozen=True, slots=True)
class AuditResult(Judged):
    """The audit of a run: its partitions in the order of their first step, their sums, and one sentence."""

    run: str
    lanes: tuple[LaneAudit, ...]
    steps: int = 0  # steps of the trace that were read
    missing_steps: int = 0  # numbers below the highest one that no line has
    repeated_steps: int = 0  # lines whose step was already read; they count once
    unreadable_lines: int = 0  # lines of the trace topic that are no step
    topics_read: tuple[str, ...] = field(default=())  # the topics that were compared with the trace

    @property
    def unreadable(self) -> int:
        """Records of the topics and lines of the trace that could not be read."""
        return self.unreadable_lines + sum(lane.unreadable for lane in self.lanes)

    @property
    def sentence(self) -> str:
        """What a learner should take away."""
        if not self.lanes:
            return "There is nothing to audit yet: no step of the trace names a record."
        told = [str(replace(self.first(kind), count=count)) for kind, count in self.counts.items() if count]
        begin = f"{self.processed} of {self.appended} records were {' or '.join(self.verbs)}"
        waiting = self.appended - self.processed if self.verbs == ("stored",) else 0
        once = f"{begin}, each of them once and in order" + (f"; {waiting} still {'waits' if waiting == 1 else 'wait'}" if waiting else "")
        text = f"{begin}: {'; '.join(told)}." if told else f"{once}."
        if self.unreadable:
            text += f" {self.unreadable} records or lines could not be read."
        if self.missing_steps:
            text += f" The trace lacks {self.missing_steps} of its steps, so the counts may be wrong."
        return text

    def differences(self, verdict: Verdict) -> tuple[str, ...]:
        """Where this audit and the trace's own verdict disagree; empty when they agree."""
        ours, theirs = ({(lane.topic, lane.partition): lane for lane in of.lanes} for of in (self, verdict))
        only = [f"{topic}-{number}: only one of the two has it" for topic, number in ours.keys() ^ theirs.keys()]
        told = [text for lane in ours.keys() & theirs.keys() for text in _differences(ours[lane], theirs[lane])]
        return tuple(sorted(only + told))

    def to_json(self) -> dict[str, Any]:
        """Counts and first witnesses as JSON values."""
        return {
            "run": self.run,
            "written": self.appended,
            "processed": self.processed,
            "counts": self.counts,
            "late_ms": self.late_ms,
            "unreadable": self.unreadable,
            "steps": self.steps,
            "missing_steps": self.missing_steps,
            "repeated_steps": self.repeated_steps,
            "topics_read": list(self.topics_read),
            "sentence": self.sentence,
            "partitions": [
                {"written": lane.appended}
                | {name: getattr(lane, name) for name in ("topic", "partition", "processed", "late_ms", *MORE)}
                | {"anomalies": {kind: {name: getattr(found, name) for name in WITNESS} for kind, found in lane.anomalies.items()}}
                for lane in self.lanes
            ],
        }

    def __repr__(self) -> str:
        lines = [self.sentence]
        for verb in self.verbs if self.lanes else ():
            lines += text_table(self._table(verb))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        tables = "".join(html_table(head, body) for head, *body in map(self._table, self.verbs))
        return f"<div><p><b>{html.escape(self.sentence)}</b></p>{tables}</div>"

    def _table(self, verb: str) -> list[tuple[str, ...]]:
        """The lines of a table, its head first: one for topologies, one for producers."""
        late = ("late ms", "median ms") if verb == "processed" else ("late ms",)
        head = ("topic", "partition", *CALLED[verb], *KINDS[verb], *late, "unreadable")
        return [head, *(lane.row() for lane in self.lanes if lane.verb == verb)]


def lane_audits(lanes: Iterable[Mapping[str, Any]], counted: Iterable[Mapping[str, Any]]) -> tuple[LaneAudit, ...]:
    """The rows of `follow_lanes` and of `count_anomalies` put together, lanes without a step last."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for row in (*lanes, *counted):
        rows.setdefault((row["topic"], row["partition"]), {}).update(row)
    in_order = sorted(rows.items(), key=lambda item: (item[1].get("first_n") is None, item[1].get("first_n"), item[0]))
    return tuple(_lane_audit(*lane, row) for lane, row in in_order)


def _lane_audit(topic: str, partition: int, row: Mapping[str, Any]) -> LaneAudit:
    anomalies, verb = {}, row.get("verb", "processed")
    for kind in KINDS[verb]:
        first = row.get(f"{kind}_first") or {}
        unit = "offset" if verb == "processed" else "record"
        anomalies[kind] = Anomaly(kind, row.get(kind) or 0, first.get("n"), first.get("offset"), unit=unit)
    return LaneAudit(
        topic, partition, row.get("written") or 0, row.get("processed") or 0, anomalies, row.get("late_ms") or 0, verb,
        **{name: row.get(name) or 0 for name in MORE},
    )  # fmt: skip


def _differences(ours: LaneVerdict, theirs: LaneVerdict) -> list[str]:
    where = f"{ours.topic}-{ours.partition}"
    pairs: list[tuple[str, object, object]] = [
        ("written", ours.appended, theirs.appended),
        ("processed", ours.processed, theirs.processed),
        ("late_ms", ours.late_ms, theirs.late_ms),
    ]
    if ours.anomalies.keys() != theirs.anomalies.keys():
        return [f"{where}: the audit counts what was {ours.verb}, the trace what was {theirs.verb}"]
    for kind in ours.anomalies:
        found, judged = ours.anomalies[kind], theirs.anomalies[kind]
        pairs.append((kind, found.count, judged.count))
        pairs.append((f"{kind}: first step and offset", (found.witness, found.offset), (judged.witness, judged.offset)))
    return [f"{where} {name}: the audit says {left}, the trace says {right}" for name, left, right in pairs if left != right]
