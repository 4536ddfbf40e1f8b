"""What each verb does on the stage: one table for each domain that has one.

A row names a verb and its deeds (`kitlib.views.stage`); a verb without a deed has an empty row, so that a new one cannot be
forgotten. Names of actors that the trace does not name itself are those of the domain's parts. Left out: domains in which
nothing travels (compaction, offsets and their incidents, lag).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kitlib.trace import Step, Trace
from kitlib.views.stage import (
    ABORT,
    ACK,
    AGAIN,
    ANSWER,
    AWAY,
    BACK,
    BAD_ANSWER,
    COMMIT,
    COPY,
    CUT_OFF,
    DOWN,
    DROP,
    EFFECT,
    FAIL,
    FENCED,
    FROZEN,
    QUESTION,
    RECORD,
    REQUEST,
    TUPLE,
    UP,
    WHO,
    WORK,
    Deed,
    Part,
    Play,
    Setting,
    arrives,
    becomes,
    blinks,
    drops,
    falls,
    hops,
    leaves,
    loses_all,
    says,
)

MOST_SHOWN = 40  # things that one step lets fall, one by one
NOTHING: tuple[Deed, ...] = ()


# -- what the rows read from a step --------------------------------------------------------------------


def _get(name: str, default: Any = "") -> Any:
    return lambda step: step.data.get(name, default)


def _size(ranges: Iterable[list[int]]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def _times(number: int) -> str:
    return f"× {number:,}" if number > 1 else ""


def _span(step: Step) -> str:
    first, last = step.data.get("first"), step.data.get("last")
    return "" if first is None else f"{first}" if first == last else f"{first}-{last}"


def _record(step: Step) -> str:
    data = step.data
    return f"record:{data['topic']}/{data['partition']}/{data['offset']}" if "topic" in data else ""


def _offset(step: Step) -> str:
    return f"{step.data['offset']}"


def _part(step: Step) -> tuple[Any, ...]:
    return "tuple", step.data.get("topic"), step.data.get("partition"), step.data["offset"]


def _many(step: Step) -> str:
    return _times(step.data["last"] - step.data["first"] + 1) or f"{step.data['first']}"


# -- a spout and its bolt --------------------------------------------------------------------------------


def _spout_tuples(play: Play, step: Step) -> None:
    data = step.data
    attempt, parts = data.get("attempt", 1), data.get("parts", 1)
    look = TUPLE if attempt == 1 else AGAIN
    play.hop("log", "spout", RECORD, f"{data['offset']}", _record(step))
    for _ in range(min(parts, MOST_SHOWN)):
        play.leave(_part(step), "spout", "bolt", look, f"{data['offset']}", _record(step))


def _effect(store: str) -> Deed:
    """An effect of a record happens; the second one of the same part of it is another colour."""

    def deed(play: Play, step: Step) -> None:
        key = ("done", step.data.get("topic"), step.data.get("partition"), step.data["offset"], step.data.get("part", 0))
        again = play.memory.get(key, 0)
        play.memory[key] = again + 1
        made, copies = play.memory.get("effects", (0, 0))
        made, copies = play.memory["effects"] = (made + 1, copies + (again > 0))
        play.show(store, f"{made:,}, {copies:,} again" if copies else f"{made:,}")
        play.hop(step.actor, store, COPY if again else EFFECT, f"{step.data['offset']}" if again else "", _record(step))

    return deed


def _clear(play: Play, step: Step) -> None:
    for first, last in step.data["ranges"]:
        several = min(last, first + MOST_SHOWN - 1)
        if several < last:
            play.fall_from("spout", DROP, "", count=last - several)
        for offset in range(first, several + 1):
            key = ("tuple", step.data.get("topic"), step.data.get("partition"), offset)
            if not play.fall(key, by="spout"):
                play.fall_from("spout", DROP, f"{offset}", f"record:{step.data.get('topic')}/{step.data.get('partition')}/{offset}")


def _spout_failed(play: Play, step: Step) -> None:
    play.arrive(_part(step))
    play.hop("bolt", "spout", FAIL, "", _record(step))


def _spout_lines(play: Play, step: Step) -> None:
    state = step.state
    if "log_end" in state:
        start = f"{state['log_start']} to " if state.get("log_start") else "end "
        play.show("log", f"{start}{state['log_end']}")
    if "pending" in state:
        failed = len(state.get("failed", ()))
        play.show("spout", f"{_size(state['pending'])} pending" + (f", {failed} failed" if failed else ""))
        play.show("commit", f"{state['committed_to']}")


SPOUT = Setting(
    (
        Part("log", "topic", 0.0, is_always=True, label=lambda name: "topic"),
        Part("spout|coordinator", "spout", 0.36),
        Part("bolt", "bolt", 0.7, is_always=True),
        Part("effects", "store", 1.0, found=lambda trace: ["effects"] if _acts(trace, "spout") else ["counts"]),
        Part("counts", "store", 1.0),
        Part(
            "commit",
            "store",
            0.36,
            found=lambda trace: ["commit"] if _acts(trace, "spout") else [],
            is_below=True,
            label=lambda _: "offset store",
        ),
    ),
    {
        "append": (says("log", lambda step: f"+ {_many(step)} appended"),),
        "delete": (says("log", lambda step: f"deleted up to {step.data['to']}", True),),
        "compact": (says("log", "compacted"),),
        "start": (becomes(BACK, WHO, "bolt"), hops("commit", WHO, COMMIT, _offset)),
        "emit": (_spout_tuples,),
        "process": (arrives(_part), _effect("effects")),
        "ack": (hops("bolt", WHO, ACK, "", _record),),
        "fail": (_spout_failed, says("bolt", lambda step: "" if step.data.get("retry", True) else "fails, no retry", True)),
        "clear": (_clear, says("spout", "cleared: too far behind", True)),
        "give_up": (drops(WHO, _offset), says(WHO, "gives up", True)),
        "crash": (becomes(DOWN, WHO, "bolt"), loses_all(WHO, "bolt")),
        "lose": (falls(_part),),
        "lose_ack": (arrives(_part), drops("bolt", "ack")),
        "delay": (says("bolt", lambda step: f"{step.data['offset']} is late", True),),
        "double": (says("bolt", lambda step: f"{step.data['offset']} comes twice", True),),
        "commit": (hops(WHO, "commit", COMMIT, _offset),),
        "reset": (says(WHO, lambda step: f"out of range: {step.data['from']} → {step.data['to']}", True),),
        "idle": NOTHING,
        "error": (says(WHO, lambda step: str(step.data["error"]), True), becomes(DOWN)),
        "stop": NOTHING,
        "batch_begin": (
            hops("log", WHO, RECORD, _many),
            leaves(
                WHO,
                "bolt",
                lambda step: TUPLE if step.data["attempt"] == 1 else AGAIN,
                _get("txid"),
                lambda step: f"batch {step.data['txid']}",
            ),
        ),
        "batch_done": (arrives(_get("txid")), hops("bolt", WHO, ACK)),
        "batch_commit": (says(WHO, lambda step: f"commits batch {step.data['txid']}"),),
        "batch_fail": (falls(_get("txid")), hops("bolt", WHO, FAIL), says(WHO, lambda step: f"batch {step.data['txid']} fails", True)),
        "batch_skip": (hops("bolt", WHO, COPY),),
        "put": (hops("bolt", WHO, EFFECT, lambda step: f"{step.data['word']}"),),
        "result": NOTHING,
        "sample": NOTHING,
        "odds": NOTHING,
    },
    _spout_lines,
    {"worker": ("spout", "bolt")},
)


def _acts(trace: Trace, name: str) -> bool:
    return any(step.actor == name for step in trace.steps)


# -- a topology's tasks ----------------------------------------------------------------------------------


def _topology(trace: Trace) -> list[Part]:
    """Its tasks: the spouts, a column for each kind of bolt in the order of their numbers, the ackers below."""
    spouts: set[str] = set()
    ackers: set[str] = set()
    bolts: dict[str, set[tuple[int, str]]] = {}
    for step in trace.steps:
        data = step.data
        if step.actor.startswith("__acker"):
            ackers.add(step.actor)
        elif step.what in ("emit", "start", "spout_tick"):
            spouts.add(step.actor)
        told = [to for _, to, _ in data["tuples"]] if step.what == "emit" else [data["to"]] if step.what == "send" else []
        told += [step.actor] if step.what in ("execute", "process", "bolt_ack") else []
        for name in told:
            kind, _, number = name.rpartition("-")
            bolts.setdefault(kind, set()).add((int(number) if number.isdigit() else 0, name))
    kinds = sorted(bolts, key=lambda kind: min(bolts[kind]))
    gaps = len(kinds) + 2

    def named(names: set[str], kind: str, x: float, is_below: bool = False) -> Part:
        return Part("|".join(map(re.escape, sorted(names))), kind, x, found=lambda _: sorted(names), is_below=is_below, label=_task)

    parts = [Part("log", "topic", 0.0, is_always=True, label=lambda name: "topic")]
    parts += [named(spouts, "spout", 1 / gaps)] if spouts else []
    parts += [named({name for _, name in bolts[kind]}, "bolt", (2 + at) / gaps) for at, kind in enumerate(kinds)]
    parts += [Part("effects", "store", 1.0, is_always=True)]
    return parts + ([named(ackers, "acker", 0.5, True)] if ackers else [])


def _task(name: str) -> str:
    return name.removeprefix("__")


def _task_emits(play: Play, step: Step) -> None:
    data = step.data
    look = TUPLE if data.get("attempt", 1) == 1 else AGAIN
    label = "" if data.get("offset") is None else f"{data['offset']}"
    play.hop("log", step.actor, RECORD, label, _record(step) if label else "")
    for number, to, _ in data["tuples"]:
        play.leave(("tuple", number), step.actor, to, look, label, f"tuple:{number}")
        play.memory["of", to, data.get("offset")] = number
        play.memory["label", number] = label


def _task_sends(play: Play, step: Step) -> None:
    number = step.data["tuple"]
    parents = [play.memory.get(("label", parent), "") for parent in step.data["parents"]]
    label = play.memory["label", number] = parents[0] if parents else ""
    play.leave(("tuple", number), step.actor, step.data["to"], TUPLE, label, f"tuple:{number}")


def _task_processes(play: Play, step: Step) -> None:
    number = play.memory.get(("of", step.actor, step.data["offset"]))
    play.arrive(("tuple", number))  # runs that are told in short have no step for it
    _effect("effects")(play, step)


def _of_trees(name: str) -> Deed:
    """Something about each tree of the step sets off to its acker."""

    def deed(play: Play, step: Step) -> None:
        acker = next((each for each in play.stage.actors if each.startswith("__acker")), "")
        for root in [root for root, _ in step.data["vals"]] if name == "vals" else step.data["roots"]:
            play.leave(("tree", root, name), step.actor, acker, ACK if name == "vals" else FAIL, "", f"tree:{root}")

    return deed


def _at_acker(name: str) -> Deed:
    def deed(play: Play, step: Step) -> None:
        root = step.data["root"]
        if ("tree", root, name) in play.open:
            play.arrive(("tree", root, name), target=step.actor)
        end = step.data.get("end")
        if end in ("ack", "fail"):
            play.memory["acker", root] = step.actor
            play.leave(("end", root), step.actor, play.memory.get(("spout", root), ""), ACK if end == "ack" else FAIL, "", f"tree:{root}")

    return deed


def _init(play: Play, step: Step) -> None:
    spout = next(
        (name for name, actor in play.stage.actors.items() if actor.kind == "spout" and name.endswith(f"-{step.data.get('spout_task')}")),
        "",
    )
    play.memory["spout", step.data["root"]] = spout
    play.hop(spout, step.actor, QUESTION, "", f"tree:{step.data['root']}")
    _at_acker("init")(play, step)


def _end(play: Play, step: Step) -> None:
    root = step.data["root"]
    if ("end", root) in play.open:
        play.arrive(("end", root))
    if step.what == "fail" and step.data["why"] == "timeout":
        play.say(step.actor, "a tree timed out", True)


def _fault(play: Play, step: Step) -> None:
    number, kind = step.data.get("tuple"), step.data["kind"]
    if kind == "lose":
        if not play.fall(("tuple", number)):
            play.say(step.actor, "lost in transit", True)
        return
    told = {"hang": "hangs", "raise": "exception", "fail": "fails it", "drop": "neither ack nor fail", "ack_twice": "acks twice",
            "delay": "held back", "double": "delivered twice"}  # fmt: skip
    play.say(step.actor, told.get(kind, "forgets to anchor"), True)
    if kind == "drop":
        play.fall_from(step.actor, DROP, play.memory.get(("label", number), "") or "tuple", f"tuple:{number}")


def _dropped(play: Play, step: Step) -> None:
    dropped = step.data["expired"] if step.what == "spout_tick" else len(step.data["dropped"])
    if dropped:
        play.say(step.actor, f"{dropped} timed out", True)


def _sample(play: Play, step: Step) -> None:
    for name, actor in play.stage.actors.items():
        if actor.kind == "spout":
            play.show(name, f"{step.data['pending']:,} pending")


TOPOLOGY = Setting(
    _topology,
    {
        **SPOUT.rows,
        "start": (becomes(BACK),),
        "emit": (_task_emits,),
        "execute": (arrives(lambda step: ("tuple", step.data["tuple"])),),
        "send": (_task_sends,),
        "bolt_ack": (_of_trees("vals"),),
        "bolt_fail": (_of_trees("roots"), says(WHO, "fails a tuple", True)),
        "process": (_task_processes,),
        "fault": (_fault,),
        "acker_init": (_init,),
        "acker_ack": (_at_acker("vals"),),
        "acker_fail": (_at_acker("roots"),),
        "acker_reset": NOTHING,
        "acker_tick": (_dropped,),
        "spout_tick": (_dropped,),
        "ack": (_end,),
        "fail": (_end,),
        "late": (says(WHO, lambda step: f"a late {step.data['answer']}"), lambda play, step: play.arrive(("end", step.data["root"]))),
        "clear": (says(WHO, "cleared: too far behind", True),),
        "give_up": (drops(WHO, _offset), says(WHO, "gives up", True)),
        "crash": (
            becomes(DOWN),
            loses_all(),
            says(WHO, lambda step: f"{step.data['lost']} lost with it" if step.data["lost"] else "", True),
        ),
        "commit": NOTHING,
        "restart": (becomes(BACK),),
        "sample": (_sample,),
    },
    lambda play, step: _topology_lines(play, step),
)


def _topology_lines(play: Play, step: Step) -> None:
    state = step.state
    if "log_end" in state:
        play.show("log", f"end {state['log_end']:,}")
    if "pending" in state and play.has(step.actor) and play.stage.actors[step.actor].kind == "spout":
        play.show(step.actor, f"{_size(state['pending']):,} pending")


# -- a producer, the network, a broker -------------------------------------------------------------------


def _request(step: Step) -> tuple[str, Any, Any]:
    """A request's key: number alone is not enough where there are two producers."""
    return "request", step.data.get("request"), step.data.get("batch")


