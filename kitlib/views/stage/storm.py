"""The stage of a spout and its bolt, and of a topology's tasks."""

from __future__ import annotations

import re

from kitlib.trace import Step, Trace
from kitlib.views.partition.reader import size_of
from kitlib.views.stage.deeds import (
    MOST_SHOWN,
    WHO,
    acts,
    appended,
    arrives,
    becomes,
    drops,
    effect,
    falls,
    hops,
    leaves,
    loses_all,
    record_ref,
    says,
    tuple_key,
)
from kitlib.views.stage.score import Deed, Part, Play, Setting
from kitlib.words.topology import FAULTS


def _spout_tuples(play: Play, step: Step) -> None:
    data = step.data
    attempt, parts = data.get("attempt", 1), data.get("parts", 1)
    style = "tuple" if attempt == 1 else "again"
    play.hop("log", "spout", "record", f"{data['offset']}", record_ref(step))
    for _ in range(min(parts, MOST_SHOWN)):
        play.leave(tuple_key(step), "spout", "bolt", style, f"{data['offset']}", record_ref(step))


def _clear(play: Play, step: Step) -> None:
    for first, last in step.data["ranges"]:
        several = min(last, first + MOST_SHOWN - 1)
        if several < last:
            play.fall_from("spout", "", count=last - several)
        for offset in range(first, several + 1):
            key = ("tuple", step.data.get("topic"), step.data.get("partition"), offset)
            if not play.fall(key, by="spout"):
                play.fall_from("spout", f"{offset}", f"record:{step.data.get('topic')}/{step.data.get('partition')}/{offset}")


def _spout_lines(play: Play, step: Step) -> None:
    state = step.state
    if "log_end" in state:
        start = f"{state['log_start']} to " if state.get("log_start") else "end "
        play.show("log", f"{start}{state['log_end']}")
    if "pending" in state:
        failed = list(state.get("failed", ()))
        told = f", {size_of(failed)} failed" if failed else ""
        play.show("spout", f"{size_of([*state['pending'], *failed])} pending{told}")
    if step.number == 0 and (begun := next((each for each in play.trace.steps if each.what == "start"), None)):
        play.show("commit", _stored(begun))


def _stored(start: Step) -> str:
    """What the store holds when a spout begins."""
    stored = start.data.get("stored")
    return "empty" if stored is None else f"{stored}"


def _spout_starts(play: Play, step: Step) -> None:
    """It reads the store; where that does not decide, the log says where it begins or ends."""
    stored, offset = _stored(step), f"{step.data['offset']}"
    play.show("commit", stored)
    if stored != "empty":
        play.hop("commit", step.actor, "commit", stored)
    if stored != offset:
        play.hop("log", step.actor, "answer", offset)


def _spout_commits(play: Play, step: Step) -> None:
    if step.data.get("written", True):
        play.hop(step.actor, "commit", "commit", f"{step.data['offset']}")
        play.show("commit", f"{step.data['offset']}")


SPOUT = Setting(
    (
        Part("log", "topic", 0.0, is_always=True, label=lambda name: "topic"),
        Part("spout|coordinator", "spout", 0.36),
        Part("bolt", "bolt", 0.7, is_always=True),
        Part("effects", "store", 1.0, found=lambda trace: ["effects"] if acts(trace, "spout") else ["counts"]),
        Part("counts", "store", 1.0),
        Part(
            "commit",
            "store",
            0.36,
            found=lambda trace: ["commit"] if acts(trace, "spout") else [],
            is_below=True,
            label=lambda _: "offset store",
        ),
    ),
    {
        "append": (says("log", appended),),
        "delete": (says("log", "deleted up to {to}", True),),
        "compact": (says("log", "compacted"),),
        "start": (becomes("back", WHO, "bolt"), _spout_starts),
        "emit": (_spout_tuples,),
        "process": (arrives(tuple_key), effect("effects")),
        "ack": (hops("bolt", WHO, "ack", "", record_ref),),
        "fail": (
            arrives(tuple_key), hops("bolt", "spout", "fail", "", record_ref), says("bolt", "[retry=False?fails, no retry]", True),
        ),
        "clear": (_clear, says("spout", "cleared: too far behind", True)),
        "give_up": (drops(WHO, "{offset}"), says(WHO, "gives up", True)),
        "lose": (falls(tuple_key),),
        "lose_ack": (leaves("bolt", "spout", "ack", "lost ack", "{offset}", record_ref), falls("lost ack")),
        "delay": (says("bolt", "{offset} is held back", True),),
        "double": (leaves("spout", "bolt", "again", tuple_key, "{offset}", record_ref),),
        "crash": (becomes("down", WHO, "bolt"), loses_all(WHO, "bolt")),
        "commit": (_spout_commits,),
        "reset": (says(WHO, "out of range: {from} → {to}", True),),
        "error": (says(WHO, "{error}", True), becomes("down")),
    },
    _spout_lines,
    {"worker": ("spout", "bolt")},
    still="idle stop result sample odds",
)


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
        shown = "|".join(map(re.escape, sorted(names)))
        return Part(shown, kind, x, lambda name: name.removeprefix("__"), found=lambda _: sorted(names), is_below=is_below)

    parts = [Part("log", "topic", 0.0, is_always=True, label=lambda name: "topic")]
    parts += [named(spouts, "spout", 1 / gaps)] if spouts else []
    parts += [named({name for _, name in bolts[kind]}, "bolt", (2 + at) / gaps) for at, kind in enumerate(kinds)]
    parts += [Part("effects", "store", 1.0, is_always=True)]
    return parts + ([named(ackers, "acker", 0.5, True)] if ackers else [])


