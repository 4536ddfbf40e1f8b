"""The table of guarantees: for each setting of a producer and each fault, what became of its records.

What acks, idempotence, requests in flight and retries promise is written in many places. Here it is
measured: each cell of the table is a run of its own, with a real client, through the proxy, to the real
broker. `run_cells` makes the runs; the counts come from the audit on Spark
(`kitlib.pipelines.guarantees`); `GuaranteeTable` holds them, and is what a notebook shows and keeps.

Left out: more than one broker, so acks=1 and acks=all differ in nothing that a table could show.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any

from kitlib.errors import DiskError, KnobError, TraceError
from kitlib.experiments.idempotence.client_faults import DEFAULT_REQUEST_TIMEOUT_MS, FAULTS, fault_named
from kitlib.experiments.idempotence.client_run import MAX_RETRIES, run_together
from kitlib.lab import workspace
from kitlib.text import html_table
from kitlib.trace import Trace

IN_WORDS = {
    "lost": "lost",  # not stored, and nobody was told
    "told_failed": "told failed, not stored",
    "duplicated": "doubled",
    "reordered": "out of order",
    "indefinite": "told failed, yet stored",
}
FEWEST_RECORDS = 800  # 40 batches, of 4 records where they are small


@dataclass(frozen=True, slots=True)
class Setting:
    """A producer's settings: one line of the table."""

    client: str = "librdkafka"
    acks: str = "all"
    idempotence: bool = True
    max_in_flight: int = 5
    retries: int = MAX_RETRIES
    batch_records: int | None = None  # None: a fortieth of the records

    def __str__(self) -> str:
        parts = [f"acks={self.acks}", "idempotent" if self.idempotence else "not idempotent", f"{self.max_in_flight} in flight"]
        if self.retries != MAX_RETRIES:
            parts.append(f"retries={self.retries}")
        if self.batch_records is not None:
            parts.append(f"batches of {self.batch_records}")
        return f"{self.client}: {', '.join(parts)}"


