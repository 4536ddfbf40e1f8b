"""A consumer group's picture: who holds what, when nobody does, and the three cursors of each partition."""

from __future__ import annotations

from functools import cache

import pytest

from kitlib.errors import TraceError
from kitlib.experiments import run
from kitlib.trace import Trace
from kitlib.views import Player, show
from kitlib.views.frames import to_frames
from kitlib.views.scenes.groups import MOST_ROWS, Group, Place
from kitlib.views.scenes.offset_rows import words_of
from kitlib.views.scenes.timeline import TEXTURED, draw_box
from tests.views.test_scene import texts

RUNS = ("rebalance", "client_cut_off", "zookeeper_group", "static_member", "auto_commit", "store_after_revoke", "reset_by_hand")
ORDERS_0 = ("orders", 0)


@cache
def of(name: str) -> Group:
    return Group(run(name))


def number_of(trace: Trace, what: str, actor: str = "", nth: int = 0) -> int:
    return [step.number for step in trace if step.what == what and actor in ("", step.actor)][nth]


def holders(group: Group, place: Place, step: int) -> list[str]:
    """Who is drawn as the holder after a step; ["nobody"] where one is missed, [] where none is."""
    told = group.states[place][step]
    return told[1].partition("|")[0].split(" and ") if told else []


@pytest.mark.parametrize("name", RUNS)
def test_a_member_holds_what_it_was_given_until_it_gives_it_up_or_dies(name: str) -> None:
    """Whatever the coordinator believes: from the assignment on, until it is revoked or lost, or its member leaves or is killed."""
    group = of(name)
    for step in group.trace:
        if step.what in ("assigned", "revoked", "lost"):
            for topic, number, *_ in step.data["partitions"]:
                names = [told.partition(",")[0] for told in holders(group, (topic, number), step.number)]
                assert (step.actor in names) == (step.what == "assigned"), step
        elif step.what in ("kill", "leave"):
            assert not [place for place in group.states if step.actor in holders(group, place, step.number)], step


def test_nobody_is_missed_before_anybody_has_held_a_partition_and_without_members() -> None:
    """In the rebalance between two generations each partition is missed; before the first one none is."""
    group = of("rebalance")
    first, again = number_of(group.trace, "assigned"), number_of(group.trace, "prepare", nth=1)
    taken = next(step.number for step in group.trace if step.what == "revoked" and step.number > again)
    assert holders(group, ORDERS_0, first - 1) == [] and holders(group, ORDERS_0, taken) == ["nobody"]
    alone = Trace("g", "rebalance", domain="groups")
    alone.record(0, "A", "join")
    alone.record(0, "A", "assigned", partitions=[["orders", 0]])
    alone.record(0, "A", "leave")
    assert Group(alone).states[ORDERS_0] == [None, ("held", "A"), None]


def test_two_that_believe_that_they_hold_a_partition_are_both_drawn() -> None:
    """One is frozen, or cut off; another has its partition, and it does not know."""
    assert ["A", "B"] in [holders(of("client_cut_off"), ORDERS_0, step) for step in range(len(of("client_cut_off").trace))]
    found = [holders(of("zookeeper_group"), ORDERS_0, step) for step in range(len(of("zookeeper_group").trace))]
    assert found.index(["A, frozen", "B"]) < found.index(["A", "B"]), "awake, and it does not know yet"
    assert "two believe that they hold it" in texts(show(run("zookeeper_group")).svg)


def test_the_groups_row_has_its_generations_and_the_rebalances_between_them() -> None:
    """A coordinator tells them; where there is none the group's state does."""
    group = of("rebalance")
    told = [told[1].partition("|")[0] if told else "" for told in group.bands]
    changes = [told[step] for step in range(len(told)) if step and told[step] != told[step - 1]]
    assert changes[:4] == ["a rebalance", "generation 1", "a rebalance", "generation 2"]
    assert {band[1].partition("|")[0] for band in of("zookeeper_group").bands if band} == {"a rebalance", "all have their share"}
    trace = run("rebalance")
    for step in trace:
        if step.what == "stable":
            step.data.pop("generation", None)
    assert Group(trace).bands == group.bands, "a real coordinator is only looked at: the state says which generation it is"


