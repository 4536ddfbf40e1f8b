"""The verdict counted the slow way: sets over the whole list of steps, straight from the definitions.

Every number is a sum over records, steps or stretches of steps; nothing is remembered from step to step.
"""

from __future__ import annotations

from itertools import groupby

from kitlib.trace import Step

Lane = tuple[str, int]


def lanes(steps: list[Step]) -> list[Lane]:
    """Topic and partition of the steps that have them, in the order of first occurrence."""
    return list(dict.fromkeys(_lane(step) for step in steps if "topic" in step.data))


def counts(steps: list[Step], lane: Lane) -> dict[str, tuple[int, int | None]]:
    """Each anomaly's count and the number of its first witness, on one lane."""
    own = [step for step in steps if "topic" in step.data and _lane(step) == lane]
    is_cut = any(step.cut_at is not None for step in steps)
    return {
        "lost": lost(own, is_cut), "duplicated": duplicated(own), "reordered": reordered(own),
        "skipped": skipped(own), "stalled": stalled(own), "rewound": rewound(own),
    }  # fmt: skip


def late_ms(steps: list[Step], lane: Lane) -> int:
    own = [step for step in steps if "topic" in step.data and _lane(step) == lane]
    return max(
        (
            min(p.at_ms for p in _all(own, "process") if p.data["offset"] == offset)
            - min(a.at_ms for a in _all(own, "append") if offset in _offsets(a))
            for offset in _appended(own)
            if offset in {p.data["offset"] for p in _all(own, "process")}
        ),
        default=0,
    )


def processed(steps: list[Step], lane: Lane) -> int:
    """How many records of one lane are processed in full."""
    return len(_done([step for step in steps if "topic" in step.data and _lane(step) == lane]))


def lost(own: list[Step], is_cut: bool) -> tuple[int, int | None]:
    """Appended, never processed in full, not replaced by compaction, below the final committed offset or deleted.

    Of a run that was cut, what was in flight is not lost. The witness is the step that gave the record up: the
    first deletion, purge, clearing, give-up or jump over it; the last step of the lane when there is none.
    """
    passed = {o for o in _appended(own) if o < max(_committed(own, len(own)) or 0, _log_start(own, len(own)))}
    gone = passed - _done(own) - _replaced(own) - (_in_flight(own) if is_cut else set())

    def given_up(offset: int) -> int:
        return min((at for at in range(len(own)) if _gives_up(own, at, offset)), default=len(own) - 1)

    return len(gone), min((own[given_up(offset)].number for offset in gone), default=None)


def _in_flight(own: list[Step]) -> set[int]:
    """Emitted since the last start, and of that emit's tuples some have neither been processed nor failed, nor is it acked."""
    begun = max((step.number for step in _all(own, "start")), default=-1)
    last = {step.data["offset"]: step for step in _all(own, "emit") if step.number > begun}

    def ends(offset: int, *words: str) -> int:
        return sum(step.what in words and step.data["offset"] == offset for step in own if step.number > last[offset].number)

    return {
        offset for offset, emit in last.items()
        if (ends(offset, "process", "fail") < emit.data["parts"] if "parts" in emit.data else not ends(offset, "ack", "fail"))
    }  # fmt: skip


def duplicated(own: list[Step]) -> tuple[int, int | None]:
    """Every processing of an offset's part for which there is an earlier one."""
    work = _all(own, "process")
    again = [p for p in work if any(_same_work(p, q) and q.number < p.number for q in work)]
    return len(again), min((step.number for step in again), default=None)


def reordered(own: list[Step]) -> tuple[int, int | None]:
    """Records whose first processing has the first processing of a higher offset before it."""
    work = _all(own, "process")
    first = {p.data["offset"]: p.number for p in reversed(work)}
    late = {o for o in first if any(first[higher] < first[o] for higher in first if higher > o)}
    return len(late), min((first[offset] for offset in late), default=None)


def skipped(own: list[Step]) -> tuple[int, int | None]:
    """Records that were appended but not emitted before some start or reset to a place above them."""
    pairs = {
        (offset, own[at].number)
        for at in range(len(own))
        for offset in _appended(own[:at])
        if _jumps_over(own, at, offset)
    }
    return len({offset for offset, _ in pairs}), min((number for _, number in pairs), default=None)


