"""The experiments on what lag tells and what it does not: it is the log's end less a number that somebody committed.

It does not say whether the work is done, whether anybody reads on, or whether the records are still there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.groups.group_knobs import ClientLibrary, SessionMs, evicted, settings_of
from kitlib.experiments.groups.group_run import SETTLE_MS, GroupRun
from kitlib.experiments.knobs import Knob
from kitlib.experiments.offsets.reset_stories import read_on, settings_under
from kitlib.mechanisms.lag import Commit, PartitionStatus
from kitlib.monitor.figures import HIDDEN_LAG, LAG, LOST
from kitlib.monitor.lag_window import LagStorage


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
    def status(self) -> str:
        """Burrow's word for the partition now."""
        judged = self.judged()
        return judged.status.name if judged else "OK"

    def judged(self) -> PartitionStatus | None:
        return self.storage.status("group", self.run.group.now_ms).partitions.get((self.run.topic, 0))

    def tell(self, when: str) -> None:
        """Write down what it shows."""
        window, judged = (self.storage.windows("group", self.run.group.now_ms) or {})[self.run.topic, 0], self.judged()
        stored_lag, why = window.commit(-1).lag, str(judged) if judged else ""
        self.run.record_lane("monitor", "judge", 0, status=self.status, why=why, stored_lag=stored_lag, lag=window.current_lag, when=when)


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
    run.until(lambda: monitor.status != "OK", "the monitor's alarm", goes_by, most_ms)
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
