"""What a history of commits says, for people: a line for each partition, and a sentence for each sign, with when and who."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from kitlib.monitor.commit_history import Committed
from kitlib.monitor.diagnosis import GroupSnapshot, PartitionSeen, seen_at
from kitlib.monitor.rewinds import Rewind, Vanished

HEAD = ("group", "partition", "commits", "first", "last", "last at (UTC)", "went back", "vanished", "excused", "members")
COMMIT_HEAD = ("at (UTC)", "partition", "offset", "step", "by")


def history_row(group: GroupSnapshot, part: PartitionSeen, signs: list[Rewind | Vanished]) -> tuple[str, ...]:
    """A partition's line, under HEAD."""
    known = [each.offset for each in part.commits if each.offset is not None]
    last, faults = part.commits[-1], [each for each in signs if each.is_fault]
    back = sum(isinstance(each, Rewind) for each in faults)
    return (
        group.group, f"{part.topic}-{part.partition}", str(len(known)), str(known[0]) if known else "",
        "none" if last.offset is None else f"{last.offset:,}", at(last.at_ms),
        str(back), str(len(faults) - back), str(len(signs) - len(faults)), "" if last.members is None else str(last.members),
    )  # fmt: skip


def history_json(group: GroupSnapshot, part: PartitionSeen, signs: list[Rewind | Vanished]) -> dict[str, Any]:
    """The same for a program, with every commit."""
    return {
        "group": group.group, "topic": part.topic, "partition": part.partition, "committed": part.commits[-1].offset,
        "commits": [{name: getattr(each, name) for name in ("order", "at_ms", "offset", "by", "members")} for each in part.commits],
        "signs": [{"told": sentence(each), "excuse": each.excuse.name.lower(), "is_fault": each.is_fault} for each in signs],
    }  # fmt: skip


def commit_rows(parts: Iterable[PartitionSeen], last: int) -> list[tuple[str, ...]]:
    """The last commits of a group in the order of the log, each with its step from the one before."""
    found: list[tuple[int, tuple[str, ...]]] = []
    for part in parts:
        before: int | None = None
        for each in part.commits:
            step = "" if before is None or each.offset is None else f"{each.offset - before:+d}"
            offset = "none (tombstone)" if each.offset is None else str(each.offset)
            found.append((each.order, (at(each.at_ms), f"{part.topic}-{part.partition}", offset, step, who(each))))
            before = each.offset
    return [row for _, row in sorted(found, key=lambda each: each[0])][-last:]


def who(commit: Committed) -> str:
    """Who wrote a commit, as far as the topic tells."""
    if commit.offset is None:
        return "the coordinator, or who deleted it"
    if commit.by is not None:
        return commit.by
    if commit.members == 0:
        return "somebody outside: the group had no members"
    return "not told" if commit.members is None else f"one of {commit.members} members"


def sentence(sign: Rewind | Vanished) -> str:
    """A sign, when it was seen, and who wrote it."""
    seen = seen_at(sign)
    return f"{at(seen.at_ms)}, by {who(seen)}: {'' if sign.is_fault else 'excused: '}{sign}"


def at(time_ms: int) -> str:
    """A time of the log for people, in UTC with its milliseconds; the number where no calendar has it."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ms % 1000:03d}"
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
