"""What a real client says of itself, line by line, and the nine steps of a send in it.

Both stock clients can be asked to tell what they do: librdkafka by its setting `debug`, Java's by the level of
its loggers. A step is known by a sign: a line of a certain matter, thread and text. Each sign is looked for by
itself, among the lines between one send and the next, and the order of the steps is the order of their lines;
nothing here puts them in order.

The nine steps are those of a trace of Java's client of 2017, most of whose lines are still there: (1) the user waits for
the topic's metadata, (2) a connection for asking, (3) the question, (4) the answer, (5) the record gets its partition and is
appended, (6) the sender is woken by a new batch, (7) the batch's broker is known and connected to,
(8) a Produce request leaves, (9) its answer comes.

librdkafka's threads write into one queue, from which the application's `poll` takes them; so the lines come in the order in
which the threads wrote them, while their times are those of the polls. It does what Java's client does, but in other threads:
its `produce()` does not wait for metadata, the record waits in the client instead. Java's client has a simple logger that
writes to a file, with the milliseconds since the JVM's logger was made.

Source: librdkafka 2.16.0, lines as they are logged by rdkafka_topic.c, rdkafka_broker.c and rdkafka_metadata.c; kafka-clients
4.3.1, KafkaProducer.waitOnMetadata and doSend, NetworkClient, Metadata.update, Sender.
Differs: a connection of librdkafka counts (steps 2 and 7) once it can be used, not when it is begun: the client begins its
first one when it is made, before anybody sends. Today's Java client connects, and asks for the metadata of no topics, as soon
as it is made; where the broker that it then asks for the topic's metadata is also the leader, there is nothing to connect to
in step 7. Left out: lines that are no sign; `LogLine.text` has them for who wants to read on.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

STAGES = range(1, 10)
SEND_MARK = "send"  # a line of the application's own: here a send begins
APPLICATION = "USER"  # the matter of such a line


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a client's log."""

    at_ms: int  # since the run began
    word: str  # the matter: "SEND", "METADATA", ...; of Java's client the class that speaks
    thread: str  # "app", "main", or a broker ("127.0.0.1:9092/1", "127.0.0.1:9092/bootstrap")
    text: str


@dataclass(frozen=True, slots=True)
class Sign:
    """How one of the nine steps is known in a log; `word`, `thread` and `text` are regular expressions."""

    stage: int
    actor: str
    what: str
    word: str
    text: str
    thread: str = ""
    data: dict[str, str] = field(default_factory=dict)
    after: int = 0  # the step before which such a line is something else

    def found_in(self, line: LogLine) -> dict[str, str] | None:
        """What the line tells besides, by the names of the text's groups; None when it is no such line."""
        text = re.search(self.text, line.text)
        if not text or not re.fullmatch(self.word, line.word) or not re.search(self.thread, line.thread):
            return None
        return {name: told for name, told in text.groupdict().items() if told is not None}


@dataclass(frozen=True, slots=True)
class Seen:
    """One of the nine steps, as a log tells it."""

    send: int  # from 1
    stage: int
    line: int  # its place in the log
    at_ms: int
    sign: Sign
    told: dict[str, str]


def sends_in(lines: Sequence[LogLine], signs: Iterable[Sign]) -> list[list[Seen]]:
    """For each send its steps, in the order of their lines; a step whose sign is not there is left out.

    Where several signs stand for one step, the first line counts that is one of them.
    """
    signs = list(signs)
    begins = [at for at, line in enumerate(lines) if line.word == APPLICATION and line.text == SEND_MARK]
    found = []
    for send, (begin, end) in enumerate(zip(begins, [*begins[1:], len(lines)], strict=True), 1):
        first: dict[int, Seen] = {}
        for at in range(begin, end):
            for sign in signs:
                told = sign.found_in(lines[at]) if sign.stage not in first and (not sign.after or sign.after in first) else None
                if told is not None:
                    first[sign.stage] = Seen(send, sign.stage, at, lines[at].at_ms, sign, told)
        found.append(sorted(first.values(), key=lambda seen: seen.line))
    return found


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


def librdkafka_signs(topic: str) -> tuple[Sign, ...]:
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


_JAVA_LINE = re.compile(r"(?P<ms>\d+) \[(?P<thread>[^\]]*)\] (?P<level>[A-Z]+) (?P<logger>[\w.$]+) - (?P<text>.*)")


def java_options(path: Path) -> tuple[str, ...]:
    """What to start the JVM with so that the client's log is in this file."""
    simple = "-Dorg.slf4j.simpleLogger."
    return (f"{simple}log.org.apache.kafka.clients=trace", f"{simple}logFile={path}", f"{simple}showDateTime=true")


def read_java_lines(text: str) -> list[LogLine]:
    """The lines of a log in their parts, without the rest of exceptions; times count from the logger's beginning."""
    found = (_JAVA_LINE.fullmatch(line) for line in text.splitlines())
    return [LogLine(int(each["ms"]), each["logger"].rpartition(".")[2], each["thread"], each["text"]) for each in found if each]


def java_signs(topic: str) -> tuple[Sign, ...]:
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
    asks, appends = (sign for sign in java_signs(topic) if sign.stage in (1, 5))
    marked: list[LogLine] = []
    has_asked = False
    for line in lines:
        begins_asking, appended = (sign.found_in(line) is not None for sign in (asks, appends))
        if (begins_asking or appended) and not has_asked:
            marked.append(LogLine(line.at_ms, APPLICATION, "app", SEND_MARK))
        has_asked = (has_asked or begins_asking) and not appended
        marked.append(line)
    return marked
