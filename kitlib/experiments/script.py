"""A run as a few readable lines: which experiment, its seed and knobs, and what is done to it.

    # kit script 1
    answers_lost seed=3 records=20 idempotence=false
    lose answer 2
    delay request 4 by 200 ms
    break broker at 400 ms for 250 ms

Such a script replays to the same trace wherever it is run: by `run(script=...)`, by `kit run --script FILE`, from a link,
or on a real broker. The first line names the version of this language and may be left out by hand; lines that begin with
"#" are comments. Knobs that are not named have their defaults. Nothing in a script is executed.

What is done to a run are interventions: a message lost, delayed or doubled, a record failed (`fail record 17 attempt 2`), a process
broken, frozen or killed. An intervention names its target by what can be counted in the model and on a real broker alike, the
request with this number or the second attempt of a record, so that it meets the same thing in both. Only to a process something
is done at a time, of the run's own clock. Each kind of run declares the forms that it takes (`Run.takes`): the line above without
its numbers, and with a word in capitals where the run checks the name ("break TASK at T ms for D ms").

What a reader points at in a run and what is to be done to it is one more line: `lose answer N` on `answer:7` (`with_deed`).
A thing is named as pictures name it (`request:3`, `answer:producer 2/0`, `record:orders/0/17`, `tuple:5`, `process:broker`),
a deed by a line that the experiment takes. Everything is checked, as it comes from a browser.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from kitlib.errors import KnobError
from kitlib.experiments.knobs import as_text, check_seed
from kitlib.text import plain_text
from kitlib.trace import Trace

MOST_MS = 600_000  # of a delay, and of a break
_ON_A_THING = re.compile(
    r"(?P<verb>lose|delay|double|fail) (?P<thing>[a-z]{1,40}(?: of [a-z]{1,40})?) (?P<number>\d{1,9})"
    r"(?: attempt (?P<attempt>[1-9]\d{0,5}))?(?: of (?P<who>\S.{0,40}?))?(?: by (?P<ms>\d{1,9}) ms)?(?: once)?",
    re.ASCII,
)
TO_A_PROCESS = ("break", "freeze", "kill")  # killed for good
_ON_A_PROCESS = re.compile(
    rf"(?P<verb>{'|'.join(TO_A_PROCESS)}) (?P<process>\S.{{0,40}}?) at (?P<at>\d{{1,9}}) ms(?: for (?P<ms>\d{{1,9}}) ms)?", re.ASCII
)
LASTING, ENDED_BY_THE_RUN = ("delay", "freeze"), "break"  # those that say for how long; one that may
GRAMMAR = (
    "lose, delay, double or fail, then a message that the story has and its number "
    '("lose answer 7", "delay request 9 by 200 ms", "fail record 17 attempt 2"), or break, freeze or kill, then a process '
    '("break broker at 400 ms for 250 ms", "freeze A at 400 ms for 2000 ms", "kill A at 400 ms")'
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
        found = _ON_A_PROCESS.fullmatch(words) or _ON_A_THING.fullmatch(words)
        if found is None or (found["verb"] != ENDED_BY_THE_RUN and (found["verb"] in LASTING) != (found["ms"] is not None)):
            raise ScriptError(f"got {_quoted(line)}, expected {GRAMMAR}.")
        ms = None if found["ms"] is None else _ms(words, found["ms"])
        if found["verb"] in TO_A_PROCESS:
            return cls(found["verb"], found["process"], ms, int(found["at"]))
        target = f"{found['thing']} {int(found['number'])}"
        if int(found["attempt"] or 1) > 1:
            target += f" attempt {int(found['attempt'])}"
        if found["who"] not in (None, "producer"):  # the first one's names stand alone
            target += f" of {found['who']}"
        return cls(found["verb"], target, ms)

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


VERSION = 1
MOST_CHARS = 20_000
MOST_LINES = 200
FIRST = "# kit script"
_FIRST = re.compile(r"#\s*kit script\b(?P<version>.*)", re.IGNORECASE)
_KNOB = re.compile(r"(?P<name>\w+)=(?P<value>.*)", re.ASCII)
EXAMPLE = "answers_lost seed=3 records=20"


@dataclass(frozen=True, slots=True)
class Script:
    """An experiment with its seed, the knobs that are not at their defaults, and the interventions in their order."""

    experiment: str
    seed: int = 1
    knobs: Mapping[str, Any] = field(default_factory=dict)
    interventions: tuple[Intervention, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Script:
        """The script that this text says, checked against its experiment. ScriptError that names the line, what it says
        and what is expected.
        """
        if not isinstance(text, str):
            raise ScriptError(f"a script is a text or a Script, got {plain_text(repr(text), 40)}.")
        if len(text) > MOST_CHARS or text.count("\n") > 2 * MOST_LINES:
            raise ScriptError(f"a script has at most {MOST_CHARS:,} characters and {MOST_LINES} interventions; this one is longer.")
        script: Script | None = None
        for number, line in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
            try:
                if found := _FIRST.fullmatch(line.strip()):
                    _check_version(found["version"].strip())
                elif line.strip() and not line.lstrip().startswith("#"):
                    script = _begin(line) if script is None else script.having(line)
            except ScriptError as error:
                raise ScriptError(f"script, line {number}: {error}") from None
        if script is None:
            raise ScriptError(f'the script names no experiment. Expected a line such as "{EXAMPLE}".')
        return script

    @classmethod
    def made(cls, experiment: str, seed: int = 1, knobs: Mapping[str, Any] | None = None) -> Script:
        """The script of an experiment with these knobs. KnobError for an unknown experiment, and for a bad knob or seed."""
        from kitlib.experiments import get

        found = get(experiment)
        return cls(found.name, check_seed(seed, found.name), found.changed(knobs or {}))

    @classmethod
    def of(cls, trace: Trace) -> Script:
        """The script of a run that was recorded. ScriptError when its experiment is not one of these, or it is a fork."""
        from kitlib.experiments import get

        if trace.parent is not None:
            run = plain_text(trace.run, 80)
            raise ScriptError(f"run {run} is a fork, which no script tells of. Take the script of the run it came from.")
        with _in_a_script():
            found = get(plain_text(trace.experiment, 60))
        try:
            script = cls(found.name, trace.seed, found.changed(trace.settings))
        except KnobError as error:
            raise ScriptError(f"run {plain_text(trace.run, 80)} was recorded with other knobs than today's: {error}") from None
        for line in trace.script:
            script = script.having(line)
        return script

    def having(self, line: str) -> Script:
        """The same script with one more intervention. ScriptError for one that cannot be read, or that the experiment does not take."""
        from kitlib.experiments import get

        found = Intervention.parse(line)
        with _in_a_script():
            get(plain_text(self.experiment, 60)).check_takes(found)
        together = (*self.interventions, found)
        if len(together) > MOST_LINES:
            raise ScriptError(f"a script has at most {MOST_LINES} interventions.")
        check_together(together)
        return replace(self, interventions=together)

    def __str__(self) -> str:
        told = [f"{name}={shlex.quote(as_text(value))}" for name, value in self.knobs.items()]
        return "\n".join([f"{FIRST} {VERSION}", " ".join([self.experiment, f"seed={self.seed}", *told]), *map(str, self.interventions)])


def _check_version(version: str) -> None:
    if version != str(VERSION):
        raise ScriptError(
            f'got version "{plain_text(version, 20)}" of the language of scripts, expected {VERSION}. '
            "Write the script anew with this kit (`kit run --print-script`), or use the kit that wrote it."
        )


def _begin(line: str) -> Script:
    """The script that a line with an experiment, its seed and knobs begins."""
    from kitlib.experiments import get

    try:
        name, *words = shlex.split(line)
    except ValueError:
        raise ScriptError(f'got "{plain_text(line.strip(), 80)}", where a quotation mark is not closed. Close it.') from None
    with _in_a_script():
        found = get(plain_text(name, 60))
    given: dict[str, str] = {}
    for word in words:
        knob = _KNOB.fullmatch(word)
        if knob is None:
            raise ScriptError(f'got "{plain_text(word, 60)}" behind {found.name}, expected knob=value, as in "{EXAMPLE}".')
        if knob["name"] in given:
            raise ScriptError(f"{knob['name']} is given twice. Keep one of them.")
        given[knob["name"]] = knob["value"]
    seed = given.pop("seed", "1")
    if not (seed.isascii() and seed.isdigit() and int(seed[:20]) < 2**63 and len(seed) < 20):
        raise ScriptError(f'seed is "{plain_text(seed, 40)}", expected a whole number from 0 to 2^63 - 1.')
    with _in_a_script():
        return Script(found.name, int(seed), found.changed(given))


@contextmanager
def _in_a_script() -> Iterator[None]:
    """What is wrong with an experiment's name or knobs is wrong with the script."""
    try:
        yield
    except KnobError as error:
        raise ScriptError(str(error)) from None


