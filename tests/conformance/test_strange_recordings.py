"""Recordings that no recorder wrote: a replay tells in a sentence what is wrong with them, and the next one is replayed all the same."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.cli.conform import MODELS
from kitlib.conformance.golden import Conformance, bundled, conform, read_traces
from kitlib.errors import KitError

RECORDED = {model: {row["name"]: row for row in read_traces(bundled(*files[0].split("/")))} for model, (_, files) in MODELS.items()}
CHECKED = sorted(MODELS.keys() - {"partition_manager", "connect"})  # these make as many records and tasks as there are said to be
JUNK = st.sampled_from([None, True, 0, -1, 0.5, 2**63, 10**30, "1", "x", [], [7], {}, {"x": 5}])
Path = tuple[Any, ...]


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Where each field of a JSON value is."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(inner, (*path, key))


def with_junk(model: str, name: str, path: Path, junk: Any) -> Conformance:
    """A recording with another value in one place, and one that is as it was, replayed."""
    recorded = RECORDED[model]
    odd = inner = copy.deepcopy(recorded[name])
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = junk
    sound = next(iter(recorded.values()))
    found = conform(MODELS[model][0], iter([odd, sound]))
    assert found.traces == 2 and found.matched >= len(sound["steps"])
    return found


def kit_errors(kind: type = KitError) -> set[str]:
    return {kind.__name__}.union(*map(kit_errors, kind.__subclasses__()))


@pytest.mark.parametrize("model", CHECKED)
def test_recording_with_any_field_changed_ends_in_a_sentence(model: str) -> None:
    """Whatever stands in a setting, an operation or an argument, no replay ends in another error than the kit's own."""

    @settings(deadline=None, max_examples=40)
    @given(st.data())
    def any_change(data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(list(RECORDED[model])[:12]))
        steps = RECORDED[model][name]["steps"][:9]
        at = data.draw(st.integers(0, len(steps) - 1))
        fields = [("steps", at, "op"), *(("steps", at, "args", *path) for path in places(steps[at].get("args")))]
        fields += [("config", *path) for path in places(RECORDED[model][name].get("config"))]
        found = with_junk(model, name, data.draw(st.sampled_from(fields)), data.draw(JUNK))
        for difference in found.differences:
            crash = difference.got.partition(":")[0] if difference.field == "crash" else "KitError"
            assert crash in kit_errors() and len(str(difference)) < 500, difference

    any_change()


@pytest.mark.parametrize(
    ("model", "name", "path", "junk", "words"),
    [
        ("partition_manager", "happy_path", ("log", "events", "units"), 5, "such a step (TypeError: 'int' object is not iterable)."),
        ("acker", "one_tuple", ("steps", 0, "args"), {"id": 1, "val": 2}, "such a step (KeyError: 'task')."),
        ("acker", "one_tuple", ("steps", 0, "args", "id"), "6001", "no recorder writes such a step (TypeError:"),
        ("acker", "one_tuple", ("steps", 0, "args", "val"), 2**63, "the value of tree 6001 is 9223372036854775808"),
        ("acker", "one_tuple", ("steps", 0, "op"), "__init__", "operation '__init__', which this replay does not know"),
        ("producer_state", "gap", ("config", "partitions"), 10**9, "partitions is 1000000000, expected a whole number from 1 to"),
        ("sender", "idle_then_new_batches", ("steps", 1, "args", "partition"), 1, "there is no partition 1"),
        ("connect", "second_worker_joins", ("steps", 0, "args", "members"), [], "the group has no worker"),
    ],
)  # fmt: skip
def test_what_no_recorder_writes_is_told(model: str, name: str, path: Path, junk: Any, words: str) -> None:
    """The sentence has what broke; where it is Python's own error, the recording is at fault, and no model."""
    [found] = with_junk(model, name, path, junk).differences
    assert words in f"{found} {found.got}"
