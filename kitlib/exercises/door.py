"""One door for a learner's code: what replays the recordings of an original in `kitlib.conformance` judges an exercise's class or function.

The recorded scripts are played on the learner's code in a process of its own; what the original did stays here. After each step both
sides are seen in the same words, a dict by name. The first field that differs is told in a sentence, and the shortest history that
shows a difference is searched: a recorded one, with calls left out and numbers made smaller while it still shows one (ddmin, Zeller
and Hildebrandt 2002). Its picture is a table: what the original and the learner's code have after each call.

An answer must be the learner's own: not the kit's class, and not built on it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

from kitlib.conformance.golden import ABSENT, first_field
from kitlib.exercises import prose, sandbox
from kitlib.exercises.answers import HalfRight, NotYet, Reader
from kitlib.exercises.frame import Exercise, Rows, unbroken
from kitlib.exercises.sandbox import told
from kitlib.text import plain_text
from kitlib.trace import Trace, to_ranges
from kitlib.views import show

KITS = "this is the kit's own, or built on it.", "Write each method yourself."
RAISED = "raised"
FEWEST, SECONDS, ROUNDS = 3, 2.0, 20  # recorded histories that are made smaller, the time for it, and how often numbers become simpler
LARGE = 2**32  # from here on numbers are random ones, of which no sum may be another one

Script = dict[str, Any]  # name, meaning, config and steps: {op, args, and what the original did}
Step = dict[str, Any]
Seen = dict[str, Any]  # by its name what others see after a step; None: the learner's code does not show it, which is right


@dataclass(frozen=True, slots=True)
class Recording:
    """One original's recorded scripts, how a learner's code goes through them, and the words for it."""

    name: str  # where this is: module:name
    scripts: Callable[[], Sequence[Script]]
    replay: Callable[[Script, Any], Iterator[Step]]  # what the learner's code did at each step; runs in their process
    seen: Callable[[Script, Step], Seen]  # what is seen of a step, recorded or replayed
    exercise: str  # whose right answer repeats every step
    call: Callable[[Step], str]  # a step as a learner would write it
    kits: tuple[str, ...]  # module:name of what the kit has of it, which is not the learner's to use
    original: str = "Storm 0.9.3"
    settings: Mapping[str, tuple[str, Any]] = field(default_factory=dict)  # recorded word -> the learner's, and what goes without saying
    begin: Callable[[Script], list[str]] = lambda script: []  # what else of a script's beginning matters
    quiet: str = ""  # an operation that is told with the call before it

    @property
    def right(self) -> Any:
        """An answer that repeats every step."""
        return prose.answers()[self.exercise].solution

    def given(self, script: Script) -> list[str]:
        """With what a script begins, where that does not go without saying."""
        named = ((ours, script["config"].get(theirs, plain), plain) for theirs, (ours, plain) in self.settings.items())
        return [f"{name}={value}" for name, value, plain in named if value != plain] + self.begin(script)


def differing(wanted: Seen, got: Seen) -> tuple[str, str]:
    """How what is seen is not what it should be: of which kind the difference is, and in words; both are empty when it is."""
    if RAISED in got:
        return RAISED, f"your code raised {plain_text(got[RAISED], 240)}"
    found = first_field(wanted, shown_of(wanted, got), "")
    return (kind_of(found[0]), worded(*found)) if found else ("", "")


def kind_of(path: str) -> str:
    """A field, whichever tree, request or partition it is about."""
    return re.sub(r"\d+", "", path)


def shown_of(wanted: Seen, got: Seen) -> Seen:
    """What is seen of a learner's code; where it shows nothing, what should be seen."""
    return {name: wanted.get(name) if value is None else value for name, value in got.items()}


def worded(path: str, right: Any, had: Any) -> str:
    """One field that differs."""
    *above, name = path.split(".")
    is_entry = isinstance(right, dict) or isinstance(had, dict)
    what = name if is_entry or not above else f"{name} of {above[-1]}"
    if right is ABSENT:
        return f"there should be no {what}; yours has {tell(had)}"
    return f"{what} should now be {tell(right)}; yours {'has none' if had is ABSENT else f'is {tell(had)}'}"


def tell(value: Any) -> str:
    """A value of what is seen, in words."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {tell(each)}" for name, each in value.items()) or "nothing"
    if isinstance(value, list) and value and all(type(each) is int for each in value) and value == sorted(value):
        return plain_text("{" + ", ".join(f"{a}" if a == b else f"{a}..{b}" for a, b in to_ranges(value)) + "}", 120)
    return plain_text((", ".join(map(tell, value)) or "nothing") if isinstance(value, list) else value, 120)


# In the learner's process.


def named(where: str) -> Any:
    """What stands at module:name or module:name.attribute."""
    module, _, path = where.partition(":")
    found: Any = import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def play(make: Any, script: Script) -> Iterator[Seen]:
    """What is seen of the learner's code after each step."""
    recording: Recording = named(script["recording"])
    for done in recording.replay(script, make):
        yield recording.seen(script, done)


