"""Java's own Kafka client, asked from Python: its settings, its refusals, and a JVM that is killed under it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kitlib.errors import LabError
from kitlib.lab import jars, java
from kitlib.lab.java_client import JavaClient, RefusedSettings

TWO_ANSWERS = {"acks": "1", "delivery.timeout.ms": 40_000}


def test_settings_and_refusals_are_the_clients_own() -> None:
    """Java 4.3 gives up idempotence silently for acks=1, and refuses it when it was asked for."""
    with JavaClient.open() as java:
        assert java.version.startswith("4.")
        settings = java.producer_settings(TWO_ANSWERS)
        assert (settings["enable.idempotence"], settings["delivery.timeout.ms"]) == ("false", "40000")
        assert java.producer_settings({})["enable.idempotence"] == "true"
        with pytest.raises(RefusedSettings, match=r"ConfigException: .*acks"):
            java.producer_settings({"acks": "1", "enable.idempotence": True})
        with pytest.raises(RefusedSettings, match="Invalid value many"):
            java.producer({"acks": "many"})


def test_killed_jvm_is_a_sentence_and_hides_nothing() -> None:
    """Whatever is asked of a killed JVM is a LabError; ending the producer and the block keeps the first exception."""
    with pytest.raises(ZeroDivisionError), JavaClient.open() as java:
        producer = java.producer({"max.block.ms": 100})
        future = java.send(producer, "t", 0, b"0")
        assert java.outcome(future, 5) == (None, "TimeoutException")
        java.process.kill()
        java.process.wait(20)
        for ask in (
            lambda: java.producer_settings({}), lambda: java.producer({}), lambda: java.send(producer, "t", 0, b"1"),
            lambda: java.outcome(future, 1),
        ):  # fmt: skip
            with pytest.raises(LabError, match="does not answer any more"):
                ask()
        try:
            raise ZeroDivisionError
        finally:
            java.close_at_once(producer)


def test_class_archive_is_written_by_one_java_and_used_by_the_next(kit_home: Path, tmp_path: Path) -> None:
    """From Java 19 on two flags let a program start from the classes that the one before it has loaded; an older Java gets none."""
    found = java.find_java()
    assert java.class_archive_flags(replace(found, major=17), "uuid", tmp_path) == ()
    flags = java.class_archive_flags(found, "uuid", tmp_path)
    java.complete_wheel()
    class_path = os.pathsep.join(map(str, jars.ensure_jars("kafka")))
    command = [found.executable, *flags, "-Xlog:class+load", "-cp", class_path, "kafka.tools.StorageTool", "random-uuid"]
    first, second = (subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2))
    shared = "kafka.tools.StorageTool source: shared objects file (top)"
    assert shared not in first and shared in second
