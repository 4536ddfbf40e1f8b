"""The stage of a producer, the network and the broker; of a record's way from `send` to the log; and of transactions."""

from __future__ import annotations

from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.stage.deeds import (
    WHO,
    Name,
    arrives,
    becomes,
    blinks,
    drops,
    falls,
    hops,
    leaves,
    loses_all,
    reads,
    says,
    span_of,
)
from kitlib.views.stage.score import Deed, Part, Play, Setting

# Error names as a broker says them -> what fits under a mark.
SHORT_ERRORS = {
    "NONE": "stored",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "gap",
    "DUPLICATE_SEQUENCE_NUMBER": "duplicate",
    "UNKNOWN_PRODUCER_ID": "unknown id",
    "INVALID_PRODUCER_EPOCH": "old epoch",
    "REQUEST_TIMED_OUT": "timed out",
    "NETWORK_EXCEPTION": "no network",
    "NOT_LEADER_OR_FOLLOWER": "not leader",
    "NOT_ENOUGH_REPLICAS": "replicas",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "replicas",
    "MESSAGE_TOO_LARGE": "too large",
    "CORRUPT_MESSAGE": "corrupt",
    "TOPIC_AUTHORIZATION_FAILED": "not allowed",
    "CLUSTER_AUTHORIZATION_FAILED": "not allowed",
    "UNKNOWN_TOPIC_OR_PARTITION": "no topic",
}


def in_words(error: object) -> str:
    """An error's name as a speech bubble says it: "out of order sequence number"."""
    name = plain_text(error, 60)
    return name.lower().replace("_", " ") if name.isupper() else name


def error_word(error: object) -> str:
    """An error's name, cut to what fits under a mark."""
    name = plain_text(error, 60)
    short = SHORT_ERRORS.get(name, name.lower().replace("_", " "))
    return short if len(short) <= 12 else f"{short[:11]}…"


def _request(step: Step) -> tuple[str, Any, Any]:
    """A request's key: number alone is not enough where there are two producers."""
    return "request", step.data.get("request"), step.data.get("batch")


def _answer(step: Step) -> tuple[str, Any, Any]:
    return "answer", step.data.get("request"), step.data.get("batch")


def _arrived(style: str, node: Name) -> Deed:
    """A request is there, and its answer sets off."""
    named = reads(node)

    def deed(play: Play, step: Step) -> None:
        key, target = _request(step), named(step)
        waiting = play.open.get(key)
        source = waiting[0].source if waiting else _client(play)
        play.arrive(key, "arrived" if style == "answer" else "refused", target)
        back = "sender" if play.has("sender") else source
        label = error_word(step.data["error"]) if style == "bad answer" else "again" if step.what == "recognise" else "stored"
        play.leave(_answer(step), target, back, style, label, f"answer:{step.data.get('request')}")
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


def _again(play: Play, step: Step) -> None:
    """A second copy of a request is under way."""
    for under in play.open.get(_request(step), [])[:1]:
        play.leave(_request(step), under.source, under.target, "again", "twice", under.ref)


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
        "send": (hops("application", WHO, "record", span_of),),
        "request": (
            leaves(WHO, "broker", "[attempt>0?again|request]", _request, span_of, "request:{request}"),
        ),
        "answer": (arrives(_answer), says(WHO, lambda step: "" if step.data["error"] == "NONE" else in_words(step.data["error"]), True)),
        "no_answer": (_is_lost, says(WHO, "was it stored?", True)),
        "delivered": (hops(WHO, "application", "ack", span_of),),
        "undelivered": (hops(WHO, "application", "fail", span_of), says("application", "{error}", True)),
        "id": (says(WHO, "[pid>=0?id {pid}, epoch {epoch}]"),),
        "refuse_to_start": (says(WHO, "refuses to start", True), becomes("down")),
        "lose_request": (_is_lost,),
        "lose_answer": (_is_lost,),
        "duplicate_request": (_again,),
        "cut": (_cut,),
        "write": (_arrived("answer", "broker"),),
        "recognise": (_arrived("answer", "broker"), says("broker", "known: not written again")),
        "refuse": (_arrived("bad answer", "broker"), says("broker", lambda step: in_words(step.data["error"]), True)),
        "down": (_cut, becomes("down", "broker")),
        "restart": (_cut, blinks("broker")),
        "expire": (says("broker", "forgets producer id {pid}", True),),
        "delete": (says("broker", "log deleted up to {to}", True),),
        "fail_over": (blinks("broker"), says("broker", "another leader", True)),
        "read": (says("broker", "the log is read back"),),
    },
    _producer_lines,
    still="requeue delay differs client withhold batches",
)


def _nodes(trace: Trace) -> list[str]:
    found = {
        step.data[name] for step in trace.steps for name in ("node", "leader", "to", "broker") if isinstance(step.data.get(name), int)
    }
    return sorted(_node_name(number) for number in found if number >= -1) or ["broker 0"]


def _node_name(number: int) -> str:
    return "bootstrap" if number < 0 else f"broker {number}"


