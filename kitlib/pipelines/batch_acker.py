"""The acker for large runs: arrays of messages in, arrays of completions out, and the plain acker's outcome.

A message at a time, Python manages about a million a second. A batch is faster if it is first put in
order by root, in the order of arrival within a root: then one running XOR over the whole batch holds
the value of every tree at every message, and comparing it with what it was before the tree's first
message finds each tree that became zero. Trees are kept between batches as sorted columns without a gap.

Almost every tree of a batch is simple: one init at most, no fail, and no end but at its last message. For
these all steps are array operations. The others (failed, doubled, begun twice, told of after their end)
are few; their messages go through the plain `Acker` itself, so its rules are written down only once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kitlib.errors import KitError
from kitlib.java.numbers import MAX_LONG, MIN_LONG
from kitlib.mechanisms.acker import ACKER_ACK_STREAM_ID, Acker, AckerEntry, IdOutOfRangeError, bounds_of

INIT, ACK, FAIL = 0, 1, 2  # the kinds of messages
MIN_INT, MAX_INT = -(2**31), 2**31 - 1

CHUNK = 1 << 18  # messages that are put in order at once; a power of two
LOW = np.uint64(CHUNK - 1)  # the bits of a message's number

# Multiplied by an odd number, modulo 2^64, no two roots become the same, and small ones spread over all 64 bits.
SPREAD = np.uint64(0x9E3779B97F4A7C15)
GATHER = np.uint64(pow(0x9E3779B97F4A7C15, -1, 2**64))  # the way back

# The flags of a tree: it has a value, it has a spout task, a fail came, it lies in the older bucket.
HAS_VAL, KNOWN, FAILED, OLD = (np.uint8(1 << bit) for bit in range(4))

Longs = NDArray[np.int64]
Keys = NDArray[np.uint64]
Tasks = NDArray[np.int32]
Flags = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Completions:
    """The trees that a batch ended, in the order of the messages which ended them: columns of one length."""

    message: Longs  # the number of that message in the batch, from 0; ascends
    root: Longs
    spout_task: Tasks
    acked: Mask  # False: failed

    def __len__(self) -> int:
        return len(self.message)

    @classmethod
    def joined(cls, parts: list[Completions]) -> Completions:
        """The completions of all parts of a batch in one."""
        columns = zip(*((part.message, part.root, part.spout_task, part.acked) for part in parts), strict=True)
        return cls(*map(np.concatenate, columns))


@dataclass(frozen=True, slots=True)
class Messages:
    """A batch in the order of arrival: four columns of one length."""

    kind: Flags  # INIT, ACK or FAIL
    root: Longs
    val: Longs
    spout_task: Tasks  # matters for an INIT only

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def checked(
        cls, kinds: ArrayLike, roots: ArrayLike, vals: ArrayLike, spout_tasks: ArrayLike, id_bits: int
    ) -> Messages:
        """The columns with their types; KitError or IdOutOfRangeError, as `BatchAcker.feed` says."""
        low, high = bounds_of(id_bits)
        kind = whole_numbers("kinds", kinds, INIT, FAIL)
        given = (
            kind,
            whole_numbers("roots", roots, MIN_LONG, MAX_LONG),
            whole_numbers("vals", vals, low, high, kind != FAIL),
            whole_numbers("spout_tasks", spout_tasks, MIN_INT, MAX_INT, kind == INIT),
        )
        lengths = [len(column) for column in given]
        if len(set(lengths)) > 1:
            raise KitError(f"batch acker: columns of {lengths} messages. Give four columns of one length.")
        types = (np.uint8, np.int64, np.int64, np.int32)
        return cls(*(column.astype(dtype, copy=False) for column, dtype in zip(given, types, strict=True)))

    def part(self, first: int, end: int) -> Messages:
        """The messages from `first` to before `end`."""
        return Messages(self.kind[first:end], self.root[first:end], self.val[first:end], self.spout_task[first:end])

    def taken(self, numbers: Places) -> Messages:
        """The messages with these numbers."""
        return Messages(self.kind[numbers], self.root[numbers], self.val[numbers], self.spout_task[numbers])

    def rows(self) -> Iterator[tuple[int, int, int, int]]:
        """Each message as plain integers: kind, root, value, spout task."""
        return zip(self.kind.tolist(), self.root.tolist(), self.val.tolist(), self.spout_task.tolist(), strict=True)


def whole_numbers(name: str, given: ArrayLike, low: int, high: int, matters: Mask | None = None) -> NDArray[Any]:
    """A column whose numbers are all from low to high, at least where it matters; KitError otherwise."""
    try:
        column = np.asarray(given)
    except (ValueError, TypeError, OverflowError) as error:
        raise KitError(f"batch acker: {name} is no column of numbers ({error}). Give a list or an array.") from None
    if column.ndim != 1 or (column.size and column.dtype.kind not in "iu"):
        raise KitError(
            f"batch acker: {name} has the type {column.dtype} and the shape {column.shape}, "
            "expected one dimension of whole numbers of at most 64 bits."
        )
    if not column.size or (np.iinfo(column.dtype).min >= low and np.iinfo(column.dtype).max <= high):
        return column
    is_outside = (column < low) | (column > high)
    if matters is not None and len(matters) == len(column):
        is_outside &= matters
    if is_outside.any():
        number = int(np.argmax(is_outside))
        refused = IdOutOfRangeError if name in ("roots", "vals") else KitError
        raise refused(f"batch acker: {name}[{number}] is {column[number]}, expected {low} to {high}.")
    return column


@dataclass(slots=True)
class Trees:
    """Columns with one place for each open tree, in ascending order of `key`: 21 bytes a tree and nothing to spare."""

    key: Keys = field(default_factory=lambda: np.empty(0, np.uint64))  # the root times SPREAD; each one once
    val: Longs = field(default_factory=lambda: np.empty(0, np.int64))  # 0 without HAS_VAL
    spout_task: Tasks = field(default_factory=lambda: np.empty(0, np.int32))  # 0 without KNOWN
    flags: Flags = field(default_factory=lambda: np.empty(0, np.uint8))

    def __len__(self) -> int:
        return len(self.key)

    @property
    def nbytes(self) -> int:
        """The bytes of all columns."""
        return sum(column.nbytes for column in self.columns())

    def columns(self) -> tuple[NDArray[Any], ...]:
        """All columns, the key first."""
        return self.key, self.val, self.spout_task, self.flags

    def taken(self, places: Places) -> Trees:
        """A copy of the trees at these places."""
        return Trees(*(column[places] for column in self.columns()))

    def find(self, keys: Keys) -> tuple[Places, Mask]:
        """The place of each of these ascending keys, and whether it is there at all."""
        places = np.searchsorted(self.key, keys)
        if not len(self):
            return places, np.zeros(len(keys), np.bool_)
        places[places == len(self)] = 0
        return places, self.key[places] == keys

    def looked_up(self, keys: Keys, places: Places, there: Mask) -> Trees:
        """What `find` found, with an empty tree for each key that is not there."""
        if not len(self):
            count = len(keys)
            return Trees(keys, np.zeros(count, np.int64), np.zeros(count, np.int32), np.zeros(count, np.uint8))
        found = self.taken(places)
        return Trees(keys, found.val * there, found.spout_task * there, found.flags * there)

    def merged(self, gone: Places, new: Trees) -> Trees:
        """These trees without those at the places `gone`, and with new ones, whose keys are not here."""
        is_kept = np.ones(len(self), np.bool_)
        is_kept[gone] = False
        kept = self.taken(np.flatnonzero(is_kept))
        places = np.searchsorted(kept.key, new.key) + np.arange(len(new))
        is_old = np.ones(len(kept) + len(new), np.bool_)
        is_old[places] = False
        old_places = np.flatnonzero(is_old)
        columns = []
        for old, added in zip(kept.columns(), new.columns(), strict=True):
            column = np.empty(len(is_old), old.dtype)
            column[old_places], column[places] = old, added
            columns.append(column)
        return Trees(*columns)


@dataclass(frozen=True, slots=True)
class Groups:
    """A batch in order: the messages of each root together, in the order of arrival."""

    order: Places  # of each place: the number of its message in the batch
    group: Places  # of each place: the number of its group, from 0; never descends
    start: Places  # of each group: its first place
    end: Places  # of each group: its last place
    key: Keys  # of each group: its root times SPREAD; ascends


def grouped(roots: Longs) -> Groups:
    """The messages in order by root; `roots` has at most CHUNK of them.

    A plain sort is several times as fast as a stable sort of places. So the number of the message is put in place of
    the key's low bits, which seldom tell two roots apart that the high bits do not. If they would have, it is noticed.
    """
    keys = roots.view(np.uint64) * SPREAD
    numbered = (keys & ~LOW) | np.arange(len(keys), dtype=np.uint64)
    numbered.sort()
    order = (numbered & LOW).astype(np.intp)
    begins = first_of_each(keys[order])
    if not np.array_equal(begins, first_of_each(numbered & ~LOW)):  # there are two roots with the same high bits
        order = np.argsort(keys, kind="stable")
        begins = first_of_each(keys[order])
    start = np.flatnonzero(begins)
    length = np.diff(start, append=len(keys))
    return Groups(order, np.repeat(np.arange(len(start)), length), start, start + length - 1, keys[order[start]])


def first_of_each(keys: Keys) -> Mask:
    """Where in a column another key begins than the one before."""
    begins = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=begins[1:])
    return begins


@dataclass(slots=True)
class BatchAcker:
    """The trees that one acker task follows, for batches of messages.

    Source: as `kitlib.mechanisms.acker.Acker`; completions, what ticks drop and the ledger after each batch are the same.
    Differs: a spout task is a signed 32-bit number; a wrong message refuses its whole batch; dropped trees are counted.
    """

    id_bits: int = 64
    trees: Trees = field(default_factory=Trees)

    def __post_init__(self) -> None:
        bounds_of(self.id_bits)

    def feed(self, kinds: ArrayLike, roots: ArrayLike, vals: ArrayLike, spout_tasks: ArrayLike) -> Completions:
        """Take in messages in the order of arrival; the trees that they end.

        Four columns of one length: kinds are INIT, ACK or FAIL; the value of a FAIL, and the spout task of what is
        no INIT, do not matter. Raises KitError for columns of another shape or type, and IdOutOfRangeError unless
        values have at most `id_bits`; nothing has changed then.
        """
        messages = Messages.checked(kinds, roots, vals, spout_tasks, self.id_bits)
        firsts = range(0, max(1, len(messages)), CHUNK)
        return Completions.joined([self.feed_part(messages.part(first, first + CHUNK), first) for first in firsts])

    def tick(self) -> int:
        """A message timeout has passed: drop what nobody has touched since the tick before; how many these were."""
        before = len(self.trees)
        recent = np.flatnonzero((self.trees.flags & OLD) == 0)
        if len(recent) < before:
            self.trees = self.trees.taken(recent)
        self.trees.flags |= OLD
        return before - len(recent)

    def buckets(self) -> list[dict[int, AckerEntry]]:
        """The ledger as the plain acker has it: two buckets, the newest first, of root and entry."""
        found: list[dict[int, AckerEntry]] = [{}, {}]
        roots = roots_of(self.trees.key).tolist()
        for root, entry, flags in zip(roots, entries_of(self.trees), self.trees.flags.tolist(), strict=True):
            found[1 if flags & OLD else 0][root] = entry
        return found

    def feed_part(self, messages: Messages, first: int) -> Completions:
        """As `feed`, for at most CHUNK messages, the first of which has the number `first` in the batch."""
        told = grouped(messages.root)
        places, is_known = self.trees.find(told.key)
        before = self.trees.looked_up(told.key, places, is_known)
        found, odd = simple_outcome(messages, told, before)
        if len(odd):
            self.play(messages, told, odd, before, found)

        stays = np.flatnonzero(is_known & ~found.is_ended)
        for column, changed in zip(self.trees.columns()[1:], found.trees.columns()[1:], strict=True):
            column[places[stays]] = changed[stays]
        gone = places[np.flatnonzero(is_known & found.is_ended)]
        new = np.flatnonzero(~is_known & ~found.is_ended)
        if len(gone) or len(new):
            self.trees = self.trees.merged(gone, found.trees.taken(new))
        ending = np.flatnonzero(found.ending)
        return Completions(ending + first, messages.root[ending], found.spout_task[ending], found.ending[ending] == ACK)

    def play(self, messages: Messages, told: Groups, odd: Places, before: Trees, found: Outcome) -> None:
        """Play the messages of the odd groups on a plain acker, and correct what was found for them."""
        acker = Acker(self.id_bits)
        roots = roots_of(before.key[odd]).tolist()
        for root, entry in zip(roots, entries_of(before.taken(odd)), strict=True):
            if entry != AckerEntry():
                acker.pending.put(root, entry)
        is_odd = np.zeros(len(told.key), np.bool_)
        is_odd[odd] = True
        numbers = told.order[np.flatnonzero(is_odd[told.group])]
        for number, (kind, root, val, spout_task) in zip(numbers.tolist(), messages.taken(numbers).rows(), strict=True):
            if kind == INIT:
                completion = acker.init(root, val, spout_task)
            else:
                completion = acker.ack(root, val) if kind == ACK else acker.fail(root)
            if completion is not None:
                found.ending[number] = ACK if completion.stream == ACKER_ACK_STREAM_ID else FAIL
                found.spout_task[number] = completion.spout_task
        for group, root in zip(odd.tolist(), roots, strict=True):
            left = acker.pending.get(root)
            found.is_ended[group] = left is None
            if left is not None:
                found.trees.val[group], found.trees.spout_task[group] = left.val or 0, left.spout_task or 0
                found.trees.flags[group] = flags_of(left)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of a batch in order."""

    trees: Trees  # of each group: the tree after its last message
    is_ended: Mask  # of each group: there is no tree any more
    ending: Flags  # of each message: ACK or FAIL if it ended its tree so, else 0
    spout_task: Tasks  # of each message: who is to hear of that end


