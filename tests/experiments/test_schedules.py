"""All schedules of few faults: which there are, how many, and what a sentence makes of their rows."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments.grid import AND, FaultGrid
from kitlib.experiments.script import Intervention
from kitlib.mechanisms.partition_manager import PartitionManager
from kitlib.views import every_fault

QUIET: dict[str, Any] = {"lost_answers": 0, "records": 12}


@pytest.fixture(autouse=True)
def home(new_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workspace without rows."""
    monkeypatch.setenv("KIT_HOME", str(new_home))


def run_all(name: str, faults: int = 2, **given: Any) -> Any:
    return every_fault(name, faults, progress=lambda done, total: None, **given)


def test_schedules_are_all_choices_of_one_and_two_messages() -> None:
    """Each pair of messages once, one fault first, none of them twice in a schedule; the first script is the plain run."""
    grid = FaultGrid.of_faults("answers_lost", 2, "lose answer", **QUIET)
    messages = [script for script in grid.scripts[1:] if AND not in script]
    assert messages == [f"lose answer {number}" for number in range(len(messages))] and len(messages) > 2
    assert list(grid.scripts) == ["", *messages, *map(AND.join, combinations(messages, 2))]
    assert grid.counts == (len(messages), len(messages) * (len(messages) - 1) // 2)


@pytest.mark.parametrize(
    ("name", "verbs"),
    [
        ("answers_lost", {"lose request", "lose answer", "delay request", "delay answer", "double request", "break broker"}),
        ("two_sends", {"lose request", "lose answer", "delay request", "delay answer", "double request", "break broker"}),
        ("happy_path", {"lose record", "delay record", "double record", "fail record", "lose ack", "break spout"}),
        ("tuple_tree", {"lose tuple", "delay tuple", "double tuple", "fail tuple", "lose ack", "double ack", "break events-1"}),
        ("commit_and_abort", {"lose request", "lose answer", "delay request", "double request", "break broker", "freeze producer"}),
        ("rebalance", {"lose heartbeat", "lose commit", "freeze A"}),
        ("share_group", {"lose answer", "delay answer", "kill A", "freeze B"}),
    ],
)
def test_every_message_and_process_that_a_player_can_harm_is_listed(name: str, verbs: set[str]) -> None:
    """Of each domain all that its runs take, and each line can be read."""
    grid = FaultGrid.of_faults(name, 1, most=100_000)
    found = {" ".join(script.split()[:2]) for script in grid.scripts[1:]}
    assert verbs <= found
    assert all(str(Intervention.parse(script)) == script for script in grid.scripts[1:])


def test_more_schedules_than_asked_for_are_a_sample_that_is_always_the_same() -> None:
    """All with one fault, then pairs; how many there would be is told."""
    grid, again = (FaultGrid.of_faults("answers_lost", 2, "lose", most=60, lost_answers=0) for _ in range(2))
    single = grid.counts[0]
    assert grid.scripts == again.scripts and len(set(grid.scripts)) == 61 and sum(grid.counts) > 60
    assert [AND in script for script in grid.scripts[1:]] == [False] * single + [True] * (60 - single)
    sentence = run_all("answers_lost", only="lose", most=60, lost_answers=0).sentence
    assert f"60 schedules with at most two faults, a sample of the {sum(grid.counts):,} there are. " in sentence


def test_sentence_has_the_smallest_schedule_of_each_kind_and_what_none_does() -> None:
    """Judged by the counts of each run's verdict; a row is the run that it says."""
    found = run_all("answers_lost", only="lose answer", idempotence=False, **QUIET)
    doubled = found.rows[found.rows["duplicated"] > 0]
    begin = f"Of {len(found.rows)} schedules with at most two faults, {len(doubled)} duplicate a record; the smallest: "
    assert found.sentence.startswith(f"{begin}{doubled['script'].iloc[0]}. ")
    assert f"None of {len(found.rows)} loses a record, reorders records or stores a record that was reported as failed." in found.sentence
    assert found.rows["faults"].tolist() == [script.count(AND) + 1 for script in found.rows["script"]]
    clean = run_all("answers_lost", 1, only="lose answer", **QUIET)
    assert clean.sentence.startswith(f"{len(clean.rows)} schedules with one fault. None of {len(clean.rows)} loses a record, duplicates")


def test_no_two_lost_messages_break_what_an_idempotent_producer_promises() -> None:
    """What follows a lost request on its connection is lost with it, so the broker never meets a hole, not even before the first batch."""
    found, plain = (run_all("answers_lost", only="lose", lost_answers=0, idempotence=given) for given in (True, False))
    assert "None of 253 loses a record, duplicates a record, reorders records or stores a record that was " in found.sentence
    assert "duplicate a record; the smallest: lose answer 0. " in plain.sentence and "reorder records; the smallest: " in plain.sentence
    assert "never came about" in found.sentence and found.rows["error"].notna().sum() > 0


def test_chosen_schedule_opens_its_run_in_a_player() -> None:
    """At its first anomaly, with the knobs of the sweep and the lines of the row."""
    found = run_all("answers_lost", 1, only="lose answer", idempotence=False, **QUIET)
    label, script = found.list.options[0]
    assert label.startswith(f"{script}: ") and label.endswith(" duplicated")
    found.list.value = script
    player = found.player
    assert found.children[-1] is player and player.trace.script == [script] and player.trace.settings.records == 12
    assert player.step == player.verdict.first("duplicated").witness
    assert found._repr_mimebundle_()[0]["text/plain"] == found.sentence == repr(found)


def test_partition_manager_of_ones_own_is_swept_and_played() -> None:
    """A learner's class runs under every schedule and in the player; a refusal within the bound of 5 is no setting's fault."""

    class Forgets(PartitionManager):
        def fail(self, offset: int) -> bool:
            self.pending.discard(offset)
            return False

    given: dict[str, Any] = {"only": "fail", "records": 10, "outage_ms": 0, "fail_percent": 0}
    own, kits = run_all("small_max_offset_behind", 1, manager=Forgets, **given), run_all("small_max_offset_behind", 1, **given)
    assert (own.rows["lost"] > 0).all() and not (kits.rows["lost"] > 0).all()
    assert "No setting explains 5 of them; the smallest: fail record 5." in own.sentence
    assert own.open_run("fail record 3").verdict.counts["lost"] == 1


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("tombstones", {}, r"tombstones: no message or process of it can be harmed so\. Stories that take scripts: happy_path, "),
        ("connect_worker_lost", {}, r"can be harmed so\. It takes: break WORKER"),
        ("answers_lost", {"only": "freeze"}, r"can be harmed so\. It takes: lose request N"),
        ("answers_lost", {"faults": 4}, "faults is 4 and most is 2000, expected 1 to 3"),
        ("answers_lost", {"recrods": 4}, "no knob 'recrods'"),
    ],
)
def test_what_has_no_schedules_is_refused(name: str, given: dict[str, Any], told: str) -> None:
    """With what there is."""
    with pytest.raises(KnobError, match=told):
        run_all(name, **given)
