"""What is said while Spark starts: what happens, how long it took the last time on this machine, and that one may read on.

A start takes 5 seconds or 60, by the machine and by what else it does; how long the last one took is the best that can be told.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from kitlib.errors import DiskError
from kitlib.lab import workspace
from kitlib.spark import server
from kitlib.spark import sessions as kit_spark

MOST_BYTES = 100


def _file() -> Path:
    return workspace.spark_dir() / "last_start_s"


def as_last_time() -> str:
    """How long a start takes: as long as the last one, or what is known of others."""
    try:
        return f"the last time it took {float(workspace.read_regular(_file(), MOST_BYTES)):.0f} s"
    except (OSError, ValueError, DiskError):
        return "on a cold machine it takes 20 to 60 s"


def first_session(say: Callable[[str], object]) -> SparkSession:
    """The kit's Spark session. Where Spark has to be started, `say` is told so at once, and how long it took is kept for the next time."""
    if kit_spark.is_alive() or server.living() is not None:
        return kit_spark.session()
    say(f"Spark is starting; {as_last_time()}. Read on meanwhile.")
    began = time.monotonic()
    session = kit_spark.session()
    with suppress(DiskError):
        workspace.write_atomic(_file(), f"{time.monotonic() - began:.1f}")
    return session
