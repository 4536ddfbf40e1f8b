"""The signs of a real run's rewind in the broker's own offsets topic, not in what the run wrote down of it.

The commits, and who was a member then, come from `__consumer_offsets`; how much went out and where the log
ended stands only in the trace.
"""

from __future__ import annotations

from kitlib.errors import TraceError
from kitlib.experiments.watching.commit_log import read_commit_log
from kitlib.lab.clients import Cluster
from kitlib.monitor.commit_history import GroupPartition
from kitlib.monitor.signs import Signs, find_signs, lane_of, samples_in
from kitlib.trace import Trace


def signs_in_topic(cluster: Cluster, trace: Trace, partition: int = 0) -> Signs:
    """The signs in one partition of a run with a group on this cluster.

    TraceError for a run of the model, or when the topic holds no commit of the run's group (any more);
    LabError when it cannot be read.
    """
    if trace.backend != "kafka":
        raise TraceError(f"trace {trace.run} is one of the {trace.backend}: no broker has its commits. Use kitlib.monitor.signs.signs_of.")
    group, (topic, _) = f"kit.{trace.run}", lane_of(trace, partition=partition)
    log = read_commit_log(cluster, group)
    commits = log.history.commits.get(GroupPartition(group, topic, partition), [])
    if not commits:
        raise TraceError(f"trace {trace.run}: the offsets topic has no commit of group {group}. Run the experiment again.")
    return find_signs(commits, log.seen(group), samples_in(trace, topic, partition), rate_every_ms=1_000)
