"""Runs of producers that several tests draw."""

from __future__ import annotations

from typing import Any

from kitlib.experiments import get, run
from kitlib.trace import Step, Trace
from kitlib.views.frames import to_frames
from kitlib.views.scene import Scene


def scene_of(trace: Trace) -> Scene:
    scene = to_frames(trace).scene
    assert scene is not None
    return scene


def step_of(trace: Trace, what: str, nth: int = 0) -> Step:
    return [step for step in trace.steps if step.what == what][nth]


def answers_lost(has_ids: bool = True) -> Trace:
    """Batches are written, their answers are lost, and all are sent again."""
    return get("answers_lost").run(idempotence=has_ids)


def six_in_flight() -> Trace:
    """Six at once, one more than the broker remembers."""
    return get("six_in_flight").run()


def broker_restart() -> Trace:
    """Answers are withheld, the broker is killed: it comes back with one batch in memory."""
    return get("broker_restart").run()


def two_producers() -> Trace:
    """A second producer with the same id and a newer epoch: the first one is refused from then on."""
    return get("two_producers_one_id").run()


def everything() -> Trace:
    """Requests that are lost, doubled and late, a lost answer, and a broker that dies."""
    lines = ("double request 1", "lose request 4", "delay request 8 by 300 ms", "lose answer 10", "break broker at 550 ms for 250 ms")
    return run(script="\n".join(["answers_lost lost_answers=2", *lines]))


def long_run(steps: int = 1000, seed: int = 1, *, has_ids: bool = True, at_once: int = 5) -> Trace:
    """A run that is cut after so many steps, and in which answers get lost now and then."""
    knobs: dict[str, Any] = {"records": 1_000, "linger_ms": 2, "lost_answers": 2, "answer_loss_percent": 10, "delay_ms": 4}
    return get("answers_lost").run(seed=seed, idempotence=has_ids, max_in_flight=at_once, max_steps=steps, **knobs)