def stalled(own: list[Step]) -> tuple[int, int | None]:
    """Stretches of five or more commits that leave the committed offset where it was while the log goes beyond it."""
    marks = [(at, _is_idle(own, at)) for at in range(len(own)) if own[at].what in ("commit", "start")]
    stretches = [list(group) for idle, group in groupby(marks, key=lambda mark: mark[1]) if idle]
    long = [stretch for stretch in stretches if len(stretch) >= 5]
    return len(long), min((own[stretch[0][0]].number for stretch in long), default=None)


def rewound(own: list[Step]) -> tuple[int, int | None]:
    """Starts and written commits below the committed offset before them, and resets that go back."""
    back = [
        step.number
        for at, step in enumerate(own)
        if (step.what == "reset" and step.data["to"] < step.data["from"])
        or (_sets_position(step) and (before := _committed(own, at)) is not None and step.data["offset"] < before)
    ]
    return len(back), min(back, default=None)


def _lane(step: Step) -> Lane:
    return step.data["topic"], step.data.get("partition", 0)


def _all(steps: list[Step], what: str) -> list[Step]:
    return [step for step in steps if step.what == what]


def _offsets(append: Step) -> set[int]:
    return set(append.data.get("offsets") or range(append.data["first"], append.data["last"] + 1))


def _appended(steps: list[Step]) -> set[int]:
    return {offset for step in _all(steps, "append") for offset in _offsets(step)}


def replaced(steps: list[Step], lane: Lane) -> int:
    """How many of its records compaction took out before they were processed."""
    own = [step for step in steps if "topic" in step.data and _lane(step) == lane]
    return len(_replaced(own) & _appended(own) - _done(own))


def _replaced(own: list[Step]) -> set[int]:
    return {offset for step in _all(own, "compact") for offset in step.data["offsets"]}


def _done(own: list[Step]) -> set[int]:
    """Offsets whose first append's `parts` all have a processing; any one is enough where it says nothing."""
    work = {(step.data["offset"], step.data.get("part", 0)) for step in _all(own, "process")}
    wanted: dict[int, set[int]] = {}
    for step in reversed(_all(own, "append")):
        parts = step.data.get("parts")
        for at, offset in enumerate(sorted(_offsets(step))):
            wanted.pop(offset, None)
            if parts is not None:
                wanted[offset] = set(range(parts[at] if isinstance(parts, list) else parts))
    in_full = {o for o, parts in wanted.items() if parts <= {part for offset, part in work if offset == o}}
    return in_full | ({offset for offset, _ in work} - wanted.keys())


def _same_work(one: Step, other: Step) -> bool:
    return (one.data["offset"], one.data.get("part", 0)) == (other.data["offset"], other.data.get("part", 0))


def _sets_position(step: Step) -> bool:
    return step.what == "start" or (step.what == "commit" and step.data.get("written", True))


def _committed(steps: list[Step], at: int) -> int | None:
    """The committed offset before step `at`."""
    return next((step.data["offset"] for step in reversed(steps[:at]) if _sets_position(step)), None)


def _log_start(steps: list[Step], at: int) -> int:
    return max((step.data["to"] for step in _all(steps[:at], "delete")), default=0)


def _log_end(steps: list[Step], at: int) -> int:
    return max((step.data["last"] + 1 for step in _all(steps[:at], "append")), default=0)


def _jumps_over(own: list[Step], at: int, offset: int) -> bool:
    """Whether the start or reset at `at` goes to a place above an offset that was appended and not yet emitted."""
    to = {"start": "offset", "reset": "to"}.get(own[at].what)
    if to is None or not offset < own[at].data[to] or offset not in _appended(own[:at]):
        return False
    return offset not in {step.data["offset"] for step in _all(own[:at], "emit")}


def _gives_up(own: list[Step], at: int, offset: int) -> bool:
    step = own[at]
    match step.what:
        case "delete":
            return offset in _appended(own[:at]) and offset < _log_start(own, at + 1)
        case "clear":
            return any(first <= offset <= last for first, last in step.data["ranges"])
        case "purge":
            return offset in step.data["offsets"]
        case "give_up":
            return bool(step.data["offset"] == offset)
    return _jumps_over(own, at, offset)


def _is_idle(own: list[Step], at: int) -> bool:
    """Whether the commit at `at` leaves the committed offset where it was though the log goes beyond it."""
    before = _committed(own, at)
    if own[at].what != "commit" or before is None:
        return False
    return _committed(own, at + 1) == before and _log_end(own, at) > before
