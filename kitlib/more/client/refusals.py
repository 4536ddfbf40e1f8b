"""What a client refuses to start with: the limits within which its guarantee holds.

More than five requests in flight, an acknowledgement of the leader alone or no retries at all would
each break what idempotence promises. The clients do not agree on what to do about it: one refuses,
one switches idempotence off without a word, and it matters which settings the user wrote down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kitlib.mechanisms.producer.config import MAX_INT, ConfigError

MAX_IN_FLIGHT_WITH_IDEMPOTENCE = 5  # what a broker remembers of each producer

Given = Mapping[str, int | bool]  # the settings that the user wrote down, by ProducerConfig's names


@dataclass(frozen=True, slots=True)
class Start:
    """How a client starts with the given settings."""

    client: str
    refusal: str | None  # why it does not start
    idempotence: bool = False  # whether what it writes is protected; False when it does not start
    switched_off_by: str | None = None  # the setting that turned idempotence off, though on by default


@dataclass(frozen=True, slots=True)
class Rules:
    """One client's defaults and ranges, and what it makes of acks, retries and requests in flight."""

    defaults: Mapping[str, int | bool]
    ranges: Mapping[str, tuple[int, int]]
    judge: Callable[[Given, Mapping[str, int | bool]], tuple[str | None, str | None]]  # given, with defaults
    # -> (refusal, switched off by)


def start(client: str, given: Given) -> Start:
    """How `client` (one of CLIENTS) starts when the user writes down `given`.

    Raises ConfigError when there is no such client or setting.

    Source: Apache Kafka 4.3.1, `ProducerConfig`, `KafkaProducer.configureDeliveryTimeout`; 2.0.0,
    `KafkaProducer.configureAcks`, `configureRetries`, `configureInflightRequests`; librdkafka 2.16.0,
    what its constructor says.
    Differs: a client without a setting (2.0: delivery_timeout_ms) ignores it.
    """
    rules = CLIENTS.get(client)
    if rules is None:
        raise ConfigError(f"there is no client '{client}' here. The clients are {', '.join(CLIENTS)}.")
    unknown = sorted(set(given) - set(CLIENTS["java-4.3"].defaults))
    if unknown:
        raise ConfigError(f"there is no setting '{unknown[0]}'. Give names of ProducerConfig.")
    for name, value in given.items():
        low, high = rules.ranges.get(name, (value, value))
        if not low <= value <= high:
            return Start(client, f"{name} is {value}, allowed is {low} to {high}")
    settings = {**rules.defaults, **given}
    refusal, switched_off_by = rules.judge(given, settings)
    protected = bool(settings["enable_idempotence"]) and refusal is None and switched_off_by is None
    return Start(client, refusal, protected, switched_off_by)


def check(client: str, given: Given) -> None:
    """Raise ConfigError when `client` does not start with the settings that the user wrote down."""
    refusal = start(client, given).refusal
    if refusal is not None:
        raise ConfigError(f"{client} does not start: {refusal}.")


def refusals(given: Given) -> dict[str, str | None]:
    """By client: why it does not start with these settings, or None."""
    return {client: start(client, given).refusal for client in CLIENTS}


def _java_4_3(given: Given, settings: Mapping[str, int | bool]) -> tuple[str | None, str | None]:
    """In flight is checked wherever idempotence is on, even by default; acks and retries only where asked for."""
    explicit = "enable_idempotence" in given
    switched_off_by = None
    if settings["enable_idempotence"]:
        if settings["retries"] == 0:
            if explicit:
                return "retries is 0, idempotence needs at least 1", None
            switched_off_by = "retries"
        if settings["acks"] != -1:
            if explicit:
                return f"acks is {settings['acks']}, idempotence needs all (-1)", None
            switched_off_by = switched_off_by or "acks"
        if too_many := _too_many(settings):
            return too_many, None
    if "delivery_timeout_ms" in given:
        least = settings["linger_ms"] + settings["request_timeout_ms"]
        if settings["delivery_timeout_ms"] < least:
            told = settings["delivery_timeout_ms"]
            return f"delivery_timeout_ms is {told}, at least linger_ms + request_timeout_ms = {least}", None
    return None, switched_off_by


