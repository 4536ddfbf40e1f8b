"""Pictures of a trace: static SVG for notebooks and reports, and a player to scrub through it.

from kitlib.views import Player, show
show(trace)                    # where every record is after the last step, as SVG
show(trace, at=40)             # the same after step 40
show(trace, 40, part="tree")   # a topology's tree of tuples, and the acker's number bit by bit
show(trace, part="lanes")      # of a producer's run: what crosses between it and the broker
show(trace, part="curves")     # throughput, queues and timeouts of a long run, over time
Player("happy_path", batch=5)  # sliders, play, scrub, fork
every_fault("answers_lost")    # all schedules of at most two faults, and those that break something
FailureMap(rows, "x", "y")     # how often an anomaly appears, knob by knob
predict("happy_path", "How many are lost?", truth="lost")   # asks before it shows the run
compare(trace, other)          # the first step at which two runs part, and both side by side
draw_window(window)            # a window of commits, and Burrow's rule that fired
lay_under(model, broker)       # the log that a broker really has under the model's, of one script on both
side_by_side(name, over="max_in_flight", values=(1, 5))  # a DataFrame: records a second, latency and copies of two settings
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kitlib.views.browser.compared import compare
    from kitlib.views.browser.every_fault import every_fault
    from kitlib.views.browser.failure_map import FailureMap
    from kitlib.views.browser.player import Player
    from kitlib.views.browser.prediction import predict
    from kitlib.views.picture import Picture, show
    from kitlib.views.pictures.lag_window import draw_window
    from kitlib.views.pictures.logs import lay_under, side_by_side

__all__ = [
    "FailureMap", "Picture", "Player", "compare", "draw_window", "every_fault",
    "lay_under", "predict", "show", "side_by_side",
]  # fmt: skip

_MODULES = {
    "compare": "browser.compared",
    "FailureMap": "browser.failure_map",
    "Picture": "picture",
    "Player": "browser.player",
    "draw_window": "pictures.lag_window",
    "every_fault": "browser.every_fault",
    "lay_under": "pictures.logs",
    "predict": "browser.prediction",
    "show": "picture",
    "side_by_side": "pictures.logs",
}


def __getattr__(name: str) -> Any:
    """Each is imported when it is first asked for: the pictures and the widget libraries take a while to load."""
    if name in _MODULES:
        return getattr(import_module(f"kitlib.views.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
