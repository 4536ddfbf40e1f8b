"""The exercises of notebooks 07 and 08: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from kitlib.exercises.your_log import CHECK, ERRORS, STATE
from kitlib.mechanisms.broker.producer_state import ProducerStateManager
from kitlib.mechanisms.producer.transaction_manager import TransactionManager
from kitlib.mechanisms.protocol import ErrorCode
from tests.exercises import planted_sender as sender
from tests.exercises import solutions
from tests.exercises.steps import judged_here

SEQUENCES = 2**31


def good_check_with_error_codes(entry: Any, epoch: int, seq: int, count: int) -> Any:
    """The broker's own names are answers, too."""
    said = solutions.check_sequence(entry, epoch, seq, count)
    codes = {word: ErrorCode[name] for name, word in ERRORS.items()}
    return codes.get(said, said)


def counts_batches(entry: Any, epoch: int, seq: int, count: int) -> Any:
    """The bug of kafkajs#598, on the other side."""
    said = solutions.check_sequence(entry, epoch, seq, count)
    if entry is None or epoch != entry.epoch or said == "duplicate":
        return said
    return "append" if seq == (entry.batches[-1].first_seq + 1) % SEQUENCES else "out of order"


def forgets_the_wrap(entry: Any, epoch: int, seq: int, count: int) -> Any:
    if entry is not None and epoch == entry.epoch and seq == entry.last_seq - SEQUENCES + 1:
        return "out of order"
    return solutions.check_sequence(entry, epoch, seq, count)


def compares_the_first_only(entry: Any, epoch: int, seq: int, count: int) -> Any:
    if entry is not None and epoch == entry.epoch and any(known.first_seq == seq for known in entry.batches):
        return "duplicate"
    return solutions.check_sequence(entry, epoch, seq, count)


def forgets_the_epoch(entry: Any, epoch: int, seq: int, count: int) -> Any:
    return solutions.check_sequence(entry, entry.epoch if entry else 0, seq, count)


def knows_old_duplicates(entry: Any, epoch: int, seq: int, count: int) -> Any:
    """The source's better rule, which is not Kafka's."""
    said = solutions.check_sequence(entry, epoch, seq, count)
    return "duplicate" if said == "out of order" and seq <= entry.last_seq else said


def wants_zero_first(entry: Any, epoch: int, seq: int, count: int) -> Any:
    """The rule up to 2.4.1."""
    return "out of order" if entry is None and seq != 0 else solutions.check_sequence(entry, epoch, seq, count)


def looks_for_duplicates_first(entry: Any, epoch: int, seq: int, count: int) -> Any:
    last = (seq + count - 1) % SEQUENCES
    if entry is not None and any((known.first_seq, known.last_seq) == (seq, last) for known in entry.batches):
        return "duplicate"
    return solutions.check_sequence(entry, epoch, seq, count)


def takes_any_new_epoch(entry: Any, epoch: int, seq: int, count: int) -> Any:
    return "append" if entry is not None and epoch > entry.epoch else solutions.check_sequence(entry, epoch, seq, count)


def says_yes(entry: Any, epoch: int, seq: int, count: int) -> Any:
    return solutions.check_sequence(entry, epoch, seq, count) == "append"


def breaks_without_an_entry(entry: Any, epoch: int, seq: int, count: int) -> Any:
    return "append" if seq == entry.last_seq + 1 else "out of order"


class RemembersSix(solutions.BrokerState):
    remembered = 6


class RemembersOne(solutions.BrokerState):
    remembered = 1


class KeepsAllAtRestart(solutions.BrokerState):
    def restart(self) -> None:
        pass


class ForgetsAtRestart(solutions.BrokerState):
    def restart(self) -> None:
        self.producers = {}


class NeverForgets(solutions.BrokerState):
    def forget(self, pid: int) -> None:
        pass


class AnswersTheNewOffset(solutions.BrokerState):
    def append(self, pid: int, epoch: int, seq: int, count: int, offset: int) -> Any:
        answer = super().append(pid, epoch, seq, count, offset)
        return offset if isinstance(answer, int) else answer


