"""`compare(a, b)`: the first step at which two runs part, in a sentence, and both of them side by side.

    compare(run("answers_lost", idempotence=False), run("answers_lost"))

Two runs that begin alike are alike step by step, until a setting, a seed or an answer makes the difference. That step is
what explains the two ends, and there both players open.

Left out: whether the runs meet again. What comes after a difference follows from it.
"""

from __future__ import annotations

import html
from textwrap import wrap
from typing import Any

import ipywidgets

from kitlib.errors import TraceError
from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.browser.outcome import Outcome, Parting, changes, label, parting
from kitlib.views.browser.player import Player, with_still
from kitlib.views.frames import to_frames
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.picture import lay_out
from kitlib.views.svg import Svg, document, el, group

NAMES = ("A", "B")
LINE, LINE_TALL = 100, 19  # characters, and SVG units
MOST_TOLD = 60  # characters of a value that differs


def sentence_of(a: Trace, b: Trace, found: Parting | None) -> str:
    """What a learner is told of it: the step, what each run does there, and what differs where the words are the same."""
    if found is None:
        return f"The two runs are the same, step by step ({len(a)} steps)."
    begin = f"The runs part at step {found.number}."
    if found.a is None or found.b is None:
        over, other, step = (NAMES[0], NAMES[1], found.b) if found.a is None else (NAMES[1], NAMES[0], found.a)
        assert step is not None
        goes_on = (b if found.a is None else a).sentence(step)
        return f"{begin} {over} is over; in {other}, at {step.at_ms:,} ms: {goes_on}"
    if found.differs == "time":
        same = plain_text(a.sentence(found.a), 200).rstrip(".")
        ms = f"{NAMES[0]} at {found.a.at_ms:,} ms, {NAMES[1]} at {found.b.at_ms:,} ms"
        return f"Both runs do the same, at other times. Step {found.number} is the first: {ms} ({same})."
    told = [plain_text(trace.sentence(step), 300) for trace, step in ((a, found.a), (b, found.b))]
    if told[0] != told[1]:
        each = (f"In {name}, at {step.at_ms:,} ms: {said}" for name, step, said in zip(NAMES, (found.a, found.b), told, strict=True))
        return f"{begin} {' '.join(each)}"
    if found.field:
        own, its = (getattr(step, found.differs).get(found.field) for step in (found.a, found.b))
        where = "its data" if found.differs == "data" else "the state after it"
        values = f"{_short(own)} in {NAMES[0]}, {_short(its)} in {NAMES[1]}"
        return f"{begin} Both do the same at {found.a.at_ms:,} ms ({told[0].rstrip('.')}), but {where} differs: {found.field} is {values}."
    return f"{begin} In {NAMES[0]} it is {plain_text(found.a.actor)}, in {NAMES[1]} {plain_text(found.b.actor)}: {told[0]}"


def _short(value: Any) -> str:
    return plain_text(value, MOST_TOLD)


def compare(a: Trace | Player, b: Trace | Player) -> Compared:
    """Two runs side by side, opened at the step where they part.

    Runs of one experiment or of two whose steps are told in the same words. TraceError when they are not, or when a run has no steps.
    """
    found = []
    for name, what in zip(NAMES, (a, b), strict=True):
        trace = what.trace if isinstance(what, Player) else what
        if not isinstance(trace, Trace):
            raise TraceError(f"compare: {name} is {plain_text(repr(what), 60)}, expected a trace or a player, such as run('answers_lost').")
        if not len(trace):
            raise TraceError(f"compare: the trace of {name} ({plain_text(trace.run, 60)}) has no steps. Run its experiment first.")
        found.append(trace)
    one, other = found
    if one.domain != other.domain:
        domains = f"{one.domain} ({plain_text(one.experiment, 60)}) and {other.domain} ({plain_text(other.experiment, 60)})"
        raise TraceError(f"compare: the runs are told in different words, {domains}. Compare two runs of one experiment.")
    return Compared(one, other)


class Compared(ipywidgets.VBox):  # type: ignore[misc]  # has no types
    """Two players, opened at the step where their runs part. `.parting` is that step, `.sentence` says it, `.changes` what became of it."""

    def __init__(self, a: Trace, b: Trace) -> None:
        self.traces = (a, b)
        self.parting = parting(a, b)
        self.sentence = sentence_of(a, b, self.parting)
        opening = self.parting.number if self.parting else 0
        self.players = [Player(trace, open_at=min(opening, len(trace) - 1)) for trace in self.traces]
        outcomes = [Outcome.of(player.trace, player.verdict, player.experiment) for player in self.players]
        self.changes = changes(*outcomes)
        self.labels = tuple(
            f"{name}: {label(own, its) or plain_text(trace.run, 60)}"
            for name, trace, (own, its) in zip(NAMES, self.traces, (outcomes, outcomes[::-1]), strict=True)
        )
        self.changed = f"{', '.join(self.changes)}." if self.changes else "In the end, the counts are the same."
        said = ipywidgets.HTML(f"<b style='font-size:15px'>{html.escape(self.sentence)}</b><br>{html.escape(self.changed)}")
        sides = [
            ipywidgets.VBox([ipywidgets.HTML(f"<b>{html.escape(told)}</b>"), player], layout={"flex": "1 1 620px"})
            for told, player in zip(self.labels, self.players, strict=True)
        ]
        super().__init__([said, ipywidgets.HBox(sides, layout={"flex_flow": "row wrap"})])
        self.add_class("kit-told").add_class("kit-pair")

    def __repr__(self) -> str:
        told = "; ".join([*self.labels, *self.changes])
        return f"{self.sentence}\n{told}"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget; where there are no widgets both pictures at the step where they part, and else the sentences."""
        return with_still(super()._repr_mimebundle_(**kwargs), {"image/svg+xml": self.svg, "text/plain": repr(self)})

    @property
    def svg(self) -> str:
        """Both pictures, one below the other, after the step where the runs part."""
        number = self.parting.number if self.parting else max(map(len, self.traces)) - 1
        parts: list[Svg] = []
        y = 14
        for line in [*wrap(self.sentence, LINE), *wrap(self.changed, LINE)]:
            y += LINE_TALL
            parts.append(el("text", line, cls="ink", x=LEFT, y=y, font_size=13))
        for said, trace in zip(self.labels, self.traces, strict=True):
            sheet = lay_out(to_frames(trace), min(number, len(trace) - 1))
            y += 34
            parts.append(el("text", said, cls="ink", x=LEFT, y=y, font_size=15, font_weight="bold"))
            parts.append(group(sheet.body, transform=f"translate(0 {y + 6})"))
            y += 6 + sheet.tall
        return document("Two runs compared", repr(self), group(*parts), WIDTH, y)
