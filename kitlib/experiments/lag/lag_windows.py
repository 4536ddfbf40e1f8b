"""Windows of lag without a cluster: told as a story, or seen after each commit of a run."""

from __future__ import annotations

from collections.abc import Sequence

from kitlib.errors import KnobError
from kitlib.experiments.offsets.signs import commits_in, lane_of, samples_in
from kitlib.mechanisms.lag import Commit, PartitionStatus, Window, evaluate
from kitlib.monitor.lag_window import LagStorage
from kitlib.trace import Trace

BEGIN_MS = 1_000_000_000_000  # of every history that is made up
GROUP, TOPIC = "group", "orders"


def window_after(
    commits: Sequence[int | None],
    log_ends: Sequence[int],
    every_s: int = 60,
    silent_s: int = 0,
    ends_every_s: int | None = None,
    min_distance_s: int = 0,
) -> Window:
    """The window that Burrow has `silent_s` seconds after the last of these commits and looks at the log end.

    Both rows begin at the same moment; when both happen at once the log end is read first.
    Commits are `every_s` apart (None: this one is left out), looks at the log end `ends_every_s`, which is as much
    unless given. KnobError without a commit or a log end, for times < 1 s, and for silent_s < 0.
    """
    looks_s = every_s if ends_every_s is None else ends_every_s
    if every_s < 1 or looks_s < 1 or silent_s < 0:
        raise KnobError(f"every_s is {every_s}, ends_every_s {looks_s}, silent_s {silent_s}: give 1 s or more, of silence 0 s or more.")
    if not log_ends or all(each is None for each in commits):
        raise KnobError("a story needs at least one commit and one log end, or there is nothing to judge. Give one of each.")
    storage = LagStorage(min_distance_s=min_distance_s)
    events = [(look * looks_s, 0, look) for look in range(len(log_ends))] + [(place * every_s, 1, place) for place in range(len(commits))]
    for at_s, is_commit, place in sorted(events):
        at_ms = BEGIN_MS + at_s * 1000
        offset = commits[place] if is_commit else None
        if not is_commit:
            storage.add_log_end(TOPIC, 0, log_ends[place])
        elif offset is not None:
            storage.add_commit(GROUP, TOPIC, 0, Commit(offset, at_ms, order=place), at_ms)
    now_ms = BEGIN_MS + (max(at_s for at_s, _, _ in events) + silent_s) * 1000
    windows = storage.windows(GROUP, now_ms)
    if windows is None:
        raise KnobError(f"silent_s is {silent_s}: a group is forgotten after more than {storage.expire_group_s} s. Give less.")
    return windows[TOPIC, 0]


def judged_commits(trace: Trace, partition: int = 0) -> list[PartitionStatus]:
    """Burrow's judgement right after each commit of a run's partition.

    It reads what Burrow reads: commits in their order, and the log's end at the time of each. A tombstone it
    passes over, so a commit that vanished is seen by it only in the next one.
    TraceError when the run has no such partition.
    """
    where = lane_of(trace, partition=partition)
    ends = {sample.at_ms: sample.log_end for sample in samples_in(trace, *where)}
    storage = LagStorage()
    judged = []
    for each in commits_in(trace, *where):
        if each.offset is None:
            continue
        storage.add_log_end(*where, ends[each.at_ms])
        storage.add_commit(GROUP, *where, Commit(each.offset, each.at_ms, order=each.order), each.at_ms)
        windows = storage.windows(GROUP, each.at_ms)
        if windows and where in windows:
            judged.append(evaluate(windows[where]))
    return judged
