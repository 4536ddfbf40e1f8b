"""Where the logs of many partitions begin and end, asked in one question.

Lag needs the end of every partition that a group has committed for, and among those are topics that have been
deleted since, or that one may not see. None of them ends the question: they are left out, and `skipped` says
why.
Source: Apache Kafka 4.3.1, ListOffsets, DescribeTopicPartitions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec, TopicDescription  # type: ignore[attr-defined]

from kitlib.errors import LabError
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.offsets_topic import ASK_AGAIN_S, NOT_YET

DEADLINE_S = 20.0
LEADER_S = 5.0  # how long a partition without a leader is asked again
TOGETHER = 2_000  # partitions in one question
Where = tuple[str, int]  # topic and partition


@dataclass(frozen=True, slots=True)
class Offsets:
    """An offset for each partition that told one, and why the others did not."""

    offsets: Mapping[Where, int]
    skipped: Mapping[Where, str] = field(default_factory=dict)


@dataclass(slots=True)
class LogEnds:
    """An admin client that asks where logs end."""

    admin: AdminClient
    bootstrap: str

    @classmethod
    def of(cls, cluster: Cluster) -> LogEnds:
        """A client for this cluster."""
        return cls(AdminClient(client_config(cluster)), cluster.bootstrap)

    def ends(self, partitions: Iterable[Where]) -> Offsets:
        """The offset of the next record of each partition. LabError when no broker answers."""
        return self._ask(dict.fromkeys(partitions, OffsetSpec.latest()))  # type: ignore[no-untyped-call]

    def starts(self, partitions: Iterable[Where]) -> Offsets:
        """The first offset of each partition. LabError when no broker answers."""
        return self._ask(dict.fromkeys(partitions, OffsetSpec.earliest()))  # type: ignore[no-untyped-call]

    def stable(self, partitions: Iterable[Where]) -> Offsets:
        """Where each log ends for who reads read_committed: at the first open transaction. LabError as above."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._ask(dict.fromkeys(partitions, latest), IsolationLevel.READ_COMMITTED)

    def _ask(self, specs: Mapping[Where, Any], isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> Offsets:
        waiting, skipped = self._known(specs)
        found: dict[Where, int] = {}
        deadline_s = time.monotonic() + LEADER_S
        while waiting:
            again: list[Where] = []
            for first in range(0, len(waiting), TOGETHER):
                some = {TopicPartition(*where): specs[where] for where in waiting[first : first + TOGETHER]}
                asked = self.admin.list_offsets(some, request_timeout=DEADLINE_S, isolation_level=isolation)
                for each, future in asked.items():
                    where = (str(each.topic), int(each.partition))
                    try:
                        found[where] = int(future.result(DEADLINE_S).offset)
                    except KafkaException as error:
                        if error.args[0].code() in NOT_YET and time.monotonic() < deadline_s:
                            again.append(where)
                        else:
                            skipped[where] = error.args[0].str()
                    except TimeoutError:
                        skipped[where] = f"no answer within {DEADLINE_S:g} s"
            if waiting := again:
                time.sleep(ASK_AGAIN_S)
        return Offsets(found, skipped)

    def _known(self, wanted: Iterable[Where]) -> tuple[list[Where], dict[Where, str]]:
        """Those that the cluster has: a question for others would wait for them to appear.

        Topics are described, not looked up: a look-up may make a topic that has been deleted.
        """
        wanted = list(wanted)
        counts: dict[str, int] = {}
        reasons: dict[str, str] = {}
        for topic, told in _described(self.admin, (topic for topic, _ in wanted)).items():
            if isinstance(told, KafkaError):
                reasons[topic] = self._why(told)
            else:
                counts[topic] = len(told.partitions)
        known = [where for where in wanted if where[1] < counts.get(where[0], 0)]
        missing = [where for where in wanted if where[1] >= counts.get(where[0], 0)]
        return known, {where: reasons.get(where[0], "the topic has no such partition") for where in missing}

    def _why(self, error: KafkaError) -> str:
        """LabError when it is not this topic that fails, but the cluster."""
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return "there is no such topic"
        if error.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            raise self._silent(error.str())
        return str(error.str())

    def _silent(self, why: str) -> LabError:
        return LabError(f"no Kafka answers at {self.bootstrap} within {DEADLINE_S:g} s ({why}). Look at `kit status`.")


def _described(admin: AdminClient, names: Iterable[str]) -> dict[str, TopicDescription | KafkaError]:
    """What the broker says of each topic, or why it says nothing. LabError when it is silent."""
    wanted, found = sorted(set(names)), dict[str, TopicDescription | KafkaError]()
    if not wanted:
        return found
    for name, asked in admin.describe_topics(TopicCollection(wanted), request_timeout=DEADLINE_S).items():
        try:
            found[name] = asked.result(2 * DEADLINE_S)  # the client ends the request before
        except KafkaException as error:
            found[name] = error.args[0]
        except TimeoutError as error:
            raise LabError(f"topic {name[:60]!r}: no answer within {DEADLINE_S:g} s. Look at `kit status`.") from error
    return found


def topics_now(admin: AdminClient, names: Iterable[str]) -> dict[str, tuple[str, int]]:
    """The id of each topic as records of commits have it, and how many partitions it has; ("", 0) for one that is not there.

    A topic that was made anew has another id. One that may not be described is left out: whether it is there, nobody tells.
    LabError when no broker answers.
    """
    found: dict[str, tuple[str, int]] = {}
    for name, told in _described(admin, names).items():
        if not isinstance(told, KafkaError):
            found[name] = str(told.topic_id).replace("+", "-").replace("/", "_"), len(told.partitions)
        elif told.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            found[name] = "", 0
        elif told.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise LabError(f"topic {name[:60]!r} could not be described: {told.str()}. Look at `kit status`.")
    return found
