"""The send path as a pipeline with its batches, and the metadata's clock: what the panel of a scene shows after a step."""

from __future__ import annotations

from collections.abc import Mapping
from math import cos, pi, sin
from typing import Any

from kitlib.views.look import LEFT
from kitlib.views.send_reader import BatchShown, PathShown
from kitlib.views.svg import Svg, el, group
from kitlib.words.glyphs import BLACK, BLUE, ORANGE, RED, SKY, WHITE
from kitlib.words.word import count

PANEL_TALL = 188
ROWS = 4  # partitions that are shown; the others are counted
ROW_TALL, FIRST_ROW_Y = 27, 26
CALLS_X, QUEUE_X, FLIGHT_X, LOG_X, END_X = LEFT, 118, 318, 452, 540
BOX_WIDE, BOX_TALL, MOST_BOXES = 42, 20, 4
MEMORY_Y = FIRST_ROW_Y + ROWS * ROW_TALL + 22
CLOCK_X, CLOCK_Y, EXPIRY_R, BACKOFF_R = 650, 78, 56, 43
MAX_AGE_MS, MAX_BACKOFF_MS = 300_000, 1_000  # where a trace's knobs do not say: Kafka's own
NEVER_MS = 2**31 - 1
HEADS = ((CALLS_X, "calls of send"), (QUEUE_X, "queues"), (FLIGHT_X, "in flight"), (LOG_X, "in the log"))


def draw_pipeline(path: PathShown) -> list[Svg]:
    """The pipeline, in pieces that do not change with every step."""
    rows = list(path.queues)
    known = {name for name, _ in rows}
    rows += [(name, ()) for name, _ in path.stored if name not in known]
    pieces = [_HEAD, _draw_calls(path)]
    stored = dict(path.stored)
    for number, (name, queue) in enumerate(rows[:ROWS]):
        y = FIRST_ROW_Y + number * ROW_TALL
        flying = [batch for where, batch in path.in_flight if where == name]
        pieces.append(_draw_row(y, name, queue, flying, stored.get(name, 0)))
    if len(rows) > ROWS:
        told = f"and {len(rows) - ROWS} partitions more"
        pieces.append(el("text", told, cls="grey", x=QUEUE_X, y=FIRST_ROW_Y + ROWS * ROW_TALL + 8, font_size=11))
    if path.memory is not None:
        pieces.append(_draw_memory(*path.memory))
    return pieces


_HEAD = group(
    *(el("text", told, cls="grey", x=x, y=12, font_size=11) for x, told in HEADS),
    el("path", d=f"M{QUEUE_X - 12} 20V{MEMORY_Y - 26}M{FLIGHT_X - 12} 20V{MEMORY_Y - 26}M{LOG_X - 12} 20V{MEMORY_Y - 26}",
       cls="grey-line", stroke_width=0.7),
)  # fmt: skip


def _draw_calls(path: PathShown) -> Svg:
    """Calls that have not returned: each with what it waits for."""
    parts = []
    for number, (record, waits_for) in enumerate(path.calls[:3]):
        y = FIRST_ROW_Y + number * ROW_TALL
        title = el("title", f"send of record {record} waits for {waits_for}")
        box = el("rect", title, x=CALLS_X, y=y, width=86, height=BOX_TALL, rx=9, fill=SKY, stroke=BLACK, stroke_width=0.8)
        told = el("text", f"for {waits_for}", x=CALLS_X + 43, y=y + 14, text_anchor="middle", fill=BLACK, font_size=11)
        parts.append(group(box, told, data_ref=f"call:{record}"))
    if not parts:
        parts.append(el("text", "none blocks", cls="grey", x=CALLS_X, y=FIRST_ROW_Y + 14, font_size=11))
    return group(*parts)


def _draw_row(y: int, name: str, queue: tuple[BatchShown, ...], flying: list[BatchShown], stored: int) -> Svg:
    parts = [el("text", f"p{name}", cls="ink", x=QUEUE_X, y=y + 14, font_size=11)]
    parts += _boxes(queue, QUEUE_X + 24, y, SKY, 3 if len(queue) > 3 else MOST_BOXES)
    parts += _boxes(flying, FLIGHT_X, y, ORANGE, 2)
    if stored:
        text = el("text", f"{stored:,}", x=LOG_X + 31, y=y + 14, text_anchor="middle", fill=WHITE, font_size=11)
        parts += [el("rect", x=LOG_X, y=y, width=62, height=BOX_TALL, fill=BLUE, stroke=BLACK, stroke_width=0.8), text]
    else:
        parts.append(el("rect", x=LOG_X, y=y, width=62, height=BOX_TALL, fill="none", cls="grey-line", stroke_width=0.8))
    return group(*parts)


