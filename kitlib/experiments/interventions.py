"""What a script does to a run: a message lost, delayed or doubled, a record failed, a process broken.

An intervention names its target by what can be counted in the model and on a real broker alike, the request with
this number or the second attempt of a record, so that it meets the same thing in both. Only a process is
broken at a time, of the run's own clock.

    lose answer 7
    delay request 9 by 200 ms
    fail record 17 attempt 2
    break broker at 400 ms for 250 ms
    freeze A at 400 ms for 2000 ms
    kill A at 400 ms

Each kind of run declares the forms that it takes (`Run.takes`): the line above without its numbers, and with a word in
capitals where the run checks the name ("break TASK at T ms for D ms").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kitlib.errors import KnobError
from kitlib.text import plain_text

MOST_MS = 600_000  # of a delay, and of a break
OF_SOMEONE = ("request", "answer", "heartbeat", "commit")  # each sender counts its own
_ON_A_THING = re.compile(
    r"(?P<verb>lose|delay|double|fail) (?P<thing>[a-z]{1,40}(?: of [a-z]{1,40})?) (?P<number>\d{1,9})(?: attempt (?P<attempt>\d{1,6}))?"
    r"(?: of (?P<who>\S.{0,40}?))?(?: by (?P<ms>\d{1,9}) ms)?(?: once)?",
    re.ASCII,
)
TO_A_PROCESS = ("break", "freeze", "kill")  # killed for good
_ON_A_PROCESS = re.compile(
    rf"(?P<verb>{'|'.join(TO_A_PROCESS)}) (?P<process>\S.{{0,40}}?) at (?P<at>\d{{1,9}}) ms(?: for (?P<ms>\d{{1,9}}) ms)?", re.ASCII
)
GRAMMAR = (
    "lose, delay, double or fail, then a message that the story has and its number "
    '("lose answer 7", "delay request 9 by 200 ms", "fail record 17 attempt 2"), or "break broker at 400 ms for 250 ms"'
)


class ScriptError(KnobError):
    """A run's script cannot be read, or does not fit its experiment."""


class MissedError(ScriptError):
    """A line of a script met nothing: its message never came, or its process was not there."""


@dataclass(frozen=True, slots=True)
class Intervention:
    """One thing that is done to a run; `parse` reads it, `str` writes it."""

    verb: str  # "lose", "delay", "double", "fail", "break", "freeze", "kill"
    target: str  # "answer 7", "request 3 of producer 2", "record 17 attempt 2", or a process
    ms: int | None = None  # of a delay: how much later; to a process: for how long, None: until the run itself mends it
    at_ms: int = 0  # when it is done to a process

    @classmethod
    def parse(cls, line: str) -> Intervention:
        """The intervention that a line says. ScriptError when it says none, or one with a number out of its range."""
        words = " ".join(line.split())
        if found := _ON_A_PROCESS.fullmatch(words):
            if found["verb"] == "freeze" and found["ms"] is None:
                raise ScriptError(f'got {_quoted(line)}, expected for how long it stands still, as in "for 2000 ms".')
            if found["verb"] == "kill" and found["ms"] is not None:
                raise ScriptError(f'got {_quoted(line)}, but what is killed does not come back. Leave "for {found["ms"]} ms" out.')
            ms = None if found["ms"] is None else _ms(words, found["ms"])
            return cls(found["verb"], found["process"], ms, int(found["at"]))
        found = _ON_A_THING.fullmatch(words)
        if found is None:
            raise ScriptError(f"got {_quoted(line)}, expected {GRAMMAR}.")
        if (found["verb"] == "delay") != (found["ms"] is not None):
            raise ScriptError(
                f'got {_quoted(line)}, expected how much later, as in "delay {found["thing"]} {int(found["number"])} by 200 ms".'
                if found["verb"] == "delay"
                else f'got {_quoted(line)}, but only a delay is "by" some ms. Leave that out.'
            )
        target = f"{found['thing']} {int(found['number'])}"
        if found["attempt"] is not None:
            if "record" not in found["thing"] or not int(found["attempt"]):
                raise ScriptError(f"got {_quoted(line)}, but only a record has attempts, from 1 on. Leave that out.")
            target += f" attempt {int(found['attempt'])}" if int(found["attempt"]) > 1 else ""
        if found["who"] is not None:
            if found["thing"] not in OF_SOMEONE:
                raise ScriptError(f'got {_quoted(line)}, but only a {", ".join(OF_SOMEONE)} is "of" someone. Leave that out.')
            target += f" of {found['who']}" if found["who"] != "producer" else ""
        return cls(found["verb"], target, None if found["ms"] is None else _ms(words, found["ms"]))

    def __str__(self) -> str:
        if self.is_to_process:
            return f"{self.verb} {self.target} at {self.at_ms} ms" + (f" for {self.ms} ms" if self.ms is not None else "")
        return f"{self.verb} {self.target}" + (f" by {self.ms} ms" if self.ms is not None else "")

    @property
    def is_to_process(self) -> bool:
        """Whether it is done to a process, at a time; else it is done to a message."""
        return self.verb in TO_A_PROCESS

    @property
    def thing(self) -> str:
        """What it is done to, without a number: "answer", "ack of record"; "" for a process."""
        return "" if self.is_to_process else re.split(r" \d", self.target, maxsplit=1)[0]

    def is_one_of(self, takes: Sequence[str]) -> bool:
        """Whether a run with these forms takes it; a word in capitals stands for any process, whose name the run checks."""
        if not self.is_to_process:
            return any(form.startswith(f"{self.verb} {self.thing} N") for form in takes)
        forms = [form.partition(" at T ")[0] for form in takes]
        return any(form == f"{self.verb} {self.target}" or re.fullmatch(rf"{self.verb} [A-Z]+", form) for form in forms)


