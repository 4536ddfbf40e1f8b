"""The stage of transactions: producers, their coordinator, the log and its readers."""

from __future__ import annotations

from typing import Any

from kitlib.trace import Step
from kitlib.views.stage.deeds import (
    WHO,
    arrives,
    becomes,
    falls,
    hops,
    leaves,
    says,
    span_of,
)
from kitlib.views.stage.score import Part, Play, Setting


def _tx(step: Step) -> tuple[Any, ...]:
    return "send", step.data.get("first"), step.data.get("tx")


def _by(step: Step) -> str:
    return str(step.data["by"])


def _lost(play: Play, step: Step) -> None:
    key = ("lost", step.number)
    play.leave(key, _by(step), "broker" if step.data["api"] == "Produce" else "coordinator", "request", str(step.data["api"]))
    play.fall(key)


def _identified(play: Play, step: Step) -> None:
    play.be(step.actor, "up")
    play.hop("coordinator", step.actor, "answer", f"epoch {step.data['epoch']}")


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
        "id": (_identified,),
        "begin": (says(WHO, "begins transaction {tx}"),),
        "send": (leaves(WHO, "broker", "[tx?request|record]", _tx, span_of),),
        "send_offsets": (hops(WHO, "coordinator", "commit", "{offset}"),),
        "commit_tx": (hops("coordinator", WHO, "ack", "", "transaction:{tx}"), says(WHO, "committed")),
        "abort_tx": (hops("coordinator", WHO, "fail", "", "transaction:{tx}"), says(WHO, "aborted", True)),
        "fenced": (becomes("fenced"), says(WHO, "fenced", True)),
        "unknown": (says(WHO, "[error?{error}|error]", True),),
        "kill": (becomes("down"), says(WHO, "its transaction stays open", True)),
        "lose_request": (_lost,),
        "lose_answer": (says(_by, "no answer to {api}", True),),
        "duplicate_request": (says(_by, "{api} comes twice"),),
        "delay": (says(_by, "{api} is late"),),
        "down": (becomes("down", "broker", "coordinator"),),
        "restart": (becomes("back", "broker", "coordinator"),),
        "freeze": (becomes("frozen"),),
        "thaw": (becomes("back"),),
        "transition": (says("coordinator", _transition, False),),
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
