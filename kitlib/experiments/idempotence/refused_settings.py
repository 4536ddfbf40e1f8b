"""What a client refuses to start with, and what it quietly makes of its settings: the model's rules, or the real clients'.

Idempotence needs acks=all, retries, and at most five requests in flight. Which of these a client
checks, and whether it refuses or switches idempotence off without a word, differs between Java's client
and librdkafka, and with what the user wrote down. Nothing is sent here and no broker is needed: a real
client decides this when it is made.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, Producer

from kitlib.errors import KnobError
from kitlib.lab.java_client import JavaClient, RefusedSettings
from kitlib.more.client.refusals import start
from kitlib.text import html_table, text_table

CLIENTS = {"java": "java-4.3", "librdkafka": "librdkafka"}  # by our names: those of the model's rules
WHO = ("model", "real")
# The settings that matter here, by ProducerConfig's names: what users write down, None for not a word.
GRID: dict[str, tuple[int | bool | None, ...]] = {
    "enable_idempotence": (None, True),
    "acks": (None, -1, 1),
    "retries": (None, 0),
    "max_in_flight_requests_per_connection": (None, 5, 6),
}
STARTS, UNPROTECTED, REFUSES = "idempotent", "not idempotent", "refuses"
COLUMNS = ("client", "idempotence", "acks", "retries", "in flight", "starts")


@dataclass(frozen=True, slots=True)
class SettingsRow:
    """One client with the settings that the user wrote down, and how it starts."""

    client: str
    given: dict[str, int | bool]
    starts: str  # STARTS, UNPROTECTED or REFUSES
    message: str = ""  # of the refusal: a real client's own words, or the model's

    def cells(self) -> tuple[str, ...]:
        """In the order of COLUMNS; "-" for a setting that was not written down."""
        told = ("-" if self.given.get(name) is None else str(self.given[name]).lower() for name in GRID)
        return (self.client, *told, self.starts)


@dataclass(frozen=True, slots=True)
class SettingsTable:
    """How each client starts with each combination of settings."""

    rows: tuple[SettingsRow, ...]

    def differences(self, other: SettingsTable) -> list[str]:
        """Where another table says something else, in words; the messages are not compared."""
        theirs = {row.cells()[:-1]: row.starts for row in other.rows}
        return [
            f"{' '.join(row.cells()[:-1])}: {row.starts} here, {theirs.get(row.cells()[:-1], 'missing')} there"
            for row in self.rows
            if theirs.get(row.cells()[:-1]) != row.starts
        ]

    def count(self, starts: str) -> int:
        """How many rows start like this."""
        return sum(row.starts == starts for row in self.rows)

    def __repr__(self) -> str:
        return "\n".join(text_table([COLUMNS, *(row.cells() for row in self.rows)], left=len(COLUMNS)))

    def _repr_html_(self) -> str:
        return html_table(COLUMNS, (row.cells() for row in self.rows))


def settings_table(who: str = "model", clients: tuple[str, ...] = tuple(CLIENTS)) -> SettingsTable:
    """How `clients` start with every combination of GRID: by the model's rules, or the "real" clients themselves.

    librdkafka does not tell whether it is idempotent. Of the real one only the refusals are its own words;
    where it starts, `starts` is what it was given, or its documented default (off). Java's client is asked.

    KnobError for another `who` or client; LabError when Java's client cannot be started.
    """
    if who not in WHO or not set(clients) <= CLIENTS.keys():
        raise KnobError(
            f"settings_table: who is {who!r} and clients are {clients}, expected who one of {', '.join(WHO)} "
            f"and clients of {', '.join(CLIENTS)}."
        )
    rows: list[SettingsRow] = []
    for client in clients:
        if who == "model":
            rows += [_by_the_model(client, given) for given in combinations()]
        elif client == "java":
            with JavaClient.open() as java:
                rows += [_by_java(java, given) for given in combinations()]
        else:
            rows += [_by_librdkafka(given) for given in combinations()]
    return SettingsTable(tuple(rows))


def combinations() -> Iterator[dict[str, int | bool]]:
    """Every combination of GRID, without the settings that are not written down."""
    for values in itertools.product(*GRID.values()):
        yield {name: value for name, value in zip(GRID, values, strict=True) if value is not None}


def _by_the_model(client: str, given: dict[str, int | bool]) -> SettingsRow:
    begun = start(CLIENTS[client], given)
    if begun.refusal is not None:
        return SettingsRow(client, given, REFUSES, begun.refusal)
    return SettingsRow(client, given, STARTS if begun.idempotence else UNPROTECTED)


def _by_java(java: JavaClient, given: dict[str, int | bool]) -> SettingsRow:
    settings = {name.replace("_", "."): value for name, value in given.items()}
    try:
        java.close_at_once(java.producer(settings))
    except RefusedSettings as error:
        return SettingsRow("java", given, REFUSES, str(error))
    is_on = java.producer_settings(settings)["enable.idempotence"] == "true"
    return SettingsRow("java", given, STARTS if is_on else UNPROTECTED)


def _by_librdkafka(given: dict[str, int | bool]) -> SettingsRow:
    """librdkafka never switches idempotence off by itself: what it starts with is what it was told."""
    settings: dict[str, Any] = {name.replace("_", "."): value for name, value in given.items()}
    try:
        Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0} | settings)
    except (KafkaException, ValueError, TypeError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        return SettingsRow("librdkafka", given, REFUSES, reason)
    return SettingsRow("librdkafka", given, STARTS if given.get("enable_idempotence") else UNPROTECTED)