def _answer(step: Step) -> tuple[str, Any, Any]:
    return "answer", step.data.get("request"), step.data.get("batch")


def _arrived(look: Any, node: Any) -> Deed:
    """A request is there, and its answer sets off."""

    def deed(play: Play, step: Step) -> None:
        key = _request(step)
        waiting = play.open.get(key)
        target = node(play, step)
        source = waiting[0].source if waiting else _client(play)
        play.arrive(key, "arrived" if look is ANSWER else "refused", target)
        back = "sender" if play.has("sender") else source
        label = str(step.data["error"])[:12].rstrip("_") if look is BAD_ANSWER else "again" if step.what == "recognise" else "stored"
        if play.stage.actors.get(target) is not None:
            play.leave(_answer(step), target, back, look, label, f"answer:{step.data.get('request')}")
            if step.data.get("copy", 1) > 1:
                play.say(target, "a second copy is written", True)

    return deed


def _client(play: Play) -> str:
    return next((name for name in play.stage.actors if name.startswith("producer")), "sender")


def _is_lost(play: Play, step: Step) -> None:
    """A request, its answer, or both are lost."""
    if step.what in ("lose_request", "no_answer"):
        play.fall(_request(step))
    if step.what in ("lose_answer", "no_answer"):
        play.fall(_answer(step))


