"""Where ids and luck come from: both are arguments of a run, so that one seed gives one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kitlib.java.numbers import to_long


class Rng(Protocol):
    """What a run needs of a generator such as `random.Random(seed)`."""

    def getrandbits(self, k: int, /) -> int:
        """A whole number from 0 to 2^k - 1."""
        ...

    def shuffle(self, x: list[Any], /) -> None:
        """Put a list into another order, in place."""
        ...


Chance = Callable[[str, int], float]  # (what, how manieth time) -> a number in [0, 1), the same for the same seed


def generate_id(rng: Rng, id_bits: int) -> int:
    """A random id: a signed long for 64 bits, a number from 0 to 2^id_bits - 1 for fewer. It may be 0.

    Source: Storm 0.9.3, `backtype.storm.tuple.MessageId.generateId`.
    Differs: fewer bits are possible.
    """
    drawn = rng.getrandbits(id_bits)
    return to_long(drawn) if id_bits == 64 else drawn
