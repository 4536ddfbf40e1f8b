"""A client's log: lines are read, the nine steps are found by their signs, and their order is the log's."""

from __future__ import annotations

import logging

import pytest

from kitlib.experiments.send_path.real_two_sends import APPENDED, APPLICATION, LibrdkafkaLog, signs_of, steps_in

BOOT, LEADER = "127.0.0.1:1/bootstrap", "127.0.0.1:1/7"
# As librdkafka 2.16.0 writes them; between them in a real log there are many others.
LIBRDKAFKA = [
    "FASTQUERY [c#producer-1] [thrd:app]: Starting fast leader query",
    f"STATE [c#producer-1] [thrd:{BOOT}]: {BOOT}: Broker changed state APIVERSION_QUERY -> UP",
    f"SEND [c#producer-1] [thrd:{BOOT}]: {BOOT}: Sent MetadataRequest (v13, 54 bytes @ 0, CorrId 2)",
    "PARTCNT [c#producer-1] [thrd:main]: Topic t (id AAAA) partition count changed from 0 to 3",
    "PARTCNT [c#producer-1] [thrd:main]: Partitioning 1 unassigned messages in topic t to 3 partitions",
    f"TOPPAR [c#producer-1] [thrd:{LEADER}]: {LEADER}: t [0] 1 message(s) in xmit queue (1 added from partition queue)",
    f"STATE [c#producer-1] [thrd:{LEADER}]: {LEADER}: Broker changed state APIVERSION_QUERY -> UP",
    f"SEND [c#producer-1] [thrd:{LEADER}]: {LEADER}: Sent ProduceRequest (v10, 120 bytes @ 0, CorrId 2)",
    f"RECV [c#producer-1] [thrd:{LEADER}]: {LEADER}: Received ProduceResponse (v10, 57 bytes, CorrId 2, rtt 1.85ms)",
]


def stages(texts: list[str], topic: str = "t") -> list[int]:
    log = LibrdkafkaLog(lambda: 7)
    for text in texts:
        log.logger.debug(text)
    assert len(log.lines) == len(texts)
    return [sign.stage for sign, *_ in steps_in(log.lines, signs_of(topic))]


def test_steps_in_another_order_of_lines_are_another_order_of_steps() -> None:
    """Nothing puts the steps into the order that one would like; a topic's name is taken literally, and whole."""
    late = [LIBRDKAFKA[1], LIBRDKAFKA[0], *LIBRDKAFKA[2:]]
    assert stages(LIBRDKAFKA) == [1, 2, 3, 4, 5, 6, 7, 8, 9] and stages(late) == [2, 1, 3, 4, 5, 6, 7, 8, 9]
    assert {4, 5, 6}.isdisjoint(stages(LIBRDKAFKA, "."))


@pytest.mark.parametrize("left_out", range(9))
def test_steps_in_lines_of_which_one_is_missing_are_without_it(left_out: int) -> None:
    """No step stands for another one."""
    texts = [text for at, text in enumerate(LIBRDKAFKA) if at != left_out]
    assert stages(texts) == [stage for stage in range(1, 10) if stage != left_out + 1]


def test_librdkafka_log_keeps_its_clients_lines_and_nobody_elses() -> None:
    """What is no line of librdkafka's is passed over; the application's own lines have their place."""
    log = LibrdkafkaLog(lambda: 7)
    log.logger.debug(LIBRDKAFKA[3])
    log.note(APPENDED)
    log.logger.debug("something else")
    assert [(line.word, line.at_ms) for line in log.lines] == [("PARTCNT", 7), (APPLICATION, 7)]
    assert [told for *_, told in steps_in(log.lines, signs_of("t"))] == [{"partitions": "3"}, {}]
    assert log.logger.parent is None and log not in logging.getLogger().handlers