def _cut(play: Play, step: Step) -> None:
    for key in [key for key in play.open if isinstance(key, tuple) and key[0] in ("request", "answer")]:
        play.fall(key)


def _producer_lines(play: Play, step: Step) -> None:
    state = step.state
    held = state.get("producer")
    if isinstance(held, dict) and "queue" in held:
        name = step.actor if step.actor.startswith("producer") else play.memory.get("producer", "producer")
        play.memory["producer"] = name
        play.show(name, f"{len(held['queue'])} wait, {len(held.get('in_flight', ()))} sent")
    if "log" in state and isinstance(state["log"], int):
        play.show("broker", f"log end {state['log']}")


IDEMPOTENCE = Setting(
    (
        Part("application", "person", 0.0, is_always=True),
        Part(r"producer( \d+)?", "producer", 0.3),
        Part("broker", "broker", 1.0, is_always=True),
    ),
    {
        "send": (hops("application", WHO, RECORD, _span),),
        "request": (
            leaves(
                WHO,
                "broker",
                lambda step: AGAIN if step.data.get("attempt") else REQUEST,
                _request,
                _span,
                lambda step: f"request:{step.data['request']}",
            ),
        ),
        "answer": (arrives(_answer), says(WHO, lambda step: "" if step.data["error"] == "NONE" else str(step.data["error"]), True)),
        "no_answer": (_is_lost, says(WHO, "was it stored?", True)),
        "requeue": NOTHING,
        "delivered": (hops(WHO, "application", ACK, _span),),
        "undelivered": (hops(WHO, "application", FAIL, _span), says("application", lambda step: str(step.data["error"]), True)),
        "id": (says(WHO, lambda step: f"id {step.data['pid']}, epoch {step.data['epoch']}" if step.data["pid"] >= 0 else ""),),
        "refuse_to_start": (says(WHO, "refuses to start", True), becomes(DOWN)),
        "lose_request": (_is_lost,),
        "lose_answer": (_is_lost,),
        "duplicate_request": (leaves("producer", "broker", AGAIN, _request, "twice", lambda step: f"request:{step.data['request']}"),),
        "delay": NOTHING,
        "cut": (_cut,),
        "differs": NOTHING,
        "client": NOTHING,
        "withhold": NOTHING,
        "batches": NOTHING,
        "write": (_arrived(ANSWER, lambda play, step: "broker"),),
        "recognise": (_arrived(ANSWER, lambda play, step: "broker"), says("broker", "known: not written again")),
        "refuse": (_arrived(BAD_ANSWER, lambda play, step: "broker"), says("broker", lambda step: str(step.data["error"]), True)),
        "down": (_cut, becomes(DOWN, "broker")),
        "restart": (_cut, blinks("broker")),
        "expire": (says("broker", lambda step: f"forgets producer id {step.data['pid']}", True),),
        "delete": (says("broker", lambda step: f"log deleted up to {step.data['to']}", True),),
        "fail_over": (blinks("broker"), says("broker", "another leader", True)),
        "read": (says("broker", "the log is read back"),),
    },
    _producer_lines,
)


