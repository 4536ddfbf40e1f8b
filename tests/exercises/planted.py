"""Answers of learners who write a whole class: right ones of every make, and slips, each of which a recorded step shows."""

from __future__ import annotations

from typing import Any, ClassVar

from kitlib.mechanisms.acker import Acker
from kitlib.more.topology.later_acker import LaterAcker
from tests.exercises.solutions import slips


class FromScratch:
    """An acker of two plain dicts with other names, tuples as answers: judged by its completions alone."""

    def __init__(self) -> None:
        self.young: dict[int, list[Any]] = {}
        self.old: dict[int, list[Any]] = {}

    def told(self, root: int, val: int = 0, task: int | None = None, has_failed: bool = False) -> Any:
        entry = self.young.get(root) or self.old.pop(root, None) or [0, None, False]
        entry[0] ^= val
        entry[1] = entry[1] if task is None else task
        entry[2] = entry[2] or has_failed
        self.young[root] = entry
        if entry[1] is None or (entry[0] and not entry[2]):
            return None
        del self.young[root]
        return (entry[1], "fail" if entry[0] else "ack", root)

    def init(self, root: int, val: int, spout_task: int) -> Any:
        return self.told(root, val, spout_task)

    def ack(self, root: int, val: int) -> Any:
        return self.told(root, val)

    def fail(self, root: int) -> Any:
        return self.told(root, has_failed=True)

    def tick(self) -> None:
        self.young, self.old = {}, self.young


class WithLists(FromScratch):
    """Its ledger is a list of two dicts of lists."""

    @property
    def pending(self) -> Any:
        return [self.young, self.old]


class WithAPendingOfItsOwn(FromScratch):
    """What it calls pending is nothing that the check could read."""

    pending: ClassVar[dict[int, int]] = {1: 1}


class NeverForgets(FromScratch):
    def tick(self) -> None:
        pass


class DropsAtEachTick(FromScratch):
    def tick(self) -> None:
        self.young, self.old = {}, {}


class HoldsATreeTwice(WithLists):
    @property
    def pending(self) -> Any:
        return [self.young, {**self.young, **self.old}]


ACKERS = [Acker, FromScratch, WithLists, WithAPendingOfItsOwn]
NEVER_RENEWS = (
    "newer[root] = newer.get(root) or older.pop(root, None) or [0, None, False]",
    "newer.get(root) or older.get(root) or newer.setdefault(root, [0, None, False])",
    "del self.pending[0][root]", "[bucket.pop(root, None) for bucket in self.pending]",
)  # fmt: skip
ENDS_WITHOUT_SPOUT = (
    "entry[1] is None or (entry[0] != 0 and not entry[2])", "entry[0] != 0 and not entry[2]",
    'return entry[1], "fail" if entry[0] else "ack", root',
    'return None if entry[1] is None else (entry[1], "fail" if entry[0] else "ack", root)',
)  # fmt: skip
SLIPS: list[tuple[str, Any, str]] = [
    ("own_acker", NeverForgets, "step 3, ack(6001, 1234605616436508552): emitted should now be nothing; yours is __ack_ack"),
    ("own_acker", DropsAtEachTick, "emitted should now be __ack_ack to task 1 for tree 6001; yours is nothing."),
    ("own_acker", LaterAcker, "script 'fail_twice', step "),
    ("own_acker", HoldsATreeTwice, "bucket of tree 6001 should now be newer; yours is newer and older."),
    *slips(
        "own_acker",
        ('if entry[0] else "ack"', 'if entry[2] else "ack"', "emitted should now be __ack_ack to task 1 for tree"),
        (*NEVER_RENEWS, "bucket of tree 6001 should now be newer; yours is older."),
        ("del self.pending[0][root]", "pass",
         "script 'one_tuple', step 1, ack(6001, 1234605616436508552): there should be no tree 6001; yours has value 0x0"),
        ("return None", "return False", "yours is False instead of None or (spout_task, stream, root)."),
        ("def fail(", "def fails(", "your code raised AttributeError: "),
        ("entry[2] = True", "return {}[root]", "script 'fail_after_init', step 1, fail(6001): your code raised KeyError: 6001, in line"),
        ("__init__(self)", "__init__(self, buckets)", "your code raised TypeError: "),
        (*ENDS_WITHOUT_SPOUT, "tree 6001 should now be value 0x0000000000000000, task unknown, failed True, bucket newer; yours has none."),
        ("entry[1] is None or", "not entry[1] or", "emitted should now be __ack_ack to task 0 for tree"),
    ),
    *slips(
        "own_partition_manager",
        ("self.pending.first() if self.pending else self.emitted_to_offset", "self.emitted_to_offset", "committed_to should now be"),
        ("self.committed_to = begin", "self.committed_to = self.configured()", "should now be"),
        ("again = bool(self.failed)", "again = bool(self.failed) and not self.log.fetch(self.emitted_to_offset)", "should now be"),
        ("            return\n        for", "            self.failed = set()\n            return\n        for", "failed should now be"),
        ("clear_below(offset - self.config.max_offset_behind)\n        self", "clear_below(offset)\n        self", "should now be"),
        ("if self.config.scheme(record) is not None", "if True", "should now be"),
        ("self.failed.add(offset)", 'raise LookupError("not yet written")', "your code raised LookupError: not yet written"),
    ),
    *slips(
        "own_sender",
        ("return sum(each.seq is not None and each.seq < batch.seq for each in queue)", "return 0", "the queue of partition"),
        ("return not known.out or known.out[0].seq == batch.seq", "return True", "should now be"),
        ("(known.next_seq + batch.count) % SEQUENCES", "known.next_seq + 1", "should now be"),  # the bug of kafkajs#598, on its own side
        ("if is_gap:", "if False:", "should now be"),
        ("is_gap = log_start is not None and not", "is_gap = not", "should now be"),
        ("if leaves_gap:", "if False:", "should now be"),
        ("known.in_doubt = None", "pass", "should now be"),
        ("max(known.acked, batch.last_seq)", "batch.last_seq", "should now be"),
        ("return sum(", 'raise LookupError("not yet written")\n        return sum(', "your code raised LookupError: not yet written"),
    ),
    *slips(
        "own_broker_state",
        ("get(pid, (", "get(0, (", "producers[pid] =", "producers[0] =", "pop(pid, None)", "pop(0, None)", "the answer should now be"),
        ("self.producers.pop(pid, None)", "pass", "the answer should now be"),
        ("remembered = 5", "remembered = 6", "the answer should now be"),
    ),
    *slips("own_check_sequence", ("epoch < entry.epoch", "False", "epoch > entry.epoch", "False", "the answer should now be")),
]  # fmt: skip
