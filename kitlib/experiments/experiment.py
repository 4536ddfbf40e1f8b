"""An experiment turns knobs into a trace, on the model or on a real broker.

Each experiment is a short story told to a run: append, start, let time pass, let retention or a crash
come in between. It is declared once, as a function: its parameters are the knobs, its docstring is the
question. What a run can do depends on its kind: a `SpoutRun` is one spout and a bolt, others bring whole
topologies. Everything else that calls experiments (notebooks, widgets, the command line, sweeps, tests)
calls `Experiment.run`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from inspect import signature
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Concatenate, TypeVar, get_type_hints

from kitlib.errors import KnobError, LabError, TraceError
from kitlib.experiments.knobs import Knob, bind, check_seed, settle
from kitlib.experiments.run import Fork, RunIsOver
from kitlib.experiments.script import Intervention, Interventions, Script, ScriptError
from kitlib.monitor.figures import Figure
from kitlib.settings import WITHOUT_KNOB, Settings
from kitlib.text import plain_text
from kitlib.trace import Trace

if TYPE_CHECKING:
    from kitlib.experiments.kafka_backend import Backend
    from kitlib.mechanisms.partition_manager import PartitionManager

BACKENDS = ("model", "kafka")
MAX_STEPS = Knob("Where the trace is cut, even if the story is not over.", "steps", 10, 20_000, name="max_steps")

MOST_IN_FRONT = 5  # knobs beside a picture

Run = TypeVar("Run")
RunKind = Callable[[Trace, "Backend", Settings, Fork | None], Run]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A named story with its question, its knobs, and the settings that it shows best with."""

    name: str
    title: str
    question: str  # what the learner should predict before running it
    knobs: tuple[Knob, ...]
    story: Callable[Concatenate[Any, ...], None]  # told to a run of the kind below, with its parameters' knobs
    kind: RunKind[Any]
    model_only: str = ""  # why there is nothing real to run it on; "" when there is
    figure: Figure | None = None  # the number that the question asks for
    front: tuple[str, ...] = ()  # the knobs that a player puts beside the picture, three to five where there are so many
    manager: type[PartitionManager] | None = None  # a learner's own, in the place of the kit's

    @property
    def takes(self) -> tuple[str, ...]:
        """The lines of a script that its kind of run takes, with N, D, T and TASK for what a line names."""
        return getattr(self.kind, "takes", ())

    def changed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Of these knobs those that are not at their defaults, in the experiment's order. KnobError for a bad one."""
        settled = settle(self.knobs, given, self.name)
        return {knob.name: settled[knob.name] for knob in self.knobs if settled[knob.name] != knob.default}

    def check_takes(self, intervention: Intervention) -> None:
        """ScriptError when its kind of run does not take such an intervention; it says what it takes."""
        if intervention.is_one_of(self.takes):
            return
        if not self.takes:
            raise ScriptError(
                f'{self.name} takes no interventions: a script of it has seed and knobs alone. Leave "{intervention}" out, or '
                'choose another experiment, such as answers_lost.'
            )
        raise ScriptError(f'{self.name} does not take "{plain_text(intervention, 80)}". It takes: {"; ".join(self.takes)}.')

    def check_real(self, script: Sequence[Intervention]) -> None:
        """ScriptError for what can be done on the model alone; it says why."""
        why, taken = getattr(self.kind, "model_script", ""), getattr(self.kind, "real_takes", ())
        for each in script:
            if why and not each.is_one_of(taken):
                raise ScriptError(f'{self.name}: "{each}" can be done on the model only: {why}. Run the script with backend="model".')

    def run(
        self, backend: str = "model", seed: int = 1, script: Script | str | None = None, is_stopped: Callable[[], bool] | None = None,
        **knobs: Any,
    ) -> Trace:
        """Run the story and return its trace; `judge` of kitlib.monitor.delivery gives the verdict.

        `script` gives seed, knobs and interventions; another seed than 1 and knobs beside it replace its own. On "kafka" the
        trace is also kept in the topic `kit.trace.<run>`. KnobError for a bad knob, seed or backend; ScriptError for a
        script that cannot be read, is another experiment's, or does not fit; LabError when no broker can be had.
        `is_stopped` is asked at each step; once it says True the run ends with RunStopped, and leaves nothing open.
        """
        if script is None:
            return self._run(backend, seed, knobs, None, is_stopped=is_stopped)
        found = script if isinstance(script, Script) else Script.parse(script)
        if found.experiment != self.name:
            raise ScriptError(f"{self.name}: the script is one of {found.experiment}. Run it with that experiment.")
        knobs, seed = {**found.knobs, **knobs}, found.seed if seed == 1 else seed
        return self._run(backend, seed, knobs, None, found.interventions, is_stopped)

    def run_noting(self, seed: int = 1, **knobs: Any) -> tuple[Trace, Interventions]:
        """The run on the model without a script, and the messages that a script could have named in it."""
        noted = Interventions()
        return self._run("model", seed, knobs, None, noted=noted), noted

    def fork(self, trace: Trace, at: int, **knobs: Any) -> Trace:
        """The same run up to and including step `at`, then another future with these knobs.

        KnobError for a knob that is not live, when no knob is, and when `trace` is a fork itself or another experiment's;
        TraceError when `at` is no step of `trace`, or its last one, as nothing follows that could change.
        """
        trace.at(at)
        if at == len(trace) - 1:
            raise TraceError(
                f"{self.name}: step {at} is the last one, so a fork there would change nothing. "
                f"Go back to one of the steps 0 to {at - 1} and fork there."
            )
        if trace.parent is not None:
            raise KnobError(f"{self.name}: run {trace.run} is a fork already. Fork the run that it came from.")
        if trace.experiment != self.name:
            raise KnobError(f"{self.name}: run {trace.run} is one of {trace.experiment}. Fork it with that experiment.")
        live = {knob.name for knob in self.knobs if knob.live}
        if not live:
            raise KnobError(
                f"{self.name}: all of its knobs shape a run from its first step, so a fork cannot change anything. "
                "Run the experiment again with another knob value instead."
            )
        for name in knobs:
            if name not in live:
                raise KnobError(
                    f"{self.name}: {name} cannot change in the middle of a run, expected one of {', '.join(sorted(live))}. "
                    "Set it in a new run instead."
                )
        before = {name: value for name, value in trace.settings.items() if name in {knob.name for knob in self.knobs}}
        changed = settle(self.knobs, before | knobs, self.name)
        script = [Intervention.parse(line) for line in trace.script]
        forked = self._run(trace.backend, trace.seed, before, Fork(at, {name: changed[name] for name in knobs}), script)
        forked.settings, forked.parent = Settings(forked.settings | changed), {"run": trace.run, "at": at}
        if trace.backend == "model":
            forked.run = f"{trace.run}.fork{at}"  # on a broker the fork has topics and a name of its own
        return forked

    def _run(
        self, backend: str, seed: int, given: dict[str, Any], fork: Fork | None, script: Sequence[Intervention] = (),
        is_stopped: Callable[[], bool] | None = None, noted: Interventions | None = None,
    ) -> Trace:
        if self.manager is not None and not hasattr(self.kind, "manager_type"):
            raise KnobError(f"{self.name}: it has no PartitionManager, so `manager` cannot replace it. Leave it out.")
        settings = settle(self.knobs, given, self.name)
        for each in script:
            self.check_takes(each)
        interventions = Interventions.of(script) if noted is None else noted
        if backend not in BACKENDS:
            raise KnobError(f"{self.name}: backend is {str(backend)[:40]!r}, expected one of {', '.join(BACKENDS)}.")
        if backend == "kafka":
            self.check_real(script)
        if backend == "kafka" and self.model_only:
            raise KnobError(f"{self.name} runs on the model only: {self.model_only}. Run it with backend=\"model\".")
        domain = getattr(self.kind, "domain", "")
        if backend == "kafka":
            resolve_name("kitlib.experiments.groups.kafka_members:check_homes")(domain)
        if backend == "kafka" and "session_ms" in settings:
            resolve_name("kitlib.experiments.groups.kafka_members:fit_session")(self.knobs, settings, given)
        check_seed(seed, self.name)
        slug = self.name.replace("_", "-")
        run_name = f"{slug}-{uuid.uuid4().hex[:8]}" if backend == "kafka" else f"{slug}-model-{seed}"
        trace = Trace(run_name, self.name, backend, seed, settings, domain=domain, script=[*map(str, script)])
        trace.simulated = getattr(self.kind, "simulated", "") if backend == "kafka" else ""
        with backend_of(backend, run_name) as place:
            twin = getattr(self.kind, "on_kafka", "") if backend == "kafka" else ""
            run = (resolve_name(twin) if twin else self.kind)(trace, place, Settings(settings), fork)
            if script or noted is not None:
                run.interventions = interventions
            if is_stopped is not None:
                run.is_stopped = is_stopped
            if self.manager is not None:
                run.manager_type = self.manager
            try:
                run.tell(self.story, **settings.given(*_parameters(self.story)))
            except RunIsOver as over:
                trace.halt(over.max_steps)
            except LabError as error:
                if not script or backend != "model":
                    raise
                raise ScriptError(f"{self.name}: after what the script does, the story cannot go on: {error}") from error
            interventions.check_met(self.name, trace.steps[-1].at_ms if trace.steps else 0)
            place.publish(trace)
        return trace

    def __repr__(self) -> str:
        return f"<Experiment {self.name}: {self.title}>"


