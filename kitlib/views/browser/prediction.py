"""`predict(...)`: a question about a run that is answered before the run is seen, in its picture.

    predict("small_max_offset_behind", "Of 60 records, how many are lost?", truth="lost")
    predict("happy_path", "Who is first?", answer="choice", choices=["offset 0", "another"], truth=lambda trace: ...)
    predict(trace, "How many are lost?", truth="lost")
    predict(lambda: len(spout.pending), "How many records are pending?")
    clean = predict(None, "How many of 200 runs lose a record?")   # and when a later cell has run them: clean.settle(...)

The widget asks, keeps the answer, and says how far off it was, above the run. What is right is computed from
the run, so a question stays true when its knobs change; until it is answered the browser has nothing of the run but how
many records there are. It may be answered again, but the first answer counts for the score, which is kept for the whole course
(`kitlib.lab.predictions`).

A run that was made already is asked about as its trace. What no trace tells (the state of an object, a row of a table) is a
function without arguments: what it returns is right, and nothing is played. What takes long is asked about before it is done:
the answer is kept, and `settle` says what is right when a later cell knows it.

Where there are no widgets or no kernel it is text: the question, and never the answer.
"""

from __future__ import annotations

import hashlib
import html
import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ipywidgets

from kitlib.errors import DiskError, KitError, KnobError
from kitlib.experiments import get
from kitlib.experiments.experiment import Experiment
from kitlib.lab import created_resources, predictions
from kitlib.lab.predictions import Answered
from kitlib.monitor.delivery import judge
from kitlib.monitor.figures import amount
from kitlib.text import plain_text
from kitlib.trace import Trace
from kitlib.views.browser.asking import TypeOn, button
from kitlib.views.browser.player import Player, with_still
from kitlib.words.glyphs import GREEN, RED

KINDS = ("number", "choice")
MEASURES = ("ms", "%")  # units that are told with every number
PLACE = "offset"  # the unit of a number that is a place in the log and not a count
Truth = str | Callable[[Trace], Any]


