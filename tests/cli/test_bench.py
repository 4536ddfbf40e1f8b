"""`kit bench`: suites by name, the table, the JSON, and the exit code of a missed bound."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kitlib import bench
from kitlib.bench import Ratio
from kitlib.cli.bench import SUITES
from kitlib.errors import KitError
from kitlib.lab.kafka_server import Cluster
from tests.cli.conftest import CommandLine


def test_bench_measures_models_and_keeps_the_ratios(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Suites by name, each once: their ratios as JSON on the screen and in the file; exit code 0 if all hold, else 1."""
    for name, value in {"OPERATIONS": 500, "PENDING": (10, 2_000)}.items():
        monkeypatch.setattr(bench, name, value)
    out_file = tmp_path / "bench.json"
    code, out, err = command_line("bench", "partition_manager", "partition_manager", "--json", "--rounds", "1", "--out", str(out_file))
    found = json.loads(out)
    assert json.loads(out_file.read_text()) == found and [each["bound"] for each in found] == [1.5]
    assert code == (0 if all(each["holds"] for each in found) else 1) and all(each["value"] > 0 for each in found)
    assert [line.split(": ")[1] for line in err.splitlines()] == ["partition_manager"]


def test_bench_table_shows_bounds_and_what_missed(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ratio is a row with its bound; a missed one says so, and ends with 1."""
    monkeypatch.setattr(bench, "proxy", lambda rounds, say: [Ratio("kept", 5, 4), Ratio("missed", 1.6, 1.5, at_most=True)])
    code, out, _ = command_line("bench", "proxy")
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if line.startswith("│")]
    assert code == 1 and rows == [["kept", "5.00", ">= 4", "holds"], ["missed", "1.60", "<= 1.5", "MISSED"]]


@pytest.mark.parametrize("suite", ["", "proxies", "../proxy", "seconds"])
def test_bench_unknown_suite_is_told_with_those_there_are(command_line: CommandLine, suite: str) -> None:
    """A suite's name is one of the list, and nothing is measured if one is not."""
    code, out, err = command_line("bench", "proxy", suite)
    assert (code, out) == (2, "") and f"'{suite}'" in err and ", ".join(SUITES) in err


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_bench_works_on_kafka_and_spark_are_done_before_they_count(broker: Cluster, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few records: a client through the proxy and a source do their whole work, and what was not done is an error."""
    for name, value in {"SENT": 500, "READ": 1_000}.items():
        monkeypatch.setattr(bench, name, value)
    [ratio] = bench.proxy(1, lambda text: None)
    assert ratio.value > 0
    with bench.topics_on(2) as (cluster, [topic]):
        stream = partial(bench.Topics.find().stream_records, spark, topic, "earliest", None)
        with pytest.raises(KitError, match=r"the source read .*, expected 1,000 records"):
            bench.batch_seconds(stream)
        bench.write(cluster, topic, 1_000, 2)
        assert bench.batch_seconds(stream) > 0