def _nodes(trace: Trace) -> list[str]:
    found = {
        step.data[name] for step in trace.steps for name in ("node", "leader", "to", "broker") if isinstance(step.data.get(name), int)
    }
    found |= {
        number
        for step in trace.steps
        if step.what == "shrink_isr"
        for number in [*step.data.get("left", ()), *step.data.get("in_sync", ())]
    }
    return sorted(_node_name(number) for number in found if number >= -1) or ["broker 0"]


def _node_name(number: int) -> str:
    return "bootstrap" if number < 0 else f"broker {number}"


def _node(step: Step) -> str:
    number = step.data.get("node", step.data.get("broker", step.data.get("to", 0)))
    return _node_name(number) if isinstance(number, int) else "broker 0"


def _collects(play: Play, step: Step) -> None:
    sign = {"send": 1, "request": -1, "requeue": 1, "expire": -1}[step.what]
    if step.what == "send" and step.data.get("batch") is None:
        return
    number = step.data["last"] - step.data["first"] + 1 if "first" in step.data and "last" in step.data else 0
    play.memory["waiting"] = max(0, play.memory.get("waiting", 0) + sign * number)
    play.show("accumulator", f"{play.memory['waiting']} waiting")


def _exit(play: Play, step: Step) -> None:
    waiting = play.memory.get("waiting", 0)
    for name in ("user", "accumulator", "sender"):
        play.be(name, DOWN)
    if waiting:
        for place in range(min(waiting, 24)):
            play.fall_from("accumulator", DROP, "", count=waiting // min(waiting, 24) + (place < waiting % min(waiting, 24)))
        play.say("accumulator", f"{waiting} records were only here", True)


SEND_PATH = Setting(
    (
        Part("user", "person", 0.0, is_always=True, label=lambda name: "application"),
        Part("accumulator", "buffer", 0.28, is_always=True),
        Part("sender", "producer", 0.56, is_always=True),
        Part(r"bootstrap|broker \d+", "broker", 1.0, found=_nodes),
    ),
    {
        "start": NOTHING,
        "call": (says("user", lambda step: f"send({step.data['record']})" if "record" in step.data else "send"),),
        "blocked": (says("user", lambda step: f"send blocks: {step.data['on']}" if "on" in step.data else "send blocks", True),),
        "returned": NOTHING,
        "send": (hops("user", "accumulator", RECORD, _span), _collects),
        "undelivered": (
            hops("accumulator", "user", FAIL, _span),
            drops("accumulator", _span),
            says("user", lambda step: str(step.data.get("error", "fails")), True),
        ),
        "delivered": (hops("sender", "user", ACK, _span),),
        "flush": (says("user", "flush: waits"),),
        "exit": (_exit,),
        "request_update": (says("sender", "needs metadata"),),
        "update": (
            says("sender", lambda step: f"leader: broker {step.data['leader']}" if isinstance(step.data.get("leader"), int) else ""),
        ),
        "failed_update": (says("sender", "no metadata", True),),
        "leader": (says("sender", "learns the new leader"),),
        "new_batch": NOTHING,
        "full": NOTHING,
        "request": (
            leaves(
                "accumulator",
                _node,
                lambda step: AGAIN if step.data.get("attempt") else REQUEST,
                _request,
                _span,
                lambda step: f"request:{step.data.get('request')}",
            ),
            _collects,
        ),
        "answer": (arrives(_answer),),
        "no_answer": (_is_lost, says("sender", "was it stored?", True)),
        "requeue": (_collects,),
        "expire": (drops("accumulator", _span), says("accumulator", "timed out", True), _collects),
        "id": NOTHING,
        "connect": (hops("sender", _node, QUESTION),),
        "connected": (hops(_node, "sender", ACK),),
        "disconnected": (says("sender", lambda step: f"no connection to {_node(step)}", True),),
        "metadata_request": (hops("sender", _node, QUESTION, "metadata?"), hops(_node, "sender", ACK)),
        "id_request": (hops("sender", _node, QUESTION, "id?"), hops(_node, "sender", ACK)),
        "select": NOTHING,
        "refuse": (
            _arrived(BAD_ANSWER, lambda play, step: _node(step)),
            says(_node, lambda step: str(step.data.get("error", "refused")), True),
        ),
        "move_leader": (says(_node, "the leader now"),),
        "stop_copying": NOTHING,
        "shrink_isr": NOTHING,
        "destroy": (
            loses_all(_node),
            becomes(DOWN, _node),
            drops(_node, lambda step: f"{step.data['records_gone']} records" if step.data.get("records_gone") else ""),
        ),
        "fault": (says("sender", lambda step: str(step.data.get("cause", "")), True),),
        "killed": (loses_all(_node), becomes(DOWN, _node)),
        "started": (becomes(BACK, _node),),
        "frames": NOTHING,
        "version": NOTHING,
        "write": (_arrived(ANSWER, lambda play, step: _node(step)),),
        "recognise": (_arrived(ANSWER, lambda play, step: _node(step)),),
        "read": NOTHING,
    },
)


# -- a consumer group --------------------------------------------------------------------------------------

NO_MEMBERS = r"log|coordinator.*|zookeeper|operator|monitor|table|group|topic|run|controller|broker.*|effects|.* \d+"


def _partitions(trace: Trace) -> list[str]:
    found = {
        (str(step.data["topic"]), step.data["partition"]) for step in trace.steps if "topic" in step.data and "partition" in step.data
    }
    return [f"{topic} {number}" for topic, number in sorted(found, key=str)]


def _of(step: Step) -> str:
    return f"{step.data.get('topic')} {step.data.get('partition')}"


def _took(play: Play, step: Step) -> None:
    """A poll returns a record."""
    play.hop(_of(step), step.actor, RECORD, _offset(step), _record(step))
    play.tie(_of(step), step.actor)
    play.memory["position", _of(step)] = step.data["offset"] + 1


def _committed(play: Play, step: Step) -> None:
    is_refused = str(step.data.get("error") or "NONE") != "NONE"
    target = "coordinator" if play.has("coordinator") else "zookeeper"
    play.hop(step.actor, target, FAIL if is_refused else COMMIT, _offset(step), "", "refused" if is_refused else "arrived")
    if is_refused:
        play.say(step.actor, str(step.data["error"]), True)
    else:
        play.memory["committed", _of(step)] = step.data["offset"]


def _owns(play: Play, step: Step) -> None:
    for topic, number, *owner in step.data.get("owners") or step.data.get("partitions") or ():
        play.tie(f"{topic} {number}", owner[0] if owner else step.actor)
    play.be(step.actor, UP)


def _gives_up(play: Play, step: Step) -> None:
    for topic, number, *_ in step.data["partitions"]:
        if play.tied.get(f"{topic} {number}", ("",))[0] == step.actor:
            play.tie(f"{topic} {number}", None)


def _member_dies(play: Play, step: Step) -> None:
    play.be(step.actor, DOWN)
    number = 0
    for partition, (owner, _) in list(play.tied.items()):
        if owner == step.actor:
            position = play.memory.get(("position", partition))
            if position is not None:
                number += max(0, position - play.memory.get(("committed", partition), position))
    for _ in range(min(number, 12)):
        play.fall_from(step.actor, DROP, "")
    if number:
        play.say(step.actor, f"{number} processed, not committed", True)


def _unties(play: Play, step: Step) -> None:
    who = str(step.data.get("member", step.actor))
    for partition, (owner, _) in list(play.tied.items()):
        if owner == who:
            play.tie(partition, None)


def _leaves(play: Play, step: Step) -> None:
    if not play.has(step.actor) or play.stage.actors[step.actor].at(play.now) != DOWN:
        play.be(step.actor, AWAY)
    _unties(play, step)


def _notified(play: Play, step: Step) -> None:
    for name in step.data["members"]:
        play.hop("zookeeper", str(name), QUESTION)


def _error_of(step: Step) -> str:
    error = str(step.data.get("error") or "NONE")
    return "" if error == "NONE" else error


GROUPS = Setting(
    (
        Part(r".* \d+", "partition", 0.0, found=_partitions),
        Part(rf"(?!({NO_MEMBERS})$).+", "consumer", 0.6, is_away=True),
        Part("effects", "store", 1.0, found=lambda trace: [] if _acts(trace, "table") else ["effects"]),
        Part("table", "store", 1.0),
        Part("operator", "person", 0.0, is_below=True),
        Part("coordinator|zookeeper", "broker", 0.6, is_below=True),
        Part("monitor", "person", 1.0, is_below=True),
    ),
    {
        "append": (lambda play, step: play.show(_of(step), f"end {step.data['last'] + 1}"),),
        "start": (becomes(UP), hops("coordinator", WHO, QUESTION, _offset), lambda play, step: play.tie(_of(step), step.actor)),
        "emit": (_took,),
        "process": (_effect("effects"),),
        "commit": (_committed,),
        "store": NOTHING,
        "join": (becomes(UP), hops(WHO, "coordinator", QUESTION, "join"), hops(WHO, "zookeeper", QUESTION, "join")),
        "assigned": (hops("coordinator", WHO, ACK), _owns),
        "revoked": (_gives_up,),
        "lost": (_gives_up, says(WHO, "lost its partitions", True)),
        "leave": (hops(WHO, "coordinator", QUESTION, "leave"), _leaves),
        "kill": (_member_dies,),
        "share": NOTHING,
        "freeze": (becomes(FROZEN),),
        "thaw": (becomes(BACK),),
        "late": (says(WHO, "no poll for too long", True), hops(WHO, "coordinator", QUESTION, "leave")),
        "cut_off": (becomes(CUT_OFF),),
        "reconnect": (becomes(BACK),),
        "error": (says(WHO, lambda step: _error_of(step) or "error", True),),
        "alter": (
            hops("operator", "coordinator", COMMIT, _offset),
            says("operator", lambda step: f"sets the offset to {step.data['offset']}", True),
        ),
        "forget": (says("operator", "deletes the offset", True), hops("operator", "coordinator", FAIL)),
        "reset": (says(WHO, lambda step: f"reset: {step.data['from']} → {step.data['to']}", True),),
        "refuse": (says(WHO, "known: not repeated"),),
        "rows": NOTHING,
        "partitions": (says("coordinator", lambda step: f"{step.data['count']} partitions"),),
        "throw": (says(WHO, "an exception", True),),
        "lag": (says("monitor", lambda step: "no lag to show" if step.data["lag"] is None else f"lag {step.data['lag']}"),),
        "judge": (says("monitor", lambda step: str(step.data["status"]), True),),
        "delete": (says(_of, lambda step: f"deleted up to {step.data['to']}", True),),
        "prepare": (says("coordinator", "rebalance"),),
        "sync": (says("coordinator", lambda step: f"generation {step.data['generation']}" if "generation" in step.data else ""),),
        "stable": (_owns,),
        "evict": (
            says("coordinator", lambda step: f"removes {step.data['member']}" if step.data.get("why") != "leave" else "", True),
            says("zookeeper", lambda step: f"removes {step.data['member']}", True),
            _unties,
        ),
        "empty": NOTHING,
        "restarted": (blinks(WHO),),
        "notify": (_notified,),
        "heard": (says(WHO, "gives up all, reads anew"),),
        "known": NOTHING,
        "expired": (says(WHO, "session expired", True),),
        "traffic": NOTHING,
        "failed": NOTHING,
        "refused": NOTHING,
    },
    lambda play, step: _group_lines(play, step),
)


def _group_lines(play: Play, step: Step) -> None:
    if step.what in ("assigned", "revoked", "lost", "stable", "evict", "start", "leave", "emit"):
        owned: dict[str, int] = {}
        for owner, _ in play.tied.values():
            owned[owner] = owned.get(owner, 0) + 1
        for name, actor in play.stage.actors.items():
            if actor.kind == "consumer":
                play.show(name, f"owns {owned.get(name, 0)}")


# -- transactions -------------------------------------------------------------------------------------------


def _tx(step: Step) -> tuple[Any, ...]:
    return "send", step.data.get("first"), step.data.get("tx")


def _identified(play: Play, step: Step) -> None:
    play.be(step.actor, UP)
    play.hop("coordinator", step.actor, ANSWER, f"epoch {step.data['epoch']}")


SHORT = {
    "Ongoing": "transaction open",
    "PrepareCommit": "decides: commit",
    "PrepareAbort": "decides: abort",
    "PrepareEpochFence": "fences the old one",
    "CompleteCommit": "commit complete",
    "CompleteAbort": "abort complete",
    "Dead": "forgotten",
}


def _transition(step: Step) -> str:
    return SHORT.get(str(step.data["to"]), "")


def _transaction_lines(play: Play, step: Step) -> None:
    state = step.state
    if "high_watermark" in state:
        play.show("broker", f"end {state['high_watermark']}, LSO {state.get('lso')}")
    for name, position in (state.get("positions") or {}).items():
        play.show(name, f"at {position}")


TRANSACTIONS = Setting(
    (
        Part(r"producer", "producer", 0.0),
        Part(r"producer \d+", "producer", 0.0, is_away=True),
        Part("broker", "topic", 0.55, is_always=True, label=lambda name: "output topic"),
        Part("read_.*", "consumer", 1.0),
        Part("coordinator", "broker", 0.3, is_below=True),
        Part("database", "store", 0.0, is_below=True),
    ),
    {
        "open": NOTHING,
        "id": (_identified,),
        "begin": (says(WHO, lambda step: f"begins transaction {step.data['tx']}"),),
        "join": NOTHING,
        "send": (leaves(WHO, "broker", lambda step: REQUEST if step.data["tx"] is not None else RECORD, _tx, _span),),
        "send_offsets": (hops(WHO, "coordinator", COMMIT, _offset),),
        "commit_tx": (hops("coordinator", WHO, ACK, "", lambda step: f"transaction:{step.data['tx']}"), says(WHO, "committed")),
        "abort_tx": (hops("coordinator", WHO, FAIL, "", lambda step: f"transaction:{step.data['tx']}"), says(WHO, "aborted", True)),
        "fenced": (becomes(FENCED), says(WHO, "fenced", True)),
        "unknown": (says(WHO, lambda step: _error_of(step) or "error", True),),
        "kill": (becomes(DOWN), says(WHO, "its transaction stays open", True)),
        "freeze": (becomes(FROZEN),),
        "thaw": (becomes(BACK),),
        "transition": (says("coordinator", _transition, False),),
        "write": (arrives(_tx),),
        "marker": (
            hops(
                "coordinator",
                "broker",
                lambda step: COMMIT if step.data["kind"] == "COMMIT" else ABORT,
                lambda step: str(step.data["kind"]).lower(),
            ),
        ),
        "refuse": (falls(_tx, "refused"), says("broker", lambda step: _error_of(step) or "refused", True)),
        "read": (hops("broker", WHO, RECORD, lambda step: f"{step.data['record']}"),),
        "waits": (says(WHO, lambda step: f"waits at {step.data['at']}"),),
        "commit": NOTHING,
        "end": NOTHING,
        "release": (says("broker", "late messages arrive", True),),
        "late_marker": (hops("coordinator", "broker", ABORT, "late abort"),),
        "effect": (
            hops(
                lambda step: str(step.data.get("by", "producer")),
                "database",
                lambda step: EFFECT if step.data["charged"] else QUESTION,
                lambda step: f"{step.data['record']}",
            ),
        ),
        "commit_offsets": (hops(WHO, "coordinator", COMMIT, _offset),),
    },
    _transaction_lines,
)


# -- replicas ------------------------------------------------------------------------------------------------


def _leads(play: Play, step: Step) -> None:
    play.memory["leader"] = step.actor
    for name in play.stage.actors:
        if name == step.actor:
            play.show(name, f"leader, epoch {step.data['epoch']}")


def _leader(play: Play) -> str:
    return str(play.memory.get("leader", ""))


def _replica_lines(play: Play, step: Step) -> None:
    for number, replica in (step.state.get("replicas") or {}).items():
        name = f"broker {number}"
        end = (
            replica.get("end", replica.get("log_end"))
            if isinstance(replica, dict)
            else replica[0]
            if isinstance(replica, list) and replica
            else None
        )
        role = "leader" if _leader(play) == name else "follower"
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
        "append": (hops("producer", WHO, RECORD, _many),),
        "start": (becomes(UP),),
        "emit": (lambda play, step: play.hop(_leader(play), step.actor, RECORD, _offset(step), _record(step)),),
        "process": NOTHING,
        "commit": (lambda play, step: play.hop(step.actor, _leader(play), COMMIT, _offset(step)),),
        "refused": (
            says("producer", lambda step: f"refused: {step.data['error']}", True),
            drops("producer", lambda step: f"{step.data['count']}"),
        ),
        "kill": (becomes(DOWN), loses_all()),
        "restart": (becomes(BACK),),
        "pause": (becomes(FROZEN),),
        "wake": (becomes(BACK),),
        "flip": (says(WHO, "a bit flips on its disk", True),),
        "recover": (
            drops(WHO, lambda step: f"{step.data['from'] - step.data['to']} records"),
            says(WHO, "truncates a corrupt log", True),
        ),
        "copy": (lambda play, step: play.hop(_leader(play), step.actor, RECORD, f"to {step.data['to']}"),),
        "truncate": (drops(WHO, lambda step: f"{step.data['from'] - step.data['to']} records"), says(WHO, "truncates its log", True)),
        "lead": (_leads, hops("controller", WHO, ACK, "lead")),
        "follow": (hops("controller", WHO, QUESTION, "follow"),),
        "isr": (says("controller", lambda step: f"in sync: {', '.join(map(str, step.data['in_sync'])) or 'none'}"),),
        "elect": (
            says("controller", lambda step: f"{'unclean: ' if step.data['unclean'] else ''}broker {step.data['leader']} leads", True),
        ),
        "none": (says("controller", "no leader", True),),
        "differs": NOTHING,
        "cut": (says("controller", lambda step: f"{step.data['from'] - step.data['to']} records are gone", True),),
        "read": NOTHING,
        "diverged": (says(WHO, "its offset is gone", True),),
    },
    _replica_lines,
)


