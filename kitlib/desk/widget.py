"""The desk in a notebook: sliders and buttons that act on running parts, charts that move each second, and three lamps.

    desk = Desk(rate=500, idempotence=False)   # starts; some seconds, of which Spark's start takes most (wait=False: meanwhile, go on)
    desk                                       # shows it
    desk.drain()                               # lets all come to rest, and compares the three counts
    desk.player()                              # the spout's last steps
    desk.stop()                                # and nothing is left behind

What the page asks for takes place in a thread, so that the kernel stays free; where there are no widgets (on GitHub, in print) the
desk is its charts. A kernel that ends stops its desk; what a kernel leaves that was killed, `kit reset` removes.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anywidget
import traitlets

from kitlib.desk.lamps import Drained
from kitlib.desk.picture import dark_lamps, draw, sentence
from kitlib.desk.run import DeskRun
from kitlib.desk.settings import KNOBS
from kitlib.errors import KitError
from kitlib.pipelines.waiting import as_last_time
from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.browser.controls import to_control, to_label, to_text
from kitlib.views.browser.player import STYLES, Player, joined

LOOK_S = 1.0
# Not max_in_flight: answers on one machine come within milliseconds, so it moves a curve only beside lost answers without idempotence.
FRONT = ("max_offset_behind", "max_spout_pending", "rate", "bolt_rate", "idempotence", "lost_answers")
SCRIPTS = ("player_dom.js", "player_controls.js", "player_knobs.js")
ACTIONS = ("set", "do", "drain", "resume", "stop")  # what a page may ask for
EVENTS_SHOWN = 5
HERE = Path(__file__).parent


class Desk(anywidget.AnyWidget):
    """A `DeskRun` and its controls. `run` is the run itself; `sentence` says how it goes.

    `front` names the knobs beside the charts, and `deeds` the buttons for faults. With `wait=False` the desk is there at once, tells
    how long Spark has been starting, and its methods wait until it runs.
    KnobError for a bad setting, LabError when a part cannot be had; then nothing is left running.
    """

    _esm = "\n".join([joined(SCRIPTS), (HERE / "desk.js").read_text(encoding="utf-8")])
    _css = "\n".join([joined(STYLES[:1]), (HERE / "desk.css").read_text(encoding="utf-8")])

    heading = traitlets.Dict({}).tag(sync=True)  # the knobs and the buttons: sent once
    told = traitlets.Dict({}).tag(sync=True)  # the knobs' values, and a sentence when something could not be done
    look = traitlets.Dict({}).tag(sync=True)  # phase, picture, sentence, lamps and what happened

    def __init__(self, *, wait: bool = True, front: Sequence[str] = FRONT, deeds: Sequence[str] = (), **settings: Any) -> None:
        self.run = DeskRun(**settings)
        super().__init__()
        trace = Trace(self.run.run, "desk", "kafka", 1, dict(self.run.settings))  # a run of the broker: its knobs act at the end of a move
        self.marks: list[tuple[float, str]] = []  # what was done to it, for the charts
        self._ended = threading.Event()
        self._publish("")
        self.on_msg(self._on_question)
        self._starting = ThreadPoolExecutor(1, f"kit-desk-start-{self.run.run}").submit(self.run.start)
        if wait:
            self._starting.result()
        atexit.register(self.stop)
        self.heading = {"knobs": [to_control(knob, trace) for knob in KNOBS], "front": [*front], "deeds": [*(deeds or self.run.deeds)]}
        self._show()
        threading.Thread(target=self._look_on, name=f"kit-desk-look-{self.run.run}", daemon=True).start()

    # For a notebook's cells

    @property
    def sentence(self) -> str:
        """How it goes, or what was found."""
        if self.run.phase in ("new", "starting"):
            return f"Spark is starting, for {self.run.seconds:.0f} s now; {as_last_time()}. Read on meanwhile."
        if self.run.drained is not None and self.run.phase in ("drained", "stopped"):
            return self.run.drained.sentence
        return sentence(self.run.snapshots[-1]) if self.run.snapshots else "The desk has just begun."

    def set(self, **settings: Any) -> None:
        """Turn knobs; they act on the running parts, and the sliders follow. KnobError for a bad one."""
        self.run.set(**settings)
        self._mark(", ".join(settings))
        self._publish("")
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
        self._publish(" ".join(self.run.problems))
        self._show()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        return self.sentence

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget; where there are no widgets the charts, and else the sentence."""
        shown = super()._repr_mimebundle_(**kwargs)
        data, metadata = shown if isinstance(shown, tuple) else (shown, {})
        return {**(data or {}), "image/svg+xml": self.svg(with_lamps=True), "text/plain": self.sentence}, metadata

    def svg(self, *, with_lamps: bool = False) -> str:
        """The charts as a picture, with the lamps if they were compared."""
        drained = self.run.drained if with_lamps else None
        lamps, said = (drained.lamps, drained.sentence) if drained else ((), "")
        return draw(list(self.run.snapshots), list(self.marks), lamps, said)

    # What the page asks for, and what it is told

    def _on_question(self, _widget: Any, question: Any, _buffers: Any) -> None:
        """Do it in a thread: a drain takes seconds, and the kernel is free meanwhile."""
        if isinstance(question, dict) and question.get("ask") in ACTIONS:
            threading.Thread(target=self._answer, args=(question,), name=f"kit-desk-ask-{self.run.run}", daemon=True).start()

    def _answer(self, question: dict[str, Any]) -> None:
        try:
            match question["ask"]:
                case "set":
                    self.set(**{str(name): value for name, value in dict(question.get("values") or {}).items()})
                case "do":
                    self.do(str(question.get("deed")))
                case without_more:
                    getattr(self, without_more)()
        except KitError as error:
            self._publish(str(error))
        except Exception as error:
            self._publish(f"The kit itself failed ({type(error).__name__}), which is a bug. Stop the desk and start another one.")
            raise

    def _look_on(self) -> None:
        """A look each second, until the desk is stopped."""
        due = time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            due = max(due + LOOK_S, time.monotonic() + LOOK_S / 2)
            try:
                if self._starting.done():
                    self._starting.result()
                    self.run.snapshot()
            except KitError as error:
                if self.run.phase == "stopped":
                    return
                self._publish(str(error))
            self._show()

    def _mark(self, what: str) -> None:
        at_s = self.run.seconds
        others = [mark for mark in self.marks[-50:] if mark[1] != what or at_s - mark[0] > 2 * LOOK_S]  # a slider moves step by step
        self.marks = [*others, (at_s, what)]

    def _publish(self, error: str) -> None:
        values = self.run.settings
        self.told = {
            "values": {name: to_text(value) for name, value in values.items()},
            "labels": {knob.name: to_label(knob, values[knob.name]) for knob in KNOBS},
            "error": plain_text(error, 600),
        }

    def _show(self) -> None:
        run = self.run
        lamps = [lamp.to_json() for lamp in run.drained.lamps] if run.drained and run.phase != "running" else dark_lamps()
        happened = [f"{at_s:,.0f} s: {plain_text(said, 300)}" for at_s, said in list(run.events)[-EVENTS_SHOWN:]]
        self.look = {
            "phase": run.phase, "picture": self.svg(), "sentence": self.sentence, "lamps": lamps, "happened": happened,
        }  # fmt: skip
