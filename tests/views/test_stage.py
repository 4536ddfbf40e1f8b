"""The stage: the score of every run, read from one table of deeds per domain."""

from __future__ import annotations

import contextlib
import functools
import json
from dataclasses import replace

import pytest

from kitlib.errors import TraceError
from kitlib.experiments import get, names
from kitlib.trace import Trace
from kitlib.views.film import Film
from kitlib.views.frames import Frames, to_frames
from kitlib.views.stage.domains import STAGES
from kitlib.views.stage.picture import stage_of, staged, to_json
from kitlib.views.stage.score import HOP_S, LANES, MOST_AT_ONCE, MOST_ON_A_WAY, Stage, Traveller, gathered
from kitlib.words import DOMAINS


@functools.cache
def run_of(name: str) -> tuple[Trace, Frames, Stage]:
    trace = get(name).run()
    frames = to_frames(trace)
    stage = stage_of(trace, frames.clock)
    assert stage is not None
    return trace, frames, stage


def step_of(trace: Trace, what: str, actor: str = "") -> int:
    return next(step.number for step in trace.steps if step.what == what and actor in ("", step.actor))


STAGED = [name for name in names() if get(name).kind.domain in STAGES]


@pytest.mark.parametrize("domain", STAGES)
def test_each_verb_of_a_domain_has_a_row(domain: str) -> None:
    """A new verb cannot be forgotten: the table names each verb that the domain's words declare, and no other."""
    assert {*STAGES[domain].rows, *STAGES[domain].still.split()} == set(DOMAINS[domain].words)


