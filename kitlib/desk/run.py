"""A desk that runs: real parts whose knobs are turned while they work, and three counts of what becomes of the records.

    application ──> producer ──> chaos proxy ──> topic ──> spout ──> bolt ──> results
                                                   └────────────┬─────────────┘
                                                  one streaming query of Spark

`snapshot()` tells how it goes, as plain data; whoever shows it asks once a second. `drain()` lets everything come to rest and compares
the desk's own ledgers, the broker's log and Spark. `stop()` ends all of it and removes what was made: topics, stored offset, checkpoint.
The Spark session stays, as the notebook's other cells may use it.

Left out: more than one partition.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections import deque
from contextlib import ExitStack, closing, suppress
from types import TracebackType
from typing import Any, Self

import numpy as np
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from numpy.typing import NDArray

from kitlib.desk.audit import DeskAudit, count
from kitlib.desk.fold import LogFold, number_in, tally_of
from kitlib.desk.lamps import Drained, Witness
from kitlib.desk.ledgers import Ledgers
from kitlib.desk.recorder import Recorder
from kitlib.desk.settings import DEEDS, deeds_of, settled
from kitlib.desk.source import Source
from kitlib.desk.spout import Spout
from kitlib.errors import KitError, KnobError, LabError
from kitlib.experiments.kafka_backend import DEADLINE_S, KafkaBackend, KafkaTopic, create_topic, reader_of
from kitlib.experiments.knobs import as_text
from kitlib.lab import created_resources, kafka_server, workspace
from kitlib.lab.clients import client_config
from kitlib.lab.created_resources import Made
from kitlib.lab.processes import wait_until
from kitlib.lab.proxy.chaos_proxy import ChaosProxy
from kitlib.pipelines.topics import Topics
from kitlib.spark import sessions as kit_spark
from kitlib.text import plain_text
from kitlib.trace import Trace

AWAY_S = (0.1, 60.0)  # how long the database may be away
STILL_S = 1.0  # nothing has moved for so long: nothing will
DRAIN_S = 60.0
SNAPSHOTS = 900  # a quarter of an hour, at one a second
EVENTS = 50
PER_READ = 5_000  # records that are read back at once


class DeskRun:
    """One desk's parts. `start` begins, and every way out of a `with` block stops."""

    def __init__(self, **settings: Any) -> None:
        """KnobError for a bad setting; nothing is started yet."""
        self.settings = settled(settings)
        self.run = f"desk-{uuid.uuid4().hex[:8]}"
        self.phase = "new"  # then "starting", "running", "draining", "drained", "stopped"
        self.snapshots: deque[dict[str, Any]] = deque(maxlen=SNAPSHOTS)
        self.events: deque[tuple[float, str]] = deque(maxlen=EVENTS)  # (seconds since the start, sentence)
        self.ledgers = Ledgers()
        self.drained: Drained | None = None
        self.problems: list[str] = []  # what could not be removed at the end
        self.deeds = [*DEEDS]  # what can be done to it; fewer where the brokers are not the kit's
        self.killed_s: float | None = None  # when the broker was killed, until it stores records again
        self._undo = ExitStack()
        self._is_stopping = False
        self._turning = threading.RLock()  # of drain, stop and set, one at a time
        self._began_s = time.monotonic()
        self.recorder = Recorder(self._began_s)
        self.source: Source | None = None
        self.spout: Spout | None = None
        self.audit: DeskAudit | None = None

    # The start and the end

    def start(self) -> Self:
        """Start all parts; some seconds, of which Spark's start takes most. LabError when one of them cannot be had."""
        with self._turning:
            if self.phase != "new":
                raise LabError(f"{self.run} was started before. Make another desk.")
            self.phase = "starting"
            try:
                self._start()
            except BaseException:
                self.stop()
                raise
            self.phase = "running"
        return self

    def _start(self) -> None:
        spark = kit_spark.session(say=str)
        cluster = kafka_server.ensure()
        self.deeds = deeds_of(cluster)
        proxy = self._undo.enter_context(ChaosProxy.before(cluster))
        backend = self.backend = KafkaBackend.open(self.run)
        self._undo.callback(backend.close)
        self.folder = workspace.spark_dir() / "desks" / self.run
        self._undo.callback(self._remove)
        self.topic = KafkaTopic.create(backend, "records", self.settings.fetch_records)
        self.results = f"kit.{self.run}.results"
        create_topic(backend.admin, self.results, cluster, {"retention.ms": "-1"})
        self.audit = DeskAudit(self.run, self.topic.name, self.results, self.folder)
        self._undo.callback(self.audit.stop)
        self.audit.start(Topics.find(), spark)
        self.spout = Spout(backend, self.topic, self.results, self.ledgers, self.recorder, self.settings, self.say)
        self._undo.callback(self.spout.stop)
        self.source = Source(proxy, self.topic.name, self.ledgers, self.settings, self.say)
        self._undo.callback(self.source.stop)
        self._began_s = self.recorder.began_s = time.monotonic()
        self.spout.start()
        self.source.start()
        self.say("The desk begins.")

    def stop(self) -> None:
        """End every part and remove what was made; a second call does nothing. `problems` names what could not be removed.

        A drain that is under way ends with a LabError.
        """
        self._is_stopping = True
        with self._turning:
            if self.phase != "stopped":
                self.phase = "stopped"
                self._undo.close()

    def _remove(self) -> None:
        """Delete topics, stored offset and checkpoint, and forget that they were there."""
        ours = [made for made in created_resources.read(created_resources.notebook()) if self._is_ours(made)]
        gone, self.problems = created_resources.take_back(ours, client_config(self.backend.cluster))
        created_resources.forget(created_resources.notebook(), gone)
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            self.folder.parent.rmdir()

    def _is_ours(self, made: Made) -> bool:
        return made.name.startswith((f"kit.{self.run}.", f"/{self.run}/")) or made.name.endswith(f"/{self.run}")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    # What can be done to it

    def set(self, **settings: Any) -> None:
        """Turn knobs; they act on the running parts. KnobError for a bad one, and then none is turned."""
        with self._turning:
            before, self.settings = self.settings, settled(settings, self.settings)
            for name, value in self.settings.items():
                if value != before[name]:
                    self._say_turned(name, as_text(before[name]), as_text(value))
            for part in (self.source, self.spout):
                if part is not None:
                    part.settings = self.settings

    def database_away(self, seconds: float = 3.0) -> None:
        """Every tuple that the bolt works through fails for so long. KnobError unless 0.1 <= seconds <= 60."""
        low, high = AWAY_S
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not low <= seconds <= high:
            raise KnobError(f"the database's absence is {str(seconds)[:40]!r} s, expected {low:g} to {high:g}.")
        self._running("take the database away")
        assert self.spout is not None
        self.spout.away_until = time.monotonic() + seconds
        self.say(f"The database is away for {seconds:g} s.")

    def kill_broker(self) -> None:
        """SIGKILL to the broker; the kit starts it again at once. LabError when it is not the kit's."""
        self._running("kill the broker")
        kafka_server.kill_node(1)
        self.killed_s = self.seconds
        self.say("The broker is killed; the kit starts it again.")

    def kill_spout(self) -> None:
        """The spout dies with its ledgers; another one starts a second later at the stored offset."""
        self._running("kill the spout")
        assert self.spout is not None
        self.spout.is_killed = True

    def do(self, deed: str) -> None:
        """Do one of DEEDS. KnobError when there is no such deed."""
        if deed not in DEEDS:
            raise KnobError(f"the desk has no button {plain_text(deed, 40)!r}, expected one of {', '.join(DEEDS)}.")
        getattr(self, DEEDS[deed])()

    def drain(self, timeout_s: float = DRAIN_S) -> Drained:
        """Let everything come to rest, and compare the three counts. The application pauses; `resume` lets it go on.

        No more answers are lost meanwhile. LabError when it has not come to rest in time; it goes on then.
        """
        with self._turning:
            self._running("drain")
            assert self.source is not None and self.spout is not None and self.audit is not None
            source, spout, audit = self.source, self.spout, self.audit
            self.phase = "draining"
            self.say("The application pauses, and the desk drains.")
            source.is_paused, source.settings = True, settled({"lost_answers": 0}, self.settings)
            try:
                deadline = time.monotonic() + timeout_s
                self._wait(lambda: source.waiting == 0, deadline, "the producer has heard of every record")
                end = self.topic.end
                self._wait(lambda: spout.is_at_rest(end, STILL_S), deadline, "the spout has come to rest")
                audit.catch_up()
                self.drained = self._compare()
            except BaseException:
                self._go_on()
                raise
            self.phase = "drained"
            self.say("The three counts agree." if self.drained.agree else "The three counts differ.")
            return self.drained

    def resume(self) -> None:
        """Go on after a drain."""
        with self._turning:
            if self.phase == "drained":
                self._go_on()
                self.say("The application goes on.")

    def _go_on(self) -> None:
        assert self.source is not None
        self.source.settings, self.source.is_paused, self.phase = self.settings, False, "running"

    # What there is to see

    @property
    def seconds(self) -> float:
        """How long it has been there: since its parts began to run, or before that since it was made."""
        return time.monotonic() - self._began_s

    def say(self, sentence: str) -> None:
        """Something has happened; the same again is told once."""
        if not self.events or self.events[-1][1] != sentence:
            self.events.append((round(self.seconds, 1), sentence))

    def _say_turned(self, name: str, before: str, now: str) -> None:
        """A knob was turned; a slider that is moved step by step is told of once."""
        begin = f"{name} changes from "
        if self.events and self.events[-1][1].startswith(begin):
            before = self.events.pop()[1].removeprefix(begin).partition(" ")[0]
        self.say(f"{begin}{before} to {now}.")

    def snapshot(self) -> dict[str, Any]:
        """How it goes now, as JSON values; kept in `snapshots` too. LabError when a part has ended with an error."""
        self._check_parts()
        ledgers = self.ledgers
        with ledgers.lock:
            told: dict[str, Any] = {
                "at_s": round(self.seconds, 2), "phase": self.phase, "handed_over": ledgers.handed_over,
                "stored": ledgers.stored, "failed": ledgers.failed, "log_end": ledgers.log_end, "committed_to": ledgers.committed_to,
                "pending": ledgers.pending, "in_flight": ledgers.in_flight, "retried": ledgers.retried, "refused": ledgers.refused,
                "cleared": ledgers.cleared, "written": ledgers.results.lines,
            }  # fmt: skip
        told["lag"] = max(0, told["log_end"] - told["committed_to"])
        told["spark"] = self.audit.counted if self.audit else count(LogFold(), LogFold())
        before = self.snapshots[-1] if self.snapshots else {"at_s": 0.0, "stored": 0, "written": 0}
        seconds = max(0.05, told["at_s"] - before["at_s"])
        told["rate"] = {"stored": round((told["stored"] - before["stored"]) / seconds, 1)}
        told["rate"]["written"] = round((told["written"] - before["written"]) / seconds, 1)
        self.snapshots.append(told)
        if self.killed_s is not None and before["at_s"] > self.killed_s and told["stored"] > before["stored"]:
            self.killed_s = None
            self.say("The broker is back: records are stored again.")
        return told

    def trace(self) -> Trace:
        """The spout's last steps, for a player."""
        return self.recorder.trace(self.run, self.topic.name, self.settings)

    def __repr__(self) -> str:
        return f"<DeskRun {self.run}: {self.phase}, {self.ledgers.handed_over:,} records handed over>"

    # Inside

    def _running(self, what: str) -> None:
        if self.phase not in ("running", "drained"):
            raise LabError(f"{self.run} is {self.phase}, so nobody can {what}. Start another desk.")

    def _check_parts(self) -> None:
        """Raise what ended a part."""
        trouble: KitError | None
        for part in (self.source, self.spout):
            if part is not None and (trouble := part.trouble) is not None:
                raise trouble
        if self.audit is not None and self.phase in ("running", "draining", "drained"):
            self.audit.check()

    def _wait(self, is_done: Any, deadline: float, what: str) -> None:
        def look() -> bool:
            self._check_parts()
            if self._is_stopping:
                raise LabError(f"{self.run} was stopped before it had drained. Start another desk.")
            return bool(is_done())

        wait_until(look, max(0.1, deadline - time.monotonic()), what, step_s=0.05)

    def _compare(self) -> Drained:
        assert self.audit is not None
        handed_over = self.ledgers.handed_over
        topic, results = self._read(self.topic.name), self._read(self.results)
        log = Witness("the broker's log", tally_of(topic, handed_over), tally_of(results, len(topic)))
        ledgers, spark = self.ledgers.witness(handed_over, len(topic)), self.audit.witness(handed_over)
        return Drained(handed_over, self.ledgers.committed_to, (ledgers, log, spark))

    def _read(self, topic: str) -> NDArray[np.int64]:
        """The numbers that lie in a topic now, in its order; -1 for a line without one."""
        numbers: list[int] = []
        deadline = time.monotonic() + DEADLINE_S
        with closing(reader_of(self.backend.cluster, f"kit.{self.run}")) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            while time.monotonic() < deadline:
                for message in consumer.consume(PER_READ, 0.5):
                    error, number = message.error(), number_in(message.value())
                    if error is None:
                        numbers.append(-1 if number is None else number)
                        deadline = time.monotonic() + DEADLINE_S
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return np.array(numbers, np.int64)
                    elif not error.retriable():
                        raise KafkaException(error)
        raise LabError(f"{topic}-0: its end was not reached, and nothing came within {DEADLINE_S:g} s. Look at `kit status`.")
