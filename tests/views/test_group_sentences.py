"""What each step of a consumer group's run says."""

from __future__ import annotations

import pytest

from kitlib.words.groups import GROUPS

SAID = [
    ("coordinator", "sync", {"leader": None}, "All have joined the group; the leader deals the partitions out."),
    ("coordinator", "stable", {"owners": [["t", 0, "A"]]}, "The group is stable: A holds 1."),
    (
        "group",
        "share",
        {"consumers": 4, "at_work": 3, "idle": 1, "most_partitions": 2, "speed": 1.5},
        "4 consumers: 3 have partitions, 1 have none; nobody has more than 2, so all is done 1.5 times as fast as by one.",
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
        "A begins partition 1 at offset 3 (committed offset).",
    ),
    ("A", "emit", {"partition": 1, "offset": 3}, "A's poll hands out offset 3 of partition 1."),
    ("A", "process", {"partition": 1, "offset": 3}, "A works on offset 3 of partition 1: the effect happens now."),
    (
        "A",
        "commit",
        {"partition": 1, "offset": 4, "written": True},
        "A commits offset 4 of partition 1: whoever has the partition next begins there.",
    ),
    (
        "A",
        "commit",
        {"partition": 1, "offset": 4, "written": False},
        "A commits offset 4 of partition 1, which was committed already.",
    ),
    (
        "A",
        "commit",
        {"partition": 1, "offset": 4, "written": False, "error": "ILLEGAL_GENERATION"},
        "A may not commit offset 4 of partition 1: ILLEGAL_GENERATION, the group is in another generation by now.",
    ),
    (
        "A",
        "store",
        {"partition": 1, "offset": 4},
        "A stores offset 4 of partition 1, for the next commit in the background.",
    ),
    (
        "A",
        "store",
        {"partition": 1, "offset": 4, "error": "STATE"},
        "A may not store offset 4 of partition 1: STATE, the partition is not its own any more.",
    ),
    ("A", "join", {"strategies": ["range", "sticky"]}, "A joins the group, and offers range, sticky."),
    (
        "A",
        "assigned",
        {"partitions": [["t", 0], ["t", 2]], "generation": 3},
        "A is given partitions 0 and 2 of generation 3.",
    ),
    ("A", "assigned", {"partitions": [], "generation": 3}, "A is given no partition of generation 3."),
    (
        "A",
        "revoked",
        {"partitions": [["t", 0], ["u", 1]]},
        "A gives partitions t-0 and u-1 back; it may still commit them.",
    ),
    ("A", "lost", {"partitions": [["t", 0]]}, "A has lost partition 0: another member may have them already."),
    ("A", "leave", {}, "A leaves the group."),
    ("A", "kill", {}, "A is killed: it can say nothing to anybody."),
    ("A", "freeze", {}, "A is frozen: it does nothing, its heartbeats neither, and knows nothing of it."),
    ("A", "thaw", {}, "A goes on as if nothing had happened."),
    ("A", "late", {}, "A has not polled for max.poll.interval.ms and leaves the group by itself."),
    (
        "A",
        "restarted",
        {"strategies": ["sticky"], "protocol": "range", "paused": 3},
        "A has been started again and offers sticky; 3 partitions stood still meanwhile. The group deals by range now.",
    ),
    ("A", "cut_off", {}, "A is cut off: nothing of it reaches the broker, and nothing comes back."),
    ("A", "reconnect", {}, "A reaches the broker again."),
    ("A", "error", {"error": "FENCED"}, "A is told FENCED, and cannot go on."),
    (
        "zookeeper",
        "notify",
        {"members": ["A", "B"]},
        "ZooKeeper tells A and B that something has changed; nobody says what.",
    ),
    (
        "zookeeper",
        "evict",
        {"member": "A", "why": "session"},
        "ZooKeeper strikes A off the group: its heartbeats have stopped for the session time-out.",
    ),
    ("A", "heard", {}, "A hears of it: it gives up what it has, reads the whole group's state, and deals for itself."),
    ("A", "refused", {"partitions": [["t", 3]]}, "A wants partition 3, but another member's node is still there."),
    (
        "A",
        "refused",
        {"error": "INCONSISTENT_GROUP_PROTOCOL"},
        "A is not taken into the group: INCONSISTENT_GROUP_PROTOCOL.",
    ),
    ("A", "failed", {"tries": 4}, "A gives up after 4 tries: what it should read nobody reads."),
    ("A", "expired", {}, "A learns that its session has ended: its nodes are gone."),
    (
        "zookeeper",
        "traffic",
        {"members": 2, "messages": 97, "coordinator_messages": 14},
        "In all 97 messages to and from ZooKeeper for 2 members; a coordinator would have needed 14.",
    ),
    ("coordinator", "prepare", {"why": "A joins"}, "A rebalance begins: A joins. All members must join again."),
    (
        "coordinator",
        "sync",
        {"generation": 2, "leader": "A", "protocol": "range"},
        "All have joined generation 2; A deals the partitions out by range.",
    ),
    (
        "coordinator",
        "sync",
        {"generation": 2, "leader": None, "protocol": None},
        "All have joined generation 2; the leader deals the partitions out.",
    ),
    (
        "coordinator",
        "stable",
        {"generation": 2, "owners": [["t", 0, "A"], ["t", 1, "B"], ["t", 2, "A"], ["t", 3, None]]},
        "Generation 2 is stable: A holds 2, B holds 1.",
    ),
    (
        "coordinator",
        "evict",
        {"member": "B", "why": "session"},
        "The coordinator strikes B off the group: its heartbeats have stopped for the session time-out.",
    ),
    ("coordinator", "empty", {}, "The group has no member any more; its committed offsets stay."),
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
        "An operator wants to set the committed offset of partition 2 by hand and is refused: UNKNOWN_MEMBER_ID.",
    ),
    (
        "operator",
        "forget",
        {"topic": "t", "partition": 2, "before": None},
        "An operator deletes the committed offset of partition 2; there was none. A tombstone is written, and the reset policy "
        "decides next time.",
    ),
    (
        "operator",
        "forget",
        {"topic": "t", "partition": 2, "before": 3, "error": "GROUP_SUBSCRIBED_TO_TOPIC"},
        "An operator wants to delete the committed offset of partition 2 and is refused: GROUP_SUBSCRIBED_TO_TOPIC.",
    ),
    ("A", "known", {"partition": 0, "offset": 3}, "A finds that offset 3 of partition 0 is done already, and passes over it."),
    ("table", "refuse", {"offset": 3}, "The table has a row for offset 3 already: the effect is not made again."),
    (
        "table",
        "rows",
        {"rows": 3, "records": 3, "effects": 5, "refused": 2},
        "In the end the table has 3 rows for 3 records, from 5 tries; 2 were not made again.",
    ),
    ("topic", "partitions", {"count": 3}, "The topic has 3 partitions now."),
    ("A", "throw", {"partition": 0, "offset": 3}, "A fails at offset 3 of partition 0, and nobody catches the error."),
    ("log", "delete", {"topic": "t", "partition": 0, "to": 7}, "The log now begins at offset 7: what lay below it is deleted."),
    (
        "A",
        "reset",
        {"topic": "t", "partition": 0, "from": 3, "to": 7, "why": "earliest"},
        "A's position 3 is none of the log's; its reset policy sends it to 7: earliest.",
    ),
    (
        "monitor",
        "lag",
        {"partition": 1, "lag": 0, "committed": 5, "log_end": 5, "position": 5, "unprocessed": 1, "when": "A is paused"},
        "A is paused: the log of partition 1 ends at 5, committed is 5: a lag of 0. What it cannot see: 1 record is not worked on.",
    ),
    (
        "monitor",
        "lag",
        {"lag": None, "committed": None, "log_end": 5, "partition": 0},
        "The log of partition 0 ends at 5, nothing is committed: the monitor has no lag to show.",
    ),
    ("monitor", "lag", {"end": 4, "committed": 3, "lag": 1}, "The log ends at 4, committed is 3: a lag of 1."),
    ("monitor", "judge", {"status": "STOP", "why": "all is quiet"}, "The monitor says STOP: all is quiet."),
    ("monitor", "judge", {"status": "OK", "why": "OK: no lag (window 60% full)"}, "The monitor says OK: no lag (window 60% full)."),
]


@pytest.mark.parametrize(("actor", "what", "data", "said"), SAID, ids=lambda value: str(value)[:30])
def test_a_step_of_a_group_is_told(actor: str, what: str, data: dict[str, object], said: str) -> None:
    """Each word of a group's run has its sentence."""
    assert GROUPS.sentence(actor, what, data) == said


def test_every_word_of_a_group_has_a_case() -> None:
    """No sentence is left without a test."""
    assert {what for _, what, _, _ in SAID} == set(GROUPS.words)
