"""`kit bench`: suites by name, the table, the JSON, and the exit code of a missed bound."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kitlib.bench import acker, producer, scale
from kitlib.bench.figures import Figure
from kitlib.cli import bench
from kitlib.cli.bench import LONG, SUITES
from kitlib.errors import KitError
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster
from tests.cli.conftest import CommandLine


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The acker's suite with a few thousand messages, so that it takes a moment."""
    for name, value in {"OPEN": 800, "MANY_OPEN": 1_600, "TURNS": 2_000, "SMALL_BATCH": 64}.items():
        monkeypatch.setattr(acker, name, value)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The acker's suite measures what nobody would believe: one promise kept, one figure without a bound, one missed."""
    given = [Figure("kept", 2_500_000, "trees/s", 1_500_000), Figure("free", 3, "times"), Figure("missed", 25, "bytes", 24, at_most=True)]
    monkeypatch.setattr(acker, "measure", lambda rounds, say: given[: 2 if rounds == 1 else 3])


def test_bench_acker_measures_every_promise(small: None, command_line: CommandLine, tmp_path: Path) -> None:
    """One suite by name: its figures as JSON on the screen and in the file; exit code 0 if all hold, else 1."""
    code, out, err = command_line("bench", "acker", "--json", "--rounds", "1", "--out", str(tmp_path / "bench.json"))
    found = json.loads(out)
    assert json.loads((tmp_path / "bench.json").read_text()) == found
    bounds = [(figure["unit"], figure["bound"], figure["at_most"]) for figure in found if figure["bound"]]
    assert bounds[2:] == [("bytes", 24, True), ("bytes", 24, True)] and [unit for unit, _, _ in bounds[:2]] == ["messages/s", "trees/s"]
    assert bounds[1][1] / bounds[0][1] == pytest.approx(1_500_000 / 250_000) and 0 < bounds[0][1] <= 250_000
    assert all(figure["value"] > 0 for figure in found) and len(found) == 8
    assert code == (0 if all(figure["holds"] for figure in found) else 1)
    assert err.splitlines() == ["kit: acker: messages and trees a second", "kit: acker: memory"]


def test_bench_acker_memory_of_a_tree_is_21_bytes_and_a_little(small: None) -> None:
    """What a batch acker keeps is its columns, 21 bytes a tree; the rest does not grow with the trees."""
    assert 21 <= acker.bytes_per_tree(20_000) < 21.5


@pytest.mark.parametrize(
    ("slower", "bound", "told"),
    [(1.0, "1,500,000", ""), (2.5, "600,000", "A plain loop takes up to 2.5 times as long"), (4.0, "375,000", "4.0 times as long")],
)
def test_bench_table_shows_bounds_and_what_missed(
    figures: None, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, slower: float, bound: str, told: str
) -> None:
    """Each figure is a row with its bound; a missed one says so, and ends with 1; one without a bound holds nothing.

    Where a plain loop takes longer, a rate's bound is lower by as much, and one of memory is what it was.
    """
    monkeypatch.setattr(bench, "slowness", lambda loops: slower)
    code, out, _ = command_line("bench", "acker")
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if line.startswith("│")]
    assert code == 1 and rows == [
        ["kept", "2,500,000", "trees/s", f">= {bound}", "holds"],
        ["free", "3.00", "times", "", ""],
        ["missed", "25.00", "bytes", "<= 24", "MISSED"],
    ]
    assert told in " ".join(out.split()) and ("A plain loop" in out) == bool(told)


def test_bench_without_a_missed_bound_ends_with_0(figures: None, command_line: CommandLine) -> None:
    """All promises kept: exit code 0; a suite that is named twice is measured once."""
    code, out, _ = command_line("bench", "acker", "acker", "--rounds", "1", "--json")
    assert code == 0 and [figure["name"] for figure in json.loads(out)] == ["kept", "free"]


@pytest.mark.parametrize("suite", ["", "ackers", "../acker", "figures"])
def test_bench_unknown_suite_is_told_with_those_there_are(figures: None, command_line: CommandLine, suite: str) -> None:
    """A suite's name is one of the list, and nothing is measured if one is not."""
    code, out, err = command_line("bench", "acker", suite)
    assert (code, out) == (2, "") and f"'{suite}'" in err and ", ".join(SUITES) in err


def test_bench_every_suite_can_be_measured(command_line: CommandLine) -> None:
    """Each suite is a module with `measure`, and the help names them all."""
    for suite in (*SUITES, *LONG):
        assert callable(import_module(f"kitlib.bench.{suite}").measure)
    code, out, _ = command_line("bench", "--help")
    assert code == 0 and all(suite in " ".join(out.split()) for suite in (*SUITES, *LONG))


def test_bench_work_that_ends_other_trees_is_no_figure() -> None:
    """A speed counts only if the work was done: another number of ended trees is an error."""
    with pytest.raises(KitError, match="3 trees ended, expected 4"):
        acker.timed(lambda: 3, 4)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_bench_scale_audits_a_topic_of_any_size(broker: Cluster, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every record is found once, what moved between tasks is counted, and who used memory."""
    monkeypatch.setattr(scale, "PER_STEP", 30)
    run, admin, watch = "bench-of-a-few", AdminClient(client_config(broker)), scale.Watch()
    moved = scale.shuffled_bytes(spark)
    scale.fill(broker, admin, run, 8 * 100)
    scale.run_audit(spark, run, 800)
    watch.look()
    assert scale.shuffled_bytes(spark) > moved
    assert watch.cpu_s > watch.before > 0
    assert min(watch.most[scale.PYTHON], watch.most[scale.DRIVER]) > 10_000_000


@pytest.mark.kafka
def test_bench_producer_measures_every_promise(broker: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few records through each client, directly and through the proxy: every figure there, and every promise among them."""
    monkeypatch.setattr(producer, "RECORDS", 2_000)
    monkeypatch.setattr(producer, "MODEL_BATCHES", 1_000)
    said: list[str] = []
    found = producer.measure(1, said.append)
    assert all(figure.value > 0 for figure in found) and len(said) == 2
    assert [(figure.unit, figure.bound) for figure in found if figure.bound] == [
        ("records/s", 60_000), ("times", 1), ("%", 70), ("%", 70), ("batches/s", 150_000),
    ]  # fmt: skip


@pytest.mark.kafka
def test_bench_producer_that_does_not_write_all_is_no_figure(broker: Cluster) -> None:
    """The topic has to hold every record afterwards, whatever a client says."""
    with pytest.raises(KitError, match="0 records are stored, expected 100,000"):
        producer.real_seconds(lambda cluster, topic: None, broker, broker)
