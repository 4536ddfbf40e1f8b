"""How many runs a second a sweep makes and judges: in a plain loop on one core, and on Spark beside plain loops on all cores.

The plain loops run in a process for each core, at the same time, before and after each sweep: a shared machine's speed
drifts, and two busy cores are slower than twice one.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import mean, median
from time import perf_counter

from kitlib.bench.figures import Figure
from kitlib.experiments.grid import Grid
from kitlib.lab import spark as kit_spark
from kitlib.lab import workspace
from kitlib.pipelines.sweep import sweep

EXPERIMENT = "small_max_offset_behind"
OVER = {"max_offset_behind": range(1, 21), "fetch_records": (5, 10, 20, 40)}
SETTINGS = 80  # of OVER
RUNS = 20_000  # of the sweep
LOOP = 1_600  # runs of a plain loop
MOST_ROUNDS = 3


def loop_rate(runs: int, grid: Grid | None = None) -> float:
    """Runs a second of a plain loop over the grid, or over seeds of the experiment as it is."""
    grid = grid or Grid.of(EXPERIMENT, seeds=runs)
    step = len(grid) // runs
    grid.row(0)
    begun = perf_counter()
    for place in range(0, step * runs, step):
        grid.row(place)
    return runs / (perf_counter() - begun)


def measure(rounds: int = MOST_ROUNDS, say: Callable[[str], None] = lambda text: None) -> list[Figure]:
    """The figures; about a minute and a half for each round."""
    room = workspace.spark_dir() / f"bench-{uuid.uuid4().hex[:8]}"
    rates, ratios, one = [], [], []
    try:
        with kit_spark.session("kit bench") as spark:
            cores = spark.sparkContext.defaultParallelism
            with ProcessPoolExecutor(cores, get_context("spawn")) as pool:

                def loops(grid: Grid) -> float:
                    return sum(pool.map(loop_rate, [LOOP] * cores, [grid] * cores))

                for number in range(min(rounds, MOST_ROUNDS)):
                    say(f"round {number + 1}: {RUNS:,} runs")
                    grid = Grid.of(EXPERIMENT, OVER, RUNS // SETTINGS)
                    one.append(loop_rate(LOOP))
                    before, begun = loops(grid), perf_counter()
                    sweep(EXPERIMENT, OVER, RUNS // SETTINGS, spark=spark, folder=room / str(number), progress=lambda done, total: None)
                    rates.append(RUNS / (perf_counter() - begun))
                    ratios.append(rates[-1] / mean([before, loops(grid)]))
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return [
        Figure(f"{EXPERIMENT} with its verdict, a plain loop", median(one), "runs/s", 150),
        Figure(f"Sweep of {RUNS:,} runs on Spark, {cores} cores", median(rates), "runs/s"),
        Figure("Sweep on Spark / a plain loop on each core", median(ratios), "of its rate", 0.8),
    ]
