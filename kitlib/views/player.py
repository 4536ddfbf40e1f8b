"""The player: an experiment with its knobs as sliders, and a trace to scrub, play and fork.

    Player("small_max_offset_behind")             # the sliders are made from the experiment's knobs
    Player("poison_record", seed=3, records=60)
    Player("poison_record", open_at="anomaly")    # opens where it goes wrong, not at the start
    Player(trace)                                 # a recorded run, to look at

The browser gets the frames of the whole trace and moves through them by itself; only a knob, the seed,
a fork and starting over come back here. While a knob is turned only the step that is shown is drawn; the
others follow when it rests. The JavaScript beside this file is plain and
complete: the parts are joined as they are, nothing is built and nothing is fetched.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from kitlib.errors import KitError, KnobError
from kitlib.experiments import get, names
from kitlib.experiments.experiment import Experiment
from kitlib.experiments.knobs import UNLIMITED, Knob
from kitlib.monitor.delivery import Verdict, judge
from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.buckets import FORGOTTEN, MIDDLE, NEWEST, OLDEST, TIMED_OUT
from kitlib.views.film import Film
from kitlib.views.frames import Frames, to_frames
from kitlib.views.lanes import MOST_DONE
from kitlib.views.lanes_look import CHAR, LANES_GEOMETRY, LOG_BOXES, MARKS, ROW_BOXES, SPEAK_FOR_THEMSELVES, WAYS
from kitlib.views.lanes_picture import ARROW, BOLD, MARK_ROOM, PRODUCER_PARTS
from kitlib.views.look import WIDTH
from kitlib.views.marks import marks_of, signs_of
from kitlib.views.marks import to_json as marks_to_json
from kitlib.views.partition_strip import strip_reel
from kitlib.views.picture import draw
from kitlib.views.plot import plot_reel
from kitlib.views.scene import scene_reel
from kitlib.views.scenes import kind_of
from kitlib.views.stage_picture import staged
from kitlib.views.svg import hatch
from kitlib.views.tree_look import (
    FLIPPED,
    LOOSE_MEANING,
    LOOSE_PAINT,
    STATUSES,
    TONES,
    TREE_GEOMETRY,
    TUPLE_LOOKS,
    TUPLE_TABLE,
)
from kitlib.words.glyphs import BLUE, RED

HERE = Path(__file__).parent
SCRIPTS = (
    "player_dom.js",
    "player_forest.js",
    "player_tree.js",
    "player_ledger.js",
    "player_buckets.js",
    "player_stage.js",
    "player_lanes.js",
    "player_batches.js",
    "player_film.js",
    "player_actors.js",
    "player_ruler.js",
    "player_controls.js",
    "player.js",
)
MANTISSAS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)  # the stops of a decade on a logarithmic slider
MAX_STOPS = 200
REST_S = 0.25  # how long no knob is turned until all steps are drawn
LONG_NUMBER = 11  # characters; beside a longer one there is no room for the unit
LOG_TOP = 10**6  # an unlimited slider counts to here; its last stop is "unlimited"

LOOK = {
    "tree": {
        "looks": [{name: getattr(look, name) for name in look.__slots__} for look in TUPLE_LOOKS],
        "table": TUPLE_TABLE,
        "loosePaint": LOOSE_PAINT,
        "looseMeaning": LOOSE_MEANING,
        "statuses": STATUSES,
        "tones": TONES,
        "flipped": FLIPPED,
        "labels": {"pending": [NEWEST, MIDDLE, OLDEST, TIMED_OUT], "entries": [NEWEST, MIDDLE, OLDEST, FORGOTTEN]},
        "geometry": TREE_GEOMETRY | {"width": WIDTH},
        "red": RED,
        "blue": BLUE,
    },
    "lanes": {
        "marks": [{name: getattr(look, name) for name in look.__slots__} for look in MARKS],
        "ways": [{name: getattr(look, name) for name in look.__slots__} for look in WAYS],
        "boxes": [{name: getattr(look, name) for name in look.__slots__} for look in (*ROW_BOXES, *LOG_BOXES)],
        "quiet": SPEAK_FOR_THEMSELVES,
        "arrow": ARROW,
        "bold": BOLD,
        "markRoom": MARK_ROOM,
        "mostDone": MOST_DONE,
        "char": CHAR,
        "geometry": LANES_GEOMETRY,
        "question": PRODUCER_PARTS["all"],
        "red": RED,
    },
    "red": RED,
}


class Player(anywidget.AnyWidget):
    """A widget that runs an experiment and plays its trace. `.trace` and `.verdict` are those shown now."""

    _esm = "\n".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    _css = (HERE / "player.css").read_text(encoding="utf-8")

    look = traitlets.Dict(LOOK).tag(sync=True)  # what the codes mean; the same for all players
    frames = traitlets.Bytes(b"").tag(sync=True)  # kitlib.views.frames, for the trace shown now
    heading = traitlets.Dict({}).tag(sync=True)  # title, question and knobs: sent once, as they never change
    told = traitlets.Dict({}).tag(sync=True)  # the answer to the browser's question with this `number`

    def __init__(
        self,
        what: str | Experiment | Trace,
        /,  # a knob may have this name
        *,
        backend: str = "model",
        seed: int = 1,
        part: str = "all",
        open_at: int | str = 0,
        **knobs: Any,
    ) -> None:
        """KnobError for a bad knob, seed or backend, for knobs given beside a recorded trace, and for a bad `open_at`.

        `part` is for traces that are drawn as a scene: which part of it (`kitlib.views.scenes`).
        `open_at` is the step that is shown first: its number, or "anomaly" for the first witness of the anomaly that
        the verdict names first (the start of a run without one). Where there are no widgets the picture is the last step's.
        """
        if isinstance(what, Trace) and (knobs or seed != 1):
            raise KnobError("Player: a recorded trace has no knobs to set. Give an experiment's name instead.")
        self.experiment: Experiment | None
        self.knobs: tuple[Knob, ...] = ()
        if isinstance(what, Trace):
            self.experiment = get(what.experiment) if what.experiment in names() else None
            self.trace = what
        else:
            self.experiment = get(what) if isinstance(what, str) else what
            self.knobs = self.experiment.knobs
            self.trace = self.experiment.run(backend=backend, seed=seed, **knobs)
        self.verdict: Verdict = judge(self.trace)
        self.part = part
        if part != "all" and ((kind := kind_of(self.trace)) is None or part not in kind.parts):
            parts = ", ".join(kind.parts) if kind else "all"
            raise KnobError(f"Player: there is no part {plain_text(part, 40)!r} to play. Expected one of {parts}.")
        self._first = self.trace  # where "start over" goes back to
        self._base: tuple[Trace, int] | None = None  # the run that was forked and the step, while one is
        super().__init__()
        self._rest: asyncio.TimerHandle | None = None  # to come: the pictures of the steps that are not shown
        self.heading = {
            "title": self.experiment.title if self.experiment else plain_text(self.trace.experiment),
            "question": self.experiment.question if self.experiment else "",
            "knobs": [_control(knob, self.trace) for knob in self.knobs],
        }
        self._publish(number=0, at=self._opening(open_at), is_set=True)
        self.on_msg(self._on_question)

    def _opening(self, asked: int | str) -> int:
        """The step to open at."""
        if asked == "anomaly":
            found = (self.verdict.first(kind).witness for kind in self.verdict.kinds)
            return next((witness for witness in found if witness is not None), 0)
        last = max(0, len(self.trace) - 1)
        if isinstance(asked, bool) or not isinstance(asked, int) or not 0 <= asked <= last:
            told = plain_text(repr(asked), 40)
            raise KnobError(f'Player: open_at is {told}, expected "anomaly" or a step of this run, 0 to {last}.')
        return asked

    def __repr__(self) -> str:
        return f"<Player of {plain_text(self.trace.experiment, 60)}: {self.verdict.sentence}>"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget; where there are no widgets (on GitHub, in print) the last step's picture, and else the sentence.

        A picture that cannot be moved shows the run's outcome, wherever the player opens.
        """
        shown = super()._repr_mimebundle_(**kwargs)
        data, metadata = shown if isinstance(shown, tuple) else (shown, {})
        picture = draw(to_frames(self.trace, self.part), len(self.trace) - 1)
        return {**(data or {}), "image/svg+xml": picture.svg, "text/plain": repr(self)}, metadata

    def _on_question(self, _widget: Any, question: dict[str, Any], _buffers: Any) -> None:
        """Answer the browser: always, or it would wait for ever; with a sentence when it cannot be done."""
        with _uncollected():
            self._answer(question)

    def _answer(self, question: dict[str, Any]) -> None:
        number, at, is_set, shown = int(question["number"]), -1, False, None
        try:
            match question["do"]:
                case "fork":
                    at = self._fork(int(question["at"]))
                case "start over":
                    self.trace, self._base, is_set = self._first, None, True
                case _:
                    self._rerun(question["knobs"], question["seed"])
                    last = len(self.trace) - 1
                    shown = min(int(question["shown"]), last) if "shown" in question and last >= 0 else None
            self.verdict = judge(self.trace)
        except KitError as error:
            self.told = {**self.told, "number": number, "error": str(error)}
            return
        except Exception as error:
            sentence = f"The kit itself failed ({type(error).__name__}). The kernel's log has the details; start over."
            self.told = {**self.told, "number": number, "error": sentence}
            raise
        self._publish(number=number, at=at, is_set=is_set, shown=shown)

    def _rerun(self, given: dict[str, Any], seed: Any) -> None:
        """Run anew with these knobs, or, while forked, let the fork's future follow anew."""
        if self.experiment is None:
            raise KnobError("Player: this is a recorded trace. Open its experiment to turn knobs.")
        if self._base is None:
            self.trace = self.experiment.run(backend=self.trace.backend, seed=_whole_seed(seed), **given)
            return
        by_name = {knob.name: knob for knob in self.knobs if knob.live}
        checked = {name: by_name[name].check(value) for name, value in given.items() if name in by_name}
        self.trace = self.experiment.fork(*self._base, **checked)

    def _fork(self, at: int) -> int:
        if self.experiment is None or not self.knobs:
            raise KnobError("Player: this is a recorded trace and cannot be forked. Open its experiment instead.")
        if self._base is not None:
            raise KnobError("Player: this run is forked already. Start over to fork it elsewhere.")
        base = self.trace
        self.trace = self.experiment.fork(base, at)
        self._base = (base, at)
        return at

    def _publish(self, *, number: int, at: int, is_set: bool, shown: int | None = None) -> None:
        """Show the trace: all steps, or first the one that is `shown` and the others when no knob is turned for a while."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        frames = to_frames(self.trace, self.part)
        values = {name: _value(value) for name, value in self.trace.knobs.items()}
        if shown is not None and frames.is_long and (loop := _running_loop()):
            self._rest = loop.call_later(REST_S, self._show_all, frames)
        else:
            shown = None
        with self.hold_sync():
            self.frames = played(frames, shown)
            self.told = {
                "number": number,
                "error": "",
                "at": at,  # the step to show; -1 leaves it to the browser
                "set": is_set,  # whether the controls are to follow
                "values": values,
                "seed": str(self.trace.seed),
                "verdict": _verdict(self.verdict),
                "marks": marks_to_json(signs_of(marks_of(self.trace, self.verdict), frames.clock)),
                "isWhole": shown is None,
            }

    def _show_all(self, frames: Frames) -> None:
        """Send the pictures of all steps of the run that is shown."""
        self._rest = None
        with _uncollected(), self.hold_sync():
            self.frames = played(frames)
            self.told = {**self.told, "isWhole": True}


@contextmanager
def _uncollected() -> Iterator[None]:
    """A run and its pictures make many small objects; a full collection amid them costs more than both."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    """The kernel's loop; None where nothing could be sent later."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def played(frames: Frames, only: int | None = None) -> bytes:
    """What the browser needs to show every step of a run, or of the strips and curves the step `only`, as compact JSON."""
    film = Film()
    if frames.scene:
        reels = [scene_reel(film, frames.scene)]
    else:
        plot, is_alone = plot_reel(film, frames, only), not (frames.forest or frames.space_time)
        strips = [strip_reel(film, frames.lanes, len(frames), only)] if frames.has_records or is_alone else []
        reels = [*strips, plot] if is_alone else [plot, *strips]
    row: dict[str, Any] = {"said": frames.said, "cut": frames.cut, "forked_at": frames.forked_at}
    row["isWhole"] = only is None
    row["forest"] = frames.forest.to_json() if frames.forest else None
    row["space_time"] = frames.space_time.to_json() if frames.space_time else None
    row["clock"] = frames.clock.to_json()
    row["stage"] = staged(film, frames, only)
    row["hatch"] = film.add(hatch())
    row["reels"] = [reel.to_json() for reel in reels]
    return json.dumps(row | film.to_json(), separators=(",", ":")).encode()


