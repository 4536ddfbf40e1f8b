"""The experiments on what lag tells and what it does not: it is the log's end less a number that somebody committed.

It does not say whether the work is done, whether anybody reads on, or whether the records are still there.

The monitor is Burrow's (`kitlib.mechanisms.lag`). Its windows are had without a cluster as well: told as a story, or seen after
each commit of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from kitlib.errors import KnobError
from kitlib.experiments.experiment import experiment
from kitlib.experiments.groups.group_knobs import ClientLibrary, SessionMs, evicted, settings_of
from kitlib.experiments.groups.group_run import SETTLE_MS, GroupRun
from kitlib.experiments.knobs import Knob
from kitlib.experiments.offsets.reset_stories import read_on, settings_under
from kitlib.experiments.offsets.signs import commits_in, lane_of, samples_in
from kitlib.mechanisms.lag import Commit, PartitionStatus, Window, evaluate
from kitlib.monitor.figures import HIDDEN_LAG, LAG, LOST
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


def _idle(run: GroupRun, name: str) -> None:
    """Nothing more is asked for; a library that commits in its polls does so."""
    run.pass_ms(100)
    run.poll(name, 0)


@experiment("The lag is 0, and nothing is done", GroupRun, figure=LOST, front=("rule", "records", "done"))
def lag_is_zero(
    run: GroupRun,
    rule: Annotated[
        Literal["handed to a pool", "committed after the work"],
        Knob("Who commits what: the library everything that poll returned, or A only what is done."),
    ] = "handed to a pool",
    records: Annotated[int, Knob("How many records A receives.", "records", 1, 500)] = 200,
    done: Annotated[int, Knob("How many of them the pool has finished.", "records", 0, 500)] = 40,
    library: ClientLibrary = "librdkafka",
    session_ms: SessionMs = 1_500,
) -> None:
    """A has handed all records to a pool of workers. The lag is 0. A is killed: what is left for B to do?"""
    is_pool = rule == "handed to a pool"
    done = min(done, records)
    settings = settings_of(run, auto_commit=is_pool, auto_commit_interval_ms=200, max_poll_interval_ms=60_000)
    run.create(1, records)
    run.start(settings, "A")
    handed = run.take("A", records)
    run.work("A", handed[:done])
    run.tell_lag("everything is fetched")
    if is_pool:
        run.until(lambda: run.committed[0] == run.ends[0], "the commit in the background", lambda: _idle(run, "A"))
    else:
        run.commit_done("A")
    run.tell_lag("after the commit")
    run.kill("A")
    run.join("B", replace(settings, auto_commit=False))
    evicted(run, "A", ["B"])
    read_on(run, "B")
    run.tell_lag("B has taken over")


@dataclass(slots=True)
class _Monitor:
    """Burrow's window of the run's group; it reads log ends when it is told to look."""

    run: GroupRun
    storage: LagStorage = field(default_factory=LagStorage)
    commits: int = 0

    def look(self) -> None:
        """It reads where the log ends."""
        self.storage.add_log_end(self.run.topic, 0, self.run.ends[0])

    def saw_commit(self, offset: int) -> None:
        """A commit has come by; its lag is what the log end was when it came."""
        self.look()
        self.commits += 1
        now_ms = self.run.group.now_ms
        self.storage.add_commit("group", self.run.topic, 0, Commit(offset, now_ms, order=self.commits), now_ms)

    @property
    def window(self) -> Window:
        """Its window of the partition now; it has seen a commit."""
        return (self.storage.windows("group", self.run.group.now_ms) or {})[self.run.topic, 0]

    def tell(self, when: str) -> None:
        """Write down what it shows."""
        window, judged = self.window, evaluate(self.window)
        told = {"status": judged.status.name, "why": str(judged), "stored_lag": window.commit(-1).lag, "lag": window.current_lag}
        self.run.record_lane("monitor", "judge", 0, **told, when=when)


@experiment("The lag was flat, and then it jumped", GroupRun, figure=HIDDEN_LAG, front=("commits", "every_ms", "produced"))
def flat_lag(
    run: GroupRun,
    commits: Annotated[int, Knob("How many times A commits.", "commits", 2, 50)] = 6,
    every_ms: Annotated[int, Knob("Time between commits.", "ms", 10, 60_000)] = 300,
    produced: Annotated[int, Knob("How many records arrive after A is gone.", "records", 1, 55_000)] = 5_000,
    library: ClientLibrary = "librdkafka",
    session_ms: SessionMs = 1_500,
) -> None:
    """A commits and is killed, and thousands of records arrive. A monitor keeps the lag at each commit. What does it
    show, and when?
    """
    settings, monitor = settings_of(run, max_poll_interval_ms=60_000), _Monitor(run)
    run.create(1, 1)
    run.start(settings, "A")
    for number in range(commits):
        if number % 2 == 0:
            run.append(0, 2)
        run.work("A", run.take("A", 1))
        run.commit_done("A")
        monitor.saw_commit(run.committed[0] or 0)
        run.pass_ms(every_ms)
    monitor.tell("A works")
    run.kill("A")
    run.append(0, produced)
    monitor.look()
    monitor.tell("A is gone, records arrive")

    def goes_by() -> None:
        run.pass_ms(100)
        monitor.look()

    most_ms = 2 * commits * every_ms + SETTLE_MS
    run.until(lambda: evaluate(monitor.window).status.name != "OK", "the monitor's alarm", goes_by, most_ms)
    monitor.tell("nobody commits")
    run.join("B", settings)
    evicted(run, "A", ["B"])
    run.work("B", run.take("B", min(10, run.ends[0] - (run.committed[0] or 0))))
    run.commit_done("B")
    monitor.saw_commit(run.committed[0] or 0)
    monitor.tell("B has committed")


@experiment("A large lag, and nothing to read", GroupRun, figure=LAG, front=("commits", "policy", "deleted", "restarts"))
def stale_commit_lag(
    run: GroupRun,
    commits: Annotated[
        Literal["done work", "the position"],
        Knob("What is committed: finished work, or the position once the reset policy has moved it."),
    ] = "done work",
    policy: Annotated[
        Literal["earliest", "latest"],
        Knob("auto.offset.reset: where to start without a usable committed offset; only Java has by_duration."),
    ] = "latest",
    records: Annotated[int, Knob("How many records the group has processed.", "records", 1, 500)] = 100,
    deleted: Annotated[int, Knob("How many records arrive and are deleted.", "records", 1, 5_000)] = 400,
    restarts: Annotated[int, Knob("How many times it is then started.", "starts", 1, 10)] = 2,
    library: ClientLibrary = "librdkafka",
) -> None:
    """A group has committed, later records are deleted, and no new ones arrive. It is restarted again and again. Where does it read?"""
    run.create(1, records)
    run.start(settings_under(run, "earliest"), "A")
    run.work("A", run.take("A", records))
    run.commit_done("A")
    run.close("A")
    run.append(0, deleted)
    run.delete_before(0, run.ends[0])
    for number in range(1, restarts + 1):
        run.start(settings_under(run, policy), "B")
        position = run.members["B"].position[0]
        if commits == "the position":
            run.commit("B", {0: position})
        run.tell_lag(f"start {number}")
        run.close("B")
