"""An experiment is declared once, as a function, whose parameters are the knobs and whose docstring is the question; and so are twins."""

from __future__ import annotations

import dis
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from inspect import Parameter, isfunction, signature, unwrap
from types import CodeType
from typing import Annotated, Any, ClassVar, Literal

import pytest

from kitlib import experiments
from kitlib.errors import KnobError
from kitlib.experiments import every
from kitlib.experiments.experiment import Experiment, experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.run import Run
from kitlib.experiments.storm.knobs import FetchRecords, Records
from kitlib.experiments.storm.spout_run import SpoutRun

Ending = Annotated[Literal["close", "kill"], Knob("How it ends.")]


class WaitKnobs:
    wait_ms: Annotated[int, Knob("How long it waits.", "ms", 0, 100)] = 10
    ending: Ending = "close"


@dataclass
class Told(Run):
    """A run that keeps what its story is called with."""

    domain: ClassVar[str] = "spout"

    given: dict[str, Any] = field(default_factory=dict)


@experiment("A title", Told, shared=(WaitKnobs,), max_steps=50)
def a_story(
    run: Told, batches: Annotated[int, Knob("How many batches.", "batches", 1, 20, live=True)] = 6, ending: Ending = "kill"
) -> None:
    """What comes first,
    and what comes then?
    """
    run.given.update(batches=batches, ending=ending, max_steps=run.settings.max_steps)
    run.trace.settings["told"] = run.given


def test_experiment_is_what_its_function_declares() -> None:
    """The name is the function's, the question its docstring in one line."""
    assert (a_story.name, a_story.title, a_story.question) == ("a_story", "A title", "What comes first, and what comes then?")
    assert (a_story.kind, a_story.model_only) == (Told, "")


def test_knobs_are_the_parameters_then_the_shared_ones_then_max_steps() -> None:
    """A knob's name, kind, choices and default come from the parameter; a parameter's default wins over a shared one."""
    assert [(knob.name, knob.kind, knob.default) for knob in a_story.knobs] == [
        ("batches", "int", 6), ("ending", "choice", "kill"), ("wait_ms", "int", 10), ("max_steps", "int", 50),
    ]  # fmt: skip
    batches, ending, *_ = a_story.knobs
    assert (batches.help, batches.range, batches.live) == ("How many batches.", "1 to 20 batches", True)
    assert (ending.choices, ending.live) == (("close", "kill"), False)


def test_story_is_called_with_the_checked_values_of_its_parameters() -> None:
    """What was given as a text arrives as a number; a knob that is no parameter stays with the run."""
    assert a_story.run(batches="7", wait_ms=5).settings.told == {"batches": 7, "ending": "kill", "max_steps": 50}


def test_live_knob_is_the_runs_from_the_fork_on() -> None:
    """The parameter is the first value; after a fork `run.settings` has another one."""
    seen: list[tuple[int, int]] = []

    @experiment("A title", SpoutRun)
    def forked(run: SpoutRun, records: Records = 5, fetch_records: FetchRecords = 10) -> None:
        """What?"""
        topic = run.backend.create_topic("events", fetch_records)
        for _ in range(3):
            run.append(topic, records)
            seen.append((fetch_records, run.settings.fetch_records))

    forked.fork(forked.run(), 1, fetch_records=20)
    assert seen[3:] == [(10, 10), (10, 20), (10, 20)]


WRONG: list[tuple[Any, Any, str]] = [
    (int, 6, r"^batches is annotated with <class 'int'>, expected Annotated\[int, Knob"),
    (None, 6, r"^batches is annotated with <class 'NoneType'>, expected Annotated\[int, Knob"),
    (Annotated[bytes, Knob("Help.")], b"", r"^batches is annotated with .*bytes.*, expected Annotated\[int, Knob"),
    (Annotated[int, Knob("Help.", "", 1, 5)], 6, r"^batches is 6, expected 1 to 5"),
    (Annotated[int, Knob("Help.", "", 1, 5)], Parameter.empty, r"^batches is <class 'inspect._empty'>, expected 1 to 5"),
]


@pytest.mark.parametrize(("hint", "default", "told"), WRONG, ids=lambda value: str(value)[:30])
def test_parameter_that_is_no_knob_is_refused(hint: Any, default: Any, told: str) -> None:
    """When it has no Knob, a type that no knob has, or a default outside of its range."""

    def story(run: Told, batches: Any) -> None:
        """What?"""

    story.__annotations__["batches"], story.__defaults__ = hint, None if default is Parameter.empty else (default,)
    with pytest.raises(KnobError, match=told):
        experiment("A title", Told)(story)


def loads(code: CodeType) -> Iterator[str]:
    """The local names that a function reads, also in the functions inside of it."""
    yield from (each.argval for each in dis.get_instructions(code) if each.opname.startswith(("LOAD_FAST", "LOAD_DEREF")))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from loads(inner)


@pytest.mark.parametrize("declared", [*every()], ids=lambda declared: declared.name)
def test_story_reads_live_knobs_from_the_run(declared: Experiment) -> None:
    """A parameter holds the first value only, so a story that read a live knob's parameter would not notice a fork."""
    live = {knob.name for knob in declared.knobs if knob.live}
    assert not live & set(loads(unwrap(declared.story).__code__))


def _models() -> dict[str, type[Any]]:
    """Every class of the experiments that names its twin, by its name."""
    modules = [import_module(found.name) for found in pkgutil.walk_packages(experiments.__path__, "kitlib.experiments.")]
    classes = {each for module in modules for each in vars(module).values() if isinstance(each, type)}
    return {each.__name__: each for each in classes if isinstance(vars(each).get("on_kafka"), str) and each.on_kafka}


MODELS = _models()


def _verbs(kind: type) -> dict[str, list[str]]:
    """The public methods of a class, with their parameters."""
    found: dict[str, Any] = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {name: list(signature(verb).parameters) for name, verb in found.items() if isfunction(verb)}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_twin_is_asked_as_its_model_is(name: str) -> None:
    """A method that both have takes the same; what the model's takes beyond that, such as a time, is the model's alone.

    A run that is told a story in its own way is asked nothing else.
    """
    twin = pkgutil.resolve_name(MODELS[name].on_kafka)
    models, theirs = _verbs(MODELS[name]), _verbs(twin)
    has_own_way = issubclass(twin, Run) and twin.tell is not Run.tell
    both = {"tell"} if has_own_way else models.keys() & theirs.keys()
    assert both
    assert {verb for verb in both if theirs[verb] != models[verb][: len(theirs[verb])]} == set()
    if not issubclass(MODELS[name], Run):
        assert callable(twin.open) and callable(twin.close)


def test_twins_are_found() -> None:
    """Those of every domain that has a Kafka half."""
    assert MODELS.keys() >= {
        "ModelGroup", "ModelTransactions", "ModelLeader", "ModelKeyedTopic", "SendRun",
        "ModelCompactedLog", "ModelCoordinator", "ModelDriver",
    }  # fmt: skip
