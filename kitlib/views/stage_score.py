"""From a trace to the score of its stage."""

from __future__ import annotations

from kitlib.trace import Trace
from kitlib.views.play_clock import PlayClock
from kitlib.views.stage import (
    Play,
    Setting,
    Stage,
)
from kitlib.views.stage_cast import cast
from kitlib.views.stage_crowds import gathered


def to_stage(trace: Trace, clock: PlayClock, setting: Setting, only: float | None = None) -> Stage:
    """The score of a run, or with `only` what travels at that time.

    KeyError, TypeError or ValueError when a step's data are not what its word promises.
    """
    stage = cast(trace, setting.parts(trace) if callable(setting.parts) else setting.parts)
    stage.frames = setting.frames
    play = Play(trace, clock, stage)
    for step, place in zip(trace.steps, clock.places, strict=True):
        play.now = place
        for deed in setting.rows.get(step.what, ()):
            deed(play, step)
        if setting.lines is not None:
            setting.lines(play, step)
    play.finish()
    travellers = stage.travellers if only is None else [each for each in stage.travellers if each.t0 <= only <= each.t2]
    stage.travellers = gathered(travellers)
    return stage
