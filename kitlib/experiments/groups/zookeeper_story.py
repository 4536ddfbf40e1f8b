"""The experiment with a group of the old kind: what one change costs on ZooKeeper, and who reads a partition twice."""

from __future__ import annotations

from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.groups.zookeeper_run import ZooKeeperRun
from kitlib.experiments.knobs import Knob
from kitlib.kafka.groups.zookeeper import REBALANCE_BACKOFF_MS, REBALANCE_MAX_RETRIES, SESSION_TIMEOUT_MS

MEMBERS = Knob(
    "members", "int", 2, "How many consumers the group has before anything happens.", "members", 1, 12, live=False
)
PARTITIONS = Knob("partitions", "int", 4, "How many partitions the topic has.", "partitions", 1, 24, live=False)
RECORDS = Knob("records", "int", 25, "How many records each partition holds.", "records", 1, 200, live=False)
HAPPENS = Knob(
    "happens",
    "choice",
    "a member stalls",
    "What happens to the group: one joins, one joins while another hears of it late, or one stands still.",
    choices=("a member joins", "a member hears late", "a member stalls"),
    live=False,
)
AWAY_MS = Knob("away_ms", "int", 8_000, "How long a member stands still, or how much later it hears.", "ms", 0, 60_000)
OWNER_NODES = Knob(
    "owner_nodes",
    "bool",
    True,
    "Whether members claim partitions with nodes before they read; the real ones do.",
    live=False,
)
SESSION_MS = Knob(
    "zookeeper_session_timeout_ms", "int", SESSION_TIMEOUT_MS, "How long ZooKeeper waits for a silent member.", "ms",
    500, 60_000,
)  # fmt: skip
RETRIES = Knob("rebalance_max_retries", "int", REBALANCE_MAX_RETRIES, "How often a member tries to take its share.", "tries",
               1, 20)  # fmt: skip
BACKOFF_MS = Knob(
    "rebalance_backoff_ms", "int", REBALANCE_BACKOFF_MS, "How long it waits in between.", "ms", 10, 60_000
)
COMMIT_MS = Knob("auto_commit_interval_ms", "int", 1_000, "How often a member commits.", "ms", 50, 60_000)
PROCESS_MS = Knob("process_ms", "int", 100, "How long a member works on a record.", "ms", 5, 5_000)

SETTLE_MS = 120_000  # virtual
MODEL_ONLY = "Kafka has no ZooKeeper any more, and its clients left it with 0.9"


def _zookeeper_group(run: ZooKeeperRun) -> None:
    """The first members settle and read a while; then it happens; then all is read to the end, or nobody reads any more."""
    run.create()
    names = [f"{chr(ord('A') + number)}" for number in range(run.knobs["members"] + 1)]
    for name in names[:-1]:
        run.join(name)
        run.run_for(SETTLE_MS, until=run.is_settled)
    run.run_for(5 * run.knobs["process_ms"])
    happens, first = run.knobs["happens"], names[0]
    run.count_from_here()
    if happens == "a member stalls":
        run.freeze(first)
        run.run_for(run.knobs["away_ms"])
        run.thaw(first)
    else:
        if happens == "a member hears late":
            run.members[names[-2]].late_ms = run.knobs["away_ms"]
        run.join(names[-1])
    run.run_for(SETTLE_MS, until=run.is_settled)
    run.tell_traffic()
    run.run_for(SETTLE_MS, until=run.all_done)


zookeeper_group = Experiment(
    "zookeeper_group",
    "A group without a coordinator",
    "Every member watches ZooKeeper and works out for itself what it reads. Who makes sure that no two read the same?",
    (
        MEMBERS,
        PARTITIONS,
        RECORDS,
        HAPPENS,
        AWAY_MS,
        OWNER_NODES,
        SESSION_MS,
        RETRIES,
        BACKOFF_MS,
        COMMIT_MS,
        PROCESS_MS,
        MAX_STEPS,
    ),
    _zookeeper_group,
    kind=ZooKeeperRun,
    model_only=MODEL_ONLY,
)
