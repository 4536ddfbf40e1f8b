"""The experiment on an offset that is set back by hand, and on the table that was to catch what comes again.

Each record has an effect outside of Kafka (a payment), and a row in a table says that it was made. The table
helps only if it is asked before the effect; and only if effect and row are one step is nothing done twice
when somebody dies between the two.
"""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.groups.group_knobs import ClientLibrary, SessionMs, evicted, settings_of, told
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.experiments.knobs import Knob

NO_CHECK, AFTER, BEFORE, WITH = "none", "after the effect", "before the effect", "one step with the effect"
BATCH = 10


def _work(run: GroupRun, name: str, table: set[int], most: int, crash_at: int | None = None) -> bool:
    """Work on so many records in batches, each committed; whether it lived to the end. It dies before the row of `crash_at`."""
    knobs, left = run.knobs, most
    while left:
        for record in run.take(name, min(BATCH, left)):
            _, offset = record
            left -= 1
            if knobs["check"] in (BEFORE, WITH) and offset in table:
                run.pass_over(name, record)
                continue
            run.process(name, record)
            if offset == crash_at:
                table |= {offset} if knobs["check"] == WITH else set()
                run.kill(name, record)
                return False
            if knobs["check"] != NO_CHECK:
                _insert(run, table, offset)
        run.commit_done(name)
    return True


def _insert(run: GroupRun, table: set[int], offset: int) -> None:
    if offset in table:
        run.note_lane("table", "refuse", 0, offset=offset)
    table.add(offset)


@experiment("An offset is reset by hand", GroupRun)
@told
def reset_by_hand(
    run: GroupRun,
    check: Annotated[
        Literal["none", "after the effect", "before the effect", "one step with the effect"],
        Knob("When the table is checked for a processed record: never, after the effect, before it, or in one transaction with it."),
    ] = "after the effect",
    records: Annotated[int, Knob("Number of records.", "records", 1, 500)] = 60,
    crash_at: Annotated[int, Knob("The record at which the first consumer dies, between its effect and its row.", "offset", 0, 499)] = 25,
    rewind_to: Annotated[int, Knob("The offset that the operator sets.", "offset", 0, 500)] = 0,
    library: ClientLibrary = "librdkafka",
    session_ms: SessionMs = 1_500,
) -> None:
    """All records have had their effect, and a table has a row for each. An operator sets the offset back. Which
    effects happen twice?
    """
    table = set[int]()
    settings = settings_of(run, max_poll_interval_ms=60_000)
    run.create(1, records)
    run.join("A", settings)
    run.settle()
    crash_at = min(crash_at, records - 1)
    _work(run, "A", table, crash_at + 1, crash_at)
    run.join("B", settings)
    evicted(run, "A", ["B"])
    _work(run, "B", table, records - (run.committed[0] or 0))
    run.alter({0: min(rewind_to, records)})  # B is still there: refused
    run.close("B")
    run.alter({0: min(rewind_to, records)})
    run.join("C", settings)
    run.settle()
    _work(run, "C", table, records - min(rewind_to, records))
    effects = sum(step.what == "process" for step in run.trace.steps)
    refused = sum(step.what == "refuse" for step in run.trace.steps)
    run.note("table", "rows", rows=len(table), refused=refused, effects=effects, records=records)
