"""What became of the trees of a run, as counts, a table and one sentence."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

ENDS: Final = ("acked", "failed", "timed out", "open")
ORPHAN: Final = "orphan"  # an entry that no init has claimed: messages after the end of their tree, or without a tree


@dataclass(frozen=True, slots=True)
class AckerResult:
    """The trees of a run as Spark followed them."""

    run: str
    way: str  # which of the two
    outcomes: Any = field(repr=False)  # pandas: root, outcome, spout_task; a root that was used again has several rows
    counts: Mapping[str, int]  # of each of ENDS
    orphans: int  # entries that no init has claimed
    seconds: float  # from the start of the query to its last row

    @property
    def roots(self) -> dict[int, str]:
        """Each tree's outcome by its root, without orphans."""
        trees = self.outcomes[self.outcomes["outcome"] != ORPHAN]
        return dict(zip(trees["root"].tolist(), trees["outcome"].tolist(), strict=True))

    @property
    def sentence(self) -> str:
        """What a learner should take away."""
        trees = sum(self.counts.values())
        if not trees:
            return f"Run {self.run}, {self.way}: no spout told an acker of a tree."
        told = ", ".join(f"{self.counts[end]} {end}" for end in ENDS)
        left = f"; {self.orphans} entries were never claimed" if self.orphans else ""
        return f"Run {self.run}, {self.way}: of {trees} trees {told}{left}."

    def to_json(self) -> dict[str, Any]:
        """Counts as JSON values."""
        return {"run": self.run, "way": self.way, "counts": dict(self.counts), "orphans": self.orphans}

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        rows = {**self.counts, "never claimed": self.orphans}
        head = "".join(f"<th>{html.escape(name)}</th>" for name in rows)
        body = "".join(f"<td>{count}</td>" for count in rows.values())
        return (
            f"<div><p><b>{html.escape(self.sentence)}</b></p>"
            f"<table><thead><tr>{head}</tr></thead><tbody><tr>{body}</tr></tbody></table></div>"
        )


def result_of(run: str, way: str, outcomes: Any, seconds: float) -> AckerResult:
    """The rows of OUTCOMES, brought here as pandas, as a result."""
    told = outcomes["outcome"].value_counts().to_dict()
    counts = {end: int(told.get(end, 0)) for end in ENDS}
    return AckerResult(run, way, outcomes, counts, int(told.get(ORPHAN, 0)), seconds)
