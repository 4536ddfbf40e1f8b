"""The order in which Java's HashMap and HashSet iterate over their elements.

A leader keeps the members of its group in a HashMap, and goes through that map when it decides who keeps
a partition. So who gets it can depend on the order of a hash table. That order is no mystery: a table has a
power of two of buckets, a key's bucket follows from its hash code, and within a bucket, keys are in order of
arrival. The table doubles when it is three quarters full, and never shrinks.

Source: OpenJDK 21, `HashMap` (`hash`, `putVal`, `computeIfAbsent`, `resize`, `treeifyBin`).
Differs: only the order is kept. A bucket with nine keys in a table of 64 buckets or more becomes a tree in
Java, whose first key may change; here its keys stay as they came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kitlib.java.hash_codes import text_hash_code
from kitlib.java.numbers import INT_BITS

K = TypeVar("K")

SMALLEST_TABLE = 16  # HashMap.DEFAULT_INITIAL_CAPACITY
LONGEST_LIST = 8  # HashMap.TREEIFY_THRESHOLD: a bucket that gets one more grows the table, or becomes a tree
SMALLEST_TABLE_WITH_TREES = 64  # HashMap.MIN_TREEIFY_CAPACITY


@dataclass(slots=True)
class HashOrder(Generic[K]):
    """A set of keys that is gone through as Java goes through a HashSet, or through the keys of a HashMap."""

    hash_of: Callable[[K], int]  # Java's hashCode() of a key, an int
    buckets: int = SMALLEST_TABLE  # a power of two; it only grows
    hashes: dict[K, int] = field(default_factory=dict)  # key -> its spread hash, in the order the keys came

    def add(self, key: K) -> None:
        """Put the key in; one that is there stays where it is."""
        if key in self.hashes:
            return
        code = self.hash_of(key) & INT_BITS
        self.hashes[key] = spread = code ^ code >> 16
        in_bucket = Counter(each & self.buckets - 1 for each in self.hashes.values())[spread & self.buckets - 1]
        if in_bucket > LONGEST_LIST and self.buckets < SMALLEST_TABLE_WITH_TREES:
            self.buckets *= 2
        if len(self.hashes) > self.buckets * 3 // 4:
            self.buckets *= 2

    def discard(self, key: K) -> None:
        """Take the key out, if it is in; the table keeps its size."""
        self.hashes.pop(key, None)

    def __iter__(self) -> Iterator[K]:
        return iter(sorted(self.hashes, key=lambda key: self.hashes[key] & self.buckets - 1))

    def __len__(self) -> int:
        return len(self.hashes)


def in_hash_order(names: Iterable[str]) -> list[str]:
    """Each name once, as a HashMap or HashSet of Java's default size hands out strings that came in this order."""
    order = HashOrder[str](text_hash_code)
    for name in names:
        order.add(name)
    return list(order)


def in_computed_order(names: Iterable[str]) -> list[str]:
    """Each name once, as a HashMap hands out strings for each of which computeIfAbsent was called.

    That puts a new key before the others of its bucket. It looks for room before it does anything, also
    when the key turns out to be there.
    """
    codes: dict[str, int] = {}
    buckets = SMALLEST_TABLE
    for name in names:
        if len(codes) > buckets * 3 // 4:
            buckets *= 2
        codes.setdefault(name, text_hash_code(name) & INT_BITS)
    last_first = list(codes)[::-1]
    return sorted(last_first, key=lambda name: (codes[name] ^ codes[name] >> 16) & buckets - 1)
