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

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from kitlib.errors import LabError
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.offsets_topic import ASK_AGAIN_S, NOT_YET

DEADLINE_S = 20.0
LEADER_S = 5.0  # how long a partition without a leader is asked again
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

    @classmethod
    def of(cls, cluster: Cluster) -> LogEnds:
        """A client for this cluster."""
        return cls(AdminClient(client_config(cluster)))

    def ends(self, partitions: Iterable[Where]) -> Offsets:
        """The offset of the next record of each partition. LabError when no broker answers."""
        return self._ask(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def starts(self, partitions: Iterable[Where]) -> Offsets:
        """The first offset of each partition. LabError when no broker answers."""
        return self._ask(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def stable(self, partitions: Iterable[Where]) -> Offsets:
        """Where each log ends for who reads read_committed: at the first open transaction. LabError as above."""
        return self._ask(partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)  # type: ignore[no-untyped-call]

    def _ask(self, wanted: Iterable[Where], spec: OffsetSpec, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> Offsets:
        """Those that the cluster has: a question for others would wait for them to appear."""
        wanted = list(wanted)
        topics = topics_now(self.admin, (topic for topic, _ in wanted))
        skipped = {where: why for where in wanted if (why := _why_not(where, topics))}
        waiting, found = [where for where in wanted if where not in skipped], dict[Where, int]()
        deadline_s = time.monotonic() + LEADER_S
        while waiting:
            places = {TopicPartition(*where): spec for where in waiting}
            again: list[Where] = []
            for each, future in self.admin.list_offsets(places, request_timeout=DEADLINE_S, isolation_level=isolation).items():
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


def _why_not(where: Where, topics: Mapping[str, tuple[str, int]]) -> str:
    """Why a partition's offsets cannot be asked for; "" where they can."""
    topic, partition = where
    if topic not in topics:
        return "the topic may not be described"
    topic_id, count = topics[topic]
    return "" if partition < count else "the topic has no such partition" if topic_id else "there is no such topic"


def topics_now(admin: AdminClient, names: Iterable[str]) -> dict[str, tuple[str, int]]:
    """The id of each topic as records of commits have it, and how many partitions it has; ("", 0) for one that is not there.

    Topics are described, not looked up: a look-up may make a topic that has been deleted. One that was made anew has another
    id. One that may not be described is left out: whether it is there, nobody tells. LabError when no broker answers.
    """
    wanted, found = sorted(set(names)), dict[str, tuple[str, int]]()
    described = admin.describe_topics(TopicCollection(wanted), request_timeout=DEADLINE_S) if wanted else {}
    for name, asked in described.items():
        try:
            told = asked.result(2 * DEADLINE_S)  # the client ends the request before
            found[name] = str(told.topic_id).replace("+", "-").replace("/", "_"), len(told.partitions)
        except KafkaException as error:
            code, why = error.args[0].code(), error.args[0].str()
            if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                found[name] = "", 0
            elif code != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise LabError(f"topic {name[:60]!r} could not be described: {why}. Look at `kit status`.") from error
        except TimeoutError as error:
            raise LabError(f"topic {name[:60]!r}: no answer within {DEADLINE_S:g} s. Look at `kit status`.") from error
    return found