SETTINGS = (
    Setting(),
    Setting(batch_records=4),
    Setting(max_in_flight=1),
    Setting(idempotence=False),
    Setting(idempotence=False, max_in_flight=1),
    Setting(idempotence=False, retries=0),
    Setting(acks="1", idempotence=False),
    Setting(acks="0", idempotence=False),
    Setting("kit"),
    Setting("kit", max_in_flight=10),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of the table: its setting, its fault, and what was counted."""

    setting: Setting
    fault: str
    counts: dict[str, int]  # by the names of IN_WORDS, in their order

    @classmethod
    def of(cls, setting: Setting, fault: str, counts: Mapping[str, int], trace: Trace) -> Cell:
        """The cell of a run with these counts, in which the trace tells apart what is lost and what was told as failed."""
        told = sum(step.data["last"] - step.data["first"] + 1 for step in trace if step.what == "undelivered") - counts["indefinite"]
        found = {**counts, "lost": counts["lost"] - told, "told_failed": told}
        return cls(setting, fault, {name: found[name] for name in IN_WORDS})

    @property
    def signs(self) -> dict[str, bool]:
        """Which of the counts are not 0: what does not depend on how many records were sent."""
        return {name: count > 0 for name, count in self.counts.items()}

    def __str__(self) -> str:
        told = [f"{count:,} {IN_WORDS[name]}" for name, count in self.counts.items() if count]
        return ", ".join(told) or "0"


@dataclass(frozen=True, slots=True)
class GuaranteeTable:
    """The cells of a table, in its order, and with what they were measured."""

    records: int
    cells: tuple[Cell, ...]
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The lines."""
        return tuple(dict.fromkeys(cell.setting for cell in self.cells))

    @property
    def faults(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(dict.fromkeys(cell.fault for cell in self.cells))

    def cell(self, setting: Setting, fault: str) -> Cell | None:
        """What was counted there; None when it was not measured."""
        return next((cell for cell in self.cells if (cell.setting, cell.fault) == (setting, fault)), None)

    def rows(self) -> list[tuple[str, ...]]:
        """The table in words, its head first."""
        head = ("producer", *(fault.replace("_", " ") for fault in self.faults))
        lines = [(str(line), *(str(self.cell(line, fault) or "") for fault in self.faults)) for line in self.settings]
        return [head, *lines]

    def differences(self, other: GuaranteeTable) -> tuple[str, ...]:
        """Where a count is 0 in one of the two tables and not in the other, among the cells that both have."""
        pairs = ((cell, other.cell(cell.setting, cell.fault)) for cell in self.cells)
        return tuple(
            f"{mine.setting}, {mine.fault}: {mine} here, {theirs} there"
            for mine, theirs in pairs if theirs is not None and mine.signs != theirs.signs
        )  # fmt: skip

    @property
    def sentence(self) -> str:
        """With what it was measured."""
        told = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"Of {self.records:,} records each, counted by Spark in the topics ({told}):"

    def to_json(self) -> dict[str, Any]:
        """The table as JSON values; nothing in it says when or where it was made."""
        return {
            "records": self.records,
            "versions": self.versions,
            "faults": {fault: FAULTS[fault].meaning for fault in self.faults},
            "cells": [{**asdict(cell.setting), "fault": cell.fault, **cell.counts} for cell in self.cells],
        }

    def to_text(self) -> str:
        """`to_json` as text, a line for each cell, so that a change shows where it is."""
        row = self.to_json()
        cells = ",\n".join(f"  {json.dumps(cell)}" for cell in row.pop("cells"))
        return json.dumps(row, indent=1).removesuffix("\n}") + f',\n "cells": [\n{cells}\n ]\n}}\n'

    @classmethod
    def load(cls, path: str | PathLike[str]) -> GuaranteeTable:
        """The table in a file. DiskError when it cannot be read, TraceError when it is none."""
        try:
            return cls.from_json(workspace.read_regular(Path(path), 10_000_000))
        except OSError as error:
            raise DiskError(f"{path} cannot be read ({error.strerror}). Make one with `kit guarantees --out FILE`.") from error

    @classmethod
    def from_json(cls, text: str) -> GuaranteeTable:
        """Read what `to_json` gave, as text. TraceError when it is something else."""
        try:
            row = json.loads(text)
            names = [each.name for each in fields(Setting)]
            cells = [
                Cell(Setting(**{name: cell[name] for name in names}), fault_named(cell["fault"]).name,
                     {name: int(cell[name]) for name in IN_WORDS})
                for cell in row["cells"]
            ]  # fmt: skip
            return cls(int(row["records"]), tuple(cells), dict(row["versions"]))
        except (ValueError, TypeError, KeyError, RecursionError, KnobError) as error:
            raise TraceError(f"this is not a table of guarantees ({str(error)[:80]}). Make one with `kit guarantees --out FILE`.") from None

    def __repr__(self) -> str:
        told = [self.sentence]
        for setting in self.settings:
            cells = (cell for cell in self.cells if cell.setting == setting)
            told += [str(setting), *(f"    {cell.fault.replace('_', ' '):<15} {cell}" for cell in cells)]
        return "\n".join(told)

    def _repr_html_(self) -> str:
        head, *lines = self.rows()
        return f"<div><p>{html.escape(self.sentence)}</p>{html_table(head, lines)}</div>"


def run_cells(
    records: int,
    cells: Iterable[tuple[Setting, str]],
    progress: Callable[[int], None] = lambda done: None,
) -> list[tuple[Setting, str, Trace]]:
    """Run these (setting, fault) cells on the real broker; each with its trace, in the order given.

    Where a fault does not work by timeouts, its producers run side by side, so a broker is killed only
    once. `progress` hears how many more cells are done. KnobError for too few records, and as soon as a
    client refuses to start with its setting; LabError when no broker of the kit's can be had.
    """
    if records < FEWEST_RECORDS:
        raise KnobError(f"records is {records}, expected {FEWEST_RECORDS} or more: a fault needs requests before and after it.")
    wanted = list(cells)
    traces: dict[tuple[Setting, str], Trace] = {}
    for fault in dict.fromkeys(fault for _, fault in wanted):
        settings = [setting for setting, its_fault in wanted if its_fault == fault]
        is_quick = fault_named(fault).request_timeout_ms < DEFAULT_REQUEST_TIMEOUT_MS
        for group in [[setting] for setting in settings] if is_quick else [settings]:
            given = [{**asdict(setting), "records": records} for setting in group]
            for setting, trace in zip(group, run_together(given, fault=fault, experiment="guarantees"), strict=True):
                for step in trace:
                    if step.what == "refuse_to_start":
                        raise KnobError(f"{setting}: the client refuses to start ({step.data['error']}). Leave this setting out.")
                traces[setting, fault] = trace
            progress(len(group))
    return [(setting, fault, traces[setting, fault]) for setting, fault in wanted]


def all_cells(settings: Sequence[Setting] = SETTINGS, faults: Sequence[str] = tuple(FAULTS)) -> list[tuple[Setting, str]]:
    """Every setting with every fault."""
    return [(setting, fault) for setting in settings for fault in faults]
