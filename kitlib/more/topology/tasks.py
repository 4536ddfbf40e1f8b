"""The tasks of a running topology: ackers, spouts and bolts, each with a life that a crash ends.

A spout's task keeps a pending map, which implements the timeout. It holds root id and message id in two buckets,
which the task's own tick rotates. What falls out is failed, whatever the acker knows; an answer for a root
that is no longer there is ignored. A bolt's task takes one tuple after another and carries out what the bolt says about
each. An acker's task answers at once, and records in the trace what each message did to the ledger.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kitlib.errors import KitError
from kitlib.java.hash_codes import list_hash_code
from kitlib.java.numbers import to_long
from kitlib.mechanisms.acker import (
    ACKER_ACK_STREAM_ID,
    ACKER_COMPONENT_ID,
    ACKER_RESET_TIMEOUT_STREAM_ID,
    Acker,
    Completion,
)
from kitlib.mechanisms.rotating_map import RotatingMap
from kitlib.more.topology.builder import Component, Topology, TopologyConfig, make_one
from kitlib.more.topology.components import (
    Bolt,
    Clock,
    Spout,
    TopologyContext,
    TopologyError,
    Tuple,
    short,
)
from kitlib.more.topology.faults import Chance, Fault, FaultPlan
from kitlib.more.topology.groupings import Chooser, Rng, chooser_of
from kitlib.more.topology.later_acker import LaterAcker

MAX_TUPLES_A_CALL = 100_000  # sent within one call of a component: more is a loop without an end
ENDS = {ACKER_ACK_STREAM_ID: "ack", ACKER_RESET_TIMEOUT_STREAM_ID: "reset"}  # and "fail"
SPOUT_MS = 1  # between two calls of next_tuple while it emits
IDLE_MS = 10  # after a call that emitted nothing; twice as long after each further one
MAX_IDLE_MS = 320  # but no longer than this, and not when a tree ends


# Who is told what happens: the task, the word, and its data.
Observer = Callable[[str, str, dict[str, Any]], None]
# ("tuple" or "ack of tuple", the tuple's number) -> what is done to that one, with its ms; None for nothing.
DoneTo = Callable[[str, int], tuple[str, int] | None]


def generate_id(rng: Rng, id_bits: int) -> int:
    """A random id: a signed long for 64 bits, a number from 0 to 2^id_bits - 1 for fewer. It may be 0.

    Source: Storm 0.9.3, `backtype.storm.tuple.MessageId.generateId`.
    Differs: fewer bits are possible.
    """
    drawn = rng.getrandbits(id_bits)
    return to_long(drawn) if id_bits == 64 else drawn


class Runtime(Clock):
    """What the tasks of one run share: what is due when, messages, chance, faults, and each other."""

    def __init__(
        self, topology: Topology, config: TopologyConfig, rng: Rng, chance: Chance | None, observer: Observer, done_to: DoneTo
    ) -> None:
        super().__init__(observer)
        self.topology, self.config, self.rng, self.chance, self.done_to = topology, config, rng, chance, done_to
        self.plan = FaultPlan((), chance)
        self.due: dict[int, deque[Callable[[], None]]] = {}  # at ms -> what to do then, in order
        self.times: list[int] = []  # heap: the keys of `due`
        self.messages_sent = 0
        self.tuples_made = 0
        self.open_tuples: dict[int, int] = {}  # root -> tuples of its tree whose ack no acker has had
        self.open_at_end: dict[int, int] = {}  # root -> the same, when an acker called the tree finished
        self.spouts: dict[int, SpoutTask] = {}
        self.bolts: dict[int, BoltTask] = {}
        self.ackers: dict[int, AckerTask] = {}
        self.tasks_of: dict[str, list[int]] = {}

    def after(self, ms: int, do: Callable[[], None]) -> None:
        """Have something done `ms` from now."""
        at_ms = self.now_ms + ms
        due = self.due.get(at_ms)
        if due is None:
            self.due[at_ms] = deque((do,))
            heapq.heappush(self.times, at_ms)
        else:
            due.append(do)

    def send(self, to: Task, number: int | None, deliver: Callable[[], None]) -> None:
        """Put a message on its way to a task; `number` is its tuple's, None for acker messages."""
        config, late = self.config, 0
        self.messages_sent += 1
        if config.transfer_jitter_ms and self.chance:
            late = int(self.chance("transfer", self.messages_sent) * (config.transfer_jitter_ms + 1))
        verb, ms = ("", 0) if number is None else self.done_to("tuple", number) or ("", 0)
        if self.plan.on_the_way(to.component_name) or verb == "lose":
            to.lose(number)
            return
        self.after(config.transfer_ms + late + (ms if verb == "delay" else 0), deliver)
        if verb == "double":
            self.after(config.transfer_ms + late, deliver)
        if verb in ("delay", "double"):
            self.tell(to.name, "fault", kind=verb, tuple=number, **({"ms": ms} if verb == "delay" else {}))

    def crash(self, component: str, task_index: int = 0, restart_ms: int | None = None) -> None:
        """One task dies with everything it holds; after `restart_ms` (the topology's if None) a new one is there."""
        task_id = self.tasks_of[component][task_index]
        task: Task = self.spouts.get(task_id) or self.bolts.get(task_id) or self.ackers[task_id]
        if task.is_alive:
            task.crash()
            self.after(self.config.restart_ms if restart_ms is None else restart_ms, task.restart)

    def forget(self, root: int) -> int:
        """A spout ends this tree; how many of its tuples were open when an acker called it finished."""
        self.open_tuples.pop(root, None)
        return self.open_at_end.pop(root, 0)

    def acker_for(self, root: int) -> AckerTask:
        """The acker that follows this tree: the root's hash modulo the number of ackers, as for a fields grouping."""
        tasks = self.tasks_of[ACKER_COMPONENT_ID]
        return self.ackers[tasks[list_hash_code((root,)) % len(tasks) if len(tasks) > 1 else 0]]

    def choosers(self, component: Component) -> list[Chooser]:
        """Of a sending task: one chooser of tasks for each bolt that subscribes to it."""
        subscribers = self.topology.subscribers(component.name)
        return [chooser_of(grouping, component.fields, self.tasks_of[bolt.name], self.rng) for bolt, grouping in subscribers]


