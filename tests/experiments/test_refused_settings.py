"""What clients refuse to start with: the model's rules are those of the real Java client and of librdkafka."""

from __future__ import annotations

import pytest

from kitlib.errors import KnobError
from kitlib.experiments.idempotence.refused_settings import REFUSES, STARTS, UNPROTECTED, SettingsTable, settings_table


@pytest.fixture(scope="module")
def real() -> SettingsTable:
    """What the real clients make of every combination."""
    return settings_table("real")


def test_settings_table_of_the_model_is_that_of_the_real_clients(real: SettingsTable) -> None:
    """All 36 combinations with each client: refused, idempotent, or quietly not."""
    model = settings_table("model")
    assert len(model.rows) == len(real.rows) == 72
    assert real.differences(model) == []
    assert {row.starts for row in real.rows if row.client == "java"} == {REFUSES, STARTS, UNPROTECTED}
    refused = [row for row in real.rows if row.starts == REFUSES]
    assert all(row.message for row in refused)


def test_settings_table_the_misconceptions_it_settles(real: SettingsTable) -> None:
    """acks=1 alone turns Java's default off without a word; six in flight is refused even so; librdkafka's default is off."""
    rows = {(row.client, *sorted(row.given.items())): row.starts for row in real.rows}
    assert rows["java",] == STARTS and rows["librdkafka",] == UNPROTECTED
    assert rows["java", ("acks", 1)] == UNPROTECTED
    assert rows["java", ("retries", 0)] == UNPROTECTED
    assert rows["java", ("acks", 1), ("enable_idempotence", True)] == REFUSES
    assert rows["java", ("max_in_flight_requests_per_connection", 6)] == REFUSES
    assert rows["java", ("acks", 1), ("max_in_flight_requests_per_connection", 6)] == REFUSES
    assert rows["librdkafka", ("max_in_flight_requests_per_connection", 6)] == UNPROTECTED


def test_settings_table_difference_is_told_in_words() -> None:
    """A table that says something else is told apart, row by row."""
    java, both = settings_table("model", ("java",)), settings_table("model")
    told = both.differences(java)
    assert len(told) == 36 and told[0] == "librdkafka - - - -: not idempotent here, missing there"
    assert "client" in repr(java).splitlines()[0] and java._repr_html_().count("<tr>") == 37
    with pytest.raises(KnobError, match="who one of model, real"):
        settings_table("rumour")
    with pytest.raises(KnobError, match="clients of java, librdkafka"):
        settings_table("model", ("sarama",))
