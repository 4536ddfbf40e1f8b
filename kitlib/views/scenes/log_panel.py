"""A log whose records have keys, box by box: which record of each key is live, and what has been taken out.

Only the last record of a key counts: it is filled. Those before it are hollow, as compaction may take them
out; a tombstone, which says that its key is gone, has a cross. A log with more records than can be told apart
is drawn as a bar whose cells are filled as far as their records are live.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kitlib.text import plain_text
from kitlib.views.look import LEFT, STRIP
from kitlib.views.pictures.history import figure, short
from kitlib.views.scenes.timeline import FILLS, Item, draw_fill, fill_legend, line_swatch, occurred, swatch
from kitlib.views.svg import HATCH, Svg, el, group, letter_paint
from kitlib.words.glyphs import BLUE, GREEN, ORANGE, RED, SKY
from kitlib.words.template import count

PER_ROW, BOX_WIDE, BOX_TALL, ROW_PITCH = 15, 48, 34, 60
MOST_BOXES = 3 * PER_ROW  # a longer log is a bar
CELLS, BAR_TALL = 120, 44
SHORT_KEY = 5  # characters; shorter keys are their own short names
OLD_FORMAT = ", old format"  # to the cleaner such a key is another one, to the coordinator the same
TOMB = "M-4 -4l8 8m0 -8l-8 8"
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(slots=True)
class KeyedLog:
    """A log as a step's state has it: {"segments", "records", "keys", ...} of `state["offsets"]`."""

    records: Sequence[Sequence[Any]] = ()  # offset, place of its key, value (None: tombstone)
    keys: list[str] = field(default_factory=list)
    segments: Sequence[Sequence[Any]] = ()  # base, one after its last offset, whether active
    cache: dict[str, int] | None = None  # what a coordinator holds, None where there is none
    loading: Sequence[int] | None = None  # records that are read, of so many
    dirty_ratio: float | None = None
    cleaner: str = ""
    labels: dict[str, str] = field(default_factory=dict)  # key -> its short name in the whole run, see `labels_of`

    @property
    def live(self) -> set[int]:
        """The offset of each key's last record."""
        return set({key: offset for offset, key, _ in self.records}.values())

    @property
    def values(self) -> dict[str, Any]:
        """What the log says of each key: the value of its last record, of whatever format."""
        return {self.keys[key].removesuffix(OLD_FORMAT): value for _, key, value in self.records}

    def label_of(self, name: str) -> str:
        """A key's short name."""
        return self.labels.get(name, name)

    def counts(self) -> tuple[int, int, int]:
        """How many records are live with a value, are tombstones and live, and are replaced."""
        live = self.live
        tombs = sum(offset in live and value is None for offset, _, value in self.records)
        return len(live) - tombs, tombs, len(self.records) - len(live)