class Task(ABC):
    """One task. What is due for a former life of it is void, so `life` counts its starts."""

    def __init__(self, run: Runtime, component_name: str, task_id: int) -> None:
        self.run, self.component_name, self.task_id = run, component_name, task_id
        self.name = f"{component_name}-{task_id}"
        self.is_alive, self.life = False, 0

    @abstractmethod
    def start(self) -> None:
        """Begin with nothing."""

    @abstractmethod
    def crash(self) -> None:
        """Die with everything it holds."""

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

    def after_timeout(self, tick: Callable[[int], None]) -> None:
        """A tick is due one message timeout from now, by the settings now, if this life lasts as long."""
        self.run.after(self.run.config.topology_message_timeout_secs * 1_000, partial(tick, self.life))


class ComponentTask(Task):
    """A task that runs a learner's code, which may raise."""

    collector: Collector

    def __init__(self, run: Runtime, component: Component, context: TopologyContext) -> None:
        super().__init__(run, component.name, context.task_id)
        self.component, self.context = component, context

    def guarded(self, doing: str, call: Callable[..., object], *args: Any) -> bool:
        """Call the component; False when it raised and the task has died of it.

        Misuse always ends the run, as TopologyError; with errors="raise" everything does, as TopologyError or the KitError
        that it is. What an observer raises is nobody's mistake, and passes.
        """
        run = self.run
        self.collector.sent_in_call = 0
        try:
            call(*args)
        except (Exception, SystemExit) as error:
            is_fatal = isinstance(error, TopologyError) or (isinstance(error, KitError) and run.config.errors == "raise")
            if error is run.raised_by_observer or is_fatal:
                raise
            if run.config.errors == "raise":
                raise TopologyError(
                    f"{self.name} raised {type(error).__name__} in {doing}: {str(error)[:200]}. In Storm its worker would die and "
                    "come back; with errors='crash' it does so here. Mend the component, or fail the tuple."
                ) from error
            run.tell(self.name, "fault", kind="raise", error=f"{type(error).__name__}: {error}"[:200])
            run.crash(self.component_name, self.context.task_index)
            return False
        return True

    @abstractmethod
    def close(self) -> None:
        """The topology ends: have the component put away what it holds."""


