"""Which topics there are now, and by which id: a topic that was made anew has its old name and another id.

Source: Apache Kafka 4.3.1, DescribeTopicPartitions.
"""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from kitlib.errors import LabError

ANSWER_S = 20.0


def topic_ids(admin: AdminClient, names: Iterable[str]) -> dict[str, str]:
    """The id of each topic as records of commits have it, "" for one that is not there.

    One that may not be described is left out: whether it is there, nobody tells. LabError when no broker answers.
    """
    wanted = sorted(set(names))
    if not wanted:
        return {}
    found: dict[str, str] = {}
    for name, asked in admin.describe_topics(TopicCollection(wanted), request_timeout=ANSWER_S).items():
        try:
            found[name] = str(asked.result(ANSWER_S).topic_id).replace("+", "-").replace("/", "_")
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                found[name] = ""
            elif code != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise LabError(f"topic {name[:60]!r} could not be described: {error.args[0].str()}. Look at `kit status`.") from error
        except TimeoutError as error:
            raise LabError(f"topic {name[:60]!r}: no answer within {ANSWER_S:g} s. Look at `kit status`.") from error
    return found