class Prediction(ipywidgets.VBox):  # type: ignore[misc]  # has no types
    """A question about an experiment, run now with `seed` and `knobs`, about a trace, or about what a function returns; None: see `settle`.

    `answer` is "number" or "choice" (of `choices`).
    `truth` computes what is right from the trace. For a number it may also be a word: an anomaly of the verdict, "processed",
    "appended" or "figure". A number is right when it is at most `within` away. `unit` is the plural of what it counts, or "offset"
    for a place in the log.
    `.result` is what was said of the answer, "" until there is one; `.is_right` whether it was right; `.player` then shows the run.

    KnobError for a bad knob, seed or kind, for a choice without choices or a truth that is none of them, for a word that is
    no count of this verdict, for knobs beside a trace or a function, and for a truth beside a function or None.
    """

    player: Player | None = None

    def __init__(
        self,
        what: str | Experiment | Trace | Callable[[], Any] | None,
        /,
        question: str,
        answer: str = "number",
        *,
        truth: Truth | None = None,
        choices: Sequence[str] = (),
        within: float = 0,
        unit: str = "records",
        seed: int = 1,
        part: str = "all",
        **knobs: Any,
    ) -> None:
        self.trace: Any = what  # a Trace; None where no run is asked about, and so are the next two
        if isinstance(what, (str, Experiment)):
            self.trace = (get(what) if isinstance(what, str) else what).run(seed=seed, **knobs)
        elif knobs or seed != 1:
            raise KnobError("predict: a trace or a function has no knobs and no seed to set. Give an experiment's name instead.")
        elif isinstance(what, Trace):
            seed, knobs = what.seed, what.settings
        elif what is None or callable(what):
            if truth is not None:
                raise KnobError("predict: what a function returns is the truth itself. Give no other.")
            self.trace, truth = None, (lambda _: what()) if what is not None else None
        else:
            raise KnobError(f"predict: got {plain_text(repr(what), 60)}, expected an experiment, a trace, a function or None.")
        if answer not in KINDS:
            raise KnobError(f"predict: answer is {plain_text(repr(answer), 40)}, expected one of {', '.join(KINDS)}.")
        if (answer == "choice") != (len(choices) >= 2):
            expected = "expected two or more" if answer == "choice" else 'which only answer="choice" takes'
            raise KnobError(f"predict: answer={answer!r} was given {len(choices)} choices, {expected}.")
        self.question, self.kind, self.choices, self.within, self.unit = question, answer, list(choices), within, unit
        self.part = part
        self.experiment: Any = get(self.trace.experiment) if self.trace is not None else None
        self.verdict: Any = judge(self.trace) if self.trace is not None else None
        self.truth: Any = self._checked_truth(truth) if self.trace is not None or truth is not None else None  # None: not known yet
        self.given: Any = None  # the answer
        self.result, self.is_right, self.score = "", False, ""
        name = self.experiment.name if self.experiment else ""
        key = json.dumps([name, question, answer, seed, {knob: str(value) for knob, value in knobs.items()}], sort_keys=True)
        self.key = hashlib.sha256(key.encode()).hexdigest()[:16]  # which question it is
        title = f" · {self.experiment.title}" if self.experiment else ""
        asked = f"Predict{html.escape(title)}<br><b style='font-size:16px'>{html.escape(question)}</b>"
        self.form, self.told = self._form(), ipywidgets.HTML()
        super().__init__([ipywidgets.HTML(asked), *self.form, self.told, TypeOn()])
        self.add_class("kit-predict")

    def _form(self) -> list[Any]:
        """What is pressed, or typed, to answer."""
        if self.kind == "choice":
            return [button(choice, partial(self.take, choice)) for choice in self.choices]
        field = ipywidgets.Text(description=f"Your prediction, {self.unit}", placeholder="a number", style={"description_width": "initial"})
        field.on_msg(self._on_event)
        return [field, button("That is my prediction", lambda: self.take(_number(field.value)))]

    def _on_event(self, field: Any, event: dict[str, Any], _buffers: Any) -> None:
        if event.get("event") == "submit":  # Enter
            self.take(_number(field.value))

    def _checked_truth(self, truth: Truth | None) -> Any:
        """What is right, computed from the run; of a kind that an answer can be."""
        if callable(truth):
            found = truth(self.trace)
            found = found.item() if hasattr(found, "item") else found  # a number of NumPy's
        else:
            figure, verdict = self.experiment.figure, self.verdict
            known = {**verdict.counts, "processed": verdict.processed, "appended": verdict.appended}
            known |= {"figure": figure.measure(self.trace, verdict).value} if figure else {}
            if truth not in known:
                told = f"expected a function of the trace, or for a number one of {', '.join(known)}"
                raise KnobError(f"predict: truth is {plain_text(repr(truth), 60)}, {told}.")
            found = known[truth]
        is_number = isinstance(found, (int, float)) and not isinstance(found, bool) and math.isfinite(found)
        if not (found in self.choices if self.kind == "choice" else is_number):
            expected = f"one of the choices ({', '.join(self.choices)})" if self.kind == "choice" else "a number"
            raise KnobError(f"predict: the truth of this run is {plain_text(repr(found), 60)}, expected {expected}.")
        return found

    def answer(self, given: Any) -> str:
        """Answer the question; how far off it was, in one sentence. KnobError for what cannot be an answer.

        `given` is a number or a choice, as the kind of the question asks.
        """
        self.given = self._checked(given)
        if self.truth is None:
            self.result = "Your answer is kept. Run the next cell: it does the work, and says here what is right."
        else:
            self._judge()
        return self.result

    def settle(self, found: Any) -> None:
        """Say what is right, now that it is known; an answer that was given is judged. KnobError for what no answer can be."""
        self.truth = self._checked_truth(lambda _: found)
        if self.given is not None:
            self._judge()
            self._tell()

    def take(self, given: Any) -> None:
        """The learner's answer: what is no answer is told in a sentence; one that is brings the result, and the run to look at."""
        try:
            self.answer(given)
        except KitError as error:
            self.told.value = f"<p role='alert'>{html.escape(str(error))}</p>"
            return
        if self.player is None and self.trace is not None:
            self.player = player = Player(self.trace, part=self.part).add_class("kit-told")
            player.told = player.told | {"outcome": player.told["outcome"] | {"figure": f"{self._as_asked()}."}}
            self.children: Any = (*self.children, player)
        self._tell()

    def _judge(self) -> None:
        self.is_right, self.result = self._judged(self.given)
        where = self.experiment.name if self.experiment else created_resources.notebook()
        row = Answered(where, self.question, str(self.given), str(self.truth), self.is_right)
        try:
            self.score = f"{predictions.score(predictions.keep(self.key, row))}; the first answer to each question counts."
        except DiskError as error:
            self.score = f"Your answer could not be kept: {error}"

    def _tell(self) -> None:
        """Show the result and the score; where there is no score yet, what is right is not known."""
        edge = "none" if not self.score else f"6px solid {GREEN}" if self.is_right else f"6px double {RED}"
        style = f"padding-left:12px;border-left:{edge};font-size:16px;font-weight:700"
        self.told.value = f"<div role='status'><p style='{style}'>{html.escape(self.result)}</p><p>{html.escape(self.score)}</p></div>"

    def _checked(self, given: Any) -> Any:
        if self.kind == "choice":
            if given not in self.choices:
                raise KnobError(f"{plain_text(repr(given), 60)} is none of the choices. Choose one of {', '.join(self.choices)}.")
            return given
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given):
            raise KnobError(f"{plain_text(repr(given), 60)} is no number. Type one, such as 12.")
        return given

    def _judged(self, given: Any) -> tuple[bool, str]:
        """Whether an answer is right, and how far off it is."""
        if given == self.truth:
            return True, f"Exactly right: {self._as_asked()}" + ("." if self.kind == "number" else "")
        if self.kind == "choice":
            return False, f"Not quite: you chose “{given}”, it is “{self.truth}”."
        is_right = abs(given - self.truth) <= self.within
        own, told = (amount(each, self.unit if self.unit in MEASURES else "") for each in (given, self.truth))
        return is_right, f"{'Close enough' if is_right else 'Not quite'}: you said {own}, it is {told}."

    def _as_asked(self) -> str:
        """What is right, with its unit."""
        if self.kind == "choice":
            return str(self.truth)
        return f"offset {self.truth}" if self.unit == PLACE else amount(self.truth, self.unit)

    def __repr__(self) -> str:
        return "\n".join([f"Predict: {self.question}", *(f"  ( ) {choice}" for choice in self.choices)])

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget; where there are no widgets the question as text, and never the answer."""
        lines = [f"**Predict.** {_escaped(self.question)}", *(f"- {_escaped(choice)}" for choice in self.choices)]
        still = {"text/markdown": "\n\n".join(lines), "text/plain": repr(self)}
        return with_still(super()._repr_mimebundle_(**kwargs), still)


predict = Prediction  # as a notebook says it


def _number(text: str) -> int | float | str:
    """The number that was typed; what is none stays text."""
    try:
        found = float(text)
    except ValueError:
        return text
    return int(found) if found.is_integer() else found


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{sign}" if sign in r"\`*_{}[]()#+-!|<>&~$" else sign for sign in plain_text(text, 1_000))
