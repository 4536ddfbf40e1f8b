"""A player's run on the real broker: in a thread of its own, so that the kernel and the page stay alive.

The page's switch asks for it; while it runs the page hears what is being done and for how long, and at its end whether
model and broker agree. One that is not waited for any more is cancelled: it ends at its next step, and closes what it opened.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

from kitlib.errors import KitError
from kitlib.experiments.experiment import Experiment
from kitlib.experiments.run import RunStopped
from kitlib.experiments.script import Script
from kitlib.monitor.delivery import judge
from kitlib.text import plain_text
from kitlib.trace import Trace

LOOK_S = 0.25  # how often the page hears of a run that is under way
IDLE = {"state": "idle", "doing": "", "elapsed_s": 0, "sentence": ""}  # what a page is told when no run is under way


@dataclass(slots=True)
class LiveRun:
    """One run of a script on the real broker."""

    experiment: Experiment
    script: Script
    trace: Trace | None = None  # once it is over
    error: str = ""  # why there will be none
    doing: str = "Looking for the broker."
    began: float = field(default_factory=time.monotonic)
    thread: Thread | None = None
    is_cancelled: bool = False

    def start(self) -> None:
        """Begin to run; `is_over` says when it has ended."""
        self.thread = Thread(target=self._run, name=f"kit-live-{self.experiment.name}", daemon=True)
        self.thread.start()

    def cancel(self) -> None:
        """End at the next step; what has come of it is dropped."""
        self.is_cancelled = True

    @property
    def is_over(self) -> bool:
        return self.trace is not None or self.error != ""

    def _run(self) -> None:
        from kitlib.lab import kafka_server

        def say(line: str) -> None:
            self.doing = plain_text(line, 200)

        try:
            kafka_server.ensure(progress=say)
            if self.is_cancelled:
                raise RunStopped
            self.doing = "The story runs on the broker."
            self.trace = self.experiment.run(backend="kafka", script=self.script, is_stopped=lambda: self.is_cancelled)
        except RunStopped:
            self.error = "The run was cancelled."
        except KitError as error:
            self.error = str(error)
        except Exception as error:
            self.error = f"The kit itself failed ({type(error).__name__}), which is a bug. `kit logs` has the broker's side."
            raise

    def to_json(self) -> dict[str, Any]:
        """What the page shows while it runs: the state, what is being done, and for how many seconds already."""
        return {**IDLE, "state": "running", "doing": self.doing, "elapsed_s": int(time.monotonic() - self.began)}


def lamps(real: Trace, experiment: Experiment, script: Script) -> dict[str, Any]:
    """What the page shows of a run on the broker that is over: whether the model's verdict on the same script agrees."""
    model, broker = judge(experiment.run(script=script)), judge(real)
    where = model.parts_from(broker)
    state = "parts" if where else "agrees"
    return {**IDLE, "state": state, "sentence": where or f"Model and broker agree: {broker.found}."}
