"""`kit offsets`, `kit watch`: what groups have committed, where it went back, and how far behind they are now.

`kit offsets` ends with 1 when a committed offset went back or vanished and nothing excuses it; `kit watch --once`
ends with 1 when the group is not OK. So scripts can ask.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable
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
from kitlib.lab import kafka_server, workspace
from kitlib.text import plain_text

if TYPE_CHECKING:  # the clients take a while to load, and `kit --help` does without
    from kitlib.experiments.cluster_audit.commit_log import CommitLog
    from kitlib.experiments.cluster_audit.commit_report import Report
    from kitlib.experiments.cluster_audit.lag_watch import GroupSnapshot, LagWatch, PartitionSnapshot
    from kitlib.lab.clients import Cluster

UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
TIMES = "a time as 2026-03-01T12:30 (your own zone unless it names one), as 90s, 15m, 6h or 7d ago, or in ms since 1970"
STYLES = {"OK": "green", "WARN": "yellow", "NOTFOUND": "", "NONE": ""}  # all others are red
LONGEST_REASON = 300
FILE_WIDTH = 200  # columns of a table that no terminal shows
SHOWN_COMMITS = 10  # of a group, when nobody says how many
FIRST_MS, LAST_MS = 10**11, 253_402_300_799_999  # 1973, before which a number is a date or seconds, and the end of the year 9999


@app.command()
def offsets(
    group: Annotated[str | None, typer.Argument(help="The consumer group; without it, one line per group.")] = None,
    since: Annotated[str | None, typer.Option(help=f"Read from this time of the log on: {TIMES}.")] = None,
    until: Annotated[str | None, typer.Option(help="Read up to this time, in the same format.")] = None,
    commits: Annotated[
        int | None, typer.Option(min=0, help=f"Of a group, also show so many of the last commits; else {SHOWN_COMMITS}.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw the history into this file, FILE.svg or FILE.html.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, including every commit of the group.")] = False,
    health: Annotated[bool, typer.Option("--health", help="Show the health figures instead, and the alarms they raise.")] = False,
    spark: Annotated[bool, typer.Option("--spark", help="Read with a Spark job, whose memory does not grow with the history.")] = False,
) -> None:
    """Read the cluster's __consumer_offsets: who committed what, and where it went back or vanished.

    All commits are held in memory; for a large topic, use --spark, --since or a GROUP.
    """
    from kitlib.experiments.cluster_audit import commit_report
    from kitlib.experiments.cluster_audit.commit_log import check_times, read_commit_log
    from kitlib.experiments.cluster_audit.lag_watch import check_group_exists

    since_ms, until_ms = time_of("since", since), time_of("until", until)
    check_times(since_ms, until_ms)
    if plot is not None and plot.suffix not in (".svg", ".html"):
        raise KnobError(f"--plot {plot}: a picture is an .svg or an .html. Give the file one of these endings.")
    if health or spark:
        others: dict[str, object] = {"GROUP": group if health else None, "--commits": commits, "--plot": plot, "--json": as_json or None}
        _check_alone(health, spark, others)
        raise typer.Exit(_by_health(since_ms, until_ms) if health else _by_spark(group, since_ms, until_ms))
    if group is None and commits is not None:
        raise KnobError("--commits shows the last commits of a group. Name the GROUP, or leave it out.")
    cluster = kafka_server.ensure()
    log = read_commit_log(cluster, group, since_ms, until_ms, progress=_say_progress)
    if group is not None and not log.history.commits and not log.seen(group):
        check_group_exists(cluster, group)
    report = commit_report.report_of(cluster, log, group)
    if plot is not None:
        _draw(cluster, log, group, plot)
    if as_json:
        typer.echo(json.dumps({**report.data, "verdict": report.verdict, "faults": report.faults, "notes": report.notes}, indent=1))
    else:
        shown = SHOWN_COMMITS if commits is None else commits
        _print(report, commit_report.commit_rows(log, group, shown) if group is not None else [], commit_report.COMMIT_HEAD)
    raise typer.Exit(1 if report.faults else 0)


def _check_alone(health: bool, spark: bool, others: dict[str, object]) -> None:
    """KnobError for options that the chosen one does not heed."""
    name = "--health" if health else "--spark"
    given = [each for each, value in others.items() if value is not None] + (["--spark"] if health and spark else [])
    if given:
        raise KnobError(f"{name} cannot be combined with {', '.join(given)}. Leave {'it' if len(given) == 1 else 'them'} out.")


def _by_health(since_ms: int | None, until_ms: int | None) -> int:
    from kitlib.experiments.cluster_audit.topic_health import HEAD, look_at_health

    if since_ms is not None or until_ms is not None:
        raise KnobError("--health shows the present. Leave --since and --until out.")
    found = look_at_health(kafka_server.ensure())
    _console().print(_table("health of committed offsets", HEAD, found.rows()))
    _print_lines(found.lines())
    return 0 if found.is_well else 1


def _by_spark(group: str | None, since_ms: int | None, until_ms: int | None) -> int:
    from kitlib.experiments.cluster_audit.commit_report import retention_of
    from kitlib.experiments.cluster_audit.lag_watch import check_group_exists
    from kitlib.lab import spark  # Spark takes a while to load
    from kitlib.pipelines import offsets as job

    cluster = kafka_server.ensure()
    typer.echo("kit: starting Spark and reading the topic", err=True)
    try:
        rules = job.LagRules(retention_ms=retention_of(cluster))
        report = job.offsets(group, since_ms=since_ms, until_ms=until_ms, rules=rules)
        if group is not None and not report.partitions:
            check_group_exists(cluster, group)
        _console().print(_table(report.sentence, tuple(report.COLUMNS), report.rows()))
        _print_lines(f"note: {note}" for note in report.notes())
    finally:
        spark.stop()
    return 1 if report.faults else 0


@app.command()
def watch(
    group: Annotated[str, typer.Argument(help="The consumer group.")],
    once: Annotated[bool, typer.Option("--once", help="Look once; exit code 0 if all is OK, otherwise 1.")] = False,
    every: Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds between looks.")] = 2.0,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after this many seconds; without it, at Ctrl-C.")] = None,
    intervals: Annotated[int, typer.Option(min=1, max=1000, help="Commits in a window.")] = 10,
    allowed_lag: Annotated[int, typer.Option(min=0, help="A lag of up to this counts as none.")] = 0,
    min_distance: Annotated[int, typer.Option(min=0, help="Commits less than this many seconds apart count as one.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each look.")] = False,
) -> None:
    """Watch a group: the lag of each partition, its status by Burrow's rules, and why. Stop with Ctrl-C."""
    from kitlib.experiments.cluster_audit.lag_watch import LagWatch, is_well

    for name, value in (("every", every), ("seconds", seconds)):
        if value is not None and math.isnan(value):
            raise KnobError(f"--{name} is nan: give a number of seconds.")
    with LagWatch.open(kafka_server.ensure(), group, intervals, min_distance, allowed_lag) as watched:
        if once:
            found = watched.look()
            _print_look(found, as_json)
            raise typer.Exit(0 if is_well(found) else 1)
        ends_s = None if seconds is None else time.monotonic() + seconds
        console = _console()
        if as_json or not console.is_terminal:
            _go_on(watched, every, ends_s, lambda look: _print_look(look, as_json))
            return
        with Live(console=console, auto_refresh=False, transient=False) as live:
            _go_on(watched, every, ends_s, lambda look: live.update(look_table(look, _rows(console)), refresh=True))


