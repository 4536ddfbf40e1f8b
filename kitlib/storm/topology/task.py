"""What all tasks of a running topology have in common: a name, a life that a crash ends, and a guard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kitlib.storm.topology.builder import Component
from kitlib.storm.topology.components import TopologyContext, TopologyError
from kitlib.storm.topology.groupings import Chooser

if TYPE_CHECKING:
    from kitlib.storm.topology.run import TopologyRun

MAX_TUPLES_A_CALL = 100_000  # sent within one call of a component: more is a loop without an end


class Task:
    """One task. What is due for a former life of it is void, so `life` counts its starts."""

    def __init__(self, run: TopologyRun, component_name: str, name: str, task_id: int) -> None:
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

    def __init__(self, run: TopologyRun, component: Component, context: TopologyContext) -> None:
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
                f"{self.name} {does} at {self.run.now_ms} ms through the collector of a life that is over: its task has "
                "died or the run is closed. Use the collector that open or prepare was called with last."
            )

    def count(self, sent: Sequence[int]) -> None:
        """Raise TopologyError when one call of the component has sent more than MAX_TUPLES_A_CALL tuples."""
        self.sent_in_call += len(sent) or 1
        if self.sent_in_call > MAX_TUPLES_A_CALL:
            raise TopologyError(
                f"{self.name} sent more than {MAX_TUPLES_A_CALL:,} tuples in one call. Storm calls again and again, "
                "so next_tuple and execute need no loop without an end: send a few and return."
            )