class Collector:
    """Through which one life of a task speaks; a crash or the end of the run closes it.

    Each life has its own, so that an object left over from a former life cannot speak for the new one.
    """

    __slots__ = ("choosers", "component", "is_open", "name", "run", "sent_in_call", "task_id")

    def __init__(self, task: ComponentTask) -> None:
        self.run, self.name, self.task_id, self.component = task.run, task.name, task.task_id, task.component
        self.choosers: list[Chooser] = task.run.choosers(task.component)
        self.is_open = True
        self.sent_in_call = 0  # tuples since the component was last called

    def check_open(self, does: str) -> None:
        """Raise TopologyError when the life is over."""
        if not self.is_open:
            raise TopologyError(
                f"{self.name} {does} at {self.run.now_ms} ms through an old collector: its task has "
                "died or the run is closed. Use the collector that open or prepare was called with last."
            )

    def receivers(self, values: Sequence[Any]) -> list[int]:
        """The task ids that get a tuple.

        TopologyError for another number of values than there are fields, and when one call has sent more than MAX_TUPLES_A_CALL.
        """
        names = self.component.fields
        if not isinstance(values, list | tuple) or len(values) != len(names):
            advice = "The values come first: emit([...], anchors=given)" if isinstance(values, Tuple) else "Send one value for each field"
            raise TopologyError(
                f"{self.component.name} sends {values!r:.60}, expected a list of {len(names)} ({', '.join(names)}). {advice}."
            )
        task_ids = [task_id for choose in self.choosers for task_id in choose(values)]
        self.sent_in_call += len(task_ids) or 1
        if self.sent_in_call > MAX_TUPLES_A_CALL:
            raise TopologyError(
                f"{self.name} sent more than {MAX_TUPLES_A_CALL:,} tuples in one call. Storm calls again and again, "
                "so next_tuple and execute need no endless loop: send a few and return."
            )
        return task_ids

    def made(self, values: list[Any], ids: dict[int, int]) -> Tuple:
        """A tuple of this task's."""
        self.run.tuples_made += 1
        return Tuple(self.run.tuples_made, values, self.component.fields, self.component.name, self.task_id, ids)

    def send(self, one: Tuple, task_id: int) -> None:
        """Put a tuple on its way."""
        to = self.run.bolts[task_id]
        self.run.send(to, one.number, partial(to.arrive, one))


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
        self.after_timeout(self.tick)

    def crash(self) -> None:
        """The task dies, and with it what it knew of every tree."""
        self.is_alive = False
        self.run.tell(self.name, "crash", lost=len(self.acker.pending))

    def tick(self, life: int) -> None:
        """A message timeout has passed."""
        if self.is_of(life):
            self.after_timeout(self.tick)
            if self.run.config.topology_enable_message_timeouts:
                self.run.tell(self.name, "acker_tick", dropped=list(self.acker.tick()))

    def hear(self, what: str, root: int, is_first: bool = True, **data: int) -> None:
        """A message: `what` is a method of the acker, which takes the data. `is_first` unless a tuple was acked before.

        The trace is told what that did to the entry of the tree, and the spout if the tree ends.
        """
        if not self.is_alive:
            self.lose(None)
            return
        run, pending = self.run, self.acker.pending
        if what == "ack" and is_first and root in run.open_tuples:
            run.open_tuples[root] -= 1
        entry = pending.get(root)  # changed in place
        before = entry.val if entry else None
        end: Completion | None = getattr(self.acker, what)(root, **data)
        word = ENDS.get(end.stream, "fail") if end else None
        entry = entry or pending.get(root)
        after = entry.val if entry and word in (None, "reset") else None
        run.tell(self.name, f"acker_{what.removesuffix('_timeout')}", root=root, **data, before=before, after=after, end=word)
        if word == "ack" and root in run.open_tuples:
            run.open_at_end[root] = run.open_tuples[root]  # of which the acker knows nothing
        if end is not None:
            spout = run.spouts[end.spout_task]
            run.send(spout, None, partial(spout.hear, end))


class SpoutTask(ComponentTask):
    """Asks its spout for tuples while there is room, and tells it how each tree ended."""

    def __init__(self, run: Runtime, component: Component, context: TopologyContext) -> None:
        super().__init__(run, component, context)
        self.spout: Spout
        self.collector: SpoutOutputCollector
        self.pending: RotatingMap[int, Any] = RotatingMap(2)  # root -> message id
        self.emitted = 0  # calls of emit in this run
        self.is_throttled = False  # waits for room in `pending`
        self.idle_ms = 0  # how long it waits now because there was nothing to emit
        self.will_retry = True  # what the spout said of the last failed message
        self.turn = 0  # the number of the next poll: planning one makes those planned before void

    def start(self) -> None:
        """A new spout; the pending map is empty, as a crash has left it."""
        self.is_alive, self.life = True, self.life + 1
        self.is_throttled, self.idle_ms = False, 0
        self.collector = SpoutOutputCollector(self)
        self.spout = make_one(self.component)
        self.spout.context, self.spout.collector = self.context, self.collector
        if self.guarded("open", self.spout.open, {}, self.context, self.collector):
            self._next_poll(SPOUT_MS)
            self.after_timeout(self.tick)

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
        if self.guarded("next_tuple", self.spout.next_tuple):
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
        self.after_timeout(self.tick)
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

    def _end(self, word: str, root: int, message_id: Any, why: str) -> None:
        """Tell the spout how a tree ended, and then the trace, which holds what is so after the call."""
        run = self.run
        outstanding = run.forget(root)
        if word == "ack":
            if self.guarded("ack", self.spout.ack, message_id):
                run.tell(self.name, "ack", message_id=message_id, root=root, outstanding=outstanding)
        elif self.guarded("fail", self._fail, message_id):
            run.tell(self.name, "fail", message_id=message_id, root=root, retry=self.will_retry, why=why)

    def _fail(self, message_id: Any) -> None:
        self.spout.fail(message_id)
        self.will_retry = bool(self.spout.is_retried(message_id))

    def _next_poll(self, ms: int) -> None:
        self.turn += 1
        self.run.after(ms, partial(self.poll, self.turn))


