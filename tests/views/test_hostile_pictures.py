"""Whatever a trace calls its processes, topics, keys and errors is only ever text in its pictures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from typing import Any

import pytest

from kitlib.errors import KitError
from kitlib.trace import Trace
from kitlib.views import show
from kitlib.views.scene import kind_of
from tests.test_hostile_trace import RUNS, lines_of
from tests.views.payloads import HOSTILE, assert_only_text

PLAIN = {"all"}


def texts_in(value: Any) -> Iterator[str]:
    """All texts in a line, names of fields of its state among them."""
    if isinstance(value, str):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts_in(each)


def renamed(value: Any, old: str, new: str) -> Any:
    """The same with another name wherever this one stands alone, or begins or ends a name."""
    if isinstance(value, dict):
        return {renamed(key, old, new): renamed(each, old, new) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each, old, new) for each in value]
    return new if value == old else value.replace(old, new) if isinstance(value, str) and len(old) > 3 else value


@pytest.mark.parametrize("domain", RUNS)
def test_every_text_of_a_trace_is_only_text_in_its_pictures(domain: str) -> None:
    """Each name, key, reason and error in turn is one of the hostile texts; where the trace can still be drawn, nothing becomes markup."""
    rows = lines_of(RUNS[domain])
    found = dict.fromkeys(text for row in rows[1:] for part in ("actor", "data", "state") for text in texts_in(row.get(part)))
    drawn = 0
    for text, payload in zip([*found, *list(found)[:10]], cycle(HOSTILE), strict=False):
        kept = [rows[0], *({name: each if name in ("n", "at_ms", "what") else renamed(each, text, payload) for name, each in row.items()}
                           for row in rows[1:])]  # fmt: skip
        with suppress(KitError):
            trace = Trace.from_json_lines(map(json.dumps, kept))
            kind = kind_of(trace)
            for part in kind.PARTS if kind else PLAIN:
                assert_only_text(show(trace, part=part))
                drawn += 1
    assert drawn > len(found)
