"""librdkafka's debug log: how it is heard, how a line is read, and the signs of the nine steps in it.

librdkafka's threads write into one queue, from which the application's `poll` takes them; so the lines
come in the order in which the threads wrote them, while their times are those of the polls.

librdkafka does what Java's client does, but in other threads: its `produce()` does not wait for metadata,
the record waits in the client instead.

Source: librdkafka 2.16.0, lines as they are logged by rdkafka_topic.c, rdkafka_broker.c and rdkafka_metadata.c.
Differs: a connection counts (steps 2 and 7) once it can be used, not when it is begun: the client begins its
first one when it is made, before anybody sends.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from kitlib.experiments.send_path.client_log import APPLICATION, LogLine, Sign

DEBUG = "metadata,broker,msg,queue,protocol,topic"
APPENDED = "appended"  # the application's own line: produce() returned, and the topic's partitions were known before
_LINE = re.compile(r"(?P<word>\w+) \[(?P<client>[^\]]*)\] \[thrd:(?P<thread>[^\]]*)\]: (?P<text>.*)", re.DOTALL)
BOOTSTRAP, A_BROKER = r"/bootstrap$", r"/\d+$"


class LibrdkafkaLog(logging.Handler):
    """Keeps the lines of one client, to which `logger` is given."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self.now_ms = now_ms
        self.lines: list[LogLine] = []
        self.logger = logging.Logger("kitlib.librdkafka.log", logging.DEBUG)  # nobody else listens to it
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if line := read_line(record.getMessage(), self.now_ms()):
            self.lines.append(line)

    def note(self, text: str) -> None:
        """A line of the application's own, in its place among the client's."""
        self.lines.append(LogLine(self.now_ms(), APPLICATION, "app", text))


def read_line(text: str, at_ms: int) -> LogLine | None:
    """A line in its parts; None when it is none of librdkafka's."""
    found = _LINE.fullmatch(text)
    return LogLine(at_ms, found["word"], found["thread"], found["text"]) if found else None


def knows_partitions(topic: str, line: LogLine) -> bool:
    """Whether with this line the client has learned how many partitions the topic has."""
    return sign_of_update(topic).found_in(line) is not None


def sign_of_update(topic: str) -> Sign:
    """How step 4 is known: the metadata of the topic have come."""
    return Sign(4, "metadata", "update", "PARTCNT", rf"{re.escape(topic)} .*count changed from \d+ to (?P<partitions>\d+)")


def signs(topic: str) -> tuple[Sign, ...]:
    """How the nine steps of a send to this topic are known."""
    name = re.escape(topic)
    return (
        Sign(1, "user", "call", "FASTQUERY", r"^Starting fast leader query", "^app$"),
        Sign(2, "network", "connect", "STATE", r"-> UP$", BOOTSTRAP, {"why": "metadata"}),
        Sign(3, "network", "metadata_request", "SEND", r"Sent MetadataRequest"),
        sign_of_update(topic),
        Sign(5, "accumulator", "send", "PARTCNT", rf"^Partitioning (?P<records>[1-9]\d*) unassigned messages in topic {name}"),
        Sign(5, "accumulator", "send", APPLICATION, rf"^{APPENDED}$"),
        Sign(6, "accumulator", "new_batch", "TOPPAR", rf"{name} \[\d+\] .*\((?P<records>[1-9]\d*) added from partition queue\)"),
        Sign(7, "network", "connect", "STATE", r"-> UP$", A_BROKER, {"why": "leader"}),
        Sign(8, "sender", "request", "SEND", r"Sent ProduceRequest"),
        Sign(9, "sender", "answer", "RECV", r"Received ProduceResponse", data={"error": "NONE"}),
    )