def _java_2_0(given: Given, settings: Mapping[str, int | bool]) -> tuple[str | None, str | None]:
    """Idempotence is off unless asked for; then it lifts the defaults of acks and retries, and refuses others."""
    if settings["enable_idempotence"]:
        if given.get("retries") == 0:
            return "retries is 0, idempotence needs at least 1", None
        if too_many := _too_many(settings):
            return too_many, None
        if given.get("acks", -1) != -1:
            return f"acks is {given['acks']}, idempotence needs all (-1)", None
    return None, None


def _librdkafka(given: Given, settings: Mapping[str, int | bool]) -> tuple[str | None, str | None]:
    """Idempotence is off unless asked for; then in flight and retries that were given must fit, and acks too."""
    if settings["enable_idempotence"]:
        if "max_in_flight_requests_per_connection" in given and (too_many := _too_many(settings)):
            return too_many, None
        if given.get("retries") == 0:
            return "retries is 0, idempotence needs at least 1", None
    lasts, lingers = settings["delivery_timeout_ms"], settings["linger_ms"]
    # Without a topic's setting among those given, nobody compares the two.
    if "linger_ms" in given and given.keys() & _OF_A_TOPIC and 0 < lasts <= lingers:
        return f"delivery_timeout_ms is {lasts}, it must be above linger_ms = {lingers}", None
    if settings["enable_idempotence"] and given.get("acks", -1) != -1:
        return f"acks is {given['acks']}, idempotence needs all (-1)", None
    return None, None


_OF_A_TOPIC = {"acks", "delivery_timeout_ms", "request_timeout_ms"}  # settings of librdkafka that belong to a topic


def _too_many(settings: Mapping[str, int | bool]) -> str | None:
    out = settings["max_in_flight_requests_per_connection"]
    if out <= MAX_IN_FLIGHT_WITH_IDEMPOTENCE:
        return None
    return f"max_in_flight_requests_per_connection is {out}, at most {MAX_IN_FLIGHT_WITH_IDEMPOTENCE} with idempotence"


_JAVA_RANGES = {
    "acks": (-1, 1),
    "max_in_flight_requests_per_connection": (1, MAX_INT),
    "retries": (0, MAX_INT),
    "request_timeout_ms": (0, MAX_INT),
    "linger_ms": (0, 2**63 - 1),
    "retry_backoff_ms": (0, 2**63 - 1),
    "batch_size": (0, MAX_INT),
    "max_request_size": (0, MAX_INT),
}
_JAVA_DEFAULTS: dict[str, int | bool] = {
    "acks": -1,
    "enable_idempotence": True,
    "max_in_flight_requests_per_connection": 5,
    "retries": MAX_INT,
    "request_timeout_ms": 30_000,
    "delivery_timeout_ms": 120_000,
    "linger_ms": 5,
    "retry_backoff_ms": 100,
    "retry_backoff_max_ms": 1_000,
    "batch_size": 16_384,
    "max_request_size": 1_048_576,
}

CLIENTS: dict[str, Rules] = {
    "java-4.3": Rules(
        _JAVA_DEFAULTS,
        _JAVA_RANGES | {"delivery_timeout_ms": (0, MAX_INT), "retry_backoff_max_ms": (0, 2**63 - 1)},
        _java_4_3,
    ),
    "java-2.0": Rules(
        _JAVA_DEFAULTS | {"acks": 1, "enable_idempotence": False, "retries": 0, "linger_ms": 0},
        _JAVA_RANGES,
        _java_2_0,
    ),
    "librdkafka": Rules(
        _JAVA_DEFAULTS
        | {
            "enable_idempotence": False,
            "max_in_flight_requests_per_connection": 1_000_000,
            "delivery_timeout_ms": 300_000,
            "batch_size": 1_000_000,
            "max_request_size": 1_000_000,
        },
        {
            "acks": (-1, 1_000),
            "max_in_flight_requests_per_connection": (1, 1_000_000),
            "retries": (0, MAX_INT),
            "request_timeout_ms": (1, 900_000),
            "delivery_timeout_ms": (0, MAX_INT),
            "linger_ms": (0, 900_000),
            "retry_backoff_ms": (1, 300_000),
            "retry_backoff_max_ms": (1, 300_000),
            "batch_size": (1, MAX_INT),
            "max_request_size": (1_000, 1_000_000_000),
        },
        _librdkafka,
    ),
}
