"""How often an acker's number is zero by chance, and how long one waits for it.

While a tree is open, the number is the XOR of random ids, so each value of `id_bits` bits is equally
likely, zero too. A tree is called finished too early if one of its numbers on the way is zero. Data are
lost only when a tuple of that very tree is lost as well.
"""

from __future__ import annotations

from kitlib.storm.acker import bounds_of

SECONDS_A_YEAR = 365.25 * 24 * 3600


def false_completion_rate(id_bits: int, numbers: int) -> float:
    """The part of trees called finished too early, when each shows so many `numbers` before its last one.

    A tree of n acked tuples shows n: one after the init, and one after each ack but the last.
    """
    bounds_of(id_bits)
    return 1 - (1 - 0.5**id_bits) ** numbers


def years_to_false_completion(id_bits: int = 64, acks_per_second: float = 10_000) -> float:
    """The mean time until some ack leaves zero by chance, in years."""
    bounds_of(id_bits)
    return 2.0**id_bits / acks_per_second / SECONDS_A_YEAR
