"""The stage, drawn and made ready for the player: actors as pictures that change at times, travellers as rows of numbers.

Everything is decided here: where a path runs, what a traveller looks like, when it falls and how far it has come by then. The player
(`player_actors.js`) only moves what it is told to move.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from kitlib.trace import Trace
from kitlib.views.film import NOTHING, Film, Track
from kitlib.views.frames import Frames
from kitlib.views.lives import processes_of
from kitlib.views.play_clock import PlayClock
from kitlib.views.stage.domains import STAGES
from kitlib.views.stage.score import STYLES, TALL, WIDE, Actor, Stage, Style, Traveller, to_stage
from kitlib.views.svg import Svg, el, group, line_paint
from kitlib.words.glyphs import GREEN, RED, SKY

WIDE_CHAR = 7.3  # the width of a bold character of 12 px
FLAT = 36.0  # an actor that is lower has one line
PILL = 10.0  # half of what travels
LANE = 8.0  # from one lane to the next
FLOOR = 13.0  # above the foot: where what fell lies
TITLE = "The stage: who acts, and what is under way"

ICONS = {  # around 0, 0
    "topic": "M-8 -5H8V5H-8ZM-3 -5V5M3 -5V5",
    "partition": "M-8 -4H8V4H-8ZM-3 -4V4M3 -4V4",
    "spout": "M-7 -4H2V-7H6V-1M-7 0H4M5 2V6",
    "bolt": "M2 -7L-4 1H0L-2 7L5 -2H1Z",
    "acker": "M-6 0A6 6 0 1 0 6 0A6 6 0 1 0 -6 0M-6 0H6M0 -6V6",
    "store": "M-7 -5C-7 -8 7 -8 7 -5V5C7 8 -7 8 -7 5ZM-7 -5C-7 -2 7 -2 7 -5",
    "producer": "M-6 6V0H6V6ZM0 0V-7M-3 -4L0 -7L3 -4",
    "consumer": "M-6 6V0H6V6ZM0 -7V-1M-3 -4L0 -1L3 -4",
    "broker": "M-7 -6H7V-1H-7ZM-7 1H7V6H-7ZM-4 -3.5H-3M-4 3.5H-3",
    "person": "M-3 -4A3 3 0 1 0 3 -4A3 3 0 1 0 -3 -4M-6 7C-6 0 6 0 6 7",
    "buffer": "M-7 -6V6H7V-6M-4 6V1H4V6M-4 1V-3H4V1",
    "worker": "M-7 -6H7V3H-7ZM-3 6H3M0 3V6",
}
NAMES = {"down": "down", "frozen": "paused", "cut off": "cut off", "away": "not running", "fenced": "fenced", "back": "back"}
BADGES = {
    "down": "M-6 -6L6 6M6 -6L-6 6",
    "frozen": "M-3 -6V6M3 -6V6",
    "cut off": "M-2 -8L2 -3L-2 2L2 7",
    "fenced": "M-5 -6V6M0 -6V6M5 -6V6M-7 0H7",
}


@lru_cache(4_000)
def draw_body(ref: str | None, kind: str, label: str, wide: float, tall: float, state: str) -> Svg:
    """An actor around 0, 0, as it is in this state."""
    x, y, r = -wide / 2, -tall / 2, min(9.0, tall / 3)
    box = {"x": x, "y": y, "width": wide, "height": tall, "rx": r}
    is_dark, is_flat = state == "down", tall < FLAT
    parts = []
    if state == "back":
        parts.append(el("rect", x=x - 4, y=y - 4, width=wide + 8, height=tall + 8, rx=r + 4, fill="none", stroke=GREEN, stroke_width=3.5))
    edge: dict[str, Any] = {"cls": "kit-lit ink-line", "stroke_width": 1.6}
    if is_dark:
        edge = {"cls": "kit-dark", "stroke": RED, "stroke_width": 3.5}
    elif state in ("cut off", "fenced"):
        edge = {"cls": "paper", "stroke": RED, "stroke_width": 2.5, "stroke_dasharray": "6 4" if state == "cut off" else None}
    elif state == "frozen":
        edge = {"cls": "paper", "stroke": SKY, "stroke_width": 3, "stroke_dasharray": "4 3"}
    elif state == "away":
        edge = {"cls": "paper grey-line", "stroke_width": 1.2, "stroke_dasharray": "2 3"}
    parts.append(el("rect", **box, **edge))
    ink: dict[str, Any] = {"fill": "#FFFFFF"} if is_dark else {"cls": "grey" if state == "away" else "ink"}
    line: dict[str, Any] = {"stroke": "#FFFFFF"} if is_dark else line_paint("grey")
    middle = 0.0 if is_flat else -9.0
    sign = el("path", d=ICONS.get(kind, ICONS["worker"]), fill="none", stroke_width=1.3, stroke_linejoin="round", **line)
    parts.append(group(sign, transform=f"translate({x + 14:g} {middle:g})"))
    room = wide - 30
    size = 12 if len(label) * WIDE_CHAR <= room else 11
    most = int(room / (WIDE_CHAR * 11 / 12))
    fits = label if len(label) <= most else f"{label[: most - 1]}…"
    parts.append(el("text", fits, el("title", label), x=x + 26, y=middle + 4, font_weight="bold", font_size=size, **ink))
    if state in BADGES:
        badge = el("path", d=BADGES[state], fill="none", stroke=SKY if state == "frozen" else RED, stroke_width=3.4, stroke_linecap="round")
        disc = el(
            "path", d="M-11 0a11 11 0 1 0 22 0a11 11 0 1 0 -22 0Z", cls="paper", stroke=SKY if state == "frozen" else RED, stroke_width=1.6
        )
        parts.append(group(disc, badge, transform=f"translate({-x - 5:g} {y + 4:g}) scale({0.8 if is_flat else 1})"))
    told = NAMES.get(state)
    if told and not is_flat:
        parts.append(el("text", told, x=x + 26, y=13, font_size=11, font_weight="bold", **ink))
    return group(*parts, data_ref=ref)


@lru_cache(20_000)
def draw_line(text: str, wide: float, tall: float) -> Svg:
    """What an actor holds, in its lower half, in two lines where one is too short; a flat one has it at its right end."""
    most = int((wide - 16) / 6.0) if tall >= FLAT else int((wide - 62) / 6.0)
    first, comma, second = text.partition(", ")
    if tall >= TALL and len(text) > most and comma and max(len(first) + 1, len(second)) <= most:
        rows = [el("text", told, cls="ink", x=-wide / 2 + 9, y=y, font_size=11) for told, y in ((f"{first},", 8), (second, 20))]
        return group(*rows)
    told = text if len(text) <= most else f"{text[: max(1, most - 1)]}…"
    if tall < FLAT:
        return el("text", told, cls="grey", x=wide / 2 - 6, y=4, text_anchor="end", font_size=11)
    return el("text", told, cls="ink", x=-wide / 2 + 9, y=14, font_size=11)


def _body(actor: Actor, state: str) -> Svg:
    return draw_body(actor.ref, actor.kind, actor.label, actor.wide, actor.tall, state)


def actor_track(actor: Actor, only: float | None) -> Track:
    """An actor at its place, and when it becomes another picture; with `only` as it is at that time."""
    track = Track(transform=f"translate({actor.x:.1f} {actor.y:.1f})")
    moments = sorted({since for since, _ in (*actor.states, *actor.lines)} | {0.0})
    if only is not None:
        moments = [max((since for since in moments if since <= only), default=0.0)]
    states, lines = iter(actor.states), iter(actor.lines)
    state, text = "up", ""
    next_state, next_line = next(states, None), next(lines, None)
    for moment in moments:
        while next_state is not None and next_state[0] <= moment:
            state, next_state = next_state[1], next(states, None)
        while next_line is not None and next_line[0] <= moment:
            text, next_line = next_line[1], next(lines, None)
        has_line = text and state == "up"
        track.show(
            0 if only is not None else _cs(moment),
            [_body(actor, state), draw_line(text, actor.wide, actor.tall) if has_line else NOTHING],
        )
    return track


def tie_track(stage: Stage, only: float | None) -> Track:
    """The lines between those who belong together."""
    track = Track()
    pairs = list(dict.fromkeys((tie.one, tie.other) for tie in stage.ties))
    moments = sorted({moment for tie in stage.ties for moment in (tie.t0, tie.t1)}) if only is None else [only]
    for moment in moments:
        held = {(tie.one, tie.other) for tie in stage.ties if tie.t0 <= moment < tie.t1}
        pieces = [_draw_tie(*(stage.actors[name] for name in pair)) if pair in held else NOTHING for pair in pairs]
        track.show(0 if only is not None else _cs(moment), pieces)
    return track


def _draw_tie(one: Actor, other: Actor) -> Svg:
    return _tie(one.x + one.wide / 2, one.y, other.x - other.wide / 2, other.y)


@lru_cache(1_000)
def _tie(x0: float, y0: float, x1: float, y1: float) -> Svg:
    half = (x1 - x0) / 2
    return el(
        "path",
        d=f"M{x0:.1f} {y0:.1f}c{half:.1f} 0 {half:.1f} {y1 - y0:.1f} {x1 - x0:.1f} {y1 - y0:.1f}",
        cls="kit-tie",
        fill="none",
        stroke=GREEN,
    )


def path_of(source: Actor, target: Actor, others: Iterable[Actor]) -> tuple[float, ...]:
    """The way from one actor to another one: both ends and the point that it bends towards."""
    if source is target:
        return (source.x, source.y, source.x, source.y, source.x, source.y)
    dx, dy = target.x - source.x, target.y - source.y
    if abs(dx) > source.wide:
        way = 1 if dx > 0 else -1
        side = -min(9.0, source.tall / 4) * way  # there and back lie beside each other
        x0, y0 = source.x + way * source.wide / 2, source.y + side
        x1, y1 = target.x - way * target.wide / 2, target.y - min(9.0, target.tall / 4) * way
        bow = -10.0 * way
        low, high = sorted((source.x, target.x))
        between = [other for other in others if low + 1 < other.x < high - 1]
        crossed = [o for o in between if abs(o.y - (y0 + (y1 - y0) * (o.x - x0) / (x1 - x0))) < o.tall / 2 + 8]
        if crossed:
            reach = max(o.tall for o in crossed)
            bow = -(reach * 1.7 + 14) * way if source.y <= max(o.y for o in crossed) + 1 else (reach * 1.7 + 14)
        return (x0, y0, (x0 + x1) / 2, (y0 + y1) / 2 + bow, x1, y1)
    way = 1 if dy > 0 else -1
    side = 14.0 * way
    x0, y0 = source.x + side, source.y + way * source.tall / 2
    x1, y1 = target.x + side, target.y - way * (target.tall / 2 + PILL)  # its words stay readable
    return (x0, y0, (x0 + x1) / 2 + side, (y0 + y1) / 2, x1, y1)


def stage_of(trace: Trace, clock: PlayClock, only: float | None = None, *, has_lines: bool = True) -> Stage | None:
    """The score of a run, or with `only` what travels at that time; None where nothing ever does. What stands in the boxes may be left out.

    TraceError when a step's data are not what its word promises.
    """
    setting = STAGES.get(trace.domain)
    if setting is None or not trace.steps:
        return None
    with trace.following("be played"):
        stage = to_stage(trace, clock, setting if has_lines else replace(setting, lines=None), only)
    known = processes_of(trace)
    for actor in stage.actors.values():
        name = next((name for name in (actor.name, actor.name.rpartition(" ")[0]) if name in known), "")  # "broker 1", "broker"
        actor.ref = f"process:{name}" if name else None
    return stage


def staged(film: Film, frames: Frames, only: int | None = None) -> dict[str, Any] | None:
    """The stage of what is drawn, or with `only` of that step alone; None where nothing travels."""
    place = None if only is None else frames.clock.places[only]
    stage = stage_of(frames.trace, frames.clock, place)
    return None if stage is None else to_json(film, stage, place)


def _cs(place: float) -> int:
    return max(0, round(100 * place))


def to_json(film: Film, stage: Stage, only: float | None = None) -> dict[str, Any]:
    """All of it in hundredths of a second; with `only` the actors as they are at that time, as if they were always so."""
    actors = list(stage.actors.values())
    used = stage.travellers
    styles = {style: place for place, style in enumerate(dict.fromkeys(t.style for t in used))}
    ways: dict[tuple[str, str], int] = {}
    paths: list[list[int]] = []
    for each in used:
        if (each.source, each.target) not in ways:
            ways[each.source, each.target] = len(paths)
            paths.append([round(value) for value in path_of(stage.actors[each.source], stage.actors[each.target], actors)])
    refs = {ref: place for place, ref in enumerate(dict.fromkeys(each.ref for each in used if each.ref))}
    tied = {(tie.one, tie.other) for tie in stage.ties}
    lines = [
        el("path", d=f"M{p[0]} {p[1]}Q{p[2]} {p[3]} {p[4]} {p[5]}", cls="kit-way grey-line", fill="none", stroke_width=1)
        for way, p in zip(ways, paths, strict=True) if p[:2] != p[4:] and way not in tied
    ]  # fmt: skip
    lines += [_frame(label, held) for label, names in stage.frames.items() if len(held := [a for a in actors if a.name in names]) > 1]
    floor = stage.height - FLOOR
    lines.append(el("path", d=f"M8 {floor + 7:g}H{WIDE - 8:g}", cls="grey-line", stroke_width=1, stroke_dasharray="1 4"))
    return {
        "title": TITLE,
        "wide": round(WIDE),
        "tall": round(stage.height),
        "floor": round(floor),
        "lane": LANE,
        "back": film.add(group(*lines)),
        "ties": tie_track(stage, only).to_json(film),
        "actors": [actor_track(actor, only).to_json(film) for actor in actors],
        "looks": [{"shape": style.shape, "colour": style.colour, "text": style.text} for style in styles],
        "paths": paths,
        "travellers": _rows(used, ways, styles, refs, stage),
        "refs": list(refs),
        "legend": [[style.shape, style.colour, style.meaning] for style in STYLES.values() if style in styles and style.meaning],
        "hasLost": any(each.fate != "arrived" for each in used),
        "words": [[_cs(moment), told] for moment, told in words_of(stage)],
    }


def _frame(label: str, held: list[Actor]) -> Svg:
    """A dashed box around actors that live and die together."""
    left, right = min(a.x - a.wide / 2 for a in held) - 10, max(a.x + a.wide / 2 for a in held) + 10
    top, foot = min(a.y - a.tall / 2 for a in held) - 10, max(a.y + a.tall / 2 for a in held) + 12
    box = el(
        "rect",
        x=left,
        y=top,
        width=right - left,
        height=foot - top,
        rx=12,
        fill="none",
        cls="grey-line",
        stroke_width=1,
        stroke_dasharray="5 4",
    )
    return group(box, el("text", label, cls="grey", x=(left + right) / 2, y=foot - 5, text_anchor="middle", font_size=11))


def _rows(
    used: list[Traveller], ways: dict[tuple[str, str], int], styles: dict[Style, int], refs: dict[str, int], stage: Stage
) -> list[list[Any]]:
    """The travellers for the player, in the order in which they set off.

    Each is when it sets off (after the one before), how long it crosses and lies, its way, its style, its lane (a bubble: how far above
    its actor's middle), its label, whether it falls, how far it comes, and its ref.
    """
    rows, last = [], 0
    for each in used:
        is_bubble = each.style.shape == "bubble"
        label = f"× {each.count:,}" if each.count > 1 and not is_bubble else each.label
        lane = round(stage.actors[each.source].tall / 2) if is_bubble else each.lane
        ways_on = ways[each.source, each.target], styles[each.style], lane, label
        falls = int(each.fate != "arrived" and not is_bubble)
        t0, t1, t2 = map(_cs, (each.t0, each.t1, each.t2))
        rows.append([t0 - last, t1 - t0, t2 - t1, *ways_on, falls, round(100 * each.reach), refs.get(each.ref, -1)])
        last = t0
    return rows


def words_of(stage: Stage) -> list[tuple[float, str]]:
    """From when on who is not at work, in words."""
    moments = sorted({since for actor in stage.actors.values() for since, _ in actor.states})
    found = []
    for moment in moments:
        kept: dict[str, list[str]] = {}
        for actor in stage.actors.values():
            if (state := actor.at(moment)) not in ("up", "back"):
                kept.setdefault(state, []).append(actor.label)
        told = "; ".join(f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} {NAMES[state]}" for state, names in kept.items())
        found.append((moment, f"{told[:1].upper()}{told[1:]}." if told else "All are at work."))
    return found
