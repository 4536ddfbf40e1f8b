"""The ratchet: lines per room only fall."""

from __future__ import annotations

import runpy
from types import SimpleNamespace

from tests.conftest import REPOSITORY

RATCHET = SimpleNamespace(**runpy.run_path(str(REPOSITORY / "scripts" / "count_lines.py")))


def test_no_room_has_more_lines_than_its_number() -> None:
    """A room above its number in scripts/rooms.toml has to give something up for what it took in."""
    table = RATCHET.allowed()
    assert {room: lines for room, lines in RATCHET.count().items() if lines > table.get(room, 0)} == {}


def test_numbers_are_only_ever_lowered() -> None:
    """No commit raises a room's number or the total."""
    assert RATCHET.raised() == []