def labels_of(states: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Short names for all keys of a run, which stay when other keys come and go: the key itself, or a letter."""
    names = dict.fromkeys(str(key) for state in states for key in state.get("offsets", {}).get("keys", ()))
    if all(len(name) <= SHORT_KEY for name in names):
        return {name: plain_text(name, SHORT_KEY) for name in names}
    plain = list(dict.fromkeys(name.removesuffix(OLD_FORMAT) for name in names))
    return {name: letter_of(plain.index(name.removesuffix(OLD_FORMAT))) + "°" * name.endswith(OLD_FORMAT) for name in names} | {
        name: letter_of(place) for place, name in enumerate(plain)
    }


def keyed_log(state: Mapping[str, Any], labels: Mapping[str, str] = MappingProxyType({})) -> KeyedLog | None:
    """The log in a step's state; None where there is none. TypeError when the state holds more than a log."""
    told = state.get("offsets")
    return None if told is None else KeyedLog(**told, labels=dict(labels))


def letter_of(key: int) -> str:
    """A key's short name: a, b, ... z, a1, b1, ..."""
    round_, place = divmod(key, len(LETTERS))
    return LETTERS[place] + (str(round_) if round_ else "")


def boxes_in(logs: Iterable[KeyedLog | None]) -> int:
    """Up to how many records a run's log is drawn box by box; one row of them where it grows too long for boxes anyway."""
    longest = max((len(log.records) for log in logs if log is not None), default=0)
    return MOST_BOXES if longest <= MOST_BOXES else PER_ROW


def log_tall(logs: Iterable[KeyedLog | None], most: int) -> int:
    """How much height the highest of these logs takes."""
    lengths = [len(log.records) for log in logs if log is not None]
    rows = max((-(-length // PER_ROW) for length in lengths if length <= most), default=0)
    return max(ROW_PITCH * rows, BAR_TALL + 28 if any(length > most for length in lengths) else 24)


def draw_log(
    log: KeyedLog, removed: Set[int] = frozenset(), cleaned_to: int | None = None, most: int = MOST_BOXES
) -> list[Svg]:
    """The records from y = 0 on, a piece a row; more than `most` as a bar.

    `removed` are drawn as taken out; `cleaned_to` is where the last pass ended.
    """
    if not log.records:
        return [el("text", "the log is empty", cls="grey", x=LEFT, y=22)]
    if len(log.records) > most:
        return [_draw_bar(log, cleaned_to)]
    live, active = log.live, next((base for base, _, is_active in log.segments if is_active), None)
    bases = {next((offset for offset, *_ in log.records if offset >= base), None) for base, *_ in log.segments}
    rows = []
    for first in range(0, len(log.records), PER_ROW):
        shown = log.records[first : first + PER_ROW]
        boxes = _draw_edges(shown, bases, active, cleaned_to)
        for place, (offset, key, value) in enumerate(shown):
            kind = "replaced" if offset not in live else "tombstone" if value is None else "live"
            label = log.label_of(log.keys[key])
            boxes.append(_draw_box(place, offset, value, label, "taken out" if offset in removed else kind))
        rows.append(group(*boxes, transform=f"translate(0 {ROW_PITCH * (first // PER_ROW)})"))
    return rows


def _draw_box(place: int, offset: int, value: Any, label: str, kind: str) -> Svg:
    """A record's box with its key and its value; a tombstone has a cross."""
    x, look = LEFT + place * BOX_WIDE, FILLS[kind]
    text = {"x": x + BOX_WIDE / 2, "text_anchor": "middle", "font_size": 11}
    paint = letter_paint(look.text, 4 * (look.fill == HATCH))
    parts = [
        draw_fill(look, x + 3, 8, BOX_WIDE - 6, BOX_TALL, f"offset {offset}: {look.meaning}"),
        el("text", label, y=22, font_weight="bold", **text, **paint),
        el("text", f"{offset}", cls="grey", y=8 + BOX_TALL + 13, **text),
    ]
    if value is None:
        return group(*parts, el("path", d=TOMB, transform=f"translate({x + BOX_WIDE / 2:g} 32)", stroke=RED, stroke_width=2))
    told = figure(value) if isinstance(value, int) else short(str(value), 7)
    return group(*parts, el("text", told, y=36, **text, **paint))


def _draw_edges(
    records: Sequence[Sequence[Any]], bases: Set[int | None], active: int | None, cleaned_to: int | None
) -> list[Svg]:
    """Where segments begin, which part is the active one, and where the last pass ended."""
    lines = "".join(
        f"M{LEFT + place * BOX_WIDE} 2v{BOX_TALL + 14}" for place, (offset, _, _) in enumerate(records) if offset in bases
    )
    parts = [el("path", d=lines, cls="ink-line", stroke_width=2.5)] if lines else []
    first = next((place for place, (offset, _, _) in enumerate(records) if active is not None and offset >= active), None)
    if first is not None:
        path = f"M{LEFT + first * BOX_WIDE} 3H{LEFT + len(records) * BOX_WIDE}"
        parts.append(el("path", d=path, stroke=ORANGE, stroke_width=3))
    done = sum(cleaned_to is not None and offset < cleaned_to for offset, _, _ in records)
    if done:
        parts.append(el("path", d=f"M{LEFT} 3H{LEFT + done * BOX_WIDE}", stroke=GREEN, stroke_width=3))
    return parts


def _draw_bar(log: KeyedLog, cleaned_to: int | None) -> Svg:
    """A long log: each cell filled as far as its records are live, its tombstones red from the top."""
    live = log.live
    size = -(-len(log.records) // CELLS)
    wide = STRIP / -(-len(log.records) // size)
    filled, tombs = [], []
    for place, first in enumerate(range(0, len(log.records), size)):
        cell = log.records[first : first + size]
        x = round(LEFT + place * wide, 1)
        kept = sum(offset in live and value is not None for offset, _, value in cell) / len(cell)
        gone = sum(offset in live and value is None for offset, _, value in cell) / len(cell)
        if kept:
            filled.append(f"M{x:g} {BAR_TALL}v-{max(1.0, kept * BAR_TALL):.1f}h{wide:.1f}V{BAR_TALL}Z")
        if gone:
            tombs.append(f"M{x:g} 0v{max(1.0, gone * BAR_TALL):.1f}h{wide:.1f}V0Z")
    first_offset, last_offset = log.records[0][0], log.records[-1][0]
    parts = [
        el("path", d="".join(filled) or "M0 0", fill=BLUE),
        el("path", d="".join(tombs) or "M0 0", fill=RED),
        el("rect", x=LEFT, y=0, width=STRIP, height=BAR_TALL, fill="none", cls="ink-line", stroke_width=1),
        el("text", f"offset {first_offset:,}", cls="grey", x=LEFT, y=BAR_TALL + 14, font_size=11),
        el("text", f"{last_offset:,}", cls="grey", x=LEFT + STRIP, y=BAR_TALL + 14, font_size=11, text_anchor="end"),
    ]
    done = sum(cleaned_to is not None and offset < cleaned_to for offset, _, _ in log.records)
    if done:
        x = LEFT + STRIP * done / len(log.records)
        parts.append(el("path", d=f"M{LEFT} -4H{x:.1f}", stroke=GREEN, stroke_width=3))
    return group(*parts, transform="translate(0 6)")


MOST_ENTRIES = 10
NO_OFFSET = "none"  # what the coordinator answers as -1 is no position
ENTRY_TALL = 20


def cache_tall(keys: int) -> int:
    """How much height the cache of so many keys takes."""
    return 34 + ENTRY_TALL * -(-min(keys, MOST_ENTRIES) // 2)


def draw_cache(log: KeyedLog) -> list[Svg]:
    """The cache from y = 0 on, a piece a row: each key with what the cache says, and whether the log says the same."""
    if log.cache is None:
        return []
    head = [el("text", f"The cache: {len(log.cache):,} of {len(log.values):,} keys", cls="ink", x=LEFT, y=16, font_weight="bold")]
    if log.loading is not None:
        done, total = log.loading
        wide = 260 * min(1.0, done / max(1, total))
        head += [
            el("rect", x=250, y=5, width=260, height=14, fill="none", cls="ink-line", stroke_width=1),
            el("rect", x=250, y=5, width=round(wide, 1), height=14, fill=SKY),
            el("text", f"loading: {done:,} of {total:,} records read", cls="ink", x=520, y=16),
        ]
    rows = [group(*head)]
    entries = sorted(log.values.items(), key=lambda entry: log.cache is not None and log.cache.get(entry[0]) == entry[1])
    order = list(dict.fromkeys(name.removesuffix(OLD_FORMAT) for name in log.keys))
    shown = [name for name, _ in entries[:MOST_ENTRIES]]
    for place, name in enumerate(sorted(shown, key=order.index) if all(name in order for name in shown) else shown):
        column, row = place % 2, place // 2
        at = f"translate({LEFT + 360 * column} {34 + ENTRY_TALL * row})"
        rows.append(group(_draw_entry(log, name), transform=at))
    return rows


def _draw_entry(log: KeyedLog, name: str) -> Svg:
    told, cached = log.values[name], (log.cache or {}).get(name)
    parts = [
        el("text", log.label_of(name), cls="ink", x=0, y=12, font_weight="bold"),
        el("text", el("title", name), short(name, 22), cls="ink", x=20, y=12),
        el("text", NO_OFFSET if cached is None else figure(cached), cls="ink", x=214, y=12, text_anchor="end", font_weight="bold"),
    ]
    if cached is None and told is None:
        parts.append(el("text", "deleted in the log, too", cls="grey", x=222, y=12, font_size=11))
    elif cached == told:
        parts.append(el("path", el("title", "as the log says"), d="M222 8l3.5 4l6.5 -8", fill="none", stroke=GREEN, stroke_width=2.5))
    elif log.loading is not None and cached is None:
        parts.append(el("text", "not read yet", cls="grey", x=222, y=12, font_size=11))
    else:
        says = "a tombstone" if told is None else figure(told) if isinstance(told, int) else short(str(told), 8)
        parts.append(el("path", d="M222 3l8 8m0 -8l-8 8", stroke=RED, stroke_width=2))
        parts.append(el("text", f"the log: {says}", cls="ink", x=236, y=12, font_size=11))
    return group(*parts)


def log_words(log: KeyedLog) -> str:
    """What the panel shows, in words."""
    live, tombs, replaced = log.counts()
    told = f"{count(len(log.records), 'record')} in the log: {live:,} live, {count(tombs, 'tombstone')}, {replaced:,} replaced"
    if log.loading is not None:
        told += f"; the load has read {log.loading[0]:,} of {log.loading[1]:,}"
    if log.cache is not None:
        wrong = [name for name, value in log.values.items() if value is not None and log.cache.get(name) != value]
        told += f"; the cache holds {count(len(log.cache), 'key')}"
        if wrong:
            told += f" and differs from the log in {plain_text(', '.join(wrong[:4]), 160)}"
    if log.dirty_ratio is not None:
        told += f"; dirty ratio {log.dirty_ratio:.2f}"
    return told + (f"; the cleaner is {log.cleaner}" if log.cleaner == "dead" else "")


def box_legend(logs: Iterable[KeyedLog | None], has_clean: bool, has_taken: bool = False) -> list[Item]:
    """What the boxes of a run's logs, and the lines at them, mean: those that occur."""
    held = [log for log in logs if log is not None and log.records]
    cross = el("path", d=TOMB, transform="translate(13 9)", stroke=RED, stroke_width=2)
    old = el("text", "a°", cls="ink", x=6, y=14, font_weight="bold")
    has_active = any(is_active for log in held for *_, is_active in log.segments)
    kinds = {kind for at, kind in enumerate(("live", "tombstone", "replaced")) if any(log.counts()[at] for log in held)}
    return occurred([
        *((True, group(box, cross) if meaning == FILLS["tombstone"].meaning else box, meaning) for box, meaning in fill_legend(kinds)),
        (held, el("path", d="M13 1V17", cls="ink-line", stroke_width=2.5), "a new segment begins"),
        (has_active, line_swatch(stroke=ORANGE, stroke_width=3), "active segment, never cleaned"),
        (held and has_clean, line_swatch(stroke=GREEN, stroke_width=3), "cleaned up to here"),
        (any(name.endswith(OLD_FORMAT) for log in held for name in log.labels), old, "a key in the old format"),
        (has_taken, swatch("taken out"), FILLS["taken out"].meaning),
    ])
