"""Knobs: every bad value is refused in one sentence that names the knob, the value and the range."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib import experiments
from kitlib.errors import KnobError
from kitlib.experiments import every
from kitlib.experiments.experiment import Experiment
from kitlib.experiments.knobs import UNLIMITED, Knob, bind, settle
from kitlib.experiments.storm.knobs import MaxOffsetBehind

MAX_OFFSET_BEHIND = bind("max_offset_behind", MaxOffsetBehind, UNLIMITED)
OneToTen = Annotated[int, Knob("Help.", "", 1, 10)]
each_experiment = pytest.mark.parametrize("experiment", [*every()], ids=lambda experiment: experiment.name)
NEVER_A_NUMBER: list[Any] = [
    float("nan"), float("inf"), float("-inf"), "", " ", "NaN", "inf", "many", True, False, None, [], {}, b"5", 1j, "0x10",
    10**30, -(10**30), str(10**30), "1" * 5_000, 10**400, "unlimited ", "<b>5</b>", "5; rm -rf", "../../x",
]  # fmt: skip


def bad_values(knob: Knob) -> list[Any]:
    """Values that a knob of this kind never takes, and those just outside of its range."""
    if knob.kind == "bool":
        return [2, 0, 1, 1.0, None, "", "maybe", "2", [], float("nan"), 10**30]
    if knob.kind == "choice":
        return [None, True, 0, "", "EARLIEST", " " + knob.choices[0], knob.choices[0] + "x", [knob.choices[0]], float("nan")]
    outside = [] if knob.low == -math.inf else [knob.low - 1, float(knob.low) - 1]
    outside += [] if knob.high == UNLIMITED else [knob.high + 1, 1e9 if knob.high < 1e9 else 1e300]
    whole = [knob.low + 0.5, "1.5", "1,5"] if knob.kind == "int" else []
    unlimited = knob.high == UNLIMITED
    return [value for value in NEVER_A_NUMBER if not (unlimited and value == "unlimited ")] + outside + whole


@each_experiment
def test_run_with_a_bad_knob_is_refused_in_a_sentence(experiment: Experiment) -> None:
    """Zero, minus one, 1e9, NaN, an empty text, True for a number, 10^30: refused before anything runs, with name, value and range."""
    for knob in experiment.knobs:
        for bad in bad_values(knob):
            with pytest.raises(KnobError) as raised:
                experiments.run(experiment.name, **{knob.name: bad})
            told = str(raised.value)
            assert told == f"{knob.name} is {repr(bad)[:60]}, expected {knob.range}. {knob.help}", bad
            assert raised.value.exit_code == 2


AMOUNTS = {
    ("ackers", "1"): "1 acker", ("ackers", "2"): "2 ackers", ("retries", "1"): "1 retry", ("batches", "1"): "1 batch",
    ("replicas", "1"): "1 replica", ("times", "1"): "1 time", ("records/s", "1"): "1 record/s", ("ms", "1"): "1 ms", ("s", "1"): "1 s",
    ("offset", "35"): "offset 35", ("day", "3"): "day 3", ("", "1"): "1",
}  # fmt: skip


@pytest.mark.parametrize(("unit", "number"), AMOUNTS)
def test_value_with_its_unit_is_what_one_says(unit: str, number: str) -> None:
    """One of a thing is singular; an offset and a day are places, so their number comes last."""
    assert Knob("Help.", unit).with_unit(number) == AMOUNTS[unit, number]


@each_experiment
def test_default_and_edges_of_a_knob_are_in_its_range(experiment: Experiment) -> None:
    """The default, and both ends of the range, are values the knob takes, as values and as a command line writes them."""
    for knob in experiment.knobs:
        good = {"bool": [True, False], "choice": list(knob.choices)}.get(knob.kind, [knob.low, knob.high, knob.default])
        for value in [*good, knob.default]:
            assert knob.check(value) == value, knob.name
            assert knob.check(str(value)) == value and type(knob.check(str(value))) is type(knob.check(value)), knob.name


def test_settle_unknown_name_is_told_with_the_names_that_there_are() -> None:
    """A misspelt knob is no silent default."""
    with pytest.raises(KnobError, match=r"happy_path has no knob 'max_ofset_behind'\. Did you mean max_offset_behind\? Its"):
        experiments.run("happy_path", max_ofset_behind=5)


@pytest.mark.parametrize("name", ["", "happy", "../../x", "HAPPY_PATH", "x" * 1_000, None, 7])
def test_get_unknown_experiment_is_told_with_the_names_that_there_are(name: Any) -> None:
    """The names of all experiments stand in the sentence, and a long wrong name is cut."""
    with pytest.raises(KnobError) as raised:
        experiments.get(name)
    assert str(name)[:60] in str(raised.value) and ", ".join(experiments.names()) in str(raised.value)
    assert len(str(raised.value)) < 2_000


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, "1", True, None, float("nan")], ids=repr)
def test_run_bad_seed_is_refused(seed: Any) -> None:
    """A seed is a whole number from 0 to 2^63 - 1."""
    with pytest.raises(KnobError, match=r"seed is .*, expected a whole number from 0 to 2\^63 - 1"):
        experiments.run("happy_path", seed=seed)


@pytest.mark.parametrize("backend", ["", "Model", "storm", "kafka ", None, 1, "x" * 200])
def test_run_bad_backend_is_refused(backend: Any) -> None:
    """A backend is model or kafka, and nothing is started for another one."""
    with pytest.raises(KnobError, match=r"backend is .*, expected one of model, kafka\.") as raised:
        experiments.run("happy_path", backend=backend)
    assert len(str(raised.value)) < 150


# What a command line writes -> what the knob max_offset_behind or fail_percent takes it for.
TEXTS = {"5": 5, " 5 ": 5, "1_000": 1_000, "1e3": 1_000, "1E3": 1_000, "5.0": 5, "+5": 5, "unlimited": UNLIMITED, "UNLIMITED": UNLIMITED}


@pytest.mark.parametrize("text", TEXTS)
def test_check_text_of_a_number_is_read(text: str) -> None:
    """Numbers may be written with underscores, an exponent or .0, and the bound as a word."""
    assert MAX_OFFSET_BEHIND.check(text) == TEXTS[text]


def test_check_text_of_a_large_number_keeps_every_digit() -> None:
    """A bound near 2^63 does not pass through a float."""
    assert MAX_OFFSET_BEHIND.check("9223372036854775806") == 2**63 - 2


@pytest.mark.parametrize(("text", "value"), [("true", True), ("YES", True), ("1", True), ("False", False), ("no", False), (" 0 ", False)])
def test_check_text_of_a_truth_is_read(text: str, value: bool) -> None:
    """True and false may be written as a command line does."""
    assert bind("b", Annotated[bool, Knob("Help.")], True).check(text) is value


@given(st.one_of(st.integers(), st.floats(), st.text(), st.binary(), st.none(), st.booleans(), st.lists(st.integers())))
def test_check_any_value_gives_one_in_the_range_or_a_knob_error(value: Any) -> None:
    """Whatever is given, the answer is a value of the knob's type inside its range, or a KnobError."""
    for knob in (bind("i", OneToTen, 5), bind("f", Annotated[float, Knob("Help.", "", 1, 10)], 5.0), MAX_OFFSET_BEHIND):
        try:
            found = knob.check(value)
        except KnobError:
            continue
        assert type(found) is (float if knob.kind == "float" else int) and knob.low <= found <= knob.high


def test_settle_gives_every_knob_a_value() -> None:
    """What is not given takes its default; what is given is checked."""
    knobs = (bind("a", OneToTen, 5), bind("b", Annotated[bool, Knob("Help.")], True))
    assert settle(knobs, {"a": "7"}, "it") == {"a": 7, "b": True}


@each_experiment
def test_description_of_a_knob_is_whole(experiment: Experiment) -> None:
    """A knob has a name that is a Python name, one line of help that ends with a stop, a range in words, and is JSON for widgets."""
    for knob in experiment.knobs:
        assert knob.name.isidentifier() and knob.help.endswith(".") and "\n" not in knob.help, knob.name
        assert knob.range and str(UNLIMITED) not in knob.range, knob.name
        described = json.loads(json.dumps(knob.to_json()))
        assert described["name"] == knob.name and knob.check(described["default"]) == knob.default
        assert knob.scale != "log" or (knob.kind == "int" and knob.high >= 1_000), knob.name