def _task_emits(play: Play, step: Step) -> None:
    data = step.data
    style = "tuple" if data.get("attempt", 1) == 1 else "again"
    label = "" if data.get("offset") is None else f"{data['offset']}"
    play.hop("log", step.actor, "record", label, record_ref(step) if label else "")
    for number, to, _ in data["tuples"]:
        play.leave(("tuple", number), step.actor, to, style, label, f"tuple:{number}")
        play.memory["of", to, data.get("offset")] = number
        play.memory["label", number] = label


def _task_sends(play: Play, step: Step) -> None:
    number = step.data["tuple"]
    parents = [play.memory.get(("label", parent), "") for parent in step.data["parents"]]
    label = play.memory["label", number] = parents[0] if parents else ""
    play.leave(("tuple", number), step.actor, step.data["to"], "tuple", label, f"tuple:{number}")


def _task_processes(play: Play, step: Step) -> None:
    number = play.memory.get(("of", step.actor, step.data["offset"]))
    play.arrive(("tuple", number))  # runs that are told in short have no step for it
    effect("effects")(play, step)


def _of_trees(name: str) -> Deed:
    """Something about each tree of the step sets off to its acker."""

    def deed(play: Play, step: Step) -> None:
        acker = next((each for each in play.stage.actors if each.startswith("__acker")), "")
        for root in [root for root, _ in step.data["vals"]] if name == "vals" else step.data["roots"]:
            play.leave(("tree", root, name), step.actor, acker, "ack" if name == "vals" else "fail", "", f"tree:{root}")

    return deed


def _at_acker(name: str) -> Deed:
    def deed(play: Play, step: Step) -> None:
        root = step.data["root"]
        play.arrive(("tree", root, name), target=step.actor)
        end = step.data.get("end")
        if end in ("ack", "fail"):
            play.memory["acker", root] = step.actor
            spout = play.memory.get(("spout", root), "")
            play.leave(("end", root), step.actor, spout, "ack" if end == "ack" else "fail", "", f"tree:{root}")

    return deed


def _init(play: Play, step: Step) -> None:
    spout = next(
        (name for name, actor in play.stage.actors.items() if actor.kind == "spout" and name.endswith(f"-{step.data.get('spout_task')}")),
        "",
    )
    play.memory["spout", step.data["root"]] = spout
    play.hop(spout, step.actor, "question", "", f"tree:{step.data['root']}")
    _at_acker("init")(play, step)


def _end(play: Play, step: Step) -> None:
    play.arrive(("end", step.data["root"]))
    if step.what == "fail" and step.data["why"] == "timeout":
        play.say(step.actor, "a tree timed out", True)


def _fault(play: Play, step: Step) -> None:
    number, kind = step.data.get("tuple"), step.data["kind"]
    if kind == "lose":
        if not play.fall(("tuple", number)):
            play.say(step.actor, FAULTS[kind], True)
        return
    play.say(step.actor, FAULTS[kind], True)
    if kind == "drop":
        play.fall_from(step.actor, play.memory.get(("label", number), "") or "tuple", f"tuple:{number}")


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
        "start": (becomes("back"),),
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
        "acker_tick": (_dropped,),
        "spout_tick": (_dropped,),
        "ack": (_end,),
        "fail": (_end,),
        "late": (says(WHO, "a late {answer}"), lambda play, step: play.arrive(("end", step.data["root"]))),
        "clear": (says(WHO, "cleared: too far behind", True),),
        "crash": (becomes("down"), loses_all(), says(WHO, "[lost!=0?{lost} lost with it]", True)),
        "commit": (),
        "restart": (becomes("back"),),
        "sample": (_sample,),
    },
    lambda play, step: _topology_lines(play, step),
    still=f"{SPOUT.still} acker_reset",
)


def _topology_lines(play: Play, step: Step) -> None:
    state = step.state
    if "log_end" in state:
        play.show("log", f"end {state['log_end']:,}")
    if "pending" in state and play.has(step.actor) and play.stage.actors[step.actor].kind == "spout":
        play.show(step.actor, f"{size_of(state['pending']):,} pending")
