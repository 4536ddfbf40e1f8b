"""Experiments: knobs in, a trace out, on the model or on a real broker."""

from __future__ import annotations

from typing import Any

from kitlib.errors import KnobError
from kitlib.experiments.crash_stories import acker_crash, bolt_crash, spout_crash
from kitlib.experiments.experiment import Experiment
from kitlib.experiments.later_stories import failed_offset_deleted, start_position, uncommitted_cap
from kitlib.experiments.stories import (
    happy_path,
    out_of_range,
    poison_record,
    restart,
    retry_with_backoff,
    same_id_other_topic,
    several_tuples,
    small_max_offset_behind,
)
from kitlib.experiments.transactional_stories import transactional_word_count
from kitlib.experiments.tree_stories import false_completion, livelock, reliability_off, tuple_tree
from kitlib.experiments.word_stories import word_count
from kitlib.trace import Trace

ALL = (
    happy_path,
    small_max_offset_behind,
    poison_record,
    retry_with_backoff,
    out_of_range,
    failed_offset_deleted,
    restart,
    same_id_other_topic,
    several_tuples,
    uncommitted_cap,
    start_position,
    tuple_tree,
    false_completion,
    livelock,
    reliability_off,
    bolt_crash,
    acker_crash,
    spout_crash,
    word_count,
    transactional_word_count,
)
_BY_NAME = {experiment.name: experiment for experiment in ALL}


def names() -> list[str]:
    """The experiments there are, in the order of the lessons."""
    return list(_BY_NAME)


def get(name: str) -> Experiment:
    """The experiment with this name. KnobError when there is none."""
    if name not in _BY_NAME:
        raise KnobError(f"there is no experiment '{str(name)[:60]}'. The experiments are {', '.join(_BY_NAME)}.")
    return _BY_NAME[name]


def run(name: str, backend: str = "model", seed: int = 1, **knobs: Any) -> Trace:
    """Run an experiment by name; as Experiment.run."""
    return get(name).run(backend=backend, seed=seed, **knobs)
