"""Defaults read from their owners: each is compared with what the owner does, not with a typed value."""

from __future__ import annotations

import ctypes.util

import pytest
from kafka import KafkaProducer

from kitlib.errors import KnobError, LabError
from kitlib.lab import client_defaults
from kitlib.lab.client_defaults import SOURCES, Setting, settings_of, settings_table
from kitlib.lab.java_client import JavaClient


def test_java_defaults_are_those_that_a_producer_starts_with() -> None:
    """A producer without settings of its own has the values that are told as defaults."""
    with JavaClient.open() as java:
        started = java.producer_settings({})
    told = settings_of("java.producer")
    assert (told["acks"].default, started["acks"]) == ("all", "-1")  # two words for one thing
    for name in ("linger.ms", "batch.size", "delivery.timeout.ms", "enable.idempotence", "max.block.ms", "retries"):
        assert told[name].default == started[name] and told[name].doc, name


def test_librdkafka_defaults_are_those_of_a_fresh_configuration() -> None:
    """What the library's manual says and what its own fresh configuration holds are one, for all values that can be typed."""
    library = ctypes.CDLL(client_defaults.LIBRARY)
    library.rd_kafka_conf_new.restype = ctypes.c_void_p
    library.rd_kafka_conf_get.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_size_t)]
    fresh, told = library.rd_kafka_conf_new(), settings_of("librdkafka")
    assert len(told) > 150
    for name in ("linger.ms", "queue.buffering.max.ms", "enable.idempotence", "batch.size", "metadata.max.age.ms", "acks"):
        value, size = ctypes.create_string_buffer(100), ctypes.c_size_t(100)
        if library.rd_kafka_conf_get(fresh, name.encode(), value, ctypes.byref(size)) == 0:
            assert told[name].default == value.value.decode(), name
    assert told["linger.ms"].default == told["queue.buffering.max.ms"].default  # an alias has the value of what it stands for
    assert told["acks"].default == "-1" and told["debug"].default is None
    assert "delay" in told["queue.buffering.max.ms"].doc.lower() and "*Type" not in told["queue.buffering.max.ms"].doc


def test_library_of_something_else_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no library, or knows no librdkafka, has no settings to tell."""
    for path in ("nowhere.so", ctypes.util.find_library("m")):
        monkeypatch.setattr(client_defaults, "LIBRARY", path)
        with pytest.raises(LabError, match="cannot be asked"):
            client_defaults._librdkafka.__wrapped__()


def test_kafka_python_is_told_by_the_names_of_all_others() -> None:
    """Dots for underscores, true for True, a class by its name, nothing for what is no value."""
    told = settings_of("kafka-python.consumer")
    assert settings_of("kafka-python.producer")["linger.ms"].default == str(KafkaProducer.DEFAULT_CONFIG["linger_ms"])
    assert told["enable.auto.commit"].default in ("true", "false")
    assert str(told["partition.assignment.strategy"].default).startswith("RangePartitionAssignor")
    assert told["key.deserializer"].default is None


def test_table_has_a_line_a_setting_and_a_column_for_each_that_has_one() -> None:
    """What a source does not have is a dash, what it has without a value is told; empty columns are left out."""
    table = settings_table(["linger.ms", "buffer.memory", "debug"]).splitlines()
    assert [line.split()[0] for line in table[2:]] == ["linger.ms", "buffer.memory", "debug"]
    assert "Java producer" in table[0] and "librdkafka" in table[0] and "Java consumer" not in table[0]
    assert table[3].split()[1:] == [settings_of("java.producer")["buffer.memory"].default, "-"]
    assert table[4].split()[1:] == ["-", "(none)"]
    assert settings_table(["linger.ms"]) == settings_table(["linger.ms"])


def test_table_names_classes_without_their_packages() -> None:
    """The default has the whole name, which can be set; the table has the last part."""
    name = "partition.assignment.strategy"
    assert "org.apache" in str(settings_of("java.consumer")[name].default) and "org.apache" not in settings_table([name])
    assert Setting("x", "y", "class java.lang.String").shown == "String" and Setting("x", "y", "1.2.3").shown == "1.2.3"


def test_table_of_a_setting_that_nobody_has_is_a_knob_error() -> None:
    """A typing error is not shown as a row of dashes."""
    with pytest.raises(KnobError, match=r"no source of java\.producer has a setting 'lingerms'"):
        settings_table(["linger.ms", "lingerms"], sources=("java.producer",))
    with pytest.raises(KnobError, match="there is no source 'java'"):
        settings_of("java")
    assert len(SOURCES) == len(set(SOURCES))
