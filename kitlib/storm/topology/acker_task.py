"""An acker's task: it answers at once, and tells the trace what each message did to the ledger."""

from __future__ import annotations

from functools import partial
from typing import Any

from kitlib.storm.acker import ACKER_ACK_STREAM_ID, ACKER_RESET_TIMEOUT_STREAM_ID, Acker, Completion
from kitlib.storm.later_acker import LaterAcker
from kitlib.storm.topology.task import Task


class AckerTask(Task):
    """An acker behind an inbox; it answers at once."""

    acker: Acker

    def start(self) -> None:
        """A new acker that knows no tree."""
        config = self.run.config
        self.is_alive, self.life = True, self.life + 1
        self.acker = LaterAcker(config.id_bits) if config.acker_release == "2.4.0" else Acker(config.id_bits)
        self.run.after(self.tick_ms, partial(self.tick, self.life))

    def crash(self) -> None:
        """The task dies, and with it what it knew of every tree."""
        self.is_alive = False
        self.run.tell(self.name, "crash", lost=len(self.acker.pending))

    def init(self, root: int, val: int, spout_task: int) -> None:
        """A spout's message."""
        if self.is_alive:
            before = self._val(root)
            end = self.acker.init(root, val, spout_task)
            self._told("acker_init", root, before, end, val=val, spout_task=spout_task)

    def ack(self, root: int, val: int, is_first: bool = True) -> None:
        """A bolt's message; `is_first` unless it acked the tuple before."""
        if self.is_alive:
            before = self._val(root)
            if is_first and root in self.run.open_tuples:
                self.run.open_tuples[root] -= 1
            end = self.acker.ack(root, val)
            self._told("acker_ack", root, before, end, val=val)

    def fail(self, root: int) -> None:
        """A bolt's message."""
        if self.is_alive:
            before = self._val(root)
            self._told("acker_fail", root, before, self.acker.fail(root))

    def reset_timeout(self, root: int) -> None:
        """A bolt's message."""
        if self.is_alive:
            self._told("acker_reset", root, self._val(root), self.acker.reset_timeout(root))

    def tick(self, life: int) -> None:
        """A message time-out has passed."""
        run = self.run
        if not self.is_of(life):
            return
        run.after(self.tick_ms, partial(self.tick, life))
        if run.config.topology_enable_message_timeouts:
            run.tell(self.name, "acker_tick", dropped=list(self.acker.tick()))

    def _val(self, root: int) -> int | None:
        entry = self.acker.pending.get(root)
        return entry.val if entry else None

    def _told(self, what: str, root: int, before: int | None, end: Completion | None, **data: Any) -> None:
        run = self.run
        word = {None: None, ACKER_ACK_STREAM_ID: "ack", ACKER_RESET_TIMEOUT_STREAM_ID: "reset"}.get(
            end.stream if end else None, "fail"
        )
        run.tell(self.name, what, root=root, **data, before=before, after=self._val(root), end=word)
        if word == "ack":
            run.note_end(root)
        if end is not None:
            spout = run.spouts[end.spout_task]
            run.send(spout.component.name, None, partial(spout.hear, end))