def _verdict(verdict: Verdict) -> dict[str, Any]:
    anomalies = []
    for kind, count in verdict.counts.items():
        first = verdict.first(kind)
        row = {"kind": kind, "count": count, "witness": first.witness, "reason": first.reason}
        anomalies.append(row | {"isViolation": kind in verdict.violations})
    return {"sentence": verdict.sentence, "anomalies": anomalies}


def _value(value: Any) -> Any:
    """A knob's value for the browser: numbers as text, as JavaScript cannot hold 2^63 - 1."""
    return value if isinstance(value, bool) else str(value)


def _control(knob: Knob, trace: Trace) -> dict[str, Any]:
    """A knob as the browser needs it: its stops, and where it stands."""
    value = trace.knobs.get(knob.name, knob.default)
    return {
        "name": knob.name,
        "kind": knob.kind,
        "help": knob.help,
        "live": knob.live,
        "isSlow": trace.backend != "model",  # run at the end of a move, not during it
        "value": _value(value),
        "stops": [{"value": _value(stop), "label": _label(knob, stop)} for stop in stops_of(knob, value)],
    }


def _label(knob: Knob, value: Any) -> str:
    if value == UNLIMITED:
        return "unlimited"
    number = f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
    return number if len(number) > LONG_NUMBER else knob.with_unit(number)


