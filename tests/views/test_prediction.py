"""Predictions: what is asked, what is right, how far off an answer is, and what nobody sees before it is given."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from kitlib.errors import KnobError
from kitlib.experiments import names, run
from kitlib.lab import predictions
from kitlib.monitor.delivery import judge
from kitlib.views import predict
from kitlib.views.browser.prediction import KINDS, Prediction

SMALL = "small_max_offset_behind"
YES_OR_NO = {"choices": ["yes", "no"], "truth": lambda trace: "no"}
MORE: dict[str, dict[str, Any]] = {"choice": YES_OR_NO, "number": {"truth": "lost"}}
Ask = Callable[..., Prediction]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIT_HOME", str(tmp_path))


@pytest.fixture
def ask() -> Iterator[Ask]:
    opened: list[Prediction] = []

    def made(*args: Any, **given: Any) -> Prediction:
        opened.append(predict(*args, **given))
        return opened[-1]

    yield made
    for each in opened:
        each.close()


@pytest.mark.parametrize(
    ("given", "answer", "is_right", "told"),
    [
        ({"truth": "lost"}, 46, True, "Exactly right: 46 records."),
        ({"truth": "lost"}, 12, False, "Not quite: you said 12, it is 46."),
        ({"truth": "lost", "within": 5}, 50, True,
         "Close enough: you said 50, it is 46."),
        ({"truth": "figure"}, 46, True, "Exactly right: 46 records."),
        ({"truth": "processed"}, 13, True, "Exactly right: 13 records."),
        ({"truth": lambda trace: 54, "unit": "offset"}, 60, False,
         "Not quite: you said 60, it is 54."),
        ({"truth": lambda trace: trace.steps[-1].at_ms, "unit": "ms"}, 50, False,
         "Not quite: you said 50 ms, it is 950 ms."),
        ({"truth": lambda trace: 54, "unit": "offset"}, 54, True, "Exactly right: offset 54."),
        ({"answer": "choice", **YES_OR_NO}, "no", True, "Exactly right: no"),
        ({"answer": "choice", **YES_OR_NO}, "yes", False, "Not quite: you chose “yes”, it is “no”."),
    ],
)  # fmt: skip
def test_an_answer_is_told_how_far_off_it_is(ask: Ask, given: dict[str, Any], answer: Any, is_right: bool, told: str) -> None:
    """In one sentence, for each kind of answer; what is right comes from the run."""
    asked = ask(SMALL, "A question?", **given)
    assert asked.answer(answer) == asked.result == told
    assert asked.is_right is is_right


def test_what_is_right_follows_the_knobs(ask: Ask) -> None:
    """Another bound, another truth: nothing is written down."""
    for behind in (1, 10, 20):
        asked = ask(SMALL, "How many are lost?", truth="lost", max_offset_behind=behind)
        asked.answer(0)
        assert asked.truth == judge(run(SMALL, max_offset_behind=behind)).counts["lost"]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_outcome_is_sent_before_the_answer(ask: Ask, kind: str) -> None:
    """The browser gets the question; of the run no picture, no verdict and no number."""
    asked = ask(SMALL, "A question?", kind, **MORE[kind])
    told = " ".join(str(getattr(child, name, "")) for child in asked.children for name in ("value", "description"))
    assert asked.player is None and "46" not in told
    assert "Predict · A bound smaller than what is in flight<br>" in told and "A question?" in told
    own = {"number": "records", "choice": "yes"}
    assert [part for part in own.values() if part in told] == [own[kind]]
    shown = asked._repr_mimebundle_()[0]
    assert "46" not in shown["text/plain"] + shown["text/markdown"] and "image/svg+xml" not in shown


def test_the_question_is_text_where_there_is_no_widget(ask: Ask) -> None:
    """Plain and as Markdown, in which a question is no markup."""
    asked = ask(SMALL, "Is *this* <b>lost</b>?", "choice", choices=["yes", "no"], truth=lambda trace: "yes")
    shown = asked._repr_mimebundle_()[0]
    assert shown["text/plain"] == "Predict: Is *this* <b>lost</b>?\n  ( ) yes\n  ( ) no"
    assert shown["text/markdown"] == "**Predict.** Is \\*this\\* \\<b\\>lost\\</b\\>?\n\n- yes\n\n- no"


def send(asked: Prediction, answer: Any) -> str:
    """Answer as a learner does; what stands below the question then."""
    asked.take(answer)
    return html.unescape(re.sub("<[^>]*>", " ", asked.told.value)).strip()


def test_an_answer_brings_the_run_the_sentence_and_the_score(ask: Ask) -> None:
    """The first answer counts, in this notebook and in the next."""
    asked = ask(SMALL, "How many are lost?", truth="lost")
    assert send(asked, 12) == "Not quite: you said 12, it is 46.  0 of 1 right so far; the first answer to each question counts."
    assert asked.player and asked.player in asked.children and asked.player.trace is asked.trace
    assert asked.player.told["outcome"]["figure"] == "46 records."
    assert "0 of 1" in send(asked, 46) and len(asked.children) == len(set(asked.children))
    assert "1 of 2" in send(ask(SMALL, "Where is the commit?", truth=lambda trace: 54), 54)
    assert [each.answer for each in predictions.load().values()] == ["12", "54"]


def test_a_number_is_typed_and_a_choice_is_pressed(ask: Ask) -> None:
    """Enter and the button give what stands in the field, a choice's own button gives that choice; markup in a question is text."""
    number, choice = ask(lambda: 1000, "How <i>many</i>?"), ask(SMALL, "A question?", "choice", **YES_OR_NO)
    assert "How &lt;i&gt;many&lt;/i&gt;?" in number.children[0].value
    field, button = number.form
    for typed, result in (("", "'' is no number. Type one, such as 12."), ("1e3", "Exactly right: 1,000 records."), ("2.5", "said 2.5")):
        field.value = typed
        field._handle_custom_msg({"event": "submit"}, [])
        assert result in html.unescape(number.told.value)
    field.value = "1000"
    button.click()
    assert number.is_right
    choice.form[0].click()
    assert choice.result == "Not quite: you chose “yes”, it is “no”."


