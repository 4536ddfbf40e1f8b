"""A setting changed for a while is always set back, whatever goes wrong on the way."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from confluent_kafka.admin import AdminClient

from kitlib.errors import LabError
from kitlib.lab.brokers import settings as broker_settings
from kitlib.lab.brokers.settings import EXPIRATION, broker_setting, broker_value
from kitlib.lab.clients import client_config
from kitlib.lab.kafka_server import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.alone]
OTHER = "log.retention.ms"
OWN = "86400000"


def test_blocks_wait_for_each_other_and_leave_the_brokers_own_value(broker: Cluster) -> None:
    """A second block, which could end after the first and keep its value for good, does not begin before the first has ended."""
    with ExitStack() as first:
        first.enter_context(broker_setting(broker, EXPIRATION, "1000"))
        with pytest.raises(LabError, match=r"not restored within 0\.05 s"):
            with broker_setting(broker, EXPIRATION, "2000", wait_s=0.05):
                pytest.fail("two blocks at once")
        assert broker_value(broker, EXPIRATION) == "1000"
        with broker_setting(broker, OTHER, "2000", wait_s=0.05):  # two settings do not get in each other's way
            assert broker_value(broker, OTHER) == "2000"
    assert broker_value(broker, EXPIRATION) == OWN
    with broker_setting(broker, EXPIRATION, "2000"):
        assert broker_value(broker, EXPIRATION) == "2000"


def test_value_of_a_killed_block_is_gone_after_the_next(broker: Cluster) -> None:
    """What a killed block has left is not taken for the brokers' own value, nor does it stay when the next one is refused."""
    broker_settings._set(AdminClient(client_config(broker)), EXPIRATION, "1000")
    with pytest.raises(LabError, match=f"does not accept {EXPIRATION}=-5: "), broker_setting(broker, EXPIRATION, "-5"):
        pytest.fail("refused")
    assert broker_value(broker, EXPIRATION) == OWN


def test_what_cannot_be_set_back_hides_nothing(broker: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What went wrong in the block is what is told, with the other as its note; the next block takes the value back."""
    with pytest.raises(ZeroDivisionError) as told, broker_setting(broker, EXPIRATION, "1000"):
        monkeypatch.setattr(broker_settings, "DEADLINE_S", 0.0)
        monkeypatch.setattr(broker_settings, "_value", lambda *_: ("1000", True))
        raise ZeroDivisionError
    assert "Waited 0 s in vain until the brokers have" in told.value.__notes__[0]
    monkeypatch.undo()
    with broker_setting(broker, EXPIRATION, "2000"):
        pass
    assert broker_value(broker, EXPIRATION) == OWN
