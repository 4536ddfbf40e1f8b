"""One right answer for each exercise whose answer is code, as a learner could write it.

The declarations point here, so that tests and instructors have one source; neither a check nor a hint shows it.
No answer imports an experiment or asks the kit for the truth: each is a second opinion on what its check computes.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from kitlib.mechanisms.offset_set import OffsetSet
from kitlib.more.hashes import partition_of_key
from kitlib.more.topology import Bolt
from kitlib.trace import Trace, from_ranges

SEQUENCES = 2**31


def own_ack(manager: Any, offset: int) -> None:
    manager.number_acked += 1
    pending, limit = manager.pending, manager.config.max_offset_behind
    if pending and pending.first() < offset - limit:
        pending.clear_below(offset - limit)
    pending.discard(offset)


class OwnPartitionManager:
    """The rules of 0.9.3, with a sorted set for `pending`."""

    def __init__(self, config: Any, log: Any, store: Any) -> None:
        self.config, self.log, self.store = config, log, store
        self.pending, self.failed = OffsetSet(), set[int]()
        self.waiting_to_emit: deque[Any] = deque()
        self.number_acked = self.number_failed = 0
        stored, begin = store.read(), self.configured()
        current = begin
        if stored is not None:
            other = config.force_from_start and stored.topology_id != config.topology_id
            begin = log.offset_at(config.start_offset_time) if other else stored.offset
        if begin <= 0 or current - begin > config.max_offset_behind:
            begin = current
        self.emitted_to_offset = self.committed_to = begin

    def configured(self) -> Any:
        return self.log.offset_at(self.config.start_offset_time if self.config.force_from_start else -1)

    def next(self) -> Any:
        if not self.waiting_to_emit:
            self.fill()
        while self.waiting_to_emit:
            record = self.waiting_to_emit.popleft()
            if self.config.scheme(record) is not None:
                return record
            self.ack(record.offset)
        return None

    def fill(self) -> None:
        again = bool(self.failed)
        offset = min(self.failed) if again else self.emitted_to_offset
        records = self.log.fetch(offset)
        if records is None:
            self.emitted_to_offset = self.configured()
            return
        for record in records:
            if record.offset >= offset and (not again or record.offset in self.failed):
                self.pending.add(record.offset)
                self.waiting_to_emit.append(record)
                self.failed.discard(record.offset)
                self.emitted_to_offset = max(self.emitted_to_offset, record.offset + 1)

    def ack(self, offset: int) -> None:
        self.number_acked += 1
        if self.pending and self.pending.first() < offset - self.config.max_offset_behind:
            self.pending.clear_below(offset - self.config.max_offset_behind)
        self.pending.discard(offset)

    def fail(self, offset: int) -> None:
        if offset < self.emitted_to_offset - self.config.max_offset_behind:
            return
        self.failed.add(offset)
        self.number_failed += 1
        if self.number_acked == 0 and self.number_failed > self.config.max_offset_behind:
            raise RuntimeError("Too many tuple failures")

    def commit(self) -> None:
        completed = self.pending.first() if self.pending else self.emitted_to_offset
        if completed != self.committed_to:
            self.store.write(completed)
            self.committed_to = completed


def forgotten(trace: Trace) -> set[int]:
    cleared = {offset for step in trace if step.what == "clear" for offset in from_ranges(step.data["ranges"])}
    return cleared - {step.data["offset"] for step in trace if step.what == "process"}


class Split(Bolt):
    """Sends the longer words of a sentence, and fails a question."""

    output_fields = ("word",)

    def execute(self, given: Any) -> None:
        if given["sentence"].endswith("?"):
            self.collector.fail(given)
            return
        for word in given["sentence"].split():
            if len(word) >= 3:
                self.collector.emit([word], anchors=given)
        self.collector.ack(given)


class OwnAcker:
    """The rules of 0.9.3 in lists and dicts."""

    def __init__(self) -> None:
        self.pending: list[dict[int, list[Any]]] = [{}, {}]

    def init(self, root: int, val: int, spout_task: int) -> Any:
        entry = self.renewed(root)
        entry[0] ^= val
        entry[1] = spout_task
        return self.ended(root, entry)

    def ack(self, root: int, val: int) -> Any:
        entry = self.renewed(root)
        entry[0] ^= val
        return self.ended(root, entry)

    def fail(self, root: int) -> Any:
        entry = self.renewed(root)
        entry[2] = True
        return self.ended(root, entry)

    def tick(self) -> Any:
        self.pending = [{}, self.pending[0]]

    def renewed(self, root: int) -> list[Any]:
        newer, older = self.pending
        entry = newer[root] = newer.get(root) or older.pop(root, None) or [0, None, False]
        return entry

    def ended(self, root: int, entry: list[Any]) -> Any:
        if entry[1] is None or (entry[0] != 0 and not entry[2]):
            return None
        del self.pending[0][root]
        return entry[1], "fail" if entry[0] else "ack", root


class Batch(Bolt):
    """Writes numbers in batches of five, and acks what is written."""

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        super().prepare(conf, context, collector)
        self.held: list[Any] = []

    def execute(self, given: Any) -> None:
        self.held.append(given)
        if len(self.held) == 5:
            self.write()
            for held in self.held:
                self.collector.ack(held)
            self.held = []

    def write(self) -> None:
        self.context.note("write", numbers=[held["number"] for held in self.held])


def own_put(table: Any, word: str, count: int, batch_id: int) -> None:
    before, last = table.get(word, [0, 0])
    if last != batch_id:
        table[word] = [before + count, batch_id]


def time_to_next_update(
    need_update: bool, last_refresh_ms: int, last_successful_refresh_ms: int, now_ms: int, backoff_ms: int, expire_ms: int
) -> int:
    wants = 0 if need_update else max(last_successful_refresh_ms + expire_ms - now_ms, 0)
    return max(wants, last_refresh_ms + backoff_ms - now_ms)


def check_sequence(entry: Any, epoch: int, seq: int, count: int) -> Any:
    if entry is None:
        return "append"
    if epoch < entry.epoch:
        return "old epoch"
    if epoch > entry.epoch:
        return "append" if seq == 0 else "out of order"
    last = (seq + count - 1) % SEQUENCES
    if any((known.first_seq, known.last_seq) == (seq, last) for known in entry.batches):
        return "duplicate"
    return "append" if seq == (entry.last_seq + 1) % SEQUENCES else "out of order"


class BrokerState:
    """The rules of 4.3.1 in a dict of tuples."""

    remembered = 5

    def __init__(self) -> None:
        self.producers: dict[int, tuple[int, list[tuple[int, int, int]]]] = {}

    def append(self, pid: int, epoch: int, seq: int, count: int, offset: int) -> Any:
        last = (seq + count - 1) % SEQUENCES
        known_epoch, batches = self.producers.get(pid, (epoch, []))
        if epoch < known_epoch:
            return "old epoch"
        if epoch > known_epoch:
            if seq != 0:
                return "out of order"
            batches = []
        for first_seq, last_seq, first_offset in batches:
            if (first_seq, last_seq) == (seq, last):
                return first_offset
        if batches and seq != (batches[-1][1] + 1) % SEQUENCES:
            return "out of order"
        self.producers[pid] = epoch, [*batches, (seq, last, offset)][-self.remembered :]
        return offset

    def restart(self) -> None:
        self.producers = {pid: (epoch, batches[-1:]) for pid, (epoch, batches) in self.producers.items()}

    def forget(self, pid: int) -> None:
        self.producers.pop(pid, None)


class SenderNumbers:
    """The rules of 4.3.1: what each partition counts, and when it begins anew."""

    def __init__(self) -> None:
        self.epoch = 0
        self.partitions: dict[int, Any] = {}
        self.anew: set[int] = set()  # partitions that begin at 0 with the next epoch

    def before_run(self) -> None:
        for partition, known in self.partitions.items():
            if known.in_doubt is not None and not known.out:
                if known.next_seq != known.acked + 1:
                    self.anew.add(partition)
                known.in_doubt = None
        self.epoch += bool(self.anew)
        while self.anew:
            self.begin(self.partitions[self.anew.pop()])

    def begin(self, known: Any) -> None:
        known.epoch, known.next_seq, known.acked, known.in_doubt = self.epoch, 0, -1, None
        for batch in known.out:
            self.give(known, batch)

    def give(self, known: Any, batch: Any) -> None:
        batch.epoch, batch.seq = known.epoch, known.next_seq
        known.next_seq = (known.next_seq + batch.count) % SEQUENCES

    def of(self, batch: Any) -> Any:
        known = self.partitions.get(batch.partition)
        if known is None:
            known = self.partitions[batch.partition] = SimpleNamespace(epoch=None, next_seq=0, acked=-1, in_doubt=None, out=[])
        return known

    def may_leave(self, batch: Any) -> bool:
        known = self.of(batch)
        if batch.seq is None:
            return known.in_doubt is None and (not known.out or known.epoch == self.epoch)
        return not known.out or known.out[0].seq == batch.seq

    def number(self, batch: Any) -> None:
        known = self.of(batch)
        if known.epoch != self.epoch and not known.out:
            self.begin(known)
        self.give(known, batch)
        known.out.append(batch)

    def place(self, queue: list[Any], batch: Any) -> int:
        return sum(each.seq is not None and each.seq < batch.seq for each in queue)

    def refused(self, batch: Any, error: str, log_start: int | None) -> None:
        known = self.of(batch)
        if error == "UNKNOWN_PRODUCER_ID":
            is_gap = log_start is not None and not batch.renumbered
        elif known.in_doubt is None:
            is_gap = batch.seq == known.acked + 1 and not batch.renumbered
        else:
            is_gap = batch.seq == known.in_doubt
        if is_gap:
            self.anew.add(batch.partition)

    def stored(self, batch: Any) -> None:
        known = self.of(batch)
        known.acked = max(known.acked, batch.last_seq)
        self.forget(known, batch)

    def failed(self, batch: Any, leaves_gap: bool) -> None:
        self.forget(self.of(batch), batch)
        if leaves_gap:
            self.anew.add(batch.partition)

    def expired(self, batch: Any) -> None:
        known = self.of(batch)
        self.forget(known, batch)
        if batch.attempts:
            known.in_doubt = max(known.in_doubt or 0, batch.last_seq + 1)

    def split(self, batch: Any, parts: list[Any]) -> None:
        out = self.of(batch).out
        if batch in out:
            at = out.index(batch)
            out[at : at + 1] = parts

    def forget(self, known: Any, batch: Any) -> None:
        if batch in known.out:
            known.out.remove(batch)


def send_again(trace: Trace) -> set[int]:
    [read] = [step for step in trace if step.what == "read"]
    sent = {record for step in trace if step.what == "send" for record in range(step.data["first"], step.data["last"] + 1)}
    return sent - set(from_ranges(read.data["records"]))


def read_committed(log: Any) -> list[int]:
    given: list[int] = []
    for number, (first, last, producer, kind) in enumerate(log):
        decisions = [what for _, _, other, what in log[number + 1 :] if other == producer and what in ("COMMIT", "ABORT")]
        if kind == "data" and not decisions:
            return given
        if kind == "plain" or (kind == "data" and decisions[0] == "COMMIT"):
            given += range(first, last + 1)
    return given


def group_home(group: str, partitions: int) -> int:
    h, units = 0, group.encode("utf-16-be")
    for at in range(0, len(units), 2):
        h = 31 * h + int.from_bytes(units[at : at + 2], "big") & 0xFFFFFFFF
    h = h - 2**32 if h >= 2**31 else h
    return 0 if h == -(2**31) else abs(h) % partitions


def decode_commit(key: str, value: str | None) -> Any:
    data = bytes.fromhex(key)
    if int.from_bytes(data[:2], "big") not in (0, 1):
        return None
    at, texts = 2, []
    for _ in range(2):
        length = int.from_bytes(data[at : at + 2], "big")
        texts.append(data[at + 2 : at + 2 + length].decode(errors="replace"))
        at += 2 + length
    coded = None if value is None else bytes.fromhex(value)
    if len(data) < at + 4 or (coded is not None and len(coded) < 10):
        return "broken"
    offset = None if coded is None else int.from_bytes(coded[2:10], "big")
    return [*texts, int.from_bytes(data[at : at + 4], "big"), offset]


def live_records(log: list[Any]) -> list[int]:
    last = {key: (offset, value) for offset, key, value in log}
    return [offset for offset, value in last.values() if value is not None]


def survivors(log: list[Any], active: int) -> list[int]:
    last = {key: offset for offset, key, _ in log if offset < active}
    return [offset for offset, key, _ in log if offset >= active or last[key] == offset]


def gap_or_loss(asked: int, start: int, end: int, first: int | None) -> str:
    if not start <= asked <= end:
        return "out of range"
    if asked == end:
        return "end"
    return "next" if first == asked else "gap"


def rebuilt(table: dict[str, str], left: list[Any]) -> dict[str, str]:
    return {key: value for key, value in dict(left).items() if value is not None}


def after_the_load(records: list[list[Any]], read: int, retention: int) -> dict[str, int]:
    cache: dict[str, tuple[int, int]] = {}
    purged: list[str] = []
    for number, (group, offset, age) in enumerate(records):
        if number == read:
            purged = [each for each, (_, old) in cache.items() if old > retention]
            cache = {each: kept for each, kept in cache.items() if each not in purged}
        if offset is None:
            cache.pop(group, None)
        else:
            cache[group] = offset, age
    return {group: kept[0] for group, kept in cache.items() if group not in purged}


def own_alarm(looks: list[dict[str, Any]]) -> int | None:
    """A dirty ratio that stays high for two looks is one that no cleaner has brought down."""
    dirty = [(look["dirty_ratio"] or 0) > 0.84 for look in looks]
    return next((number for number in range(3, len(looks)) if dirty[number] and dirty[number - 1]), None)


def begin(committed: int | None, log_start: int, log_end: int, policy: str) -> int | None:
    if committed is not None and log_start <= committed <= log_end:
        return committed
    return {"earliest": log_start, "latest": log_end}.get(policy)


def what_is_left(copied: int, alone: int, new_records: int, unclean: bool) -> tuple[int, int]:
    return (copied + new_records, alone) if unclean else (copied + alone + new_records, 0)


def goes_on(committed: int, end: int, epoch_end: int | None, policy: str) -> int | None:
    if epoch_end is not None and epoch_end < committed:
        return None if policy == "none" else epoch_end
    if committed <= end:
        return committed
    return {"earliest": 0, "latest": end, "none": None}[policy]


def cut_to(leader: list[list[int]], leader_end: int, follower: list[list[int]], follower_end: int) -> int:
    """As Kafka's brokers do: epochs below the newest common one are the same in both logs."""
    ends = [
        {epoch: end for (epoch, _), end in zip(table, [*(first for _, first in table[1:]), last], strict=True)}
        for table, last in ((leader, leader_end), (follower, follower_end))
    ]
    common = max(ends[0].keys() & ends[1].keys(), default=None)
    return 0 if common is None else min(ends[0][common], ends[1][common])


