"""Recordings that are changed by hand, so that a test sees the change found."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any


def changed_in(scenarios: Mapping[str, dict[str, Any]], name: str, number: int, path: str, value: Any) -> dict[str, Any]:
    """A copy of a scenario with one field of one step replaced; a path such as "state.acker.0.0.1"."""
    trace = copy.deepcopy(scenarios[name])
    inner: Any = trace["steps"][number]
    *folders, last = path.split(".")
    for folder in folders:
        inner = inner[int(folder)] if isinstance(inner, list) else inner[folder]
    inner[int(last) if isinstance(inner, list) else last] = value
    return trace
