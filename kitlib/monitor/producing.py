"""The verdict on a producer: what became of the records it was asked to send.

Records are numbered, for each partition, in the order in which the application sent them. At the end some are
in the log, some more than once, some in another order, and the application has been notified for each one that it was
stored or that it failed. Four things can go wrong, each counted with its first witness:

* lost: sent, not in the log, and the producer will not retry it, because it gave up or because it is gone
* duplicated: in the log more than once (each extra copy counts)
* reordered: its first copy comes after that of a record sent later
* indefinite: reported to the application as failed, and in the log nevertheless

The contents of the log are known from the broker's `write` steps, or from a `read` of the topic at the end,
which has the last word on everything that is still there. Retention does not lose a record here: it
was stored. The words that are read, all with `topic` and `partition`:

    producer  send {first, last}   delivered {first, last}   undelivered {first, last, error}
              request {batch, first, last}   answer {batch, error}   exit (the process ends with what it holds)
    broker    write {first, last, offset}   read {first_offset, records: ranges in log order}
              restart {how}   fail_over   expire   delete {to}

The last line's words matter for what they explain: after them, a broker remembers less.

Left out: what the broker and the client knew at each step; that is in the steps' states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kitlib.monitor.verdict import PRODUCER_ANOMALIES, LaneVerdict, Tally
from kitlib.settings import Settings
from kitlib.trace import Step

LOG_START = "a log start that moved past everything the broker remembered of the producer"
EXCUSES = {  # what makes a broker remember less, by what its step means to a verdict
    "fail_over": "a new leader that had not seen every batch",
    "expire": "producer.id.expiration.ms: the broker had forgotten the producer id",
    "delete": LOG_START,
}
SAYS_NOTHING = "{error}, which says nothing about an attempt whose answer never arrived"


@dataclass(slots=True)
class ProducerLedger:
    """All that one partition's verdict needs to remember, step by step."""

    topic: str
    partition: int
    settings: Settings
    sent_at: dict[int, int] = field(default_factory=dict)  # record -> ms
    sent_in: dict[int, int] = field(default_factory=dict)  # record -> the step of its send
    sent_again: set[int] = field(default_factory=set)  # handed over a second time by the application
    batches: dict[tuple[str, int], range] = field(default_factory=dict)  # (producer, batch) -> its records
    batch_of: dict[int, tuple[str, int]] = field(default_factory=dict)  # record -> the batch that it was sent in
    requests: Counter[int] = field(default_factory=Counter)  # record -> how often it was sent to a broker, where the trace shows it
    last_request: dict[int, range] = field(default_factory=dict)  # a request's number -> the records in it
    written: set[int] = field(default_factory=set)  # records that a broker has written, whatever became of them
    heard: set[int] = field(default_factory=set)  # records whose batch was answered: stored
    delivered: dict[int, int | None] = field(default_factory=dict)  # record -> the offset that its user was told
    misreported: set[int] = field(default_factory=set)  # told failed after such an answer
    undelivered: dict[int, tuple[int, str]] = field(default_factory=dict)  # record -> (step, error)
    stored: list[tuple[int, int, Step]] = field(default_factory=list)  # (offset, record, step), in log order
    excuses: list[tuple[int, str]] = field(default_factory=list)  # (step, why a broker remembers less after it)
    exited_at: int | None = None  # the step at which the producer's process ended
    last_step: int = 0

    def follow(self, step: Step, judged: str) -> None:
        """Follow one step. `judged` is what its word means to a verdict; "" is ignored."""
        self.last_step = step.number
        if judged in EXCUSES:
            self.excuses.append((step.number, EXCUSES[judged]))
        elif judged:
            getattr(self, f"_on_{judged}")(step)

    def _on_send(self, step: Step) -> None:
        for record in records_of(step):
            if record in self.sent_at:
                self.sent_again.add(record)
            self.sent_at.setdefault(record, step.at_ms)
            self.sent_in.setdefault(record, step.number)
            if "batch" in step.data:
                self.batch_of.setdefault(record, (step.actor, step.data["batch"]))

    def _on_request(self, step: Step) -> None:
        if "batch" in step.data:
            self.batches[step.actor, step.data["batch"]] = records_of(step)
            self.batch_of.update(dict.fromkeys(records_of(step), (step.actor, step.data["batch"])))
            self.requests.update(records_of(step))
            self.last_request[step.data.get("request", -1)] = records_of(step)

    def _on_double(self, step: Step) -> None:
        self.requests.update(self.last_request.get(step.data["request"], ()))

    def _on_answer(self, step: Step) -> None:
        if step.data.get("error") == "NONE":
            self.heard.update(self.batches.get((step.actor, step.data.get("batch", -1)), ()))

    def _on_delivered(self, step: Step) -> None:
        offset = step.data.get("offset")
        self.delivered |= {record: None if offset is None else offset + index for index, record in enumerate(records_of(step))}

    def _on_undelivered(self, step: Step) -> None:
        for record in records_of(step):
            self.undelivered[record] = step.number, str(step.data.get("error", "an error"))
        self.misreported.update(self.heard & set(records_of(step)))

    def _on_write(self, step: Step) -> None:
        offset = step.data["offset"]
        self.written.update(records_of(step))
        self.stored.extend((offset + index, record, step) for index, record in enumerate(records_of(step)))

    def _on_read(self, step: Step) -> None:
        first = step.data.get("first_offset", 0)
        known = {(offset, record): write for offset, record, write in self.stored}  # a write tells when
        self.stored = [kept for kept in self.stored if kept[0] < first]
        found = (record for low, high in step.data["records"] for record in range(low, high + 1))
        for offset, record in enumerate(found, start=first):
            self.stored.append((offset, record, known.get((offset, record), step)))

    def _on_restart(self, step: Step) -> None:
        if any(why == LOG_START for _, why in self.excuses):
            why = "a restarted broker, which knows only producers with records left in the log"
        else:
            why = "a restarted broker, which remembers only the last batch of each producer"
        self.excuses.append((step.number, why))

    def _on_exit(self, step: Step) -> None:
        if self.exited_at is None:
            self.exited_at = step.number

    def verdict(self, is_cut: bool) -> LaneVerdict:
        """The verdict after the last step. A run that was cut is judged like any other: a write comes before the notification."""
        tallies = {kind: Tally(kind, unit="record") for kind in PRODUCER_ANOMALIES}
        seen: dict[int, int] = {}  # record -> the place of its first copy
        highest, late_ms = -1, 0
        for place, (_, record, step) in enumerate(self.stored):
            if record in seen:
                tallies["duplicated"].add(step.number, record, self._why_again(record, step.number, seen[record], place))
                continue
            seen[record] = place
            if step.what == "write":
                late_ms = max(late_ms, step.at_ms - self.sent_at.get(record, step.at_ms))
            if record < highest:
                tallies["reordered"].add(step.number, record, self._why_late(record, step.number))
            highest = max(highest, record)
        for record in sorted(self.sent_at.keys() - seen.keys()):
            if record in self.delivered:
                tallies["lost"].add(self.last_step, record, self._why_gone(record))
            elif record in self.undelivered:
                step_number, error = self.undelivered[record]
                tallies["lost"].add(step_number, record, f"{error}, which the application was notified of")
            elif self.exited_at is not None:
                tallies["lost"].add(self.exited_at, record, "a process that exited before flush() or close() had sent its buffer")
        for record in sorted((self.undelivered.keys() & seen.keys()) - self.delivered.keys()):
            step_number, error = self.undelivered[record]
            reason = "" if record in self.misreported else SAYS_NOTHING.format(error=error)
            tallies["indefinite"].add(step_number, record, reason)
        found = {kind: tally.done() for kind, tally in tallies.items()}
        return LaneVerdict(self.topic, self.partition, len(self.sent_at), len(seen.keys() & self.sent_at.keys()), found, late_ms, "stored")

    def _why_gone(self, record: int) -> str:
        """Why a record may be missing that was reported as stored: what was lost before it was sent explains nothing."""
        if self.settings.acks in (0, "0") and record not in self.written:
            return "acks=0: a record counts as stored once it is sent"
        if self.settings.second_epoch == "same" and any(at == self.delivered[record] and it != record for at, it, _ in self.stored):
            return "second_epoch=same: two producers share an id and epoch, and the broker compares numbers, not records"
        return ""

    def _why_again(self, record: int, step: int, first: int, place: int) -> str:
        """Why a second copy may have been written: one that was sent once, and by nobody again, is explained by nothing."""
        if self.requests[record] == 1 and record not in self.sent_again:
            return ""
        if self.settings.idempotence is False:
            return "idempotence=false: to the broker, a batch that is sent again is a new batch"
        if self.settings.release == "0.10":
            return "release=0.10: there is no idempotence, so to the broker a batch that is sent again is a new batch"
        if record in self.sent_again:
            return "an application that sent it again: to the producer, it is a new record"
        for excuse in self._excused(step, since=self.sent_in.get(record, 0)):
            return excuse
        at_once, remembered = self.settings.max_in_flight, self.settings.remembered_batches
        if at_once > remembered:
            between = {self.batch_of.get(other, (str(other), 0)) for _, other, _ in self.stored[first:place]}
            if len(between - {self.batch_of.get(record)}) >= remembered:
                return f"max_in_flight={at_once}: that is more than the {remembered} batches that the broker remembers"
        return self._by_release(step)

    def _why_late(self, record: int, step: int) -> str:
        """Why a record may be stored after one that was sent later: by a retry of its own."""
        if self.requests[record] == 1 and record not in self.sent_again:
            return ""
        at_once = self.settings.max_in_flight
        if self.settings.release == "0.10":
            return "release=0.10: there is no idempotence, so a retry may land after its successors"
        if self.settings.idempotence is False:
            return f"idempotence=false with max_in_flight={at_once}: a retry may land after its successors" if at_once > 1 else ""
        if record in self.sent_again:
            return "an application that sent it again, after later records"
        for excuse in self._excused(self.last_step, since=self.sent_in.get(record, 0)):
            return excuse
        return self._by_release(step)

    def _excused(self, step: int, since: int) -> Iterator[str]:
        return (why for number, why in reversed(self.excuses) if since < number < step)

    def _by_release(self, step: int) -> str:
        if self.settings.release == "2.0" and any(given_up < step for given_up, _ in self.undelivered.values()):
            return "release=2.0: a producer that gives up on a batch continues under a new id, which the broker knows nothing about"
        return ""


def records_of(step: Step) -> range:
    """The records that a step names, by their numbers."""
    return range(step.data["first"], step.data["last"] + 1)
