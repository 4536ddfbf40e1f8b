"""The figure of a run in the player, the run it is compared with, and what is told of the difference."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.experiments import get, names
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from kitlib.views.browser.outcome import Outcome, changes, label
from kitlib.views.browser.session import Session
from kitlib.views.plot import curve, mapped
from tests.views.projector import Projector

SMALL = "small_max_offset_behind"


def outcome_of(name: str = SMALL, **knobs: Any) -> Outcome:
    experiment = get(name)
    trace = experiment.run(**knobs)
    return Outcome.of(trace, judge(trace), experiment)


def turn(session: Session, **knobs: Any) -> dict[str, Any]:
    """Turn knobs as the page does, and give back what it is told of the outcome."""
    return ask(session, do="run", seed="1", knobs=knobs)


def ask(session: Session, **question: Any) -> dict[str, Any]:
    session.answer({"number": session.told["number"] + 1, **question})
    assert session.told["error"] == ""
    outcome: dict[str, Any] = session.told["outcome"]
    return outcome


def ghosts(session: Session) -> list[str]:
    """The paths of grey curves of another run that the page was sent."""
    nodes = Projector(session.frames).all_nodes()
    return [attributes["d"] for _, attributes, *_ in nodes if attributes.get("data-ghost") == "curve"]


def test_a_turned_knob_is_told_as_before_and_after() -> None:
    """The counts that changed, and no others."""
    session = Session(SMALL)
    assert session.told["outcome"] == {"figure": "46 records lost.", "lead": "", "changes": ""}
    assert ghosts(session) == []
    told = turn(session, max_offset_behind="10")
    assert (told["figure"], told["lead"]) == ("2 records lost.", "Compared with max_offset_behind=5: ")
    assert told["changes"] == "46 lost → 2 lost, 9 reordered → 31 reordered, 2 stalled → 1 stalled, last record done after 696 ms → 911 ms."
    assert len(ghosts(session)) == 4, "the plot's three and the figure's"


def test_a_figure_that_is_no_count_is_told_with_its_unit() -> None:
    """Seconds without an owner stand beside the duplicates."""
    told = turn(Session("rebalance_protocols"), protocol="cooperative")
    assert told["changes"] == "34 duplicated → 7 duplicated, without an owner: 5.2 s → 6.6 s, last record done after 2.9 s → 3.4 s."


def test_ghost_stays_while_one_knob_is_turned_and_follows_when_another_is() -> None:
    """What is compared is the run before the gesture, not the slider's last stop."""
    session = Session(SMALL)
    for behind in ("10", "15", "20"):
        assert turn(session, max_offset_behind=behind)["lead"] == "Compared with max_offset_behind=5: "
    assert turn(session, max_offset_behind="20", outage_ms="100")["lead"] == "Compared with outage_ms=600: "
    assert (turn(session, max_offset_behind="20")["lead"], ghosts(session)) == ("", []), "it is the run that it would be compared with"


def test_a_fork_is_compared_with_the_run_that_was_forked() -> None:
    """The fork alone changes nothing; the knob that is turned after it does."""
    session = Session(SMALL)
    assert ask(session, do="fork", at=40)["changes"] == "no difference."
    assert turn(session, max_offset_behind="100")["changes"].startswith("46 lost → 0 lost")
    assert ask(session, do="start over")["lead"].startswith("Compared with the fork at step 40, max_offset_behind=100")


def test_many_settings_are_named_in_short() -> None:
    """Three of them, and how many more; an unlimited one is called so."""
    before = outcome_of("happy_path")
    now = outcome_of("happy_path", max_offset_behind=7, records=50, process_ms=10, commit_every_ms=20, fetch_records=11)
    assert label(before, now) == "records=40, fetch_records=10, process_ms=40, 2 more"
    assert label(outcome_of("happy_path"), outcome_of("happy_path", max_offset_behind=7)) == "max_offset_behind=unlimited"


def test_runs_that_differ_in_nothing_that_counts_have_no_changes() -> None:
    """Another cut of the trace alone is none."""
    assert changes(outcome_of(), outcome_of(max_steps=1_999)) == []


@pytest.mark.parametrize("name", names())
def test_each_player_tells_its_figure_and_draws_how_it_builds_up(name: str) -> None:
    """The number is told, or what went wrong where it is 0; its curve is one of the plot's, unless it is flat or another one already."""
    session = Session(name)
    experiment, told = get(name), session.told["outcome"]["figure"]
    assert experiment.figure
    measured = experiment.figure.measure(session.trace, session.verdict)
    worst = next((f"{count} {kind}" for kind, count in session.verdict.counts.items() if count), "")
    expected = worst if worst and not measured.value else measured.sentence
    assert told.lower().endswith(f"{expected.lower()}.")
    now = session.comparison.now
    assert now and (any(found.values == measured.curve for found in now.curves) or not (experiment.figure.is_drawn and any(measured.curve)))
    titles = [reel["title"] for reel in Projector(session.frames).reels]
    assert not now.curves or titles[-1] == f"{', '.join(found.name for found in now.curves)} over the run"


def test_answers_that_were_lost_are_counted_before_the_copies_that_they_left() -> None:
    """And the comparison says what a setting is for: how much sooner the last record is done."""
    session = Session("answers_lost", knobs={"idempotence": False})
    assert session.told["outcome"]["figure"] == "5 answers lost, 5 sent again, 30 copies too many in the log."
    told = turn(session, max_in_flight="1", idempotence=False)
    assert told["changes"] == "5 → 1 answer lost, 5 → 1 sent again, last record done after 309 ms → 494 ms."


def test_a_recorded_trace_of_no_experiment_has_no_figure() -> None:
    """It is played as ever, and nothing is said of a figure."""
    trace = get(SMALL).run()
    session = Session(Trace("mine", "of-mine", steps=trace.steps))
    assert session.told["outcome"] == {"figure": "", "lead": "", "changes": ""}


def test_times_of_another_run_lie_at_the_same_times() -> None:
    """Between two steps in proportion, before the first at its place, and what comes later lies right of the axis."""
    assert mapped([0, 5, 10, 15, 20, 21], [0, 10, 20], [10, 50, 60], 60) == [10, 30, 50, 55, 60, 61]
    assert mapped([0, 7], [5, 5, 10], [10, 20, 70], 70) == [10, 40]


def test_curve_of_a_plot_leaves_room_for_a_higher_one() -> None:
    """The scale covers both; what lies right of the axis is left out, and a run that ends earlier ends there."""
    assert curve([0, 5], [150, 200], 10) == "M150 30H200V15H200"
    assert curve([0, 5], [150, 200]) == "M150 30H200V0H200"
    assert curve([4, 8], [150, 741]) == "M150 15H740"
