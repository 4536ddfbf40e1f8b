"""A run as a few readable lines: which experiment, its seed and knobs, and what is done to it.

    # kit script 1
    answers_lost seed=3 records=20 idempotence=false
    lose answer 2
    delay request 4 by 200 ms

Such a script replays to the same trace wherever it is run: by `run(script=...)`, by `kit run --script FILE`, from a link,
or on a real broker. The first line names the version of this language and may be left out by hand; lines that begin with
"#" are comments. Knobs that are not named have their defaults. Nothing in a script is executed.

What a reader points at in a run and what is to be done to it is one more line: `lose answer N` on `answer:7` (`with_deed`).
A thing is named as pictures name it (`request:3`, `answer:producer 2/0`, `record:orders/0/17`, `tuple:5`, `process:broker`),
a deed by a line that the experiment takes. Everything is checked, as it comes from a browser.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from kitlib.errors import KnobError
from kitlib.experiments.interventions import MOST_MS, TO_A_PROCESS, Intervention, ScriptError, check_together
from kitlib.experiments.knobs import as_text, check_seed
from kitlib.text import plain_text
from kitlib.trace import Trace

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