# -- Connect and Streams -------------------------------------------------------------------------------------


def _work(step: Step) -> str:
    names = [*step.data.get("connectors", ()), *(f"{name}-{number}" for name, number in step.data.get("tasks", ()))]
    return f"{len(names)} jobs" if len(names) > 2 else ", ".join(map(str, names))


CONNECT = Setting(
    (
        Part("group", "broker", 0.0, label=lambda name: "coordinator"),
        Part(r"(?!run$|group$).+", "worker", 0.75, is_away=True),
    ),
    {
        "configure": (says("group", "connectors configured"),),
        "start": (becomes(BACK), hops(WHO, "group", QUESTION, "join")),
        "leave": (hops(WHO, "group", QUESTION, "leave"), becomes(AWAY)),
        "kill": (becomes(DOWN), drops(WHO, _work)),
        "evict": (says("group", lambda step: f"removes {step.data['member']}", True),),
        "prepare": (says("group", "rebalance"),),
        "assigned": (hops("group", WHO, WORK, _work),),
        "revoked": (hops(WHO, "group", WORK, _work),),
        "delay": (says("group", lambda step: f"waits {step.data['delay_ms'] // 1000} s for its return", True),),
        "sync": NOTHING,
        "idle": NOTHING,
    },
)


def _dealt(play: Play, step: Step) -> None:
    for name, tasks in step.data["active"].items():
        play.hop("group", str(name), WORK, f"{len(tasks)} tasks")
        play.show(str(name), f"{len(tasks)} tasks")


