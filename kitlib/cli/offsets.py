"""`kit offsets`, `kit watch`: what groups have committed, where it went back, and what is the matter with a group now.

`kit offsets` ends with 1 when a committed offset went back or vanished and nothing excuses it. `kit watch` ends with what it
says: 0 healthy, 1 not, 2 could not be judged. So scripts can ask.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kitlib.cli import app
from kitlib.errors import KnobError
from kitlib.lab import kafka_server
from kitlib.text import plain_text

if TYPE_CHECKING:  # the clients take a while to load, and `kit --help` does without
    from kitlib.experiments.cluster_audit.commit_log import CommitLog
    from kitlib.experiments.cluster_audit.group_reader import GroupWatch
    from kitlib.monitor.diagnosis import Diagnosis, GroupSnapshot

UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
TIMES = "a time as 2026-03-01T12:30 (your own zone unless it names one), as 90s, 15m, 6h or 7d ago, or in ms since 1970"
STYLES = {"WELL": "green", "NOTE": "cyan", "UNKNOWN": "yellow", "WRONG": "red"}
FILE_WIDTH = 200  # columns of a table that no terminal shows
SHOWN_COMMITS = 10  # of a group, when nobody says how many
FIRST_MS, LAST_MS = 10**11, 253_402_300_799_999  # 1973, before which a number is a date or seconds, and the end of the year 9999


@app.command()
def offsets(
    group: Annotated[str | None, typer.Argument(help="The consumer group; without it, all groups.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Read from this time of the log on: {TIMES}.")] = None,
    until: Annotated[str | None, typer.Option(help="Read up to this time, in the same format.")] = None,
    commits: Annotated[
        int | None, typer.Option(min=0, help=f"Of a group, also show so many of the last commits; else {SHOWN_COMMITS}.")
    ] = None,
    source: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="FILE", help="Read these instead of a cluster, again for more: segments (*.log) or their folder, "
                     "or an exported topic (JSON lines, Parquet)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, including every commit.")] = False,
) -> None:
    """Read the cluster's __consumer_offsets, or files of it: who committed what, and where it went back or vanished.

    All commits are held in memory; for a large topic, use --since or a GROUP, or the Spark job `kitlib.pipelines.offsets`.
    """
    from kitlib.experiments.cluster_audit.commit_log import check_times, read_commit_log
    from kitlib.experiments.cluster_audit.group_reader import check_group_exists, retention_of, snapshots_of, topics_of

    since_ms, until_ms = time_of("since", since), time_of("until", until)
    check_times(since_ms, until_ms)
    if group is None and commits is not None:
        raise KnobError("--commits shows the last commits of a group. Name the GROUP, or leave it out.")
    if source:
        from kitlib.experiments.cluster_audit.offset_files import read_files

        log = read_files(source, group, since_ms, until_ms)
        raise typer.Exit(_tell_history(snapshots_of(log, group), log, group, commits, as_json))
    cluster = kafka_server.ensure()
    log = read_commit_log(cluster, group, since_ms, until_ms, progress=lambda count: typer.echo(f"kit: {count:,} records read", err=True))
    if group is not None and not log.history.commits and not log.seen(group):
        check_group_exists(cluster, group)
    gone = [where for where, found in log.history.commits.items() if any(each.offset is None for each in found)]
    groups = snapshots_of(log, group, retention_of(cluster), topics_of(cluster, gone))
    raise typer.Exit(_tell_history(groups, log, group, commits, as_json))


def _tell_history(groups: list[GroupSnapshot], log: CommitLog, group: str | None, commits: int | None, as_json: bool) -> int:
    """Print what the log tells; 1 when a step back or a loss has no excuse."""
    from kitlib.experiments.cluster_audit import commit_table as tables
    from kitlib.monitor.diagnosis import signs

    found = [(each, part, signs(each, part)) for each in groups for part in each.partitions]
    told = [(part, sign) for _, part, some in found for sign in some]
    faults = sum(sign.is_fault for _, sign in told)
    verdict = "No committed offset went back or vanished." if not told else (
        f"Committed offsets went back or vanished, so often: {len(told)}; "
        + (f"nothing excuses {faults} of these." if faults else "each has an excuse.")
    )  # fmt: skip
    notes = log.notes()
    if log.removed > 0:
        notes.append(f"{log.removed} offsets of the topic have no record any more: compaction has taken them, or they are markers.")
    if as_json:
        parts = [tables.history_json(each, part, some) for each, part, some in found]
        typer.echo(json.dumps({"group": group, "partitions": parts, "verdict": verdict, "faults": faults, "notes": notes}, indent=1))
        return 1 if faults else 0
    _console().print(_table("groups" if group is None else f"group {group}", tables.HEAD, (tables.history_row(*each) for each in found)))
    shown = SHOWN_COMMITS if commits is None else commits
    if group is not None and shown:
        rows = tables.commit_rows((part for _, part, _ in found), shown)
        _console().print(_table(f"the last {len(rows)} commits", tables.COMMIT_HEAD, rows))
    _print_lines([verdict, *(f"  {part.topic}-{part.partition}: {tables.sentence(sign)}" for part, sign in told)])
    _print_lines(f"note: {each}" for each in notes)
    return 1 if faults else 0


@app.command()
def watch(
    group: Annotated[str, typer.Argument(help="The consumer group, of any protocol.")],
    once: Annotated[bool, typer.Option("--once", help="Look once.")] = False,
    every: Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds between looks.")] = 2.0,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds; without it, at Ctrl-C.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each look.")] = False,
) -> None:
    """Say what is the matter with a group, and why. Exit code of the last look: 0 healthy, 1 not, 2 could not be judged."""
    from kitlib.experiments.cluster_audit.group_reader import GroupWatch

    for name, value in (("every", every), ("seconds", seconds)):
        if value is not None and math.isnan(value):
            raise KnobError(f"--{name} is nan: give a number of seconds.")
    with GroupWatch.open(kafka_server.ensure(), group) as watched:
        ends_s = time.monotonic() if once else None if seconds is None else time.monotonic() + seconds
        console = _console()
        if as_json or once or not console.is_terminal:
            raise typer.Exit(_go_on(watched, every, ends_s, lambda found: _print_look(found, as_json)))
        rows = max(1, (console.height - 8) // 3)  # there is room for so many partitions; a reason takes some lines
        with Live(console=console, auto_refresh=False, transient=False) as live:
            code = _go_on(watched, every, ends_s, lambda found: live.update(look_table(found, rows), refresh=True))
        raise typer.Exit(code)


def _go_on(watched: GroupWatch, every_s: float, ends_s: float | None, show: Callable[[Diagnosis], None]) -> int:
    """Look and show, until the time is over; the exit code of the last look."""
    while True:
        began_s = time.monotonic()
        found = watched.look()
        show(found)
        rest_s = every_s - (time.monotonic() - began_s)
        if ends_s is not None and began_s + every_s > ends_s:
            return found.exit_code
        time.sleep(max(0.0, rest_s))


def look_table(found: Diagnosis, most: int | None = None) -> Group:
    """One look as a table of `most` partitions (None: of all), the worst first, with the verdict and its reasons below."""
    from kitlib.monitor.diagnosis import Grade, burrow

    seen = found.snapshot
    members = "members not observed" if seen.members is None else f"members: {len(seen.members)}"
    what = f"{found.verdict}, lag {found.lag_told}, {members}, {seen.protocol} protocol"
    table = Table(title=f"{plain_text(seen.group)}: {what}, {_clock(seen.at_ms)}")
    for name in ("partition", "committed", "log", "lag", "held by", "finding", "Burrow's rules"):
        table.add_column(name, overflow="fold", justify="right" if name in ("committed", "lag") else "left")
    worst_first = sorted(seen.partitions, key=lambda each: (-found.decided[each.topic, each.partition].grade, -(each.lag or 0)))
    for each in worst_first[:most]:
        said, judged = found.decided[each.topic, each.partition], burrow(seen, each)
        log = "not known" if each.start is None or each.end is None else f"{each.start:,} to {each.end:,}"
        table.add_row(
            plain_text(f"{each.topic}-{each.partition}"), _number(each.committed), log, _number(each.lag),
            plain_text(each.held_by or "nobody"), Text(said.rule, STYLES[said.grade.name]),
            judged.status.name if judged else "cannot be judged from one look" if len(each.looks) < 2 else "no commit to judge by",
        )  # fmt: skip
    lines = [found.sentence, *(f"{each.grade.name.lower()}: {each}" for each in found.findings[1:] if each.grade is not Grade.WELL)]
    lines += [f"note: {each}" for each in seen.notes]
    left = len(worst_first[most:]) if most is not None else 0
    lines += [f"{left} more partitions are not shown, none of them worse."] if left else []
    return Group(table, *(Text(plain_text(line, 2_000)) for line in lines))


def _print_look(found: Diagnosis, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(look_json(found)))
    else:
        _console().print(look_table(found))


def look_json(found: Diagnosis) -> dict[str, Any]:
    """One look for a program."""
    from kitlib.monitor.diagnosis import burrow

    seen = found.snapshot
    return {
        "group": seen.group, "at_ms": seen.at_ms, "verdict": found.verdict, "exit_code": found.exit_code, "sentence": found.sentence,
        "protocol": seen.protocol, "state": seen.state, "members": seen.members, "total_lag": found.total_lag, "notes": list(seen.notes),
        "findings": [
            {"rule": each.rule, "grade": each.grade.name.lower(), "why": each.why, "todo": each.todo, "topic": each.where and each.where[0],
             "partition": each.where and each.where[1]}
            for each in found.findings
        ],
        "partitions": [
            {"topic": each.topic, "partition": each.partition, "committed": each.committed, "log_start": each.start, "log_end": each.end,
             "last_stable_offset": each.stable, "lag": each.lag, "held_by": each.held_by, "topic_id": each.topic_id,
             "finding": found.decided[each.topic, each.partition].rule,
             "burrow": judged.status.name if (judged := burrow(seen, each)) else None}
            for each in seen.partitions
        ],
    }  # fmt: skip


def _console() -> Console:
    """A terminal has its width; in a file or a pipe nothing is cut."""
    console = Console(markup=False, emoji=False, highlight=False)
    return console if console.is_terminal else Console(markup=False, emoji=False, highlight=False, width=FILE_WIDTH)


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        _console().print(plain_text(line, 2_000), soft_wrap=True)


def _table(title: str, head: tuple[str, ...], rows: Any) -> Table:
    """Names of groups, topics and clients are other people's: control characters are shown, not obeyed."""
    table = Table(title=plain_text(title))
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(plain_text(cell) for cell in row))
    return table


def _number(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%H:%M:%S")


def time_of(name: str, text: str | None, now_ms: int | None = None) -> int | None:
    """A time that somebody has written, in ms since 1970; None for none. KnobError for what is no time."""
    if text is None:
        return None
    if text.isdecimal() and text.isascii():
        at_ms = int(text[:16])  # 16 digits are too many already
        if at_ms and not FIRST_MS <= at_ms <= LAST_MS:
            raise KnobError(f"--{name} {text[:60]} is not a plausible time in ms since 1970. Write a date as 2026-03-01.")
        return at_ms
    if ago := re.fullmatch(r"(\d{1,9})([smhd])", text):
        now = round(time.time() * 1000) if now_ms is None else now_ms
        return max(0, now - int(ago[1]) * UNITS_MS[ago[2]])
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise KnobError(f"--{name} {text[:60]} is no time. Write {TIMES}.") from None
