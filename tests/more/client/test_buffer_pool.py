"""The producer's memory against a model that only adds up: who has what, who waits, and in which order."""

from __future__ import annotations

import pytest

from kitlib.errors import KnobError
from kitlib.more.client.buffer_pool import BufferPool

TOTAL, SIZE = 40, 10


def test_allocate_of_more_than_there_is_is_refused_at_once() -> None:
    """Waiting would never end."""
    with pytest.raises(KnobError, match="41 bytes are more than the whole pool of 40"):
        BufferPool(TOTAL).allocate(41, 1_000, 0)
