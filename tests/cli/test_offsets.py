"""`kit offsets` and `kit watch` as a script and a person use them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from kitlib.cli.offsets import look_json, look_table, time_of
from kitlib.errors import KnobError, LabError
from kitlib.experiments.kafka_backend import create_topic
from kitlib.lab import kafka_server
from kitlib.lab.clients import client_config
from kitlib.lab.wire.coordinator import find_coordinator
from kitlib.monitor.commit_history import Committed, GroupSeen
from kitlib.monitor.diagnosis import GroupSnapshot, PartitionSeen, diagnose
from tests.cli.conftest import CommandLine


@pytest.fixture(scope="module")
def group(broker: Any) -> str:
    """A group that went back from 8 to 3, in an empty topic."""
    name = f"kit.offsets-{uuid.uuid4().hex[:8]}"
    create_topic(AdminClient(client_config(broker)), name, 1, shared=True)
    find_coordinator(broker, name, 30.0)
    consumer = Consumer(client_config(broker, **{"group.id": name, "enable.auto.commit": False}))
    for offset in (4, 8, 3):
        consumer.commit(offsets=[TopicPartition(name, 0, offset)], asynchronous=False)
    consumer.close()
    return name


@pytest.mark.kafka
def test_offsets_shows_a_group_and_ends_with_1_for_a_step_back(command_line: CommandLine, group: str) -> None:
    """The table, and the sign with its size; JSON has every commit."""
    code, out, _ = command_line("offsets", group)
    assert code == 1 and f"{group}-0" in out and "went back by 5, from 8 to 3" in out and "the last 3 commits" in out
    code, out, _ = command_line("offsets", group, "--json")
    (told,) = json.loads(out)["partitions"]
    assert code == 1 and [each["offset"] for each in told["commits"]] == [4, 8, 3] and told["committed"] == 3


@pytest.mark.kafka
def test_offsets_without_a_group_lists_them_and_watch_once_judges_one(command_line: CommandLine, group: str) -> None:
    """Every group has a line; an offset beyond the end of its log is told with exit code 1, in the table as in JSON."""
    code, out, _ = command_line("offsets", "--json")
    assert code == 1 and group in [each["group"] for each in json.loads(out)["partitions"]]
    code, out, _ = command_line("watch", group, "--once")
    assert code == 1 and "not healthy" in out and "3 beyond the end of the log, 0" in " ".join(out.split())
    code, out, _ = command_line("watch", group, "--json", "--seconds", "0")
    told = json.loads(out)
    assert code == told["exit_code"] == 1 and told["verdict"] in told["sentence"]
    assert told["partitions"][0]["finding"] == "outside the log, beyond its end"


@pytest.mark.kafka
@pytest.mark.parametrize("arguments", [("offsets", "kit.nobody"), ("watch", "kit.nobody", "--once")], ids=lambda each: each[0])
def test_group_that_is_not_there_is_a_sentence(command_line: CommandLine, group: str, arguments: tuple[str, ...]) -> None:
    """With groups that are there, and exit code 3."""
    code, out, err = command_line(*arguments)
    assert (code, out) == (3, "") and "there is no group 'kit.nobody'" in err and "Traceback" not in err


@pytest.mark.kafka
def test_ctrl_c_ends_a_watch_with_130_and_no_traceback(broker: Any, group: str) -> None:
    """A watch goes on until it is told to end, here after a minute at the latest."""
    command = [sys.executable, "-m", "kitlib", "watch", group, "--json", "--every", "0.2", "--seconds", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None and group in process.stdout.readline() and group in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and err.endswith("kit: stopped.\n") and "Traceback" not in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("offsets", "g", "--since", "yesterday"),
        ("offsets", "g", "--since", "1700000000001", "--until", "1700000000000"),
        ("offsets", "g", "--since", "9999999999999999"),
        ("offsets", "g", "--since", "20260301"),
        ("offsets", "--commits", "5"),
        ("watch", "g", "--every", "0"),
        ("watch", "g", "--every", "nan"),
        ("watch", "g", "--seconds", "nan"),
    ],
    ids=" ".join,
)
def test_options_without_sense_are_refused_before_any_broker_is_asked(command_line: CommandLine, arguments: tuple[str, ...]) -> None:
    """Exit code 2, and what would be right."""
    code, out, err = command_line(*arguments)
    assert (code, out) == (2, "") and "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        (None, None),
        ("0", 0),
        ("1700000000000", 1_700_000_000_000),
        ("90s", 910_000),
        ("1h", 0),
        ("9999-12-31T23:59:59+00:00", 253_402_300_799_000),
        ("253402300799999", 253_402_300_799_999),
        ("2001-09-09T01:46:40+00:00", 1_000_000_000_000),
        ("2001-09-09T03:46:40+02:00", 1_000_000_000_000),
    ],
)
def test_times_are_written_in_three_ways(text: str | None, ms: int | None) -> None:
    """In ms since 1970, as so long ago (1970 at the earliest), and as people write them."""
    assert time_of("since", text, now_ms=1_000_000) == ms


@pytest.mark.parametrize("text", ["", "soon", "-5", "5x", "2026-13-01", "٣", "20260301", "253402300800000", "9" * 5_000])
def test_text_that_is_no_time_is_refused(text: str) -> None:
    """With the ways in which one may be written; a date without dashes is no second of 1970, and no calendar has the year 10000."""
    with pytest.raises(KnobError, match=r"is no time|Write a date as 2026-03-01"):
        time_of("since", text)


def test_error_shows_other_people_s_names_and_obeys_none(command_line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group may be called anything, at any length."""

    def refuse() -> Any:
        raise LabError("there is no group 'g'. Groups that there are: \x1b]0;evil\x07\u202e" + "x" * 30_000)

    monkeypatch.setattr(kafka_server, "ensure", refuse)
    code, _, err = command_line("offsets", "g")
    assert code == 3 and "\\x1b]0;evil\\x07\\u202e" in err and len(err) < 2_100 and err.strip().isprintable()


def test_table_shows_the_worst_first_and_obeys_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters and markup in names are shown; partitions that there is no room for are counted; all say one thing."""
    from rich.console import Console

    parts = [
        PartitionSeen("fine", 0, 5, 0, 5, 5, held_by="app"),
        PartitionSeen("[red]evil\x1b[2J", 1, 5, 0, 900, 900, held_by="app", commits=[Committed(1, 0, 5)], waiting_since_ms=0),
        PartitionSeen("lost", 2, None, 0, 900, 900, held_by="app"),
    ]
    since = [GroupSeen(0, 0, 1)]
    found = diagnose(GroupSnapshot("g\x1b]0;x", 60_000, parts, "classic", "Stable", ("app",), since, notes=("note \x1b[31m",)))
    Console(markup=False, emoji=False, highlight=False, width=160).print(look_table(found, 2))
    out = capsys.readouterr().out
    assert out.index("[red]evil") < out.index("fine-0" if "fine-0" in out else "1 more partitions are not shown")
    assert "assigned and never committed" in out and "assigned and nobody polls" in out
    assert "not healthy, lag 895" in out and "Group g\\x1b]0;x: not healthy." in out and "1 more partitions are not shown" in out
    assert "\x1b" not in out and "\\x1b[2J" in out and look_json(found)["exit_code"] == 1
