"""What each step of a consumer group's run says."""

from __future__ import annotations

import pytest

from kitlib.words.groups import GROUPS

SAID = [
    ("coordinator", "sync", {"leader": None}, "All members have joined the group; the leader assigns the partitions."),
    ("coordinator", "stable", {"owners": [["t", 0, "A"]]}, "The group is stable: A owns 1."),
    (
        "group",
        "share",
        {"consumers": 4, "at_work": 3, "idle": 1, "most_partitions": 2, "speed": 1.5},
        "4 consumers: 3 with partitions, 1 without. None has more than 2 partitions: 1.5 times the speed of one consumer.",
    ),
    (
        "log",
        "append",
        {"topic": "t", "partition": 0, "first": 0, "last": 4},
        "5 records arrive in partition 0: offsets 0 to 4.",
    ),
    (
        "A",
        "start",
        {"partition": 1, "offset": 3, "why": "committed offset"},
        "A starts reading partition 1 at offset 3 (committed offset).",
    ),
    ("A", "emit", {"partition": 1, "offset": 3}, "A's poll returns offset 3 of partition 1."),
    ("A", "process", {"partition": 1, "offset": 3}, "A processes offset 3 of partition 1: the effect happens now."),
    (
        "A",
        "commit",
        {"partition": 1, "offset": 4, "written": True},
        "A commits offset 4 of partition 1: the next owner of the partition starts there.",
    ),
    (
        "A",
        "commit",
        {"partition": 1, "offset": 4, "written": False},
        "A commits offset 4 of partition 1, which was already committed.",
    ),
    (
        "A",
        "commit",
        {"partition": 1, "offset": 4, "written": False, "error": "ILLEGAL_GENERATION"},
        "A cannot commit offset 4 of partition 1: ILLEGAL_GENERATION, the group has moved on to another generation.",
    ),
    (
        "A",
        "store",
        {"partition": 1, "offset": 4},
        "A stores offset 4 of partition 1 for the next background commit.",
    ),
    (
        "A",
        "store",
        {"partition": 1, "offset": 4, "error": "STATE"},
        "A cannot store offset 4 of partition 1: STATE, it no longer owns the partition.",
    ),
    ("A", "join", {"strategies": ["range", "sticky"]}, "A joins the group and supports range, sticky."),
    (
        "A",
        "assigned",
        {"partitions": [["t", 0], ["t", 2]], "generation": 3},
        "A is assigned partitions 0 and 2 in generation 3.",
    ),
    ("A", "assigned", {"partitions": [], "generation": 3}, "A is assigned no partition in generation 3."),
    (
        "A",
        "revoked",
        {"partitions": [["t", 0], ["u", 1]]},
        "A gives up partitions t-0 and u-1; it may still commit.",
    ),
    ("A", "lost", {"partitions": [["t", 0]]}, "A has lost partition 0: another member may already have taken over."),
    ("A", "leave", {}, "A leaves the group."),
    ("A", "kill", {}, "A is killed, with no chance to tell anyone."),
    ("A", "freeze", {}, "A is frozen: it does nothing, sends no heartbeats, and does not notice."),
    ("A", "thaw", {}, "A resumes as if nothing had happened."),
    ("A", "late", {}, "A has not polled within max.poll.interval.ms and leaves the group of its own accord."),
    (
        "A",
        "restarted",
        {"strategies": ["sticky"], "protocol": "range", "paused": 3},
        "A has restarted and supports sticky; 3 partitions stood still in the meantime. The group now uses range.",
    ),
    ("A", "cut_off", {}, "A is cut off: nothing it sends reaches the broker, and nothing comes back."),
    ("A", "reconnect", {}, "A reaches the broker again."),
    ("A", "error", {"error": "FENCED"}, "A gets FENCED and cannot continue."),
    (
        "zookeeper",
        "notify",
        {"members": ["A", "B"]},
        "ZooKeeper notifies A and B that something has changed, but not what.",
    ),
    (
        "zookeeper",
        "evict",
        {"member": "A", "why": "session"},
        "ZooKeeper removes A from the group: it sent no heartbeat within the session timeout.",
    ),
    ("A", "heard", {}, "A gets the notification: it gives up its partitions, reads the whole group's state, and picks its own share."),
    ("A", "refused", {"partitions": [["t", 3]]}, "A cannot claim partition 3 yet: another member's node is still there."),
    (
        "A",
        "refused",
        {"error": "INCONSISTENT_GROUP_PROTOCOL"},
        "A is not admitted to the group: INCONSISTENT_GROUP_PROTOCOL.",
    ),
    ("A", "failed", {"tries": 4}, "A gives up after 4 tries: no one reads its share of the partitions."),
    ("A", "expired", {}, "A learns that its session has expired: its nodes are gone."),
    (
        "zookeeper",
        "traffic",
        {"members": 2, "messages": 97, "coordinator_messages": 14},
        "In total, 97 messages to and from ZooKeeper for 2 members; a coordinator would have needed 14.",
    ),
    ("coordinator", "prepare", {"why": "A joins"}, "A rebalance begins: A joins. All members must rejoin."),
    (
        "coordinator",
        "sync",
        {"generation": 2, "leader": "A", "protocol": "range"},
        "All members have joined generation 2; A assigns the partitions with range.",
    ),
    (
        "coordinator",
        "sync",
        {"generation": 2, "leader": None, "protocol": None},
        "All members have joined generation 2; the leader assigns the partitions.",
    ),
    (
        "coordinator",
        "stable",
        {"generation": 2, "owners": [["t", 0, "A"], ["t", 1, "B"], ["t", 2, "A"], ["t", 3, None]]},
        "Generation 2 is stable: A owns 2, B owns 1.",
    ),
    (
        "coordinator",
        "evict",
        {"member": "B", "why": "session"},
        "The coordinator removes B from the group: it sent no heartbeat within the session timeout.",
    ),
    ("coordinator", "empty", {}, "The group has no members left; its committed offsets remain."),
    ("A", "commit", {"partition": "one", "offset": 4}, "A: commit offset 4"),
    (
        "operator",
        "alter",
        {"topic": "t", "partition": 2, "offset": 4, "before": 9},
        "An operator sets the committed offset of partition 2 to 4 by hand; it was 9.",
    ),
    (
        "operator",
        "alter",
        {"topic": "t", "partition": 2, "offset": 4, "before": None, "error": "UNKNOWN_MEMBER_ID"},
        "An operator tries to set the committed offset of partition 2 by hand and is refused: UNKNOWN_MEMBER_ID.",
    ),
    (
        "operator",
        "forget",
        {"topic": "t", "partition": 2, "before": None},
        "An operator deletes the committed offset of partition 2; there was none. A tombstone is written; next time, "
        "auto.offset.reset decides where to start.",
    ),
    (
        "operator",
        "forget",
        {"topic": "t", "partition": 2, "before": 3, "error": "GROUP_SUBSCRIBED_TO_TOPIC"},
        "An operator tries to delete the committed offset of partition 2 and is refused: GROUP_SUBSCRIBED_TO_TOPIC.",
    ),
    ("A", "known", {"partition": 0, "offset": 3}, "A finds that offset 3 of partition 0 is already done, and skips it."),
    ("table", "refuse", {"offset": 3}, "The table already has a row for offset 3: the effect is not repeated."),
    (
        "table",
        "rows",
        {"rows": 3, "records": 3, "effects": 5, "refused": 2},
        "In the end, the table has 3 rows for 3 records, from 5 tries; 2 were not repeated.",
    ),
    ("topic", "partitions", {"count": 3}, "The topic now has 3 partitions."),
    ("A", "throw", {"partition": 0, "offset": 3}, "A fails at offset 3 of partition 0, and nothing catches the error."),
    ("log", "delete", {"topic": "t", "partition": 0, "to": 7}, "The log now begins at offset 7: everything below it is deleted."),
    (
        "A",
        "reset",
        {"topic": "t", "partition": 0, "from": 3, "to": 7, "why": "earliest"},
        "A's position 3 is outside the log; auto.offset.reset moves it to 7: earliest.",
    ),
    (
        "monitor",
        "lag",
        {"partition": 1, "lag": 0, "committed": 5, "log_end": 5, "position": 5, "unprocessed": 1, "when": "A is paused"},
        "A is paused: the log of partition 1 ends at 5, and 5 is committed: a lag of 0. What it cannot see: 1 record is not yet processed.",
    ),
    (
        "monitor",
        "lag",
        {"lag": None, "committed": None, "log_end": 5, "partition": 0},
        "The log of partition 0 ends at 5 and nothing is committed: the monitor has no lag to show.",
    ),
    ("monitor", "lag", {"end": 4, "committed": 3, "lag": 1}, "The log ends at 4, and 3 is committed: a lag of 1."),
    ("monitor", "judge", {"status": "STOP", "why": "all is quiet"}, "The monitor says STOP: all is quiet."),
    ("monitor", "judge", {"status": "OK", "why": "OK: no lag (window 60% full)"}, "The monitor says OK: no lag (window 60% full)."),
    (
        "network",
        "lose_message",
        {"member": "A", "message": "heartbeat", "number": 3},
        "The network loses heartbeat 3 of A: the coordinator never sees it.",
    ),
]


@pytest.mark.parametrize(("actor", "what", "data", "said"), SAID, ids=lambda value: str(value)[:30])
def test_a_step_of_a_group_is_told(actor: str, what: str, data: dict[str, object], said: str) -> None:
    """Each word of a group's run has its sentence."""
    assert GROUPS.sentence(actor, what, data) == said


def test_every_word_of_a_group_has_a_case() -> None:
    """No sentence is left without a test."""
    assert {what for _, what, _, _ in SAID} == set(GROUPS.words)
