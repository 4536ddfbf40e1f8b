"""Lines for the word counts, and what is true of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

VOCABULARY = (
    "storm",
    "spout",
    "bolt",
    "tuple",
    "acker",
    "root",
    "batch",
    "commit",
    "offset",
    "replay",
    "count",
    "word",
)


def make_lines(count: int, seed: int) -> list[bytes]:
    """Lines of three to six words, the same ones for the same seed."""
    rng = Random(seed)
    return [" ".join(rng.choices(VOCABULARY, k=rng.randint(3, 6))).encode() for _ in range(count)]


def count_words(lines: Iterable[bytes]) -> Counter[str]:
    """How often each word stands in the lines."""
    return Counter(word for line in lines for word in line.decode().split())
