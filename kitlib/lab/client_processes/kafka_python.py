"""kafka-python's consumer as a driver of `kitlib.lab.client_processes.consumer`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.consumer import group
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from kitlib.errors import LabError
from kitlib.lab.client_processes.driver import (
    CALL_S,
    FETCH_WAIT_MS,
    NONE,
    POSITION_MS,
    Refused,
    broker_form,
    event,
    first_of_each,
)

ASSIGNORS = {
    "range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}  # fmt: skip


class Coordinator(ConsumerCoordinator):  # type: ignore[misc]  # the library has no type hints
    """Takes what a join that ended between two polls has brought, as Java's `rejoinNeededOrPending` has it.

    kafka-python 3.0.12 lets it go: it joins anew, or takes itself for a member and sends no heartbeats. The kit's members are
    polled in turn, so a join mostly ends while another one is polled, and such a group would rebalance for ever.
    """

    _join_task: Any

    def need_rejoin(self) -> bool:
        return self._join_task is not None or bool(super().need_rejoin())

    async def join_group_async(self, timeout_ms: float | None = None) -> Any:
        ended = self._join_task
        if ended is not None and ended.is_done:
            self._join_task = self._manager.call_soon(_result_of, ended)  # it is not done yet, so the library awaits it
        return await super().join_group_async(timeout_ms)


async def _result_of(ended: Any) -> Any:
    return await ended


group.ConsumerCoordinator = Coordinator  # under this name KafkaConsumer makes its own


class KafkaPython:
    """kafka-python's KafkaConsumer."""

    jvm: int | None = None

    def __init__(self, settings: Mapping[str, Any]) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
        if settings["protocol"] != "classic":
            raise Refused("kafka-python knows the classic group protocol alone.")
        self.events: list[dict[str, Any]] = []
        self.topic = settings["topic"]
        try:
            self.consumer = KafkaConsumer(
                bootstrap_servers=settings["bootstrap"], client_id=settings["client_id"], group_id=settings["group"],
                enable_auto_commit=settings["auto_commit"], auto_commit_interval_ms=settings["auto_commit_interval_ms"],
                auto_offset_reset=settings["auto_offset_reset"], session_timeout_ms=settings["session_timeout_ms"],
                heartbeat_interval_ms=settings["heartbeat_interval_ms"], max_poll_interval_ms=settings["max_poll_interval_ms"],
                max_poll_records=settings["max_poll_records"], fetch_max_wait_ms=FETCH_WAIT_MS,
                group_instance_id=settings["instance_id"], bootstrap_timeout_ms=int(CALL_S * 1000),
                partition_assignment_strategy=[ASSIGNORS[name] for name in settings["strategies"]],
                default_offset_commit_callback=self.committed,
                metadata_max_age_ms=settings["metadata_max_age_ms"], **settings["more"],
            )  # fmt: skip
            self.consumer.subscribe([self.topic], listener=_Listener(self, settings["commit_on_revoke"]))
        except (KafkaError, ValueError, TypeError, AssertionError) as error:
            raise Refused(f"{type(error).__name__}: {error}") from error

    def committed(self, offsets: Mapping[Any, Any], outcome: Any) -> None:
        if isinstance(outcome, Exception):
            self.events.append(event("committed", (each.partition for each in offsets), _python_name(outcome)))

    def poll(self, records: int, timeout_ms: int) -> list[tuple[int, int]]:
        try:
            found = self.consumer.poll(timeout_ms=timeout_ms, max_records=max(1, records))
        except KafkaError as error:
            self.events.append(event("error", error=_python_name(error)))
            return []
        handed = [(where.partition, record.offset) for where, batch in found.items() for record in batch]
        for partition, offset in first_of_each(handed[records:]).items():
            self.consumer.seek(TopicPartition(self.topic, partition), offset)
        return handed[:records]

    def commit(self, offsets: Mapping[int, int] | None, waits: bool = True) -> str:
        wanted = None if offsets is None else {
            TopicPartition(self.topic, partition): OffsetAndMetadata(offset, "", -1) for partition, offset in offsets.items()
        }  # fmt: skip
        try:
            if waits:
                self.consumer.commit(wanted, timeout_ms=int(CALL_S * 1000))
            else:
                self.consumer.commit_async(wanted, self.committed)
        except KafkaError as error:
            return _python_name(error)
        return NONE

    def store(self, partition: int, next_offset: int) -> str:
        raise LabError("kafka-python has no stored offsets: it commits its positions. Use commit().")

    def positions(self) -> dict[int, int | None]:
        found: dict[int, int | None] = {}
        for where in self.consumer.assignment():
            try:
                found[where.partition] = self.consumer.position(where, timeout_ms=POSITION_MS)
            except KafkaError:  # reset policy none, or no answer in time
                found[where.partition] = None
        return found

    def identity(self) -> tuple[str, int | None]:
        told = self.consumer.group_metadata()
        return str(told.member_id or ""), told.generation_id if told.generation_id >= 0 else None

    def close(self) -> None:
        self.consumer.close(timeout_ms=int(CALL_S * 1000))


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Called in the library's own loop, which must not be held up: it commits without waiting, ahead of what joins again."""

    def __init__(self, driver: KafkaPython, commits: bool) -> None:
        self.driver, self.commits = driver, commits

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._note("assigned", assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        if self.commits and revoked:
            self.driver.consumer.commit_async(callback=self.driver.committed)
        self._note("revoked", revoked)

    def on_partitions_lost(self, lost: Any) -> None:
        self._note("lost", lost)

    def _note(self, what: str, partitions: Any) -> None:
        self.driver.events.append(event(what, (each.partition for each in partitions)))


def _python_name(error: Any) -> str:
    """The broker's name of an error; one that is wrapped is in the first argument."""
    inner = error.args[0] if error.args and isinstance(error.args[0], Exception) else error
    return str(getattr(inner, "message", "") or broker_form(type(error).__name__))