class OneForAll(solutions.BrokerState):
    def append(self, pid: int, epoch: int, seq: int, count: int, offset: int) -> Any:
        return super().append(0, epoch, seq, count, offset)

    def forget(self, pid: int) -> None:
        super().forget(0)


class KeepsOldBatches(solutions.BrokerState):
    def append(self, pid: int, epoch: int, seq: int, count: int, offset: int) -> Any:
        before = self.producers.get(pid)
        if before and epoch > before[0] and seq == 0:
            self.producers[pid] = epoch, [*before[1], (seq, (seq + count - 1) % SEQUENCES, offset)][-self.remembered :]
            return offset
        return super().append(pid, epoch, seq, count, offset)


class BreaksAtForget(solutions.BrokerState):
    def forget(self, pid: int) -> None:
        raise LookupError("not yet written")


class HasNoRestart:
    append = forget = solutions.BrokerState.append


def steps_back(numbers: list[int]) -> tuple[int, int]:
    return len(numbers) - len(set(numbers)), sum(after < before for before, after in pairwise(numbers))


def all_that_lie_behind(numbers: list[int]) -> tuple[int, int]:
    behind = sum(number < max(numbers[:place], default=0) for place, number in enumerate(numbers))
    return len(numbers) - len(set(numbers)), behind


def records_of(step: Any) -> range:
    return range(step.data["first"], step.data["last"] + 1)


def all_that_failed(trace: Any) -> Any:
    return [record for step in trace if step.what == "undelivered" for record in records_of(step)]


def all_again(trace: Any) -> Any:
    return [record for step in trace if step.what == "send" for record in records_of(step)]


def not_written(trace: Any) -> Any:
    """Counts batches, where records are asked for."""
    written = {step.data["batch"] for step in trace if step.what == "write"}
    return [step.data["batch"] for step in trace if step.what == "send" and step.data["batch"] not in written]


class AroundTheKits:
    """A wrapper: every number is the kit's."""

    epoch = 0

    def __init__(self) -> None:
        self.kits = TransactionManager()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kits, name)

    before_run = may_leave = number = place = stored = refused = failed = expired = split = lambda self, *given: None


SOLUTIONS: list[tuple[str, Any, str]] = [
    ("sixth_batch", ..., "at offset 14"),
    ("sixth_batch", 6.0, "at offset 14"),
    ("how_many_copies", ..., "while the broker remembers them"),
    ("how_many_copies", (1, 2, 1, 2), "while the broker remembers them"),
    ("safe_kill", ..., "each of them once and in order"),
    ("quiet_switch", ..., "with acks=1 the Java client 4.3.1 starts without a warning"),
    ("quiet_switch", {"retries": "0"}, "with retries=0 the Java client 4.3.1 starts without a warning"),
    ("own_check_sequence", ..., "every recorded batch"),
    ("own_check_sequence", good_check_with_error_codes, "every recorded batch"),
    ("order_in_log", ..., "2 places late"),
    ("order_in_log", (0, 2, 3, 1, 4, 5), "2 places late"),
    ("enough_memory", ..., "50 records are written twice"),
    ("in_flight_needed", ..., "one less 500"),
    ("copies_and_order", ..., "agrees on 5 topics"),
    ("copies_and_order", lambda numbers: list(solutions.copies_and_order(numbers)), "agrees on 5 topics"),
    ("send_again", ..., "only the topic could say which of the reported failures were real"),
    ("own_broker_state", ..., "every recorded batch"),
    ("own_sender", ..., "every recorded step of Kafka 4.3.1's sender"),
]