def test_what_befell_the_members_has_its_sign_and_what_they_say_is_an_arrow() -> None:
    """Who joins, polls too late, is struck off and refused; a commit that is refused is red."""
    told = texts(show(run("slow_group")).svg)
    for meaning in ("joins the group", "has not polled for too long", "removed from the group", "its commit is refused"):
        assert meaning in told
    assert "an ack, or an answer; a commit" in told and "a failure, or a refusal" in told


def test_what_is_worked_on_twice_and_what_is_committed_have_ticks_of_their_own() -> None:
    """One tick for each effect, another one where it is not the first; a commit that was refused has none."""
    group, effects = of("client_cut_off"), [(step.data["partition"], step.data["offset"]) for step in of("client_cut_off").trace
                                            if step.what == "process"]  # fmt: skip
    words = words_of(group.trace, is_shared=True)
    counts = {what: words.count(what) for what in ("process", "again", "commit")}
    assert (counts["process"], counts["again"]) == (len(set(effects)), len(effects) - len(set(effects)))
    commits = [step for step in group.trace if step.what == "commit" and step.data.get("error") in (None, "", "NONE")]
    assert counts["commit"] == len(commits) and counts["again"]


def test_the_panel_tells_the_three_cursors_after_each_step() -> None:
    """As the state tells them, or the steps themselves where it does not; most steps change a row or two of it."""
    trace = run("auto_commit", library="librdkafka")
    scene, killed = to_frames(trace).scene, number_of(trace, "kill")
    assert scene is not None
    assert "orders-0 fetched to 200, 150 processed, committed to 200, log end 300" in scene.words_after(killed)
    told = texts(show(trace, killed).svg)
    assert "fetched" in told and "log end" in told and "Stable" in told and "leader A" in told
    panels = [scene.panel_after(step) for step in range(len(trace))]
    pieces = {piece for panel in panels for piece in panel.inside}
    assert len(pieces) < 1.6 * len(panels)
    for step in trace:
        step.state.pop("cursors")
    followed = to_frames(trace).scene
    assert followed is not None and followed.words_after(killed) == scene.words_after(killed)


def test_standing_still_is_told_in_the_panel() -> None:
    """A partition that nobody reads says for how long."""
    trace = run("auto_commit")
    last = trace.steps[-1]
    last.state["group"] |= {"standing_still": {"orders-0": last.at_ms - 1540}, "owners": {"orders-0": None}}
    assert "nobody | 1,540 ms" in texts(show(trace).svg)


def test_parts_of_a_groups_picture() -> None:
    """The cursors alone, and the signs."""
    trace = run("auto_commit")
    assert "How far is each partition" in texts(show(trace, part="cursors").svg)
    with pytest.raises(TraceError, match="Expected one of all, cursors, signs"):
        show(trace, part="tree")
    player = Player(trace, part="cursors")
    assert "image/svg+xml" in player._repr_mimebundle_()[0]
    player.close()


def test_many_partitions_and_members_fit() -> None:
    """Sixteen rows are drawn and the rest is counted; a fifth member's texture begins anew."""
    trace = Trace("g", "rebalance", domain="groups")
    for number in range(7):
        name = f"m{number}"
        trace.record(0, name, "join")
        trace.record(0, name, "assigned", partitions=[["orders", place] for place in range(20) if place % 7 == number])
    svg = show(trace).svg
    assert f"and {20 - MOST_ROWS} more partitions" in texts(svg) and len(svg) < 60_000
    kinds = [told[0] for place in range(5) if (told := Group(trace).states["orders", place][-1])]
    assert kinds == [*TEXTURED, "held"] and len({str(draw_box(kind, 0, 0, 20, 20, "")) for kind in kinds}) == len(TEXTURED)
