"""The signs of a rewind in one run or one history, searched for together: what an operator would have seen, and when.

Some of them need more than commits: how many records were delivered, and where the log ended. A trace has all of it,
whether it comes from the model or from a real broker; the offsets topic of a cluster has only the commits.
Each sign by itself has an innocent twin (`kitlib.monitor.rewinds`). Two or three at the same time have none.

Left out: who is to blame. A reset by hand shows the signs of a fault, except that the group is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kitlib.errors import TraceError
from kitlib.monitor.commit_history import Committed, GroupSeen
from kitlib.monitor.rewinds import (
    LagSpike,
    Rewind,
    Sample,
    Surge,
    Vanished,
    lag_spikes,
    rewinds,
    surges,
    vanished,
)
from kitlib.trace import Step, Trace

Lane = tuple[str, int]  # (topic, partition)
NAMES = {
    "rewinds": "the committed offset goes back",
    "vanished": "the committed offset vanishes",
    "surges": "more records are delivered than arrived or were waiting",
    "lag_spikes": "the lag rises by more than the log grew",
}


@dataclass(frozen=True, slots=True)
class Signs:
    """All that was found in one partition of one group."""

    rewinds: tuple[Rewind, ...] = ()
    vanished: tuple[Vanished, ...] = ()
    surges: tuple[Surge, ...] = ()
    lag_spikes: tuple[LagSpike, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the signs that were seen, excused or not."""
        return tuple(name for name in NAMES if getattr(self, name))

    @property
    def is_fault(self) -> bool:
        """True when a commit went back or vanished and nothing excuses it."""
        return any(each.is_fault for each in self.rewinds) or any(each.is_fault for each in self.vanished)

    def __str__(self) -> str:
        told = [f"{NAMES[name]}: {each}" for name in self.kinds for each in getattr(self, name)]
        return "\n".join(told) or "no signs were found"


def find_signs(
    commits: Sequence[Committed],
    groups: Sequence[GroupSeen] = (),
    samples: Sequence[Sample] = (),
    rate_every_ms: int = 0,
) -> Signs:
    """The signs in one partition's commits, and in its samples, if there are any.

    Output and input are compared from one span of `rate_every_ms` to the next (0: from sample to sample): if samples
    are closer together than a backlog takes to drain, a repetition looks like the backlog.
    """
    return Signs(
        tuple(rewinds(commits)),
        tuple(vanished(commits, groups)),
        tuple(surges(last_of_each(samples, rate_every_ms))),
        tuple(lag_spikes(samples)),
    )


def last_of_each(samples: Sequence[Sample], every_ms: int) -> list[Sample]:
    """The last sample of each span of `every_ms`; all of them for 0."""
    return list({each.at_ms // every_ms if every_ms else number: each for number, each in enumerate(samples)}.values())


def signs_of(trace: Trace, topic: str | None = None, partition: int = 0, rate_every_ms: int | None = None) -> Signs:
    """The signs in one partition of a run; with `topic` None, of the first topic that a step names.

    `rate_every_ms` as `find_signs`; None: a minute of virtual time, a second of real. TraceError when the run has
    no such partition.
    """
    lane = lane_of(trace, topic, partition)
    if rate_every_ms is None:
        rate_every_ms = 1_000 if trace.backend == "kafka" else 60_000
    return find_signs(commits_in(trace, *lane), samples=samples_in(trace, *lane), rate_every_ms=rate_every_ms)


def lane_of(trace: Trace, topic: str | None = None, partition: int = 0) -> Lane:
    """The chosen partition. TraceError when no step of the run is about it."""
    for step in trace:
        name = step.data.get("topic")
        if name is not None and (topic or name) == name and step.data.get("partition", 0) == partition:
            return str(name), partition
    raise TraceError(f"trace {trace.run}: no step is about partition {partition} of {topic or 'any topic'}. Name another one.")


def commits_in(trace: Trace, topic: str, partition: int = 0) -> list[Committed]:
    """What the offsets topic recorded for one partition: commits, resets by hand, and tombstones.

    `order` is the step's number. An operator's reset counts as one of a group without members, unless the step says
    how many it had. A run that shows the offsets topic itself has tombstones as a `write` of null under this key.
    """
    return [each for step in trace for each in _committed(step, topic, partition)]


def _committed(step: Step, topic: str, partition: int) -> Iterator[Committed]:
    data = step.data
    if step.what == "write" and data.get("value", 0) is None and str(data.get("key", "")).endswith(f" {topic}-{partition}"):
        yield Committed(step.number, step.at_ms, None, members=_members(step))
    if data.get("topic") != topic or data.get("partition", 0) != partition:
        return
    if step.what == "commit" and data.get("written", True) and not data.get("error"):
        yield Committed(step.number, step.at_ms, data["offset"], by=step.actor, members=_members(step))
    elif step.actor == "operator" and step.what in ("alter", "forget") and not data.get("error"):
        offset = data["offset"] if step.what == "alter" else None
        members = data.get("members", _members(step) or 0)
        yield Committed(step.number, step.at_ms, offset, by=step.actor, members=members)


def _members(step: Step) -> int | None:
    group = step.state.get("group")
    members = group.get("members") if isinstance(group, dict) else None
    return len(members) if isinstance(members, list | tuple) else None


def samples_in(trace: Trace, topic: str, partition: int = 0) -> list[Sample]:
    """What a monitor would have seen that samples one partition whenever something happens to it; one sample per moment."""
    found: dict[int, Sample] = {}
    emitted, log_end = 0, 0
    committed: int | None = None
    for step in trace:
        ends = list(_committed(step, topic, partition))
        if ends:
            committed = ends[-1].offset
        if step.data.get("topic") == topic and step.data.get("partition", 0) == partition:
            emitted += step.what == "emit"
            log_end = int(step.state.get("log_end", log_end))
            committed = _answered(step, committed)
        elif not ends:
            continue
        found[step.at_ms] = Sample(step.at_ms, log_end, committed, emitted)
    return list(found.values())


def _answered(step: Step, committed: int | None) -> int | None:
    """The committed offset that the coordinator would report to a monitor after this step."""
    if step.what != "answer" or step.data.get("error"):
        return committed
    offset = step.data["offset"]
    return None if offset < 0 else int(offset)
