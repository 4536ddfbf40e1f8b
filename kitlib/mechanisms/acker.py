"""How Storm knows that a tree of tuples is finished without remembering the tree.

A spout tuple may grow into thousands of tuples on many machines. The acker keeps one number for all
of them. Every edge of the tree (one tuple sent to one task) has a random 64-bit id, and the number is
the XOR of every id it receives. Each id arrives twice: once when the tuple is sent, once when it
is acked. Two equal ids cancel each other, so when the number is zero every tuple that was sent has
been acked, in whatever order the messages came.

A bolt says both things at once: its ack of a tuple carries the tuple's own edge XOR all edges it sent
while it processed that tuple. So the number cannot pass through zero between the two.

The acker knows nothing else. It does not know which tuples there were, nor how many, nor that a
message was duplicated or lost; it forgets an entry that no one touches, and does not report it. It is the
spout that notices, from its own pending map, when a tuple takes too long.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.errors import KitError
from kitlib.java.numbers import MAX_LONG, MIN_LONG
from kitlib.mechanisms.rotating_map import RotatingMap

SECONDS_A_YEAR = 365.25 * 24 * 3600
ACKER_COMPONENT_ID = "__acker"
ACKER_INIT_STREAM_ID = "__ack_init"  # spout -> acker: root id, the XOR of its first edges, the spout's task
ACKER_ACK_STREAM_ID = "__ack_ack"  # bolt -> acker: root id, acked edge XOR new edges; acker -> spout: root id
ACKER_FAIL_STREAM_ID = "__ack_fail"  # bolt -> acker, and acker -> spout: root id
ACKER_RESET_TIMEOUT_STREAM_ID = "__ack_reset_timeout"  # later releases only


class UnknownStreamError(KitError):
    """A message came on a stream that this release of the acker does not know; in Storm the worker dies."""


class IdOutOfRangeError(KitError):
    """A root id or an edge's value does not fit into the bits that ids have."""


@dataclass(slots=True)
class AckerEntry:
    """What the acker knows of one tree."""

    val: int | None = None  # the XOR of every value told so far; None until the first init or ack
    spout_task: int | None = None  # who is to hear of the end; None until the init came
    failed: bool = False  # a fail came; ends the tree unless `val` is zero first


@dataclass(frozen=True, slots=True)
class Completion:
    """The acker's message to a spout task: the tree of `root` is finished, or has failed."""

    spout_task: int
    stream: str  # ACKER_ACK_STREAM_ID or ACKER_FAIL_STREAM_ID
    root: int


