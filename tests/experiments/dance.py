"""Several real runs with the same deaths at once: every run waits until all have come to a death, and it happens once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kitlib.experiments import run
from kitlib.lab import kafka_server
from kitlib.trace import Trace

DEADLINE_S = 90.0  # for all to come to a death
END_S = 300.0  # for all to end
Case = tuple[str, Mapping[str, Any]]  # an experiment and its knobs


def dance(monkeypatch: pytest.MonkeyPatch, *cases: Case) -> list[Trace]:
    """The traces of these runs on the real brokers. Their stories have to kill and start the same brokers in the same order.

    The first exception of a run is raised here; a run that does not come to a death in time is named, and so is one that does not end.
    """
    barrier = threading.Barrier(len(cases))
    done: dict[int, Trace] = {}
    troubles: list[BaseException] = []
    deaths: Counter[str] = Counter()  # to which each run has come

    def once(deed: Callable[..., Any]) -> Callable[..., None]:
        def together(broker: int, **more: Any) -> None:
            deaths[threading.current_thread().name] += 1
            if barrier.wait(DEADLINE_S) == 0:
                try:
                    deed(broker, **more)
                except BaseException:
                    barrier.abort()
                    raise
            barrier.wait(DEADLINE_S)

        return together

    def one(number: int) -> None:
        experiment, knobs = cases[number]
        try:
            done[number] = run(experiment, backend="kafka", **knobs)
        except BaseException as error:  # noqa: BLE001 - told below
            troubles.append(error)
            barrier.abort()

    with monkeypatch.context() as patch:
        patch.setattr(kafka_server, "kill_node", once(kafka_server.kill_node))
        patch.setattr(kafka_server, "start_node", once(kafka_server.start_node))
        names = [f"{number} {experiment}" for number, (experiment, _) in enumerate(cases)]
        threads = [threading.Thread(target=one, args=(number,), name=name, daemon=True) for number, name in enumerate(names)]
        ends_s = time.monotonic() + END_S
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, ends_s - time.monotonic()))
        late = [thread.name for thread in threads if thread.is_alive()]
        barrier.abort()
    own = [error for error in troubles if not isinstance(error, threading.BrokenBarrierError)]
    if own:
        raise own[0]
    if troubles or late:
        came = ", ".join(f"{name}: {deaths[name]}" for name in names)
        pytest.fail(f"deaths and starts that each run has come to, the least one was late: {came}; not at their end: {late}")
    return [done[number] for number in range(len(cases))]
