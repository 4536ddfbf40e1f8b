"""No knob of the send path's experiments does nothing on a real broker: it is given to somebody, or refused."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments import get
from kitlib.experiments.send_path.real_send import MODELS_ALONE, OBSERVERS, ONLY_REAL, RealSend
from kitlib.settings import Settings
from kitlib.trace import Trace

OF_EVERY_RUN = {"max_steps"}
OTHERS: dict[str, Any] = {  # kind of a knob -> another value than its default
    "int": lambda knob: knob.low if knob.default != knob.low else knob.low + 1,
    "bool": lambda knob: not knob.default,
    "choice": lambda knob: next(each for each in knob.choices if each != knob.default),
}


class NoBroker:
    """Whatever an observer asks of it: the run was not refused."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the observer has begun: it asks for {name}")


@pytest.mark.parametrize("name", OBSERVERS)
def test_every_knob_of_a_real_run_is_used_or_refused(name: str) -> None:
    """Each knob stands in the observer, or in one of the two tables, and none in both."""
    module = import_module(f"kitlib.experiments.send_path.{OBSERVERS[name][0]}")
    shared = sum(other == OBSERVERS[name][0] for other, _ in OBSERVERS.values()) > 1
    source = inspect.getsource(getattr(module, OBSERVERS[name][1]) if shared else module)
    knobs = {knob.name for knob in get(name).knobs} - OF_EVERY_RUN
    used = {knob for knob in knobs if re.search(rf'settings\.{knob}\b|"{knob}"', source)}
    alone = set(MODELS_ALONE.get(name, ()))
    assert used | alone | set(ONLY_REAL) >= knobs and not used & alone and alone <= knobs


@pytest.mark.parametrize(("name", "knob"), [(name, knob) for name, alone in MODELS_ALONE.items() for knob in alone])
def test_knob_of_the_models_alone_is_refused_before_anything_begins(name: str, knob: str) -> None:
    """The sentence says which, and where to run it."""
    wanted = next(each for each in get(name).knobs if each.name == knob)
    knobs = {each.name: each.default for each in get(name).knobs} | {knob: OTHERS[wanted.kind](wanted)}
    run = RealSend(Trace("r", name, "kafka", 0, {}, domain="send_path"), NoBroker(), Settings(knobs))  # type: ignore[arg-type]
    with pytest.raises(KnobError, match=rf"^{name} on a real broker: {knob} is .*, which nothing there is given\. Leave it at"):
        run.tell(get(name).story)


def test_two_sends_has_one_partition() -> None:
    """The model's default is taken as it is; any other number but one is refused."""
    knobs = {each.name: each.default for each in get("two_sends").knobs} | {"partitions": 2}
    with pytest.raises(KnobError, match="partitions is 2, and the topic has 1"):
        RealSend(Trace("r", "two_sends", "kafka", 0, {}, domain="send_path"), NoBroker(), Settings(knobs)).tell(get("two_sends").story)  # type: ignore[arg-type]