def node_of(step: Step) -> str:
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
        play.be(name, "down")
    if waiting:
        for place in range(min(waiting, 24)):
            play.fall_from("accumulator", "", count=waiting // min(waiting, 24) + (place < waiting % min(waiting, 24)))
        play.say("accumulator", f"{waiting} records were only here", True)


SEND_PATH = Setting(
    (
        Part("user", "person", 0.0, is_always=True, label=lambda name: "application"),
        Part("accumulator", "buffer", 0.28, is_always=True),
        Part("sender", "producer", 0.56, is_always=True),
        Part(r"bootstrap|broker \d+", "broker", 1.0, found=_nodes),
    ),
    {
        "call": (says("user", "[record?send({record})|send]"),),
        "blocked": (says("user", "send blocks[: {on}]", True),),
        "send": (hops("user", "accumulator", "record", span_of), _collects),
        "undelivered": (
            hops("accumulator", "user", "fail", span_of), drops("accumulator", span_of), says("user", "[error?{error}|fails]", True),
        ),
        "delivered": (hops("sender", "user", "ack", span_of),),
        "flush": (says("user", "flush: waits"),),
        "exit": (_exit,),
        "request_update": (says("sender", "needs metadata"),),
        "update": (says("sender", "[leader?leader: broker {leader}]"),),
        "failed_update": (says("sender", "no metadata", True),),
        "leader": (says("sender", "learns the new leader"),),
        "request": (
            leaves("accumulator", node_of, "[attempt>0?again|request]", _request, span_of, "[request?request:{request}]"), _collects,
        ),
        "answer": (arrives(_answer),),
        "no_answer": (_is_lost, says("sender", "was it stored?", True)),
        "requeue": (_collects,),
        "expire": (drops("accumulator", span_of), says("accumulator", "timed out", True), _collects),
        "connect": (hops("sender", node_of, "question"),),
        "connected": (hops(node_of, "sender", "ack"),),
        "disconnected": (says("sender", lambda step: f"no connection to {node_of(step)}", True),),
        "metadata_request": (hops("sender", node_of, "question", "metadata?"), hops(node_of, "sender", "ack")),
        "id_request": (hops("sender", node_of, "question", "id?"), hops(node_of, "sender", "ack")),
        "refuse": (_arrived("bad answer", node_of), says(node_of, "[error?{error}|refused]", True)),
        "move_leader": (says(node_of, "the leader now"),),
        "fault": (says("sender", "[cause?{cause}|]", True),),
        "killed": (loses_all(node_of), becomes("down", node_of)),
        "started": (becomes("back", node_of),),
        "write": (_arrived("answer", node_of),),
        "recognise": (_arrived("answer", node_of),),
        "lose_request": (_is_lost,),
        "lose_answer": (_is_lost,),
        "duplicate_request": (_again,),
    },
    still="start returned new_batch full id select frames version read delay",
)


def _tx(step: Step) -> tuple[Any, ...]:
    return "send", step.data.get("first"), step.data.get("tx")


SHORT = {
    "Ongoing": "transaction open",
    "PrepareCommit": "decides: commit",
    "PrepareAbort": "decides: abort",
    "PrepareEpochFence": "fences the old one",
    "CompleteCommit": "commit complete",
    "CompleteAbort": "abort complete",
    "Dead": "forgotten",
}


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
        "id": (becomes("up"), hops("coordinator", WHO, "answer", "epoch {epoch}")),
        "begin": (says(WHO, "begins transaction {tx}"),),
        "send": (leaves(WHO, "broker", "[tx?request|record]", _tx, span_of),),
        "send_offsets": (hops(WHO, "coordinator", "commit", "{offset}"),),
        "commit_tx": (hops("coordinator", WHO, "ack", "", "transaction:{tx}"), says(WHO, "committed")),
        "abort_tx": (hops("coordinator", WHO, "fail", "", "transaction:{tx}"), says(WHO, "aborted", True)),
        "fenced": (becomes("fenced"), says(WHO, "fenced", True)),
        "unknown": (says(WHO, "[error?{error}|error]", True),),
        "kill": (becomes("down"), says(WHO, "its transaction stays open", True)),
        "lose_request": (leaves("{by}", "[api=Produce?broker|coordinator]", "request", "lost", "{api}"), falls("lost")),
        "lose_answer": (says("{by}", "no answer to {api}", True),),
        "duplicate_request": (says("{by}", "{api} comes twice"),),
        "delay": (says("{by}", "{api} is late"),),
        "down": (becomes("down", "broker", "coordinator"),),
        "restart": (becomes("back", "broker", "coordinator"),),
        "freeze": (becomes("frozen"),),
        "thaw": (becomes("back"),),
        "transition": (says("coordinator", lambda step: SHORT.get(str(step.data["to"]), "")),),
        "write": (arrives(_tx),),
        "marker": (hops("coordinator", "broker", "[kind=COMMIT?commit|abort]", "[kind=COMMIT?commit|abort]"),),
        "refuse": (falls(_tx, "refused"), says("broker", "[error?{error}|refused]", True)),
        "read": (hops("broker", WHO, "record", "{record}"),),
        "waits": (says(WHO, "waits at {at}"),),
        "release": (says("broker", "late messages arrive", True),),
        "late_marker": (hops("coordinator", "broker", "abort", "late abort"),),
        "effect": (hops("[by?{by}|producer]", "database", "[charged?effect|question]", "{record}"),),
        "commit_offsets": (hops(WHO, "coordinator", "commit", "{offset}"),),
    },
    _transaction_lines,
    still="open join commit end",
)
