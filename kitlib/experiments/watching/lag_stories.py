"""The experiments on what lag tells and what it does not: it is the log's end less a number that somebody committed.

It does not say whether the work is done, whether anybody reads on, or whether the records are still there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.groups.group_knobs import LIBRARY, SESSION_MS, evicted, settings_of, told, until
from kitlib.experiments.groups.group_run import SETTLE_MS, GroupRun
from kitlib.experiments.knobs import Knob
from kitlib.experiments.offsets.reset_stories import POLICY, read_on, settings_under
from kitlib.monitor.lag import Commit, PartitionStatus
from kitlib.monitor.lag_window import LagStorage

POOL, AFTER_WORK = "handed to a pool", "committed after the work"

# -- lag 0, and nothing is done -----------------------------------------------------------------------------


@told
def _tell_lag_is_zero(run: GroupRun) -> None:
    knobs, is_pool = run.knobs, run.knobs["rule"] == POOL
    done = min(knobs["done"], knobs["records"])
    settings = settings_of(run, auto_commit=is_pool, auto_commit_interval_ms=200, max_poll_interval_ms=60_000)
    run.create(1, knobs["records"])
    run.join("A", settings)
    run.settle()
    handed = run.take("A", knobs["records"])
    run.work("A", handed[:done])
    run.tell_lag("all is handed out")
    if is_pool:
        until(run, lambda: run.committed[0] == run.ends[0], "the commit in the background", lambda: _idle(run, "A"))
    else:
        run.commit_done("A")
    run.tell_lag("after the commit")
    run.kill("A")
    run.join("B", replace(settings, auto_commit=False))
    evicted(run, "A", ["B"])
    read_on(run, "B")
    run.tell_lag("B has taken over")


def _idle(run: GroupRun, name: str) -> None:
    """Nothing more is asked for; a library that commits in its polls does so."""
    run.pass_ms(100)
    run.poll(name, 0)


lag_is_zero = Experiment(
    "lag_is_zero",
    "The lag is 0, and nothing is done",
    "A has handed all records to a pool of workers. The lag is 0. A is killed: what does B find to do?",
    (
        Knob("rule", "choice", POOL, "Who commits what: the library all that was handed out, or A what is done.",
             choices=(POOL, AFTER_WORK), live=False),
        Knob("records", "int", 200, "How many records A is handed.", "records", 1, 500, live=False),
        Knob("done", "int", 40, "How many of them the pool has finished.", "records", 0, 500, live=False),
        replace(LIBRARY, default="librdkafka"),
        SESSION_MS,
        MAX_STEPS,
    ),
    _tell_lag_is_zero,
    kind=GroupRun,
)  # fmt: skip


# -- a lag that stands still, and jumps ---------------------------------------------------------------------


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
        """By which rule."""
        return self.storage.status("group", self.run.group.now_ms).partitions.get((self.run.topic, 0))

    def tell(self, when: str) -> None:
        """Write down what it shows."""
        window, judged = (self.storage.windows("group", self.run.group.now_ms) or {})[self.run.topic, 0], self.judged()
        stored_lag, why = window.commit(-1).lag, str(judged) if judged else ""
        self.run.note_lane("monitor", "judge", 0, status=self.status, why=why, stored_lag=stored_lag, lag=window.current_lag, when=when)


@told
def _tell_flat_lag(run: GroupRun) -> None:
    knobs, settings, monitor = run.knobs, settings_of(run, max_poll_interval_ms=60_000), _Monitor(run)
    run.create(1, 1)
    run.join("A", settings)
    run.settle()
    for number in range(knobs["commits"]):
        if number % 2 == 0:
            run.append(0, 2)
        run.work("A", run.take("A", 1))
        run.commit_done("A")
        monitor.saw_commit(run.committed[0] or 0)
        run.pass_ms(knobs["every_ms"])
    monitor.tell("A works")
    run.kill("A")
    run.append(0, knobs["produced"])
    monitor.look()
    monitor.tell("A is gone, records arrive")

    def goes_by() -> None:
        run.pass_ms(100)
        monitor.look()

    most_ms = 2 * knobs["commits"] * knobs["every_ms"] + SETTLE_MS
    until(run, lambda: monitor.status != "OK", "the monitor's alarm", goes_by, most_ms)
    monitor.tell("nobody commits")
    run.join("B", settings)
    evicted(run, "A", ["B"])
    run.work("B", run.take("B", min(10, run.ends[0] - (run.committed[0] or 0))))
    run.commit_done("B")
    monitor.saw_commit(run.committed[0] or 0)
    monitor.tell("B has committed")


flat_lag = Experiment(
    "flat_lag",
    "The lag was flat, and then it jumped",
    "A commits, is killed, and thousands of records arrive. A monitor keeps the lag of each commit. What does it show, and when?",
    (
        Knob("commits", "int", 6, "How many times A commits.", "commits", 2, 50, live=False),
        Knob("every_ms", "int", 300, "How often.", "ms", 10, 60_000, live=False),
        Knob("produced", "int", 5_000, "How many records arrive when A is gone.", "records", 1, 55_000, live=False),
        replace(LIBRARY, default="librdkafka"),
        SESSION_MS,
        MAX_STEPS,
    ),
    _tell_flat_lag,
    kind=GroupRun,
)  # fmt: skip


# -- a commit that is never replaced -------------------------------------------------------------------------


@told
def _tell_stale_commit_lag(run: GroupRun) -> None:
    knobs = run.knobs
    run.create(1, knobs["records"])
    run.join("A", settings_under(run, "earliest"))
    run.settle()
    run.work("A", run.take("A", knobs["records"]))
    run.commit_done("A")
    run.close("A")
    run.append(0, knobs["deleted"])
    run.delete_before(0, run.ends[0])
    for number in range(1, knobs["restarts"] + 1):
        run.join("B", settings_under(run, knobs["policy"]))
        run.settle()
        position = run.seats["B"].position[0]
        if knobs["commits"] == "the position":
            run.commit("B", {0: position})
        run.tell_lag(f"start {number}")
        run.close("B")


stale_commit_lag = Experiment(
    "stale_commit_lag",
    "A great lag, and nothing to read",
    "A group has committed, later records are deleted, and none arrive. It is started again and again. Where does it read?",
    (
        Knob("commits", "choice", "done work", "What is committed: work that is done, or the position, once the policy has moved it.",
             choices=("done work", "the position"), live=False),
        replace(POLICY, choices=("earliest", "latest")),
        Knob("records", "int", 100, "How many records the group has done.", "records", 1, 500, live=False),
        Knob("deleted", "int", 400, "How many records arrive and are deleted.", "records", 1, 5_000, live=False),
        Knob("restarts", "int", 2, "How often it is started then.", "starts", 1, 10, live=False),
        replace(LIBRARY, default="librdkafka"),
        MAX_STEPS,
    ),
    _tell_stale_commit_lag,
    kind=GroupRun,
)  # fmt: skip
