"""What clients refuse to start with: the table as read from Java 4.3.1, and librdkafka asked here and now."""

from __future__ import annotations

import confluent_kafka
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.mechanisms.producer.config import ConfigError, ProducerConfig
from kitlib.more.client.refusals import CLIENTS, Given, Start, check, refusals, start

IN_FLIGHT = "max_in_flight_requests_per_connection"

# Read from KafkaProducer of kafka-clients 4.3.1: the settings, a word of its refusal (None: it starts), idempotent or not.
JAVA_4_3: list[tuple[Given, str | None, bool]] = [
    ({}, None, True),
    ({IN_FLIGHT: 6}, IN_FLIGHT, False),
    ({IN_FLIGHT: 6, "acks": 1}, IN_FLIGHT, False),
    ({IN_FLIGHT: 6, "retries": 0}, IN_FLIGHT, False),
    ({IN_FLIGHT: 6, "enable_idempotence": False}, None, False),
    ({IN_FLIGHT: 5, "enable_idempotence": True}, None, True),
    ({IN_FLIGHT: 0}, "1 to", False),
    ({"acks": 1}, None, False),
    ({"acks": 1, "enable_idempotence": True}, "acks", False),
    ({"acks": 2, "enable_idempotence": False}, "-1 to 1", False),
    ({"retries": 0}, None, False),
    ({"retries": 0, "enable_idempotence": True}, "retries", False),
    ({"retries": -1}, "0 to", False),
    ({"delivery_timeout_ms": 30_004}, "linger_ms", False),
    ({"delivery_timeout_ms": 30_005}, None, True),
    ({"request_timeout_ms": 200_000}, None, True),
    ({"delivery_timeout_ms": -1}, "delivery_timeout_ms", False),
    ({"linger_ms": -1}, "linger_ms", False),
    ({"batch_size": 0}, None, True),
    ({"request_timeout_ms": 0}, None, True),
    ({"retry_backoff_max_ms": -1}, "retry_backoff_max_ms", False),
]

# From KafkaProducer.configureAcks, configureRetries and configureInflightRequests of 2.0.0.
JAVA_2_0: list[tuple[Given, str | None, bool]] = [
    ({}, None, False),
    ({"enable_idempotence": True}, None, True),
    ({IN_FLIGHT: 6}, None, False),
    ({IN_FLIGHT: 6, "enable_idempotence": True}, IN_FLIGHT, False),
    ({"acks": 1, "enable_idempotence": True}, "acks", False),
    ({"acks": -1, "enable_idempotence": True}, None, True),
    ({"retries": 0, "enable_idempotence": True}, "retries", False),
    ({"retries": 1, "enable_idempotence": True}, None, True),
    ({"delivery_timeout_ms": 1}, None, False),
]


@pytest.mark.parametrize(
    ("client", "settings", "refusal", "idempotent"),
    [("java-4.3", *case) for case in JAVA_4_3] + [("java-2.0", *case) for case in JAVA_2_0],
    ids=str,
)
def test_start_of_java_is_as_read(client: str, settings: Given, refusal: str | None, idempotent: bool) -> None:
    """Java's client starts, refuses, or starts without idempotence, as the table says."""
    found = start(client, settings)
    assert (found.refusal is None) == (refusal is None) and found.idempotence is idempotent
    assert refusal is None or refusal in str(found.refusal)


def test_start_of_java_4_3_says_what_switched_idempotence_off() -> None:
    """acks=1 or retries=0 turn it off without a word, unless it was asked for."""
    assert start("java-4.3", {"acks": 1}) == Start("java-4.3", None, False, "acks")
    assert start("java-4.3", {"retries": 0}).switched_off_by == "retries"
    assert start("java-4.3", {"acks": 1, "enable_idempotence": True}).switched_off_by is None


LIBRDKAFKA = {
    "acks": "acks", "enable_idempotence": "enable.idempotence", IN_FLIGHT: "max.in.flight", "retries": "retries",
    "request_timeout_ms": "request.timeout.ms", "delivery_timeout_ms": "message.timeout.ms", "linger_ms": "linger.ms",
    "retry_backoff_ms": "retry.backoff.ms", "retry_backoff_max_ms": "retry.backoff.max.ms", "batch_size": "batch.size",
    "max_request_size": "message.max.bytes",
}  # fmt: skip

GIVEN = st.fixed_dictionaries(
    {},
    optional={
        "acks": st.sampled_from([-2, -1, 0, 1, 2, 1_000, 1_001]), "enable_idempotence": st.booleans(),
        IN_FLIGHT: st.sampled_from([0, 1, 5, 6, 1_000_000, 1_000_001]), "retries": st.sampled_from([-1, 0, 1, 2**31 - 1]),
        "request_timeout_ms": st.sampled_from([0, 1, 900_000, 900_001]), "delivery_timeout_ms": st.sampled_from([-1, 0, 5, 6, 300_000]),
        "linger_ms": st.sampled_from([-1, 0, 5, 900_000, 900_001]), "retry_backoff_ms": st.sampled_from([0, 1, 300_000, 300_001]),
        "retry_backoff_max_ms": st.sampled_from([0, 1, 300_000, 300_001]), "batch_size": st.sampled_from([0, 1]),
        "max_request_size": st.sampled_from([999, 1_000, 1_000_000_000, 1_000_000_001]),
    },
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(GIVEN)
def test_start_of_librdkafka_agrees_with_librdkafka(settings: Given) -> None:
    """Whatever is written down, the real client starts exactly when the model says so, and blames the same setting."""
    real: str | None = None
    try:
        named = {LIBRDKAFKA[name]: value for name, value in settings.items()}
        confluent_kafka.Producer({"bootstrap.servers": "localhost:1", "log_level": 0} | named)
    except confluent_kafka.KafkaException as error:
        real = str(error)
    found = start("librdkafka", settings).refusal
    assert (found is None) == (real is None), (found, real)
    if found is not None and real is not None and "outside allowed range" not in real:
        assert LIBRDKAFKA[found.split()[0]] in real, (found, real)


def test_check_raises_a_sentence_that_names_client_setting_and_limit() -> None:
    """Who refuses what, and what would be allowed."""
    with pytest.raises(ConfigError, match=f"librdkafka does not start: {IN_FLIGHT} is 6, at most 5 with idempotence"):
        check("librdkafka", {IN_FLIGHT: 6, "enable_idempotence": True})
    check("librdkafka", {IN_FLIGHT: 6})


def test_refusals_of_a_whole_config_name_every_client() -> None:
    """The kit's own client takes six in flight; none of the real ones does, if it is asked to be idempotent."""
    found = refusals(ProducerConfig(max_in_flight_requests_per_connection=6).given())
    assert list(found) == list(CLIENTS) and all(sentence and IN_FLIGHT in sentence for sentence in found.values())
    assert set(refusals(ProducerConfig().given()).values()) == {None}


@pytest.mark.parametrize(
    ("client", "settings", "words"),
    [("sarama", {}, "no client 'sarama'"), ("java-4.3", {"linger": 1}, "no setting 'linger'")],
)
def test_start_unknown_name_is_refused(client: str, settings: Given, words: str) -> None:
    """A client or a setting that is not there is named, with what there is."""
    with pytest.raises(ConfigError, match=words):
        start(client, settings)
