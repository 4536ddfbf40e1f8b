"""A client's log: lines are read, the nine steps are found by their signs, and their order is the log's."""

from __future__ import annotations

import logging

import pytest

from kitlib.experiments.send_path import real_two_sends
from kitlib.experiments.send_path.real_two_sends import APPLICATION, SEND_MARK, LogLine, sends_in

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


def lines_of(texts: list[str]) -> list[LogLine]:
    found = [real_two_sends.read_line(text, at) for at, text in enumerate(texts)]
    assert all(found)
    return [LogLine(0, APPLICATION, "app", SEND_MARK), *(line for line in found if line)]


def stages(lines: list[LogLine]) -> list[list[int]]:
    return [[seen.stage for seen in send] for send in sends_in(lines, real_two_sends.signs_of("t"))]


def test_sends_in_librdkafkas_lines_are_the_nine_steps_with_what_they_tell() -> None:
    """Each sign is found once, and brings the numbers of its line."""
    lines = lines_of(LIBRDKAFKA)
    assert stages(lines) == [list(range(1, 10))]
    told = {seen.stage: seen.told for seen in sends_in(lines, real_two_sends.signs_of("t"))[0] if seen.told}
    assert told == {4: {"partitions": "3"}, 5: {"records": "1"}, 6: {"records": "1"}}


def test_sends_in_another_order_of_lines_is_another_order_of_steps() -> None:
    """Nothing puts the steps into the order that one would like."""
    late = [LIBRDKAFKA[1], LIBRDKAFKA[0], *LIBRDKAFKA[2:]]
    assert stages(lines_of(late)) == [[2, 1, 3, 4, 5, 6, 7, 8, 9]]


@pytest.mark.parametrize("left_out", range(9))
def test_sends_in_a_line_missing_leaves_its_step_out(left_out: int) -> None:
    """No step stands for another one."""
    texts = [text for at, text in enumerate(LIBRDKAFKA) if at != left_out]
    assert stages(lines_of(texts)) == [[stage for stage in range(1, 10) if stage != left_out + 1]]


def test_sends_in_another_topics_lines_are_no_steps() -> None:
    """A topic's name is taken literally, and whole."""
    lines = lines_of(LIBRDKAFKA)
    assert {seen.stage for seen in sends_in(lines, real_two_sends.signs_of("."))[0]}.isdisjoint({4, 5, 6})


def test_librdkafka_log_keeps_its_clients_lines_and_nobody_elses() -> None:
    """What is no line of librdkafka's is passed over; the application's own lines have their place."""
    log = real_two_sends.LibrdkafkaLog(lambda: 7)
    log.logger.debug(LIBRDKAFKA[0])
    log.note(SEND_MARK)
    log.logger.debug("something else")
    assert [(line.word, line.at_ms) for line in log.lines] == [("FASTQUERY", 7), (APPLICATION, 7)]
    assert log.logger.parent is None and log not in logging.getLogger().handlers
