"""What librdkafka says of itself, line by line, and the nine steps of a send in it.

A client can be asked to tell what it does, by its setting `debug`. A step is known by a sign: a line of a certain matter, thread and
text. Each sign is looked for by itself, among the lines between one send and the next, and the order of the steps is the order of
their lines; nothing here puts them in order.

The nine steps are those of a trace of Java's client of 2017: (1) the user waits for the topic's metadata, (2) a connection for
asking, (3) the question, (4) the answer, (5) the record gets its partition and is appended, (6) the sender is woken by a new batch,
(7) the batch's broker is known and connected to, (8) a Produce request leaves, (9) its answer comes.

librdkafka's threads write into one queue, from which the application's `poll` takes them; so the lines come in the order in
which the threads wrote them, while their times are those of the polls. It does what Java's client does, but in other threads:
its `produce()` does not wait for metadata, the record waits in the client instead.

Two sends are observed so: the user sends one record and, a while after the first was stored, another. The client's log gives the nine
steps; the frames that pass the proxy, which knows nothing of clients, must tell the same order. librdkafka connects as soon as it is
made. The first send shall find no connection that can be used, as it was for the client of the source, so the proxy holds back the
first answer for a moment.

Source: librdkafka 2.16.0, lines as they are logged by rdkafka_topic.c, rdkafka_broker.c and rdkafka_metadata.c.
Differs: a connection counts (steps 2 and 7) once it can be used, not when it is begun: the client begins its first one when it is
made, before anybody sends. Left out: lines that are no sign.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from kitlib.errors import LabError
from kitlib.experiments.real_producers import LIBRDKAFKA, Librdkafka, finish
from kitlib.experiments.send_path.real_send import RealSend
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, ProxyEvent, Rule

APPENDED = "appended"  # a line of the application's own: produce() returned, and the topic's partitions were known before
APPLICATION = "USER"  # the matter of such a line
DEBUG = "metadata,broker,msg,queue,protocol,topic"
_LINE = re.compile(r"(?P<word>\w+) \[[^\]]*\] \[thrd:(?P<thread>[^\]]*)\]: (?P<text>.*)", re.DOTALL)
CLIENT_ID = "kit-observed"
HELD_BACK_MS = 300
DEADLINE_S = 15.0
# What the proxy sees of the nine steps, beside 2 and 7: a connection is of use once it is known what the broker understands.
CONNECTED = "answer", "ApiVersions"
FRAMES = {("request", "Metadata"): 3, ("answer", "Metadata"): 4, ("request", "Produce"): 8, ("answer", "Produce"): 9}
CONFIRMED_BY_FRAMES = {2, 7, *FRAMES.values()}
STAGE_OF_SEND = 5  # the record has a partition and lies in a batch: from here on it is the partition's affair


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a client's log."""

    at_ms: int  # since the run began
    word: str  # the matter: "SEND", "METADATA", ...
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

    def found_in(self, line: LogLine) -> dict[str, str] | None:
        """What the line tells, by the names of the text's groups, beside `data`; None when it is no such line."""
        text = re.search(self.text, line.text)
        if not text or not re.fullmatch(self.word, line.word) or not re.search(self.thread, line.thread):
            return None
        return self.data | {name: told for name, told in text.groupdict().items() if told is not None}


Seen = tuple[Sign, LogLine, dict[str, str]]  # one of the nine steps, as a log tells it


def steps_in(lines: Sequence[LogLine], signs: Sequence[Sign]) -> list[Seen]:
    """The steps of one send, in the order of their lines, each at the first line that is a sign of it; one without a sign is left out."""
    first: dict[int, Seen] = {}
    for line in lines:
        for sign in signs:
            if sign.stage not in first and (told := sign.found_in(line)) is not None:
                first[sign.stage] = sign, line, told
    return list(first.values())


