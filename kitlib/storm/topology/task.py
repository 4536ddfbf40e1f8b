"""What all tasks of a running topology have in common: a name, a life that a crash ends, and a guard."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kitlib.storm.topology.builder import Component
from kitlib.storm.topology.components import TopologyContext

if TYPE_CHECKING:
    from kitlib.storm.topology.run import TopologyRun


class Task:
    """One task. What is due for a former life of it is void, so `life` counts its starts."""

    def __init__(self, run: TopologyRun, name: str, task_id: int) -> None:
        self.run, self.name, self.task_id = run, name, task_id
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

    def is_of(self, life: int) -> bool:
        """Whether it lives, and still the life in which something was planned."""
        return self.is_alive and life == self.life

    @property
    def tick_ms(self) -> int:
        """The time between two ticks, by the settings now."""
        return self.run.config.topology_message_timeout_secs * 1_000


class ComponentTask(Task):
    """A task that runs a learner's code, which may raise."""

    def __init__(self, run: TopologyRun, component: Component, context: TopologyContext) -> None:
        super().__init__(run, context.task, context.task_id)
        self.component, self.context = component, context

    def guarded(self, doing: str, call: Callable[..., object], *args: Any) -> bool:
        """Call the component; False when it raised and the task has died of it.

        TopologyError instead when errors="raise", and any KitError as it is.
        """
        try:
            call(*args)
        except Exception as error:  # noqa: BLE001 - a component's own code may raise anything
            self.run.failure(self.name, doing, error)
            self.run.tell(self.name, "fault", kind="raise", error=f"{type(error).__name__}: {error}"[:200])
            self.run.crash(self.component.name, self.context.task_index)
            return False
        return True
