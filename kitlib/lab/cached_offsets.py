"""What the coordinators answer when they are asked for all committed offsets of each group: their caches, from outside.

The kit's own brokers are asked by the protocol itself. Another cluster may want a password, so there the client
asks, many groups at once. One deadline holds for all groups, and who did not answer is told with the reason.

Source: Apache Kafka 4.3.1, OffsetFetch; `KafkaApis.fetchAllOffsetsForGroup`, which leaves topics out that one may not describe.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from kitlib.errors import LabError
from kitlib.lab.clients import Cluster
from kitlib.lab.wire import NOT_YET
from kitlib.lab.wire_coordinator import CoordinatorWire

ALL_S = 60.0  # for all groups together
ONE_S = 10.0
AT_ONCE = 50
ASK_AGAIN_S = 0.1

Cached = dict[tuple[str, int], int]  # topic and partition -> offset
Told = Cached | str | None  # None: the coordinator is not ready; a sentence: there will be no answer


@dataclass(frozen=True, slots=True)
class Answers:
    """Each group's committed offsets, and why the others have no answer."""

    offsets: dict[str, Cached] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)


def cached_offsets(cluster: Cluster, admin: AdminClient, groups: Iterable[str], timeout_s: float = ALL_S) -> Answers:
    """Ask for all offsets of each group; a coordinator that is not ready is asked again, until `timeout_s` is over.

    Only of groups that `list_groups` has just named: to ask for a coordinator can make brokers create the topic, and
    the client may crash on one that is not ready.
    """
    found, waiting, deadline_s = Answers(), list(groups), time.monotonic() + timeout_s
    while waiting:
        asked = _by_wire(cluster, waiting, deadline_s) if cluster.source == "kit" else _by_client(admin, waiting, deadline_s)
        waiting = []
        for group, told in asked:
            if isinstance(told, dict):
                found.offsets[group] = told
            elif told is None and time.monotonic() < deadline_s:
                waiting.append(group)
            else:
                found.silent[group] = told or f"its coordinator was not ready within {timeout_s:g} s"
        if waiting:
            time.sleep(ASK_AGAIN_S)
    return found


def unseen_topics(admin: AdminClient, topics: Iterable[str]) -> set[str]:
    """Those of the topics that one may not describe, or that nobody tells of: a coordinator keeps silent about them, too."""
    names = sorted(set(topics))
    unseen = set()
    for name, asked in admin.describe_topics(TopicCollection(names), request_timeout=ONE_S).items() if names else ():
        try:
            asked.result(ONE_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                unseen.add(name)
        except TimeoutError:
            unseen.add(name)
    return unseen


def _by_wire(cluster: Cluster, groups: Sequence[str], deadline_s: float) -> Iterator[tuple[str, Told]]:
    with ExitStack() as stack:
        wires: dict[tuple[str, int], CoordinatorWire] = {}

        def wire_to(host: str, port: int) -> CoordinatorWire:
            if (host, port) not in wires or not wires[host, port].is_open:
                wires[host, port] = stack.enter_context(CoordinatorWire.open(host, port, timeout_s=ONE_S))
            return wires[host, port]

        def told_of(group: str) -> Told:
            host, _, port = _living(cluster, wire_to).rpartition(":")
            coordinator = wire_to(host, int(port)).find(group)
            if coordinator is None:
                return None
            error, offsets = wire_to(*coordinator[1:]).fetch_offsets(group, None, require_stable=False)
            if error in NOT_YET:
                return None
            return f"its coordinator answers error {error}" if error else {where: at for where, at in offsets.items() if at >= 0}

        for group in groups:
            if time.monotonic() > deadline_s:
                yield group, "it was not asked in time"
                continue
            try:
                told = told_of(group)
            except LabError as error:
                told = str(error)
            yield group, told


def _living(cluster: Cluster, wire_to: Any) -> str:
    """The first broker that answers. LabError of the last one when none does."""
    for where in (addresses := cluster.bootstrap.split(",")):
        host, _, port = where.rpartition(":")
        try:
            wire_to(host, int(port))
        except LabError:
            if where == addresses[-1]:
                raise
        else:
            return where
    raise LabError(f"the cluster has no address: {cluster.bootstrap!r}.")


def _by_client(admin: AdminClient, groups: Sequence[str], deadline_s: float) -> Iterator[tuple[str, Told]]:
    for first in range(0, len(groups), AT_ONCE):
        some = groups[first : first + AT_ONCE]
        if (rest_s := min(ONE_S, deadline_s - time.monotonic())) <= 0:
            yield from ((group, "it was not asked in time") for group in some)
            continue
        ends_s = time.monotonic() + rest_s
        asked: dict[str, Future[Any]] = {
            group: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=rest_s)[group]
            for group in some
        }
        for group, answer in asked.items():
            yield group, _told_by(answer, max(0.0, ends_s - time.monotonic()))


def _told_by(answer: Future[Any], rest_s: float) -> Told:
    try:
        told = answer.result(rest_s).topic_partitions or ()
    except KafkaException as error:
        return None if error.args[0].code() in NOT_YET else str(error.args[0].str())
    except TimeoutError:
        return f"no answer within {ONE_S:g} s"
    return {(each.topic, each.partition): each.offset for each in told if each.offset >= 0}
