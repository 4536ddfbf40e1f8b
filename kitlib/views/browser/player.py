"""The player: an experiment with its knobs as sliders, and a trace to scrub, play and fork.

    Player("small_max_offset_behind")             # the sliders are made from the experiment's knobs
    Player("poison_record", seed=3, records=60)
    Player("poison_record", open_at="anomaly")    # opens where it goes wrong, not at the start
    Player(trace)                                 # a recorded run, to look at
    Player("poison_record").save("poison.html")   # one file that anyone can scrub, without a kernel

The browser gets the frames of the whole trace and moves through them by itself; only a knob, the seed,
a fork and starting over come back here, to a `Session` (kitlib/views/browser/session.py). While a knob is turned
only the step that is shown is drawn; the page asks for the others when it rests. The JavaScript beside this file is
plain and complete: the parts are joined as they are, nothing is built and nothing is fetched.

Where an experiment can run on the real broker the page has a switch for it. Such a run is a `LiveRun`, in a thread, so that kernel
and page stay alive: the page hears what is being done and for how long, and at its end a sentence says whether model and broker
agree. One that is not waited for any more is cancelled: it ends at its next step, and closes what it opened.

A player composes with other widgets: `values`, `seed`, `step`, `sentence`, `trace` and `verdict` are traitlets.

    player.values = {"records": 60}               # runs anew; the other knobs stay
    player.observe(lambda change: print(change.new), "verdict")
    jslink((player, "step"), (slider, "value"))   # of ipywidgets
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import anywidget
import traitlets

from kitlib.errors import KitError
from kitlib.experiments.experiment import Experiment
from kitlib.experiments.knobs import UNLIMITED, Knob
from kitlib.experiments.run import RunStopped
from kitlib.experiments.script import Script
from kitlib.monitor.delivery import Verdict, judge
from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.browser.played import packed
from kitlib.views.browser.session import Session, whole_seed
from kitlib.views.frames import to_frames
from kitlib.views.picture import draw

LOOK_S = 0.25  # how often the page hears of a run that is under way
IDLE = {"state": "idle", "doing": "", "elapsed_s": 0, "sentence": ""}  # what a page is told when no run is under way


@dataclass(slots=True)
class LiveRun:
    """One run of a script on the real broker, in a thread that begins at once."""

    experiment: Experiment
    script: Script
    trace: Trace | None = None  # once it is over
    error: str = ""  # why there will be none
    doing: str = "Looking for the broker."
    began: float = field(default_factory=time.monotonic)
    is_cancelled: bool = False  # it ends at its next step, and what has come of it is dropped
    thread: Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = Thread(target=self._run, name=f"kit-live-{self.experiment.name}", daemon=True)
        self.thread.start()

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


def agreement(real: Trace, experiment: Experiment, script: Script) -> dict[str, Any]:
    """What the page shows of a run on the broker that is over: whether the model's verdict on the same script agrees."""
    model, broker = judge(experiment.run(script=script)), judge(real)
    where = model.parts_from(broker)
    state = "parts" if where else "agrees"
    return {**IDLE, "state": state, "sentence": where or f"Model and broker agree: {broker.found}."}


HERE = Path(__file__).parent
SCRIPTS = (*sorted(path.name for path in HERE.glob("player_*.js")), "player.js")
STYLES = tuple(sorted(path.name for path in HERE.glob("player*.css")))
SWITCH = ("real", "model", "cancel")  # what the page asks of the switch to the broker
SENT_S = 0.05  # how long an answer takes to leave the kernel


def joined(names: Iterable[str]) -> str:
    """The text of these files beside this one, one behind the other."""
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)


def with_still(shown: Any, still: dict[str, str]) -> Any:
    """What Jupyter shows of a widget, and by type what it shows where there are no widgets."""
    data, metadata = shown if isinstance(shown, tuple) else (shown, {})
    return {**(data or {}), **still}, metadata


def _whole(number: Any, _widget: Any) -> Any:
    """A number for the page; as text where JavaScript would round it."""
    if isinstance(number, bool) or not isinstance(number, int) or abs(number) < 2**53:
        return number
    return "unlimited" if number == UNLIMITED else str(number)


