"""What a step may do on the stage, as pieces that the rows of its tables are made of, and what rows read from a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Step, Trace
from kitlib.views.stage.score import BACK_S, Deed, Fate, Play, State
from kitlib.words import template

MOST_LABEL = 18  # characters
MOST_SHOWN = 40  # things that one step lets fall, one by one

NO_MEMBERS = r"log|coordinator.*|zookeeper|operator|monitor|table|group|topic|run|controller|broker.*|effects|.* \d+"


WHO = "*"  # stands for the actor of the step
Value = Callable[[Step], Any]
Name = str | Value


def reads(text: Name) -> Value:
    """What a step says: by a function, or as a template tells it (`kitlib.words.template`); WHO is who acts."""
    if not isinstance(text, str):
        return text
    told = template.teller("{who}" if text == WHO else text)
    return lambda step: told(step.actor, step.data)


def is_refused(step: Step) -> bool:
    """Whether what it asks for is refused with an error."""
    return template.says(step.data.get("error"))


def _label(text: Name) -> Value:
    told = reads(text)
    return lambda step: plain_text(told(step), MOST_LABEL)


def hops(source: Name, target: Name, style: Name, label: Name = "", ref: Name = "", fate: Fate = "arrived") -> Deed:
    """Something crosses from one actor to another one."""
    begin, end, look, told, about = reads(source), reads(target), reads(style), _label(label), reads(ref)
    return lambda play, step: play.hop(begin(step), end(step), look(step), told(step), about(step), fate)


def leaves(source: Name, target: Name, style: Name, key: Name, label: Name = "", ref: Name = "") -> Deed:
    """Something sets off, and a later step says when it arrives."""
    begin, end, look, told, about, named = reads(source), reads(target), reads(style), _label(label), reads(ref), reads(key)
    return lambda play, step: play.leave(named(step), begin(step), end(step), look(step), told(step), about(step))


def arrives(key: Name) -> Deed:
    """What set off with this key is there."""
    named = reads(key)
    return lambda play, step: play.arrive(named(step))


def falls(key: Name, fate: Fate = "lost") -> Deed:
    """What set off with this key is lost on its way."""
    named = reads(key)
    return lambda play, step: play.fall(named(step), fate)


def drops(name: Name, label: Name) -> Deed:
    """Something falls off an actor; "" nothing does."""
    who, told = reads(name), _label(label)

    def deed(play: Play, step: Step) -> None:
        if what := told(step):
            play.fall_from(who(step), what)

    return deed


def says(name: Name, text: Name, is_alarm: bool = False) -> Deed:
    """A bubble over an actor; "" is none."""
    who, told = reads(name), reads(text)
    return lambda play, step: play.say(who(step), told(step), is_alarm)


def becomes(state: State, *names: Name) -> Deed:
    """The step's actor (or those named) goes into a state."""
    whom = [reads(name) for name in names or (WHO,)]

    def deed(play: Play, step: Step) -> None:
        for name in whom:
            play.be(name(step), state)

    return deed


def blinks(name: Name) -> Deed:
    """An actor is back; one that was not down until now dies in the same step."""
    named = reads(name)

    def deed(play: Play, step: Step) -> None:
        who = named(step)
        was_up = play.has(who) and play.stage.actors[who].is_up
        play.be(who, "down")
        play.be(who, "back", after=BACK_S if was_up else 0.0)

    return deed


def loses_all(*names: Name) -> Deed:
    """Whatever is under way from or to these actors falls."""
    whom = [reads(name) for name in names or (WHO,)]

    def deed(play: Play, step: Step) -> None:
        lost = {name(step) for name in whom}
        for key, waiting in list(play.open.items()):
            if any(under.source in lost or under.target in lost for under in waiting):
                first = waiting[0]
                play.fall(key, "dropped", first.target if first.target in lost else first.source)

    return deed


def times(number: int) -> str:
    return f"× {number:,}" if number > 1 else ""


def span_of(step: Step) -> str:
    first, last = step.data.get("first"), step.data.get("last")
    return "" if first is None else f"{first}" if first == last else f"{first}-{last}"


def record_ref(step: Step) -> str:
    data = step.data
    return f"record:{data['topic']}/{data['partition']}/{data['offset']}" if "topic" in data else ""


def tuple_key(step: Step) -> tuple[Any, ...]:
    return "tuple", step.data.get("topic"), step.data.get("partition"), step.data["offset"]


def many(step: Step) -> str:
    return times(step.data["last"] - step.data["first"] + 1) or f"{step.data['first']}"


def appended(step: Step) -> str:
    """`40 records appended`, `record 5 appended`."""
    first, last = step.data["first"], step.data["last"]
    number = len(step.data["offsets"]) if "offsets" in step.data else last - first + 1
    return f"{number:,} records appended" if number != 1 else f"record {first} appended"


def effect(store: str) -> Deed:
    """An effect of a record happens; the second one of the same part of it is another colour."""

    def deed(play: Play, step: Step) -> None:
        key = ("done", step.data.get("topic"), step.data.get("partition"), step.data["offset"], step.data.get("part", 0))
        again = play.memory.get(key, 0)
        play.memory[key] = again + 1
        made, copies = play.memory.get("effects", (0, 0))
        made, copies = play.memory["effects"] = (made + 1, copies + (again > 0))
        play.show(store, f"{made:,}, {copies:,} again" if copies else f"{made:,}")
        play.hop(step.actor, store, "copy" if again else "effect", f"{step.data['offset']}" if again else "", record_ref(step))

    return deed


def acts(trace: Trace, name: str) -> bool:
    return any(step.actor == name for step in trace.steps)


def partitions_of(trace: Trace) -> list[str]:
    found = {
        (str(step.data["topic"]), step.data["partition"]) for step in trace.steps if "topic" in step.data and "partition" in step.data
    }
    return [f"{topic} {number}" for topic, number in sorted(found, key=str)]


def place_of(step: Step) -> str:
    return f"{step.data.get('topic')} {step.data.get('partition')}"
