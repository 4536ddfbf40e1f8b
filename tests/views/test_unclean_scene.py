"""A partition with copies, and a monitor of its lag, as pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from kitlib.experiments import get
from kitlib.trace import Trace
from kitlib.views import Player, show
from kitlib.views.frames import to_frames
from kitlib.views.look import CHAR
from kitlib.views.scene import kind_of
from kitlib.views.scenes.replication import _not_in
from kitlib.views.svg import HATCH
from kitlib.words import domain
from kitlib.words.groups import GROUPS
from tests.views.payloads import HOSTILE, assert_only_text
from tests.views.test_scene import texts

LANE = {"topic": "orders", "partition": 0}


def an_election(unclean: bool = True, payload: str = "nobody is in sync") -> Trace:
    """Ten records on both, five on broker 2 alone; broker 2 dies, and broker 3 leads or nobody does."""
    trace = Trace("election", "election_toy", domain="replication")
    logs: dict[str, list[list[int]]] = {"2": [[0, 9, 0]], "3": [[0, 9, 0]]}
    state: dict[str, Any] = {"leader": 2, "in_sync": [2, 3], "epoch": 0, "high_watermark": 10, "committed_to": 0, "log_end": 10}
    alive = {"2": True, "3": True}

    def step(actor: str, what: str, /, **data: Any) -> None:
        replicas = {
            name: {"log": [list(each) for each in log], "end": log[-1][1] + 1, "alive": alive[name], "role": "follower"}
            for name, log in logs.items()
        }
        told = {"log_start": 0, "processed": [], "emitted_to_offset": 0, **state, "replicas": replicas}
        trace.record(len(trace) * 100, actor, what, state=told, **data)

    step("broker 2", "lead", epoch=0)
    step("broker 3", "follow", epoch=0, leader=2)
    step("broker 2", "append", **LANE, first=0, last=9)
    step("broker 3", "copy", to=10)
    alive["3"] = False
    step("broker 3", "kill")
    state["in_sync"] = [2]
    step("controller", "isr", in_sync=[2])
    logs["2"] = [[0, 14, 0]]
    state |= {"high_watermark": 15, "log_end": 15}
    step("broker 2", "append", **LANE, first=10, last=14)
    step("A", "start", **LANE, offset=0, why="earliest")
    state["committed_to"] = 12
    step("A", "commit", **LANE, offset=12, written=True)
    alive["2"] = False
    step("broker 2", "kill")
    state |= {"leader": None, "in_sync": [], "epoch": 1, "high_watermark": None}
    step("controller", "isr", in_sync=[])
    step("controller", "none", epoch=1)
    step("producer", "refused", count=5, error=payload)
    alive["3"] = True
    step("broker 3", "restart")
    if unclean:
        state |= {"leader": 3, "in_sync": [3], "epoch": 2, "high_watermark": 10, "log_end": 10}
        step("controller", "elect", leader=3, epoch=2, unclean=True, why=payload)
        step("broker 3", "lead", epoch=2)
        step("log", "cut", **LANE, to=10, why=payload, **{"from": 15})
        logs["3"] = [[0, 9, 0], [10, 11, 2]]
        state |= {"high_watermark": 12, "log_end": 12}
        step("broker 3", "append", **LANE, first=10, last=11)
    alive["2"] = True
    step("broker 2", "restart")
    if unclean:
        logs["2"] = [[0, 9, 0], [10, 11, 2]]
        step("broker 2", "truncate", to=10, **{"from": 15})
    else:
        state |= {"leader": 2, "in_sync": [2], "epoch": 2, "high_watermark": 15}
        step("controller", "elect", leader=2, epoch=2, unclean=False, why=payload)
    step("log", "read", records=[[0, 11]])
    return trace


def number_of(trace: Trace, what: str, nth: int = 0) -> int:
    return [step.number for step in trace if step.what == what][nth]


def test_what_the_new_leader_does_not_have_is_hatched_until_it_is_cut_off() -> None:
    """Five acknowledged records lie on broker 2 alone: hatched from the election to the truncation, and counted for ever."""
    trace = an_election()
    kind = kind_of(trace)
    assert kind is not None and kind.module == "kitlib.views.scenes.replication"
    scene = to_frames(trace).scene
    assert scene is not None
    for what, hatched, gone in (("none", 0, "no acknowledged"), ("cut", 1, "5 records gone"), ("truncate", 0, "5 records gone")):
        panel = str(scene.panel_after(number_of(trace, what)))
        assert (panel.count(HATCH), gone in panel) == (hatched, True), what
    assert "−5" in texts(show(trace).svg)
    assert "5 records gone for the readers" in repr(show(trace)) and "there is no leader" in repr(show(trace, number_of(trace, "none")))


@pytest.mark.parametrize("name", ["unclean_election", "truncated_commit", "follower_cut"])
def test_the_picture_says_who_is_in_sync_as_often_as_the_trace_does(name: str) -> None:
    """Two changes at nearly the same time are both told, and their words do not cover each other."""
    trace = get(name).run()
    scene = to_frames(trace).scene
    assert scene is not None
    drawn = [text for text in ET.fromstring(f"<g>{scene.body}</g>").iter("text") if (text.text or "").startswith("in sync: ")]
    told = [", ".join(map(str, step.data["in_sync"])) or "nobody" for step in trace if step.what == "isr"]
    assert [text.text for text in drawn] == [f"in sync: {each}" for each in told] and told
    places: dict[str, float] = {}
    for text in drawn:
        wide = len(text.text or "") * CHAR
        begin = float(text.attrib["x"]) - (wide if text.get("text-anchor") == "end" else 0)
        assert begin > places.get(text.attrib["y"], 0)
        places[text.attrib["y"]] = begin + wide


def test_without_an_unclean_election_nothing_is_gone() -> None:
    """The same with the setting off: nobody leads until broker 2 is back, and every record is there."""
    trace = an_election(unclean=False)
    told = repr(show(trace))
    assert " gone" not in told and "Broker 2 leads and ends at 15" in told
    assert "one is elected that was not in sync" not in texts(show(trace).svg)


def test_a_log_differs_from_its_leaders_by_offset_and_epoch() -> None:
    """The same offset in another epoch is another record."""
    leader = {"log": [[0, 9, 0], [10, 11, 2]]}
    assert _not_in({"log": [[0, 14, 0]]}, leader) == [(10, 14)]
    assert _not_in({"log": [[0, 9, 0], [10, 10, 2]]}, leader) == [] and _not_in(leader, None) == []
    assert _not_in({"log": [[0, 9, 1]]}, leader) == [(0, 9)]


def test_the_parts_of_an_election_are_played() -> None:
    """Both parts have every step's panel, and the roles at the end are told in words."""
    trace = an_election()
    assert "What lies on each broker?" in texts(show(trace, part="logs").svg)
    player = Player(trace, part="logs")
    assert len(player.trace) == len(trace)
    player.close()


