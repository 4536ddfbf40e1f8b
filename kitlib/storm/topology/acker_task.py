"""An acker's task: it answers at once, and tells the trace what each message did to the ledger."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kitlib.storm.acker import ACKER_ACK_STREAM_ID, ACKER_RESET_TIMEOUT_STREAM_ID, Acker, Completion
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
        self._hear("acker_init", root, lambda: self.acker.init(root, val, spout_task), val=val, spout_task=spout_task)

    def ack(self, root: int, val: int, is_first: bool = True) -> None:
        """A bolt's message; `is_first` unless it acked the tuple before."""
        if self.is_alive and is_first and root in self.run.open_tuples:
            self.run.open_tuples[root] -= 1
        self._hear("acker_ack", root, lambda: self.acker.ack(root, val), val=val)

    def fail(self, root: int) -> None:
        """A bolt's message."""
        self._hear("acker_fail", root, lambda: self.acker.fail(root))

    def reset_timeout(self, root: int) -> None:
        """A bolt's message."""
        self._hear("acker_reset", root, lambda: self.acker.reset_timeout(root))

    def tick(self, life: int) -> None:
        """A message time-out has passed."""
        run = self.run
        if not self.is_of(life):
            return
        run.after(self.tick_ms, partial(self.tick, life))
        if run.config.topology_enable_message_timeouts:
            run.tell(self.name, "acker_tick", dropped=list(self.acker.tick()))

    def _hear(self, what: str, root: int, change: Callable[[], Completion | None], **data: Any) -> None:
        """Have the acker change its entry of this tree, tell the trace what that did, and the spout if the tree ends."""
        if not self.is_alive:
            self.lose(None)
            return
        run, pending = self.run, self.acker.pending
        entry = pending.get(root)  # changed in place
        before = entry.val if entry else None
        end = change()
        word = ENDS.get(end.stream, "fail") if end else None
        entry = entry or pending.get(root)
        after = entry.val if entry and word in (None, "reset") else None
        run.tell(self.name, what, root=root, **data, before=before, after=after, end=word)
        if word == "ack":
            run.note_end(root)
        if end is not None:
            spout = run.spouts[end.spout_task]
            run.send(spout, None, partial(spout.hear, end))