class Player(anywidget.AnyWidget):
    """A widget that runs an experiment and plays its trace.

    `values` (each knob's value), `seed` and `step` are those shown now, and can be set; `trace`, `verdict` and `sentence`
    (the verdict's) follow. All six can be observed. Setting `values` runs anew: knobs that are not named stay, and a bad
    one is a KnobError. A `step` outside of the run moves to its nearest end.
    """

    _esm = joined(SCRIPTS)
    _css = joined(STYLES)

    frames = traitlets.Bytes(b"").tag(sync=True)  # kitlib.views.browser.played, for the trace shown now, packed where it is long
    heading = traitlets.Dict({}).tag(sync=True)  # title, question and knobs: sent once, as they never change
    told = traitlets.Dict({}).tag(sync=True)  # the answer to the browser's question with this `number`
    values = traitlets.Dict({}).tag(sync=True, to_json=lambda found, _widget: {name: _whole(each, _widget) for name, each in found.items()})
    seed = traitlets.Int(1).tag(sync=True, to_json=_whole, from_json=lambda text, _widget: whole_seed(text))
    step = traitlets.Int(0).tag(sync=True, echo_update=False)  # an echo would move a page that is further already
    sentence = traitlets.Unicode("", read_only=True).tag(sync=True)
    trace = traitlets.Instance(Trace, read_only=True)
    verdict = traitlets.Instance(Verdict, read_only=True)
    live = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)  # of the switch to the real broker; None where there is none

    def __init__(
        self,
        what: str | Experiment | Trace | Script,
        /,  # a knob may have this name
        *,
        backend: str = "model",
        seed: int = 1,
        part: str = "all",
        open_at: int | str = 0,
        front: Sequence[str] = (),
        **knobs: Any,
    ) -> None:
        """`what` is an experiment or its name, a script or its text, or a recorded trace.

        KnobError for a bad knob, seed, backend or script, for knobs given beside a recorded trace, and for a bad
        `open_at` or `front`.
        `part` is for traces that are drawn as a scene: which part of it (`kitlib.views.scene`).
        `open_at` is the step that is shown first: its number, or "anomaly" for the first witness of the anomaly that
        the verdict names first (the start of a run without one). Where there are no widgets the picture is the last step's.
        `front` names the knobs that stand beside the picture, instead of those that the experiment puts there.
        """
        self.session = Session(what, backend=backend, seed=seed, part=part, open_at=open_at, front=front, knobs=knobs)
        self._is_telling = False  # while the traitlets follow the session
        super().__init__()
        self.heading = self.session.heading
        self._live: LiveRun | None = None  # the run on the broker that is waited for
        if self.experiment is not None and self.knobs and not self.experiment.model_only:
            self.session.backend, self.live = "model", IDLE  # the broker is asked by the switch
            self._say_agreement()
        self._publish()
        self.on_msg(self._on_question)

    @property
    def experiment(self) -> Experiment | None:
        """What runs; None for a recorded trace of an experiment that this kit does not have."""
        return self.session.experiment

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """The experiment's knobs; none for a recorded trace."""
        return self.session.knobs

    def save(self, path: str | Path, *, open_at: int | str = 0, overwrite: bool = False) -> Path:
        """Write the run that is shown now as one HTML file that anyone can scrub and play, without a kernel; the file's path.

        KnobError when the name does not end in .html, or for a bad `open_at`; DiskError when the file is there already, unless
        `overwrite`, or cannot be written.
        """
        from kitlib.views.browser.saved_page import save

        return save(self.trace, Path(path), part=self.session.part, open_at=open_at, overwrite=overwrite, who="Player.save")

    def __repr__(self) -> str:
        return f"<Player of {plain_text(self.trace.experiment, 60)}: {self.verdict.sentence}>"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget; where there are no widgets (on GitHub, in print) the last step's picture, and else the sentence.

        A picture that cannot be moved shows the run's outcome, wherever the player opens.
        """
        picture = draw(to_frames(self.trace, self.session.part), len(self.trace) - 1)
        return with_still(super()._repr_mimebundle_(**kwargs), {"image/svg+xml": picture.svg, "text/plain": repr(self)})

    def _on_question(self, _widget: Any, question: dict[str, Any], _buffers: Any) -> None:
        """Answer the browser."""
        if question["do"] in SWITCH:
            self._switch(question["do"])
            return
        if question["do"] != "complete":
            self._leave_broker()
        gc.disable()  # the garbage of a run is collected when its picture is on its way
        try:
            self.session.answer(question)
            self._say_agreement()
        finally:
            self._publish()
            if loop := _running_loop():
                loop.call_later(SENT_S, gc.enable)
            else:
                gc.enable()

    def _switch(self, to: str) -> None:
        """Run what is shown on the real broker, or on the model again; or cancel the run on the broker."""
        if to == "real" and self._live is None and self.live is not None and self.experiment is not None:
            try:
                self._live = LiveRun(self.experiment, self.session.script())
            except KitError as error:
                self.live = {**IDLE, "state": "failed", "sentence": str(error)}
                return
            self._look()
        elif to != "real":
            was_shown = self.session.trace.backend == "kafka"
            self._leave_broker()
            if to == "model" and was_shown:
                self.session.turn(self.values, self.seed)
                self._publish()

    def _look(self) -> None:
        """Tell how the run on the broker goes, now and every while; show it when it is over."""
        run = self._live
        if run is None:
            return
        if run.thread.is_alive():
            self.live = {**IDLE, "state": "running", "doing": run.doing, "elapsed_s": int(time.monotonic() - run.began)}
            if loop := _running_loop():
                loop.call_later(LOOK_S, self._look)
            return
        self._live = None
        if run.trace is None:
            self.live = {**IDLE, "state": "failed", "sentence": run.error}
            return
        self.session.show(run.trace)
        self._publish()
        self.live = agreement(run.trace, run.experiment, run.script)

    def _leave_broker(self) -> None:
        """What the broker said holds for other settings, or its run is not wanted any more."""
        if self._live is not None:
            self._live.is_cancelled = True
        self._live = None
        if self.live is not None:
            self.live = IDLE

    def _say_agreement(self) -> None:
        """Say whether both agree of the run on the broker that the player was opened with."""
        if self.live is not None and self.experiment is not None and self.session.trace.backend == "kafka":
            self.live = agreement(self.session.trace, self.experiment, self.session.script())

    def _publish(self) -> None:
        """Send what has changed, and tell those who observe."""
        session = self.session
        self._is_telling = True
        try:
            with self.hold_sync(), self.hold_trait_notifications():
                self.frames, self.told = packed(session.frames), session.told
                self.values, self.seed = dict(session.trace.settings), session.trace.seed
                self.step = self._inside(session.told["at"] if session.told["at"] >= 0 else self.step)
                for name, value in (("sentence", session.verdict.sentence), ("trace", session.trace), ("verdict", session.verdict)):
                    self.set_trait(name, value)
        finally:
            self._is_telling = False

    def _inside(self, step: int) -> int:
        return max(0, min(step, len(self.session.trace) - 1))

    @traitlets.validate("step")
    def _check_step(self, proposal: Any) -> int:
        return self._inside(proposal["value"])

    @traitlets.validate("values")
    def _check_values(self, proposal: Any) -> dict[str, Any]:
        value: dict[str, Any] = proposal["value"]
        return value if self._is_telling else self.session.check(value)

    @traitlets.validate("seed")
    def _check_seed(self, proposal: Any) -> int:
        return int(proposal["value"]) if self._is_telling else whole_seed(proposal["value"])

    @traitlets.observe("values", "seed")
    def _on_set(self, _change: Any) -> None:
        """Someone else than the page has set knobs or the seed."""
        shown = self.session.trace
        if self._is_telling or (self.values, self.seed) == (shown.settings, shown.seed):
            return
        self._leave_broker()
        try:
            self.session.turn(self.values, self.seed)
        finally:
            self._publish()

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """What a page or a linked widget has set. What cannot be set is told in the player, and taken back."""
        try:
            super().set_state(sync_data)
        except KitError as error:
            self.session.refuse(error)
            self._publish()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The kernel's loop; None where nothing could be sent later."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
