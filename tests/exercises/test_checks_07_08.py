"""The exercises of notebooks 07 and 08: solutions pass, stubs and plausible wrong answers fail in words of their own."""

from __future__ import annotations

from typing import Any

from kitlib.exercises.your_log import ERRORS
from kitlib.mechanisms.broker.producer_state import ProducerStateManager
from kitlib.mechanisms.producer.transaction_manager import TransactionManager
from kitlib.mechanisms.protocol import ErrorCode
from tests.exercises import solutions
from tests.exercises.solutions import slip, slips


def good_check_with_error_codes(entry: Any, epoch: int, seq: int, count: int) -> Any:
    """The broker's own names are answers, too."""
    said = solutions.check_sequence(entry, epoch, seq, count)
    codes = {word: ErrorCode[name] for name, word in ERRORS.items()}
    return codes.get(said, said)


SENDER = ("before_run", "may_leave", "number", "place", "stored", "refused", "failed", "expired", "split")
LATE = "number not in seen and any(number < other for other in seen)"
NOT_THERE = ' - set(from_ranges(read.data["records"]))'


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
    ("sixth_batch", -2, "there is no sequence"),
    ("sixth_batch", 2**31 - 8, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    ("how_many_copies", [1, 1, 1, 1], "situation 2"),
    ("how_many_copies", [2, 2, 1, 2], "situation 1"),
    ("how_many_copies", [1, 2, 2, 2], "situation 3"),
    ("how_many_copies", [1, 2, 1, 1], "situation 4"),
    ("safe_kill", {}, "25 duplicated"),
    ("safe_kill", {"max_in_flight": 2}, "10 duplicated"),
    ("safe_kill", {"retries": 0}, "25 indefinite"),
    ("safe_kill", {"delivery_timeout_ms": 100}, "25 indefinite"),
    ("safe_kill", {"idempotence": False}, "25 duplicated"),
    ("quiet_switch", {"enable.idempotence": False}, "enable.idempotence=False says so openly"),
    ("quiet_switch", {"max.in.flight.requests.per.connection": 6}, "does not start: ConfigException"),
    ("quiet_switch", {"linger.ms": 5}, "enable.idempotence is true"),
    ("quiet_switch", {"max_in_flight": 6}, "has no setting max_in_flight"),
    ("quiet_switch", {"acks": None}, "a name and its value"),
    *slips(
        "own_check_sequence",
        ("(entry.last_seq + 1)", "(entry.batches[-1].first_seq + 1)",  # the bug of kafkajs#598, on the other side
         "the answer should now be out of order; yours is append"),
        ('SEQUENCES else "out of order"', 'SEQUENCES else "duplicate" if seq <= entry.last_seq else "out of order"',
         "duplicate_of_the_sixth_oldest"),  # the source's better rule, which is not Kafka's
        ('None:\n        return "append"', 'None:\n        return "append" if seq == 0 else "out of order"',  # the rule up to 2.4.1
         "the answer should now be append"),
        ('None:\n        return "append"', "None:\n        return True", "yours is True"),
        ("entry is None", "False", "your code raised AttributeError"),
    ),
    ("order_in_log", [0, 1, 2, 3, 4, 5], "the order with idempotence"),
    ("order_in_log", [0, 2, 3, 4, 5, 1], "place 3 of the log does not hold batch 4"),
    ("order_in_log", [0, 2, 1, 3, 4, 5], "place 2 of the log does not hold batch 1"),
    ("order_in_log", [1, 0, 2, 3, 4, 5], "place 0 of the log does not hold batch 1"),
    ("order_in_log", [0, 2, 3, 4, 5], "each of the batches 0 to 5 once"),
    ("enough_memory", 5, "50 records are written twice"),
    ("enough_memory", 9, "50 records are written twice"),
    ("enough_memory", 11, "11 is not the smallest"),
    ("in_flight_needed", 1, "100 records a second"),
    ("in_flight_needed", 5, "500 records a second"),
    ("in_flight_needed", 7, "7 is not the smallest: 6 works too (600 records a second)"),
    ("in_flight_needed", 10, "9 works too"),
    *slips(
        "copies_and_order",
        ("set[int](), 0", "set[int](), sum(after < before for before, after in zip(numbers, numbers[1:]))", LATE, "False",
         "should return (3, 0); yours returns (3, 1)"),
        (LATE, "any(number < other for other in seen)", "only 0 first copies lie behind a higher number; yours counts 2"),
    ),
    ("copies_and_order", lambda numbers: solutions.copies_and_order(numbers)[::-1], "should return (3, 0); yours returns (0, 3)"),
    *slips(
        "send_again",
        ('step.what == "send"', 'step.what == "undelivered"', NOT_THERE, "", "which is in the topic already"),
        (NOT_THERE, "", "which is in the topic already"),
        ('range(step.data["first"], step.data["last"] + 1)', '[step.data["batch"]]',  # batches, where records are asked for
         NOT_THERE, ' - {step.data["batch"] for step in trace if step.what == "write"}', "which is in the topic already"),
    ),
    ("send_again", lambda trace: [], "your function leaves it out"),
    ("send_again", lambda trace: [*solutions.send_again(trace), 1_000], "which was never sent before"),
    ("send_again", lambda trace: trace.steps[-1].data["ranges"], "your code raised KeyError"),
    *slips(
        "own_broker_state",
        ("remembered = 5", "remembered = 6", "the answer should now be out of order; yours is 1"),
        ("batches[-1:])", "batches)", "'clean_restart_keeps_one_batch'"),
        ("def restart(", "def restarts(", "your class has no restart"),
        ("self.producers.pop(pid, None)", 'raise LookupError("not yet written")', "your code raised LookupError: not yet written"),
    ),
    ("own_broker_state", ProducerStateManager, "this is the kit's own"),
    ("own_sender", slip("own_sender", "return sum(", "return 0 * sum("),
     "send(0, 1), poll(); disconnect(), poll(): the queue of partition 0 should now be send 0 "
     "(epoch 0, 0), send 1 (epoch 0, 1); yours is send 1 (epoch 0, 1), send 0 (epoch 0, 0)."),
    *slips("own_sender", ("return sum(", 'raise LookupError("not yet written")\n        return sum(',
                          "your code raised LookupError: not yet written")),
    ("own_sender", TransactionManager, "this is the kit's own, or built on it."),
]  # fmt: skip
