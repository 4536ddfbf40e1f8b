"""The tasks of a running topology: ackers, spouts and bolts, each with a life that a crash ends.

A spout's task keeps a pending map, which implements the timeout. It holds root id and message id in two buckets,
which the task's own tick rotates. What falls out is failed, whatever the acker knows; an answer for a root
that is no longer there is ignored. A bolt's task takes one tuple after another and carries out what the bolt says about
each. An acker's task answers at once, and records in the trace what each message did to the ledger.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar

from kitlib.mechanisms.acker import ACKER_ACK_STREAM_ID, ACKER_RESET_TIMEOUT_STREAM_ID, Acker, Completion
from kitlib.mechanisms.rotating_map import RotatingMap
from kitlib.more.topology.builder import Component, TopologyConfig, make_one
from kitlib.more.topology.components import DEFAULT_STREAM, Bolt, Spout, TopologyContext, TopologyError, Tuple, short
from kitlib.more.topology.faults import Fault, FaultPlan
from kitlib.more.topology.groupings import Chooser
from kitlib.more.topology.later_acker import LaterAcker

Made = TypeVar("Made")  # a spout or a bolt

MAX_TUPLES_A_CALL = 100_000  # sent within one call of a component: more is a loop without an end
ENDS = {ACKER_ACK_STREAM_ID: "ack", ACKER_RESET_TIMEOUT_STREAM_ID: "reset"}  # and "fail"
SPOUT_MS = 1  # between two calls of next_tuple while it emits
IDLE_MS = 10  # after a call that emitted nothing; twice as long after each further one
MAX_IDLE_MS = 320  # but no longer than this, and not when a tree ends


class Runtime(Protocol):
    """What a task uses of the run that it belongs to: the clock, messages, ids, and the other tasks."""

    config: TopologyConfig
    plan: FaultPlan
    now_ms: int
    open_tuples: dict[int, int]  # root -> tuples of its tree whose ack no acker has had
    raised_by_observer: BaseException | None
    ackers: dict[int, AckerTask]
    spouts: dict[int, SpoutTask]
    bolts: dict[int, BoltTask]

    def tell(self, actor: str, what: str, **data: Any) -> None: ...
    def done_to(self, thing: str, number: int, /) -> tuple[str, int] | None: ...
    def after(self, ms: int, do: Callable[[], None]) -> None: ...
    def send(self, to: Task, number: int | None, deliver: Callable[[], None]) -> None: ...
    def crash(self, component: str, task_index: int = 0) -> None: ...
    def check_survivable(self, task: str, doing: str, error: BaseException) -> None: ...
    def new_id(self) -> int: ...
    def new_root(self) -> int: ...
    def next_number(self) -> int: ...
    def note_end(self, root: int) -> None: ...
    def forget(self, root: int) -> int: ...
    def acker_for(self, root: int) -> AckerTask: ...
    def claim(self, task: ComponentTask, made: Made) -> Made: ...
    def choosers(self, component: Component) -> dict[str, list[Chooser]]: ...


class Task:
    """One task. What is due for a former life of it is void, so `life` counts its starts."""

    def __init__(self, run: Runtime, component_name: str, name: str, task_id: int) -> None:
        self.run, self.component_name, self.name, self.task_id = run, component_name, name, task_id
        self.is_alive, self.life = False, 0

    def start(self) -> None:
        """Begin with nothing."""
        raise NotImplementedError

    def crash(self) -> None:
        """Die with everything it holds."""
        raise NotImplementedError

    def restart(self) -> None:
        """The supervisor starts it again."""
        self.run.tell(self.name, "restart")
        self.start()

    def lose(self, number: int | None) -> None:
        """A message to this task vanishes; `number` is its tuple's, None for messages of the ackers."""
        self.run.tell(self.name, "fault", kind="lose", tuple=number)

    def is_of(self, life: int) -> bool:
        """Whether it lives, and still the life in which something was planned."""
        return self.is_alive and life == self.life

    @property
    def tick_ms(self) -> int:
        """The time between two ticks, by the settings now."""
        return self.run.config.topology_message_timeout_secs * 1_000


