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

Two sends are observed so: the user sends one record and, a while after the first was stored, another. The client's log gives the nine
steps; the frames that pass the proxy, which knows nothing of clients, must tell the same order. librdkafka connects as soon as it is
made. The first send shall find no connection that can be used, as it was for the client of the source, so the proxy holds back the
first answer for a moment. Java's client has asked for the metadata of no topics by then and let go of the connection for it: it is
left alone.

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
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

from kitlib.errors import KnobError, LabError
from kitlib.experiments import get
from kitlib.experiments.real_producers import LIBRDKAFKA, Java, Librdkafka, finish
from kitlib.experiments.send_path.real_send import RealSend
from kitlib.lab.clients import Cluster
from kitlib.lab.java_client import JavaClient
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, ProxyEvent, Rule

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
    for begin, end in pairwise([*begins, len(lines)]):
        first: dict[int, Seen] = {}
        for at in range(begin, end):
            for sign in signs:
                told = sign.found_in(lines[at]) if sign.stage not in first and (not sign.after or sign.after in first) else None
                if told is not None:
                    first[sign.stage] = Seen(sign.stage, at, lines[at].at_ms, sign, told)
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


CLIENTS = ("librdkafka", "java")
CLIENT_ID = "kit-observed"
HELD_BACK_MS = 300
DEADLINE_S = 15.0
# What the proxy sees of the nine steps. A connection is of use once it is known what the broker understands.
CONNECTED = "answer", "ApiVersions"
FRAMES = {("request", "Metadata"): 3, ("answer", "Metadata"): 4, ("request", "Produce"): 8, ("answer", "Produce"): 9}
LOOKED_AROUND = "Cluster ID: "  # Java's client writes so when it has taken the first answer in, and not only received it
CONFIRMED_BY_FRAMES = (2, 3, 4, 7, 8, 9)  # what a proxy can see of the nine
STAGE_OF_SEND = 5  # the record has a partition and lies in a batch: from here on it is the partition's affair
WATCHED = ("ApiVersions", "Metadata", "Produce")


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of two sends."""

    client: str  # with its version
    sends: list[list[Seen]]  # for each send its steps, in the log's order
    frames: list[list[int]]  # for each send the steps that the proxy has seen, in its order
    offsets: list[int]
    lines: list[LogLine]

    def stages(self, send: int) -> list[int]:
        """The steps of a send (1 or 2) by their numbers, in the log's order."""
        return [seen.stage for seen in self.sends[send - 1]]


def observe_two_sends(client: str, cluster: Cluster, topic: str, second_after_ms: int) -> Observed:
    """Send two records to an empty topic of one partition through a proxy, and look.

    KnobError for a client that is none of CLIENTS; LabError when a record is not stored within DEADLINE_S seconds.
    """
    if client not in CLIENTS:
        raise KnobError(f"two_sends: the client is {client!r}, expected one of {', '.join(CLIENTS)}.")
    with ChaosProxy.before(cluster, watch=WATCHED) as proxy:
        return (_librdkafka if client == "librdkafka" else _java)(proxy, topic, second_after_ms)


def _librdkafka(proxy: ChaosProxy, topic: str, second_after_ms: int) -> Observed:
    began_s = time.monotonic()
    log = LibrdkafkaLog(lambda: int((time.monotonic() - began_s) * 1000))
    settings = {
        "client.id": CLIENT_ID, "debug": DEBUG, "log_level": 7, "linger.ms": 0, "enable.idempotence": False,
        "enable.metrics.push": False,
    }  # fmt: skip
    proxy.add(Rule("delay_answer", "ApiVersions", count=1, ms=HELD_BACK_MS))
    offsets: list[int] = []
    marks: list[int] = []
    client = Librdkafka(proxy.cluster, topic, lambda record, error, offset: offsets.append(offset), settings, log.logger)
    try:
        for record in range(2):
            if record:
                client.work(second_after_ms / 1000)
            marks.append(len(proxy.events))
            log.note(SEND_MARK)
            client.send(record)
            if any(knows_partitions(topic, line) for line in log.lines):
                log.note(APPENDED)
            finish(client, DEADLINE_S)
            proxy.wait_for(partial(_saw_answers, proxy, record + 1), DEADLINE_S, "the answer has passed")
    finally:
        client.close()
    return _observed(LIBRDKAFKA, topic, offsets, log.lines, librdkafka_signs(topic), proxy, marks)


