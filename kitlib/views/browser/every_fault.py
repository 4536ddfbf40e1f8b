"""Every fault, not some: `every_fault` runs a story under all schedules of few faults, and says which of them break it."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

import ipywidgets
import pandas as pd

from kitlib.experiments.grid import AND, MOST_SCHEDULES, FaultGrid, script_of
from kitlib.pipelines.sweep import run_grid, told_of
from kitlib.views.browser.player import Player, with_still


def every_fault(
    experiment: str, faults: int = 2, *, only: Iterable[str] = (), most: int = MOST_SCHEDULES, seed: int = 1, spark: Any = None,
    progress: Any = None, **knobs: Any,
) -> EveryFault:
    """All schedules of `FaultGrid.of_faults`, run as `run_grid` does; Ctrl-C keeps the rows that there are."""
    grid = FaultGrid.of_faults(experiment, faults, only, most, seed, **knobs)
    return EveryFault(grid, run_grid(grid, spark, progress))


class EveryFault(ipywidgets.VBox):  # type: ignore[misc]  # has no types
    """The rows of all schedules (`.rows`), what they come to (`.sentence`), and the player of the one opened last (`.player`)."""

    player: Player | None = None

    def __init__(self, grid: FaultGrid, rows: pd.DataFrame) -> None:
        self.grid, self.plain = grid, rows.iloc[0]
        self.rows = rows.iloc[1:].assign(faults=[script.count(AND) + 1 for script in rows["script"][1:]])
        came = self.rows[self.rows["error"].isna()]
        self.broken = {kind: came[came[kind] > (self.plain[kind] or 0)] for kind in grid.kinds}
        self.harmful = came[came.index.isin({at for found in self.broken.values() for at in found.index})]
        options = []
        for at, script in self.harmful["script"].head(500).items():
            had = ", ".join(f"{each[kind][at]} {kind}" for kind, each in self.broken.items() if at in each.index)
            options.append((f"{script}: {had}", script))
        self.list = ipywidgets.Select(options=options, value=None, rows=min(10, max(2, len(options))), layout={"width": "100%"})
        self.list.observe(lambda change: self.open_run(change["new"]), "value")
        self.sentence = told_of(grid.counts, self.rows, self.plain, self.broken, self.harmful)
        self.told = [ipywidgets.HTML(f"<p>{html.escape(self.sentence)}</p>"), *([self.list] if options else [])]
        super().__init__(self.told)

    def open_run(self, script: str) -> Player:
        """The player of the run with this schedule, at its first anomaly."""
        found = script_of(self.grid.name, script, self.grid.seeds[0], self.grid.experiment.changed(self.grid.fixed))
        self.player = Player(found, open_at="anomaly", manager=self.grid.manager)
        self.children = (*self.told, self.player)
        return self.player

    def __repr__(self) -> str:
        return self.sentence

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return with_still(super()._repr_mimebundle_(**kwargs), {"text/plain": self.sentence})
