"""Two ways to go faster that are asked for most: more partitions, and more consumers."""

from __future__ import annotations

from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.groups.group_knobs import LIBRARY, STRATEGY, settings_of, told, wave
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.experiments.groups.partition_run import PartitionRun
from kitlib.experiments.knobs import Knob


def _tell_partitions_added(run: PartitionRun) -> None:
    if run.knobs["partitions_after"] < run.knobs["partitions"]:
        run.knobs["partitions_after"] = run.knobs["partitions"]  # a broker never takes one away
    run.send("create")
    for _ in range(run.knobs["updates"]):
        run.send("update")
    if not run.knobs["backlog"]:
        run.work()
    run.grow()
    run.send("cancel")
    run.work()
    run.tell_result()


partitions_added = Experiment(
    "partitions_added",
    "More partitions, other partitions",
    "Orders are created, the topic gets more partitions, and the orders are cancelled. Which cancels come before their create?",
    (
        Knob("partitions", "int", 6, "How many partitions the topic has at first.", "partitions", 1, 24, live=False),
        Knob("partitions_after", "int", 12, "How many it has then; never fewer.", "partitions", 1, 48, live=False),
        Knob("orders", "int", 60, "How many orders there are; each one's key is its number.", "orders", 1, 500, live=False),
        Knob("updates", "int", 0, "How often each order is changed before it is cancelled.", "updates", 0, 10, live=False),
        Knob("backlog", "bool", True, "Whether nothing had been read yet when the partitions came: the lag was the reason.",
             live=False),
        Knob("sink", "choice", "as told", "What the sink does: as it is told, or the offset is a version, and a lower one is refused.",
             choices=("as told", "by offset"), live=False),
        MAX_STEPS,
    ),
    _tell_partitions_added,
    PartitionRun,
)  # fmt: skip


@told
def _tell_more_consumers(run: GroupRun) -> None:
    knobs = run.knobs
    run.create(knobs["partitions"])
    names: list[str] = []
    while len(names) < knobs["consumers"]:
        for _ in range(min(knobs["at_a_time"], knobs["consumers"] - len(names))):
            names.append(f"C{len(names) + 1}")
            run.join(names[-1], settings_of(run))
        run.settle(names)
        held = {name: len(run.seats[name].held) for name in names}
        wave(run, [name for name in names if held[name]], knobs["wave"], is_committed=True)
        most = max(held.values())
        run.note(
            "group", "share", consumers=len(names), at_work=sum(map(bool, held.values())),
            idle=sum(not count for count in held.values()), most_partitions=most,
            speed=round(knobs["partitions"] / most, 2),
        )  # fmt: skip


more_consumers = Experiment(
    "more_consumers",
    "More consumers than partitions",
    "Consumers join one after the other. From which one on does nothing get faster?",
    (
        Knob("partitions", "int", 6, "How many partitions the topic has.", "partitions", 1, 24, live=False),
        Knob("consumers", "int", 10, "How many consumers there are in the end.", "consumers", 1, 12, live=False),
        Knob("at_a_time", "int", 1, "How many of them join at a time.", "consumers", 1, 12, live=False),
        Knob("wave", "int", 1, "How many records each partition gets after each join.", "records", 1, 20, live=False),
        STRATEGY, LIBRARY, MAX_STEPS,
    ),
    _tell_more_consumers,
    GroupRun,
)  # fmt: skip