class ComponentTask(Task):
    """A task that runs a learner's code, which may raise."""

    collector: Collector

    def __init__(self, run: Runtime, component: Component, context: TopologyContext) -> None:
        super().__init__(run, component.name, context.task, context.task_id)
        self.component, self.context = component, context

    def guarded(self, doing: str, call: Callable[..., object], *args: Any) -> bool:
        """Call the component; False when it raised and the task has died of it.

        With errors="raise" TopologyError instead, or the KitError that it raised. What an observer raises is
        nobody's mistake, and passes.
        """
        try:
            call(*args)
        except (Exception, SystemExit) as error:
            if error is self.run.raised_by_observer:
                raise
            self.run.check_survivable(self.name, doing, error)
            self.run.tell(self.name, "fault", kind="raise", error=f"{type(error).__name__}: {error}"[:200])
            self.run.crash(self.component.name, self.context.task_index)
            return False
        return True

    def close(self) -> None:
        """The topology ends: have the component put away what it holds."""
        raise NotImplementedError


class Collector:
    """Through which one life of a task speaks; a crash or the end of the run closes it.

    Each life has its own, so that an object left over from a former life cannot speak for the new one.
    """

    __slots__ = ("choosers", "is_open", "name", "run", "sent_in_call", "streams")

    def __init__(self, task: ComponentTask) -> None:
        self.run, self.name, self.streams = task.run, task.name, task.component.streams
        self.choosers: dict[str, list[Chooser]] = task.run.choosers(task.component)
        self.is_open = True
        self.sent_in_call = 0  # tuples since the component was last called

    def check_open(self, does: str) -> None:
        """Raise TopologyError when the life is over."""
        if not self.is_open:
            raise TopologyError(
                f"{self.name} {does} at {self.run.now_ms} ms through an old collector: its task has "
                "died or the run is closed. Use the collector that open or prepare was called with last."
            )

    def count(self, sent: Sequence[int]) -> None:
        """Raise TopologyError when one call of the component has sent more than MAX_TUPLES_A_CALL tuples."""
        self.sent_in_call += len(sent) or 1
        if self.sent_in_call > MAX_TUPLES_A_CALL:
            raise TopologyError(
                f"{self.name} sent more than {MAX_TUPLES_A_CALL:,} tuples in one call. Storm calls again and again, "
                "so next_tuple and execute need no endless loop: send a few and return."
            )


class AckerTask(Task):
    """An acker behind an inbox; it answers at once.

    Source: Storm 0.9.3 and 2.4.0, as the acker's.
    Differs: 0.9.3 means its ackers to have ticks, but its executors send none to a component whose name begins
    with "__", so that what nobody ends is kept forever (STORM-2786; fixed in 1.0.6, 1.1.2 and 1.2.0). Here they come.
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
        """A message timeout has passed."""
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


class SpoutTask(ComponentTask):
    """Asks its spout for tuples while there is room, and tells it how each tree ended."""

    def __init__(self, run: Runtime, component: Component, context: TopologyContext) -> None:
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
        """A message timeout has passed: rotate, and fail what falls out."""
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
        """A tree has ended: there is room again, and perhaps something to emit once more."""
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
    """Hands out tuples: `kitlib.more.topology.components.SpoutOutputCollector` for one life of a task.

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


