"""Several runs at the same time, for those that mostly wait: runs on real brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Key = TypeVar("Key")
Answer = TypeVar("Answer")


def at_once(call: Callable[[Key], Answer], keys: Iterable[Key]) -> dict[Key, Answer]:
    """What `call` gives for each key, a thread for each call, in the order of the keys. The first key's error, if calls fail.

    at_once(lambda library: run("transactional_lag", backend="kafka", library=library), ("librdkafka", "java"))
    """
    keys = list(keys)
    with ThreadPoolExecutor(max_workers=max(1, len(keys))) as threads:
        return dict(zip(keys, threads.map(call, keys), strict=True))
