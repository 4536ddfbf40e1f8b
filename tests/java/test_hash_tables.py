"""The order of Java's hash tables."""

from __future__ import annotations

from kitlib.java.hash_tables import HashOrder, in_computed_order, in_hash_order


def test_hash_order_is_by_bucket_and_then_by_arrival() -> None:
    """Aa and BB have one hash code in Java; 13 keys double the table, as nine of one bucket do."""
    assert in_hash_order(["BB", "Aa", "C"]) == ["BB", "Aa", "C"] and in_hash_order(["Aa", "C", "BB"]) == [
        "Aa",
        "BB",
        "C",
    ]
    assert in_computed_order(["BB", "Aa", "C"]) == ["Aa", "BB", "C"]
    assert in_hash_order([chr(97 + n) for n in range(13)])[0] == "a" and in_hash_order(["p", "a"]) == ["p", "a"]
    assert in_hash_order(["p", *"abcdefghijkl"])[:2] == ["a", "b"]
    crowded = HashOrder[int](lambda number: number)
    for number in range(0, 16 * 9, 16):
        crowded.add(number)
    assert crowded.buckets == 32 and list(crowded)[:5] == [0, 32, 64, 96, 128]


def test_hash_order_forgets_a_key_but_not_its_size() -> None:
    """A key that comes back stands behind the others of its bucket; the table never shrinks."""
    order = HashOrder[int](lambda number: number)
    for number in (1, 17, *range(2, 14)):
        order.add(number)
    order.discard(1)
    order.discard(99)
    assert (order.buckets, len(order)) == (32, 13)
    small = HashOrder[int](lambda number: number)
    for number in (1, 17):
        small.add(number)
    small.discard(1)
    small.add(1)
    small.add(17)
    assert list(small) == [17, 1]