STREAMS = Setting(
    (
        Part("group", "broker", 0.0, label=lambda name: "coordinator"),
        Part("changelog", "topic", 0.0, is_always=True, is_below=True),
        Part(r"(?!run$|group$).+", "worker", 0.75, is_away=True),
    ),
    {
        "topology": NOTHING,
        "start": (becomes(BACK), hops(WHO, "group", QUESTION, "join")),
        "kill": (becomes(DOWN), drops(WHO, lambda step: f"{len(step.data['tasks'])} tasks")),
        "evict": CONNECT.rows["evict"],
        "prepare": CONNECT.rows["prepare"],
        "assigned": (_dealt,),
        "restoring": (
            leaves("changelog", WHO, RECORD, lambda step: (step.actor, step.data["task"]), lambda step: f"{step.data['behind']:,}"),
            says(WHO, lambda step: f"restores {step.data['task']}"),
        ),
        "running": (arrives(lambda step: (step.actor, step.data["task"])),),
        "standby": (hops("changelog", WHO, RECORD),),
        "ask": (
            says(
                WHO, lambda step: f"{step.data['key']}: {step.data['value'] if step.data['outcome'] == 'value' else step.data['outcome']}"
            ),
        ),
        "idle": NOTHING,
    },
)

SOURCE = Setting(
    (
        Part("source", "store", 0.0, is_always=True),
        Part("task", "worker", 0.45, is_always=True),
        Part("topic", "topic", 1.0, is_always=True),
        Part("offsets", "store", 0.45, is_always=True, is_below=True, label=lambda name: "source offsets"),
    ),
    {
        "send": (hops("source", "task", RECORD, _many), leaves("task", "topic", REQUEST, lambda step: "written", _many)),
        "write": (
            arrives(lambda step: "written"),
            lambda play, step: play.show("topic", f"end {step.data['offset'] + step.data['last'] - step.data['first'] + 1}"),
        ),
        "flush": (hops("task", "offsets", COMMIT, _offset), lambda play, step: play.show("offsets", _offset(step))),
        "crash": (
            becomes(DOWN, "task"),
            loses_all("task"),
            says("task", lambda step: f"at {step.data['position']:,}, stored {step.data['stored']:,}", True),
        ),
        "aborted": (says("topic", lambda step: f"{_span(step)} never readable", True),),
        "begins": (becomes(BACK, "task"), hops("offsets", "task", COMMIT, lambda step: f"{step.data['position']}")),
    },
)

PARTITIONS = Setting(
    (
        Part("producer", "producer", 0.0, is_always=True),
        Part(r".* \d+", "partition", 0.5, found=_partitions),
        Part(r"worker \d+", "consumer", 1.0),
    ),
    {
        "partitions": (says("producer", lambda step: f"{step.data['count']} partitions now"),),
        "append": (hops("producer", _of, RECORD, _many),),
        "process": (hops(_of, WHO, RECORD, _offset, _record),),
        "commit": NOTHING,
        "result": NOTHING,
    },
)

STAGES: dict[str, Setting] = {
    "spout": SPOUT,
    "topology": TOPOLOGY,
    "idempotence": IDEMPOTENCE,
    "send_path": SEND_PATH,
    "groups": GROUPS,
    "transactions": TRANSACTIONS,
    "replication": REPLICATION,
    "connect": CONNECT,
    "streams": STREAMS,
    "source": SOURCE,
    "partitions": PARTITIONS,
}  # domain -> its stage