class SpoutOutputCollector(Collector):
    """Through which a spout emits tuples.

    Source: Storm 0.9.3, `backtype.storm.daemon.executor` (`mk-threads` :spout).
    Differs: nothing. A tuple that nobody subscribes to is an init of 0, which the acker acks at once.
    """

    __slots__ = ("task",)

    def __init__(self, task: SpoutTask) -> None:
        super().__init__(task)
        self.task = task

    def emit(self, values: Sequence[Any], message_id: Any = None) -> list[int]:
        """Send a tuple; the task ids that get it. Without a message id nobody follows its tree.

        TopologyError for another number of values than there are fields, and when the task has died or the run is closed.
        """
        self.check_open("sends a tuple")
        run, task = self.run, self.task
        task.emitted += 1
        root = generate_id(run.rng, run.config.root_id_bits) if message_id is not None and run.ackers else None
        task_ids = self.receivers(values)
        told_values, values = short(values), list(values)
        val, made, told = 0, [], []
        for task_id in task_ids:
            edge = None if root is None else generate_id(run.rng, run.config.id_bits)
            made.append(self.made(values, {} if root is None or edge is None else {root: edge}))
            told.append([made[-1].number, run.bolts[task_id].name, edge])
            val ^= edge or 0
        run.tell(self.name, "emit", message_id=message_id, root=root, val=val, tuples=told, values=told_values)
        for task_id, one in zip(task_ids, made, strict=True):
            self.send(one, task_id)
        if root is not None:  # a tree begins; a root that is pending already is overwritten
            task.pending.put(root, message_id)
            run.open_tuples[root] = run.open_tuples.get(root, 0) + len(made)
            acker = run.acker_for(root)
            run.send(acker, None, partial(acker.hear, "init", root, val=val, spout_task=self.task_id))
        elif message_id is not None:  # no acker follows trees: a tuple counts as processed when it has left
            task.spout.ack(message_id)
            run.tell(self.name, "ack", message_id=message_id, root=None, outstanding=0)
        return task_ids


class BoltTask(ComponentTask):
    """Works on one tuple after the other."""

    def __init__(self, run: Runtime, component: Component, context: TopologyContext) -> None:
        super().__init__(run, component, context)
        self.bolt: Bolt
        self.collector: OutputCollector
        self.inbox: deque[Tuple] = deque()  # arrived, in order; the one being processed has left it
        self.is_busy = False

    def start(self) -> None:
        """A new bolt; the inbox is empty, as a crash has left it."""
        self.is_alive, self.life = True, self.life + 1
        self.collector = OutputCollector(self)
        self.bolt = make_one(self.component)
        self.bolt.context, self.bolt.collector = self.context, self.collector
        self.guarded("prepare", self.bolt.prepare, {}, self.context, self.collector)

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
        run, collector, kind = self.run, self.collector, fault.kind if fault else ""
        if kind in ("fail", "drop", "raise", "unanchored"):
            run.tell(self.name, "fault", kind=kind, tuple=made.number)
        if kind == "fail":
            collector.fail(made)
        elif kind == "raise":
            run.crash(self.component_name, self.context.task_index)
        elif kind != "drop":
            run.tell(self.name, "execute", tuple=made.number, values=short(made.values))
            collector.forgets_to_anchor = kind == "unanchored"
            is_alive = self.guarded("execute", self.bolt.execute, made)
            collector.forgets_to_anchor = False
            if kind == "ack_twice" and is_alive:
                run.tell(self.name, "fault", kind=kind, tuple=made.number)
                collector.ack(made)
        if self.is_of(life):
            self.is_busy = False
            if self.inbox:
                self._begin()


