"""The verdict on transactions: how much of what was promised the chosen reader received.

Records are numbered in the order in which they were to be written. A record is *promised* once its producer has learned that its
transaction is committed (or, outside transactions, that it is stored), or if it stems from an input record that the
group's committed offset has passed. Five things can go wrong, each counted with its first witness:

* lost: promised, but the reader did not receive it
* duplicated: received more than once (each extra time counts)
* reordered: first received after a record with a higher number
* aborted_read: received, and aborted, then or later
* stalled: an offset at which the reader had to wait for a transaction that its own producer never ended

The setting `isolation` chooses the reader. The words that are read, all with `topic` and `partition`:

    broker     open {inputs?}   write {first, last, offset, tx, pid}   marker {offset, kind, pid}
    producer   send {first, last, tx}   commit_tx {tx}   abort_tx {tx}
    readers    read {offset, record, tx}   waits {at}   end {position}     ("read_committed", "read_uncommitted")
    database   effect {record, charged}                                    (a lane of its own)

Of the step's state, only the group's committed offset is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kitlib.monitor.producing import records_of
from kitlib.monitor.verdict import TRANSACTION_ANOMALIES, LaneVerdict, Tally
from kitlib.settings import Settings
from kitlib.trace import Step

TRANSACTION_LANES = ("open", "effect")  # the first words of lanes that are judged here
READERS = ("read_committed", "read_uncommitted")

TOO_EARLY = "isolation=read_uncommitted: records are delivered before their transaction has ended"
DOWN = "the broker, which is still down: no one is there to end a transaction"


@dataclass(slots=True)
class TransactionLedger:
    """All that one partition's verdict needs to remember, step by step."""

    topic: str
    partition: int
    settings: Settings
    inputs: int = 0  # so many records are to be made, one of each input record
    sent_at: dict[int, int] = field(default_factory=dict)  # record -> ms
    sent_again: set[int] = field(default_factory=set)  # in another step than the first
    sender: dict[int, str] = field(default_factory=dict)  # record -> the producer that sent it first
    records_of: dict[int, set[int]] = field(default_factory=dict)  # transaction -> its records
    committed: dict[int, int] = field(default_factory=dict)  # transaction -> the step in which its user was told so
    plain: dict[int, int] = field(default_factory=dict)  # record outside transactions -> the step of its write
    ended: dict[int, int] = field(default_factory=dict)  # transaction -> the step in which its user was told of its end
    written: dict[int, tuple[int, int | None]] = field(default_factory=dict)  # first offset of a batch -> (step, transaction)
    undecided: list[tuple[int, range, range]] = field(default_factory=list)  # (pid, offsets, records) whose marker has not come
    aborted: set[int] = field(default_factory=set)  # offsets
    given: list[tuple[Step, int, int]] = field(default_factory=list)  # (step, record, offset) to the reader
    aborted_records: set[int] = field(default_factory=set)  # each in some transaction that was aborted
    waits: dict[int, Step] = field(default_factory=dict)  # offset -> where the reader waited first
    position: int | None = None  # of the reader at the end
    ended_reading: int = -1  # the step at which it came to the end; -1: it did not
    input_position: int = 0  # the group's committed offset
    last_step: int = 0
    is_outside: bool = False  # effects are counted, not records
    is_down: bool = False  # the broker and its coordinator

    @property
    def reader(self) -> str:
        return str(self.settings.isolation)

    def follow(self, step: Step, judged: str) -> None:
        """Follow one step. `judged` is what its word means to a verdict; "" is ignored."""
        self.last_step = step.number
        self.input_position = max(self.input_position, step.state.get("committed_input") or 0)
        if judged:
            getattr(self, f"_on_{judged}")(step)

    def _on_open(self, step: Step) -> None:
        self.inputs = step.data.get("inputs", 0)

    def _on_send(self, step: Step) -> None:
        tx = step.data.get("tx")
        self.sent_again.update(self.sent_at.keys() & set(records_of(step)))
        for record in records_of(step):
            self.sent_at.setdefault(record, step.at_ms)
            self.sender.setdefault(record, step.actor)
            if tx is not None:
                self.records_of.setdefault(tx, set()).add(record)

    def _on_commit_tx(self, step: Step) -> None:
        self.committed[step.data["tx"]] = self.ended[step.data["tx"]] = step.number

    def _on_abort_tx(self, step: Step) -> None:
        self.ended[step.data["tx"]] = step.number

    def _on_write(self, step: Step) -> None:
        data = step.data
        self.written[data["offset"]] = step.number, data["tx"]
        if data["pid"] < 0:
            self.plain.update(dict.fromkeys(records_of(step), step.number))
        else:
            records = records_of(step)
            self.undecided.append((data["pid"], range(data["offset"], data["offset"] + len(records)), records))

    def _on_marker(self, step: Step) -> None:
        """A marker ends all that its producer wrote before it and that has not ended yet."""
        pid = step.data["pid"]
        if step.data["kind"] == "ABORT":
            ended = [(offsets, records) for writer, offsets, records in self.undecided if writer == pid]
            self.aborted.update(offset for offsets, _ in ended for offset in offsets)
            self.aborted_records.update(record for _, records in ended for record in records)
        self.undecided = [batch for batch in self.undecided if batch[0] != pid]

    def _on_read(self, step: Step) -> None:
        if step.actor == self.reader:
            self.given.append((step, step.data["record"], step.data["offset"]))

    def _on_waits(self, step: Step) -> None:
        if step.actor == self.reader:
            self.waits.setdefault(step.data["at"], step)

    def _on_end(self, step: Step) -> None:
        if step.actor == self.reader:
            self.position = step.data["position"]
            self.ended_reading = step.number

    def _on_down(self, step: Step) -> None:
        self.is_down = True

    def _on_restart(self, step: Step) -> None:
        self.is_down = False

    def _on_effect(self, step: Step) -> None:
        self.is_outside = True
        self.sent_at.setdefault(step.data["record"], step.at_ms)
        if step.data["charged"]:
            self.given.append((step, step.data["record"], -1))

    def verdict(self, is_cut: bool) -> LaneVerdict:
        """The verdict after the last step; `is_cut` when that is not the end of the story."""
        until = self.ended_reading if is_cut else self.last_step  # what comes later, the reader may still be given
        tallies = {kind: Tally(kind, unit="record") for kind in TRANSACTION_ANOMALIES}
        seen: dict[int, str] = {}  # record -> who charged for it last
        highest: dict[str, int] = {}  # of each producer, as two have no order between them
        late_ms = 0
        for step, record, offset in self.given:
            if offset in self.aborted:
                tallies["aborted_read"].add(step.number, record, TOO_EARLY if self.reader == "read_uncommitted" else "")
            before, seen[record] = seen.get(record), step.data.get("by", "")
            if before is not None:
                tallies["duplicated"].add(step.number, record, self._why_again(record, is_another=before != seen[record]))
                continue
            late_ms = max(late_ms, step.at_ms - self.sent_at.get(record, step.at_ms))
            sender = self.sender.get(record, "")
            if record < highest.get(sender, -1):
                tallies["reordered"].add(step.number, record, self._why_late(record))
            highest[sender] = max(highest.get(sender, -1), record)
        for record, step_number in sorted((promised := self._promised()).items()):
            if record not in seen and step_number <= until:
                tallies["lost"].add(step_number, record, self._why_lost(record))
        for at, step in self._stalls():
            if step.number > until:
                continue
            tallies["stalled"].add(step.number, at, self._why_stalled(at))
        found = {kind: tally.done() for kind, tally in tallies.items()}
        undecided = {record for _, _, records in self.undecided for record in records}
        asked = set(self.sent_at)
        if not self.is_outside:
            asked = set(range(self.inputs)) or set(promised) | undecided
        verb = "charged" if self.is_outside else "read"
        return LaneVerdict(self.topic, self.partition, len(asked), len(seen.keys() & asked), found, late_ms, verb)

    def _promised(self) -> dict[int, int]:
        promised = {record: step for tx, step in self.committed.items() for record in self.records_of.get(tx, ())} | self.plain
        for record in range(min(self.inputs, self.input_position)):
            promised.setdefault(record, self.last_step)
        return promised

    def _stalls(self) -> list[tuple[int, Step]]:
        found = []
        for at, step in sorted(self.waits.items()):
            written, tx = self.written.get(at, (step.number, None))
            if tx is None or self.ended.get(tx, -1) < written:
                found.append((at, step))
        return found

    def _why_again(self, record: int, is_another: bool) -> str:
        settings = self.settings
        if self.is_outside:
            if settings.unique_key is False and is_another:
                return "unique_key=false: a Kafka transaction does not cover the database, and the record is charged again"
            return ""
        if record not in self.sent_again:
            return ""
        if settings.transactional is False:
            return "transactional=false: what was written before the crash stays, and is written again"
        if settings.offsets == "outside" and settings.ids == "new per start":
            return (
                "ids=new per start and offsets=outside: a new id fences no one, and an offset committed outside the transaction "
                "does not stop its commit"
            )
        if settings.offsets == "outside":
            return "offsets=outside: the output was committed, but the group's offset was not"
        if settings.ids == "new per start" and settings.generation is False:
            return "ids=new per start and generation=false: nothing stops the first worker after another one has taken its place"
        if self.reader == "read_uncommitted" and record in self.aborted_records:
            return "isolation=read_uncommitted: both an aborted record and its retry are delivered"
        return ""

    def _why_late(self, record: int) -> str:
        if self.reader == "read_uncommitted" and max(self.aborted_records, default=-1) > record:
            return "isolation=read_uncommitted: an aborted record is delivered before its retry"
        if record in self.sent_again and (self.settings.offsets == "outside" or self.settings.transactional is False):
            return "a record that was written again, after later ones"
        return ""

    def _why_lost(self, record: int) -> str:
        settings = self.settings
        if self.is_down:
            return DOWN
        is_aborted = any(record in records and not records.isdisjoint(self.aborted_records) for records in self.records_of.values())
        if settings.on_fenced == "continue" and settings.cause == "slow" and is_aborted:
            return "on_fenced=continue: the transaction timed out and was aborted, and no one sent its records again"
        if settings.late_marker and str(settings.version) == "1" and record in self.aborted_records:
            return "version=1: a late marker of the previous transaction ended this one"
        is_told = record in self.plain or any(record in self.records_of.get(tx, ()) for tx in self.committed)  # that it is there to stay
        if (settings.offsets == "outside" or settings.transactional is False) and settings.order == "offsets first" and not is_told:
            return "order=offsets first: the group's offset was committed, but the output was not"
        if self.position is not None and any(at >= self.position for at in self.waits):
            return "an open transaction that still holds back read_committed readers"
        return ""

    def _why_stalled(self, at: int) -> str:
        _, tx = self.written.get(at, (0, None))
        if self.is_down:
            return DOWN
        if self.settings.verification is False and (tx is None or tx in self.ended):
            return "verification=false: a batch that arrived after the end of its transaction opened one that no one ends"
        if self.position is not None and self.position > at:
            timeout = self.settings.transaction_timeout_ms
            until = f"transaction_timeout_ms={timeout}" if timeout else "transaction.timeout.ms"
            return f"{until}: an open transaction stays open that long, unless a new producer with its id starts"
        return ""
