"""The stage of a consumer group, of replicas, and of a share group; of Connect and of Streams; and of a topic that gets partitions.

In a share group the broker hands records to consumers, and each answers for what it has.
"""

from __future__ import annotations

from typing import Any

from kitlib.trace import Step, Trace
from kitlib.views.partition.reader import size_of
from kitlib.views.stage.deeds import (
    NO_MEMBERS,
    WHO,
    acts,
    appended,
    arrives,
    becomes,
    blinks,
    drops,
    effect,
    falls,
    hops,
    is_refused,
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


def _took(play: Play, step: Step) -> None:
    """A poll returns a record."""
    play.hop(place_of(step), step.actor, "record", f"{step.data['offset']}", record_ref(step))
    play.tie(place_of(step), step.actor)
    play.memory["position", place_of(step)] = step.data["offset"] + 1


def _committed(play: Play, step: Step) -> None:
    has_failed = is_refused(step)
    target = "coordinator" if play.has("coordinator") else "zookeeper"
    play.hop(step.actor, target, "fail" if has_failed else "commit", f"{step.data['offset']}", "", "refused" if has_failed else "arrived")
    if has_failed:
        play.say(step.actor, str(step.data["error"]), True)
    else:
        play.memory["committed", place_of(step)] = step.data["offset"]


def _owns(play: Play, step: Step) -> None:
    for topic, number, *owner in step.data.get("owners") or step.data.get("partitions") or ():
        play.tie(f"{topic} {number}", owner[0] if owner else step.actor)
    play.be(step.actor, "up")


def _gives_up(play: Play, step: Step) -> None:
    for topic, number, *_ in step.data["partitions"]:
        if (f"{topic} {number}", step.actor) in play.tied:
            play.tie(f"{topic} {number}")


def _member_dies(play: Play, step: Step) -> None:
    play.be(step.actor, "down")
    number = 0
    for partition, owner in play.tied:
        if owner == step.actor:
            position = play.memory.get(("position", partition))
            if position is not None:
                number += max(0, position - play.memory.get(("committed", partition), position))
    for _ in range(min(number, 12)):
        play.fall_from(step.actor, "")
    if number:
        play.say(step.actor, f"{number} processed, not committed", True)


def _unties(play: Play, step: Step) -> None:
    who = str(step.data.get("member", step.actor))
    for partition, owner in list(play.tied):
        if owner == who:
            play.tie(partition)


def _leaves(play: Play, step: Step) -> None:
    if not play.has(step.actor) or play.stage.actors[step.actor].at(play.now) != "down":
        play.be(step.actor, "away")
    _unties(play, step)


def _notified(play: Play, step: Step) -> None:
    for name in step.data["members"]:
        play.hop("zookeeper", str(name), "question")


GROUPS = Setting(
    (
        Part(r".* \d+", "partition", 0.0, found=partitions_of),
        Part(rf"(?!({NO_MEMBERS})$).+", "consumer", 0.6, is_away=True),
        Part("effects", "store", 1.0, found=lambda trace: [] if acts(trace, "table") else ["effects"]),
        Part("table", "store", 1.0),
        Part("operator", "person", 0.0, is_below=True),
        Part("coordinator|zookeeper", "broker", 0.6, is_below=True),
        Part("monitor", "person", 1.0, is_below=True),
    ),
    {
        "append": (lambda play, step: play.show(place_of(step), f"end {step.data['last'] + 1}"),),
        "start": (becomes("up"), hops("coordinator", WHO, "question", "{offset}"), lambda play, step: play.tie(place_of(step), step.actor)),
        "emit": (_took,),
        "process": (effect("effects"),),
        "commit": (_committed,),
        "join": (becomes("up"), hops(WHO, "coordinator", "question", "join"), hops(WHO, "zookeeper", "question", "join")),
        "assigned": (hops("coordinator", WHO, "ack"), _owns),
        "revoked": (_gives_up,),
        "lost": (_gives_up, says(WHO, "lost its partitions", True)),
        "leave": (hops(WHO, "coordinator", "question", "leave"), _leaves),
        "kill": (_member_dies,),
        "freeze": (becomes("frozen"),),
        "thaw": (becomes("back"),),
        "lose_message": (leaves("{member}", "coordinator", "question", "lost", "{message} {number}"), falls("lost")),
        "late": (says(WHO, "no poll for too long", True), hops(WHO, "coordinator", "question", "leave")),
        "cut_off": (becomes("cut off"),),
        "reconnect": (becomes("back"),),
        "error": (says(WHO, "[error?{error}|error]", True),),
        "alter": (hops("operator", "coordinator", "commit", "{offset}"), says("operator", "sets the offset to {offset}", True)),
        "forget": (says("operator", "deletes the offset", True), hops("operator", "coordinator", "fail")),
        "reset": (says(WHO, "reset: {from} → {to}", True),),
        "refuse": (says(WHO, "known: not repeated"),),
        "partitions": (says("coordinator", "{count} partitions"),),
        "throw": (says(WHO, "an exception", True),),
        "lag": (says("monitor", "[lag?lag {lag}|no lag to show]"),),
        "judge": (says("monitor", "{status}", True),),
        "delete": (says(place_of, "deleted up to {to}", True),),
        "prepare": (says("coordinator", "rebalance"),),
        "sync": (says("coordinator", "[generation {generation}]"),),
        "stable": (_owns,),
        "evict": (says("coordinator", "[why=leave?|removes {member}]", True), says("zookeeper", "removes {member}", True), _unties),
        "restarted": (blinks(WHO),),
        "notify": (_notified,),
        "heard": (says(WHO, "gives up all, reads anew"),),
        "expired": (says(WHO, "session expired", True),),
    },
    lambda play, step: _group_lines(play, step),
    still="store share rows empty known traffic refused",
)


def _group_lines(play: Play, step: Step) -> None:
    if step.what in ("assigned", "revoked", "lost", "stable", "evict", "start", "leave", "emit"):
        owned: dict[str, int] = {}
        for _, owner in play.tied:
            owned[owner] = owned.get(owner, 0) + 1
        for name, actor in play.stage.actors.items():
            if actor.kind == "consumer":
                play.show(name, f"owns {owned.get(name, 0)}")


def _leads(play: Play, step: Step) -> None:
    play.memory["leader"] = step.actor
    play.show(step.actor, f"leader, epoch {step.data['epoch']}")


def _leader(play: Play) -> str:
    return str(play.memory.get("leader", ""))


def _replica_lines(play: Play, step: Step) -> None:
    for number, replica in (step.state.get("replicas") or {}).items():
        name = f"broker {number}"
        role = "leader" if _leader(play) == name else "follower"
        end = replica.get("end") if isinstance(replica, dict) else None
        play.show(name, f"{role}, end {end}" if isinstance(end, int) else role)


REPLICATION = Setting(
    (
        Part("producer", "producer", 0.0, is_always=True),
        Part(r"broker \d+", "broker", 0.5),
        Part(rf"(?!({NO_MEMBERS}|producer)$).+", "consumer", 1.0),
        Part("controller", "person", 0.5, is_below=True),
        Part("coordinator|zookeeper|operator|monitor", "person", 1.0, is_below=True),
    ),
    {
        **GROUPS.rows,
        "append": (hops("producer", WHO, "record", many),),
        "start": (becomes("up"),),
        "emit": (lambda play, step: play.hop(_leader(play), step.actor, "record", f"{step.data['offset']}", record_ref(step)),),
        "process": (),
        "commit": (lambda play, step: play.hop(step.actor, _leader(play), "commit", f"{step.data['offset']}"),),
        "refused": (says("producer", "refused: {error}", True), drops("producer", "{count}")),
        "kill": (becomes("down"), loses_all()),
        "restart": (becomes("back"),),
        "pause": (becomes("frozen"),),
        "wake": (becomes("back"),),
        "flip": (says(WHO, "a bit flips on its disk", True),),
        "recover": (drops(WHO, "{gone()}"), says(WHO, "truncates a corrupt log", True)),
        "copy": (lambda play, step: play.hop(_leader(play), step.actor, "record", f"to {step.data['to']}"),),
        "truncate": (drops(WHO, "{gone()}"), says(WHO, "truncates its log", True)),
        "lead": (_leads, hops("controller", WHO, "ack", "lead")),
        "follow": (hops("controller", WHO, "question", "follow"),),
        "isr": (says("controller", "in sync: [in_sync?{in_sync:listed()}|none]"),),
        "elect": (says("controller", "[unclean?unclean: ]broker {leader} leads", True),),
        "none": (says("controller", "no leader", True),),
        "cut": (says("controller", lambda step: f"{step.data['from'] - step.data['to']} records are gone", True),),
        "diverged": (says(WHO, "its offset is gone", True),),
    },
    _replica_lines,
    still=f"{GROUPS.still} differs read",
)


def _delivery(step: Step) -> tuple[Any, ...]:
    return "delivery", step.actor, step.data["offset"]


def _lines(play: Play, step: Step) -> None:
    state = step.state
    if "committed_to" in state:
        play.show("log", f"end {state['log_end']}")
        play.show("broker", f"{size_of(state['pending'])} locked")


SHARE = Setting(
    (
        Part("log", "topic", 0.0, is_always=True, label=lambda name: "topic"),
        Part("broker", "broker", 0.3, is_always=True),
        Part("[A-Z]", "consumer", 0.66),
        Part("effects", "store", 1.0, is_always=True),
    ),
    {
        "append": (says("log", appended),),
        "acquire": (
            hops("log", "broker", "record", "{offset}", record_ref),
            leaves("broker", WHO, "[delivery=1?record|again]", _delivery, "{offset}", record_ref),
        ),
        "process": (arrives(_delivery), effect("effects")),
        "fail": (arrives(_delivery), says(WHO, "cannot do {offset}", True)),
        "accept": (hops(WHO, "broker", "ack", "", record_ref),),
        "release": (hops(WHO, "broker", "fail", "", record_ref),),
        "reject": (hops(WHO, "broker", "fail", "", record_ref), drops("broker", "{offset}")),
        "renew": (hops(WHO, "broker", "ack", "", record_ref),),
        "refused": (hops(WHO, "broker", "ack", span_of, "", "refused"), says("broker", "too late", True)),
        "ignored": (hops(WHO, "broker", "ack", "", record_ref, "refused"),),
        "time_out": (says("broker", "{member}: lock on {offset} over", True),),
        "hand_back": (says("broker", "{member} is gone", True),),
        "archive": (drops("broker", "{offset}"), says("broker", "archives {offset}", True)),
        "full": (says("broker", "all {locks} locks taken", True),),
        "move": (says("broker", "starts at {offset}"),),
        "lose_answer": (drops("{member}", span_of),),
        "delay": (says("{member}", "answer held back", True),),
        "kill": (becomes("down"), loses_all()),
        "freeze": (becomes("frozen"),),
        "thaw": (becomes("back"),),
    },
    _lines,
    still="start end",
)


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
