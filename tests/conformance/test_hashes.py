"""The kit's hashes of what no recording asks for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kitlib.errors import KnobError
from kitlib.more import hashes


@pytest.mark.parametrize("ask", [lambda: hashes.partition_of_key(b"a", 0), lambda: hashes.group_partition("a", -1)])
def test_partition_of_no_partitions_is_a_knob_error(ask: Callable[[], int]) -> None:
    """There must be at least one to choose from."""
    with pytest.raises(KnobError, match="1 or more"):
        ask()
