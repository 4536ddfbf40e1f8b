"""The desk in a notebook: sliders and buttons that act on running parts, charts that move each second, and three lamps.

    desk = Desk(rate=500, idempotence=False)   # starts; some seconds, of which Spark's start takes most (wait=False: meanwhile, go on)
    desk                                       # shows it
    desk.drain()                               # lets all come to rest, and compares the three counts
    desk.player()                              # the spout's last steps
    desk.stop()                                # and nothing is left behind

What a control asks for takes place in a thread, so that the kernel stays free; where there are no widgets (on GitHub, in print) the
desk is its charts. A kernel that ends stops its desk; what a kernel leaves that was killed, `kit reset` removes.
"""

from __future__ import annotations

import atexit
import html
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import ipywidgets

from kitlib.desk.lamps import DARK, Drained
from kitlib.desk.picture import draw, sentence
from kitlib.desk.run import DeskRun
from kitlib.desk.settings import KNOBS
from kitlib.errors import KitError
from kitlib.experiments.knobs import Knob
from kitlib.spark.server import last_start
from kitlib.text import plain_text
from kitlib.views.browser.asking import TypeOn
from kitlib.views.browser.controls import stops_of, to_label
from kitlib.views.browser.player import Player, with_still

LOOK_S = 1.0
# Not max_in_flight: answers on one machine come within milliseconds, so it moves a curve only beside lost answers without idempotence.
FRONT = ("max_offset_behind", "max_spout_pending", "rate", "bolt_rate", "idempotence", "lost_answers")
EVENTS_SHOWN = 5
BUSY = ("new", "starting", "draining")  # phases in which nothing but an end can be asked for
COLUMNS = {"grid_template_columns": "repeat(auto-fill, minmax(400px, 1fr))"}


