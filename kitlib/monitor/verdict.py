"""What a judgement of a run says: counts, first witnesses, marks, and one sentence.

Six anomalies, each *allowed* when a setting of the run explains it and a *violation* when none does.
`kitlib.monitor.delivery` says what each of them means and finds them.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ANOMALIES = ("lost", "duplicated", "reordered", "skipped", "stalled", "rewound")


@dataclass(frozen=True, slots=True)
class Anomaly:
    """How often one thing went wrong, where it was seen first, and why the settings allow it."""

    kind: str
    count: int = 0
    witness: int | None = None  # the number of the first step that shows it
    offset: int | None = None  # the first witness's offset
    reason: str = ""  # the setting that explains most of them; empty when count is 0 or none does
    unexplained: int = 0  # of `count`, those that no setting explains

    @property
    def is_violation(self) -> bool:
        """True when some of them are not explained by any setting."""
        return self.unexplained > 0

    def __str__(self) -> str:
        if not self.count:
            return f"0 {self.kind}"
        mark = f"violation: no setting explains {self.unexplained}" if self.is_violation else f"allowed: {self.reason}"
        return f"{self.count} {self.kind}, first at offset {self.offset} ({mark})"


@dataclass(frozen=True, slots=True)
class LaneVerdict:
    """The verdict on one partition of one topic."""

    topic: str
    partition: int
    appended: int  # records
    processed: int  # distinct records
    anomalies: Mapping[str, Anomaly]
    late_ms: int  # the longest time from append to first processing; 0 when nothing was processed

    def count(self, kind: str) -> int:
        """How many of one anomaly."""
        return self.anomalies[kind].count


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a whole run: its partitions, their sums, and one sentence."""

    lanes: tuple[LaneVerdict, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Each anomaly's count over all partitions."""
        return {kind: sum(lane.count(kind) for lane in self.lanes) for kind in ANOMALIES}

    @property
    def appended(self) -> int:
        """Records appended, over all partitions."""
        return sum(lane.appended for lane in self.lanes)

    @property
    def processed(self) -> int:
        """Distinct records processed, over all partitions."""
        return sum(lane.processed for lane in self.lanes)

    @property
    def late_ms(self) -> int:
        """The longest time from append to first processing in any partition."""
        return max((lane.late_ms for lane in self.lanes), default=0)

    @property
    def violations(self) -> tuple[str, ...]:
        """The kinds of anomaly that no setting explains."""
        return tuple(kind for kind in ANOMALIES if any(lane.anomalies[kind].is_violation for lane in self.lanes))

    def first(self, kind: str) -> Anomaly:
        """The anomaly of this kind with the earliest witness; one with count 0 when there is none."""
        seen = [lane.anomalies[kind] for lane in self.lanes if lane.count(kind)]
        return min(seen, key=lambda anomaly: anomaly.witness or 0, default=Anomaly(kind))

    @property
    def sentence(self) -> str:
        """What a learner should take away, in one sentence."""
        told = [f"{count} {kind} ({self._mark(kind)})" for kind, count in self.counts.items() if count]
        begin = f"{self.processed} of {self.appended} records were processed"
        if told:
            return f"{begin}: {'; '.join(told)}."
        waiting = self.appended - self.processed
        rest = f"; {waiting} still wait" if waiting else ""
        return f"{begin}, each of them once and in order{rest}." if self.processed else f"{begin}{rest}."

    def _mark(self, kind: str) -> str:
        if kind in self.violations:
            return "violation, no setting explains it"
        return "allowed: " + self.first(kind).reason

    def to_json(self) -> dict[str, Any]:
        """Counts, marks and first witnesses as JSON values."""
        return {
            "appended": self.appended,
            "processed": self.processed,
            "counts": self.counts,
            "violations": list(self.violations),
            "late_ms": self.late_ms,
            "sentence": self.sentence,
            "partitions": [
                {
                    "topic": lane.topic,
                    "partition": lane.partition,
                    "appended": lane.appended,
                    "processed": lane.processed,
                    "late_ms": lane.late_ms,
                    "anomalies": {
                        kind: {
                            "count": found.count,
                            "witness": found.witness,
                            "offset": found.offset,
                            "reason": found.reason,
                            "unexplained": found.unexplained,
                        }
                        for kind, found in lane.anomalies.items()
                    },
                }
                for lane in self.lanes
            ],
        }

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{kind}</td><td>{count}</td><td>{html.escape(self._mark(kind) if count else '')}</td></tr>"
            for kind, count in self.counts.items()
        )
        return f"<div><p><b>{html.escape(self.sentence)}</b></p><table><tbody>{rows}</tbody></table></div>"
