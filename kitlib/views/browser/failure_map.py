"""Failure maps: how often an anomaly appears, for every combination of two knobs.

    rows = sweep("small_max_offset_behind", over={"max_offset_behind": range(1, 21), "records": [20, 40, 60]}, seeds=20)
    FailureMap(rows, "max_offset_behind", "records", "lost", mine={"max_offset_behind": 5, "records": 60})
    FailureMap(Grid.of("slow_group", {"poll_records": [15, 20], "work_ms": [50, 100]}), "poll_records", "work_ms", "duplicated")

A cell is one setting: its number is the percentage of seeds with the anomaly, and its colour repeats it. A click on a cell
opens one of its runs in a player, with the anomaly when there is such a run. `mine` has a frame. Without widgets it is a picture.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import anywidget
import ipywidgets
import pandas as pd
import traitlets

from kitlib.errors import KnobError
from kitlib.experiments import get
from kitlib.experiments.grid import Grid
from kitlib.experiments.knobs import told_value
from kitlib.views.browser.asking import TypeOn
from kitlib.views.browser.player import Player, joined, with_still
from kitlib.views.svg import Svg, document, el, group
from kitlib.words.glyphs import RED

WIDTH, LEFT, TOP, CELL_TALL = 820, 96, 58, 26
WIDEST_CELL, NARROWEST_LABEL = 60, 26
MOST_CELLS = 2_500
BLACK_FROM = 0.8  # share of seeds: the colour is so strong from here on that black is readable in either theme
LINE = 110  # characters


class FailureMap(ipywidgets.VBox):  # type: ignore[misc]  # has no types
    """The map of a sweep's rows, and the player of the run that was opened last (`.player`).

    `rows` is a sweep's DataFrame, of Spark or pandas, or a small grid, whose runs are then made here. `x` and `y` are two of
    its knobs, and `by` a third one, which gets a slider. `mine` is a setting to mark. KnobError for columns that the rows do
    not have, and for more than 2,500 cells.
    """

    player: Player | None = None

    def __init__(
        self, rows: Any, x: str, y: str, anomaly: str = "lost", *, by: str | None = None, mine: Mapping[str, Any] | None = None
    ) -> None:
        if isinstance(rows, Grid):
            rows = pd.DataFrame([rows.row(place) for place in range(len(rows))])
        self.rows: pd.DataFrame = rows.toPandas() if hasattr(rows, "toPandas") else rows
        self.x, self.y, self.by, self.anomaly = x, y, by, anomaly
        self.experiment = self._experiment()
        self.axes = [name for name in (x, y, by) if name is not None]
        for name in (*self.axes, anomaly):
            if name not in self.rows:
                columns = ", ".join(map(str, self.rows.columns))
                raise KnobError(f"FailureMap: the rows have no column {name[:60]!r}, expected one of {columns}.")
        bad = self.rows.assign(bad=self.rows[anomaly].fillna(0) > 0)
        self.shares = bad.groupby(self.axes, sort=True)["bad"].mean()
        self.slices = sorted(self.rows[by].unique()) if by else [None]
        self.xs, self.ys = sorted(self.rows[x].unique()), sorted(self.rows[y].unique())
        if len(self.xs) * len(self.ys) > MOST_CELLS:
            raise KnobError(
                f"FailureMap: {len(self.xs)} values of {x} and {len(self.ys)} of {y} make more than {MOST_CELLS:,} cells. "
                "Sweep fewer values of each."
            )
        self.mine = dict(mine or {})
        self.at = self.slices.index(self.mine[by]) if by and self.mine.get(by) in self.slices else 0  # the slider's stop
        self.picture = MapPicture(picture=self.svg(self.at))
        self.picture.observe(self._on_chosen, "chosen")
        self.shown = [self.picture]
        if len(self.slices) > 1:
            stops = [(told_value(value), number) for number, value in enumerate(self.slices)]
            slider = ipywidgets.SelectionSlider(options=stops, value=self.at, description=by, style={"description_width": "initial"})
            slider.observe(self._on_slider, "value")
            self.shown = [slider, self.picture, TypeOn()]
        super().__init__(self.shown)

    def _experiment(self) -> str:
        if "experiment" not in self.rows:
            raise KnobError("FailureMap: the rows do not say which experiment they are of, expected those of `sweep`.")
        return str(self.rows["experiment"].iloc[0])

    @property
    def sentence(self) -> str:
        """In how many of the settings the anomaly appeared, at which values of the first knob, and the smallest such setting."""
        failing = self.shares[self.shares > 0]
        if failing.empty:
            return f"{self.anomaly.capitalize()}: in none of the {len(self.shares)} settings."
        first, share = failing.index[0], failing.iloc[0]
        setting = self._setting(first)
        of = f"{len(failing)} of {len(self.shares)}"
        told = f"{self.anomaly.capitalize()}: in {of} settings, the smallest of them {setting} ({share:.0%} of its seeds)."
        hit = set(failing.index.get_level_values(0))
        clean = [value for value in self.xs if value not in hit]
        if len(clean) == 1:
            told += f" With {self._setting(clean)} it never appeared."
        elif clean and clean == self.xs[-len(clean) :]:
            told += f" From {self._setting(clean[:1])} on it never appeared."
        elif clean and clean == self.xs[: len(clean)]:
            told += f" Up to {self._setting(clean[-1:])} it never appeared."
        return told

    def _setting(self, values: Any) -> str:
        """Values of the first axes, as in `max_offset_behind=5, fetch_records=10`."""
        named = zip(self.axes, values if isinstance(values, tuple | list) else [values], strict=False)
        return ", ".join(f"{name}={told_value(value)}" for name, value in named)

    def svg(self, number: int = 0) -> str:
        """The picture of the slider's stop with this number."""
        pitch = min(WIDEST_CELL, (WIDTH - LEFT - 20) / len(self.xs))
        cells = [self._cell(column, row, number, pitch) for row in range(len(self.ys)) for column in range(len(self.xs))]
        bottom = TOP + len(self.ys) * CELL_TALL
        every = max(1, -(-NARROWEST_LABEL // int(max(pitch, 1))))
        middle = {"text_anchor": "middle", "cls": "ink", "font_size": 11}
        across = [
            el("text", told_value(value), x=LEFT + (at + 0.5) * pitch, y=bottom + 16, **middle)
            for at, value in enumerate(self.xs)
            if at % every == 0
        ]
        down = [
            el("text", told_value(value), x=LEFT - 8, y=bottom - (at + 0.5) * CELL_TALL + 4, text_anchor="end", cls="ink", font_size=11)
            for at, value in enumerate(self.ys)
        ]
        title = f"{get(self.experiment).title}: seeds with records {self.anomaly}, in %"
        if self.by:
            title += f" ({self.by} = {told_value(self.slices[number])})"
        names = [
            el("text", title, x=16, y=24, cls="ink", font_size=14, font_weight="bold"),
            el("text", self.y, x=16, y=TOP - 10, cls="ink"),
            el("text", self.x, x=LEFT + len(self.xs) * pitch / 2, y=bottom + 36, text_anchor="middle", cls="ink"),
        ]
        lines = textwrap.wrap(self.sentence, LINE)
        told = [el("text", line, x=16, y=bottom + 64 + 18 * at, cls="ink") for at, line in enumerate(lines)]
        return document(title, self.sentence, group(*names, *across, *down, *cells, *told), WIDTH, bottom + 62 + 18 * len(lines))

    def _cell(self, column: int, row: int, number: int, pitch: float) -> Svg:
        where = (self.xs[column], self.ys[row], *([self.slices[number]] if self.by else []))
        share = self.shares.get(where)
        x, y = LEFT + column * pitch, TOP + (len(self.ys) - 1 - row) * CELL_TALL
        setting = self._setting(where)
        told = "not run" if share is None else f"{share:.0%} of its seeds"
        box = {"x": x + 1, "y": y + 1, "width": pitch - 2, "height": CELL_TALL - 2, "rx": 2}
        parts = [
            el("title", f"{setting}: {told}"),
            el("rect", cls="grey-line", fill="none", stroke_dasharray=None if share is not None else "2 3", **box),
        ]
        if share:
            parts.append(el("rect", fill=RED, fill_opacity=round(0.25 + 0.75 * share, 2), **box))
        if share is not None and pitch >= NARROWEST_LABEL:
            ink = {"fill": "#000000"} if share >= BLACK_FROM else {"cls": "ink"}  # readable on a dark page, too
            parts.append(el("text", f"{share * 100:.0f}", x=x + pitch / 2, y=y + 17, text_anchor="middle", font_size=11, **ink))
        if self.mine and all(self.mine.get(name, value) == value for name, value in zip(self.axes, where, strict=True)):
            parts.append(el("rect", cls="ink-line", fill="none", stroke_width=3, **box))
        return group(*parts, data_cell=f"{column},{row}")

    def open_run(self, **setting: Any) -> Player:
        """The player of a run of this setting: the first seed with the anomaly, or the first seed."""
        rows = self.rows
        for name, value in setting.items():
            rows = rows[rows[name] == value]
        if rows.empty:
            raise KnobError(f"FailureMap: no run has {setting}. Choose a cell of the map.")
        row = rows.sort_values(self.anomaly, ascending=False, kind="stable").iloc[0]
        knobs = {knob.name: row[knob.name] for knob in get(self.experiment).knobs}
        plain = {name: value.item() if hasattr(value, "item") else value for name, value in knobs.items()}
        self.player = Player(self.experiment, seed=int(row["seed"]), open_at="anomaly", **plain)
        self.children = (*self.shown, self.player)
        return self.player

    def _on_slider(self, change: Mapping[str, Any]) -> None:
        self.at = change["new"]
        self.picture.picture = self.svg(self.at)

    def _on_chosen(self, change: Mapping[str, Any]) -> None:
        column, row = change["new"][:2]
        setting = {self.x: self.xs[column], self.y: self.ys[row]}
        self.open_run(**setting, **({self.by: self.slices[self.at]} if self.by else {}))

    def __repr__(self) -> str:
        return self.sentence

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget; where there are no widgets the picture, and else the sentence."""
        return with_still(super()._repr_mimebundle_(**kwargs), {"image/svg+xml": self.picture.picture, "text/plain": self.sentence})


class MapPicture(anywidget.AnyWidget):
    """The picture in the browser; `chosen` is [column, row] of the cell chosen last."""

    _esm = joined(("player_dom.js", "failure_map.js"))
    picture = traitlets.Unicode().tag(sync=True)
    chosen = traitlets.List(traitlets.Int()).tag(sync=True)
