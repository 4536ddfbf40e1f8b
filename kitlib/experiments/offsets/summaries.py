"""What a run about offsets came to, in a few words for a cell of a table."""

from __future__ import annotations

from typing import Any

from kitlib.errors import TraceError
from kitlib.experiments.cluster_audit.commit_log import read_commit_log
from kitlib.experiments.lag.lag_stories import judged_commits
from kitlib.experiments.offsets.health import alarms
from kitlib.experiments.offsets.incident_stories import DAY_MS, health_in
from kitlib.experiments.offsets.signs import Signs, find_signs, lane_of, samples_in, signs_of
from kitlib.lab.clients import Cluster
from kitlib.monitor.commit_history import GroupPartition
from kitlib.monitor.delivery import judge
from kitlib.trace import Step, Trace


def reset_ending(trace: Trace) -> str:
    """A run of `reset_policy`: "stops", "goes on", or how many records were lost or duplicated."""
    if any(step.what == "refused" for step in trace):
        return "stops"
    counts = judge(trace).counts
    return ", ".join(f"{counts[kind]} {kind}" for kind in ("lost", "duplicated") if counts[kind]) or "goes on"


def where_it_resumed(trace: Trace) -> str:
    """A run of `truncated_commit`: where the restarted consumer begins, and what it works on twice or skips."""
    begin, counts = [step.data for step in trace if step.what == "start"][-1], judge(trace).counts
    return f"begins at {begin['offset']}: {counts['duplicated']} twice, {counts['skipped']} skipped"


def lost_and_refused(trace: Trace) -> str:
    """A run of `follower_cut`: how many records were lost, and how many the producer was refused."""
    refused = sum(step.data["count"] for step in trace if step.what == "refused")
    return f"{judge(trace).counts['lost']} lost, {refused} refused"


def left_in_log(trace: Trace) -> list[Any]:
    """The records that a compacted log holds at the end of the run, each [offset, number of its key, value]."""
    return list(trace.steps[-1].state["offsets"]["records"])


Row = dict[str, Any]
MAIL = "mail orders-0"  # the key of A's commits


def first_step(trace: Trace, what: str, why: str = "") -> Step:
    """The first step with this verb (and this `why`). TraceError when there is none."""
    for step in trace:
        if step.what == what and why in ("", step.data.get("why")):
            return step
    raise TraceError(f"trace {trace.run}: no step is a {' '.join(filter(None, (what, why)))}. Run it with other knobs.")


def ending(trace: Trace) -> Row:
    """What A was told last, and what became of the records."""
    told = [step.data["offset"] for step in trace if step.what == "answer"]
    counts = judge(trace).counts
    return {"told": told[-1], "lost": counts["lost"], "sent twice": counts["duplicated"]}


def records_at(step: Step) -> list[Row]:
    """The records of the offsets topic after a step."""
    shown = step.state["offsets"]
    return [{"offset": offset, "key": shown["keys"][key], "committed": value} for offset, key, value in shown["records"]]


def answers_in(trace: Trace) -> list[Row]:
    """What coordinators loaded and answered, and where A began."""
    words = ("load_failed", "load_end", "answer", "start")
    return [
        {"day": round(step.at_ms / DAY_MS, 3), "who": step.actor, "what": step.what, "told": _told(step)}
        for step in trace if step.what in words
    ]  # fmt: skip


def after_the_move(trace: Trace) -> list[Row]:
    """What happened to A's offset from the last move of the coordinator until it gave an offset, or said that there is none."""
    moved = [step for step in trace if step.what == "move"][-1]
    rows = []
    for step in trace.steps[moved.number :]:
        if step.data.get("key") == MAIL or step.what == "answer":
            loading = step.state["offsets"]["loading"]
            read = "" if loading is None else f"{loading[0]} of {loading[1]}"
            rows.append({"seconds": (step.at_ms - moved.at_ms) // 1000, "read": read, "what": step.what, "told": _told(step)})
        if step.what == "answer" and "error" not in step.data:
            break
    return rows


def _told(step: Step) -> str:
    data = step.data
    if step.what == "write":
        return f"{'a tombstone' if data['value'] is None else data['value']} at offset {data['offset']}"
    if step.what == "load_end":
        return f"{data['records']} records in {data['ms']} ms"
    if step.what == "load_failed":
        return f"at offset {data['at']}: {data['why']}"
    return str(data["why"] if step.what == "evict" else data.get("error", data.get("offset")))


def last_load(trace: Trace) -> Row:
    """How many records the last load read, and how long that took."""
    data = [step.data for step in trace if step.what == "load_end"][-1]
    return {"records read": data["records"], "load (s)": data["ms"] // 1000}


def log_start(trace: Trace) -> int:
    """Where the topic begins at the end of the run."""
    return [int(step.state["log_start"]) for step in trace if "log_start" in step.state][-1]


def who_saw(trace: Trace) -> Row:
    """The signs of the run, and every status that a lag monitor gave."""
    said = sorted({each.status.name for each in judged_commits(trace)})
    return {"signs": ", ".join(signs_of(trace).kinds), "Burrow says": ", ".join(said)} | ending(trace)


def rung(trace: Trace) -> list[Row]:
    """The alarms of the health figures, and how many days before the last move each rang; 0 with it or after it."""
    moved_ms = [step.at_ms for step in trace if step.what == "move"][-1]
    return [
        {
            "figure": each.threshold.name, "value": round(each.value, 2),
            "days before the move": round(max(0, moved_ms - each.at_ms) / DAY_MS, 1),
        }
        for each in alarms(health_in(trace))
    ]  # fmt: skip


def days_of(trace: Trace) -> list[Row]:
    """The last look of each day at the health of the offsets topic."""
    rows = {
        look.at_ms // DAY_MS: {
            "day": look.at_ms // DAY_MS, "dirty ratio": look.dirty_ratio, "records": look.records, "keys": look.keys,
            "in the cache": look.cached_offsets,
        }
        for look in health_in(trace)
    }  # fmt: skip
    return list(rows.values())


def signs_in_topic(cluster: Cluster, trace: Trace) -> Signs:
    """The signs in partition 0 of a run with a group on this cluster, read in the broker's own offsets topic.

    The commits, and who was a member then, come from `__consumer_offsets`; how much went out and where the log
    ended stands only in the trace.

    TraceError for a run of the model, or when the topic holds no commit of the run's group (any more);
    LabError when it cannot be read.
    """
    if trace.backend != "kafka":
        raise TraceError(f"trace {trace.run} is one of the {trace.backend}: no broker has its commits. Use signs_of.")
    group, (topic, partition) = f"kit.{trace.run}", lane_of(trace)
    log = read_commit_log(cluster, group)
    commits = log.history.commits.get(GroupPartition(group, topic, partition), [])
    if not commits:
        raise TraceError(f"trace {trace.run}: the offsets topic has no commit of group {group}. Run the experiment again.")
    return find_signs(commits, log.seen(group), samples_in(trace, topic, partition), rate_every_ms=1_000)