@pytest.mark.parametrize("payload", HOSTILE)
def test_reasons_of_brokers_are_text(payload: str) -> None:
    """A reason and an error may hold anything."""
    assert_only_text(show(an_election(payload=payload)))


SAID: list[tuple[str, str, dict[str, object], str]] = [
    ("broker 2", "append", {"first": 0, "last": 9}, "Broker 2 appends 10 records to its log, offsets 0 to 9: acknowledged."),
    ("producer", "refused", {"count": 5, "error": "NOT_ENOUGH_REPLICAS"},
     "The producer's 5 records are refused: NOT_ENOUGH_REPLICAS. Nothing is written."),
    ("broker 2", "kill", {}, "Broker 2 is killed. Its disk stays as it is."),
    ("broker 2", "restart", {}, "Broker 2 comes back with the log on its disk."),
    ("broker 3", "pause", {}, "Broker 3 is paused: it replicates nothing, and does not notice."),
    ("broker 3", "wake", {}, "Broker 3 resumes."),
    ("broker 2", "flip", {"offset": 7}, "A bit flips on the disk of broker 2, in the record at offset 7."),
    ("broker 2", "recover", {"to": 7, "from": 20},
     "Broker 2 checks its log at startup and truncates it at offset 7, where a batch is corrupt; it used to end at 20."),
    ("broker 3", "copy", {"to": 10}, "Broker 3 replicates from the leader, up to offset 10."),
    ("broker 2", "truncate", {"to": 10, "from": 15},
     "Broker 2 truncates its log by 5 records, back to offset 10: its leader does not have them."),
    ("broker 2", "lead", {"epoch": 0}, "Broker 2 is the leader, epoch 0."),
    ("broker 3", "follow", {"epoch": 0, "leader": 2}, "Broker 3 follows broker 2, epoch 0."),
    ("controller", "isr", {"in_sync": [2]}, "In-sync replicas: only broker 2."),
    ("controller", "isr", {"in_sync": [3, 2]}, "In-sync replicas: brokers 3 and 2."),
    ("controller", "isr", {"in_sync": []}, "No replica is in sync any more."),
    ("controller", "elect", {"leader": 3, "epoch": 2, "unclean": True},
     "Broker 3 is elected leader, epoch 2, although it was not in sync: any record it does not have is lost, acknowledged or not."),
    ("controller", "elect", {"leader": 1, "epoch": 1, "unclean": False, "why": "in sync"},
     "Broker 1 is elected leader, epoch 1: in sync. It has every acknowledged record."),
    ("controller", "none", {"epoch": 1},
     "There is no leader: no live replica was in sync. Nothing can be written or read, and nothing is lost."),
    ("controller", "differs", {"what": "the end is 4"}, "The real brokers and the model disagree: the end is 4."),
    ("log", "cut", {"to": 40, "from": 60, "why": "an unclean election"},
     "To consumers, the log now ends at offset 40 instead of 60: 20 records gone (an unclean election)."),
    ("log", "read", {"records": [[0, 39], [60, 64]]},
     "At the end, the log holds the records sent as numbers 0 to 39, 60 to 64."),
    ("B", "diverged", {"committed": 50, "end": 40, "epoch": 0},
     "B asks where epoch 0 ends: at 40, below its committed offset 50. So it knows that its offset refers to records that are gone."),
]  # fmt: skip


