"""An acker's task: it answers at once, and tells the trace what each message did to the ledger."""

from __future__ import annotations

from functools import partial
from typing import Any

from kitlib.storm.acker import ACKER_ACK_STREAM_ID, ACKER_RESET_TIMEOUT_STREAM_ID, Acker, AckerEntry, Completion
from kitlib.storm.later_acker import LaterAcker
from kitlib.storm.topology.task import Task

ENDS = {ACKER_ACK_STREAM_ID: "ack", ACKER_RESET_TIMEOUT_STREAM_ID: "reset"}  # and "fail"


class AckerTask(Task):
    """An acker behind an inbox; it answers at once.

    Source: Storm 0.9.3 and 2.4.0, as the acker's.
    Differs: 0.9.3 means its ackers to have ticks, but its executors send none to a component whose name begins
    with "__", so that what nobody ends is kept for ever (STORM-2786; mended in 1.0.6, 1.1.2 and 1.2.0). Here they come.
    """

    acker: Acker

    def start(self) -> None:
        """A new acker that knows no tree. It takes ids of any bits, as `id_bits` may change while it runs."""
        self.is_alive, self.life = True, self.life + 1
        self.acker = LaterAcker() if self.run.config.acker_release == "2.4.0" else Acker()
        self.run.after(self.tick_ms, partial(self.tick, self.life))

    def crash(self) -> None:
        """The task dies, and with it what it knew of every tree."""
        self.is_alive = False
        self.run.tell(self.name, "crash", lost=len(self.acker.pending))

    def init(self, root: int, val: int, spout_task: int) -> None:
        """A spout's message."""
        if not self.is_alive:
            self.lose(None)
            return
        entry = self.acker.pending.get(root)
        before = entry.val if entry else None
        end = self.acker.init(root, val, spout_task)
        self._told("acker_init", root, entry, end, val=val, spout_task=spout_task, before=before)

    def ack(self, root: int, val: int, is_first: bool = True) -> None:
        """A bolt's message; `is_first` unless it acked the tuple before."""
        if not self.is_alive:
            self.lose(None)
            return
        if is_first and root in self.run.open_tuples:
            self.run.open_tuples[root] -= 1
        entry = self.acker.pending.get(root)
        before = entry.val if entry else None
        end = self.acker.ack(root, val)
        self._told("acker_ack", root, entry, end, val=val, before=before)

    def fail(self, root: int) -> None:
        """A bolt's message."""
        if not self.is_alive:
            self.lose(None)
            return
        entry = self.acker.pending.get(root)
        before = entry.val if entry else None
        self._told("acker_fail", root, entry, self.acker.fail(root), before=before)

    def reset_timeout(self, root: int) -> None:
        """A bolt's message."""
        if not self.is_alive:
            self.lose(None)
            return
        entry = self.acker.pending.get(root)
        before = entry.val if entry else None
        self._told("acker_reset", root, entry, self.acker.reset_timeout(root), before=before)

    def tick(self, life: int) -> None:
        """A message time-out has passed."""
        run = self.run
        if not self.is_of(life):
            return
        run.after(self.tick_ms, partial(self.tick, life))
        if run.config.topology_enable_message_timeouts:
            run.tell(self.name, "acker_tick", dropped=list(self.acker.tick()))

    def _told(self, what: str, root: int, entry: AckerEntry | None, end: Completion | None, **data: Any) -> None:
        """Tell the trace what a message did; `entry` is the one that it found, changed by now."""
        run = self.run
        word = ENDS.get(end.stream, "fail") if end else None
        if word is None or word == "reset":
            entry = entry or self.acker.pending.get(root)
            run.tell(self.name, what, root=root, **data, after=entry.val if entry else None, end=word)
        else:
            run.tell(self.name, what, root=root, **data, after=None, end=word)
        if word == "ack":
            run.note_end(root)
        if end is not None:
            spout = run.spouts[end.spout_task]
            run.send(spout, None, partial(spout.hear, end))