MEND = "mend"
KINDS = ("request", "answer", "tuple", "record")  # of things that a line calls by a number


def with_deed(script: Script, trace: Trace, form: str, ref: str, at: int, ms: int = 0) -> Script:
    """The script with a deed on this thing, as of step `at` of its trace; what was done to the same message before is dropped.

    `form` is a line that the experiment takes, or "mend"; `ms` is how much later a message is delivered, and for how long a
    process stands still. ScriptError for a form that is not taken or does not go with the thing, and TraceError when there is
    no such step.
    """
    now_ms, (kind, _, name) = trace.at(at).at_ms, ref.partition(":")
    if form == MEND:
        return _mended(script, name, now_ms)
    verb, _, rest = form.partition(" ")
    if verb in TO_A_PROCESS and kind == "process":  # what has happened by now stays
        return script.having(f"{verb} {name} at {now_ms + 1} ms" + (f" for {ms} ms" if verb == "freeze" else ""))
    thing = next((thing for thing in (f"ack of {kind}", kind) if kind in KINDS and rest.startswith(f"{thing} N")), "")
    if not thing:
        raise ScriptError(f'"{plain_text(form, 60)}" cannot be done to {plain_text(ref, 60)}. Choose another thing, or another deed.')
    place, _, number = name.rpartition("/")
    target = f"{thing} {number}"
    if kind == "record":
        attempt = sum(step.what == "emit" and f"{step.data.get('offset')}" == number for step in trace.steps[: at + 1])
        target += f" attempt {attempt}" if attempt > 1 else ""
    elif place:
        target += f" of {place}"
    line = f"{verb} {target}" + (f" by {ms} ms" if "by D ms" in form else "")
    others = tuple(each for each in script.interventions if each.target != target)
    return replace(script, interventions=others).having(line)


def down_since(script: Script, name: str, now_ms: int) -> int | None:
    """Since when a process is broken that the script broke and that is still down; None when it is up."""
    return next(
        (each.at_ms for each in script.interventions
         if each.verb == "break" and each.target == name and each.at_ms <= now_ms and (each.ms is None or now_ms < each.at_ms + each.ms)),
        None,
    )  # fmt: skip


def _mended(script: Script, name: str, now_ms: int) -> Script:
    since = down_since(script, name, now_ms)
    if since is None:
        raise ScriptError(f"{plain_text(name, 40)} is not broken at {now_ms:,} ms. Go to a moment at which it is, or break it first.")
    ms = min(max(1, now_ms - since), MOST_MS)
    return replace(script, interventions=tuple(
        replace(each, ms=ms) if each.verb == "break" and each.target == name and each.at_ms == since else each
        for each in script.interventions
    ))  # fmt: skip
