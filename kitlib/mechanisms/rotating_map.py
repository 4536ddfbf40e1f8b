"""A map that forgets: what is not put again between two rotations and more is dropped.

Storm ends what takes too long with this one structure. Keys lie in buckets, the newest first. Each
tick drops the last bucket whole and opens an empty one in front, so no entry needs a clock of its
own. The price is an age that varies: with `n` buckets rotated every `t`, an untouched entry is
dropped between (n - 1) x t and n x t after it was put.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from kitlib.errors import KitError

Key = TypeVar("Key")
Value = TypeVar("Value")


class RotatingMap(Generic[Key, Value]):
    """Keys in buckets, newest first; `rotate` drops the oldest bucket.

    Source: Storm 0.9.3, `backtype.storm.utils.RotatingMap`.
    Differs: what a rotation drops is returned, never handed to a callback.
    """

    __slots__ = ("buckets",)

    def __init__(self, bucket_count: int = 3) -> None:
        """`bucket_count` empty buckets. KitError when bucket_count < 2."""
        if bucket_count < 2:
            raise KitError(
                f"RotatingMap: bucket_count is {bucket_count}, expected 2 or more. "
                "With one bucket a rotation would drop what was put a moment ago."
            )
        self.buckets: deque[dict[Key, Value]] = deque({} for _ in range(bucket_count))  # a key is in one at most

    def rotate(self) -> dict[Key, Value]:
        """Open an empty bucket in front; the entries of the oldest one, which are gone."""
        dropped = self.buckets.pop()
        self.buckets.appendleft({})
        return dropped

    def get(self, key: Key) -> Value | None:
        """The key's value, or None. Looking does not renew."""
        for bucket in self.buckets:
            if key in bucket:
                return bucket[key]
        return None

    def put(self, key: Key, value: Value) -> None:
        """Into the newest bucket, wherever it was: this renews the key."""
        buckets = iter(self.buckets)
        next(buckets)[key] = value
        for bucket in buckets:
            bucket.pop(key, None)

    def remove(self, key: Key) -> Value | None:
        """Take the key out; its value, or None when it was not there."""
        for bucket in self.buckets:
            if key in bucket:
                return bucket.pop(key)
        return None

    def __contains__(self, key: object) -> bool:
        return any(key in bucket for bucket in self.buckets)

    def __len__(self) -> int:
        return sum(map(len, self.buckets))

    def __iter__(self) -> Iterator[Key]:
        """The keys, newest bucket first."""
        for bucket in self.buckets:
            yield from bucket

    def __repr__(self) -> str:
        return f"<RotatingMap: {' | '.join(str(len(bucket)) for bucket in self.buckets)} entries, newest bucket first>"
