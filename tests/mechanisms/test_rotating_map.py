"""The map that forgets: its buckets are held by the recorded ackers and spouts, and by the later acker's book."""

from __future__ import annotations

import pytest

from kitlib.errors import KitError
from kitlib.mechanisms.rotating_map import RotatingMap


@pytest.mark.parametrize("bucket_count", [1, 0, -1])
def test_rotating_map_with_fewer_than_two_buckets_is_refused(bucket_count: int) -> None:
    """One bucket would forget at once: Storm asks for two, too."""
    with pytest.raises(KitError, match=f"bucket_count is {bucket_count}, expected 2 or more"):
        RotatingMap(bucket_count)
