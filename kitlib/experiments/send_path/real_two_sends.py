"""Two sends of a real client, observed: its own log, and what the chaos proxy sees on its connections.

The user sends one record and, a while after the first was stored, another. The client's log gives the nine
steps; the frames that pass the proxy, which knows nothing of clients, must tell the same order.

librdkafka connects as soon as it is made. The first send shall find no connection that can be used, as it
was for the client of the source, so the proxy holds back the first answer for a moment. Java's client has
asked for the metadata of no topics by then and let go of the connection for it: it is left alone.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kitlib.errors import KnobError, LabError
from kitlib.experiments import get
from kitlib.experiments.real_producers import LIBRDKAFKA, Java, Librdkafka, finish
from kitlib.experiments.send_path import client_log
from kitlib.experiments.send_path.client_log import SEND_MARK, LibrdkafkaLog, LogLine, Seen, Sign, sends_in
from kitlib.experiments.send_path.real_send import RealSend
from kitlib.lab.clients import Cluster
from kitlib.lab.java_client import JavaClient
from kitlib.lab.proxy.chaos_proxy import ChaosProxy, ProxyEvent, Rule

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
        "client.id": CLIENT_ID, "debug": client_log.DEBUG, "log_level": 7, "linger.ms": 0, "enable.idempotence": False,
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
            if any(client_log.knows_partitions(topic, line) for line in log.lines):
                log.note(client_log.APPENDED)
            finish(client, DEADLINE_S)
            proxy.wait_for(partial(_saw_answers, proxy, record + 1), DEADLINE_S, "the answer has passed")
    finally:
        client.close()
    return _observed(LIBRDKAFKA, topic, offsets, log.lines, client_log.librdkafka_signs(topic), proxy, marks)


def _java(proxy: ChaosProxy, topic: str, second_after_ms: int) -> Observed:
    offsets: list[int] = []
    marks: list[int] = []
    with tempfile.TemporaryDirectory(prefix="kit-java-log-") as folder:
        path = Path(folder) / "client.log"
        with JavaClient.open(client_log.java_options(path)) as java:
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
        lines = client_log.with_send_marks(client_log.read_java_lines(path.read_text(encoding="utf-8")), topic)
    return _observed(version, topic, offsets, lines, client_log.java_signs(topic), proxy, marks)


def _saw_answers(proxy: ChaosProxy, wanted: int) -> bool:
    return sum((event.what, event.api) == ("answer", "Produce") for event in proxy.events) >= wanted


def _observed(
    client: str, topic: str, offsets: list[int], lines: list[LogLine], signs: Sequence[Sign], proxy: ChaosProxy, marks: list[int]
) -> Observed:
    if -1 in offsets or len(offsets) != len(marks):
        raise LabError(f"{client}: of {len(marks)} records to {topic} these offsets came back: {offsets}. Look at `kit status`.")
    events = proxy.events
    parts = [events[begin:end] for begin, end in zip(marks, [*marks[1:], len(events)], strict=True)]
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