def rings_after(every_s: int) -> int:
    return 9 * every_s + 1


def every_step_back(offsets: list[int | None]) -> list[tuple[int, int]]:
    pairs = enumerate(pairwise(offsets), 1)
    return [(index, a - b) for index, (a, b) in pairs if a is not None and b is not None and b < a]


def judged(commits: list[Any], log_ends: list[int], lag: int, now_s: int, allowed: int) -> str:
    offsets = [offset for offset, _, _ in commits]
    times = [at_ms for _, at_ms, _ in commits]
    lags = [known for _, _, known in commits if known is not None]
    back = next((at for at in range(1, len(offsets)) if offsets[at] < offsets[at - 1]), None)
    if lag <= allowed:
        return "OK"
    if now_s * 1000 - times[-1] > times[-1] - times[0] and min(log_ends, default=offsets[-1] + 1) > offsets[-1]:
        return "STOP"
    if back is not None and max(offsets[back:]) < offsets[back - 1]:
        return "REWIND"
    if min(lags, default=allowed + 1) <= allowed:
        return "OK"
    if len(set(offsets)) == 1:
        return "STALL"
    return "WARN" if lags == sorted(lags) else "OK"


def after_the_crash(committed: int, processed: int, fetched: int) -> tuple[int, int]:
    return max(0, committed - processed), max(0, processed - committed)


