"""Settings: one name and one value for each, whoever asks: the run, its verdict, its picture, the files that a team gets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kitlib
from kitlib.errors import KnobError
from kitlib.experiments import run
from kitlib.monitor.reasons import Reasons, RecordHistory, ReplicaReasons
from kitlib.settings import Settings
from kitlib.views.plot import bearable
from tests.monitor.test_producing import sent, verdict_on, write


def test_setting_that_no_story_and_no_run_knows_is_refused() -> None:
    """A name that is in no list of settings is told of, and not kept in silence."""
    with pytest.raises(KnobError, match=r"this run has no setting 'max_in_fligth'\. Its knobs are records\."):
        Settings(records=3).max_in_fligth  # noqa: B018


def test_nobody_has_a_default_of_their_own() -> None:
    """Outside `kitlib/settings.py` no setting of a run is read with a default beside it."""
    own = re.compile(r"(run|self|story|trace)\.(settings|knobs)\.get\(\"")
    assert not [str(path) for path in Path(kitlib.__path__[0]).rglob("*.py") if own.search(path.read_text(encoding="utf-8"))]


def test_verdict_takes_what_the_run_took_where_a_story_has_no_such_knob() -> None:
    """Five requests at once to a broker that remembers three; a start that is forced; a reader that begins at the earliest."""
    between = [step for record in (1, 2, 3) for step in (sent(record, record), write(record, record, record))]
    twice = verdict_on(sent(0, 0), write(0, 0, 0), *between, write(0, 0, 4), remembered_batches=3).first("duplicated")
    assert twice.reason == "max_in_flight=5: that is more than the 3 batches that the broker remembers"
    assert Reasons(Settings()).reset("", is_outside=True).endswith("moves the spout to start_offset_time (force_from_start=True)")
    assert ReplicaReasons(Settings()).again(RecordHistory(2, False, False), 2, 2) == "auto.offset.reset=earliest: the log is read again"


def test_picture_draws_no_bound_where_a_bolt_of_the_trees_stands_between() -> None:
    """Only `livelock` has a single bolt; `false_completion` has one that splits, though no knob for how many."""
    assert bearable(run("livelock", duration_s=30)) is not None and bearable(run("false_completion", records=20)) is None
