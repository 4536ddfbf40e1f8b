"""The player's switch to the real broker: a run in a thread, and whether the two agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kitlib.experiments import get
from kitlib.experiments.script import Script
from kitlib.monitor.delivery import judge
from kitlib.views import Player
from kitlib.views.browser.player import IDLE, agreement
from tests.conftest import wait_for

CRASH: dict[str, Any] = {"records": 5, "process_ms": 5, "max_spout_pending": 1, "crash_at_ms": 45, "records_while_down": 1}


@pytest.fixture
def player() -> Iterator[Player]:
    player = Player("restart", **CRASH)
    yield player
    player.close()


def ask(player: Player, **question: Any) -> None:
    player._on_question(player, question, [])


def wait(player: Player) -> dict[str, Any]:
    """Look as the kernel's loop does, until no run is waited for; what the page is told then."""

    def is_over() -> bool:
        player._look()
        return player._live is None

    assert wait_for(is_over, 120)
    told: dict[str, Any] = player.live
    return told


def test_only_what_can_run_on_a_broker_has_a_switch(player: Player) -> None:
    """An experiment for the model only, and a recorded trace, have none."""
    assert player.live == IDLE
    assert Player("streams_tasks").live is None
    assert Player(player.trace).live is None


@pytest.mark.kafka
def test_the_switch_runs_the_same_story_on_the_broker_and_both_agree(player: Player, broker: Any) -> None:
    """The broker's run is shown with the player's own knobs and both agree; a knob goes back to the model."""
    before = player.sentence
    ask(player, do="real")
    assert player.live["state"] == "running" and player.trace.backend == "model"
    told = wait(player)
    assert (told["state"], player.trace.backend, player.sentence) == ("agrees", "kafka", before)
    assert told["sentence"] == "Model and broker agree: 1 lost, 1 skipped."
    assert all(player.trace.settings[name] == value for name, value in CRASH.items())
    ask(player, do="fork", at=3, number=1)
    assert player.told["error"].endswith("this is the broker's run. Switch to the model to fork it.")
    ask(player, do="real")
    wait(player)
    player.values = {"records": 6}
    assert (player.trace.backend, player.live) == ("model", IDLE)


@pytest.mark.kafka
def test_cancelled_run_ends_at_its_next_step_and_leaves_nothing_open(player: Player, broker: Any) -> None:
    """Cancelled, a run of many records ends long before its story does, the model's run stays, and the broker takes the next run."""
    player.values = {"records": 400, "process_ms": 50}
    shown = player.trace
    ask(player, do="real")
    run = player._live
    assert run is not None
    assert wait_for(lambda: run.doing.startswith("The story runs"), 60)
    ask(player, do="cancel")
    run.thread.join(30)
    assert (run.thread.is_alive(), run.trace, run.error) == (False, None, "The run was cancelled.")
    player._look()
    assert player.trace is shown and player.live == IDLE
    player.values = CRASH
    ask(player, do="real")
    assert wait(player)["state"] == "agrees"


@pytest.mark.kafka
def test_player_opened_on_the_broker_has_the_switch_on_its_side(broker: Any) -> None:
    """It tells at once whether the model agrees; the switch goes to the model and back."""
    player = Player("restart", backend="kafka", **CRASH)
    assert (player.live["state"], player.trace.backend) == ("agrees", "kafka")
    ask(player, do="model")
    assert (player.live, player.trace.backend) == (IDLE, "model")
    ask(player, do="real")
    assert wait(player)["state"] == "agrees"
    player.close()


def test_without_a_broker_the_player_says_what_to_do(player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address where nobody listens is told as a sentence, and the model's run stays."""
    monkeypatch.setenv("KIT_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    ask(player, do="real")
    told = wait(player)
    assert told["state"] == "failed" and "127.0.0.1:1" in told["sentence"] and "Traceback" not in told["sentence"]
    assert player.trace.backend == "model"


def test_agreement_names_the_first_count_that_differs(player: Player) -> None:
    """Another verdict on the broker's side is told by its first count that is not the model's."""
    other = get("restart").run(**CRASH | {"crash_at_ms": 45, "stuck_offset": 2})
    model, broker = player.verdict.counts, judge(other).counts
    kind = next(kind for kind in model if model[kind] != broker[kind])
    told = agreement(other, get("restart"), Script.of(player.trace))
    sentence = f"Model and broker differ: {model[kind]} {kind} on the model, {broker[kind]} on the broker."
    assert (told["state"], told["sentence"]) == ("parts", sentence) and player.verdict.parts_from(player.verdict) == ""
