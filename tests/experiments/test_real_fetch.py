"""A fetch from the middle of a batch, on the real broker and in the model's log."""

from __future__ import annotations

import pytest

from kitlib.errors import LabError
from kitlib.experiments.kafka_backend import KafkaBackend
from kitlib.experiments.storm.real_fetch import first_fetched
from kitlib.lab.kafka_server import Cluster


@pytest.mark.kafka
def test_broker_answers_with_the_whole_batch_whether_it_is_compressed_or_not(broker: Cluster) -> None:
    """Since format 2 a batch is never cut; only a record that is a batch of its own comes alone."""
    backend = KafkaBackend.open("real-fetch")
    try:
        assert [first_fetched(backend, 7, codec) for codec in ("none", "gzip")] == [0, 0]
        assert first_fetched(backend, 7, one_batch=False) == 7
        with pytest.raises(LabError, match="expected 0 to 9"):
            first_fetched(backend, 10)
    finally:
        backend.close()
