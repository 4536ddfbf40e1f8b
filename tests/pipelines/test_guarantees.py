"""The table of guarantees: measured cells, its file, its picture, and the command."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from confluent_kafka.admin import AdminClient

from kitlib.cli.guarantees import guarantees
from kitlib.errors import DiskError, KnobError, LabError
from kitlib.experiments.idempotence import guarantees as cells_of
from kitlib.experiments.idempotence.client_faults import FAULTS
from kitlib.experiments.idempotence.guarantees import (
    IN_WORDS,
    SETTINGS,
    Setting,
    all_cells,
    cell,
    differences,
    in_words,
    run_cells,
)
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster
from kitlib.monitor.delivery import judge
from kitlib.pipelines import guarantees as pipeline
from kitlib.pipelines.guarantees import measure_guarantees
from kitlib.trace import Step, Trace
from tests.conftest import REPOSITORY, wait_for

STORED = REPOSITORY / "notebooks" / "data" / "guarantees.jsonl"
IDEMPOTENT, PLAIN = Setting(), Setting(idempotence=False)
ACKS_0, NO_RETRIES = Setting(acks="0", idempotence=False), Setting(idempotence=False, retries=0)
KIT_5, KIT_10 = Setting("kit"), Setting("kit", max_in_flight=10)


def table_of(fault: str, duplicated: int, reordered: int, indefinite: int) -> pd.DataFrame:
    counts = {"lost": 0, "told_failed": 0, "duplicated": duplicated, "reordered": reordered, "indefinite": indefinite}
    return pd.DataFrame([{"producer": str(PLAIN), "fault": fault, **counts}])


def test_stored_table_has_every_cell_and_nothing_goes_wrong_where_nothing_does() -> None:
    """The table that the notebook shows is complete."""
    table = pd.read_json(STORED, lines=True)
    assert [*zip(table.producer, table.fault, strict=True)] == [(str(setting), fault) for setting, fault in all_cells()]
    assert {*table.records} == {20_000} and not table[table.fault == "none"][list(IN_WORDS)].to_numpy().any()
    assert in_words(table).shape == (len(SETTINGS), len(FAULTS))


def test_table_shows_words_for_counts_and_finds_differences_by_sign() -> None:
    """0 is shown as 0; two tables differ where one has a 0 and the other not, whatever the numbers are."""
    table = pd.concat([table_of("none", 0, 0, 0), table_of("connection_cut", 2_500, 1, 7)])
    [(name, *told)] = in_words(table).itertuples()
    assert name == "librdkafka: acks=all, not idempotent, 5 in flight"
    assert told == ["0", "2,500 doubled, 1 out of order, 7 told failed, yet stored"]
    assert differences(table, pd.concat([table_of("none", 0, 0, 0), table_of("connection_cut", 9, 9, 9)])).empty
    assert [*differences(table, table_of("connection_cut", 0, 9, 9)).fault] == ["connection_cut"]


def test_cell_tells_what_was_lost_in_silence_from_what_was_told_as_failed() -> None:
    """Of four records that are not in the topic the user was told of two; one that was told failed is there."""
    trace = Trace("r", "guarantees", "kafka", domain="idempotence")
    for what, data in (
        ("send", {"first": 0, "last": 9}), ("delivered", {"first": 0, "last": 6}), ("undelivered", {"first": 7, "last": 9}),
        ("read", {"first_offset": 0, "records": [[0, 4], [7, 7]]}),
    ):  # fmt: skip
        trace.steps.append(Step(len(trace), 0, "producer", what, {"topic": "t", "partition": 0, **data}))
    found = {"lost": 2, "told_failed": 2, "duplicated": 0, "reordered": 0, "indefinite": 1}
    assert cell(PLAIN, "none", judge(trace).counts, trace) == {"producer": str(PLAIN), "fault": "none", **found}


def test_too_few_records_are_refused() -> None:
    """A fault needs requests before and behind it."""
    with pytest.raises(KnobError, match="expected 800 or more"):
        measure_guarantees(100)


def test_cell_whose_client_refuses_to_start_ends_the_run_of_the_cells_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting and the client's own words, at the first such cell and not after all of them."""
    refused, faults = Setting(max_in_flight=6), []

    def run_together(given: list[dict[str, Any]], fault: str, experiment: str) -> list[Trace]:
        traces = [Trace(f"run-{number}", experiment, "kafka", domain="idempotence") for number, _ in enumerate(given)]
        for settings, trace in zip(given, traces, strict=True):
            if settings["max_in_flight"] > 5:
                trace.record(0, "producer", "refuse_to_start", error="`max.in.flight` must be <= 5")
        faults.append(fault)
        return traces

    monkeypatch.setattr(cells_of, "run_together", run_together)
    with pytest.raises(KnobError, match=r"librdkafka: .*6 in flight: the client refuses to start \(`max\.in\.flight` must be <= 5\)"):
        run_cells(800, all_cells([IDEMPOTENT, refused], ["none", "connection_cut"]))
    assert faults == ["none"]