@dataclass(slots=True)
class Acker:
    """The trees of the spout tuples that one acker task follows, one entry each.

    Every message takes the root's entry (or a new one), changes it and puts it into the newest bucket.
    Then, if the spout task is known: zero ends the tree as acked, else `failed` ends it as failed, in
    this order. A message that comes after the end begins a new entry which nobody will ever claim.

    Source: Storm 0.9.3, `backtype.storm.daemon.acker` (`mk-acker-bolt`).
    Differs: the completion is returned; ids of fewer than 64 bits are possible, from 0 to 2^id_bits - 1.
    """

    id_bits: int = 64  # of values; 64 means Java's signed long
    pending: RotatingMap[int, AckerEntry] = field(default_factory=lambda: RotatingMap(2))
    low: int = field(init=False)  # the smallest value that an id of these bits can have
    high: int = field(init=False)  # the largest one

    def __post_init__(self) -> None:
        self.low, self.high = bounds_of(self.id_bits)

    def init(self, root: int, val: int, spout_task: int) -> Completion | None:
        """The spout sent a tuple over edges whose XOR is `val`; the completion that follows, or None.

        A second init of a root XORs its value like the first, and its spout task replaces the other.
        Raises IdOutOfRangeError unless low <= val <= high and root is a signed 64-bit number.
        """
        self.check(root, val)
        entry = self.entry(root)
        entry.val = (entry.val or 0) ^ val
        entry.spout_task = spout_task
        return self.apply(root, entry)

    def ack(self, root: int, val: int) -> Completion | None:
        """A bolt acked a tuple: `val` is its edge XOR the edges it sent; the completion that follows, or None.

        Raises IdOutOfRangeError as `init` does.
        """
        self.check(root, val)
        entry = self.entry(root)
        entry.val = (entry.val or 0) ^ val
        return self.apply(root, entry)

    def fail(self, root: int) -> Completion | None:
        """A bolt failed a tuple of this tree; the completion that follows, or None.

        Raises IdOutOfRangeError unless root is a signed 64-bit number.
        """
        self.check(root, 0)
        entry = self.entry(root)
        entry.failed = True
        return self.apply(root, entry)

    def reset_timeout(self, root: int) -> Completion | None:
        """This release knows no such message: always raises UnknownStreamError, and nothing changes."""
        raise UnknownStreamError(
            f"acker: tree {root} got {ACKER_RESET_TIMEOUT_STREAM_ID}, which Storm 0.9.3 does not know; its worker "
            "dies of it. Use the later acker (acker_release='2.4.0'), or a longer timeout."
        )

    def tick(self) -> dict[int, AckerEntry]:
        """A message timeout has passed: rotate. What is dropped is returned for pictures; nobody is told of it."""
        return self.pending.rotate()

    def entry(self, root: int) -> AckerEntry:
        """What is known of the tree; of a new one nothing."""
        return self.pending.get(root) or AckerEntry()

    def keep(self, root: int, entry: AckerEntry) -> None:
        """Into the newest bucket: every message renews its tree's entry."""
        self.pending.put(root, entry)

    def apply(self, root: int, entry: AckerEntry) -> Completion | None:
        """Keep the changed entry, or end the tree, whose entry is then removed. Zero is tested before failed.

        None while the tree goes on, or nobody waits for it.
        """
        self.keep(root, entry)
        if entry.spout_task is None:
            return None
        if entry.val == 0:
            stream = ACKER_ACK_STREAM_ID
        elif entry.failed:
            stream = ACKER_FAIL_STREAM_ID
        else:
            return None
        self.pending.remove(root)
        return Completion(entry.spout_task, stream, root)

    def check(self, root: int, val: int) -> None:
        """Raise IdOutOfRangeError when the root or the value cannot be an id."""
        if self.low <= val <= self.high and MIN_LONG <= root <= MAX_LONG:
            return
        name, value, low, high = (
            ("value", val, self.low, self.high)
            if not self.low <= val <= self.high
            else ("root id", root, MIN_LONG, MAX_LONG)
        )
        raise IdOutOfRangeError(
            f"acker: the {name} of tree {root} is {value}, expected {low} to {high}. "
            f"Make ids with {self.id_bits if name == 'value' else 64} bits, or give the acker wider ones."
        )

    def __repr__(self) -> str:
        return f"<Acker: {len(self.pending)} trees open>"


def bounds_of(id_bits: int) -> tuple[int, int]:
    """The smallest and the largest id of so many bits: signed for 64, from 0 for fewer. KitError unless 1 to 64."""
    if not 1 <= id_bits <= 64:
        raise KitError(f"id_bits is {id_bits}, expected 1 to 64. Storm's own ids have 64.")
    return (MIN_LONG, MAX_LONG) if id_bits == 64 else (0, 2**id_bits - 1)


def false_completion_rate(id_bits: int, numbers: int) -> float:
    """The part of trees called finished too early, when each shows so many `numbers` before its last one.

    While a tree is open its number is the XOR of random ids, so each value of `id_bits` bits is equally likely,
    zero too. Data are lost only when a tuple of that very tree is lost as well.
    A tree of n acked tuples shows n: one after the init, and one after each ack but the last.
    """
    bounds_of(id_bits)
    return 1 - (1 - 0.5**id_bits) ** numbers


def years_to_false_completion(id_bits: int = 64, acks_per_second: float = 10_000) -> float:
    """The mean time until some ack leaves zero by chance, in years."""
    bounds_of(id_bits)
    return 2.0**id_bits / acks_per_second / SECONDS_A_YEAR
