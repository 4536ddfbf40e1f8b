"""What a reader points at in a run and what is to be done to it, as a script: `lose answer N` on `answer:7` is one more line.

A thing is named as pictures name it (`request:3`, `answer:producer 2/0`, `record:orders/0/17`, `tuple:5`, `process:broker`),
a deed by a line that the experiment takes. Everything is checked, as it comes from a browser.
"""

from __future__ import annotations

from dataclasses import replace

from kitlib.experiments.interventions import MOST_MS, TO_A_PROCESS, ScriptError
from kitlib.experiments.script import Script
from kitlib.text import plain_text
from kitlib.trace import Trace

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
