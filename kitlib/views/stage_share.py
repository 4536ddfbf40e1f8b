"""The stage of a share group: the broker hands records to consumers, and each answers for what it has."""

from __future__ import annotations

from typing import Any

from kitlib.trace import Step
from kitlib.views.stage import ACK, AGAIN, DOWN, FAIL, FROZEN, RECORD, REFUSED, Part, Play, Setting, Style
from kitlib.views.stage_deeds import (
    NOTHING,
    WHO,
    arrives,
    becomes,
    drops,
    effect,
    hops,
    leaves,
    loses_all,
    many,
    offset_of,
    record_ref,
    says,
    size_of,
    span_of,
)


def _delivery(step: Step) -> tuple[Any, ...]:
    return "delivery", step.actor, step.data["offset"]


def _style(step: Step) -> Style:
    return RECORD if step.data["delivery"] == 1 else AGAIN


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
        "append": (says("log", lambda step: f"+ {many(step)} appended"),),
        "start": NOTHING,
        "acquire": (hops("log", "broker", RECORD, offset_of, record_ref), leaves("broker", WHO, _style, _delivery, offset_of, record_ref)),
        "process": (arrives(_delivery), effect("effects")),
        "fail": (arrives(_delivery), says(WHO, lambda step: f"cannot do {step.data['offset']}", True)),
        "accept": (hops(WHO, "broker", ACK, "", record_ref),),
        "release": (hops(WHO, "broker", FAIL, "", record_ref),),
        "reject": (hops(WHO, "broker", FAIL, "", record_ref), drops("broker", offset_of)),
        "renew": (hops(WHO, "broker", ACK, "", record_ref),),
        "refused": (hops(WHO, "broker", ACK, span_of, "", REFUSED), says("broker", "too late", True)),
        "ignored": (hops(WHO, "broker", ACK, "", record_ref, REFUSED),),
        "time_out": (says("broker", lambda step: f"{step.data['member']}: lock on {step.data['offset']} over", True),),
        "hand_back": (says("broker", lambda step: f"{step.data['member']} is gone", True),),
        "archive": (drops("broker", offset_of), says("broker", lambda step: f"archives {step.data['offset']}", True)),
        "full": (says("broker", lambda step: f"all {step.data['locks']} locks taken", True),),
        "move": (says("broker", lambda step: f"starts at {step.data['offset']}"),),
        "kill": (becomes(DOWN), loses_all()),
        "freeze": (becomes(FROZEN),),
        "end": NOTHING,
    },
    _lines,
)