def committable(first: int, finished: list[int]) -> int:
    while first in finished:
        first += 1
    return first


def own_assignor(partitions: int, owned: dict[str, list[int]]) -> dict[str, list[int]]:
    share, more = divmod(partitions, len(owned))
    dealt: dict[str, list[int]] = {}
    free = set(range(partitions))
    for name in sorted(owned, key=lambda each: -len(owned[each])):
        room = share + (more > 0 and len(owned[name]) > share)
        more -= room > share
        dealt[name] = owned[name][:room]
        free -= set(dealt[name])
    for room in (share, share + 1):
        for has in dealt.values():
            while free and len(has) < room:
                has.append(free.pop())
    return dealt


def moved(keys: list[str], before: int, after: int) -> list[str]:
    return [key for key in keys if partition_of_key(key.encode(), before) != partition_of_key(key.encode(), after)]


def lead(connectors: dict[str, int], workers: list[str]) -> dict[str, list[str]]:
    names = sorted(workers)
    tasks = [f"{name}-{number}" for name in sorted(connectors) for number in range(connectors[name])]
    work = sorted(connectors) + tasks
    return {name: work[at :: len(names)] for at, name in enumerate(names)}


def passed_over(results: list[tuple[int, int]]) -> set[int]:
    return set(range(max(committed for committed, _ in results))) - {offset for _, offset in results}


def copies_and_order(numbers: list[int]) -> tuple[int, int]:
    seen, late = set[int](), 0
    for number in numbers:
        late += number not in seen and any(number < other for other in seen)
        seen.add(number)
    return len(numbers) - len(seen), late


def after(event: str, delivery: int, limit: int) -> str:
    match event:
        case "accept":
            return "acknowledged"
        case "reject":
            return "archived"
        case "renew":
            return "acquired"
    return "archived" if delivery >= limit else "available"


def safe_bound(rows: list[dict[str, Any]]) -> int | None:
    worst = max((row["max_offset_behind"] for row in rows if row["lost"] or row["error"]), default=-1)
    return min((row["max_offset_behind"] for row in rows if row["max_offset_behind"] > worst), default=None)
