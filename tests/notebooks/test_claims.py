"""What the notebooks say in prose of the clients' own words, held against those words."""

from __future__ import annotations

from kitlib.lab.client_defaults import settings_of


def test_librdkafka_max_poll_records_is_for_share_consumers_only() -> None:
    """Notebook 10: a table shows the setting, and no consumer of a group has any use for it."""
    assert "only supported for share consumers" in settings_of("librdkafka")["max.poll.records"].doc


def test_librdkafka_asks_for_its_topics_as_often_as_java_and_keeps_an_entry_three_times_as_long() -> None:
    """Notebook 09: the map's age of Java is librdkafka's refresh interval, and a third of its own metadata.max.age.ms."""
    told = settings_of("librdkafka")
    interval = told["topic.metadata.refresh.interval.ms"].default
    assert settings_of("java.producer")["metadata.max.age.ms"].default == interval
    assert int(told["metadata.max.age.ms"].default or 0) == 3 * int(interval or 0)