class LibrdkafkaLog(logging.Handler):
    """Keeps the lines of one client, to which `logger` is given; what is no line of librdkafka's is passed over."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self.now_ms = now_ms
        self.lines: list[LogLine] = []
        self.logger = logging.Logger("kitlib.librdkafka.log", logging.DEBUG)  # nobody else listens to it
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if found := _LINE.fullmatch(record.getMessage()):
            self.lines.append(LogLine(self.now_ms(), **found.groupdict()))

    def note(self, text: str) -> None:
        """A line of the application's own, in its place among the client's."""
        self.lines.append(LogLine(self.now_ms(), APPLICATION, "app", text))


def signs_of(topic: str) -> tuple[Sign, ...]:
    """How the nine steps of a send to this topic are known."""
    name = re.escape(topic)
    return (
        Sign(1, "user", "call", "FASTQUERY", r"^Starting fast leader query", "^app$"),
        Sign(2, "network", "connect", "STATE", r"-> UP$", r"/bootstrap$", {"why": "metadata"}),
        Sign(3, "network", "metadata_request", "SEND", r"Sent MetadataRequest"),
        Sign(4, "metadata", "update", "PARTCNT", rf"{name} .*count changed from \d+ to (?P<partitions>\d+)"),
        Sign(5, "accumulator", "send", "PARTCNT", rf"^Partitioning (?P<records>[1-9]\d*) unassigned messages in topic {name}"),
        Sign(5, "accumulator", "send", APPLICATION, rf"^{APPENDED}$"),
        Sign(6, "accumulator", "new_batch", "TOPPAR", rf"{name} \[\d+\] .*\((?P<records>[1-9]\d*) added from partition queue\)"),
        Sign(7, "network", "connect", "STATE", r"-> UP$", r"/\d+$", {"why": "leader"}),
        Sign(8, "sender", "request", "SEND", r"Sent ProduceRequest"),
        Sign(9, "sender", "answer", "RECV", r"Received ProduceResponse", data={"error": "NONE"}),
    )


def two_sends(run: RealSend) -> None:
    """One step of the trace for each of the nine, in the order of the log; LabError when the frames tell another.

    As on the model the first send's steps have their number as `stage`; the second's have the same words.
    Of the knobs `pause_ms` alone is turned; `wait_ms` is not waited for: here nothing happens in it.
    """
    topic, offsets = run.create_topic(), list[int]()
    run.note("client", "version", at_ms=0, name=LIBRDKAFKA)
    sends = _observe(run, topic, offsets)
    if -1 in offsets or len(offsets) != len(sends):
        raise LabError(f"{LIBRDKAFKA}: of 2 records to {topic} these offsets came back: {offsets}. Look at `kit status`.")
    for record, (steps, frames) in enumerate(sends):
        visible = [sign.stage for sign, *_ in steps if sign.stage in CONFIRMED_BY_FRAMES]
        if visible != frames:
            raise LabError(
                f"send {record + 1} of run {run.trace.run}: the log tells of the steps {visible} in this order, the proxy of "
                f"{frames}. Run it again; if it stays so, this release of librdkafka logs other lines."
            )
        for sign, line, told in steps:
            data: dict[str, object] = {name: int(value) if value.isdigit() else value for name, value in told.items()}
            if sign.stage == STAGE_OF_SEND or (sign.stage > STAGE_OF_SEND and sign.actor != "network"):
                data |= {**run.lane, "first": record, "last": record, "batch": record}
            if not record:
                data["stage"] = sign.stage
            run.note(sign.actor, sign.what, at_ms=line.at_ms, **data)
        run.told(record, "", offsets[record], steps[-1][1].at_ms)
    run.note("network", "frames", stages=[frames for _, frames in sends])
    run.read()


def _observe(run: RealSend, topic: str, offsets: list[int]) -> list[tuple[list[Seen], list[int]]]:
    """Send two records through a proxy, and look: for each send the steps that the client's log tells, and those that the proxy has seen.

    LabError when a record is not stored within DEADLINE_S seconds.
    """
    log, signs = LibrdkafkaLog(lambda: run.now_ms), signs_of(topic)
    settings = {
        "client.id": CLIENT_ID, "debug": DEBUG, "log_level": 7, "linger.ms": 0, "enable.idempotence": False,
        "enable.metrics.push": False,
    }  # fmt: skip
    begins: list[tuple[int, int]] = []  # of each send: so many lines and events before it
    with ChaosProxy.before(run.cluster, watch=("ApiVersions", "Metadata", "Produce")) as proxy:
        proxy.add(Rule("delay_answer", "ApiVersions", count=1, ms=HELD_BACK_MS))
        client = Librdkafka(proxy.cluster, topic, lambda record, error, offset: offsets.append(offset), settings, log.logger)
        try:
            for record in range(2):
                if record:
                    client.work(run.settings.pause_ms / 1000)
                begins.append((len(log.lines), len(proxy.events)))
                client.send(record)
                if record:  # the partitions are known
                    log.note(APPENDED)
                finish(client, DEADLINE_S)
                proxy.wait_for(partial(_saw_answer, proxy, begins[-1][1]), DEADLINE_S, "the answer has passed")
        finally:
            client.close()
        events = proxy.events
    return [
        (steps_in(log.lines[line:next_line], signs), _stages_of(events[event:next_event]))
        for (line, event), (next_line, next_event) in pairwise([*begins, (len(log.lines), len(events))])
    ]


def _saw_answer(proxy: ChaosProxy, begin: int) -> bool:
    return any((event.what, event.api) == ("answer", "Produce") for event in proxy.events[begin:])


def _stages_of(events: Sequence[ProxyEvent]) -> list[int]:
    """The steps that these frames of the client are, each at its first: a connection before any question is step 2, a later one 7."""
    stages: list[int] = []
    for event in events:
        stage = FRAMES.get((event.what, event.api), 0)
        if (event.what, event.api) == CONNECTED:
            stage = 7 if 3 in stages else 2
        if stage and stage not in stages and event.client_id == CLIENT_ID:
            stages.append(stage)
    return stages
