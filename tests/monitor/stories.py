"""Made-up stories for the verdict's tests: words of a trace in a row, 10 ms apart, in one partition."""

from __future__ import annotations

from typing import Any

from kitlib.monitor.delivery import LEDGERS, Verdict, judge
from kitlib.trace import Step, Trace
from kitlib.words import declare
from kitlib.words.offsets import COMPACTION
from kitlib.words.replication import REPLICATION
from kitlib.words.spout import SPOUT
from kitlib.words.topology import TOPOLOGY
from kitlib.words.word import Domain

# All words that a topology's rules judge, whichever domain says them.
TASKS = {name: TOPOLOGY.words[name] for name in ("execute", "send")}
DELIVERY = declare(Domain("delivery", {**REPLICATION.words, **COMPACTION.words, **SPOUT.words, **TASKS})).name
LEDGERS[DELIVERY] = LEDGERS["spout"]

Told = list[tuple[str, dict[str, Any]]]
APPEND: tuple[str, dict[str, Any]] = ("append", {"first": 0, "last": 9})
APPEND_2: tuple[str, dict[str, Any]] = ("append", {"first": 0, "last": 9, "parts": 2})
START: tuple[str, dict[str, Any]] = ("start", {"offset": 0, "stored": None, "why": "no stored offset"})


def each(what: str, offsets: list[int] | range, **data: Any) -> Told:
    return [(what, {"offset": offset, **data}) for offset in offsets]


def idle(times: int, at: int = 0) -> Told:
    return [("commit", {"offset": at, "written": False})] * times


def written(offset: int) -> Told:
    return [("commit", {"offset": offset, "written": True})]


def told(story: Told, domain: str = DELIVERY, **knobs: Any) -> Verdict:
    steps = [
        Step(number, 10 * number, data.get("who", "x"), what, {**data, "topic": "events", "partition": 0})
        for number, (what, data) in enumerate(story)
    ]
    return judge(Trace("r", "told", settings=knobs, steps=steps, domain=domain))
