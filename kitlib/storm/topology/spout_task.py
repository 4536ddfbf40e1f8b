"""A spout's task, and the pending map that makes the time-out.

The map holds root id and message id in two buckets, which a tick of the task's own rotates. What falls
out is failed, whatever the acker knows; an answer for a root that is no longer there is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kitlib.storm.acker import ACKER_ACK_STREAM_ID, ACKER_RESET_TIMEOUT_STREAM_ID, Completion
from kitlib.storm.rotating_map import RotatingMap
from kitlib.storm.topology.builder import Component, make_one
from kitlib.storm.topology.components import DEFAULT_STREAM, Spout, TopologyContext, Tuple, short
from kitlib.storm.topology.task import Collector, ComponentTask

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
        self.collector: SpoutCollector
        self.pending: RotatingMap[int, Any] = RotatingMap(2)  # root -> message id
        self.emitted = 0  # calls of emit in this run
        self.is_throttled = False  # waits for room in `pending`
        self.idle_ms = 0  # how long it waits now because there was nothing to emit
        self.will_retry = True  # what the spout said of the last failed message
        self.turn = 0  # the number of the next poll: planning one makes those planned before void

    def start(self) -> None:
        """A new spout; the pending map is empty, as a crash has left it."""
        run = self.run
        self.is_alive, self.life = True, self.life + 1
        self.is_throttled, self.idle_ms = False, 0
        self.collector = SpoutCollector(self)
        self.spout = run.claim(self, make_one(self.component.name, self.component.make, Spout))
        self.spout.context, self.spout.collector = self.context, self.collector
        if self.guarded("open", self.spout.open, self.component.conf, self.context, self.collector):
            self._next_poll(SPOUT_MS)
            run.after(self.tick_ms, partial(self.tick, self.life))

    def crash(self) -> None:
        """The process dies: the pending map is gone, and whoever served the spout sees its connection break."""
        lost, self.pending = self.pending, RotatingMap(2)
        self.is_alive = self.collector.is_open = False
        for root in lost:
            self.run.forget(root)
        self.run.tell(self.name, "crash", lost=len(lost))
        self.guarded("crashed", self.spout.crashed)

    def close(self) -> None:
        """The topology ends."""
        self.spout.close()

    def poll(self, turn: int) -> None:
        """Ask the spout for the next tuple, if there is room; between two calls, never within one."""
        if turn != self.turn or not self.is_alive:
            return
        if not self.has_room:
            self.is_throttled = True
            return
        before = self.emitted
        if self._call("next_tuple", self.spout.next_tuple):
            self.idle_ms = 0 if self.emitted > before else min(max(IDLE_MS, 2 * self.idle_ms), MAX_IDLE_MS)
            self._next_poll(self.idle_ms or SPOUT_MS)

    @property
    def has_room(self) -> bool:
        """Whether fewer trees are pending than the bound, if there is one."""
        bound = self.run.config.topology_max_spout_pending
        return bound is None or len(self.pending) < bound

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
            else:  # it died of an earlier one
                run.forget(root)
        self.wake()

    def hear(self, completion: Completion) -> None:
        """An acker's answer: the end of a tree, or its renewal."""
        root, stream = completion.root, completion.stream
        if not self.is_alive:
            self.lose(None)
        elif stream == ACKER_RESET_TIMEOUT_STREAM_ID:
            if root in self.pending:
                self.pending.put(root, self.pending.get(root))
        else:
            word = "ack" if stream == ACKER_ACK_STREAM_ID else "fail"
            if root not in self.pending:
                self.run.tell(self.name, "late", root=root, answer=word)
                return
            self._end(word, root, self.pending.remove(root), why="failed")
            self.wake()

    def wake(self) -> None:
        """A tree has ended: there is room again, and perhaps something to hand out once more."""
        if self.is_alive and (self.is_throttled or self.idle_ms):
            self.is_throttled, self.idle_ms = False, 0
            self._next_poll(SPOUT_MS)

    def track(self, root: int, val: int, message_id: Any, tuples: int) -> None:
        """A tree begins: into the pending map, then to its acker. A root that is pending already is overwritten."""
        run = self.run
        self.pending.put(root, message_id)
        run.open_tuples[root] = run.open_tuples.get(root, 0) + tuples
        acker = run.acker_for(root)
        run.send(acker, None, partial(acker.init, root, val, self.task_id))

    def ack_at_once(self, message_id: Any) -> None:
        """No acker follows trees: a tuple counts as processed when it has left."""
        self.spout.ack(message_id)
        self.run.tell(self.name, "ack", message_id=message_id, root=None, outstanding=0)

    def _end(self, word: str, root: int, message_id: Any, why: str) -> None:
        """Tell the spout how a tree ended, and then the trace, which holds what is so after the call."""
        run = self.run
        outstanding = run.forget(root)
        if word == "ack":
            if self._call("ack", self.spout.ack, message_id):
                run.tell(self.name, "ack", message_id=message_id, root=root, outstanding=outstanding)
        elif self._call("fail", self._fail, message_id):
            run.tell(self.name, "fail", message_id=message_id, root=root, retry=self.will_retry, why=why)

    def _fail(self, message_id: Any) -> None:
        self.spout.fail(message_id)
        self.will_retry = bool(self.spout.is_retried(message_id))

    def _call(self, doing: str, method: Any, *args: Any) -> bool:
        self.collector.sent_in_call = 0
        return self.guarded(doing, method, *args)

    def _next_poll(self, ms: int) -> None:
        self.turn += 1
        self.run.after(ms, partial(self.poll, self.turn))


class SpoutCollector(Collector):
    """Hands out tuples: `kitlib.storm.topology.components.SpoutOutputCollector` for one life of a task.

    Source: Storm 0.9.3, `backtype.storm.daemon.executor` (`mk-threads` :spout).
    Differs: nothing. A tuple that nobody subscribes to is an init of 0, which the acker acks at once.
    """

    __slots__ = ("task",)

    def __init__(self, task: SpoutTask) -> None:
        super().__init__(task)
        self.task = task

    def emit(self, values: Sequence[Any], message_id: Any = None, stream: str = DEFAULT_STREAM) -> list[int]:
        """As SpoutOutputCollector.emit."""
        self.check_open("sends a tuple")
        run, task = self.run, self.task
        fields = self.streams.check(stream, values)
        task.emitted += 1
        root = run.new_root() if message_id is not None and run.ackers else None
        task_ids = [task_id for choose in self.choosers[stream] for task_id in choose(values)]
        self.count(task_ids)
        told_values, values = short(values), list(values)
        val, made, told = 0, [], []
        for task_id in task_ids:
            edge = None if root is None else run.new_id()
            ids = {} if root is None or edge is None else {root: edge}
            made.append(Tuple(run.next_number(), values, fields, task.component_name, task.task_id, stream, ids))
            told.append([made[-1].number, run.bolts[task_id].name, edge])
            val ^= edge or 0
        run.tell(self.name, "emit", message_id=message_id, root=root, val=val, tuples=told, values=told_values)
        for task_id, one in zip(task_ids, made, strict=True):
            to = run.bolts[task_id]
            run.send(to, one.number, partial(to.arrive, one))
        if root is not None:
            task.track(root, val, message_id, len(made))
        elif message_id is not None:
            task.ack_at_once(message_id)
        return task_ids