def _boxes(batches: tuple[BatchShown, ...] | list[BatchShown], x: int, y: int, fill: str, most: int) -> list[Svg]:
    """Batches with their numbers of records; a retry has a thick edge and its attempt."""
    parts = []
    for number, batch in enumerate(batches[:most]):
        left = x + number * (BOX_WIDE + 3)
        size = f", {batch.bytes:,} bytes" if batch.bytes else ""
        tried = f", attempt {batch.attempts + 1}" if batch.attempts else ""
        title = el("title", f"batch {batch.number}: {batch.records} records{size}{tried}")
        edge: dict[str, Any] = {"stroke": RED, "stroke_width": 2.4} if batch.attempts else {"stroke": BLACK, "stroke_width": 0.8}
        box = el("rect", title, x=left, y=y, width=BOX_WIDE, height=BOX_TALL, fill=fill, **edge)
        told = el("text", f"×{batch.records:,}", x=left + BOX_WIDE // 2, y=y + 14, text_anchor="middle", fill=BLACK, font_size=11)
        parts.append(group(box, told, data_ref=f"batch:{batch.number}"))
    if len(batches) > most:
        parts.append(el("text", f"+{len(batches) - most:,}", cls="ink", x=x + most * (BOX_WIDE + 3) + 2, y=y + 14, font_size=11))
    return parts


def _draw_memory(available: int, total: int, waiting: int) -> Svg:
    """How much of buffer.memory is taken."""
    taken = total - available
    share = taken / total if total else 1.0
    wide = LOG_X + 62 - QUEUE_X
    told = f"{taken:,} of {total:,} bytes taken" + (f", {waiting} waiting" if waiting else "")
    return group(
        el("text", "memory", cls="grey", x=CALLS_X, y=MEMORY_Y + 10, font_size=11),
        el("rect", x=QUEUE_X, y=MEMORY_Y, width=wide, height=12, fill="none", cls="grey-line", stroke_width=0.8),
        el("rect", x=QUEUE_X, y=MEMORY_Y, width=round(wide * share, 1), height=12, fill=RED if waiting else SKY),
        el("text", told, cls="ink", x=QUEUE_X, y=MEMORY_Y + 26, font_size=11),
    )


# -- the clock ----------------------------------------------------------------------------------------


def draw_clock(clock: Mapping[str, Any], knobs: Mapping[str, Any], coarse_ms: int = 1) -> Svg:
    """When the metadata may be asked for and when it will be, as two arcs that run out."""
    expire_ms, allow_ms, next_ms = (_coarse(clock[name], coarse_ms) for name in ("expire_ms", "allow_ms", "next_ms"))
    max_age_ms = knobs.get("metadata_max_age_ms", MAX_AGE_MS)
    longest_ms = max(knobs.get("retry_backoff_ms", 100), MAX_BACKOFF_MS if knobs.get("release") != "0.10" else 0, 1)
    parts = [
        el("circle", cx=CLOCK_X, cy=CLOCK_Y, r=EXPIRY_R, fill="none", cls="grey-line", stroke_width=1),
        el("circle", cx=CLOCK_X, cy=CLOCK_Y, r=BACKOFF_R, fill="none", cls="grey-line", stroke_width=1),
        _arc(EXPIRY_R, expire_ms / max(max_age_ms, 1), BLUE),
        _arc(BACKOFF_R, allow_ms / longest_ms, ORANGE),
    ]
    if clock["in_progress"]:
        big, small = "asked", "answer awaited"
    elif next_ms == 0:
        big, small = "now", "is asked for"
    else:
        big, small = f"{next_ms:,}", "ms to go"
    parts.append(el("text", big, cls="ink", x=CLOCK_X, y=CLOCK_Y + 2, text_anchor="middle", font_size=15, font_weight="bold"))
    parts.append(el("text", small, cls="grey", x=CLOCK_X, y=CLOCK_Y + 18, text_anchor="middle", font_size=11))
    wanted = ("a new topic is wanted" if clock["partial"] else "news is wanted") if clock["need_update"] else "nothing is wanted"
    failures = f", {clock['attempts']} failures" if clock["attempts"] else ""
    leader = "no leader known" if clock["leader"] is None else f"leader {clock['leader']}"
    for y, told, kind in ((150, wanted, "ink"), (166, f"version {clock['version']}, {leader}{failures}", "grey")):
        parts.append(el("text", told, cls=kind, x=CLOCK_X, y=y, text_anchor="middle", font_size=11))
    return group(*parts)


def _arc(radius: int, share: float, colour: str) -> Svg:
    """An arc from the top, clockwise, for a share of the whole."""
    share = round(min(max(share, 0.0), 1.0), 3)
    if share == 0:
        return Svg()
    if share > 0.995:
        return el("circle", cx=CLOCK_X, cy=CLOCK_Y, r=radius, fill="none", stroke=colour, stroke_width=7)
    angle = 2 * pi * share
    x, y = CLOCK_X + radius * sin(angle), CLOCK_Y - radius * cos(angle)
    large = 1 if share > 0.5 else 0
    d = f"M{CLOCK_X} {CLOCK_Y - radius}A{radius} {radius} 0 {large} 1 {x:.1f} {y:.1f}"
    return el("path", d=d, fill="none", stroke=colour, stroke_width=7)


def _coarse(number: int, to: int) -> int:
    return -(-min(number, NEVER_MS) // to) * to


def words_of(path: PathShown, clock: Mapping[str, Any] | None) -> str:
    """The panel in words."""
    waiting = sum(batch.records for _, queue in path.queues for batch in queue)
    flying = sum(batch.records for _, batch in path.in_flight)
    stored = sum(end for _, end in path.stored)
    told = f"{count(len(path.calls), 'call')} blocked; {count(waiting, 'record')} in queues, {flying} in flight, {stored} in the log."
    if clock is None:
        return told
    state = "is asked for" if clock["next_ms"] == 0 else f"is asked for in {clock['next_ms']:,} ms at the latest"
    return f"{told} The metadata, version {clock['version']}, {state}."
