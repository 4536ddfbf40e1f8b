"""`kit settings`: defaults as their sources tell them."""

from __future__ import annotations

import json
from functools import partial

import pytest

from kitlib.lab import client_defaults
from tests.cli.conftest import CommandLine


@pytest.fixture
def kit(command_line: CommandLine) -> CommandLine:
    """Runs `kit settings` in this process: exit code, stdout, stderr."""
    return partial(command_line, "settings")


def test_settings_without_a_source_are_shown_for_all_that_have_them(kit: CommandLine) -> None:
    """A column for each library that has one of the settings, none for the others, and no broker is started."""
    code, out, _ = kit("session.timeout.ms", "linger.ms")
    assert code == 0
    head, line = out.splitlines()[0], next(line for line in out.splitlines() if line.startswith("linger.ms"))
    assert "Java producer" in head and "librdkafka" in head and "topic" not in head and "broker " not in head
    assert client_defaults.default("java.producer", "linger.ms") in line.split()


def test_settings_as_json_have_the_sources_own_sentences(kit: CommandLine) -> None:
    """One row for each source that was named, with its default and its documentation."""
    code, out, _ = kit("acks", "--of", "java.producer", "--of", "librdkafka", "--json")
    rows = json.loads(out)
    assert code == 0 and [row["source"] for row in rows] == ["java.producer", "librdkafka"]
    assert all(row["default"] == client_defaults.default(row["source"], "acks") and row["doc"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(("bogus.setting",), "no library here has the setting"), (("acks", "--of", "storm"), "there is no source 'storm'")],
)
def test_settings_that_nobody_has_are_refused(kit: CommandLine, arguments: tuple[str, ...], told: str) -> None:
    """A misspelt setting or source is one line and exit code 2."""
    code, out, err = kit(*arguments)
    assert code == 2 and not out and told in err and len(err.splitlines()) == 1
