"""Two ways to go faster that are asked for most: more partitions, and more consumers."""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.experiment import experiment
from kitlib.experiments.groups.group_knobs import ClientLibrary, Strategy, settings_of, told, work_wave
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.experiments.groups.partition_run import PartitionRun
from kitlib.experiments.knobs import Knob


@experiment("More partitions, different partitions", PartitionRun)
def partitions_added(
    run: PartitionRun,
    partitions: Annotated[int, Knob("How many partitions the topic has at first.", "partitions", 1, 24)] = 6,
    partitions_after: Annotated[int, Knob("How many it has afterwards; never fewer.", "partitions", 1, 48)] = 12,
    orders: Annotated[int, Knob("Number of orders; each order's key is its number.", "orders", 1, 500)] = 60,
    updates: Annotated[int, Knob("How often each order is changed before it is cancelled.", "updates", 0, 10)] = 0,
    backlog: Annotated[bool, Knob("Whether nothing had been read yet when the partitions were added (because of the lag).")] = True,
    sink: Annotated[
        Literal["as told", "by offset"],
        Knob("What the sink does: apply every record, or treat the offset as a version and refuse lower ones."),
    ] = "as told",
) -> None:
    """Orders are created, the topic gets more partitions, and the orders are cancelled. Which cancellations arrive
    before their creation?
    """
    if partitions_after < partitions:
        run.knobs["partitions_after"] = partitions  # a broker never takes one away
    run.send("create")
    for _ in range(updates):
        run.send("update")
    if not backlog:
        run.work()
    run.grow()
    run.send("cancel")
    run.work()
    run.tell_result()


@experiment("More consumers than partitions", GroupRun)
@told
def more_consumers(
    run: GroupRun,
    partitions: Annotated[int, Knob("How many partitions the topic has.", "partitions", 1, 24)] = 6,
    consumers: Annotated[int, Knob("Final number of consumers.", "consumers", 1, 12)] = 10,
    at_a_time: Annotated[int, Knob("How many of them join at once.", "consumers", 1, 12)] = 1,
    wave: Annotated[int, Knob("Records that each partition receives after each join.", "records", 1, 20)] = 1,
    strategy: Strategy = "range",
    library: ClientLibrary = "java",
) -> None:
    """Consumers join one after another. From which one on does the group get no faster?"""
    run.create(partitions)
    names: list[str] = []
    while len(names) < consumers:
        for _ in range(min(at_a_time, consumers - len(names))):
            names.append(f"C{len(names) + 1}")
            run.join(names[-1], settings_of(run))
        run.settle(names)
        held = {name: len(run.seats[name].held) for name in names}
        work_wave(run, [name for name in names if held[name]], wave, is_committed=True)
        most = max(held.values())
        run.note(
            "group", "share", consumers=len(names), at_work=sum(map(bool, held.values())),
            idle=sum(not count for count in held.values()), most_partitions=most,
            speed=round(partitions / most, 2),
        )  # fmt: skip
