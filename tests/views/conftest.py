"""What tests of views share: a player, closed when its test is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kitlib.views import Player


@pytest.fixture
def player() -> Iterator[Player]:
    player = Player("small_max_offset_behind")
    yield player
    player.close()