def _java(proxy: ChaosProxy, topic: str, second_after_ms: int) -> Observed:
    offsets: list[int] = []
    marks: list[int] = []
    with tempfile.TemporaryDirectory(prefix="kit-java-log-") as folder:
        path = Path(folder) / "client.log"
        with JavaClient.open(java_options(path)) as java:
            version = f"kafka-clients {java.version}"
            settings = {"client.id": CLIENT_ID, "linger.ms": 0, "enable.idempotence": False}
            client = Java(java, proxy.cluster, topic, lambda record, error, offset: offsets.append(offset), settings)
            proxy.wait_for(lambda: LOOKED_AROUND in path.read_text(errors="replace"), DEADLINE_S, "the client has looked around")
            for record in range(2):
                if record:
                    time.sleep(second_after_ms / 1000)
                marks.append(len(proxy.events))
                client.send(record)
                finish(client, DEADLINE_S)
                proxy.wait_for(partial(_saw_answers, proxy, record + 1), DEADLINE_S, "the answer has passed")
            client.close()
        lines = with_send_marks(read_java_lines(path.read_text(encoding="utf-8")), topic)
    return _observed(version, topic, offsets, lines, java_signs(topic), proxy, marks)


def _saw_answers(proxy: ChaosProxy, wanted: int) -> bool:
    return sum((event.what, event.api) == ("answer", "Produce") for event in proxy.events) >= wanted


def _observed(
    client: str, topic: str, offsets: list[int], lines: list[LogLine], signs: Sequence[Sign], proxy: ChaosProxy, marks: list[int]
) -> Observed:
    if -1 in offsets or len(offsets) != len(marks):
        raise LabError(f"{client}: of {len(marks)} records to {topic} these offsets came back: {offsets}. Look at `kit status`.")
    events = proxy.events
    parts = [events[begin:end] for begin, end in pairwise([*marks, len(events)])]
    frames = [_stages_of([event for event in part if event.client_id == CLIENT_ID]) for part in parts]
    return Observed(client, sends_in(lines, signs), frames, offsets, lines)


def _stages_of(events: Sequence[ProxyEvent]) -> list[int]:
    """The steps that these frames are, each at its first: a connection before any question is step 2, a later one 7."""
    stages: list[int] = []
    for event in events:
        stage = FRAMES.get((event.what, event.api), 0)
        if (event.what, event.api) == CONNECTED:
            stage = 7 if 3 in stages else 2
        if stage and stage not in stages:
            stages.append(stage)
    return stages


def two_sends(run: RealSend) -> None:
    """One step of the trace for each of the nine, in the order of the log; LabError when the frames tell another.

    As on the model the first send's steps have their number as `stage`; the second's have the same words.
    Of the knobs `pause_ms` alone is turned; `wait_ms` is not waited for: here nothing happens in it. KnobError when the topic
    is to have more partitions than the one, and they are not the model's default.
    """
    default = next(each.default for each in get("two_sends").knobs if each.name == "partitions")
    if run.settings.partitions not in (1, default):
        raise KnobError(
            f"two_sends on a real broker: partitions is {run.settings.partitions}, and the topic has 1. Take 1, or run it on the model."
        )
    seen = observe_two_sends("librdkafka", run.cluster, run.create_topic(), run.settings.pause_ms)
    run.note("client", "version", at_ms=0, name=seen.client)
    for record, (steps, frames) in enumerate(zip(seen.sends, seen.frames, strict=True)):
        visible = [step.stage for step in steps if step.stage in CONFIRMED_BY_FRAMES]
        if visible != frames:
            raise LabError(
                f"send {record + 1} of run {run.trace.run}: the log tells of the steps {visible} in this order, the proxy of "
                f"{frames}. Run it again; if it stays so, this release of librdkafka logs other lines."
            )
        for step in steps:
            data = {name: int(value) if value.isdigit() else value for name, value in (step.sign.data | step.told).items()}
            if step.stage == STAGE_OF_SEND or (step.stage > STAGE_OF_SEND and step.sign.actor != "network"):
                data |= {**run.lane, "first": record, "last": record, "batch": record}
            if not record:
                data["stage"] = step.stage
            run.note(step.sign.actor, step.sign.what, at_ms=step.at_ms, **data)
        run.told(record, "", seen.offsets[record], steps[-1].at_ms)
    run.note("network", "frames", stages=seen.frames)
    run.read()
