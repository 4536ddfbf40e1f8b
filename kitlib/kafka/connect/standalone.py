"""Connect's standalone mode: one process runs everything, and no one takes over when it dies.

There is no group, no generation and no leader. The configuration comes from files, and the source offsets
go to a file of the same machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kitlib.kafka.connect.work import ConnectError, ConnectorsAndTasks, configured_work


@dataclass(slots=True)
class StandaloneWorker:
    """The one worker: all connectors and tasks while it is up, none while it is not.

    Source: Kafka 4.3.1, connect.runtime.standalone.StandaloneHerder. Differs: connectors ask for their
    tasks at once.
    """

    name: str = "w1"
    connectors: dict[str, int] = field(default_factory=dict)
    is_up: bool = False

    @property
    def work(self) -> ConnectorsAndTasks:
        """What it runs now."""
        return configured_work(self.connectors) if self.is_up else ConnectorsAndTasks()

    def configure(self, connectors: Mapping[str, int]) -> None:
        """These connectors from now on. ConnectError for a number of tasks below 0."""
        configured_work(connectors)
        self.connectors = dict(connectors)

    def start(self) -> None:
        """The process starts; it runs everything at once. ConnectError when it runs already."""
        if self.is_up:
            raise ConnectError(f"worker {self.name} is already running. A standalone worker is alone.")
        self.is_up = True

    def kill(self) -> None:
        """The process dies, and all work with it. ConnectError when it does not run."""
        if not self.is_up:
            raise ConnectError(f"worker {self.name} is not running. Start it first.")
        self.is_up = False

    def shown(self) -> dict[str, Any]:
        """What a picture shows, in the words of a cluster."""
        everything = configured_work(self.connectors)
        told = {"connectors": list(everything.connectors), "tasks": [list(task) for task in everything.tasks]}
        nothing: dict[str, Any] = {"connectors": [], "tasks": []}
        return {
            "generation": None,
            "leader": None,
            "rebalancing": False,
            "delay_until_ms": None,
            "workers": {self.name: {"up": self.is_up, "member": self.is_up, **(told if self.is_up else nothing)}},
            "unassigned": nothing if self.is_up else told,
        }