def test_all_differences_of_audit_and_trace_are_told_and_the_topics_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three runs differ: both are told, with all that differs in each."""
    differences = {"a": ("lost 1, not 0", "late 2, not 0"), "b": (), "c": ("lost 3, not 0",)}
    done = [(IDEMPOTENT, "none", Trace(run, "guarantees", "kafka", domain="idempotence")) for run in differences]
    audits = {run: SimpleNamespace(differences=lambda _, told=told: told) for run, told in differences.items()}
    monkeypatch.setattr(pipeline, "run_cells", lambda *_: done)
    monkeypatch.setattr(pipeline, "audit_all", lambda *_, **__: audits)
    monkeypatch.setattr(pipeline.kit_spark, "session", lambda **_: None)
    monkeypatch.setattr(pipeline, "_delete", lambda _: pytest.fail("the topics are to stay"))
    with pytest.raises(LabError, match=r"^run a: lost 1, not 0, late 2, not 0; run c: lost 3, not 0\. Run `kit audit a`"):
        measure_guarantees(800, [])


def test_kit_guarantees_looks_at_out_first_and_writes_it_last(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that cannot be written is told before a minute is spent; what was measured is printed before it is written."""
    measured: list[int] = []

    def measure(records: int, *_: Any, **__: Any) -> pd.DataFrame:
        measured.append(records)
        (tmp_path / "later").mkdir()
        return table_of("none", 0, 0, 0)

    monkeypatch.setattr(pipeline, "measure_guarantees", measure)
    monkeypatch.setattr(pipeline.kit_spark, "stop", lambda: None)  # the session of the other tests goes on
    for bad, told in ((tmp_path / "no" / "table", "Make it first"), (tmp_path, "Name a file in it")):
        with pytest.raises(DiskError, match=told):
            guarantees(out=bad)
    with monkeypatch.context() as patched, pytest.raises(DiskError, match="another folder"):
        patched.setattr(os, "access", lambda *_: False)  # as for a user who may not write there
        guarantees(out=tmp_path / "table")
    assert measured == []
    with pytest.raises(DiskError, match="is a folder"):
        guarantees(records=800, out=tmp_path / "later", as_json=True)  # by now a folder
    assert json.loads(capsys.readouterr().out)["fault"] == "none"


def tables_topics(broker: Cluster) -> set[str]:
    """The topics of all tables that were measured on this broker and are still there."""
    return {name for name in AdminClient(client_config(broker)).list_topics(timeout=10).topics if "guarantees-" in name}


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_measured_cells_have_the_signs_of_the_stored_table(broker: Cluster, spark: Any) -> None:
    """Idempotence keeps five in flight exactly once, and not ten; without it, retries double and reorder; acks=0 loses."""
    cut = [(setting, "connection_cut") for setting in (IDEMPOTENT, PLAIN, NO_RETRIES, KIT_5, KIT_10)]
    progress: list[int] = []
    before = tables_topics(broker)
    table = measure_guarantees(
        2_000, [*cut, (IDEMPOTENT, "answers_lost"), (PLAIN, "request_refused"), (ACKS_0, "request_lost")], progress.append
    )
    assert sum(progress) == len(table) == 8
    assert differences(table, pd.read_json(STORED, lines=True)).empty
    wrong = {(row.producer, row.fault): {name for name in IN_WORDS if getattr(row, name)} for row in table.itertuples()}
    assert wrong == {
        (str(IDEMPOTENT), "connection_cut"): set(),
        (str(PLAIN), "connection_cut"): {"duplicated"},
        (str(NO_RETRIES), "connection_cut"): {"indefinite"},
        (str(KIT_5), "connection_cut"): set(),
        (str(KIT_10), "connection_cut"): {"duplicated"},
        (str(IDEMPOTENT), "answers_lost"): set(),
        (str(PLAIN), "request_refused"): {"reordered"},
        (str(ACKS_0), "request_lost"): {"lost"},
    }
    assert wait_for(lambda: tables_topics(broker) <= before, 30)
