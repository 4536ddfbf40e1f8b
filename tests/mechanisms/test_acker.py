"""The acker against a model that knows every open edge, and its rules one by one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import xor

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kitlib.errors import KitError
from kitlib.java.numbers import MIN_LONG
from kitlib.mechanisms.acker import Acker, AckerEntry, Completion, IdOutOfRangeError, UnknownStreamError

ACK, FAIL = "__ack_ack", "__ack_fail"
ROOTS = st.integers(0, 3)
EDGES = st.frozensets(st.integers(0, 5), max_size=3)


@dataclass
class Tree:
    """What the model knows of a tree: all its open edges, by number."""

    edges: set[int] | None = None  # told of an odd number of times; None before the first init or ack
    spout_task: int | None = None
    failed: bool = False
    age: int = 0  # ticks since the last message


def value_of(edges: frozenset[int] | set[int] | None) -> int | None:
    """Each edge has a bit of its own, the last one the sign's, so that only no edge at all gives zero."""
    return None if edges is None else reduce(xor, (MIN_LONG if edge == 5 else 1 << edge for edge in edges), 0)


class AckerBesideOpenEdges(RuleBasedStateMachine):
    """The same messages to an acker and to a model that keeps sets of edges and counts ticks."""

    def __init__(self) -> None:
        super().__init__()
        self.acker = Acker()
        self.trees: dict[int, Tree] = {}

    def expected(self, root: int) -> Completion | None:
        tree = self.trees[root]
        tree.age = 0
        if tree.spout_task is None or not (tree.edges == set() or tree.failed):
            return None
        del self.trees[root]
        return Completion(tree.spout_task, ACK if tree.edges == set() else FAIL, root)

    def toggle(self, root: int, edges: frozenset[int]) -> None:
        tree = self.trees.setdefault(root, Tree())
        tree.edges = (tree.edges or set()) ^ edges

    @rule(root=ROOTS, edges=EDGES, spout_task=st.integers(0, 2))
    def init(self, root: int, edges: frozenset[int], spout_task: int) -> None:
        self.toggle(root, edges)
        self.trees[root].spout_task = spout_task
        assert self.acker.init(root, value_of(edges) or 0, spout_task) == self.expected(root)

    @rule(root=ROOTS, edges=EDGES)
    def ack(self, root: int, edges: frozenset[int]) -> None:
        self.toggle(root, edges)
        assert self.acker.ack(root, value_of(edges) or 0) == self.expected(root)

    @rule(root=ROOTS)
    def ack_all_that_is_open(self, root: int) -> None:
        self.ack(root, frozenset(self.trees.get(root, Tree()).edges or ()))

    @rule(root=ROOTS)
    def fail(self, root: int) -> None:
        self.trees.setdefault(root, Tree()).failed = True
        assert self.acker.fail(root) == self.expected(root)

    @rule()
    def tick(self) -> None:
        for tree in self.trees.values():
            tree.age += 1
        dropped = {root for root, tree in self.trees.items() if tree.age == 2}
        assert set(self.acker.tick()) == dropped
        self.trees = {root: tree for root, tree in self.trees.items() if root not in dropped}

    @rule(root=ROOTS)
    def reset_timeout(self, root: int) -> None:
        with pytest.raises(UnknownStreamError):
            self.acker.reset_timeout(root)

    @invariant()
    def holds_the_same(self) -> None:
        for age, bucket in enumerate(self.acker.pending.buckets):
            assert bucket == {
                root: AckerEntry(value_of(tree.edges), tree.spout_task, tree.failed)
                for root, tree in self.trees.items()
                if tree.age == age
            }


AckerBesideOpenEdges.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestAckerBesideOpenEdges = AckerBesideOpenEdges.TestCase


@pytest.mark.parametrize(
    ("id_bits", "root", "val", "words"),
    [
        (64, 2**63, 0, "the root id of tree 9223372036854775808"), (64, -(2**63) - 1, 0, "the root id"),
        (64, 1, 2**63, "the value of tree 1 is 9223372036854775808"), (64, 1, -(2**63) - 1, "expected -9223372036854775808"),
        (8, 1, 256, "the value of tree 1 is 256, expected 0 to 255"), (8, 1, -1, "is -1, expected 0 to 255"),
        (1, 1, 2, "is 2, expected 0 to 1"), (4, 2**63, 3, "the root id"),
    ],
)  # fmt: skip
def test_acker_id_beyond_its_bits_is_refused_and_changes_nothing(id_bits: int, root: int, val: int, words: str) -> None:
    """A value or root that does not fit is an error that says what would; the ledger is as before."""
    acker = Acker(id_bits)
    calls = [lambda: acker.init(root, val, 1), lambda: acker.ack(root, val)]
    if val == 0:
        calls.append(lambda: acker.fail(root))
    for call in calls:
        with pytest.raises(IdOutOfRangeError, match=words):
            call()
    assert len(acker.pending) == 0


@pytest.mark.parametrize("id_bits", [0, -1, 65])
def test_acker_with_no_such_bits_is_refused(id_bits: int) -> None:
    """Ids have 1 to 64 bits."""
    with pytest.raises(KitError, match="expected 1 to 64"):
        Acker(id_bits)


def test_acker_false_completion_needs_few_bits() -> None:
    """Two open edges with the same 4-bit id cancel: the tree is acked though neither was."""
    acker = Acker(4)
    acker.init(1, 0b0101, 1)
    assert acker.ack(1, 0b0101 ^ 0b1001 ^ 0b1001) == Completion(1, ACK, 1)
