"""Where "kit.partition_manager" keeps its offsets and its failures, and how a sink says what failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from kitlib.experiments.kafka_backend import KafkaBackend
from kitlib.lab import kafka_server
from kitlib.lab.clients import Cluster, describe
from kitlib.mechanisms.offset_store import OffsetStore, read_stored_offset
from kitlib.mechanisms.partition_manager import SpoutConfig
from kitlib.more.spout.batches import Retries, read_retries, retries_text
from kitlib.pipelines.partition_manager_source import SourceOptions


def open_backend(who: str, settings: SourceOptions) -> KafkaBackend:
    """A connection to the cluster of the options. LabError when none answers, or when it does not let the kit in."""
    cluster = None
    if settings.bootstrap not in (None, kafka_server.external_bootstrap()):
        cluster = Cluster(settings.bootstrap, *describe(settings.bootstrap), "kit")
    return KafkaBackend.open(f"{who}-{settings.id}", cluster)


def failed_path(config: SpoutConfig) -> str:
    """Where the failures of a partition are stored, beside its offset."""
    return f"{config.committed_path()}/failed"


def read_failures(store: OffsetStore, config: SpoutConfig) -> Retries:
    """Which records of a partition failed, each with the retry at which it did."""
    return read_retries(store.read(failed_path(config)) or "")


def write_failures(store: OffsetStore, config: SpoutConfig, failed: Retries) -> None:
    """Replace what is stored; what is there already is not written again."""
    text = retries_text(failed)
    if (store.read(failed_path(config)) or "") != text:
        store.write(failed_path(config), text)


@dataclass(slots=True)
class Failures:
    """What a sink says to its query's source: these records failed. One for each query, in the driver; a context manager.

        failures = Failures.open(topic="orders", id="spout")
        failures.fail((row.partition, row.offset, row.retry) for row in batch.where(...).collect())
    """

    settings: SourceOptions
    backend: KafkaBackend

    @classmethod
    def open(cls, **options: Any) -> Self:
        """With the options of the query. KnobError as `SourceOptions.parse`; LabError when no broker answers."""
        settings = SourceOptions.parse(options)
        return cls(settings, open_backend("sink", settings))

    def fail(self, records: Iterable[tuple[int, int, int]]) -> None:
        """Records as (partition, offset, retry), as the source gave them. When this returns, they are stored.

        Call it before the sink's batch ends. Saying so twice does no harm, nor does it when the batch is done again.
        """
        told: dict[int, dict[int, int]] = {}
        for partition, offset, retry in records:
            told.setdefault(partition, {})[offset] = retry
        for partition, failed in told.items():
            config, store = self.settings.spout_config(partition, self.backend.cluster.bootstrap), self.backend.store
            stored = read_stored_offset(store, config.committed_path())
            done = 0 if stored is None else stored.offset
            open_still = {offset: retry for offset, retry in read_failures(store, config).items() if offset >= done}
            write_failures(store, config, open_still | failed)

    def close(self) -> None:
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
