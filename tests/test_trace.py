"""The trace: steps in order, JSON lines both ways, and files that were damaged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib import trace_lines
from kitlib.errors import TraceError
from kitlib.trace import SCHEMA, Step, Trace, UnreadableTraceError, add_to_ranges, from_ranges, to_ranges
from kitlib.words import declare
from kitlib.words.fields import STATES
from kitlib.words.word import Domain

EVIL = "<img src=x onerror=alert(1)>\x1b]0;evil\x07 & \"'"


def small() -> Trace:
    trace = Trace("a-run", "happy_path", settings={"records": 3})
    trace.record(0, "log", "append", topic="events", partition=0, first=0, last=2)
    trace.record(5, "spout", "emit", state={"pending": [[0, 0]]}, topic="events", partition=0, offset=0)
    trace.record(5, "spout", "emit", topic="events", partition=0, offset=1)
    return trace


def test_record_earlier_than_the_last_step_is_refused_and_changes_nothing() -> None:
    """Time in a trace never falls; the same ms twice is allowed."""
    trace = small()
    with pytest.raises(TraceError, match=r"trace a-run: step 3 \(ack\) is at 4 ms, before the last one at 5 ms"):
        trace.record(4, "spout", "ack", offset=0)
    assert len(trace) == 3


@pytest.mark.parametrize("number", [-1, 3, 10**30])
def test_at_outside_of_the_trace_is_refused(number: int) -> None:
    """A step that there is not is told with the numbers that there are; -1 does not mean the last one."""
    with pytest.raises(TraceError, match=rf"there is no step {number}. Expected 0 to 2\."):
        small().at(number)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
DATA = st.dictionaries(st.text().filter(lambda name: name not in STATES), JSON_VALUES, max_size=4)
SCALARS = st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
KNOBS = st.dictionaries(st.text(), SCALARS, max_size=4)
WORD = st.text(max_size=8)


class Anything(Domain):
    """A domain that lets every word through."""

    def check(self, actor: str, what: str, data: Mapping[str, Any]) -> None:
        pass


ANYTHING = declare(Anything("anything", {})).name


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    parent = st.none() | st.fixed_dictionaries({"run": WORD, "at": st.integers(0, 5)})
    backend, seed = draw(st.sampled_from(["model", "kafka"])), draw(st.integers(-(2**63), 2**63))
    trace = Trace(draw(WORD), draw(WORD), backend, seed, draw(KNOBS), draw(parent), domain=ANYTHING)
    for later in draw(st.lists(st.integers(0, 1_000), max_size=6)):
        now = trace.steps[-1].at_ms + later if trace.steps else later
        trace.steps.append(Step(len(trace), now, draw(WORD), draw(WORD), draw(DATA), draw(DATA)))
    return trace


@settings(deadline=None)
@given(traces())
def test_json_lines_any_trace_comes_back_equal(trace: Trace) -> None:
    """What is written is read back equal, a line a step after the header, and no line holds a newline."""
    lines = list(trace.to_json_lines())
    assert len(lines) == len(trace) + 1 and not any("\n" in line or "\r" in line for line in lines)
    assert Trace.from_json_lines(lines) == trace


def test_json_lines_header_and_steps_are_as_documented() -> None:
    """The header names the schema first; a step without a state has none in its line."""
    header, first, second, _ = small().to_json_lines()
    assert header == (
        '{"kit_trace":2,"run":"a-run","experiment":"happy_path","domain":"spout","backend":"model","seed":1,"knobs":{"records":3},"parent":null}'
    )
    assert first == '{"n":0,"at_ms":0,"actor":"log","what":"append","data":{"topic":"events","partition":0,"first":0,"last":2}}'
    assert json.loads(second)["state"] == {"pending": [[0, 0]]}


HARMLESS: dict[str, Callable[[list[str]], Iterator[str]]] = {
    "newlines at the ends": lambda lines: (line + "\n" for line in lines),
    "CR LF at the ends": lambda lines: (line + "\r\n" for line in lines),
    "a byte order mark": lambda lines: ("\ufeff" * (number == 0) + line for number, line in enumerate(lines)),
    "blank lines": lambda lines: (part for line in lines for part in ("", line, "  \n")),
    "a BOM, then a blank line": lambda lines: iter(["\ufeff\n", *lines]),
}


@pytest.mark.parametrize("case", HARMLESS)
def test_json_lines_written_by_another_tool_are_the_same(case: str) -> None:
    """Ends of lines, a byte order mark and blank lines change nothing."""
    assert Trace.from_json_lines(HARMLESS[case](list(small().to_json_lines()))) == small()


def _step(**changes: Any) -> str:
    row = {"n": 1, "at_ms": 5, "actor": "spout", "what": "emit", "data": {}} | changes
    return json.dumps({name: value for name, value in row.items() if value is not ...})


# What stands where step 1 should be -> the words of the sentence.
BAD_STEPS = {
    "a line cut in the middle": ('{"n":1,"at_ms":5,"act', "it is not JSON"),
    "no JSON at all": ("emit 5", "it is not JSON"),
    "a million brackets": ("[" * 999_999, "it is not JSON"),
    "a million objects": ('{"n":' * 150_000, "it is not JSON"),
    "a line longer than a million characters": ('{"n":1' + " " * 1_000_000 + "}", "characters long, at most 1,000,000 are read"),
    "an integer of ten thousand digits": (_step(at_ms=0).replace("0", "1" * 10_000), "it is not JSON"),
    "a list": ("[1]", "expected a JSON object, got [1]"),
    "a step too far": (_step(n=2), "expected step 1, got step 2"),
    "a step that was there already": (_step(n=0), "expected step 1, got step 0"),
    "no number": (_step(n=...), "the step has no 'n'"),
    "no data": (_step(data=...), "the step has no 'data'"),
    "a number that is true": (_step(n=True), "n should be of type int, got True"),
    "a word that is a list": (_step(what=["emit"]), "what should be of type str, got ['emit']"),
    "data that are a list": (_step(data=[1]), "data should be of type dict, got [1]"),
    "a verb that is not declared": (_step(what="ring"), "this word is not declared"),
    "data that its verb does not declare": (_step(data={"offset": 1, "colour": 3}), "colour is not declared"),
    "data that lack what its verb needs": (_step(), "it lacks offset"),
    "a state that is a list": (_step(data={"offset": 1}, state=[1]), "state should be of type dict, got [1]"),
    "an offset in words": (_step(data={"offset": "zero"}), "offset should be a whole number, got"),
    "an offset that is true": (_step(data={"offset": True}), "offset should be a whole number, got true"),
    "an offset of 400 digits": (_step(data={"offset": 10**400}), "offset should be a whole number, got 1000"),
    "an attempt that is null": (_step(data={"offset": 1, "attempt": None}), "attempt should be a whole number, got null"),
    "a text that is a list": (_step(data={"offset": 1, "topic": ["a"]}), "topic should be a text"),
    "a time of 400 digits": (_step(at_ms=10**400), "at_ms should be of type int"),
    "NaN": (_step(data={"offset": 1, "attempt": float("nan")}), "it is not JSON (NaN is no number"),
    "a number beyond all": (_step(state={"x": "?"}).replace('"?"', "1e999"), "it is not JSON (1e999 is no number"),
    "a range that ends before it begins": (_step(data={"offset": 1}, state={"pending": [[3, 1]]}), "pending should be a list of ranges"),
    "records that no memory holds": (_step(actor="log", what="append", data={"first": 0, "last": 10**9}), "more than 1,000,000 records"),
    "ranges that no memory holds": (_step(what="clear", data={"ranges": [[0, 10**9]]}), "name more than 1,000,000 records"),
    "a time before the last step's": (_step(at_ms=-1), "it is at -1 ms, before the last step at 0 ms"),
    "a second header": (small().header(), "the step has no 'n'"),
}


@pytest.mark.parametrize("case", BAD_STEPS)
def test_json_lines_bad_step_names_its_line_and_keeps_what_was_good(case: str) -> None:
    """A damaged line is told by its number, and the steps before it are kept and can be read on."""
    text, words = BAD_STEPS[case]
    header, first, *rest = small().to_json_lines()
    with pytest.raises(UnreadableTraceError) as raised:
        Trace.from_json_lines([header, "", first, text, *rest], where="run.jsonl")
    told = str(raised.value)
    assert told.startswith("run.jsonl, line 4: ") and words in told and len(told) < 300
    assert "The 1 steps before it can be read" in told
    assert raised.value.partial is not None
    assert raised.value.partial.steps == small().steps[:1] and raised.value.exit_code == 4


HEADER = json.loads(small().header())
BAD_HEADERS = {
    "a step instead": (small().at(0).to_json(), "expected a header with 'kit_trace': 2, got None"),
    "another schema": (json.dumps(HEADER | {"kit_trace": 1}), "got 1 (recorded by an older kit: run the experiment again)"),
    "a schema that is a text": (json.dumps(HEADER | {"kit_trace": "1"}), "got '1'"),
    "no domain": (json.dumps({name: HEADER[name] for name in HEADER if name != "domain"}), "the header has no 'domain'"),
    "a domain that is none": (json.dumps(HEADER | {"domain": "opera"}), "there is no domain 'opera'"),
    "no run": (json.dumps({"kit_trace": SCHEMA}), "the header has no 'run'"),
    "knobs that are a list": (json.dumps(HEADER | {"knobs": []}), "knobs should be of type dict, got []"),
    "a parent that is a text": (json.dumps(HEADER | {"parent": "me"}), "parent should be of type dict, got 'me'"),
    "a knob with a dict's own name": (json.dumps(HEADER | {"knobs": {"items": 1}}), "no knob can be called items"),
    "a knob that is a list": (json.dumps(HEADER | {"knobs": {"records": [1]}}), "the knob records should be a text, a number"),
    "a parent without a step": (json.dumps(HEADER | {"parent": {"run": "r", "at": "x"}}), "parent should say at which step"),
    "a seed that nothing counts to": (json.dumps(HEADER | {"seed": 10**30}), "seed should be of type int"),
    "a picture": ("\x89PNG\r\n", "it is not JSON"),
}


@pytest.mark.parametrize("case", BAD_HEADERS)
def test_json_lines_bad_header_leaves_nothing(case: str) -> None:
    """Without a header there is no trace: the sentence names line 1, and nothing is kept."""
    text, words = BAD_HEADERS[case]
    with pytest.raises(UnreadableTraceError) as raised:
        Trace.from_json_lines([text, *small().to_json_lines()], where="run.jsonl")
    assert str(raised.value).startswith("run.jsonl, line 1: ") and words in str(raised.value)
    assert raised.value.partial is None


@pytest.mark.parametrize("lines", [[], [""], ["\ufeff"], ["\n", " \r\n"]], ids=["none", "empty", "only a BOM", "blank"])
def test_json_lines_of_nothing_are_refused(lines: list[str]) -> None:
    """An empty file is no trace."""
    with pytest.raises(UnreadableTraceError, match=r"run\.jsonl: it is empty. Expected a header line"):
        Trace.from_json_lines(lines, where="run.jsonl")


def test_json_lines_are_not_read_past_the_first_bad_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading stops at the damage: what comes after it is not asked for."""
    monkeypatch.setattr(trace_lines, "MAX_LINE_CHARS", 1_000)

    def lines() -> Iterator[str]:
        yield small().header()
        yield "x" * 1_001
        pytest.fail("a line after the damage was read")

    with pytest.raises(UnreadableTraceError, match="line 2: it is 1,001 characters long"):
        Trace.from_json_lines(lines())


