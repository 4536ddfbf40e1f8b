"""Tells a small story to a monitor and asks it what it has seen: a window, made as Burrow's storage makes it.

A story is two rows of numbers: what the group committed, one after the other, and where the log ended at each
look. Commits are equally far apart, and so are looks; both rows begin at the same moment. When both happen at
once the log end is read first.

Source: Burrow v1.9.5, core/internal/storage/inmemory.go, through `LagStorage`.
Differs: nothing but the story.
"""

from __future__ import annotations

from collections.abc import Sequence

from kitlib.errors import KnobError
from kitlib.monitor.lag import Commit, Window
from kitlib.monitor.lag_window import LagStorage

BEGIN_MS = 1_000_000_000_000  # of every story
GROUP, TOPIC = "group", "orders"


def window_after(
    commits: Sequence[int | None],
    log_ends: Sequence[int],
    every_s: int = 60,
    silent_s: int = 0,
    ends_every_s: int | None = None,
    intervals: int = 10,
    min_distance_s: int = 0,
    allowed_lag: int = 0,
) -> Window:
    """The window `silent_s` seconds after the last of these commits and looks.

    Commits are `every_s` apart (None: this one is left out), looks at the log end `ends_every_s`, which is as much
    unless given. KnobError without a commit or a log end, for times < 1 s, and for silent_s < 0.
    """
    looks_s = every_s if ends_every_s is None else ends_every_s
    if every_s < 1 or looks_s < 1 or silent_s < 0:
        raise KnobError(f"every_s is {every_s}, ends_every_s {looks_s}, silent_s {silent_s}: give 1 s or more, of silence 0 s or more.")
    if not log_ends or all(each is None for each in commits):
        raise KnobError("a story needs a commit and a log end at least, or there is nothing to judge. Give one of each.")
    storage = LagStorage(intervals, min_distance_s)
    events = [(look * looks_s, 0, look) for look in range(len(log_ends))] + [(place * every_s, 1, place) for place in range(len(commits))]
    for at_s, is_commit, place in sorted(events):
        at_ms = BEGIN_MS + at_s * 1000
        offset = commits[place] if is_commit else None
        if not is_commit:
            storage.add_log_end(TOPIC, 0, log_ends[place])
        elif offset is not None:
            storage.add_commit(GROUP, TOPIC, 0, Commit(offset, at_ms, order=place), at_ms)
    now_ms = BEGIN_MS + (max(at_s for at_s, _, _ in events) + silent_s) * 1000
    windows = storage.windows(GROUP, now_ms, allowed_lag)
    if windows is None:
        raise KnobError(f"silent_s is {silent_s}: after more than {storage.expire_group_s} s a group is forgotten. Give less.")
    return windows[TOPIC, 0]
