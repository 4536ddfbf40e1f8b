"""A spout's task, and the pending map that makes the time-out.

The map holds root id and message id in two buckets, which a tick of the task's own rotates. What falls
out is failed, whatever the acker knows; an answer for a root that is no longer there is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from operator import xor
from typing import TYPE_CHECKING, Any

from kitlib.storm.acker import ACKER_ACK_STREAM_ID, ACKER_COMPONENT_ID, ACKER_RESET_TIMEOUT_STREAM_ID, Completion
from kitlib.storm.rotating_map import RotatingMap
from kitlib.storm.topology.builder import Component
from kitlib.storm.topology.components import DEFAULT_STREAM, Spout, TopologyContext, Tuple, short
from kitlib.storm.topology.task import ComponentTask

if TYPE_CHECKING:
    from kitlib.storm.topology.run import TopologyRun

SPOUT_MS = 1  # between two calls of next_tuple while it emits
IDLE_MS = 10  # after a call that emitted nothing; twice as long after each further one
MAX_IDLE_MS = 320  # but no longer than this, and not when a tree ends


class SpoutTask(ComponentTask):
    """Asks its spout for tuples while there is room, and tells it how each tree ended."""

    def __init__(self, run: TopologyRun, component: Component, context: TopologyContext) -> None:
        super().__init__(run, component, context)
        self.spout: Spout
        self.pending: RotatingMap[int, Any] = RotatingMap(2)  # root -> message id
        self.emitted = 0  # calls of emit in this run
        self.is_throttled = False  # waits for room in `pending`
        self.idle_ms = 0  # how long it waits now because there was nothing to emit
        self.turn = 0  # the number of the next poll: planning one makes those planned before void

    def start(self) -> None:
        """A new spout on an empty pending map."""
        run = self.run
        self.is_alive, self.life = True, self.life + 1
        self.is_throttled, self.idle_ms = False, 0
        self.pending = RotatingMap(2)
        self.choosers = run.choosers(self.component)
        self.spout = self.component.make()
        self.guarded("open", self.spout.open, self.component.conf, self.context, self)
        self._next_poll(SPOUT_MS)
        run.after(self.tick_ms, partial(self.tick, self.life))

    def crash(self) -> None:
        """The process dies: the pending map is gone, and whoever served the spout sees its connection break."""
        lost = len(self.pending)
        self.is_alive, self.pending = False, RotatingMap(2)
        self.run.tell(self.name, "crash", lost=lost)
        self.spout.crashed()

    def poll(self, life: int, turn: int) -> None:
        """Ask the spout for the next tuple, if there is room; between two calls, never within one."""
        if not self.is_of(life) or turn != self.turn:
            return
        bound = self.run.config.topology_max_spout_pending
        if bound is not None and len(self.pending) >= bound:
            self.is_throttled = True
            return
        before = self.emitted
        if self.guarded("next_tuple", self.spout.next_tuple):
            self.idle_ms = 0 if self.emitted > before else min(max(IDLE_MS, 2 * self.idle_ms), MAX_IDLE_MS)
            self._next_poll(self.idle_ms or SPOUT_MS)

    def tick(self, life: int) -> None:
        """A message time-out has passed: rotate, and fail what falls out."""
        run = self.run
        if not self.is_of(life):
            return
        run.after(self.tick_ms, partial(self.tick, life))
        if not run.config.topology_enable_message_timeouts:
            return
        expired = self.pending.rotate()
        run.tell(self.name, "spout_tick", expired=len(expired))
        for root, message_id in expired.items():
            if self.is_alive:
                self._end("fail", root, message_id, why="timeout")
        self._wake()

    def hear(self, completion: Completion) -> None:
        """An acker's answer: the end of a tree, or its renewal."""
        if not self.is_alive:
            return
        root = completion.root
        if completion.stream == ACKER_RESET_TIMEOUT_STREAM_ID:
            if root in self.pending:
                self.pending.put(root, self.pending.get(root))
            return
        word = "ack" if completion.stream == ACKER_ACK_STREAM_ID else "fail"
        if root not in self.pending:
            self.run.tell(self.name, "late", root=root, answer=word)
            return
        self._end(word, root, self.pending.remove(root), why="failed")
        self._wake()

    def emit(self, values: Sequence[Any], message_id: Any = None, stream: str = DEFAULT_STREAM) -> list[int]:
        """As SpoutOutputCollector.emit.

        A tuple that nobody subscribes to has no edges: 0.9.3 sends an init of 0, which the acker acks at once;
        later releases ack it here.
        """
        run = self.run
        fields = self.component.streams.check(stream, values)
        self.emitted += 1
        is_tracked = message_id is not None and run.has_ackers
        root = run.new_root() if is_tracked else None
        sent: list[tuple[int, Tuple]] = []
        for choose in self.choosers[stream]:
            for task_id in choose(values):
                ids = {root: run.new_id()} if root is not None else {}
                made = Tuple(run.next_number(), values, fields, self.component.name, self.task_id, stream, ids)
                sent.append((task_id, made))
        val = reduce(xor, (made.ids[root] for _, made in sent), 0) if root is not None else 0
        tuples = [[made.number, run.name_of(task_id), made.ids.get(root)] for task_id, made in sent]  # type: ignore[arg-type]
        told = {"root": root, "val": val, "tuples": tuples, "values": short(values)}
        run.tell(self.name, "emit", message_id=message_id, **told)
        for task_id, made in sent:
            run.bolts[task_id].send(made)
        if root is not None and (sent or run.config.acker_release == "0.9.3"):
            self._track(root, val, message_id, len(sent))
        elif message_id is not None:
            self.spout.ack(message_id)
            run.tell(self.name, "ack", message_id=message_id, root=None, outstanding=0)
        return [task_id for task_id, _ in sent]

    def _track(self, root: int, val: int, message_id: Any, tuples: int) -> None:
        run = self.run
        self.pending.put(root, message_id)
        run.open_tuples[root] = tuples
        acker = run.acker_for(root)
        run.send(ACKER_COMPONENT_ID, None, partial(acker.init, root, val, self.task_id))

    def _end(self, word: str, root: int, message_id: Any, why: str) -> None:
        """Tell the spout how a tree ended, and then the trace, which holds what is so after the call."""
        run, spout = self.run, self.spout
        outstanding = run.forget(root)
        if word == "ack":
            if self.guarded("ack", spout.ack, message_id):
                run.tell(self.name, "ack", message_id=message_id, root=root, outstanding=outstanding)
        elif self.guarded("fail", spout.fail, message_id):
            run.tell(self.name, "fail", message_id=message_id, root=root, retry=spout.is_retried(message_id), why=why)

    def _wake(self) -> None:
        """A tree has ended: there is room again, and perhaps something to hand out once more."""
        if self.is_alive and (self.is_throttled or self.idle_ms):
            self.is_throttled, self.idle_ms = False, 0
            self._next_poll(SPOUT_MS)

    def _next_poll(self, ms: int) -> None:
        self.turn += 1
        self.run.after(ms, partial(self.poll, self.life, self.turn))