class BoltTask(ComponentTask):
    """Works on one tuple after the other."""

    def __init__(self, run: Runtime, component: Component, context: TopologyContext) -> None:
        super().__init__(run, component, context)
        self.bolt: Bolt
        self.collector: BoltCollector
        self.inbox: deque[Tuple] = deque()  # arrived, in order; the one being processed has left it
        self.is_busy = False

    def start(self) -> None:
        """A new bolt; the inbox is empty, as a crash has left it."""
        self.is_alive, self.life = True, self.life + 1
        self.collector = BoltCollector(self)
        self.bolt = self.run.claim(self, make_one(self.component.name, self.component.make, Bolt))
        self.bolt.context, self.bolt.collector = self.context, self.collector
        self.guarded("prepare", self.bolt.prepare, self.component.conf, self.context, self.collector)

    def crash(self) -> None:
        """The task dies with what waits in its inbox and the tuple that it works on."""
        lost = len(self.inbox) + self.is_busy
        self.is_alive = self.is_busy = self.collector.is_open = False
        self.inbox = deque()
        self.run.tell(self.name, "crash", lost=lost)

    def close(self) -> None:
        """The topology ends."""
        self.bolt.cleanup()

    def arrive(self, made: Tuple) -> None:
        """A tuple is here; nobody is there to take it while the task is dead."""
        if not self.is_alive:
            self.lose(made.number)
            return
        self.inbox.append(made)
        if not self.is_busy:
            self._begin()

    def _begin(self) -> None:
        made = self.inbox.popleft()
        made.holder = self.collector
        self.is_busy = True
        if type(ms := self.bolt.execute_ms) is not int or ms < 0:
            raise TopologyError(f"{self.name}: execute_ms is {ms!r:.40}, expected a whole number of ms from 0 on.")
        fault = self.run.plan.at_work(self.component_name)
        if (done := self.run.done_to("tuple", made.number)) and done[0] == "fail":
            fault = Fault("fail", self.component_name)
        if fault is not None and fault.kind == "hang":
            self.run.tell(self.name, "fault", kind="hang", tuple=made.number, ms=fault.ms)
            if fault.ms is None:
                return
            ms += fault.ms
        self.run.after(ms, partial(self._finish, made, fault, self.life))

    def _finish(self, made: Tuple, fault: Fault | None, life: int) -> None:
        if not self.is_of(life):
            return
        if fault is None:
            self.run.tell(self.name, "execute", tuple=made.number, values=short(made.values))
            self._execute(made)
        else:
            self._finish_with(fault.kind, made)
        if self.is_of(life):
            self.is_busy = False
            if self.inbox:
                self._begin()

    def _finish_with(self, kind: str, made: Tuple) -> None:
        run, collector = self.run, self.collector
        if kind in ("fail", "drop", "raise", "unanchored"):
            run.tell(self.name, "fault", kind=kind, tuple=made.number)
        if kind == "fail":
            collector.fail(made)
        elif kind == "raise":
            run.crash(self.component.name, self.context.task_index)
        elif kind != "drop":
            run.tell(self.name, "execute", tuple=made.number, values=short(made.values))
            collector.forgets_to_anchor = kind == "unanchored"
            is_alive = self._execute(made)
            collector.forgets_to_anchor = False
            if kind == "ack_twice" and is_alive:
                run.tell(self.name, "fault", kind=kind, tuple=made.number)
                collector.ack(made)

    def _execute(self, made: Tuple) -> bool:
        self.collector.sent_in_call = 0
        return self.guarded("execute", self.bolt.execute, made)