class Desk(ipywidgets.VBox):  # type: ignore[misc]  # has no types
    """A `DeskRun` and its controls. `run` is the run itself, `knobs` its controls by name; `sentence` says how it goes.

    `front` names the knobs above the charts, and `deeds` the buttons for faults. With `wait=False` the desk is there at once, tells
    how long Spark has been starting, and its methods wait until it runs.
    KnobError for a bad setting, LabError when a part cannot be had; then nothing is left running.
    """

    def __init__(self, *, wait: bool = True, front: Sequence[str] = FRONT, deeds: Sequence[str] = (), **settings: Any) -> None:
        self.run = DeskRun(**settings)
        self.marks: list[tuple[float, str]] = []  # what was done to it, for the charts
        self._ended = threading.Event()
        self._starting = ThreadPoolExecutor(1, f"kit-desk-start-{self.run.run}").submit(self.run.start)
        if wait:
            self._starting.result()
        atexit.register(self.stop)
        self.knobs = {knob.name: self._control(knob) for knob in KNOBS}
        self._deeds = [self._button(deed, lambda deed=deed: self.do(deed)) for deed in deeds or self.run.deeds]  # type: ignore[misc]
        self._drain = self._button("drain and compare", lambda: self.resume() if self.run.phase == "drained" else self.drain())
        self._stop = self._button("stop", self.stop)
        self._told, self._charts, self._happened = (ipywidgets.HTML() for _ in range(3))
        folded = ipywidgets.GridBox([control for name, control in self.knobs.items() if name not in front], layout=COLUMNS)
        more = [ipywidgets.Accordion([folded], titles=(f"More settings ({len(folded.children)})",))] if folded.children else []
        above = ipywidgets.GridBox([self.knobs[name] for name in front], layout=COLUMNS)
        buttons = ipywidgets.HBox([*self._deeds, self._drain, self._stop], layout={"flex_flow": "row wrap"})
        super().__init__(
            [above, *more, buttons, self._told, self._charts, self._happened, TypeOn()], layout={"max_width": "920px"}
        )
        self.add_class("kit-desk")
        self._show()
        threading.Thread(target=self._look_on, name=f"kit-desk-look-{self.run.run}", daemon=True).start()

    def _control(self, knob: Knob) -> Any:
        """ipywidgets' own control for a knob; the end of a move reaches the run."""
        value = self.run.settings[knob.name]
        told = {"description": knob.name, "tooltip": knob.help, "style": {"description_width": "140px"}, "layout": {"width": "auto"}}
        control: Any
        if knob.kind == "bool":
            control = ipywidgets.Checkbox(value, **told)
        elif knob.kind == "choice":
            control = ipywidgets.Dropdown(options=knob.choices, value=value, **told)
        else:
            control = ipywidgets.SelectionSlider(options=_options(knob, value), value=value, continuous_update=False, **told)

        def turned(change: dict[str, Any]) -> None:
            if change["new"] != self.run.settings[knob.name]:
                self._ask(lambda: self.set(**{knob.name: change["new"]}))

        control.observe(turned, "value")
        return control

    def _button(self, deed: str, action: Callable[[], Any]) -> Any:
        button = ipywidgets.Button(description=deed[0].upper() + deed[1:], layout={"width": "auto"})
        button.on_click(lambda _: self._ask(action))
        return button

    # For a notebook's cells

    @property
    def sentence(self) -> str:
        """How it goes, or what was found."""
        if self.run.phase in ("new", "starting"):
            return f"Spark is starting, for {self.run.seconds:.0f} s now; {last_start()}. Read on meanwhile."
        if self.run.drained is not None and self.run.phase in ("drained", "stopped"):
            return self.run.drained.sentence
        return sentence(self.run.snapshots[-1]) if self.run.snapshots else "The desk has just begun."

    def set(self, **settings: Any) -> None:
        """Turn knobs; they act on the running parts, and the sliders follow. KnobError for a bad one."""
        self.run.set(**settings)
        self._mark(", ".join(settings))
        self._show()

    def do(self, deed: str) -> None:
        """Press a button: "database away", "kill broker" or "kill spout"."""
        self._starting.result()
        self.run.do(deed)
        self._mark(deed)
        self._show()

    def wait(self, seconds: float) -> Self:
        """Let it run for so long, and show it then; the same desk. It may take less, when the desk is stopped."""
        self._starting.result()
        self._ended.wait(seconds)
        return self

    def drain(self) -> Drained:
        """Let everything come to rest, and compare the three counts; see `DeskRun.drain`."""
        self._starting.result()
        self._mark("drain")
        try:
            return self.run.drain()
        finally:
            self._show()

    def resume(self) -> None:
        """Go on after a drain."""
        self.run.resume()
        self._show()

    def player(self) -> Player:
        """The spout's last steps, to scrub through."""
        return Player(self.run.trace())

    def stop(self) -> None:
        """End every part and remove what was made; the charts stay."""
        self.run.stop()
        self._ended.set()
        atexit.unregister(self.stop)
        self._say(" ".join(self.run.problems))
        self._show()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        return self.sentence

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget; where there are no widgets the charts, and else the sentence."""
        return with_still(super()._repr_mimebundle_(**kwargs), {"image/svg+xml": self.svg(), "text/plain": self.sentence})

    def svg(self) -> str:
        """The charts, the three lamps and the sentence as a picture."""
        drained = self.run.drained if self.run.phase != "running" else None
        return draw(list(self.run.snapshots), list(self.marks), drained.lamps if drained else DARK, self.sentence)

    # What a control asks for, and what is told

    def _ask(self, action: Callable[[], Any]) -> None:
        """Do it in a thread: a drain takes seconds, and the kernel is free meanwhile."""
        self._say("")
        threading.Thread(target=self._answer, args=(action,), name=f"kit-desk-ask-{self.run.run}", daemon=True).start()

    def _answer(self, action: Callable[[], Any]) -> None:
        try:
            action()
        except KitError as error:
            self._say(str(error))
            self._show()  # a knob that was refused goes back
        except Exception as error:
            self._say(f"The kit itself failed ({type(error).__name__}), which is a bug. Stop the desk and start another one.")
            raise

    def _say(self, error: str) -> None:
        self._told.value = f'<b role="alert">{html.escape(plain_text(error, 600))}</b>' if error else ""

    def _look_on(self) -> None:
        """A look each second, until the desk is stopped."""
        while not self._ended.wait(LOOK_S):
            try:
                if self._starting.done():
                    self._starting.result()
                    self.run.snapshot()
            except KitError as error:
                if self.run.phase == "stopped":
                    return
                self._say(str(error))
            self._show()

    def _mark(self, what: str) -> None:
        at_s = self.run.seconds
        others = [mark for mark in self.marks[-50:] if mark[1] != what or at_s - mark[0] > 2 * LOOK_S]  # a slider moves step by step
        self.marks = [*others, (at_s, what)]

    def _show(self) -> None:
        run, phase = self.run, self.run.phase
        for knob in KNOBS:
            control, value = self.knobs[knob.name], run.settings[knob.name]
            control.disabled = phase == "stopped"
            if control.value != value:
                if isinstance(control, ipywidgets.SelectionSlider):
                    control.options = _options(knob, value)  # what was set in Python may lie between two stops
                control.value = value
        self._drain.description = {"drained": "Go on", "draining": "Draining"}.get(phase, "Drain and compare")
        for button in (*self._deeds, self._drain, self._stop):
            button.disabled = phase == "stopped" or (phase in BUSY and button is not self._stop)
        self._charts.value = self.svg()
        happened = [f"{at_s:,.0f} s: {plain_text(said, 300)}" for at_s, said in list(run.events)[-EVENTS_SHOWN:]]
        self._happened.value = f'<div style="line-height: 1.5">{"<br>".join(map(html.escape, happened))}</div>'


def _options(knob: Knob, value: Any) -> list[tuple[str, Any]]:
    """A slider's stops, `value` among them, each with what stands beside the slider."""
    return [(to_label(knob, stop), stop) for stop in stops_of(knob, value)]