@pytest.mark.parametrize(("actor", "what", "data", "said"), SAID, ids=lambda value: str(value)[:30])
def test_a_step_of_brokers_is_told(actor: str, what: str, data: dict[str, object], said: str) -> None:
    """Each word has its sentence."""
    assert domain("replication").sentence(actor, what, data) == said


def test_every_word_of_brokers_has_a_case() -> None:
    """No sentence is left without a test."""
    assert {what for _, what, _, _ in SAID} == {
        what for what, word in domain("replication").words.items() if what not in GROUPS.words or GROUPS.words[what].says is not word.says
    }


def a_monitored_run(payload: str = "the lag never shrinks") -> Trace:
    """Six commits that fall behind, each looked at; the monitor judges, and once more after a silence."""
    trace = Trace("monitored", "monitor_toy", domain="lag")
    for number in range(6):
        state = {"log_start": 0, "log_end": 20 * number, "committed_to": 10 * number, "processed": [], "emitted_to_offset": 0}
        at_ms = 1_000 * number
        trace.record(at_ms, "A", "commit", state=state, **LANE, offset=10 * number, written=True)
        trace.record(at_ms, "monitor", "lag", state=state, **LANE, end=20 * number, committed=10 * number, lag=10 * number)
    trace.record(6_000, "monitor", "judge", **LANE, status="WARN", rule="slow", why=payload, silence_s=0)
    trace.record(6_000, "monitor", "judge", **LANE, status="STOP", rule="stopped", why=payload, silence_s=60)
    return trace


def test_a_monitors_window_is_drawn_after_each_look_with_the_rule_that_fires() -> None:
    """The window fills; after the third look three slots are filled and the lag is 20; at the end the monitor's own word counts."""
    trace = a_monitored_run()
    kind = kind_of(trace)
    assert kind is not None and kind.module == "kitlib.views.scenes.lag"
    told = texts(show(trace, 5).svg)
    assert "3 of 10 slots" in told and "rule: caught up once" in told
    assert repr(show(trace)).endswith("STOP: the lag never shrinks") and "rule: stopped" in texts(show(trace).svg)
    told = texts(show(trace, part="window").svg)
    assert "silent for 61 s" in told and "40 … | 100" in told, "the ring of log ends has moved on in the silence"


def test_a_monitor_that_says_only_its_judgement_is_drawn_from_the_commits() -> None:
    """Without its readings the window is filled by the commits and the log's end; a rule that is not named is found."""
    trace = Trace("flat", "monitor_toy", domain="groups")
    trace.record(0, "A", "assigned", partitions=[["orders", 0]])
    for number, offset in enumerate((5, 9, 4)):
        state = {"log_start": 0, "log_end": 20, "committed_to": offset, "processed": [], "emitted_to_offset": offset}
        trace.record(1_000 * number, "A", "commit", state=state, **LANE, offset=offset, written=True)
    trace.record(2_000, "monitor", "judge", state=state, **LANE, status="REWIND", why="REWIND: it went back (window 30% full)")
    told = texts(show(trace, part="lag").svg)
    assert "3 of 10 slots" in told and "rule: rewound" in told and "The monitor says REWIND: it went back" in told
    assert "partition 0: 1 step back" in repr(show(trace, part="signs")).lower()


@pytest.mark.parametrize("payload", HOSTILE)
def test_a_monitors_reason_is_text(payload: str) -> None:
    """A reason may hold anything."""
    assert_only_text(show(a_monitored_run(payload)))