def stops_of(knob: Knob, value: Any) -> list[Any]:
    """The values at which a knob's slider stops, `value` and the default among them, in order."""
    if knob.kind == "choice":
        return list(knob.choices)
    if knob.kind == "bool":
        return []
    found: Iterable[float]
    if knob.scale == "log":
        found = _log_stops(knob)
    elif knob.kind == "int" and knob.high - knob.low <= MAX_STOPS:
        found = range(int(knob.low), int(knob.high) + 1)
    elif knob.kind == "int":  # a long way: one by one where it matters, then by steps that grow
        found = [*range(int(knob.low), 61), *_log_stops(knob)]
    else:
        found = (knob.low + (knob.high - knob.low) * part / 100 for part in range(101))
    kind = int if knob.kind == "int" else float
    stops = {kind(round(stop, 6)) if stop != UNLIMITED else UNLIMITED for stop in found}
    return sorted(stop for stop in stops | {value, knob.default, kind(knob.low)} if knob.low <= stop <= knob.high)


def _log_stops(knob: Knob) -> list[float]:
    """1, 1.2, 1.5, 2, ... in every decade of the range, and its ends."""
    top = LOG_TOP if knob.high == UNLIMITED else knob.high
    decades = range(-3 if knob.kind == "float" else 0, 20)
    stops = [mantissa * 10.0**decade for decade in decades for mantissa in MANTISSAS]
    inside = [stop for stop in stops if knob.low <= stop <= top]
    return [knob.low, *inside, UNLIMITED if knob.high == UNLIMITED else knob.high]


def _whole_seed(seed: Any) -> int:
    text = str(seed).strip()
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise KnobError(f"seed is {plain_text(seed, 40)!r}, expected a whole number from 0 on.")
    return int(text)
