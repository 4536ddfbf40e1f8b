"""The map that forgets, against a plain list in which every entry has an age."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kitlib.errors import KitError
from kitlib.mechanisms.rotating_map import RotatingMap

KEYS = st.integers(0, 8)
VALUES = st.integers() | st.none()


class RotatingMapBesideAges(RuleBasedStateMachine):
    """The same operations on a RotatingMap and on a dict of key -> (value, rotations since it was put)."""

    @initialize(bucket_count=st.integers(2, 5))
    def begin(self, bucket_count: int) -> None:
        self.bucket_count = bucket_count
        self.map: RotatingMap[int, int | None] = RotatingMap(bucket_count)
        self.ages: dict[int, tuple[int | None, int]] = {}

    @rule(key=KEYS, value=VALUES)
    def put(self, key: int, value: int | None) -> None:
        self.map.put(key, value)
        self.ages[key] = (value, 0)

    @rule(key=KEYS)
    def get(self, key: int) -> None:
        assert self.map.get(key) == self.ages.get(key, (None, 0))[0]

    @rule(key=KEYS)
    def remove(self, key: int) -> None:
        assert self.map.remove(key) == self.ages.pop(key, (None, 0))[0]

    @rule()
    def rotate(self) -> None:
        older = {key: (value, age + 1) for key, (value, age) in self.ages.items()}
        assert self.map.rotate() == {key: value for key, (value, age) in older.items() if age == self.bucket_count}
        self.ages = {key: (value, age) for key, (value, age) in older.items() if age < self.bucket_count}

    @invariant()
    def holds_the_same(self) -> None:
        buckets = [
            {key: value for key, (value, age) in self.ages.items() if age == wanted} for wanted in range(self.bucket_count)
        ]  # fmt: skip
        assert list(self.map.buckets) == buckets
        assert len(self.map) == len(self.ages) == len(list(self.map)) and set(self.map) == set(self.ages)
        assert all((key in self.map) is (key in self.ages) for key in range(9))


RotatingMapBesideAges.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestRotatingMapBesideAges = RotatingMapBesideAges.TestCase


@pytest.mark.parametrize("bucket_count", [1, 0, -1])
def test_rotating_map_with_fewer_than_two_buckets_is_refused(bucket_count: int) -> None:
    """One bucket would forget at once: Storm asks for two, too."""
    with pytest.raises(KitError, match=f"bucket_count is {bucket_count}, expected 2 or more"):
        RotatingMap(bucket_count)


def test_rotating_map_repr_shows_the_buckets() -> None:
    """The object shows how many entries each bucket has, the newest first."""
    kept: RotatingMap[int, int] = RotatingMap()
    kept.put(1, 1)
    kept.rotate()
    kept.put(2, 2)
    kept.put(3, 3)
    assert repr(kept) == "<RotatingMap: 2 | 1 | 0 entries, newest bucket first>"
