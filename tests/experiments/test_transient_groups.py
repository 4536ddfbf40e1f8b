"""Groups that never come back, in the model of a coordinator's cache."""

from __future__ import annotations

import pytest

from kitlib.errors import KnobError
from kitlib.experiments.compaction.size_story import transient_groups


def test_cache_grows_for_one_retention_and_then_stands_still_while_the_log_goes_on() -> None:
    """Each day's groups go one retention after they became empty, each offset and group with a tombstone."""
    sizes = transient_groups(a_day=10, retention_days=3, days=8)
    groups = [size.groups for size in sizes]
    assert groups == [10, 20, 30, 30, 30, 30, 30, 30]
    assert all(size.offsets == 2 * size.groups for size in sizes)
    assert sizes[-1].records == 8 * 10 * 4 + (80 - groups[-1]) * 3  # written, and tombstones
    with pytest.raises(KnobError, match="1 to 2,000"):
        transient_groups(0, 1, 1)