@pytest.mark.parametrize("name", STAGED)
def test_each_traveller_goes_from_actor_to_actor_in_time(name: str) -> None:
    """It starts and ends at actors that there are, sets off before it arrives, and the crowd is small enough to be shown."""
    _, frames, stage = run_of(name)
    for each in stage.travellers:
        assert {each.source, each.target} <= stage.actors.keys()
        assert 0 <= each.t0 <= each.t1 <= each.t2
        assert each.t0 <= frames.clock.length
    for actor in stage.actors.values():
        moments = [since for since, _ in actor.states]
        assert moments == sorted(moments) and actor.states[0][0] == 0
        assert all(0 <= actor.x <= 760 and 0 <= actor.y <= stage.height for actor in stage.actors.values())
    at_once = [sum(t.t0 <= place <= t.t2 for t in stage.travellers) for place in frames.clock.places[:: max(1, len(frames) // 50)]]
    assert max(at_once) <= MOST_AT_ONCE + len(stage.actors)


@pytest.mark.parametrize("name", STAGED)
def test_a_stage_is_told_in_60_kb_and_at_one_step_in_few(name: str) -> None:
    """The whole score is small beside the pictures; that of one step, which a turned knob sends, is smaller."""
    _, frames, stage = run_of(name)
    whole = json.dumps(to_json(Film(), stage), separators=(",", ":"))
    alone = json.dumps(staged(Film(), frames, len(frames) // 2), separators=(",", ":"))
    assert len(whole) < 60_000
    assert len(alone) < 25_000


DEATHS = [  # experiment, the verb that kills, who goes dark, the verb after which they are back (or "")
    ("restart", "crash", ["spout", "bolt"], "start"),
    ("bolt_crash", "crash", ["store-4"], "restart"),
    ("acker_crash", "crash", ["__acker-6"], "restart"),
    ("spout_crash", "crash", ["events-1"], "restart"),
    ("broker_restart", "restart", ["broker"], ""),
    ("unflushed_sends", "exit", ["user", "accumulator", "sender"], ""),
    ("auto_commit", "kill", ["A"], ""),
    ("consume_transform_produce", "kill", ["producer"], ""),
    ("unclean_election", "kill", ["broker 3"], "restart"),
    ("connect_worker_lost", "kill", ["w3"], ""),
    ("connect_source_crash", "crash", ["task"], "begins"),
    ("streams_failover", "kill", ["i2"], ""),
]


@pytest.mark.parametrize(("name", "kills", "who", "returns"), DEATHS, ids=[death[0] for death in DEATHS])
def test_what_dies_goes_dark_and_comes_back(name: str, kills: str, who: list[str], returns: str) -> None:
    """From the step that kills it an actor is down; it is back, and then up, where the run says so."""
    trace, frames, stage = run_of(name)
    dies = step_of(trace, kills)
    for each in who:
        actor = stage.actors[each]
        assert actor.at(frames.clock.places[dies] - 0.01) != "down"
        assert actor.at(frames.clock.places[dies]) == "down"
        if returns:
            back = next(step.number for step in trace.steps[dies:] if step.what == returns)
            states = [state for since, state in actor.states if since >= frames.clock.places[back] - 0.01]
            assert states[:2] == ["back", "up"]


@pytest.mark.parametrize(
    ("name", "kills", "number"), [("restart", "crash", 10), ("bolt_crash", "crash", 6), ("spout_crash", "crash", None)]
)
def test_what_was_in_flight_falls_when_its_process_dies(name: str, kills: str, number: int | None) -> None:
    """As many tuples fall as the step says were lost, they do not arrive, and they lie until their process is back."""
    trace, frames, stage = run_of(name)
    place = frames.clock.places[step_of(trace, kills)]
    fallen = [each for each in stage.travellers if each.fate == "dropped" and abs(each.t1 - place) < 0.6]
    if number is not None:
        assert sum(each.count for each in fallen) == number
    assert fallen
    assert all(0 < each.reach < 1 and each.t2 > each.t1 + 1 for each in fallen)


def test_lost_answers_fall_on_their_way_to_the_producer() -> None:
    """Each answer that the network loses sets off at the broker and does not arrive."""
    trace, _, stage = run_of("answers_lost")
    lost = [each for each in stage.travellers if each.fate == "lost" and each.source == "broker"]
    assert sum(each.count for each in lost) == sum(step.what == "lose_answer" for step in trace.steps)
    assert {each.target for each in lost} == {"producer"}


def test_member_that_joins_later_is_away_until_then() -> None:
    """A member is pale before it joins, and its partitions are tied to it while it owns them."""
    trace, frames, stage = run_of("rebalance")
    place = frames.clock.places[step_of(trace, "join", "C")]
    assert [stage.actors["C"].at(when) for when in (0.0, place)] == ["away", "up"]
    at_end = {tie.one: tie.other for tie in stage.ties if tie.t1 >= frames.clock.length}
    assert at_end == {f"orders {name.rpartition('-')[2]}": owner for name, owner in trace.steps[-1].state["group"]["owners"].items()}


def test_connects_workers_stand_between_the_systems_whose_tasks_they_run() -> None:
    """When a worker dies, its ties to source and sink end, both say how many tasks are left, and others are tied when they take over."""
    trace, frames, stage = run_of("connect_worker_lost")

    def shown(step: int) -> tuple[set[tuple[str, str]], list[str]]:
        place = frames.clock.places[step] + 0.2
        lines = [[text for since, text in stage.actors[name].lines if since <= place][-1] for name in ("source system", "sink system")]
        return {(tie.one, tie.other) for tie in stage.ties if tie.t0 <= place < tie.t1}, lines

    dies = step_of(trace, "kill")
    both = {("source system", worker) for worker in ("w1", "w2", "w3")} | {(worker, "sink system") for worker in ("w1", "w2", "w3")}
    assert shown(dies - 1) == (both, ["3 of 3 tasks run"] * 2)
    ties, lines = shown(dies)
    assert (both - ties, lines) == ({("source system", "w3"), ("w3", "sink system")}, ["2 of 3 tasks run"] * 2)
    assert shown(len(trace) - 1)[1] == ["3 of 3 tasks run"] * 2
    assert stage.actors["source system"].x < stage.actors["w1"].x < stage.actors["sink system"].x


def test_equal_travellers_are_one_with_their_number() -> None:
    """A crowd on one way becomes few, and none of it is forgotten."""
    _, _, stage = run_of("restart")
    one = next(each for each in stage.travellers if each.style.name == "tuple")
    crowd = [Traveller("", one.style, f"{n}", "spout", "bolt", 1 + n / 1000, 3 + n / 1000, 3 + n / 1000) for n in range(500)]
    found = gathered(crowd)
    assert len(found) <= MOST_ON_A_WAY
    assert sum(each.count for each in found) == 500


@pytest.mark.parametrize("name", ["small_max_offset_behind", "happy_path"])
def test_what_is_in_flight_together_has_lanes_of_its_own(name: str) -> None:
    """Eight tuples or ten between the same two are seen side by side and not in a heap."""
    _, frames, stage = run_of(name)
    waiting = [each for each in stage.travellers if each.style.shape != "bubble" and each.count == 1]
    for place in frames.clock.places:
        lanes = [(each.source, each.target, each.lane) for each in waiting if each.t0 <= place < each.t1 - HOP_S]
        assert len(set(lanes)) == len(lanes) or len(lanes) > LANES
    assert len({each.lane for each in waiting if each.target == "bolt"}) >= 8


@pytest.mark.parametrize("name", ["compacted_topic", "offset_expiry"])
def test_domain_in_which_nothing_travels_has_no_stage(name: str) -> None:
    """Its player shows its pictures and no empty stage."""
    trace = get(name).run()
    assert stage_of(trace, to_frames(trace).clock) is None


def test_actors_and_travellers_say_what_they_are() -> None:
    """A process is drawn with its ref, and a record that travels has the ref of that record."""
    _, _, stage = run_of("restart")
    film = Film()
    told = to_json(film, stage)
    assert "record:events/0/17" in told["refs"]
    assert any('data-ref="process:spout"' in head for head in film.heads)


@pytest.mark.parametrize("name", ["restart", "bolt_crash", "answers_lost", "stale_metadata", "rebalance", "zombie", "unclean_election"])
def test_data_that_are_not_what_a_word_promises_end_in_a_sentence(name: str) -> None:
    """Whatever stands in one field of a step, the stage is made, or a TraceError says which trace cannot be played."""
    trace, frames, _ = run_of(name)
    firsts = {step.what: step for step in reversed(trace.steps)}
    for step in firsts.values():
        for field in step.data:
            for bad in (None, "x", [], {}, -(10**18), 10**18, [[0, 10**18]], [None]):
                steps = list(trace.steps)
                steps[step.number] = replace(step, data={**step.data, field: bad})
                changed = replace(trace, steps=steps)
                with contextlib.suppress(TraceError):
                    stage_of(changed, frames.clock)