WRONG: list[tuple[str, Any, str]] = [
    ("sixth_batch", 2**31 - 3, "counts batches"),
    ("sixth_batch", 5, "5 is the last record of the fifth batch"),
    ("sixth_batch", 7, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    ("sixth_batch", 14, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    ("sixth_batch", 2**31 + 6, "there is no sequence"),
    ("sixth_batch", -2, "there is no sequence"),
    ("sixth_batch", 2**31 - 8, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    ("sixth_batch", "6", "should be a number"),
    ("how_many_copies", [1, 1, 1, 1], "situation 2"),
    ("how_many_copies", [2, 2, 1, 2], "situation 1"),
    ("how_many_copies", [1, 2, 2, 2], "situation 3"),
    ("how_many_copies", [1, 2, 1, 1], "situation 4"),
    ("how_many_copies", [1, 2, 1], "the answer should be a list of 4 numbers"),
    ("how_many_copies", [1, 2, 1, "2"], "should be a number"),
    ("how_many_copies", 2, "the answer should be a list of 4 numbers"),
    ("safe_kill", {}, "25 duplicated"),
    ("safe_kill", {"max_in_flight": 2}, "10 duplicated"),
    ("safe_kill", {"retries": 0}, "25 indefinite"),
    ("safe_kill", {"delivery_timeout_ms": 100}, "25 indefinite"),
    ("safe_kill", {"idempotence": False}, "25 duplicated"),
    ("safe_kill", {"restart": "no"}, "may be turned here"),
    ("safe_kill", {"max_in_flight": 0}, "expected"),
    ("safe_kill", 1, "a dict of knobs"),
    ("quiet_switch", {"enable.idempotence": False}, "enable.idempotence=False says so openly"),
    ("quiet_switch", {"max.in.flight.requests.per.connection": 6}, "does not start: ConfigException"),
    ("quiet_switch", {"linger.ms": 5}, "enable.idempotence is true"),
    ("quiet_switch", {"max_in_flight": 6}, "has no setting max_in_flight"),
    ("quiet_switch", {"acks": 1, "retries": 0}, "a dict with one setting"),
    ("quiet_switch", {"acks": None}, "a name and its value"),
    ("quiet_switch", "acks=1", "a dict with one setting"),
    ("own_check_sequence", counts_batches, "the answer should now be out of order; yours is append"),
    ("own_check_sequence", forgets_the_wrap, "wrap_around_at_a_batch_border"),
    ("own_check_sequence", compares_the_first_only, "overlap_same_base_shorter"),
    ("own_check_sequence", forgets_the_epoch, "epoch_bump_with_sequence_zero"),
    ("own_check_sequence", knows_old_duplicates, "duplicate_of_the_sixth_oldest"),
    ("own_check_sequence", wants_zero_first, "the answer should now be append"),
    ("own_check_sequence", looks_for_duplicates_first, "'epoch_jump'"),
    ("own_check_sequence", takes_any_new_epoch, "epoch_bump_with_nonzero_sequence"),
    ("own_check_sequence", says_yes, "yours is True"),
    ("own_check_sequence", breaks_without_an_entry, "your code raised AttributeError"),
    ("own_check_sequence", solutions.BrokerState, "should be your function"),
    ("order_in_log", [0, 1, 2, 3, 4, 5], "the order with idempotence"),
    ("order_in_log", [0, 2, 3, 4, 5, 1], "place 3 of the log does not hold batch 4"),
    ("order_in_log", [0, 2, 1, 3, 4, 5], "place 2 of the log does not hold batch 1"),
    ("order_in_log", [1, 0, 2, 3, 4, 5], "place 0 of the log does not hold batch 1"),
    ("order_in_log", [0, 2, 3, 4, 5], "each of the batches 0 to 5 once"),
    ("order_in_log", [1, 2, 3, 4, 5, 6], "each of the batches 0 to 5 once"),
    ("order_in_log", "023145", "should be a list of batch numbers"),
    ("enough_memory", 5, "50 records are written twice"),
    ("enough_memory", 9, "50 records are written twice"),
    ("enough_memory", 11, "11 is not the smallest"),
    ("enough_memory", 0, "expected 1 to 20"),
    ("enough_memory", 21, "expected 1 to 20"),
    ("enough_memory", "ten", "should be a number"),
    ("in_flight_needed", 1, "100 records a second"),
    ("in_flight_needed", 5, "500 records a second"),
    ("in_flight_needed", 7, "7 is not the smallest: 6 works too (600 records a second)"),
    ("in_flight_needed", 10, "9 works too"),
    ("in_flight_needed", 0, "expected 1 to 10"),
    ("in_flight_needed", 5.5, "a whole number"),
    ("copies_and_order", steps_back, "should return (3, 0); yours returns (3, 1)"),
    ("copies_and_order", all_that_lie_behind, "only 0 first copies lie behind a higher number; yours counts 2"),
    ("copies_and_order", lambda numbers: solutions.copies_and_order(numbers)[::-1], "should return (3, 0); yours returns (0, 3)"),
    ("copies_and_order", lambda numbers: len(numbers), "should be a list of 2 counts"),
    ("send_again", all_that_failed, "which is in the topic already"),
    ("send_again", lambda trace: [], "your function leaves it out"),
    ("send_again", all_again, "which is in the topic already"),
    ("send_again", not_written, "which is in the topic already"),
    ("send_again", lambda trace: [*solutions.send_again(trace), 1_000], "which was never sent before"),
    ("send_again", lambda trace: "those that failed", "should be a list of record numbers"),
    ("send_again", lambda trace: trace.steps[-1].data["ranges"], "your code raised KeyError"),
    ("send_again", [5, 6], "should be a function"),
    ("own_broker_state", RemembersSix, "the answer should now be out of order; yours is 1"),
    ("own_broker_state", RemembersOne, "should now be 1; yours is out of order"),
    ("own_broker_state", KeepsAllAtRestart, "'clean_restart_keeps_one_batch'"),
    ("own_broker_state", ForgetsAtRestart, "'clean_restart_keeps_one_batch'"),
    ("own_broker_state", NeverForgets, "'producer_expiration'"),
    ("own_broker_state", AnswersTheNewOffset, "should now be 1; yours is 2"),
    ("own_broker_state", OneForAll, "recorded steps agree"),
    ("own_broker_state", KeepsOldBatches, "same_numbers_new_epoch_is_no_duplicate"),
    ("own_broker_state", BreaksAtForget, "your code raised LookupError: not yet written"),
    ("own_broker_state", ProducerStateManager, "this is the kit's own"),
    ("own_broker_state", HasNoRestart, "your class has no restart"),
    ("own_broker_state", dict, "your class has no append and no restart and no forget"),
    ("own_broker_state", solutions.check_sequence, "should be your class"),
    ("own_sender", sender.ToTheFront, "send(0, 1), poll(); disconnect(), poll(): the queue of partition 0 should now be send 0 "
     "(epoch 0, 0), send 1 (epoch 0, 1); yours is send 1 (epoch 0, 1), send 0 (epoch 0, 0)."),
    ("own_sender", sender.BreaksAtARetry, "your code raised LookupError: not yet written"),
    ("own_sender", AroundTheKits, "this is the kit's own, or built on it."),
    ("own_sender", TransactionManager, "this is the kit's own, or built on it."),
    ("own_sender", dict, "your class has no before_run and no may_leave"),
    ("own_sender", solutions.check_sequence, "should be your class"),
]  # fmt: skip


def test_planted_mistakes_are_told_apart_by_their_sentences() -> None:
    """No two of the mistakes in the broker's check or its state are told in the same words."""
    names = ("own_check_sequence", "own_broker_state")
    planted = [answer for name, answer, _ in WRONG if name in names and getattr(answer, "__module__", "") == __name__]
    runnable = [each for each in planted if each not in (solutions.BrokerState, solutions.check_sequence, HasNoRestart)]
    found = [judged_here(STATE if isinstance(each, type) else CHECK, each) for each in runnable]
    assert len(runnable) >= 18 and len({each[0] for each in found if each}) == len(runnable)
