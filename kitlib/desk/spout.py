"""The desk's spout and bolt: a real PartitionManager over a real topic, and a bolt that writes each result to another one.

Both live in one thread, as a Storm worker's would in one process. The spout asks its PartitionManager for the next record while fewer
than `max_spout_pending` tuples are in flight. The bolt works through them one after another, `bolt_rate` a second, and writes for each
a record with its offset to the results; the spout hears of it once the broker has acknowledged that. While the database is away every
tuple that the bolt works through fails.

The key of a result is the offset that the spout had committed by then. So the results alone tell what was given up: whatever lies
below such a key, and has no result before it.

Left out: the tuple trees between spout and bolt, and their timeout.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kitlib.desk.fold import number_in
from kitlib.desk.ledgers import Ledgers
from kitlib.desk.recorder import Recorder
from kitlib.errors import KitError, LabError
from kitlib.experiments.kafka_backend import DEADLINE_S, KafkaBackend, KafkaTopic
from kitlib.experiments.storm.spout_run import FROM_THE_EARLIEST
from kitlib.lab.clients import SILENT, client_config
from kitlib.mechanisms.offset_store import read_stored_offset
from kitlib.mechanisms.partition_manager import PartitionManager, SpoutConfig
from kitlib.mechanisms.spout_errors import FailedFetchError, TooManyTupleFailuresError
from kitlib.more.spout.kafka_spout import why_begun
from kitlib.settings import Settings
from kitlib.trace import to_ranges

COMMIT_EVERY_S = 0.5
TURN_S = 0.02  # the longest sleep
IDLE_S = 0.02  # from a fetch that brought nothing to the next one
ERROR_S = 0.2  # after a failed fetch
RESTART_S = 1.0  # from a spout's death to the start of the next one
END_S = 10.0


@dataclass(slots=True)
class _Life:
    """What dies with a spout."""

    manager: PartitionManager
    config: SpoutConfig
    tuples: deque[tuple[float, int]] = field(default_factory=deque)  # at the bolt: (when it has worked through it, offset)
    unacked: int = 0  # results of which the broker has not answered
    idle_until: float = 0.0
    commit_at: float = 0.0

    @property
    def in_flight(self) -> int:
        return len(self.tuples) + self.unacked


class Spout:
    """Spout and bolt, in a thread of their own."""

    def __init__(
        self, backend: KafkaBackend, topic: KafkaTopic, results: str, ledgers: Ledgers, recorder: Recorder,
        settings: Settings, say: Callable[[str], None],
    ) -> None:  # fmt: skip
        """`say` is told in a sentence when a spout starts and ends."""
        self.backend, self.topic, self.results, self.ledgers, self.recorder, self.say = backend, topic, results, ledgers, recorder, say
        self.settings = settings  # replaced as a whole, by whoever turns a knob
        self.sink = Producer(
            client_config(
                backend.cluster,
                # With one request in flight the broker knows the last batch again also after it was killed.
                **{"enable.idempotence": True, "max.in.flight": 1, "linger.ms": 5, "delivery.timeout.ms": int(DEADLINE_S * 1000)},
            ),
            logger=SILENT,
        )
        self.life: _Life | None = None
        self.start_at = 0.0
        self.away_until = 0.0
        self.is_killed = False  # asked for, not yet done
        self.is_ending = False
        self.moved_at = time.monotonic()  # when anything but an idle fetch has happened last
        self.trouble: KitError | None = None
        self.thread = threading.Thread(target=self._run, name=f"kit-desk-spout-{topic.name}", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self.thread.start()

    def stop(self) -> None:
        """End without a last commit, as Storm's spout does."""
        self.is_ending = True
        if self.thread.is_alive():
            self.thread.join(END_S)
        self.sink.purge()
        self.sink.flush(1.0)

    def is_at_rest(self, log_end: int, still_s: float) -> bool:
        """Whether all that there is was fetched, nothing is in flight or to be retried, and nothing has moved for a while."""
        life = self.life
        if life is None or self.is_killed or time.monotonic() - self.moved_at < still_s:
            return False
        manager = life.manager
        return not (life.in_flight or manager.waiting_to_emit or manager.failed) and manager.emitted_to_offset >= log_end

    # In the thread

    def _run(self) -> None:
        try:
            while not self.is_ending:
                if self.is_killed and self.life is not None:
                    self._die("The spout is killed")
                if self.life is None:
                    self._maybe_begin()
                else:
                    self._work(self.life)
                self.sink.poll(self._pause())
        except KitError as error:
            self.trouble = error
        except KafkaException as error:
            self.trouble = LabError(f"the desk's bolt cannot write its results: {error.args[0].str()}. Stop the desk, start another one.")

    def _pause(self) -> float:
        """How long nothing is due."""
        life, now = self.life, time.monotonic()
        if life is None:
            return TURN_S
        due = life.tuples[0][0] if life.tuples else now + TURN_S
        if life.in_flight < self.settings.max_spout_pending:
            due = min(due, life.idle_until)
        return max(0.0, min(due - now, TURN_S))

    def _maybe_begin(self) -> None:
        now = time.monotonic()
        if now < self.start_at:
            return
        config = SpoutConfig(
            topic=self.topic.name, id="spout", zk_root=f"/{self.backend.run}", max_offset_behind=self.settings.max_offset_behind,
            **FROM_THE_EARLIEST,
        )
        store = self.backend.store
        stored = read_stored_offset(store, config.committed_path())
        try:
            manager = PartitionManager(config, self.topic, store)
        except LabError as error:
            self.say(f"The spout cannot start: {error}")
            self.start_at = now + RESTART_S
            return
        self.is_killed = False
        self.life = _Life(manager, config, commit_at=now + COMMIT_EVERY_S)
        begun = manager.committed_to
        why = why_begun(config, store, stored, begun)
        self._note("start", offset=begun, stored=stored.offset if stored else None, why=why)
        self.say(f"The spout starts at offset {begun:,}: {why}.")

    def _die(self, how: str) -> None:
        """The spout's ledgers and tuples are gone; results that are under way arrive, and the next spout knows nothing of them."""
        assert self.life is not None
        lost = self.life.in_flight
        self.life, self.is_killed, self.start_at = None, False, time.monotonic() + RESTART_S
        self._note("crash", on_their_way=lost)
        self.say(f"{how}; {lost:,} tuples in flight are lost with it. Another one starts at the stored offset.")

    def _work(self, life: _Life) -> None:
        """The one turn of the loop: settings, the bolt, a commit if it is time, and the next records."""
        now = time.monotonic()
        life.config.max_offset_behind = self.settings.max_offset_behind
        self.topic.max_fetch_records = self.settings.fetch_records
        while self.life is life and life.tuples and life.tuples[0][0] <= now:
            self._finish(life, life.tuples.popleft()[1], now)
        if self.life is life and now >= life.commit_at:
            self._commit(life, now)
        while self.life is life and life.in_flight < self.settings.max_spout_pending and now >= life.idle_until:
            if not self._emit_next(life, now):
                break
        if self.life is life:
            with self.ledgers.lock:
                self.ledgers.pending, self.ledgers.in_flight = len(life.manager.pending), life.in_flight

    def _emit_next(self, life: _Life, now: float) -> bool:
        manager = life.manager
        had_waiting, before = bool(manager.waiting_to_emit), manager.emitted_to_offset
        try:
            emission = manager.next()
        except (FailedFetchError, LabError) as error:
            self.say(f"The spout's fetch fails: {error}")
            life.idle_until = time.monotonic() + ERROR_S
            return False
        if not had_waiting and emission.record is not None:
            self.recorder.fetched([emission.record.offset, *(record.offset for record in manager.waiting_to_emit)])
        record = emission.record
        if record is None:
            life.idle_until = time.monotonic() + IDLE_S
            if manager.emitted_to_offset != before:
                self._note("reset", **{"from": before, "to": manager.emitted_to_offset})
            return False
        if record.offset >= self.ledgers.topic.next_offset:
            self.ledgers.given(record.offset, number_in(record.value))
        else:
            self.ledgers.retried += 1
        begin = max(now, life.tuples[-1][0] if life.tuples else now)
        life.tuples.append((begin + 1 / self.settings.bolt_rate, record.offset))
        self._note("emit", offset=record.offset)
        return True

    def _finish(self, life: _Life, offset: int, now: float) -> None:
        """The bolt has worked through a tuple."""
        if now < self.away_until:
            self._fail(life, offset)
            return

        def written(error: KafkaError | None, message: Message) -> None:
            life.unacked -= 1
            if error is None:
                self.ledgers.written(int(message.offset() or 0), offset)
                self._note("process", offset=offset)
            if self.life is life:
                self._fail(life, offset) if error is not None else self._ack(life, offset)

        life.unacked += 1
        self.sink.produce(self.results, b"%d" % offset, b"%d" % life.manager.committed_to, 0, on_delivery=written)

    def _ack(self, life: _Life, offset: int) -> None:
        cleared = life.manager.ack(offset)
        self._note("ack", offset=offset)
        if cleared:
            self.ledgers.cleared += len(cleared)
            self._note("clear", ranges=to_ranges(cleared), by=offset)

    def _fail(self, life: _Life, offset: int) -> None:
        try:
            is_retried = life.manager.fail(offset)
        except TooManyTupleFailuresError:
            self._note("fail", offset=offset, retry=False)
            self._note("error", error="TOO_MANY_TUPLE_FAILURES")
            self._die("The spout dies of too many tuple failures")
            return
        self.ledgers.refused += not is_retried
        self._note("fail", offset=offset, retry=is_retried)

    def _commit(self, life: _Life, now: float) -> None:
        life.commit_at = now + COMMIT_EVERY_S
        try:
            is_written = life.manager.commit() is not None
        except LabError as error:
            self.say(f"The spout's commit fails: {error}")
            return
        self.ledgers.committed_to = life.manager.committed_to
        if is_written:
            self._note("commit", offset=life.manager.committed_to, written=True)

    def _note(self, what: str, /, **data: Any) -> None:
        self.moved_at = time.monotonic()
        self.recorder.note(None if self.life is None else self.life.manager, what, **data)
