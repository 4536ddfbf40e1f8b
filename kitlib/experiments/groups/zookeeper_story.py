"""The experiment with a group of the old kind: what one change costs on ZooKeeper, and who reads a partition twice."""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.groups.zookeeper_run import ZooKeeperRun
from kitlib.experiments.knobs import Knob
from kitlib.kafka.groups.zookeeper import REBALANCE_BACKOFF_MS, REBALANCE_MAX_RETRIES, SESSION_TIMEOUT_MS

Members = Annotated[int, Knob("How many consumers the group has before anything happens.", "members", 1, 12)]
Partitions = Annotated[int, Knob("How many partitions the topic has.", "partitions", 1, 24)]
Records = Annotated[int, Knob("How many records each partition holds.", "records", 1, 200)]
Happens = Annotated[
    Literal["a member joins", "a member hears late", "a member stalls"],
    Knob("What happens to the group: a member joins, a member joins while another is notified late, or a member pauses."),
]
AwayMs = Annotated[int, Knob("How long a member pauses, or how late it is notified.", "ms", 0, 60_000, live=True)]
OwnerNodes = Annotated[bool, Knob("Whether members claim partitions with nodes before reading; real ones do.")]
SessionMs = Annotated[int, Knob("How long ZooKeeper waits for a silent member.", "ms", 500, 60_000, live=True)]
Retries = Annotated[int, Knob("How many times a member tries to claim its share.", "tries", 1, 20, live=True)]
BackoffMs = Annotated[int, Knob("How long it waits between tries.", "ms", 10, 60_000, live=True)]
CommitMs = Annotated[int, Knob("How often a member commits.", "ms", 50, 60_000, live=True)]
ProcessMs = Annotated[int, Knob("How long a member takes to process a record.", "ms", 5, 5_000, live=True)]

SETTLE_MS = 120_000  # virtual
MODEL_ONLY = "Kafka has no ZooKeeper any more, and its clients left it with 0.9"


@experiment("A group without a coordinator", ZooKeeperRun, model_only=MODEL_ONLY)
def zookeeper_group(
    run: ZooKeeperRun,
    members: Members = 2,
    partitions: Partitions = 4,
    records: Records = 25,
    happens: Happens = "a member stalls",
    away_ms: AwayMs = 8_000,
    owner_nodes: OwnerNodes = True,
    zookeeper_session_timeout_ms: SessionMs = SESSION_TIMEOUT_MS,
    rebalance_max_retries: Retries = REBALANCE_MAX_RETRIES,
    rebalance_backoff_ms: BackoffMs = REBALANCE_BACKOFF_MS,
    auto_commit_interval_ms: CommitMs = 1_000,
    process_ms: ProcessMs = 100,
) -> None:
    """Every member watches ZooKeeper and works out its own share. What ensures that no two of them read the same partition?"""
    # The first members settle and read a while; then it happens; then all is read to the end, or nobody reads any more.
    run.create()
    names = [f"{chr(ord('A') + number)}" for number in range(members + 1)]
    for name in names[:-1]:
        run.join(name)
        run.run_for(SETTLE_MS, until=run.is_settled)
    run.run_for(5 * run.knobs["process_ms"])
    first = names[0]
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
