"""The stage of Connect and of Streams, of one source task, and of a topic that partitions are added to."""

from __future__ import annotations

from kitlib.trace import Step, Trace
from kitlib.views.stage.deeds import (
    WHO,
    arrives,
    becomes,
    drops,
    hops,
    leaves,
    loses_all,
    many,
    partitions_of,
    place_of,
    record_ref,
    says,
    span_of,
)
from kitlib.views.stage.score import Part, Play, Setting


def _work(step: Step) -> str:
    names = [*step.data.get("connectors", ()), *(f"{name}-{number}" for name, number in step.data.get("tasks", ()))]
    return f"{len(names)} jobs" if len(names) > 2 else ", ".join(map(str, names))


def _systems(trace: Trace) -> list[str]:
    """What lies outside of Kafka: for each connector the system that it reads or writes."""
    return [f"{name} system" for step in trace.steps if step.what == "configure" for name in step.data["connectors"]]


def _runs(play: Play, step: Step) -> None:
    """A system is tied to the workers that run tasks of its connector, and shows how many tasks do."""
    if step.what == "configure":
        play.memory["asked"] = step.data["connectors"]
    workers = step.state.get("connect", {}).get("workers", {})
    tasks = {worker: [str(name) for name, _ in told["tasks"]] for worker, told in workers.items()}
    for worker, names in tasks.items():
        play.show(worker, f"{len(names)} tasks")
        play.tie(worker, *(f"{name} system" for name in names if name == SINK))
    for name, asked in play.memory.get("asked", {}).items():
        play.show(f"{name} system", f"{sum(names.count(name) for names in tasks.values())} of {asked} tasks run")
        if name != SINK:
            play.tie(f"{name} system", *(worker for worker, names in tasks.items() if name in names))


SINK = "sink"  # the stories' connector that writes; the others read
CONNECT = Setting(
    (
        Part(f"(?!{SINK} ).+ system", "store", 0.0, found=_systems),
        Part(f"{SINK} system", "store", 1.0, found=_systems),
        Part("group", "broker", 0.0, label=lambda name: "coordinator", is_below=True),
        Part(r"(?!run$|group$).+", "worker", 0.5, is_away=True),
    ),
    {
        "configure": (says("group", "connectors configured"),),
        "start": (becomes("back"), hops(WHO, "group", "question", "join")),
        "leave": (hops(WHO, "group", "question", "leave"), becomes("away")),
        "kill": (becomes("down"), drops(WHO, _work)),
        "evict": (says("group", "removes {member}", True),),
        "prepare": (says("group", "rebalance"),),
        "assigned": (hops("group", WHO, "work", _work),),
        "revoked": (hops(WHO, "group", "work", _work),),
        "delay": (says("group", lambda step: f"waits {step.data['delay_ms'] // 1000} s for its return", True),),
    },
    _runs,
    still="sync idle",
)


def _dealt(play: Play, step: Step) -> None:
    for name, tasks in step.data["active"].items():
        play.hop("group", str(name), "work", f"{len(tasks)} tasks")
        play.show(str(name), f"{len(tasks)} tasks")


STREAMS = Setting(
    (
        Part("group", "broker", 0.0, label=lambda name: "coordinator"),
        Part("changelog", "topic", 0.0, is_always=True, is_below=True),
        Part(r"(?!run$|group$).+", "worker", 0.75, is_away=True),
    ),
    {
        "start": (becomes("back"), hops(WHO, "group", "question", "join")),
        "kill": (becomes("down"), drops(WHO, "{tasks:len()} tasks")),
        "lose_thread": (drops(WHO, "{tasks:len()} tasks"), says(WHO, "{thread} has died", True)),
        "evict": CONNECT.rows["evict"],
        "prepare": CONNECT.rows["prepare"],
        "assigned": (_dealt,),
        "restoring": (
            leaves("changelog", WHO, "record", lambda step: (step.actor, step.data["task"]), "{behind:,}"), says(WHO, "restores {task}"),
        ),
        "running": (arrives(lambda step: (step.actor, step.data["task"])),),
        "standby": (hops("changelog", WHO, "record"),),
        "ask": (says(WHO, "{key}: [outcome=value?{value}|{outcome}]"),),
    },
    still="topology idle",
)

SOURCE = Setting(
    (
        Part("source", "store", 0.0, is_always=True),
        Part("task", "worker", 0.45, is_always=True),
        Part("topic", "topic", 1.0, is_always=True),
        Part("offsets", "store", 0.45, is_always=True, is_below=True, label=lambda name: "source offsets"),
    ),
    {
        "send": (hops("source", "task", "record", many), leaves("task", "topic", "request", "written", many)),
        "write": (
            arrives("written"),
            lambda play, step: play.show("topic", f"end {step.data['offset'] + step.data['last'] - step.data['first'] + 1}"),
        ),
        "flush": (hops("task", "offsets", "commit", "{offset}"), lambda play, step: play.show("offsets", f"{step.data['offset']}")),
        "crash": (becomes("down", "task"), loses_all("task"), says("task", "at {position:,}, stored {stored:,}", True)),
        "aborted": (says("topic", lambda step: f"{span_of(step)} never readable", True),),
        "begins": (becomes("back", "task"), hops("offsets", "task", "commit", "{position}")),
    },
)

PARTITIONS = Setting(
    (
        Part("producer", "producer", 0.0, is_always=True),
        Part(r".* \d+", "partition", 0.5, found=partitions_of),
        Part(r"worker \d+", "consumer", 1.0),
    ),
    {
        "partitions": (says("producer", "{count} partitions now"),),
        "append": (hops("producer", place_of, "record", many),),
        "process": (hops(place_of, WHO, "record", "{offset}", record_ref),),
    },
    still="commit result",
)
