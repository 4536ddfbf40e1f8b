"""The table of guarantees, measured: runs through the proxy, and one audit on Spark over all their topics.

What the audit counts is compared with the verdict of each run's own trace; a table whose two witnesses
disagree is not given out. Left out: the topics, which are deleted when all is counted and agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import confluent_kafka
import pandas as pd
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kitlib.errors import LabError
from kitlib.experiments.idempotence.guarantees import Setting, all_cells, cell, run_cells
from kitlib.lab import jars, kafka_server
from kitlib.lab.clients import client_config
from kitlib.monitor.delivery import judge
from kitlib.pipelines.audit import audits as audit_all
from kitlib.pipelines.topics import trace_topic
from kitlib.spark import sessions as kit_spark
from kitlib.trace import Trace

SECONDS_TO_DELETE = 20.0


def measure_guarantees(
    records: int = 20_000,
    cells: Iterable[tuple[Setting, str]] | None = None,
    progress: Callable[[int], None] = lambda done: None,
    keep: bool = False,
) -> pd.DataFrame:
    """Run the cells of a table (all of them if none are given) and count them on Spark: a row for each.

    `progress` hears how many more cells have run. With `keep` their topics stay, for `kit audit`. KnobError for too few
    records, or a setting with which a client refuses to start; LabError when no broker of the kit's can be had, or when
    audit and trace of any run disagree: it tells all that differs, and the topics of all runs stay, to be looked at.
    """
    done = run_cells(records, all_cells() if cells is None else cells, progress)
    traces = [trace for _, _, trace in done]
    audits = audit_all([trace.run for trace in traces], spark=kit_spark.session())
    differing = {trace.run: found for trace in traces if (found := audits[trace.run].differences(judge(trace)))}
    if differing:
        told = "; ".join(f"run {run}: {', '.join(differences)}" for run, differences in differing.items())
        raise LabError(f"{told}. Run `kit audit {next(iter(differing))}` and look at the trace; the topics are still there.")
    if not keep:
        _delete(traces)
    rows = [cell(setting, fault, audits[trace.run].counts, trace) for setting, fault, trace in done]
    return pd.DataFrame(rows).assign(records=records, Kafka=jars.KAFKA_VERSION, librdkafka=confluent_kafka.libversion()[0])


def _delete(traces: Iterable[Trace]) -> None:
    topics = [name for trace in traces for name in (f"kit.{trace.run}.records", trace_topic(trace.run))]
    admin = AdminClient(client_config(kafka_server.ensure()))  # a client that is let go of answers nothing more
    for future in admin.delete_topics(topics, request_timeout=SECONDS_TO_DELETE).values():
        with suppress(KafkaException, TimeoutError):  # what is left is in `kit reset`'s list
            future.result(SECONDS_TO_DELETE)