def played(recording: Recording, make: Any, script: Script) -> list[Seen]:
    """The same at once; the last one is `{"raised": ...}` where the code raised."""
    found: list[Seen] = []
    try:
        for done in recording.replay(script, make):
            found.append(recording.seen(script, done))
    except Exception as error:  # noqa: BLE001 - the learner's code may raise anything
        found.append({RAISED: told(error)[1]})
    return found


def shrink(make: Any, asked: Script) -> Iterator[dict[str, Any]]:
    """The shortest script found on which the two part in the same way, and what is seen of the learner's code."""
    recording: Recording = named(asked["recording"])
    until = time.monotonic() + SECONDS

    def differs(script: Script) -> int | None:
        if time.monotonic() > until:
            return None
        pairs = zip(played(recording, recording.right, script), played(recording, make, script), strict=False)
        kinds = ((at, differing(right, got)[0] if RAISED not in right else "") for at, (right, got) in enumerate(pairs))
        at, kind = next((each for each in kinds if each[1]), (0, ""))
        return at if kind == asked["kind"] else None

    small = min((ddmin(each, differs) for each in asked["scripts"]), key=lambda each: len(each["steps"]))
    for _ in range(ROUNDS):
        better = next((each for each in simpler(recording, small) if each != small and differs(each) is not None), None)
        if better is None:
            break
        small = ddmin(better, differs)
    yield {"script": small, "got": played(recording, make, small)}


