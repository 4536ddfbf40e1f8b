"""The verdict on a run: counts, first witnesses, marks, and a short text.

Each anomaly is *explained* when a setting of the run accounts for it, and a *violation* when none does.
`kitlib.monitor.delivery` defines and finds the six of a topology, `kitlib.monitor.producing`
the four of a producer, and `kitlib.monitor.transactions` the five of a reader of transactions.
"""

from __future__ import annotations

import html
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kitlib.text import plain_text

ANOMALIES = ("lost", "duplicated", "reordered", "skipped", "stalled", "rewound")
PRODUCER_ANOMALIES = ("lost", "duplicated", "reordered", "indefinite")
TRANSACTION_ANOMALIES = ("lost", "duplicated", "reordered", "aborted_read", "stalled")

PROMISES = {  # what each anomaly breaks when no setting explains it
    "lost": "no record is lost",
    "duplicated": "no record is duplicated",
    "reordered": "records keep their order",
    "skipped": "no record is skipped",
    "stalled": "commits keep advancing",
    "rewound": "the committed offset never goes back",
    "indefinite": "a record reported as failed is not in the log",
    "aborted_read": "aborted records are not read",
}


MOST_REASONS, LONGEST_REASON = 5, 300  # that a sentence names, and characters of one
TOLD = ("count", "witness", "offset", "reason", "unexplained")  # of an anomaly, as JSON
WIDE = 110  # characters of a printed line: JupyterLab breaks longer ones in the middle of a word


def cut_sentence(max_steps: int) -> str:
    return f"The run was cut at max_steps={max_steps}, so the rest of its story is missing"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """How often one thing went wrong, where it was first seen, and which setting explains it."""

    kind: str
    count: int = 0
    witness: int | None = None  # the number of the first step that shows it; None when no step does
    offset: int | None = None  # the first witness's offset
    reasons: tuple[tuple[str, int], ...] = ()  # the settings that explain them, and how many each does; the most first
    unexplained: int = 0  # of `count`, those that no setting explains
    unit: str = "offset"  # what `offset` counts: "offset", or "record" where records are numbered as they were sent
    steps: tuple[int, ...] = field(default=(), repr=False, compare=False)  # of all `count` witnesses, ascending
    offsets: tuple[int, ...] = field(default=(), repr=False, compare=False)  # of all of them too, ascending

    @property
    def reason(self) -> str:
        """What explains them, all of it, in words; empty when count is 0 or nothing does."""
        return told_reasons(self.reasons, self.count)

    @property
    def is_violation(self) -> bool:
        return self.unexplained > 0

    def __str__(self) -> str:
        if not self.count:
            return f"0 {self.kind}"
        if not self.reasons and not self.is_violation:  # of an audit, which looks for no reason
            step = "" if self.witness is None else f", step {self.witness}"
            return f"{self.count} {self.kind} (first at {self.unit} {self.offset}{step})"
        mark = f"violation: no setting explains {self.unexplained}" if self.is_violation else f"explained by {self.reason}"
        return f"{self.count} {self.kind}, first at {self.unit} {self.offset} ({mark})"


@dataclass(slots=True)
class Tally:
    """A growing Anomaly."""

    kind: str
    unit: str = "offset"
    seen: list[tuple[int, int]] = field(default_factory=list)  # (step, offset) of each
    reasons: Counter[str] = field(default_factory=Counter)  # -> how many of them it explains; "" those that nothing does

    def add(self, step: int, offset: int, reason: str) -> None:
        self.seen.append((step, offset))
        self.reasons[reason] += 1

    def done(self) -> Anomaly:
        witness, offset = min(self.seen, key=lambda each: each[0], default=(None, None))
        explained = Counter({reason: count for reason, count in self.reasons.items() if reason})
        steps, offsets = (tuple(sorted(each[at] for each in self.seen)) for at in (0, 1))
        told = tuple(explained.most_common()), self.reasons[""], self.unit
        return Anomaly(self.kind, len(self.seen), witness, offset, *told, steps, offsets)


def told_reasons(reasons: Sequence[tuple[str, int]], count: int) -> str:
    """`acks=0: ...`, or of several `retention, ... (14 of 39), and by auto.offset.reset=latest: ... (25 of 39)`.

    What a trace says stands in them, so each is told as one printable line.
    """
    if len(reasons) == 1:
        return plain_text(reasons[0][0], LONGEST_REASON)
    told = [f"{plain_text(reason, LONGEST_REASON)} ({explained} of {count})" for reason, explained in reasons[:MOST_REASONS]]
    more = [f"{len(reasons) - MOST_REASONS} more"] if len(reasons) > MOST_REASONS else []
    return ", and by ".join(told + more)


