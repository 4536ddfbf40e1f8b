"""A partition with copies, as a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from kitlib.experiments import run
from kitlib.trace import Trace
from kitlib.views import show
from kitlib.views.frames import to_frames
from kitlib.views.scene import kind_of
from kitlib.views.scenes.replication import _not_in
from kitlib.views.svg import HATCH
from kitlib.words import domain
from tests.views.test_scene import texts

LANE = {"topic": "orders", "partition": 0}


def number_of(trace: Trace, what: str, nth: int = 0) -> int:
    return [step.number for step in trace if step.what == what][nth]


def test_what_the_new_leader_does_not_have_is_hatched_until_it_is_cut_off() -> None:
    """Twenty acknowledged records lie on broker 2 alone: hatched from the election to the truncation, and counted for ever."""
    trace = run("unclean_election")
    kind = kind_of(trace)
    assert kind is not None and kind.__name__ == "kitlib.views.scenes.replication"
    scene = to_frames(trace).scene
    assert scene is not None
    for what, hatched, gone in (("none", 0, "no acknowledged"), ("cut", 1, "20 records gone"), ("truncate", 0, "20 records gone")):
        panel = str(scene.panel_after(number_of(trace, what)))
        assert (panel.count(HATCH), gone in panel) == (hatched, True), what
    assert "−20" in texts(show(trace).svg)
    assert "20 records gone for the readers" in repr(show(trace)) and "there is no leader" in repr(show(trace, number_of(trace, "none")))


@pytest.mark.parametrize("name", ["unclean_election", "truncated_commit", "follower_cut"])
def test_the_picture_says_who_is_in_sync_as_often_as_the_trace_does(name: str) -> None:
    """Two changes at nearly the same time are both told, by their boxes' titles where their words have no room."""
    trace = run(name)
    titles = [node.text or "" for node in ET.fromstring(show(trace).svg).iter("{http://www.w3.org/2000/svg}title")]
    drawn = [title.partition(": who is")[0] for title in titles if title.startswith("in sync: ") and title.endswith("who is in sync")]
    told = [", ".join(map(str, step.data["in_sync"])) or "nobody" for step in trace if step.what == "isr"]
    assert drawn == [f"in sync: {each}" for each in told] and told


def test_what_crosses_between_the_brokers_is_drawn_with_what_each_of_them_is() -> None:
    """Who leads in which epoch, who follows, and the records from producer to leader and on to its follower."""
    told = texts(show(run("follower_cut")).svg)
    for words in ("leads, epoch 0", "follows, and is in sync", "lives, and is not in sync", "a record"):
        assert words in told


def test_without_an_unclean_election_nothing_is_gone() -> None:
    """The same with the setting off: nobody leads until broker 2 is back, and every record is there."""
    trace = run("unclean_election", unclean_leader_election=False)
    told = repr(show(trace))
    assert " gone" not in told and "Broker 2 leads and ends at 65" in told
    assert "one is elected that was not in sync" not in texts(show(trace).svg)


def test_a_log_differs_from_its_leaders_by_offset_and_epoch() -> None:
    """The same offset in another epoch is another record."""
    leader = {"log": [[0, 9, 0], [10, 11, 2]]}
    assert _not_in({"log": [[0, 14, 0]]}, leader) == [(10, 14)]
    assert _not_in({"log": [[0, 9, 0], [10, 10, 2]]}, leader) == [] and _not_in(leader, None) == []
    assert _not_in({"log": [[0, 9, 1]]}, leader) == [(0, 9)]


# A step that no default run has -> what it says; `tests/test_net.py` keeps the sentences of all others.
SAID: list[tuple[str, str, dict[str, object], str]] = [
    ("producer", "refused", {"count": 5, "error": "NOT_ENOUGH_REPLICAS"},
     "The producer's 5 records are refused: NOT_ENOUGH_REPLICAS. Nothing is written."),
    ("controller", "differs", {"what": "the end is 4"}, "The real brokers and the model disagree: the end is 4."),
    ("B", "diverged", {"committed": 50, "end": 40, "epoch": 0},
     "B asks where epoch 0 ends: at 40, below its committed offset 50. So it knows that its offset refers to records that are gone."),
]  # fmt: skip


@pytest.mark.parametrize(("actor", "what", "data", "said"), SAID, ids=lambda value: str(value)[:30])
def test_a_step_of_brokers_is_told(actor: str, what: str, data: dict[str, object], said: str) -> None:
    """Each word has its sentence."""
    assert domain("replication").sentence(actor, what, data) == said