def _rows(console: Console) -> int:
    """How many partitions a terminal has room for; a reason takes some lines."""
    return max(1, (console.height - 8) // 3)


def _go_on(watched: LagWatch, every_s: float, ends_s: float | None, show: Any) -> None:
    """Look and show, until the time is over; between two looks what comes is read."""
    while True:
        began_s = time.monotonic()
        show(watched.look())
        rest_s = every_s - (time.monotonic() - began_s)
        if ends_s is not None and began_s + every_s > ends_s:
            return
        time.sleep(max(0.0, rest_s))


# -- what is shown ----------------------------------------------------------------------------------


def _console() -> Console:
    """A terminal has its width; in a file or a pipe nothing is cut."""
    console = Console(markup=False, emoji=False, highlight=False)
    return console if console.is_terminal else Console(markup=False, emoji=False, highlight=False, width=FILE_WIDTH)


def _print(report: Report, commits: list[tuple[str, ...]], commit_head: tuple[str, ...]) -> None:
    console = _console()
    console.print(_table(report.title, report.head, report.rows))
    if commits:
        console.print(_table(f"the last {len(commits)} commits", commit_head, commits))
    _print_lines(report.lines())


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


def look_table(look: GroupSnapshot, most: int | None = None) -> Group:
    """One look as a table of `most` partitions (None: of all), the worst first, with its notes below."""
    members = "" if look.members is None else f", members: {look.members}"
    title = f"{plain_text(look.group)}: {look.status.status.name}, total lag {look.status.total_lag:,}{members}, {_clock(look.at_ms)}"
    table = Table(title=title)
    for name in ("partition", "committed", "log end", "lag", "age", "status"):
        table.add_column(name, overflow="fold", justify="right" if name in ("committed", "log end", "lag", "age") else "left")
    table.add_column("why", ratio=1)
    worst_first = sorted(look.partitions, key=lambda each: (-badness(each), -(each.lag or 0)))
    for each in worst_first[:most]:
        table.add_row(
            plain_text(f"{each.topic}-{each.partition}"), _number(each.committed), _number(each.log_end), _number(each.lag),
            _age(each.age_ms), Text(each.word, STYLES.get(each.word, "red")), plain_text(_reason(each), LONGEST_REASON),
        )  # fmt: skip
    left = len(worst_first) - len(worst_first[:most])
    notes = [*look.notes, *([f"{left} more partitions are not shown, none of them worse."] if left else [])]
    return Group(table, *(Text(f"note: {plain_text(note, 1_000)}") for note in notes))


def badness(each: PartitionSnapshot) -> int:
    """How bad a partition is, a lost commit before all."""
    return 100 if each.status is None else int(each.status.status)


def _reason(each: PartitionSnapshot) -> str:
    """Why, and what the topic still tells about the past."""
    faults = [sign for sign in each.signs if sign.is_fault]
    return f"{each.why}; steps back and losses that the topic tells of: {len(faults)}" if faults else each.why


def _print_look(look: GroupSnapshot, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(look_json(look)))
        return
    _console().print(look_table(look))


def look_json(look: GroupSnapshot) -> dict[str, Any]:
    """One look for a program."""
    return {
        "group": look.group, "at_ms": look.at_ms, "status": look.status.status.name, "total_lag": look.status.total_lag,
        "members": look.members, "notes": list(look.notes),
        "partitions": [
            {
                "topic": each.topic, "partition": each.partition, "status": each.word, "why": each.why, "lag": each.lag,
                "committed": each.committed, "log_end": each.log_end, "age_ms": each.age_ms, "by": each.by,
                "rule": None if each.status is None else each.status.judgement.rule,
                "complete": None if each.status is None else round(each.status.complete, 3),
                "signs": [str(sign) for sign in each.signs],
            }
            for each in look.partitions
        ],
    }  # fmt: skip


def _number(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"


def _age(age_ms: int | None) -> str:
    return "" if age_ms is None else f"{age_ms / 1000:,.0f} s"


def _clock(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime("%H:%M:%S")


def _draw(cluster: Cluster, log: CommitLog, group: str | None, path: Path) -> None:
    from kitlib.experiments.cluster_audit.commit_report import lost_topics, retention_of, signs_in
    from kitlib.views import draw_history

    kept_ms = retention_of(cluster)
    picture = draw_history(log.history, signs_in(log, group, kept_ms, lost_topics(cluster, log, group, kept_ms)))
    page = f'<!doctype html><meta charset="utf-8"><title>Committed offsets</title>{picture.to_html()}\n'
    workspace.write_atomic(path, page if path.suffix == ".html" else picture.svg)
    typer.echo(f"kit: {plain_text(path, 1_000)}: {picture.sentence}", err=True)


def _say_progress(records: int) -> None:
    typer.echo(f"kit: {records:,} records read", err=True)


# -- times ------------------------------------------------------------------------------------------


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
