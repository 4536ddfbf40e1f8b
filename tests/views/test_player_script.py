"""A player's script: what was done to a run, asked for by a click or as a text."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.experiments import get, run
from kitlib.experiments.script import Script, down_since
from kitlib.views.browser.session import Session

PLAIN = "answers_lost lost_answers=0 idempotence=false"


def asked(session: Session, **question: Any) -> dict[str, Any]:
    session.answer({"number": session.told["number"] + 1, **question})
    return session.told


def test_session_opens_with_a_script_and_tells_it() -> None:
    """A player may be given a script, as a text or read; what it tells is that script, with what is done to the run."""
    for what in (f"{PLAIN}\nlose answer 4", Script.parse(f"{PLAIN}\nlose answer 4")):
        session = Session(what)
        assert session.trace == run(script=what)
        told = session.told["script"]
        assert (told["text"], told["done"], told["why"]) == (str(Script.of(session.trace)), ["lose answer 4"], "")
        assert session.heading["takes"] == list(get("answers_lost").takes)


# the experiment, the step that is clicked at, the form and the thing, and the line that it becomes
DEEDS = {
    "an answer": (PLAIN, 60, "lose answer N", "answer:4", "lose answer 4"),
    "a late request": (PLAIN, 31, "delay request N by D ms", "request:4", "delay request 4 by 200 ms"),
    "another producer's": ("two_producers_one_id seed=1", 30, "double request N", "request:producer 2/0", "double request 0 of producer 2"),
    "the broker": (PLAIN, 60, "break broker at T ms for D ms", "process:broker", "break broker at 145 ms"),
    "a record": ("happy_path seed=1", 12, "lose record N", "record:events/0/7", "lose record 7"),
    "an ack": ("happy_path seed=1", 12, "lose ack of record N", "record:events/0/7", "lose ack of record 7"),
    "a tuple": ("tuple_tree seed=1", 12, "fail tuple N", "tuple:5", "fail tuple 5"),
    "a task": ("tuple_tree seed=1", 30, "break TASK at T ms for D ms", "process:store-6", "break store-6 at "),
}


@pytest.mark.parametrize(("what", "at", "form", "ref", "line"), DEEDS.values(), ids=DEEDS)
def test_deed_on_a_thing_is_a_line_of_the_script(what: str, at: int, form: str, ref: str, line: str) -> None:
    """A click does one thing to what was clicked: a line comes to the script, and the run that follows is that script's."""
    session = Session(what)
    before = session.trace
    told = asked(session, do="deed", form=form, ref=ref, at=at, ms=200)
    assert told["error"] == ""
    (done,) = told["script"]["done"]
    assert done.startswith(line)
    assert session.trace == run(script=told["script"]["text"])
    assert session.trace.steps[: told["at"]] == before.steps[: told["at"]]
    assert session.trace.steps[told["at"]] != before.steps[told["at"]]


def test_retry_is_named_with_its_attempt() -> None:
    """A record that is clicked in its second attempt is lost in its second attempt, and the first stays as it was."""
    session = Session("happy_path seed=1\nfail record 7")
    again = next(step.number for step in session.trace if step.what == "emit" and step.data["attempt"] == 2)
    told = asked(session, do="deed", form="lose record N", ref="record:events/0/7", at=again)
    assert told["script"]["done"] == ["fail record 7", "lose record 7 attempt 2"]
    assert told["at"] == again + 1


def test_second_deed_on_a_message_takes_the_place_of_the_first() -> None:
    """A message that was to be late is lost instead when the reader says so."""
    session = Session(f"{PLAIN}\ndelay answer 4 by 20 ms")
    assert asked(session, do="deed", form="lose answer N", ref="answer:4", at=60)["script"]["done"] == ["lose answer 4"]