class BoltCollector(Collector):
    """Anchors, acks and fails: `kitlib.more.topology.components.OutputCollector` for one life of a task.

    Source: Storm 0.9.3, `backtype.storm.daemon.executor` (`mk-threads` :bolt).
    Differs: nothing.
    """

    __slots__ = ("component", "forgets_to_anchor", "task_id")

    def __init__(self, task: BoltTask) -> None:
        super().__init__(task)
        self.component, self.task_id = task.component_name, task.task_id
        self.forgets_to_anchor = False  # a fault

    def emit(
        self, values: Sequence[Any], anchors: Tuple | Sequence[Tuple] = (), stream: str = DEFAULT_STREAM
    ) -> list[int]:
        """As OutputCollector.emit: one tuple for each task that gets it, and each of them has ids of its own."""
        self.check_open("sends a tuple")
        run = self.run
        fields = self.streams.check(stream, values)
        to_anchor = self._anchors(anchors)
        parents = [anchor.number for anchor in to_anchor]
        task_ids = [task_id for choose in self.choosers[stream] for task_id in choose(values)]
        self.count(task_ids)
        told, values = short(values), list(values)
        for task_id in task_ids:
            ids = self._ids(to_anchor)
            made = Tuple(run.next_number(), values, fields, self.component, self.task_id, stream, ids)
            to = run.bolts[task_id]
            ids_told = [[root, at] for root, at in ids.items()]
            run.tell(self.name, "send", tuple=made.number, parents=parents, ids=ids_told, to=to.name, values=told)
            run.send(to, made.number, partial(to.arrive, made))
        return task_ids

    def ack(self, given: Tuple) -> None:
        """As OutputCollector.ack: to each tree's acker, the tuple's id XOR what was anchored to it."""
        self._check_given(given, "acks")
        run, is_first, given.is_acked = self.run, not given.is_acked, True
        vals = [[root, at ^ given.ack_val] for root, at in given.ids.items()]
        run.tell(self.name, "bolt_ack", tuple=given.number, vals=vals)
        verb, _ = run.done_to("ack of tuple", given.number) or ("", 0)
        for root, val in vals:
            acker = run.acker_for(root)
            if verb == "lose":
                acker.lose(None)
                continue
            run.send(acker, None, partial(acker.ack, root, val, is_first))
            if verb == "double":
                run.tell(acker.name, "fault", kind="double", tuple=None)
                run.send(acker, None, partial(acker.ack, root, val, False))

    def fail(self, given: Tuple) -> None:
        """As OutputCollector.fail."""
        self._check_given(given, "fails")
        run = self.run
        run.tell(self.name, "bolt_fail", tuple=given.number, roots=list(given.ids))
        for root in given.ids:
            acker = run.acker_for(root)
            run.send(acker, None, partial(acker.fail, root))

    def reset_timeout(self, given: Tuple) -> None:
        """As OutputCollector.reset_timeout. TopologyError with the acker of a release that does not know it."""
        self._check_given(given, "asks for more time for")
        run = self.run
        if run.config.acker_release == "0.9.3":
            raise TopologyError(
                f"{self.name} calls reset_timeout, which Storm 0.9.3 has not. "
                "Set acker_release='2.4.0', or a longer topology_message_timeout_secs."
            )
        for root in given.ids:
            acker = run.acker_for(root)
            run.send(acker, None, partial(acker.reset_timeout, root))

    def _anchors(self, anchors: object) -> Sequence[Tuple]:
        """The tuples to anchor to: one, several or none; all of them given to this task."""
        found = (anchors,) if isinstance(anchors, Tuple) else anchors
        if not isinstance(found, list | tuple):
            self._refuse(anchors, "anchors to")
        for anchor in found:
            self._check_given(anchor, "anchors to")
        return () if self.forgets_to_anchor else found

    def _ids(self, anchors: Sequence[Tuple]) -> dict[int, int]:
        """A new tuple's ids: for each anchor one id, XORed into every tree of that anchor and into the anchor itself."""
        ids: dict[int, int] = {}
        run = self.run
        for anchor in anchors:
            if not anchor.ids:
                continue
            edge = run.new_id()
            anchor.ack_val ^= edge
            for root in anchor.ids:
                ids[root] = ids.get(root, 0) ^ edge
        for root in ids.keys() & run.open_tuples.keys():
            run.open_tuples[root] += 1
        return ids

    def _check_given(self, given: object, does: str) -> None:
        if type(given) is not Tuple or given.holder is not self or not self.is_open:
            self._refuse(given, does)

    def _refuse(self, given: object, does: str) -> NoReturn:
        self.check_open(f"{does} a tuple")
        if not isinstance(given, Tuple):
            raise TopologyError(
                f"{self.name} {does} {given!r:.60}, expected a tuple that it was given to work on. "
                "Use the one that execute was called with."
            )
        raise TopologyError(
            f"{self.name} {does} tuple {given.number} of {given.source_component}, which it was never given. "
            "Use the one that execute was called with."
        )
