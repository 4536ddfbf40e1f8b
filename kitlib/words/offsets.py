"""Words of the offsets topic and of a compacted log; consumers and operators use the words of groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kitlib.text import plain_text
from kitlib.words.glyphs import BLUE, BROOM, CROSS, CROSSED_SQUARE, RED, Glyph
from kitlib.words.groups import GROUPS
from kitlib.words.template import count, phrase
from kitlib.words.word import Data, Domain, Rule, Word, rules, span, with_room

offset_manager = rules("more.offsets.offset_manager:OffsetManager.")
compaction = rules("mechanisms.offsets_topic.compaction:")
offset_cache = rules("more.offsets.offset_cache:OffsetCache.")

ROLES = frozenset({"coordinator", "reader", "new"})  # names of roles, which may begin a sentence


def _capital(who: str, what: str, data: Data, said: str) -> str:
    """A sentence that begins with a role's name; a consumer's own name stays as it is."""
    is_role = who.split(" ")[0] in ROLES and not said.startswith(f"{who}: ")
    return said[:1].upper() + said[1:] if is_role else said


@phrase
def _offsets(offsets: list[int]) -> str:
    """`offset 3`, `offsets 3, 5 and 8`, at most eight of them."""
    shown = [f"{each:d}" for each in offsets[:8]]
    shown += [f"{len(offsets) - 8:,} more"] if len(offsets) > 8 else []
    listed = f"{', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else shown[0]
    return f"{'offset' if len(offsets) == 1 else 'offsets'} {listed}"


@phrase
def _offsets_begin(offsets: list[int]) -> str:
    return _offsets(offsets).capitalize()


@phrase
def _remain(number: int) -> str:
    return f"{count(number, 'record')} {'remains' if number == 1 else 'remain'}"


@phrase
def _broker(name: object) -> str:
    return f"broker {name}" if isinstance(name, int) else plain_text(name, 24)


def _log_append(who: str, data: Data) -> str:
    """A record of a compacted topic, with its key and value."""
    keys, values = data.get("keys"), data.get("values")
    if not isinstance(keys, list) or not isinstance(values, list) or who != "log":
        return GROUPS.words["append"].sentence(who, data)
    pairs = [
        f"{plain_text(key, 20)} = {plain_text(value, 20)}"
        if value is not None
        else f"a tombstone for {plain_text(key, 20)}"
        for key, value in list(zip(keys, values, strict=False))[:6]
    ]
    more = f" and {len(keys) - 6} more" if len(keys) > 6 else ""
    arrives = "arrives" if len(keys) == 1 else "arrive"
    return f"{count(len(keys), 'record')} {arrives} in the log, {span(data['first'], data['last'])}: {', '.join(pairs)}{more}."


def _gap(who: str, data: Data) -> str:
    missing = data["next"] - data["after"] - 1
    return (
        f"{who} meets a gap: offset {data['after']:d} is followed by {data['next']:d}. {count(missing, 'offset')} in between "
        f"{'has' if missing == 1 else 'have'} no record: removed by the cleaner, or taken by a transaction's marker."
    )


def _listed(value: Any) -> str:
    if isinstance(value, list | dict):
        names = [plain_text(each, 20) for each in list(value)[:6]]
        return f"{len(value)} ({', '.join(names)})" if names else "none"
    return plain_text(value, 20)


def _view(who: str, data: Data) -> str:
    told = f"{who} has built its own view of the keys: it knows {_listed(data['keys'])}"
    return f"{told}; out of date: {_listed(data.get('stale', 0))}; missing: {_listed(data.get('missing', 0))}."


HEALTH: dict[str, Callable[..., str]] = {  # of the monitor's look at the offsets topic: field -> how it is told
    "dirty_ratio": "dirty ratio {:.2f}".format,
    "records": lambda number: f"{count(number, 'record')} in the log",
    "keys": lambda number: count(number, "key"),
    "cached_offsets": lambda number: f"{count(number, 'offset')} in the cache",
    "groups": lambda number: count(number, "group"),
    "commits_a_minute": "{:,.4g} commits a minute".format,
}


def _health(who: str, data: Data) -> str:
    told = [tell(data[name]) for name, tell in HEALTH.items() if data.get(name) is not None]
    if data.get("load_ms") is not None:
        told.append(f"the last load took {data['load_ms']:,} ms")
    if data.get("since_cleaned_ms") is not None:
        told.append(f"cleaned {in_words(data['since_cleaned_ms'])} ago")
    return f"The {who} reports: {', '.join(told)}."


@phrase
def in_words(duration_ms: int) -> str:
    """A duration as people say it: `3 days`, `4 hours`, `20 s`, `8 ms`."""
    for unit_ms, one in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute")):
        if duration_ms >= 2 * unit_ms:
            return count(round(duration_ms / unit_ms), one)
    return f"{duration_ms / 1000:g} s" if duration_ms >= 1_000 else f"{duration_ms} ms"


_WORDS = GROUPS.having(
    {
        "commit": replace(
            GROUPS.words["commit"], rule=offset_manager("commit", "The coordinator writes the commit to its log and into its cache."),
        ),
        "write": Word(
            "[members?The group's metadata record is written at offset {offset:d}: {key:70}, {members:member}|value=None?A tombstone for "
            "{key:70} is written at offset {offset:d}: from now on there is no committed offset|A record is written at offset {offset:d}: "
            "{key:70} = {value}[, in version {format} of the format]. It replaces any earlier one for this key].", "key offset value",
            "format members timestamp_ms", about="key:key",
        ),
        "roll": Word(
            "A new segment begins at offset {base:d}: the previous one may now be cleaned.",
            "base",
            glyph=Glyph("a new segment begins", "M0 -7V7", "ink", 2.4),
        ),
        "clean": Word(
            "The cleaner [removed?removes {removed:offsets()}|finds nothing to remove][kept?; {kept:remain()}][to?. Everything below "
            "offset {to:d} is now clean].", "", "kept removed to", glyph=Glyph("the cleaner removes records", BROOM, "ink", 1.8),
            rule=compaction("is_retained", "The cleaner keeps the newest record of each key."),
        ),
        "dies": Word(
            "The cleaner dies: {why}. Everything else keeps running, and no one is alerted.", "why",
            glyph=Glyph("the cleaner dies", CROSS, RED, 2.6),
        ),
        "pass": Word(
            "[dirty_ratio?The cleaner checks the log: its dirty ratio is {dirty_ratio:.2f}|The cleaner has passed over the log[ up to "
            "offset {to:d}]: {removed:record} removed[, {kept:remain()}]].", "", "dirty_ratio kept removed to", judged="pass",
            glyph=Glyph("the cleaner passes over the log", BROOM, "ink", 1.8),
            rule=compaction("must_be_cleaned", "The cleaner runs when the dirty ratio is high enough."),
        ),
        "rest": Word(
            "The cleaner does not run: below offset {to:d} there is nothing new to clean.", "to",
            rule=compaction("cleanable_range", "A pass covers what is new since the last one, but for the active segment."),
        ),
        "move": Word(
            "The group's partition of the offsets topic moves from {from:broker()} to {to:broker()}.", "from to", judged="move",
            glyph=Glyph("the group moves to another broker", "M-6 0H5M1.5 -4L5.5 0L1.5 4", "ink", 2.2),
        ),
        "load_begin": Word(
            "{who} starts loading its cache from the log: {records:record} to read. Clients that ask in the meantime must wait and retry.",
            "records", rule=offset_manager("lead", "A new coordinator reads the whole partition before it answers."),
        ),
        "load": Word(
            "{who} has read [from=@to?offset {from:d}|offsets {from:d} to {to:d}] into its cache.", "from to",
            rule=offset_cache("replay", "Later records replace earlier ones with the same key."),
        ),
        "load_end": Word(
            "{who} has loaded {records:record} in {ms:,} ms and starts answering.", "ms records", "offsets:whole",
            rule=offset_manager("_end_load", "A new coordinator reads the whole partition before it answers."),
        ),
        "load_failed": Word(
            "{who}'s load ends early, at offset {at:d}: {why}", "at why", glyph=Glyph("the load ends early", CROSS, RED, 2.6),
        ),
        "cache": Word(
            "{who}'s cache: {key:70} = {value}.", "value",
            rule=offset_cache("replay", "Later records replace earlier ones with the same key."),
        ),
        "evict": Word(
            "The cache drops {key:70}: [why=expired?it has not been committed for longer than offsets are retained; a tombstone is "
            "written|why=tombstone?a tombstone deletes it|why=moved?{who} no longer leads this partition|{why:80}].", "why", "key member",
            glyph=Glyph("a key leaves the cache", "M-5 -4H5M-3 -4V5H3V-4", RED, 1.8), about="key:key",
            rule=Rule("A commit expires offsets.retention.minutes after the group became empty.", "more.offsets.offset_rules:is_expired"),
        ),
        "answer": Word(
            "{who} is asked for the offset of [group?{group:30}|the group] on {topic}-{partition:d} and answers[error? with an error: "
            "{error:60}. The consumer will retry|offset=-1? -1: none is committed. auto.offset.reset decides where to start| {offset:d}, "
            "from its cache].", "offset", "error group", about="partition:@",
            rule=offset_manager("fetch", "The coordinator answers from its cache; -1 when it holds nothing."),
        ),
        "append": Word(
            _log_append, "first last", "keys:texts values", judged="append",
            about="record:first-last",
        ),
        "compact": Word(
            "{offsets:offsets_begin()}: removed, because a later record has the same key.", "offsets", judged="compact",
            glyph=Glyph("replaced records are removed", "M-6 0H6M-3 -4L-6 0L-3 4M3 -4L6 0L3 4", "ink", 1.8), about="record:offsets",
            rule=compaction("is_retained", "A record is removed when a later one has the same key."),
        ),
        "purge": Word(
            "{offsets:offsets_begin()}: expired tombstones are removed; nothing in the log now says that their keys were deleted.",
            "offsets", judged="purge", glyph=Glyph("tombstones are removed", CROSSED_SQUARE, "ink", 1.6, "paper"), about="record:offsets",
            rule=compaction("is_retained", "delete.retention.ms: a tombstone is removed this long after it became clean."),
        ),
        "gap": Word(
            _gap, "after:whole next", "missing", glyph=Glyph("meets a gap", "M-6 4H-2M2 4H6M-2 1V7M2 1V7", "ink", 1.8)
        ),
        "view": Word(_view, "keys:texts", "missing:texts stale:texts"),
        "away": Word("{who} is away for {ms:in_words()}.", "ms"),
        "control": Word(
            "A transaction's marker takes offset {offset:d}: no consumer ever receives it.", "offset",
            about="record:offset",
        ),
        "write_many": Word(
            "Other groups commit: {records:record} of {keys:key} are written to the log.", "keys records",
            glyph=Glyph("records of other groups", "M-4 -5V5M0 -5V5M4 -5V5", BLUE, 2.4),
        ),
        "health": Word(
            _health, "", "cached_offsets commits_a_minute dirty_ratio groups keys load_ms records since_cleaned_ms"
        ),
    }
)
_ROOM = {
    **dict.fromkeys(("move", "load_begin", "load", "load_end", "load_failed", "evict", "answer"), 4.0),
    **dict.fromkeys(("emit", "process", "append", "cache", "write", "health"), 0.3),
}
_MARKS = {
    **GROUPS.marks, "move": "coordinator moves",
    "load_failed": "load fails", "dies": "crash", "compact": "compaction", "purge": "compaction",
    "evict": lambda data: "offset expires" if data["why"] == "expired" else "",
}
OFFSETS = Domain("offsets", with_room(_WORDS, **_ROOM), _capital, _MARKS)
INCIDENTS = Domain("incidents", OFFSETS.words, _capital, _MARKS)
COMPACTION = Domain("compaction", with_room(_WORDS, append=0.4, emit=0.4, process=0.4), _capital, _MARKS)
