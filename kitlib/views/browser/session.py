"""A run and what it answers to the page that plays it: the player's half beside the models, without any widget.

    session = Session("poison_record", seed=3, knobs={"records": 60})
    session.answer({"number": 1, "do": "fork", "at": 40})
    session.told, session.frames              # what the page is to show now

A notebook's `Player` puts a session behind a widget; the site of `kit page` puts one behind a web worker.
"""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kitlib.errors import KitError, KnobError
from kitlib.experiments import get, names
from kitlib.experiments.experiment import Experiment
from kitlib.experiments.grid import uncollected
from kitlib.experiments.knobs import Knob, as_text, settle
from kitlib.experiments.script import Intervention, Script, with_deed
from kitlib.monitor.delivery import Verdict, judge
from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.browser.controls import to_control, to_label, to_text
from kitlib.views.browser.outcome import Comparison, Outcome, parting
from kitlib.views.browser.played import played
from kitlib.views.frames import Frames, to_frames
from kitlib.views.play_clock import marks_of, signs_of
from kitlib.views.scene import kind_of


class Session:
    """A trace, the experiment it came from, and what a page is told of it.

    `heading` never changes: title, question and knobs. `frames` are the pictures of `trace` (kitlib.views.browser.played);
    `told` is the answer to the question with its `number`: a dict that JSON can hold.
    """

    def __init__(
        self,
        what: str | Experiment | Trace | Script,
        *,
        backend: str = "model",
        seed: int = 1,
        part: str = "all",
        open_at: int | str = 0,
        front: Sequence[str] = (),
        knobs: dict[str, Any] | None = None,
    ) -> None:
        """As `Player`. KnobError for a bad knob, seed, backend, part or `open_at`, and for knobs beside a recorded trace."""
        if isinstance(what, str) and len(what.split()) > 1:
            what = Script.parse(what)
        if isinstance(what, Trace) and (knobs or seed != 1):
            raise KnobError("Player: a recorded trace has no knobs to set. Give an experiment's name instead.")
        given = dict(knobs or {})
        manager = given.pop("manager", None)
        self.experiment: Experiment | None
        self.knobs: tuple[Knob, ...] = ()
        if isinstance(what, Trace):
            self.experiment = get(what.experiment) if what.experiment in names() else None
            self.trace = what
        else:
            script = what if isinstance(what, Script) else None
            named = what.experiment if isinstance(what, Script) else what
            found = get(named) if isinstance(named, str) else named
            self.experiment = found if manager is None else replace(found, manager=manager)
            self.knobs = self.experiment.knobs
            self.trace = self.experiment.run(backend=backend, seed=seed, script=script, **given)
        self.verdict: Verdict = judge(self.trace)
        self.part = part
        if part != "all" and ((kind := kind_of(self.trace)) is None or part not in kind.PARTS):
            parts = ", ".join(kind.PARTS) if kind else "all"
            raise KnobError(f"Player: there is no part {plain_text(part, 40)!r} to play. Expected one of {parts}.")
        self._first = self.trace  # where "start over" goes back to
        self.backend = self.trace.backend  # of runs that are asked for; a player with a switch to the broker sets it to the model
        self._base: tuple[Trace, int] | None = None  # the run that was forked and the step, while one is
        self.comparison = Comparison()
        self._frames: Frames | None = None  # of the run that was shown last
        self.frames = b""
        self.told: dict[str, Any] = {}
        self.heading = {
            "title": self.experiment.title if self.experiment else plain_text(self.trace.experiment),
            "question": self.experiment.question if self.experiment else "",
            "knobs": [to_control(knob, self.trace) for knob in self.knobs],
            "takes": list(self.experiment.takes) if self.experiment and self.knobs else [],
            "front": self._front(front),
        }
        self._publish(number=0, at=self._opening(open_at), is_set=True)

    def answer(self, question: dict[str, Any]) -> None:
        """Do what the page asks; `told` has the answer always, with a sentence when it cannot be done.

        A page that says which step is `shown` gets that step alone of a long run, and asks for the others ("complete") when its knob rests.
        What is not a KitError is told too, and raised again.
        """
        with uncollected():
            if question["do"] == "complete":
                self._complete()
            else:
                self._answer(question)

    def check(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """All knobs' values once these are set. KnobError for a bad one, and for one that cannot change in a fork."""
        name = self._live("turn knobs").name
        before = {knob.name: self.trace.settings[knob.name] for knob in self.knobs}
        settled = settle(self.knobs, before | dict(values), name)
        for knob in self.knobs:
            if self._base is not None and not knob.live and settled[knob.name] != before[knob.name]:
                raise KnobError(f"{name}: {knob.name} cannot change in the middle of a run. Start over to change it.")
        return settled

    def _live(self, to: str) -> Experiment:
        """The experiment that runs. KnobError for a recorded trace."""
        if self.experiment is None or not self.knobs:
            raise KnobError(f"Player: this is a recorded trace. Open its experiment to {to}.")
        return self.experiment

    def turn(self, values: dict[str, Any], seed: int) -> None:
        """Run anew with these knobs and this seed, and let the page's controls follow. KnobError for a bad one."""
        with uncollected():
            self._rerun(values, seed)
            self._tell_anew()

    def show(self, trace: Trace) -> None:
        """Show another run of the same experiment, and let the page's controls follow."""
        with uncollected():
            self.trace, self._base = trace, None
            self._tell_anew()

    def _tell_anew(self) -> None:
        """Another run is shown that the page has not asked for."""
        self.verdict = judge(self.trace)
        self._publish(number=self.told["number"], at=-1, is_set=True)

    def refuse(self, why: KitError) -> None:
        """Tell the page why what was asked for cannot be done."""
        self.told = {**self.told, "error": str(why)}

    def _complete(self) -> None:
        """Draw the steps that are not drawn yet."""
        if not self.told["isWhole"] and self._frames is not None:
            self.frames, self.told = played(self._frames, comparison=self.comparison), {**self.told, "isWhole": True}

    def _front(self, asked: Sequence[str]) -> list[str]:
        """The names of the knobs beside the picture."""
        known = [knob.name for knob in self.knobs]
        for name in asked:
            if name not in known:
                told = f"Its knobs are {', '.join(known)}." if known else "A recorded trace has no knobs."
                raise KnobError(f"Player: front names {plain_text(name, 40)!r}, which is no knob here. {told}")
        return list(asked or (self.experiment.front if self.experiment and known else ()))

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

    def _answer(self, question: dict[str, Any]) -> None:
        number, at, is_set, shown = int(question["number"]), -1, False, None
        chosen, before = int(question.get("chosen", -1)), self.trace
        try:
            match question["do"]:
                case "fork":
                    at = self._fork(int(question["at"]))
                case "start over":
                    self.trace, self._base, is_set = self._first, None, True
                case "script":
                    at, is_set = self._replay(Script.parse(question["text"])), True
                case "deed":
                    deed = str(question["form"]), str(question["ref"]), int(question["at"]), int(question.get("ms", 0))
                    at = self._replay(with_deed(self.script(), self.trace, *deed))
                case _:
                    self._rerun(question["knobs"], question["seed"])
                    if "shown" in question and len(self.trace):
                        at = shown = same_place(before, int(question["shown"]), self.trace)
            if self.trace is not before:
                self.verdict = judge(self.trace)
        except KitError as error:
            self.told = {**self.told, "number": number, "error": str(error)}
            return
        except Exception as error:
            sentence = f"The kit itself failed ({type(error).__name__}), which is a bug. Its log has the details; start over."
            self.told = {**self.told, "number": number, "error": sentence}
            raise
        self._publish(number=number, at=at, is_set=is_set, shown=shown, chosen=chosen)

    def _rerun(self, given: dict[str, Any], seed: Any) -> None:
        """Run anew with these knobs, or, while forked, let the fork's future follow anew."""
        experiment = self._live("turn knobs")
        if self._base is None:
            script = Script(experiment.name, whole_seed(seed), {}, tuple(map(Intervention.parse, self.trace.script)))
            self.trace = experiment.run(backend=self.backend, script=script, **given)
            return
        by_name = {knob.name: knob for knob in self.knobs if knob.live}
        checked = {name: by_name[name].check(value) for name, value in given.items() if name in by_name}
        self.trace = experiment.fork(*self._base, **checked)

    def script(self) -> Script:
        """The script of the run that is shown; while forked, of the run that was forked."""
        return Script.of(self._base[0] if self._base else self.trace)

    def _replay(self, script: Script) -> int:
        """Run this script instead; the step at which its run parts from the one that was shown."""
        before = self.trace
        self.trace, self._base = self._live("run a script").run(backend=self.backend, script=script), None
        found = parting(before, self.trace)
        return min(found.number if found else len(self.trace), max(0, len(self.trace) - 1))

    def _told_script(self) -> dict[str, Any]:
        """The script as the page shows it: its text, its knobs, what is done to the run, and its command; or why there is none."""
        try:
            script = self.script()
        except KnobError as error:
            return {"text": "", "knobs": {}, "done": [], "command": "", "why": str(error)}
        knobs, done = {name: as_text(value) for name, value in script.knobs.items()}, [*map(str, script.interventions)]
        words = ["kit", "run", script.experiment, *(("--backend", self.trace.backend) if self.trace.backend != "model" else ())]
        words += ["--seed", str(script.seed), *(f"--{name.replace('_', '-')}={value}" for name, value in knobs.items())]
        command = shlex.join([*words, *(f"--do={line}" for line in done)])
        return {"text": str(script), "knobs": knobs, "done": done, "command": command, "why": ""}

    def _fork(self, at: int) -> int:
        experiment = self._live("fork it")
        if self._base is not None:
            raise KnobError("Player: this run is forked already. Start over to fork it elsewhere.")
        if self.trace.backend != self.backend:
            raise KnobError("Player: this is the broker's run. Switch to the model to fork it.")
        base = self.trace
        self.trace = experiment.fork(base, at)
        self._base = (base, at)
        return at

    def _publish(self, *, number: int, at: int, is_set: bool, shown: int | None = None, chosen: int = -1) -> None:
        """Draw the trace: all steps, or of a long one first the one that is `shown`.

        What is `chosen` in a picture's list, or -1, is what is shown then.
        """
        frames = self._frames
        if frames is None or frames.trace is not self.trace:
            frames = self._frames = to_frames(self.trace, self.part)
            self.comparison.take(Outcome.of(self.trace, self.verdict, self.experiment, frames))
        is_whole = shown is None or not frames.is_long
        self.frames = played(frames, None if is_whole else shown, chosen, self.comparison)
        self.told = {
            "number": number,
            "error": "",
            "at": at,  # the step to show; -1 leaves it to the browser
            "set": is_set,  # whether the controls are to follow
            "values": {name: to_text(value) for name, value in self.trace.settings.items()},
            "labels": {knob.name: to_label(knob, self.trace.settings[knob.name]) for knob in self.knobs},
            "seed": str(self.trace.seed),
            "verdict": _verdict(self.verdict),
            "script": self._told_script(),
            "marks": signs_of(marks_of(self.trace, self.verdict), frames.clock),
            "outcome": self.comparison.to_json(),
            "isWhole": is_whole,  # whether all steps of the run are drawn
        }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    anomalies = []
    for kind, count in verdict.counts.items():
        first = verdict.first(kind)
        why = verdict.reasons.get(kind, "").removeprefix("explained by ")
        short = re.split("[:;,]", why)[0]
        row = {"kind": kind, "count": count, "witness": first.witness, "reason": why, "short": short}
        anomalies.append(row | {"isViolation": kind in verdict.violations})
    return {"sentence": verdict.sums, "anomalies": anomalies}


def same_place(before: Trace, at: int, now: Trace) -> int:
    """The step of another run at which as much time has passed; of several at one moment as many of them, and the last for the last."""
    was_ms, now_ms = ([step.at_ms for step in trace.steps] for trace in (before, now))
    if at >= len(was_ms) - 1:
        return len(now_ms) - 1
    of_moment = at - bisect_left(was_ms, was_ms[at])
    return max(0, min(bisect_left(now_ms, was_ms[at]) + of_moment, bisect_right(now_ms, was_ms[at]) - 1))


def whole_seed(seed: Any) -> int:
    """A seed that a page has sent, as a number. KnobError unless it is a whole number below 10^18."""
    text = str(seed).strip()
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise KnobError(f"seed is {plain_text(seed, 40)!r}, expected a whole number from 0 on.")
    return int(text)
