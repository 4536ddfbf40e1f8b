"""The table of guarantees: measured cells, its file, its picture, and the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kitlib.cli.guarantees import guarantees
from kitlib.errors import DiskError, KnobError, LabError, TraceError
from kitlib.experiments.idempotence import guarantees as cells_of
from kitlib.experiments.idempotence.guarantees import SETTINGS, Cell, GuaranteeTable, Setting, all_cells, run_cells
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster
from kitlib.lab.proxy.chaos_proxy import ChaosProxy
from kitlib.monitor.delivery import judge
from kitlib.pipelines import guarantees as pipeline
from kitlib.pipelines.guarantees import measure_guarantees
from kitlib.trace import Step, Trace
from tests.conftest import REPOSITORY, wait_for

STORED = REPOSITORY / "notebooks" / "data" / "guarantees.json"
IDEMPOTENT, PLAIN = Setting(), Setting(idempotence=False)
ACKS_0, NO_RETRIES = Setting(acks="0", idempotence=False), Setting(idempotence=False, retries=0)
KIT_5, KIT_10 = Setting("kit"), Setting("kit", max_in_flight=10)


def cell_of(fault: str, duplicated: int, reordered: int, indefinite: int) -> Cell:
    counts = {"lost": 0, "told_failed": 0, "duplicated": duplicated, "reordered": reordered, "indefinite": indefinite}
    return Cell(PLAIN, fault, counts)


def test_stored_table_has_every_cell_and_survives_its_file() -> None:
    """The table that the notebook shows is complete, and reading it gives what was written."""
    table = GuaranteeTable.load(STORED)
    assert [(cell.setting, cell.fault) for cell in table.cells] == all_cells()
    assert table.records == 20_000
    assert table.to_text() == STORED.read_text(encoding="utf-8")
    assert all(not any(cell.signs.values()) for cell in table.cells if cell.fault == "none")
    assert len(table.rows()) == len(SETTINGS) + 1


def test_table_shows_words_for_counts_and_finds_differences_by_sign() -> None:
    """0 is shown as 0; two tables differ where one has a 0 and the other not, whatever the numbers are."""
    none, some = cell_of("none", 0, 0, 0), cell_of("connection_cut", 2_500, 1, 7)
    table = GuaranteeTable(20_000, (none, some), {"<b>": "1"})
    assert str(none) == "0"
    assert str(some) == "2,500 doubled, 1 out of order, 7 told failed, yet stored"
    assert "<b>" not in table._repr_html_()
    assert "librdkafka: acks=all, not idempotent, 5 in flight" in repr(table)
    assert table.differences(GuaranteeTable(10, (none, cell_of("connection_cut", 9, 9, 9)))) == ()
    (told,) = table.differences(GuaranteeTable(10, (cell_of("connection_cut", 0, 9, 9),)))
    assert told.startswith("librdkafka: acks=all, not idempotent, 5 in flight, connection_cut: 2,500 doubled")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"records": 1, "versions": {}, "cells": [{}]}', "[" * 10_000, '{"records": "?"}'])
def test_table_from_something_else_is_refused(text: str, tmp_path: Path) -> None:
    """A damaged file ends in one sentence that says how to make another."""
    with pytest.raises(TraceError, match="Make one with `kit guarantees"):
        GuaranteeTable.from_json(text)
    with pytest.raises(DiskError, match="Make one with"):
        GuaranteeTable.load(tmp_path / "nothing")


def test_cell_tells_what_was_lost_in_silence_from_what_was_told_as_failed() -> None:
    """Of four records that are not in the topic the user was told of two; one that was told failed is there."""
    trace = Trace("r", "guarantees", "kafka", domain="idempotence")
    for what, data in (
        ("send", {"first": 0, "last": 9}), ("delivered", {"first": 0, "last": 6}), ("undelivered", {"first": 7, "last": 9}),
        ("read", {"first_offset": 0, "records": [[0, 4], [7, 7]]}),
    ):  # fmt: skip
        trace.steps.append(Step(len(trace), 0, "producer", what, {"topic": "t", "partition": 0, **data}))
    cell = Cell.of(PLAIN, "none", judge(trace).counts, trace)
    assert cell.counts == {"lost": 2, "told_failed": 2, "duplicated": 0, "reordered": 0, "indefinite": 1}
    assert str(cell) == "2 lost, 2 told failed, not stored, 1 told failed, yet stored"


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

    def measure(records: int, *_: Any, **__: Any) -> GuaranteeTable:
        measured.append(records)
        (tmp_path / "later").mkdir()
        return GuaranteeTable(records, (cell_of("none", 0, 0, 0),))

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
    assert GuaranteeTable.from_json(capsys.readouterr().out).records == 800


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
    assert sum(progress) == len(table.cells) == 8
    assert table.differences(GuaranteeTable.load(STORED)) == ()
    wrong = {(cell.setting, cell.fault): {name for name, is_there in cell.signs.items() if is_there} for cell in table.cells}
    assert wrong == {
        (IDEMPOTENT, "connection_cut"): set(),
        (PLAIN, "connection_cut"): {"duplicated"},
        (NO_RETRIES, "connection_cut"): {"indefinite"},
        (KIT_5, "connection_cut"): set(),
        (KIT_10, "connection_cut"): {"duplicated"},
        (IDEMPOTENT, "answers_lost"): set(),
        (PLAIN, "request_refused"): {"reordered"},
        (ACKS_0, "request_lost"): {"lost"},
    }
    assert wait_for(lambda: tables_topics(broker) <= before, 30)


@pytest.mark.kafka
def test_kit_guarantees_ends_at_once_on_ctrl_c(broker: Cluster) -> None:
    """One line, exit code 130, and the brokers' door is free again."""
    before = tables_topics(broker)
    command = subprocess.Popen(
        [sys.executable, "-m", "kitlib", "guarantees", "--records", "1000000"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert wait_for(lambda: tables_topics(broker) - before, 60)
    os.kill(command.pid, signal.SIGINT)
    told, complaints = command.communicate(timeout=60)
    assert (command.returncode, told) == (130, "")
    assert complaints.strip().splitlines()[-1] == "kit: stopped."
    assert "Traceback" not in complaints
    ChaosProxy.before(broker).stop()