def test_repr_counts_the_words() -> None:
    """A trace shows its experiment, its backend and how often each word occurs."""
    assert repr(small()) == "<Trace of happy_path on the model: 3 steps (1 append, 2 emit)>"
    assert repr(Trace("r", "a\x1b[31m")) == "<Trace of a\\x1b[31m on the model: 0 steps ()>"
    assert str(small().at(1)) == "#1 at 5 ms: spout emit (topic=events, partition=0, offset=0)"


def test_html_of_hostile_data_is_escaped() -> None:
    """Nothing that a record, an actor or a name holds becomes markup."""
    trace = Trace("r", EVIL)
    for number in range(20):
        trace.steps.append(Step(number, 0, EVIL, EVIL, {"value": EVIL}))
    page = trace._repr_html_()
    assert "<img" not in page and "&lt;img" in page and page.count("<tr>") == 1 + 12
    assert "\x1b" not in page and "\x07" not in page


@given(st.sets(st.integers(-(2**63), 2**63) | st.integers(0, 30)))
def test_ranges_both_ways_keep_the_offsets(offsets: set[int]) -> None:
    """Offsets become ascending, disjoint ranges that do not touch, and come back."""
    ranges = to_ranges(offsets)
    assert from_ranges(ranges) == sorted(offsets)
    assert all(first <= last for first, last in ranges)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(ranges))


@given(st.lists(st.integers(0, 30), max_size=40))
def test_ranges_that_grow_one_by_one_are_those_of_all_at_once(offsets: list[int]) -> None:
    """Ranges kept up to date offset by offset are the ranges of the set."""
    ranges: list[list[int]] = []
    for offset in offsets:
        add_to_ranges(ranges, offset)
    assert ranges == to_ranges(set(offsets))