@dataclass(frozen=True, slots=True)
class LaneVerdict:
    """The verdict on one partition of one topic."""

    topic: str
    partition: int
    appended: int  # records
    processed: int  # distinct records
    anomalies: Mapping[str, Anomaly]
    late_ms: int  # the longest time from append to first processing; 0 when nothing was processed
    verb: str = "processed"  # what counts as done: "processed" by a topology, or "stored" by a producer
    replaced: int = 0  # records that compaction took out before they were processed: a later record of the key stands for each

    def count(self, kind: str) -> int:
        """How many of one anomaly; 0 for one that does not belong to this kind of lane."""
        return self.anomalies[kind].count if kind in self.anomalies else 0


def _by_mark(marks: Mapping[str, str]) -> dict[str, str]:
    """What is said of anomalies -> of which: "lost and skipped"."""
    by_mark: dict[str, list[str]] = {}
    for kind, mark in marks.items():
        by_mark.setdefault(mark, []).append(kind)
    return {mark: " and ".join(kinds) for mark, kinds in by_mark.items()}


def _explained(marks: Mapping[str, str]) -> str:
    """What is said of the anomalies after their sums: `Explained by acks=0: ....`, or `Lost: explained by ....` for each of several."""
    if len(marks) > 1:
        return " ".join(f"{kinds.capitalize()}: {mark}." for mark, kinds in _by_mark(marks).items())
    return "".join(f"{mark[:1].upper()}{mark[1:]}." for mark in marks.values())


class Judged:
    """The partitions of a run and their sums: what a verdict and an audit have in common."""

    __slots__ = ()
    lanes: Sequence[LaneVerdict]
    subject = ""

    @property
    def counts(self) -> dict[str, int]:
        return {kind: sum(lane.count(kind) for lane in self.lanes if kind in lane.anomalies) for kind in self.kinds}

    @property
    def kinds(self) -> tuple[str, ...]:
        """The anomalies that were looked for, in their order; none where the run was not about records."""
        return tuple(dict.fromkeys(kind for lane in self.lanes for kind in lane.anomalies)) or (() if self.subject else ANOMALIES)

    @property
    def appended(self) -> int:
        return sum(lane.appended for lane in self.lanes)

    @property
    def processed(self) -> int:
        return sum(lane.processed for lane in self.lanes)

    @property
    def late_ms(self) -> int:
        return max((lane.late_ms for lane in self.lanes), default=0)

    @property
    def verbs(self) -> tuple[str, ...]:
        """What counts as done in the partitions."""
        return tuple(dict.fromkeys(lane.verb for lane in self.lanes)) or ("processed",)

    def first(self, kind: str) -> Anomaly:
        """The anomaly of this kind with the earliest witness; one with count 0 when there is none."""
        seen = [found for found in self.anomalies(kind) if found.count]
        return min(seen, key=lambda found: (found.witness is None, found.witness), default=Anomaly(kind))

    def anomalies(self, kind: str) -> list[Anomaly]:
        """One anomaly, of each partition in which it was looked for."""
        return [lane.anomalies[kind] for lane in self.lanes if kind in lane.anomalies]