def test_broken_broker_is_mended_at_the_step_that_is_shown() -> None:
    """Break and mend: the break gets the length that lies between the two steps, and then nothing is left to mend."""
    session = Session(PLAIN)
    asked(session, do="deed", form="break broker at T ms for D ms", ref="process:broker", at=60)
    script, last = Script.of(session.trace), session.trace.steps[-1].at_ms
    assert (down_since(script, "broker", 144), down_since(script, "broker", last)) == (None, 145)
    later = next(step.number for step in session.trace if step.at_ms > 145)
    told = asked(session, do="deed", form="mend", ref="process:broker", at=later)
    (done,) = told["script"]["done"]
    assert done.startswith("break broker at 145 ms for ")
    assert "is not broken at" in asked(session, do="deed", form="mend", ref="process:broker", at=0)["error"]


def test_knobs_and_seed_keep_what_was_done() -> None:
    """Another knob or seed runs the same interventions again; one that does not fit any more is told, and the picture stays."""
    session = Session(f"{PLAIN}\nlose answer 4")
    shown = {**session.told["values"], "idempotence": True}
    told = asked(session, do="run", knobs=shown, seed="5")
    assert told["script"]["done"] == ["lose answer 4"]
    assert (session.trace.settings.idempotence, session.trace.seed) == (True, 5)
    before = session.trace
    told = asked(session, do="run", knobs=shown | {"records": "5"}, seed="5")
    assert '"lose answer 4" never happened: the last answer of this run is number' in told["error"]
    assert session.trace is before


def test_edited_script_runs_and_sets_the_controls() -> None:
    """A script that was edited in the page runs with its own knobs and seed, which the controls then show."""
    session = Session("answers_lost")
    told = asked(session, do="script", text=f"{PLAIN} seed=9 records=20\nlose answer 2")
    assert (told["error"], told["set"], told["seed"], told["values"]["records"]) == ("", True, "9", "20")
    assert asked(session, do="start over")["script"]["done"] == []


BAD = {
    "another experiment": ({"do": "script", "text": "happy_path seed=1"}, "the script is one of happy_path"),
    "a text that is none": ({"do": "script", "text": "<script>"}, "script, line 1: there is no experiment"),
    "no text": ({"do": "script", "text": None}, "a script is a text or a Script, got None"),
    "a thing that it does not go with": (
        {"do": "deed", "form": "lose answer N", "ref": "tuple:4", "at": 3}, '"lose answer N" cannot be done to tuple:4'
    ),
    "a form that is not taken": ({"do": "deed", "form": "fail request N", "ref": "request:4", "at": 3}, "does not take"),
    "a thing that is none": ({"do": "deed", "form": "lose answer N", "ref": "answer:x\ny", "at": 3}, "got"),
    "a step that is none": ({"do": "deed", "form": "lose answer N", "ref": "answer:4", "at": 99_999}, "there is no step 99999"),
}


@pytest.mark.parametrize(("question", "said"), BAD.values(), ids=BAD)
def test_bad_question_is_answered_with_a_sentence(question: dict[str, Any], said: str) -> None:
    """Whatever a page asks for, the answer is a sentence and the run stays as it was."""
    session = Session(PLAIN)
    before = session.trace
    assert said in asked(session, **question)["error"]
    assert session.trace is before


def test_recorded_trace_tells_its_script_and_runs_none() -> None:
    """A recorded run shows the script that it was; to run one, its experiment is needed. A fork's is that of its run."""
    trace = run(script=f"{PLAIN}\nlose answer 4")
    session = Session(trace)
    assert session.told["script"]["done"] == ["lose answer 4"]
    assert "this is a recorded trace" in asked(session, do="script", text=PLAIN)["error"]
    forked = Session(f"{PLAIN}\nlose answer 4")
    assert asked(forked, do="fork", at=10)["script"]["done"] == ["lose answer 4"]
    shown = Session(get("answers_lost").fork(trace, 10, delay_ms=30)).told["script"]
    assert (shown["text"], shown["done"]) == ("", [])
    assert "is a fork" in shown["why"]
