"""The log of Java's Kafka client: how it is had, how a line is read, and the signs of the nine steps in it.

The client's jars come with a simple logger that writes to a file, with the milliseconds since the JVM's logger
was made. The source of the nine steps is such a log, of a client of 2017; most of its lines are still there.

Source: kafka-clients 4.3.1, KafkaProducer.waitOnMetadata and doSend, NetworkClient, Metadata.update, Sender.
Differs: today's client connects, and asks for the metadata of no topics, as soon as it is made. Where the broker
that it then asks for the topic's metadata is also the leader, there is nothing to connect to in step 7.
"""

from __future__ import annotations

import re
from pathlib import Path

from kitlib.experiments.send_path.client_log import APPLICATION, SEND_MARK, LogLine, Sign

_LINE = re.compile(r"(?P<ms>\d+) \[(?P<thread>[^\]]*)\] (?P<level>[A-Z]+) (?P<logger>[\w.$]+) - (?P<text>.*)")


def options(path: Path) -> tuple[str, ...]:
    """What to start the JVM with so that the client's log is in this file."""
    simple = "-Dorg.slf4j.simpleLogger."
    return (f"{simple}log.org.apache.kafka.clients=trace", f"{simple}logFile={path}", f"{simple}showDateTime=true")


def read_lines(text: str) -> list[LogLine]:
    """The lines of a log in their parts, without the rest of exceptions; times count from the logger's beginning."""
    found = (_LINE.fullmatch(line) for line in text.splitlines())
    return [LogLine(int(each["ms"]), each["logger"].rpartition(".")[2], each["thread"], each["text"]) for each in found if each]


def signs(topic: str) -> tuple[Sign, ...]:
    """How the nine steps of a send to this topic are known."""
    name = re.escape(topic)
    return (
        Sign(1, "user", "call", "KafkaProducer", rf"Requesting metadata update for .*topic {name}"),
        Sign(2, "network", "connect", "NetworkClient", r"Initialize connection .* for sending metadata", data={"why": "metadata"}),
        Sign(3, "network", "metadata_request", "NetworkClient", rf"Sending metadata request .*name='{name}'"),
        Sign(4, "metadata", "update", "Metadata", rf"Updated cluster metadata updateVersion (?P<version>\d+) .*{name}"),
        Sign(5, "accumulator", "send", "KafkaProducer", rf"Attempting to append record .*topic={name}"),
        Sign(6, "accumulator", "new_batch", "KafkaProducer", rf"Waking up the sender since topic {name}"),
        Sign(7, "network", "connect", "NetworkClient", r"Initiating connection to node", data={"why": "leader"}, after=6),
        Sign(8, "sender", "request", "NetworkClient", r"Sending PRODUCE request"),
        Sign(9, "sender", "answer", "Sender", r"Received produce response", data={"error": "NONE"}),
    )


def with_send_marks(lines: list[LogLine], topic: str) -> list[LogLine]:
    """The lines with a mark before each send: before it asks for metadata, or else before it appends its record."""
    asks, appends = (sign for sign in signs(topic) if sign.stage in (1, 5))
    marked: list[LogLine] = []
    has_asked = False
    for line in lines:
        begins_asking, appended = (sign.found_in(line) is not None for sign in (asks, appends))
        if (begins_asking or appended) and not has_asked:
            marked.append(LogLine(line.at_ms, APPLICATION, "app", SEND_MARK))
        has_asked = (has_asked or begins_asking) and not appended
        marked.append(line)
    return marked