def _ms(line: str, text: str) -> int:
    if not 1 <= int(text) <= MOST_MS:
        raise ScriptError(f"got {_quoted(line)}, expected 1 to {MOST_MS:,} ms.")
    return int(text)


def _quoted(line: str) -> str:
    return f'"{plain_text(" ".join(line.split()), 80)}"'


def check_together(interventions: Sequence[Intervention]) -> None:
    """ScriptError when two of them are about the same message, or a process is broken while it is down."""
    targets: dict[str, Intervention] = {}
    for each in interventions:
        before = targets.setdefault(each.target, each)
        if before is not each and not each.is_to_process:
            raise ScriptError(f'"{before}" and "{each}" are about the same thing. Keep one of them.')
    breaks = sorted((each for each in interventions if each.is_to_process), key=lambda each: (each.target, each.at_ms))
    for one, other in pairwise(breaks):
        if one.target == other.target and other.at_ms <= one.at_ms + (one.ms or 0):
            raise ScriptError(f'"{other}" comes while {plain_text(one.target, 40)} is still down after "{one}". Keep one of them.')


@dataclass(slots=True)
class Interventions:
    """The interventions of one run, and which of them it has met."""

    by_target: dict[str, Intervention] = field(default_factory=dict)  # of messages
    breaks: list[Intervention] = field(default_factory=list)  # those to come, the next one first
    left: set[Intervention] = field(default_factory=set)  # those that have not happened
    seen: dict[str, tuple[str, int]] = field(default_factory=dict)  # target -> (thing, number) of each message that the run has had
    mends: list[tuple[int, Intervention]] = field(default_factory=list)  # (ms, what ends then) of those that `next_turn` has told

    @classmethod
    def of(cls, interventions: Iterable[Intervention]) -> Interventions:
        """Those of a script; ScriptError as `check_together`."""
        given = list(interventions)
        check_together(given)
        breaks = sorted((each for each in given if each.is_to_process), key=lambda each: each.at_ms)
        return cls({each.target: each for each in given if not each.is_to_process}, breaks, set(given))

    def on(self, thing: str, number: int, tail: str = "") -> Intervention | None:
        """What is to be done to this message, which the run has now; it has happened then."""
        target = f"{thing} {number}{tail}"
        self.seen[target] = thing, number
        found = self.by_target.get(target)
        if found is not None:
            self.left.discard(found)
        return found

    @property
    def turn_ms(self) -> int | None:
        """When something is to be done to a process next, or is to end."""
        due = self.breaks or self.mends
        return min([each.at_ms for each in self.breaks[:1]] + [ms for ms, _ in self.mends[:1]]) if due else None

    def next_turn(self, now_ms: int) -> tuple[Intervention, bool] | None:
        """What is to be done to a process by now, and whether it begins; else it ends, as its time is over."""
        mend_ms = self.mends[0][0] if self.mends else None
        if mend_ms is not None and mend_ms <= now_ms and (not self.breaks or mend_ms <= self.breaks[0].at_ms):
            return self.mends.pop(0)[1], False
        if not self.breaks or self.breaks[0].at_ms > now_ms:
            return None
        found = self.breaks.pop(0)
        self.left.discard(found)
        if found.ms is not None:
            self.mends = sorted([*self.mends, (now_ms + found.ms, found)], key=lambda each: each[0])  # one that begins late takes its time
        return found, True

    def _why_not(self, missed: Intervention) -> str:
        """Why it never happened, as far as the numbers that the run has had can tell."""
        thing = missed.thing.replace("ack of", "acked")
        last = max((number for had, number in self.seen.values() if had == missed.thing), default=None)
        which = missed.target.removeprefix(missed.thing).strip()  # "7", "7 attempt 2", "3 of producer 2"
        if last is None:
            return f"this run has no {thing}"
        if int(which.split()[0]) > last:
            return f"the last {thing} of this run is number {last}"
        return "it did not come to that attempt" if " attempt " in which else f"this run has no {thing} {which}"

    def check_met(self, where: str, now_ms: int) -> None:
        """ScriptError when one of them never happened: it names what the run has not."""
        for each in sorted(self.left, key=str):
            if each.is_to_process:
                had = f"the run was over at {now_ms:,} ms"
            else:
                had = self._why_not(each)
            raise MissedError(f'{where}: "{each}" never happened: {had}. Change that line of the script, or leave it out.')