class OutputCollector(Collector):
    """Through which a bolt sends tuples, and acks and fails those that it was given.

    Source: Storm 0.9.3, `backtype.storm.daemon.executor` (`mk-threads` :bolt).
    Differs: nothing.
    """

    __slots__ = ("forgets_to_anchor",)

    def __init__(self, task: BoltTask) -> None:
        super().__init__(task)
        self.forgets_to_anchor = False  # a fault

    def emit(self, values: Sequence[Any], anchors: Tuple | Sequence[Tuple] = ()) -> list[int]:
        """Send a tuple, anchored to one tuple, to several (its trees become one DAG) or to none; the task ids that get it.

        Each task that gets it is sent a tuple with ids of its own. TopologyError as SpoutOutputCollector.emit, and for an anchor
        that this task was not given.
        """
        self.check_open("sends a tuple")
        run = self.run
        task_ids = self.receivers(values)
        to_anchor = self._anchors(anchors)
        parents = [anchor.number for anchor in to_anchor]
        told, values = short(values), list(values)
        for task_id in task_ids:
            made = self.made(values, self._ids(to_anchor))
            ids_told = [[root, at] for root, at in made.ids.items()]
            run.tell(self.name, "send", tuple=made.number, parents=parents, ids=ids_told, to=run.bolts[task_id].name, values=told)
            self.send(made, task_id)
        return task_ids

    def ack(self, given: Tuple) -> None:
        """This tuple is done: each tree's acker is sent its id XOR what was anchored to it, a second time as the first.

        TopologyError for one that was not given.
        """
        self._given(given, "acks")
        run, is_first, given.is_acked = self.run, not given.is_acked, True
        vals = [[root, at ^ given.ack_val] for root, at in given.ids.items()]
        run.tell(self.name, "bolt_ack", tuple=given.number, vals=vals)
        verb, _ = run.done_to("ack of tuple", given.number) or ("", 0)
        for root, val in vals:
            acker = run.acker_for(root)
            if verb == "lose":
                acker.lose(None)
                continue
            run.send(acker, None, partial(acker.hear, "ack", root, is_first, val=val))
            if verb == "double":
                run.tell(acker.name, "fault", kind="double", tuple=None)
                run.send(acker, None, partial(acker.hear, "ack", root, False, val=val))

    def fail(self, given: Tuple) -> None:
        """This tuple's trees have failed. TopologyError for one that was not given."""
        self._given(given, "fails")
        self.run.tell(self.name, "bolt_fail", tuple=given.number, roots=list(given.ids))
        self._tell_ackers("fail", given)

    def reset_timeout(self, given: Tuple) -> None:
        """Ask for another timeout for this tuple's trees; the acker of 0.9.3 knows no such message (UnknownStreamError)."""
        self._given(given, "asks for more time for")
        self._tell_ackers("reset_timeout", given)

    def _tell_ackers(self, what: str, given: Tuple) -> None:
        for root in given.ids:
            acker = self.run.acker_for(root)
            self.run.send(acker, None, partial(acker.hear, what, root))

    def _anchors(self, anchors: object) -> Sequence[Tuple]:
        """The tuples to anchor to: one, several or none; all of them given to this task."""
        found = anchors if isinstance(anchors, list | tuple) else [anchors]
        given = [self._given(anchor, "anchors to") for anchor in found]
        return () if self.forgets_to_anchor else given

    def _ids(self, anchors: Sequence[Tuple]) -> dict[int, int]:
        """A new tuple's ids: for each anchor one id, XORed into every tree of that anchor and into the anchor itself."""
        ids: dict[int, int] = {}
        run = self.run
        for anchor in anchors:
            if not anchor.ids:
                continue
            edge = generate_id(run.rng, run.config.id_bits)
            anchor.ack_val ^= edge
            for root in anchor.ids:
                ids[root] = ids.get(root, 0) ^ edge
        for root in ids.keys() & run.open_tuples.keys():
            run.open_tuples[root] += 1
        return ids

    def _given(self, given: object, does: str) -> Tuple:
        if isinstance(given, Tuple) and given.holder is self and self.is_open:
            return given
        self.check_open(f"{does} a tuple")
        what = f"tuple {given.number} of {given.source_component}" if isinstance(given, Tuple) else f"{given!r:.60}"
        raise TopologyError(f"{self.name} {does} {what}, which it was never given. Use the tuple that execute was called with.")
