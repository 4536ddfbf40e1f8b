"""The capstone of the notebooks on offsets: a broken cluster is diagnosed from its offsets topic and its lag alone.

The notebook makes the cluster by `broken_cluster(seed, backend="kafka")`. The check plays the same seed in memory,
lets the signs and the rules of lag diagnose that, and holds the learner's answer against it: what is wrong
with the answer is told by what the named partition does not show.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kitlib.errors import KnobError
from kitlib.exercises.frame import Exercise, NotYet, one_of, told, whole_number
from kitlib.experiments.cluster_audit.broken_cluster import (
    FAULTS,
    PARTITIONS,
    BrokenCluster,
    Diagnosis,
    broken_cluster,
    diagnose,
    judge,
    signs_of,
)

ANSWER = ("seed", "partition", "fault")


def check_broken_cluster(answer: Any) -> str:
    """Partition and fault of the cluster of a seed."""
    if not isinstance(answer, Mapping) or set(answer) != set(ANSWER):
        raise NotYet(f"the answer should be a dict of {', '.join(ANSWER)}, this is {told(answer)}.", "")
    try:
        cluster = broken_cluster(whole_number(answer["seed"], "the seed"))
    except KnobError as error:
        raise NotYet(str(error), "") from error
    partition, fault = whole_number(answer["partition"], "the partition"), one_of(answer["fault"], FAULTS, "the fault")
    if partition not in range(PARTITIONS):
        raise NotYet(f"there is no partition {partition}, they are 0 to {PARTITIONS - 1}.", "")
    (truth,) = diagnose(cluster)
    if partition != truth.partition:
        raise NotYet(f"partition {partition} is well: {innocence(cluster, partition)}.", "Look at the other partitions.")
    if fault != truth.fault:
        raise NotYet(f"partition {partition} is the broken one, but {against(fault, cluster, truth)}.")
    return f"{FAULTS[fault]}. Partition {partition}: {evidence(cluster, truth)}."


def innocence(cluster: BrokenCluster, partition: int) -> str:
    """What a partition without a fault shows."""
    back, _ = signs_of(cluster, partition)
    if back:
        step = back[0]
        return (
            f"its one step back, from {step.before.offset} to {step.after.offset}, is a late commit, which the next one made good, "
            "and its lag is 0 in the end"
        )
    return "its commits only rise, and its lag is 0 in the end"


def against(fault: str, cluster: BrokenCluster, truth: Diagnosis) -> str:
    """What a partition would show with the fault that was named, and does not."""
    back, _ = signs_of(cluster, truth.partition)
    offsets = [each.offset for each in cluster.commits(truth.partition)]
    match fault:
        case "vanished":
            return "an offset that vanishes leaves a tombstone, and there is none among its records"
        case "rewound" | "reset by hand" if None in offsets:
            return "there is a tombstone before its offsets go on: nobody has set them to something else"
        case "rewound" | "reset by hand" if not back:
            return "its committed offset never goes back"
        case "rewound" | "reset by hand":
            return f"look how many members the group had when the offset went back: {back[0].after.members}"
        case "stopped":
            return "somebody still commits it in the end"
        case "stalled":
            return "the commits of its window are not all of one offset"
        case _:
            return "its commits do not rise to the end while its lag grows from look to look"


def evidence(cluster: BrokenCluster, truth: Diagnosis) -> str:
    """What the right answer rests on, in numbers that are the same in memory and on a broker."""
    partition, window = truth.partition, cluster.window(truth.partition)
    lag = window.current_lag
    match truth.fault:
        case "vanished":
            _, (sign, *_) = signs_of(cluster, partition)
            again = sign.begun_again.offset if sign.begun_again else None
            return f"the committed offset {sign.last.offset} was taken away, and the next commit is {again}"
        case "rewound" | "reset by hand":
            return truth.why
        case "stopped":
            return f"its last commit is of offset {window.commit(-1).offset}, and {lag} records have come since"
        case "stalled":
            count = sum(each is not None for each in window.commits)
            return f"{count} commits in a row are of offset {window.commit(-1).offset}, with a lag of {lag} in the end"
        case _:
            return judge(cluster, partition).why


CAPSTONE = Exercise(
    "broken_cluster",
    f"`cluster = broken_cluster(seed, backend=\"kafka\")` makes a group of {PARTITIONS} partitions one of which has a fault. Which "
    "partition, and which fault? Look at `cluster.offsets()` and `cluster.lag()`. The faults: "
    + "; ".join(f"`\"{name}\"` ({meaning})" for name, meaning in FAULTS.items())
    + '. Answer with `{"seed": seed, "partition": 0, "fault": "..."}`.',
    check_broken_cluster,
    (
        "Begin with the lag: in which partition does it not come back to 0? But a lost offset may leave no lag at all.",
        "Then the records of that partition alone, `cluster.offsets(partition)`: do they end, stand still, go back, or vanish?",
        "Who made the step back? With no members in the group nobody of it can have committed.",
    ),
)
