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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from kitlib.errors import KnobError, LabError
from kitlib.experiments import get
from kitlib.experiments.real_producers import LIBRDKAFKA, Librdkafka, finish
from kitlib.experiments.send_path.real_send import RealSend
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, ProxyEvent, Rule

SEND_MARK = "send"  # a line of the application's own: here a send begins
APPENDED = "appended"  # another one: produce() returned, and the topic's partitions were known before
APPLICATION = "USER"  # the matter of such lines
DEBUG = "metadata,broker,msg,queue,protocol,topic"
_LINE = re.compile(r"(?P<word>\w+) \[(?P<client>[^\]]*)\] \[thrd:(?P<thread>[^\]]*)\]: (?P<text>.*)", re.DOTALL)
BOOTSTRAP, A_BROKER = r"/bootstrap$", r"/\d+$"
CLIENT_ID = "kit-observed"
HELD_BACK_MS = 300
DEADLINE_S = 15.0
# What the proxy sees of the nine steps. A connection is of use once it is known what the broker understands.
CONNECTED = "answer", "ApiVersions"
FRAMES = {("request", "Metadata"): 3, ("answer", "Metadata"): 4, ("request", "Produce"): 8, ("answer", "Produce"): 9}
CONFIRMED_BY_FRAMES = (2, 3, 4, 7, 8, 9)  # what a proxy can see of the nine
STAGE_OF_UPDATE = 4  # the client has learned how many partitions the topic has
STAGE_OF_SEND = 5  # the record has a partition and lies in a batch: from here on it is the partition's affair
WATCHED = ("ApiVersions", "Metadata", "Produce")


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
        """What the line tells besides, by the names of the text's groups; None when it is no such line."""
        text = re.search(self.text, line.text)
        if not text or not re.fullmatch(self.word, line.word) or not re.search(self.thread, line.thread):
            return None
        return {name: told for name, told in text.groupdict().items() if told is not None}


@dataclass(frozen=True, slots=True)
class Seen:
    """One of the nine steps, as a log tells it."""

    sign: Sign
    at_ms: int
    told: dict[str, str]

    @property
    def stage(self) -> int:
        return self.sign.stage


def sends_in(lines: Sequence[LogLine], signs: Iterable[Sign]) -> list[list[Seen]]:
    """For each send its steps, in the order of their lines; a step whose sign is not there is left out.

    Where several signs stand for one step, the first line counts that is one of them.
    """
    signs = list(signs)
    begins = [at for at, line in enumerate(lines) if line.word == APPLICATION and line.text == SEND_MARK]
    found = []
    for begin, end in pairwise([*begins, len(lines)]):
        first: dict[int, Seen] = {}
        for line in lines[begin:end]:
            for sign in signs:
                told = None if sign.stage in first else sign.found_in(line)
                if told is not None:
                    first[sign.stage] = Seen(sign, line.at_ms, told)
        found.append(list(first.values()))
    return found


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


def signs_of(topic: str) -> tuple[Sign, ...]:
    """How the nine steps of a send to this topic are known."""
    name = re.escape(topic)
    return (
        Sign(1, "user", "call", "FASTQUERY", r"^Starting fast leader query", "^app$"),
        Sign(2, "network", "connect", "STATE", r"-> UP$", BOOTSTRAP, {"why": "metadata"}),
        Sign(3, "network", "metadata_request", "SEND", r"Sent MetadataRequest"),
        Sign(4, "metadata", "update", "PARTCNT", rf"{name} .*count changed from \d+ to (?P<partitions>\d+)"),
        Sign(5, "accumulator", "send", "PARTCNT", rf"^Partitioning (?P<records>[1-9]\d*) unassigned messages in topic {name}"),
        Sign(5, "accumulator", "send", APPLICATION, rf"^{APPENDED}$"),
        Sign(6, "accumulator", "new_batch", "TOPPAR", rf"{name} \[\d+\] .*\((?P<records>[1-9]\d*) added from partition queue\)"),
        Sign(7, "network", "connect", "STATE", r"-> UP$", A_BROKER, {"why": "leader"}),
        Sign(8, "sender", "request", "SEND", r"Sent ProduceRequest"),
        Sign(9, "sender", "answer", "RECV", r"Received ProduceResponse", data={"error": "NONE"}),
    )


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
    topic, offsets = run.create_topic(), list[int]()
    run.note("client", "version", at_ms=0, name=LIBRDKAFKA)
    lines, frames = _observe(run, topic, offsets)
    if -1 in offsets or len(offsets) != len(frames):
        raise LabError(f"{LIBRDKAFKA}: of 2 records to {topic} these offsets came back: {offsets}. Look at `kit status`.")
    for record, steps in enumerate(sends_in(lines, signs_of(topic))):
        visible = [step.stage for step in steps if step.stage in CONFIRMED_BY_FRAMES]
        if visible != frames[record]:
            raise LabError(
                f"send {record + 1} of run {run.trace.run}: the log tells of the steps {visible} in this order, the proxy of "
                f"{frames[record]}. Run it again; if it stays so, this release of librdkafka logs other lines."
            )
        for step in steps:
            data = {name: int(value) if value.isdigit() else value for name, value in (step.sign.data | step.told).items()}
            if step.stage == STAGE_OF_SEND or (step.stage > STAGE_OF_SEND and step.sign.actor != "network"):
                data |= {**run.lane, "first": record, "last": record, "batch": record}
            if not record:
                data["stage"] = step.stage
            run.note(step.sign.actor, step.sign.what, at_ms=step.at_ms, **data)
        run.told(record, "", offsets[record], steps[-1].at_ms)
    run.note("network", "frames", stages=frames)
    run.read()


def _observe(run: RealSend, topic: str, offsets: list[int]) -> tuple[list[LogLine], list[list[int]]]:
    """Send two records through a proxy, and look: the client's log, and for each send the steps that the proxy has seen.

    LabError when a record is not stored within DEADLINE_S seconds.
    """
    log = LibrdkafkaLog(lambda: run.now_ms)
    settings = {
        "client.id": CLIENT_ID, "debug": DEBUG, "log_level": 7, "linger.ms": 0, "enable.idempotence": False,
        "enable.metrics.push": False,
    }  # fmt: skip
    update = next(sign for sign in signs_of(topic) if sign.stage == STAGE_OF_UPDATE)
    marks: list[int] = []
    with ChaosProxy.before(run.cluster, watch=WATCHED) as proxy:
        proxy.add(Rule("delay_answer", "ApiVersions", count=1, ms=HELD_BACK_MS))
        client = Librdkafka(proxy.cluster, topic, lambda record, error, offset: offsets.append(offset), settings, log.logger)
        try:
            for record in range(2):
                if record:
                    client.work(run.settings.pause_ms / 1000)
                marks.append(len(proxy.events))
                log.note(SEND_MARK)
                client.send(record)
                if any(update.found_in(line) is not None for line in log.lines):
                    log.note(APPENDED)
                finish(client, DEADLINE_S)
                proxy.wait_for(partial(_saw_answers, proxy, record + 1), DEADLINE_S, "the answer has passed")
        finally:
            client.close()
        events = proxy.events
    return log.lines, [_stages_of(events[begin:end]) for begin, end in pairwise([*marks, len(events)])]


def _saw_answers(proxy: ChaosProxy, wanted: int) -> bool:
    return sum((event.what, event.api) == ("answer", "Produce") for event in proxy.events) >= wanted


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