DECLARED: dict[str, Experiment] = {}  # by name: those whose modules are imported, and those of others than the kit


def experiment(
    title: str,
    kind: RunKind[Run],
    *,
    shared: Sequence[type] = (),
    max_steps: int = 2_000,
    front: Sequence[str] = (),
    model_only: str = "",
    figure: Figure | None = None,
) -> Callable[[Callable[Concatenate[Run, ...], None]], Experiment]:
    """The story that this decorates, as an experiment: its docstring is the question, its parameters are the knobs.

    `figure` is the number that the question asks for (`kitlib.monitor.figures`).

    The story is called with each knob's first value. It reads a live knob from `run.settings` where it needs the value of
    that moment, as a fork may change it. Knobs that a run reads by itself are declared as the annotated attributes of a
    class, for all experiments that have them; `shared` names those classes. An attribute without a default has that of
    `kitlib.settings`; a parameter may give another one. `front` names the three to five knobs that answer the question;
    without it they are the first of the story's own.
    """

    def declare(story: Callable[Concatenate[Run, ...], None]) -> Experiment:
        hints, parameters = get_type_hints(story, include_extras=True), signature(story).parameters
        knobs = {name: bind(name, hints.get(name), parameters[name].default) for name in _parameters(story)}
        for group in shared:
            for name, hint in get_type_hints(group, include_extras=True).items():
                knobs.setdefault(name, bind(name, hint, getattr(group, name, WITHOUT_KNOB.get(name))))
        beside = tuple(front) or tuple(knobs)[:MOST_IN_FRONT]
        for name in beside:
            if name not in knobs:
                raise KnobError(f"{story.__name__}: front names {name}, expected some of its knobs, {', '.join(knobs)}.")
        knobs["max_steps"] = replace(MAX_STEPS, default=max_steps)
        question = " ".join((story.__doc__ or "").split())
        name = story.__name__
        found = DECLARED[name] = Experiment(name, title, question, tuple(knobs.values()), story, kind, model_only, figure, beside)
        return found

    return declare


@cache
def _parameters(story: Callable[..., None]) -> tuple[str, ...]:
    """The names of a story's parameters behind the run, which are knobs."""
    return tuple(signature(story).parameters)[1:]


def open_backend(name: str, run: str) -> Backend:
    """The backend of this name for one run; the real one is imported only when it is asked for."""
    if name == "kafka":
        from kitlib.experiments.kafka_backend import KafkaBackend

        return KafkaBackend.open(run)
    from kitlib.experiments.backend import ModelBackend

    return ModelBackend(run)


@contextmanager
def backend_of(name: str, run: str) -> Iterator[Backend]:
    """The backend of this name, closed behind its run; a real run that fails tells what its broker ran out of."""
    with ExitStack() as undo:
        if name == "kafka":
            from kitlib.lab.kafka_server import telling_troubles

            undo.enter_context(telling_troubles())
        yield undo.enter_context(closing(open_backend(name, run)))
