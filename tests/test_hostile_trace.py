"""A recorded trace comes from strangers: whatever stands in it, reading, judging, drawing and comparing end in a picture or a KitError."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest

from kitlib.errors import KitError
from kitlib.experiments import get
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from kitlib.views import compare, show
from kitlib.views.browser.saved_page import to_recording
from kitlib.words import DOMAINS
from kitlib.words.fields import ANYTHING, FIELDS
from kitlib.words.word import EVERYWHERE

MUTANTS, STEPS = 40, 60
# A short run of each domain; no experiment tells its own in the words of `difference`.
RUNS = {
    "spout": "small_max_offset_behind", "topology": "tuple_tree", "idempotence": "producer_id_expired", "groups": "reset_policy",
    "transactions": "hanging_transaction", "send_path": "two_sends", "connect": "connect_layouts", "source": "connect_source_crash",
    "streams": "streams_thread_lost", "partitions": "partitions_added", "compaction": "compacted_topic",
    "offsets": "coordinator_moves", "incidents": "stale_offset", "replication": "flipped_bit",
    "checkpoint": "checkpoint_kill", "share": "share_crash",
}  # fmt: skip
ODD = [
    None, True, -1, 0, 10**400, 2**63, -(2**70), 10**9, 10**18, 1.5, float("nan"), float("inf"), "", "zero", "\x1b[31m", "9" * 300,
    [], [1], ["a"], [None], [[1, 2]], [[5, 1]], [[0, 10**9]], [[0, 77.0]], ["a", 1], [[[[[]]]]], [{}], {}, {"a": 1}, {"a": {}},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a line, further in."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield (*path, key)
        yield from places(each, (*path, key))


def mutated(rows: list[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    """One or two things changed: a value, a field or a step that is missing, another name, another order, a step twice."""
    rows = deepcopy(rows)
    for _ in range(rng.choice([1, 1, 2])):
        kind, at = rng.choice(["set"] * 6 + ["drop", "drop", "rename", "swap", "twice", "lose"]), rng.randrange(len(rows))
        if kind in ("set", "drop", "rename"):
            part = rng.choice([name for name in ("data", "data", "state", "knobs") if rows[at].get(name)] or [""])
            root = rows[at][part] if part else rows[at]
            *path, last = rng.choice(list(places(root)))
            for key in path:
                root = root[key]
            if kind == "set":
                root[last] = rng.choice(ODD)
            elif kind == "drop" or isinstance(root, list):
                del root[last]
            else:
                root[rng.choice(["offset", "", "9"])] = root.pop(last)
            continue
        other = rng.randrange(len(rows))
        if kind == "swap":
            rows[at], rows[other] = rows[other], rows[at]
        elif kind == "twice":
            rows.insert(at, deepcopy(rows[at]))
        else:
            del rows[at]
        steps = [row for row in rows if "what" in row]
        for number, row in enumerate(steps):
            row |= {"n": number, "at_ms": max(row["at_ms"], steps[number - 1]["at_ms"] if number else 0)}
    return rows


def lines_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in get(name).run().to_json_lines()][: STEPS + 1]


@pytest.mark.parametrize("domain", RUNS)
def test_mutated_trace_ends_in_a_picture_or_a_kit_error(domain: str) -> None:
    """Types, huge numbers, missing fields, another order, NaN, truths and nests: nothing but a KitError escapes."""
    rows = lines_of(RUNS[domain])
    good = Trace.from_json_lines(map(json.dumps, rows))
    assert good.domain == domain
    read = 0
    for number in range(MUTANTS):
        lines = [json.dumps(row) for row in mutated(rows, random.Random(f"{domain}{number}"))]
        with suppress(KitError):
            trace = Trace.from_json_lines(lines)
            read += 1
            assert all(map(trace.sentence, trace))
            for use in (judge, show, lambda trace: show(trace).svg, lambda trace: compare(trace, good).svg):
                with suppress(KitError):
                    use(trace)
            if number % 4 == 0:
                to_recording(trace)
    assert 0 < read < MUTANTS


def test_every_declared_field_has_a_kind() -> None:
    """A field of a word without a kind would be read unchecked; a kind for a name that no word has is of no use."""
    kinds = [word.kinds for name in [*RUNS, "difference"] for word in (*DOMAINS[name].words.values(), *EVERYWHERE.values())]
    assert not [name for each in kinds for name, kind in each.items() if kind is ANYTHING]
    assert set().union(*kinds) >= FIELDS.keys()