def simple_outcome(messages: Messages, told: Groups, before: Trees) -> tuple[Outcome, Places]:
    """What becomes of each group if it is simple, and which groups are odd: for these it is not right yet."""
    kind, val = messages.kind[told.order], messages.val[told.order]
    running = np.bitwise_xor.accumulate(val)
    origin = running[told.start] ^ val[told.start] ^ before.val  # a tree's value is zero where `running` is its origin
    inits = np.flatnonzero(kind == INIT)
    of_init = told.group[inits]
    has_task = (before.flags & KNOWN) != 0
    has_task[of_init] = True
    zeros = np.flatnonzero(running == origin[told.group])
    zeros = zeros[has_task[told.group[zeros]]]
    of_zero = told.group[zeros]
    is_last = zeros == told.end[of_zero]

    is_odd = (before.flags & FAILED) != 0
    is_odd[told.group[np.flatnonzero(kind == FAIL)]] = True
    is_odd[of_zero[~is_last]] = True  # messages come after the end, or it is zero before its init
    is_odd[of_init[(before.flags[of_init] & KNOWN) != 0]] = True  # a second init
    is_odd[of_init[1:][of_init[1:] == of_init[:-1]]] = True

    after = Trees(told.key, running[told.end] ^ origin, before.spout_task.copy(), (before.flags | HAS_VAL) & ~OLD)
    after.spout_task[of_init] = messages.spout_task[told.order[inits]]
    after.flags[of_init] |= KNOWN
    is_ended = np.zeros(len(told.key), np.bool_)
    is_ended[of_zero[is_last]] = True
    found = Outcome(after, is_ended, np.zeros(len(messages), np.uint8), np.zeros(len(messages), np.int32))
    ended = np.flatnonzero(is_ended & ~is_odd)
    found.ending[told.order[told.end[ended]]] = ACK
    found.spout_task[told.order[told.end[ended]]] = after.spout_task[ended]
    return found, np.flatnonzero(is_odd)


def roots_of(keys: Keys) -> Longs:
    """The root ids of these keys."""
    return (keys * GATHER).view(np.int64)


def entries_of(trees: Trees) -> list[AckerEntry]:
    """The plain acker's entry of each tree."""
    columns = (trees.val.tolist(), trees.spout_task.tolist(), trees.flags.tolist())
    return [
        AckerEntry(val if flags & HAS_VAL else None, task if flags & KNOWN else None, bool(flags & FAILED))
        for val, task, flags in zip(*columns, strict=True)
    ]


def flags_of(entry: AckerEntry) -> int:
    """The flags of a tree that has just been touched."""
    told = ((HAS_VAL, entry.val is not None), (KNOWN, entry.spout_task is not None), (FAILED, entry.failed))
    return sum(int(flag) for flag, is_set in told if is_set)
