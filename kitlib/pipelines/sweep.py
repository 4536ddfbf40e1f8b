"""Sweeps: one experiment, thousands of runs, one row each, on Spark.

    rows = sweep("small_max_offset_behind", over={"max_offset_behind": [1, 5, 20]}, seeds=100)
    rows.groupBy("max_offset_behind").avg("lost").show()

Spark's executors make the runs and judge them; what they send back is kept in the workspace in Parquet files, so a
sweep that was stopped goes on where it was, and a larger one makes only the runs that are new. Rows are known
by all of their knobs and their seed; when the code that makes them changes, they are made again.

The rows are the same whatever the master, and always in the grid's order.

Left out: runs on a real broker, of which one machine can make only a few at a time.
"""

from __future__ import annotations

import hashlib
import html
import os
import re
import shutil
import time
import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from IPython.display import display
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

import kitlib
from kitlib.errors import DiskError
from kitlib.experiments.grid import COUNTS, MISSED, MOST_RUNS, Grid, does, rows_of
from kitlib.lab import workspace
from kitlib.pipelines.topics import one_sentence
from kitlib.spark import sessions as kit_spark
from kitlib.text import plain_text

SECONDS_PER_JOB = 5.0  # long enough for Spark's own time not to count, short enough to lose little when stopped
JOBS_AT_ONCE = 2  # the next job fills the cores that the last tasks of this one leave idle
MOST_PER_TASK, MOST_HERE = 5_000, 5_001
HASH = "[0-9a-f]{16}"  # what a folder of rows is called: the hash of the code that made them
ARROW = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "choice": pa.string()}
MODELS = ("java", "mechanisms", "more", "monitor", "words", "experiments")  # the rooms whose code makes a row

Progress = Callable[[int, int], None]  # rows that are there, rows asked for
Key = tuple[Any, ...]  # the values of all knobs, the script and the seed, as `Grid.key` has them


def sweep(
    experiment: str | Grid,
    over: Mapping[str, Iterable[Any]] | None = None,
    seeds: int | Iterable[int] = 1,
    *,
    spark: SparkSession | None = None,
    most: int = MOST_RUNS,
    progress: Progress | None = None,
    folder: str | PathLike[str] | None = None,
    **fixed: Any,
) -> DataFrame:
    """Run every combination of the values in `over` with every seed on the model; one row a run.

    The columns are `experiment`, all knobs, `seed`, `script` (what is done to the run), `steps`, `appended`, `processed`, `late_ms`
    (ms), `figure` (the experiment's figure of merit, in its unit), `is_violation`, each anomaly's count, the number of its first
    witness (`lost`, `lost_step`), and `error`: the sentence of a run that raised, whose other columns are then null.

    `seeds` is a number of seeds, or the seeds. `fixed` are knobs that all runs share; a Grid says all of this. The master is that
    of the session, so `KIT_SPARK_MASTER` moves the work to a cluster, to which the kit's code is sent along.
    Without `progress`, a bar is shown where somebody watches. `folder` keeps the rows; by default one in the workspace.

    KnobError as `Grid.of`; LabError when Spark fails; DiskError when a row cannot be kept. Ctrl-C cancels Spark's jobs;
    finished rows are kept.
    """
    grid = experiment if isinstance(experiment, Grid) else Grid.of(experiment, over, seeds, most, **fixed)
    with one_sentence(f"sweep of {grid.name}"), shown(progress, grid) as (tell, say):
        spark = spark or kit_spark.session(say=say)
        return spark.createDataFrame(rows_in_order(grid, spark, tell, folder))


def run_grid(grid: Grid, spark: SparkSession | bool | None, progress: Progress | None) -> Any:
    """The rows as a pandas DataFrame: of more than 5,000 runs made on Spark, unless `spark` says where (True: on the lab's)."""
    with one_sentence(f"sweep of {grid.name}"), shown(progress, grid) as (tell, say):
        where = len(grid) > MOST_HERE if spark is None else spark
        session = where if not isinstance(where, bool) else kit_spark.session(say=say) if where else None
        return rows_in_order(grid, session, tell).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)


def rows_in_order(grid: Grid, spark: SparkSession | None, tell: Progress, folder: str | PathLike[str] | None = None) -> pa.Table:
    """The grid's rows: those that are kept, and the others made on Spark, or in this process. Rows of a learner's class are not kept."""
    with TemporaryDirectory() as passing:
        store = Store.open(grid, Path(passing) if grid.manager else None if folder is None else Path(folder))
        places = {grid.key(place): place for place in range(len(grid))}
        store.read()
        missing = [place for key, place in places.items() if key not in store.numbers]
        done = len(grid) - len(missing)
        tell(done, len(grid))

        def keep(made: pa.Table) -> None:
            nonlocal done
            store.add(made)
            done += made.num_rows
            tell(done, len(grid))

        if missing and spark is not None:
            _run_missing(spark, grid, missing, store.schema, keep)
        for made in _made_here(grid, missing if spark is None else [], store.schema):
            keep(made)
        return store.in_order(places)