def ddmin(script: Script, differs: Callable[[Script], int | None]) -> Script:
    """A part of the steps on which the two still differ, at its last step; leaving out any one more of them, they agree."""
    at, parts = differs(script), 2
    steps = script["steps"] if at is None else script["steps"][: at + 1]
    while len(steps) > 1:
        size = -(-len(steps) // parts)
        for start in range(0, len(steps), size):
            rest = steps[:start] + steps[start + size :]
            at = differs({**script, "steps": rest})
            if at is not None:
                steps, parts = rest[: at + 1], max(parts - 1, 2)
                break
        else:
            if parts >= len(steps):
                break
            parts = min(2 * parts, len(steps))
    return {**script, "steps": steps}


def simpler(recording: Recording, script: Script) -> Iterator[Script]:
    """The same with one setting that goes without saying, or with 1, 2, 3, ... as the values of one argument."""
    config, steps = script["config"], script["steps"]
    for name, (_, plain) in recording.settings.items():
        if config.get(name, plain) != plain:
            yield {**script, "config": {**config, name: plain}}
    for name in sorted({name for step in steps for name in step["args"]}):
        values = [step["args"][name] for step in steps if type(step["args"].get(name)) is int]
        is_random = any(abs(value) > LARGE for value in values)
        small = {value: 2**number // 2 if is_random else number for number, value in enumerate(dict.fromkeys(values), 1)}
        yield {**script, "steps": [
            {**step, "args": {**step["args"], name: small[step["args"][name]]}} if step["args"].get(name) in values else step
            for step in steps
        ]}  # fmt: skip


# In ours.


def operations(script: Script) -> Script:
    """A script without anything that the original did: what the learner's process is given."""
    return {**script, "steps": [{"op": step["op"], "args": step["args"]} for step in script["steps"]]}


def built_on(answer: Any, kits: Sequence[str]) -> bool:
    """Whether the answer is one of these, has one as its own method, or is a subclass of one."""
    own = [named(each) for each in kits]
    has = any(each in (answer, getattr(answer, each.__name__, None)) for each in own)
    return has or (isinstance(answer, type) and issubclass(answer, tuple(each for each in own if isinstance(each, type))))


def first_difference(recording: Recording, make: Any) -> NotYet | None:
    """The first step that differs; None when every recorded step is repeated. NotYet is raised when the code breaks a limit."""
    scripts = recording.scripts()
    outcome = sandbox.run_steps(play, make, [{**operations(script), "recording": recording.name} for script in scripts])
    if not outcome.is_slow:
        unbroken(outcome)
    matched, partings = compared(recording, scripts, outcome)
    total = sum(len(script["steps"]) for script in scripts)
    if outcome.is_slow and not partings:
        return HalfRight(
            f"right, and slow: the first {matched:,} of {total:,} recorded steps agree, and then {sandbox.DEADLINE_S:g} s were over.",
            "What does your code go through again and again?",
        )
    if not partings:
        return None
    said, look, asked = told_of(recording, partings)
    short, history = shortest(recording, make, asked)
    told = f"{matched:,} of {total:,} recorded steps agree. {short or said}"  # one failure: that of picture and player
    return NotYet(told, look, history and show(history), history)


class Parting(NamedTuple):
    """The first step of a script at which the two part."""

    script: Script
    at: int
    kind: str
    said: str


def compared(recording: Recording, scripts: Sequence[Script], outcome: sandbox.Outcome) -> tuple[int, list[Parting]]:
    """How many of the steps are repeated, and where each script first differs; of slow code as far as it came."""
    matched, partings = 0, []
    for script, answers, raised in zip(scripts, outcome.answers, outcome.raised, strict=True):
        for at, step in enumerate(script["steps"]):
            if at == len(answers) and outcome.is_slow:
                break
            got = answers[at] if at < len(answers) else {RAISED: raised.what if raised else "nothing, and gave no answer"}
            kind, said = differing(recording.seen(script, step), got)
            if kind:
                partings.append(Parting(script, at, kind, said))
                break
            matched += 1
    return matched, partings


def told_of(recording: Recording, partings: Sequence[Parting]) -> tuple[str, str, Script]:
    """The first step that differs in a sentence, where to look, and what `shrink` is asked: the shortest scripts with such a difference."""
    script, at, kind, said = partings[0]
    given = "".join(f"{each}, " for each in recording.given(script))
    where = f"script '{script['name']}', step {at}, {given and f'with {given}'}{recording.call(script['steps'][at])}"
    meaning = f"The first recording that differs, '{script['name']}', shows: {script.get('meaning', '')}"
    look = "Look at that line first." if kind == RAISED else meaning
    alike = sorted((each for each in partings if each.kind == kind), key=lambda each: each.at)
    histories = [operations({**each.script, "steps": each.script["steps"][: each.at + 1]}) for each in alike[:FEWEST]]
    return f"The first that does not: {where}: {said}.", look, {"recording": recording.name, "kind": kind, "scripts": histories}


def shortest(recording: Recording, make: Any, asked: Script) -> tuple[str, Trace | None]:
    """A sentence with the calls, what was expected and what came, and the same to be played; ("", None) when none was found in time."""
    outcome = sandbox.run_steps(shrink, make, [asked])
    if not outcome.answers[0]:
        return "", None
    script, got = outcome.answers[0][0]["script"], outcome.answers[0][0]["got"]
    right = played(recording, recording.right, script)
    kind, said = differing(right[-1], got[-1]) if len(right) == len(got) else ("", "")
    if kind != asked["kind"] or RAISED in right[-1]:
        return "", None
    history = history_of(recording, script, right, got, said)
    given = "".join(f", with {each}" if not at else f", {each}" for at, each in enumerate(recording.given(script)))
    return f"The shortest run that differs{given}: {'; '.join(step.data['call'] for step in history)}: {said}.", history


def history_of(recording: Recording, script: Script, right: Sequence[Seen], got: Sequence[Seen], said: str) -> Trace:
    """The calls as a trace that a player shows: what both sides have after each of them."""
    told_with: list[tuple[str, int]] = []  # a call, and the step that ends it
    for at, step in enumerate(script["steps"]):
        call = plain_text(recording.call(step), 160)
        if step["op"] == recording.quiet and told_with:
            told_with[-1] = f"{told_with[-1][0]}, {call}", at
        else:
            told_with.append((call, at))
    trace = Trace("difference", f"your code beside {recording.original}", domain="difference")
    for call, at in told_with:
        sides = rows_of(right[at]), rows_of(shown_of(right[at], got[at]))
        names = dict.fromkeys([*sides[0], *sides[1]])
        rows = [[name, *(side.get(name, "") for side in sides)] for name in names]
        state = {"sides": [recording.original, "your code"], "rows": rows}
        if at < len(script["steps"]) - 1:
            trace.record(0, "you", "call", state=state, call=call)
        else:
            trace.record(0, "you", "part", state=state, call=call, said=said)
    return trace


def rows_of(seen: Seen) -> dict[str, str]:
    """What is seen, a row for each name; a ledger of entries has a row for each of them."""
    found: dict[str, str] = {}
    for name, value in seen.items():
        entries = isinstance(value, dict) and all(isinstance(each, dict) for each in value.values())
        found.update({each: tell(entry) for each, entry in value.items()} if entries else {name: tell(value)})
    return found


@dataclass(frozen=True, slots=True)
class Recorded:
    """A function or class, held step by step against a recording; the rule sees it first and yields rows."""

    recording: Recording
    reads: Reader
    methods: tuple[str, ...] = ()  # what a class must have

    def rows(self, answer: Any, asked: Exercise) -> Rows:
        """What the rule says, then the first recorded step that differs."""
        made = self.reads(answer)
        yield built_on(made, self.recording.kits) and NotYet(*KITS)
        yield from asked.rows(made)
        if missing := [name for name in self.methods if not callable(getattr(made, name, None))]:
            yield NotYet(f"your class has no {' and no '.join(missing)}.", f"It should have {', '.join(self.methods)}.")
        yield first_difference(self.recording, made)
        yield asked.say("right")
