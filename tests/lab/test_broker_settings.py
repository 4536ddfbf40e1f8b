"""A setting changed for a while is always set back, whatever goes wrong on the way; with brokers that are made up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin._config import AlterConfigOpType

from kitlib.errors import LabError
from kitlib.lab.brokers import settings as broker_settings
from kitlib.lab.brokers.settings import DYNAMIC_BROKER_CONFIG, EXPIRATION, broker_setting
from kitlib.lab.clients import Cluster

OTHER = "log.retention.ms"
KIT = Cluster("127.0.0.1:1", "c", 2, "kit")


class Brokers:
    """Two brokers that take any value, except what `refuses` says; in the place of an AdminClient."""

    def __init__(self) -> None:
        self.changed: dict[str, str] = {}
        # (number of the broker, value or None for setting back): what it does not answer to.
        self.refuses: set[tuple[str, str | None]] = set()

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(brokers={1: None, 2: None})

    def describe_configs(self, resources: list[Any], request_timeout: float) -> dict[Any, Any]:
        number = resources[0].name
        value, source = (self.changed[number], DYNAMIC_BROKER_CONFIG) if number in self.changed else ("86400000", 5)
        entry = SimpleNamespace(value=value, source=source)
        return {resources[0]: SimpleNamespace(result=lambda _: dict.fromkeys((EXPIRATION, OTHER), entry))}

    def incremental_alter_configs(self, resources: list[Any], request_timeout: float) -> dict[Any, Any]:
        number, entry = resources[0].name, resources[0].incremental_configs[0]
        value = entry.value if entry.incremental_operation == AlterConfigOpType.SET else None

        def result(_timeout_s: float) -> None:
            if (number, value) in self.refuses:
                raise TimeoutError
            if value is None:
                self.changed.pop(number, None)
            else:
                self.changed[number] = value

        return {resources[0]: SimpleNamespace(result=result)}


@pytest.fixture
def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Brokers]:
    monkeypatch.setenv("KIT_HOME", str(tmp_path))
    (tmp_path / "run").mkdir()
    made = Brokers()
    monkeypatch.setattr(broker_settings, "AdminClient", lambda _config: made)
    yield made


def test_blocks_wait_for_each_other_and_leave_the_brokers_own_value(brokers: Brokers) -> None:
    """A second block, which could end after the first and keep its value for good, does not begin before the first has ended."""
    with ExitStack() as first:
        first.enter_context(broker_setting(KIT, EXPIRATION, "1000"))
        with pytest.raises(LabError, match=r"not restored within 0\.05 s"):
            with broker_setting(KIT, EXPIRATION, "2000", wait_s=0.05):
                pytest.fail("two blocks at once")
        assert brokers.changed == {"1": "1000", "2": "1000"}
    with broker_setting(KIT, EXPIRATION, "2000"):
        pass
    assert brokers.changed == {}


@pytest.mark.usefixtures("brokers")
def test_blocks_for_different_settings_may_be_within_each_other() -> None:
    """Two settings do not get in each other's way."""
    with broker_setting(KIT, EXPIRATION, "1000"), broker_setting(KIT, OTHER, "2000", wait_s=0.05):
        pass


def test_value_of_a_killed_block_is_gone_after_the_next(brokers: Brokers) -> None:
    """What a killed block has left is not taken for the brokers' own value, nor does it stay when the next one is refused."""
    brokers.changed = {"1": "1000", "2": "1000"}
    brokers.refuses = {("1", "-5")}
    with pytest.raises(LabError, match="does not accept"), broker_setting(KIT, EXPIRATION, "-5"):
        pytest.fail("refused")
    assert brokers.changed == {}


def test_broker_that_does_not_answer_leaves_no_other_unset_and_hides_nothing(brokers: Brokers) -> None:
    """A timeout is a LabError; the other broker is set back, and what went wrong in the block is what is told."""
    brokers.refuses = {("1", None)}
    with pytest.raises(LabError, match=rf"Broker 1 does not accept {EXPIRATION}=None \(TimeoutError"):
        with broker_setting(KIT, EXPIRATION, "1000"):
            pass
    assert brokers.changed == {"1": "1000"}
    brokers.changed = {}
    with pytest.raises(ZeroDivisionError) as told, broker_setting(KIT, EXPIRATION, "1000"):
        raise ZeroDivisionError
    assert brokers.changed == {"1": "1000"} and "Broker 1 does not accept" in told.value.__notes__[0]