@pytest.mark.parametrize(
    ("kind", "answer", "told"),
    [
        ("number", None, "None is no number. Type one, such as 12."),
        ("number", "12", "'12' is no number. Type one, such as 12."),
        ("number", True, "True is no number."),
        ("number", float("inf"), "inf is no number."),
        ("choice", "maybe\x1b", "is none of the choices. Choose one of yes, no."),
        ("choice", ["yes"], "is none of the choices."),
    ],
)
def test_what_is_no_answer_is_told_and_not_kept(ask: Ask, kind: str, answer: Any, told: str) -> None:
    """Whatever it is: a sentence, no run, and no score."""
    asked = ask(SMALL, "A question?", kind, **MORE[kind])
    error = send(asked, answer)
    assert told in error and "\x1b" not in error
    assert (asked.player, predictions.load()) == (None, {})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"answer": "guess"}, "answer is 'guess', expected one of number, choice"),
        ({"answer": "choice", "choices": ["one"], "truth": lambda trace: "one"}, "was given 1 choices, expected two or more"),
        ({"choices": ["a", "b"], "truth": "lost"}, 'which only answer="choice" takes'),
        ({}, "truth is None, expected a function of the trace"),
        ({"truth": "losst"}, "truth is 'losst', expected a function of the trace, or for a number one of lost, duplicated"),
        ({"truth": lambda trace: "many"}, "the truth of this run is 'many', expected a number"),
        ({"answer": "choice", "choices": ["a", "b"], "truth": lambda trace: "c"},
         "the truth of this run is 'c', expected one of the choices"),
        ({"truth": "lost", "recrods": 5}, "recrods"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused_at_once(given: dict[str, Any], told: str) -> None:
    """Where it is written, and not when a learner answers."""
    with pytest.raises(KnobError, match=told.replace("(", r"\(")):
        predict(SMALL, "A question?", **given)


@pytest.mark.parametrize(
    ("what", "given", "told"),
    [
        (lambda: 7, {"truth": "lost"}, "what a function returns is the truth itself"),
        (lambda: 7, {"records": 5}, "a trace or a function has no knobs and no seed to set"),
        (run(SMALL), {"truth": "lost", "seed": 2}, "a trace or a function has no knobs and no seed to set"),
        (lambda: "seven", {}, "the truth of this run is 'seven', expected a number"),
        (7, {}, "got 7, expected an experiment, a trace, a function or None"),
        (None, {"truth": "lost"}, "what a function returns is the truth itself"),
    ],
)
def test_what_is_neither_a_run_nor_a_function_is_refused(what: Any, given: dict[str, Any], told: str) -> None:
    """A trace has its knobs already, and a function is asked for nothing but what it returns."""
    with pytest.raises(KnobError, match=told):
        predict(what, "A question?", **given)


def test_a_run_that_was_made_is_asked_about_as_its_trace(ask: Ask) -> None:
    """The same truth, the same player and another key than with other knobs."""
    asked, other = (ask(run(SMALL, max_offset_behind=bound), "How many are lost?", truth="lost") for bound in (5, 10))
    send(asked, 46)
    assert asked.is_right and asked.player and asked.player.verdict == asked.verdict
    assert asked.key != other.key


def test_what_a_function_returns_is_asked_for_and_nothing_is_played(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number, also one of NumPy's, or a choice; it counts for the score under the notebook's name."""
    monkeypatch.setenv("KIT_NOTEBOOK", "01a_one_number_for_many_records")
    asked = ask(lambda: numpy.int64(4), "How many are pending?")
    assert send(asked, 1).startswith("Not quite: you said 1, it is 4.")
    assert asked.children[0].value.startswith("Predict<br>") and asked.player is None
    assert send(ask(lambda: "no", "Again?", "choice", choices=["yes", "no"]), "no").startswith("Exactly right")
    assert [each.experiment for each in predictions.load().values()] == ["01a_one_number_for_many_records"] * 2


@pytest.mark.parametrize(("kind", "given", "found", "told"), [
    ("number", 3, numpy.int64(4), "Not quite: you said 3, it is 4."), ("choice", "no", "no", "Exactly right: no"),
])  # fmt: skip
def test_what_is_not_done_yet_is_asked_first_and_judged_when_it_is_known(ask: Ask, kind: str, given: Any, found: Any, told: str) -> None:
    """The answer is kept without a score; the cell that does the work settles it, once for the score."""
    asked = ask(None, "How will it end?", kind, choices=["yes", "no"] if kind == "choice" else ())
    assert send(asked, given).startswith("Your answer is kept. Run the next cell") and (asked.is_right, asked.score) == (False, "")
    assert predictions.load() == {}
    asked.settle(found)
    assert asked.result == told and told in html.unescape(asked.told.value)
    assert [each.is_right for each in predictions.load().values()] == [asked.is_right] == [given == found]


def test_what_is_settled_before_an_answer_waits_for_it(ask: Ask) -> None:
    """Nothing of it is told before; what no answer can be is refused where the cell runs."""
    asked = ask(None, "How many?")
    with pytest.raises(KnobError, match="the truth of this run is 'many', expected a number"):
        asked.settle("many")
    asked.settle(7)
    assert asked.told.value == "" and send(asked, 7).startswith("Exactly right: 7 records.")


def test_an_answer_that_cannot_be_kept_is_still_judged(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner sees the run and the sentence, and reads why there is no score."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KIT_HOME", str(tmp_path / "file"))
    told = send(ask(SMALL, "How many are lost?", truth="lost"), 46)
    assert told.startswith("Exactly right: 46 records.  Your answer could not be kept: ")


@pytest.mark.parametrize("name", names())
def test_each_experiment_can_be_asked_for_its_figure(ask: Ask, name: str) -> None:
    """The truth is the figure of the run."""
    asked = ask(name, "How much?", truth="figure", unit="")
    assert asked.experiment.figure
    assert asked.truth == asked.experiment.figure.measure(asked.trace, asked.verdict).value
