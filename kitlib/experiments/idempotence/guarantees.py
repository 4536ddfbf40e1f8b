"""The table of guarantees: for each setting of a producer and each fault, what became of its records.

What acks, idempotence, requests in flight and retries promise is written in many places. Here it is
measured: each cell of the table is a run of its own, with a real client, through the proxy, to the real
broker. `run_cells` makes the runs; the counts come from the audit on Spark (`kitlib.pipelines.guarantees`).
A table is a DataFrame with a row for each cell.

Left out: more than one broker, so acks=1 and acks=all differ in nothing that a table could show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from kitlib.errors import KnobError
from kitlib.experiments.idempotence.client_faults import DEFAULT_REQUEST_TIMEOUT_MS, FAULTS, fault_named
from kitlib.experiments.idempotence.client_run import MAX_RETRIES, run_together
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
    batch_records: int = 0  # 0: a fortieth of the records

    def __str__(self) -> str:
        parts = [f"acks={self.acks}", "idempotent" if self.idempotence else "not idempotent", f"{self.max_in_flight} in flight"]
        if self.retries != MAX_RETRIES:
            parts.append(f"retries={self.retries}")
        if self.batch_records:
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


def cell(setting: Setting, fault: str, counts: Mapping[str, int], trace: Trace) -> dict[str, Any]:
    """A run's row of the table; the trace tells apart what is lost and what was told as failed."""
    told = sum(step.data["last"] - step.data["first"] + 1 for step in trace if step.what == "undelivered") - counts["indefinite"]
    found = {**counts, "lost": counts["lost"] - told, "told_failed": told}
    return {"producer": str(setting), "fault": fault, **{name: found[name] for name in IN_WORDS}}


def in_words(table: pd.DataFrame) -> pd.DataFrame:
    """The table as it is read: a line for each producer, a column for each fault, with what was not 0."""

    def told(row: pd.Series[int]) -> str:
        return ", ".join(f"{count:,} {IN_WORDS[str(name)]}" for name, count in row.items() if count) or "0"

    read = table.assign(told=table[list(IN_WORDS)].apply(told, axis=1)).pivot(index="producer", columns="fault", values="told")
    return read.reindex(index=table["producer"].unique(), columns=table["fault"].unique())


def differences(table: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """The cells of both in which one table has a 0 and the other has none: counts depend on how many records were sent."""
    both = table.merge(other, on=["producer", "fault"], suffixes=("", " there"))
    here, there = both[list(IN_WORDS)] > 0, both[[f"{name} there" for name in IN_WORDS]] > 0
    return both[(here.to_numpy() != there.to_numpy()).any(axis=1)]


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
