"""A consumer group's picture: who holds what, when nobody does, and the three cursors of each partition."""

from __future__ import annotations

import pytest

from kitlib.errors import TraceError
from kitlib.views import Player, show
from kitlib.views.frames import to_frames
from kitlib.views.scenes.group_reader import GroupStory, draw_texture, read_group, texture_path
from tests.views.grouping import Grouping, a_rebalance
from tests.views.payloads import HOSTILE, assert_only_text
from tests.views.test_scene import texts

ORDERS_0, ORDERS_1, ORDERS_2 = (("orders", number) for number in range(3))


@pytest.fixture(scope="module")
def story() -> GroupStory:
    """The story on an axis where step n lies at n."""
    trace = a_rebalance()
    return read_group(trace, [float(step.number) for step in trace])


def number_of(what: str, actor: str = "", nth: int = 0) -> int:
    found = [step.number for step in a_rebalance() if step.what == what and actor in ("", step.actor)]
    return found[nth]


def holders(story: GroupStory, place: tuple[str, int], step: int) -> tuple[str, ...] | None:
    """Who is drawn as the holder just after a step; None before anybody ever was."""
    for spell in story.lanes[place].spells:
        if spell.x0 <= step < spell.x1:
            assert spell.is_missed or spell.holders or step < number_of("assigned", "A") or step >= number_of("leave")
            return tuple(name for name, _ in spell.holders)
    return None


def test_a_partition_is_held_from_the_assignment_until_it_is_given_back(story: GroupStory) -> None:
    """A has all three at first; after the second deal each has one; in between nobody has any."""
    first, second = number_of("assigned", "A"), number_of("assigned", "B")
    prepare = number_of("prepare", nth=1)
    for place in (ORDERS_0, ORDERS_1, ORDERS_2):
        assert holders(story, place, first + 4) == ("A",)
        assert holders(story, place, prepare + 1) == (), "given back, and not dealt yet"
    assert holders(story, ORDERS_1, second + 1) == ("B",)
    assert [spell.is_missed for spell in story.lanes[ORDERS_0].spells][:3] == [False, False, True]


def test_a_killed_member_holds_nothing_though_the_coordinator_does_not_know_yet(story: GroupStory) -> None:
    """From the kill to the next deal the lane is hatched, not only from the eviction on."""
    kill, evict = number_of("kill"), number_of("evict")
    assert holders(story, ORDERS_1, kill) == () and holders(story, ORDERS_1, evict) == ()
    assert holders(story, ORDERS_1, kill - 1) == ("B",)


def test_a_frozen_member_and_its_successor_are_both_drawn(story: GroupStory) -> None:
    """C is frozen, and struck off; when A has its partition, C still believes that it holds it."""
    last = number_of("assigned", "A", nth=3)
    assert holders(story, ORDERS_2, last + 1) == ("C", "A")
    spells = [spell for spell in story.lanes[ORDERS_2].spells if len(spell.holders) == 2]
    assert spells[0].holders == (("C", True), ("A", False))
    assert spells[-1].holders == (("C", False), ("A", False)), "awake, and it does not know yet"
    assert holders(story, ORDERS_2, number_of("lost", "C")) == ("A",)


def test_members_rows_bands_and_boundaries(story: GroupStory) -> None:
    """What befell the members has its sign in their row; the group's row has four generations and four rebalances."""
    signs = {name: [what for what, _ in row.signs] for name, row in story.members.items()}
    assert signs == {
        "A": ["join", "leave"],
        "B": ["join", "kill", "evict"],
        "C": ["join", "freeze", "evict", "thaw", "refused"],
    }
    assert [generation for _, _, generation in story.bands] == [None, 1, None, 2, None, 3, None, 4]
    assert [number for _, number in story.boundaries] == [1, 2, 3, 4]
    assert [is_frozen for _, _, is_frozen in story.members["C"].spells] == [False, True, False]


def test_what_is_worked_on_twice_and_what_is_committed_have_ticks_of_their_own(story: GroupStory) -> None:
    """B died after two records that it had not committed; A works on them once more. A refused commit is none."""
    assert [len(story.lanes[ORDERS_1].ticks[what]) for what in ("process", "again", "commit")] == [6, 2, 2]
    assert len(story.lanes[ORDERS_2].ticks["commit"]) == 2, "the commit that was refused has no tick"


def test_a_generation_that_no_step_names_is_taken_from_the_state() -> None:
    """A real coordinator is only looked at: its step may not say which generation is stable."""
    trace = a_rebalance()
    for step in trace:
        if step.what == "stable":
            del step.data["generation"]
    bands = read_group(trace, [float(step.number) for step in trace]).bands
    assert [generation for _, _, generation in bands if generation is not None] == [1, 2, 3, 4]


def test_a_group_without_members_misses_nothing_and_a_refused_commit_has_no_tick() -> None:
    """Where nobody is in the group nobody is missed; an error is enough to refuse a commit."""
    group = Grouping(1)
    group.append(0, 4)
    group.join("A")
    group.deal("A joins", A=[0])
    group.tell("A", "commit", 0, offset=2, error="ILLEGAL_GENERATION")
    group.tell("A", "leave")
    group.wait(500)
    group.tell("coordinator", "empty")
    lane = read_group(group.trace, [float(step.number) for step in group.trace]).lanes[ORDERS_0]
    assert [(spell.holders, spell.is_missed) for spell in lane.spells] == [
        ((), False),
        ((("A", False),), False),
        ((), False),
    ]
    assert not any(lane.ticks.values())