def _made_here(grid: Grid, missing: Sequence[int], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows at these places, in tables of about a second."""
    rows: list[dict[str, Any]] = []
    began = time.monotonic()
    for place in missing:
        rows.append(grid.row(place))
        if time.monotonic() - began >= 1 or place == missing[-1]:
            yield pa.Table.from_pylist(rows, schema=schema)
            rows, began = [], time.monotonic()


def told_of(counts: Sequence[int], rows: pd.DataFrame, plain: Any, broken: Mapping[str, pd.DataFrame], harmful: pd.DataFrame) -> str:
    """How many of all schedules do what, the smallest of each, and what none of them does."""
    runs, errors, seen = f"{len(rows):,}", rows["error"].dropna().astype(str), {kind: found for kind, found in broken.items() if len(found)}
    of = f"{runs} schedules with {('one fault', 'at most two faults', 'at most three faults')[len(counts) - 1]}"
    of += f", a sample of the {sum(counts):,} there are" if sum(counts) > len(rows) else ""
    told = [f"{len(each):,} {does(kind, len(each))}; the smallest: {each['script'].iloc[0]}" for kind, each in seen.items()]
    none, violated = [does(kind, 1) for kind in broken if kind not in seen], harmful[harmful["is_violation"].astype(bool)]["script"]
    parts = [f"Of {of}, {'. '.join(told)}." if told else f"{of}."]
    parts += [f"None of {runs} {', '.join(none[:-1])}{' or ' if none[1:] else ''}{none[-1]}."] if none else []
    parts += [f"No setting explains {len(violated):,} of them; the smallest: {violated.iloc[0]}."] if len(violated) else []
    had, missed = ", ".join(f"{plain[kind]} {kind}" for kind in broken if plain[kind]), errors.str.startswith(MISSED)
    parts += [f"The run without a fault has {had} already; only what comes on top of that counts."] if had else []
    parts += [f"{missed.sum():,} never came about: the message was not sent, or the run was over."] if missed.any() else []
    return " ".join([*parts, *([f"{(~missed).sum():,} ended in an error: {errors[~missed].iloc[0]}"] if (~missed).any() else [])])


def schema_of(grid: Grid) -> pa.Schema:
    """The columns of a sweep's rows."""
    knobs = [(knob.name, ARROW[knob.kind]) for knob in grid.experiment.knobs]
    counts = [("script", pa.string()), *((name, pa.int64()) for name in COUNTS)]
    anomalies = [(name, pa.int64()) for kind in grid.kinds for name in (kind, f"{kind}_step")]
    figures = [("figure", pa.float64()), ("is_violation", pa.bool_())]
    return pa.schema([("experiment", pa.string()), *knobs, ("seed", pa.int64()), *counts, *figures, *anomalies, ("error", pa.string())])


class Store:
    """The rows of one experiment that the present code has made: Parquet files in the workspace, and what was read of them.

    A file appears whole or not at all. Rows that other code has made are removed.
    """

    def __init__(self, folder: Path, grid: Grid) -> None:
        self.folder, self.grid, self.schema = folder, grid, schema_of(grid)
        self.tables = [self.schema.empty_table()]  # a few hundred bytes a row, of which a sweep may have 200,000
        self.numbers: dict[Key, int] = {}  # which row of all tables is the one of these knobs and this seed

    @classmethod
    def open(cls, grid: Grid, folder: Path | None = None) -> Store:
        """The store of the grid's experiment. DiskError when its folder cannot be made."""
        own = (folder or workspace.home() / "sweeps") / grid.name / code_hash()
        try:
            own.mkdir(parents=True, exist_ok=True)
            for other in own.parent.iterdir():
                if other != own and re.fullmatch(HASH, other.name):
                    shutil.rmtree(other, ignore_errors=True)
        except OSError as error:
            raise _unkept(own, error) from error
        return cls(own, grid)

    def read(self) -> None:
        """Take the rows that are there."""
        for path in sorted(self.folder.glob("*.parquet")):
            try:
                self._take(pq.read_table(path, schema=self.schema))
            except (pa.ArrowException, OSError) as error:
                raise DiskError(f"{path} cannot be read ({plain_text(error)}). Delete it, and its runs are made again.") from error

    def in_order(self, keys: Iterable[Key]) -> pa.Table:
        """The rows of these knobs and seeds."""
        return pa.concat_tables(self.tables).take(pa.array([self.numbers[key] for key in keys], pa.int64()))

    def _take(self, rows: pa.Table) -> None:
        first = sum(table.num_rows for table in self.tables)
        keys = zip(*(rows.column(name).to_pylist() for name in (*self.grid.knobs, "script", "seed")), strict=True)
        self.numbers.update((key, number) for number, key in enumerate(keys, first))
        self.tables.append(rows)

    def add(self, rows: pa.Table) -> None:
        """Take and keep rows. DiskError when there is no room; then none of them is kept."""
        temporary = self.folder / f".{uuid.uuid4().hex}"
        try:
            pq.write_table(rows, temporary)
            os.replace(temporary, self.folder / f"{uuid.uuid4().hex}.parquet")
        except OSError as error:
            raise _unkept(self.folder, error) from error
        finally:
            temporary.unlink(missing_ok=True)
        self._take(rows)


def code_hash() -> str:
    """A hash of all the code that a row depends on."""
    root = Path(kitlib.__file__).parent
    sources = [*root.glob("*.py"), *(path for room in MODELS for path in (root / room).rglob("*.py"))]
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _run_missing(
    spark: SparkSession, grid: Grid, missing: list[int], schema: pa.Schema, keep: Callable[[pa.Table], None]
) -> None:
    """Make the rows at these places by jobs of about SECONDS_PER_JOB, `keep` what each brings, and leave a task slot to others."""
    tag, cores = f"kit-sweep-{uuid.uuid4().hex}", max(1, kit_spark.slots(spark) - 1)
    tasks, work = max(1, cores // JOBS_AT_ONCE), partial(rows_of, grid, schema)
    send_code(spark)

    def job(places: list[int]) -> tuple[pa.Table, float]:
        spark.addTag(tag)
        began = time.monotonic()
        frame = spark.createDataFrame(pa.table({"place": places})).repartition(min(tasks, len(places)))
        return frame.mapInArrow(work, _ddl(schema)).toArrow().cast(schema), time.monotonic() - began

    size, at = 4 * cores, 0
    running: set[Future[tuple[pa.Table, float]]] = set()
    with ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
        try:
            while running or at < len(missing):
                while at < len(missing) and len(running) < JOBS_AT_ONCE:
                    running.add(pool.submit(job, missing[at : at + size]))
                    at += size
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for rows, seconds in (each.result() for each in finished):
                    keep(rows)
                    pace = rows.num_rows / max(seconds, 0.01)
                    size = min(max(tasks, int(pace * SECONDS_PER_JOB)), 4 * size, MOST_PER_TASK * tasks)
        finally:
            if running:
                spark.interruptTag(tag)


def _ddl(schema: pa.Schema) -> str:
    names = {pa.int64(): "long", pa.float64(): "double", pa.bool_(): "boolean", pa.string(): "string"}
    return ", ".join(f"`{field.name}` {names[field.type]}" for field in schema)


def send_code(spark: SparkSession) -> None:
    """Give Pythons on other machines the kit's code, as an artifact of the session. Spark takes the same file only once."""
    if str(spark.conf.get("spark.master", "")).startswith("local["):  # the very Python that runs here
        return
    with TemporaryDirectory() as room:
        archive = Path(room) / "kitlib.zip"
        write_archive(archive)
        spark.addArtifacts(str(archive), pyfile=True)


def write_archive(target: Path) -> None:
    """The kit's code in a file that Python can import from. It needs nothing else there to make a row."""
    root = Path(kitlib.__file__).parent
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, path.relative_to(root.parent))


def _unkept(folder: Path, error: OSError) -> DiskError:
    return workspace.disk_error(f"{folder}: rows of the sweep could not be kept (those that were are not made again)", error, folder)


@contextmanager
def shown(progress: Progress | None, grid: Grid) -> Iterator[tuple[Progress, Callable[[str], object]]]:
    """What is told how many rows there are, `progress` or a bar in a terminal or a notebook; and what is told why nothing moves yet."""
    console = Console(stderr=True)
    if progress is not None:
        yield progress, str
        return
    if console.is_jupyter:
        bar_of_cell = _CellBar(grid)
        yield bar_of_cell.tell, bar_of_cell.say
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"sweep of {grid.name}", total=len(grid))
        yield lambda done, total: bar.update(task, completed=done, total=total), console.print if console.is_terminal else str


class _CellBar:
    """A bar in a notebook's cell, of which a line stays that says how many runs there are. It needs no widget, so it can be saved."""

    def __init__(self, grid: Grid) -> None:
        """What is shown first is what stays."""
        self.runs = f"{len(grid):,} runs of {grid.name}"
        self.shown = display(self._data(self.runs), raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def say(self, sentence: str) -> None:
        """Why nothing moves yet."""
        self.shown.update(self._data(f"{self.runs}. {sentence}"), raw=True)

    def tell(self, done: int, total: int) -> None:
        """So many are done."""
        bar = f'<progress value="{done}" max="{total}"></progress> ' if done < total else ""
        self.shown.update(self._data(f"{done:,} of {self.runs}" if done < total else self.runs, bar), raw=True)

    def _data(self, told: str, bar: str = "") -> dict[str, str]:
        return {"text/plain": told, "text/html": f"{bar}{html.escape(told)}"}