@dataclass(frozen=True, slots=True)
class Verdict(Judged):
    """The verdict on a whole run: its partitions, their sums, and a short text."""

    lanes: tuple[LaneVerdict, ...]
    cut_at: int | None = None  # the run was cut at this max_steps; None when its story came to its end
    subject: str = ""  # what a run that followed no record did instead (kitlib.monitor.subjects)
    heading: str = field(default="", compare=False)  # what of the run was real, where a part of it was not

    @property
    def found(self) -> str:
        """The anomalies that there are, with their counts, in a few words: "46 lost, 9 reordered"."""
        return ", ".join(f"{count:,} {kind}" for kind, count in self.counts.items() if count) or "nothing went wrong"

    def parts_from(self, broker: Verdict) -> str:
        """The first count in which a run on the broker differs from this one on the model, as a sentence; "" when all agree."""
        for kind in dict.fromkeys([*self.counts, *broker.counts]):
            ours, theirs = self.counts.get(kind, 0), broker.counts.get(kind, 0)
            if ours != theirs:
                return f"Model and broker differ: {ours:,} {kind} on the model, {theirs:,} on the broker."
        return ""

    @property
    def replaced(self) -> int:
        """Records that compaction replaced before they were processed, over all partitions."""
        return sum(lane.replaced for lane in self.lanes)

    @property
    def violations(self) -> tuple[str, ...]:
        return tuple(kind for kind in self.kinds if any(found.is_violation for found in self.anomalies(kind)))

    def steps(self, kind: str) -> list[int]:
        return sorted(step for found in self.anomalies(kind) for step in found.steps)

    def offsets(self, kind: str) -> list[int]:
        """The offsets of all witnesses of one anomaly, ascending; of several partitions together."""
        return sorted(offset for found in self.anomalies(kind) for offset in found.offsets)

    @property
    def sentence(self) -> str:
        """What a learner should take away: the counts first, then what explains them; or that there is nothing to judge."""
        told = self._told()
        return told if self.cut_at is None else f"{cut_sentence(self.cut_at)}; {told[:1].lower()}{told[1:]}"

    @property
    def reasons(self) -> dict[str, str]:
        return {kind: self._mark(kind) for kind, count in self.counts.items() if count}

    @property
    def sums(self) -> str:
        """The counts alone, as the sentence begins; records that are neither done nor lost are named."""
        told = self.sentence.partition(". ")[0].removesuffix(".")
        unfinished = self.appended - self.processed - self.replaced - self.counts.get("lost", 0)
        is_unsaid = self.lanes and self.reasons and self.cut_at is None and unfinished > 0
        return f"{told}; {unfinished} unfinished at the end." if is_unsaid else f"{told}."

    def _told(self) -> str:
        if not self.lanes:
            return self.subject or "No record was followed in this run."
        marks = self.reasons
        begin = f"{self.processed} of {self.appended} records were {' or '.join(self.verbs)}"
        if self.replaced:
            begin += f" ({self.replaced} replaced by compaction)"
        waiting = self.appended - self.processed - self.replaced
        rest = f"; {waiting} still {'waits' if waiting == 1 else 'wait'}" if waiting else ""
        if self.cut_at is not None:
            unfinished = waiting - self.counts.get("lost", 0)
            rest = f"; {unfinished} unfinished" if unfinished > 0 else ""
        if marks:
            sums = ", ".join(f"{self.counts[kind]} {kind}" for kind in marks)
            return f"{begin}: {sums}{rest if self.cut_at is not None else ''}. {_explained(marks)}"
        return f"{begin}, each of them once and in order{rest}." if self.processed else f"{begin}{rest}."

    def _mark(self, kind: str) -> str:
        count, unexplained, reasons = self.counts[kind], sum(found.unexplained for found in self.anomalies(kind)), Counter[str]()
        for found in self.anomalies(kind):
            reasons.update(dict(found.reasons))
        if unexplained:
            which = "it" if unexplained == count else f"{unexplained} of {count}"
            return f"violation of the promise that {PROMISES[kind]}; no setting explains {which}"
        return f"explained by {told_reasons(reasons.most_common(), count)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "appended": self.appended,
            "processed": self.processed,
            "counts": self.counts,
            "violations": list(self.violations),
            "late_ms": self.late_ms,
            "cut_at": self.cut_at,
            "sentence": self.sentence,
            "partitions": [
                {name: getattr(lane, name) for name in ("topic", "partition", "appended", "processed", "late_ms")}
                | {"anomalies": {kind: {name: getattr(found, name) for name in TOLD} for kind, found in lane.anomalies.items()}}
                for lane in self.lanes
            ],
        }

    def __repr__(self) -> str:
        reasons = self.reasons
        told = [self.sums, *(f"  {kinds}: {mark}" for mark, kinds in _by_mark(reasons).items())] if len(reasons) > 1 else [self.sentence]
        wrap = partial(textwrap.fill, width=WIDE, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        return "\n".join(map(wrap, [*filter(None, [self.heading]), *told]))

    def _repr_html_(self) -> str:
        left = "<td style='text-align: left'"
        found = [f"<td>{self.counts[kind]}</td>{left}>{kind}</td>{left}>{html.escape(mark)}</td>" for kind, mark in self.reasons.items()]
        if none := ", ".join(kind for kind, count in self.counts.items() if not count):
            found.append(f"<td>0</td>{left} colspan='2'>{none}</td>")
        rows = "".join(f"<tr>{cells}</tr>" for cells in found)
        heading = f"<p>{html.escape(self.heading)}</p>" if self.heading else ""
        told = html.escape(self.sums if self.reasons else self.sentence)
        return f"<div>{heading}<p><b>{told}</b></p><table><tbody>{rows}</tbody></table></div>"