def test_what_an_operator_does_to_a_commit_is_marked_below_the_lane() -> None:
    """A triangle for what was set and for what was deleted; what was refused has none."""
    group = Grouping(1)
    group.tell("operator", "alter", 0, offset=3, before=9)
    group.tell("operator", "forget", 0, before=3)
    group.tell("operator", "alter", 0, offset=3, before=9, error="UNKNOWN_MEMBER_ID")
    lane = read_group(group.trace, [float(step.number) for step in group.trace]).lanes[ORDERS_0]
    assert lane.ticks["operator"] == [step.number for step in group.trace if step.actor == "operator"][:2]


def test_cursors_are_followed_where_the_state_does_not_tell_them() -> None:
    """A trace of another kind of group: fetched, processed and committed by its steps; a second pass does not go back."""
    group = Grouping(1)
    group.append(0, 6)
    group.join("A")
    group.deal("A joins", A=[0])
    group.poll("A", 0, 4, works=3, commits=True)
    group.cursors[0][2] = 1
    group.tell("A", "start", 0, offset=1, why="committed offset")
    group.poll("A", 0, 1)
    for step in group.trace:
        step.state.pop("cursors")
    scene = to_frames(group.trace).scene
    assert scene is not None
    assert scene.words_after(len(group.trace) - 1).endswith("orders-0 fetched to 2, 3 processed, committed to 3, log end 6")


def test_the_panel_tells_the_three_cursors_after_each_step() -> None:
    """Fetched, processed and committed part while B works, and meet where A took over and committed."""
    scene = to_frames(a_rebalance()).scene
    assert scene is not None
    assert "orders-1 fetched to 6, 4 processed, committed to 2, log end 8" in scene.words_after(number_of("kill"))
    assert "orders-1 fetched to 2, 4 processed, committed to 2, log end 8" in scene.words_after(number_of("start", "A", nth=5))
    told = texts(show(a_rebalance(), number_of("kill")).svg)
    assert "fetched" in told and "log end" in told and "Stable" in told and "leader A" in told
    pieces = {piece for panel in scene.panels for piece in panel.inside}
    assert len(pieces) < 1.6 * len(scene.said), "a step changes a row or two of the panel, not all of it"


def test_standing_still_is_told_in_the_panel() -> None:
    """A partition that nobody reads says for how long."""
    group = Grouping(1)
    group.join("A")
    group.deal("A joins", A=[0])
    group.tell("A", "kill")
    last = group.trace.steps[-1]
    last.state["group"]["standing_still"] = {"orders-0": last.at_ms - 1540}
    last.state["group"]["owners"] = {"orders-0": None}
    assert "nobody | 1,540 ms" in texts(show(group.trace).svg)


def test_parts_of_a_groups_picture() -> None:
    """The cursors alone, and the strips of records that every trace with the delivery words has."""
    trace = a_rebalance()
    assert "How far is each partition" in texts(show(trace, part="cursors").svg)
    assert "orders, partition 2" in texts(show(trace, part="log").svg)
    assert "commit lag" in texts(show(trace, part="plot").svg)
    with pytest.raises(TraceError, match="Expected one of all, cursors, signs, lag, log, plot"):
        show(trace, part="tree")
    player = Player(trace, part="cursors")
    assert "image/svg+xml" in player._repr_mimebundle_()[0]
    player.close()


@pytest.mark.parametrize("payload", HOSTILE)
def test_names_in_a_groups_trace_are_text(payload: str) -> None:
    """Topics, members and reasons may hold anything."""
    group = Grouping(2, topic=payload)
    group.append(0, 3)
    group.join("A")
    group.deal(payload, A=[0])
    group.tell(payload, "join", strategies=[payload])
    group.tell("coordinator", "evict", member=payload, why=payload)
    group.poll("A", 0, 2)
    for at in range(len(group.trace)):
        assert_only_text(show(group.trace, at))


def test_many_partitions_and_members_fit() -> None:
    """Sixteen lanes are drawn and the rest is counted; a seventh member's texture begins anew."""
    group = Grouping(20)
    names = [f"m{number}" for number in range(7)]
    for name in names:
        group.join(name)
    group.deal("all join", **{name: [p for p in range(20) if p % 7 == place] for place, name in enumerate(names)})
    svg = show(group.trace).svg
    assert "and 4 more partitions" in texts(svg) and len(svg) < 60_000
    textures = [str(draw_texture(place, texture_path(place, 0, 0, 20, 20))) for place in range(7)]
    assert textures[0] == textures[6] and len(set(textures)) == 6


def test_a_groups_trace_that_breaks_its_word_is_an_error_with_a_sentence() -> None:
    """Data that cannot be drawn are a TraceError, never a traceback from the drawing."""
    group = Grouping(1)
    group.tell("A", "assigned", partitions=[["orders"]])
    with pytest.raises(TraceError, match="it cannot be drawn"):
        show(group.trace)
