"""`draw_window`: a window of commits as Burrow sees it, with the rule that fired and those that did not.

The slots stand side by side, oldest first: the committed offset above (its own scale, so that a step back is
seen however large the lag is), the lag below. The strip under them is time: how long the commits took, and how
long it has been silent since. Then every rule in the order in which they are asked, with why it does or does not apply.
"""

from __future__ import annotations

from dataclasses import replace
from textwrap import wrap

from kitlib.mechanisms.lag import (
    RULES,
    EmptyWindowError,
    Judgement,
    Status,
    Window,
    evaluate,
    in_seconds,
    rewind_index,
    trimmed,
)
from kitlib.text import plain_text
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.picture import Picture
from kitlib.views.pictures.history import figure
from kitlib.views.scenes.timeline import draw_box
from kitlib.views.svg import Svg, document, el, group
from kitlib.words.glyphs import BLUE, GREEN, ORANGE, RED

QUESTION = "Which rule fires, and on what?"
SLOTS_LEFT, SLOTS_RIGHT = 108, 650  # the slots; what holds now stands right of them
NOW_LEFT, NOW_RIGHT = 668, 740
OFFSETS_TOP, OFFSETS_TALL = 40, 76
LAG_TOP, LAG_TALL = 144, 54
TIME_Y = 246
RULES_TOP, RULE_TALL = 286, 20
STATUS_X, WHY_X = 168, 230  # where a rule's status and its reason begin
MOST_NUMBERED = 10  # slots that each have room for their numbers; of more the last one has
MOST_HIGHER = 4  # a lag that is so many times the others' is cut off, or theirs could not be seen


def draw_window(window: Window) -> Picture:
    """The window as Burrow judges it now; one in which an empty slot stands where a commit is needed, with EmptyWindowError's sentence."""
    try:
        judgement = evaluate(window).judgement
    except EmptyWindowError as error:  # here Burrow itself crashes
        judgement = Judgement(Status.NOTFOUND, "empty", str(error).rstrip("."))
    rules, height = _draw_rules(replace(window, commits=trimmed(window.commits)), judgement)
    body = group(
        el("text", QUESTION, cls="ink", x=LEFT, y=22, font_size=14, font_weight="bold"),
        group(
            _draw_badge(judgement), _draw_offsets(window), _draw_lags(window), _draw_time(window),
            group(rules, transform=f"translate(0 {RULES_TOP})"), transform="translate(0 30)",
        ),
    )  # fmt: skip
    sentence = plain_text(f"{judgement}.", 700)
    return Picture(sentence, document(f"A window of commits: {judgement.status.name}", sentence, body, WIDTH, RULES_TOP + height + 40))


def _draw_badge(judgement: Judgement) -> Svg:
    name = judgement.status.name
    return group(draw_box(name, LEFT, 8, 76, 22, name), el("text", f"rule: {judgement.rule}", cls="ink", x=108, y=23))


def _place(window: Window, slot: int) -> float:
    """The middle of a slot."""
    return round(SLOTS_LEFT + (SLOTS_RIGHT - SLOTS_LEFT) * (slot + 0.5) / max(1, len(window.commits)), 1)


def _has_number(window: Window, slot: int) -> bool:
    return len(window.commits) <= MOST_NUMBERED or slot == len(window.commits) - 1


def _row_name(name: str, detail: str, y: float) -> Svg:
    return group(
        el("text", name, cls="ink", x=LEFT, y=y, font_weight="bold"),
        el("text", detail, cls="grey", x=LEFT, y=y + 15, font_size=11) if detail else Svg(),
    )


def _draw_offsets(window: Window) -> Svg:
    known = [(slot, each) for slot, each in enumerate(window.commits) if each is not None]
    foot = OFFSETS_TOP + OFFSETS_TALL
    offsets = [each.offset for _, each in known] or [0]
    low, high = min(offsets), max(offsets)
    room = OFFSETS_TALL - 34  # above and below it there are numbers

    def y(offset: int) -> float:
        return round(foot - 22 - room * ((offset - low) / (high - low) if high > low else 0.5), 1)

    parts = [
        _row_name("Committed", f"{len(known)} of {len(window.commits)} slots", OFFSETS_TOP + 34),
        el("path", d=f"M{SLOTS_LEFT} {foot}H{SLOTS_RIGHT}", cls="grey-line", stroke_width=0.7),
    ]
    empty = [_place(window, slot) for slot, each in enumerate(window.commits) if each is None]
    if empty:
        path = "".join(f"M{x - 3:.1f} {foot - 30}h6" for x in empty)
        parts.append(el("path", el("title", "empty slots"), d=path, cls="grey-line", stroke_width=1.5))
    line = "".join(
        f"{'M' if not at else 'L'}{_place(window, slot):g} {y(each.offset):g}" for at, (slot, each) in enumerate(known)
    )
    if line:
        parts.append(el("path", d=line, fill="none", stroke=BLUE, stroke_width=2))
    back = _first_step_back(window)
    for at, (slot, each) in enumerate(known):
        x, went_back = _place(window, slot), at > 0 and each.offset < known[at - 1][1].offset
        if went_back:
            before_slot, before = known[at - 1]
            parts.append(_arrow(_place(window, before_slot), y(before.offset), x, y(each.offset), slot == back))
        parts.append(el("path", d=f"M{x - 4:g} {y(each.offset):g}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z", fill=BLUE, cls="paper-line"))
        if _has_number(window, slot) or slot == back:
            below = went_back or (at + 1 < len(known) and known[at + 1][1].offset > each.offset and at > 0)
            at_y = y(each.offset) + (17 if below and went_back else -9)
            parts.append(el("text", figure(each.offset), cls="ink", x=x, y=at_y, text_anchor="middle", font_size=11))
    ends = sorted(set(window.log_ends))
    parts.append(el("text", "log ends seen", cls="grey", x=NOW_LEFT, y=OFFSETS_TOP + 20, font_size=11))
    told = [figure(ends[-1])] if len(ends) == 1 else [f"{figure(ends[0])} …", figure(ends[-1])] if ends else ["none"]
    for row, word in enumerate(told):
        parts.append(el("text", word, cls="ink", x=NOW_LEFT, y=OFFSETS_TOP + 37 + 16 * row))
    return group(*parts)


def _first_step_back(window: Window) -> int | None:
    """The slot, as it is drawn, of the only step back that the rules look at."""
    commits = trimmed(window.commits)
    try:
        index = rewind_index(replace(window, commits=commits))
    except EmptyWindowError:
        return None
    return None if index is None else len(window.commits) - len(commits) + index


def _arrow(from_x: float, from_y: float, x: float, y: float, is_looked_at: bool) -> Svg:
    """From one commit down to the next; dashed where the rules never look."""
    told = "the commit goes back" if is_looked_at else "this one goes back too: the rules look at the first only"
    return el(
        "path",
        el("title", told),
        d=f"M{from_x:g} {from_y:g}L{x:g} {y:g}",
        stroke=RED,
        stroke_width=3.5,
        stroke_dasharray=None if is_looked_at else "3 4",
    )


def _draw_lags(window: Window) -> Svg:
    foot = LAG_TOP + LAG_TALL
    known = [(slot, each.lag) for slot, each in enumerate(window.commits) if each is not None]
    high = max(1, *(lag for _, lag in known if lag is not None), 0)
    high = high if window.current_lag > MOST_HIGHER * high else max(high, window.current_lag)
    wide = min(26.0, 0.6 * (SLOTS_RIGHT - SLOTS_LEFT) / max(1, len(window.commits)))

    def tall(lag: int) -> float:
        return round((LAG_TALL - 16) * min(1.0, max(0, lag) / high), 1)

    bars, fine, parts = [], [], [_row_name("Lag", "at the commit", LAG_TOP + 30)]
    for slot, lag in known:
        x = _place(window, slot)
        label = _has_number(window, slot)
        if lag is None:
            parts.append(el("text", "?", cls="ink", x=x, y=foot - 4, text_anchor="middle")) if label else None
            continue
        if lag <= window.allowed_lag:
            fine.append(f"M{x - 5:g} {foot - 7:g}l3.5 4l6.5 -8")
        else:
            bars.append(f"M{x - wide / 2:.1f} {foot:g}v-{max(1.0, tall(lag)):g}h{wide:.1f}v{max(1.0, tall(lag)):g}Z")
        if label:
            at_y = foot - 14 if lag <= window.allowed_lag else foot - max(1.0, tall(lag)) - 4
            parts.append(el("text", figure(lag), cls="ink", x=x, y=round(at_y, 1), text_anchor="middle", font_size=11))
    parts.insert(0, el("path", d="".join(bars) or "M0 0", fill=ORANGE, cls="ink-line", stroke_width=0.7))
    parts.append(el("path", el("title", "counts as none"), d="".join(fine) or "M0 0", fill="none", stroke=GREEN, stroke_width=2.5))
    parts.append(el("path", d=f"M{SLOTS_LEFT} {foot}H{SLOTS_RIGHT}M{NOW_LEFT} {foot}H{NOW_RIGHT}", cls="grey-line", stroke_width=0.7))
    x, now = NOW_LEFT + 36, max(1.0, tall(window.current_lag)) if window.current_lag else 0
    if now:
        dash = "4 3" if window.current_lag > high else None  # cut off
        path = f"M{x - 13} {foot}v-{now:g}h26v{now:g}"
        parts.append(el("path", d=path, fill="none", stroke=ORANGE, stroke_width=2, stroke_dasharray=dash))
    parts.append(el("text", figure(window.current_lag), cls="ink", x=x, y=round(foot - now - 5, 1), text_anchor="middle"))
    parts.append(el("text", "lag now", cls="grey", x=x, y=foot + 14, text_anchor="middle", font_size=11))
    for slot, each in enumerate(window.commits):
        if each is not None and _has_number(window, slot):
            number = slot + 1 - (len(window.commits) - len(trimmed(window.commits)))
            parts.append(
                el("text", f"{number}", cls="grey", x=_place(window, slot), y=foot + 14, text_anchor="middle", font_size=11)
            )
    parts.append(el("text", "commit", cls="grey", x=LEFT, y=foot + 14, font_size=11))
    return group(*parts)


def _draw_time(window: Window) -> Svg:
    """How long the commits took, and the silence since; with clocks that disagree, only words."""
    known = [each.timestamp_ms for each in window.commits if each is not None]
    parts = [_row_name("Time", "", TIME_Y + 5)]
    if not known:
        return group(*parts, el("text", "no commit in the window", cls="grey", x=SLOTS_LEFT, y=TIME_Y + 5))
    first, last, now = known[0], known[-1], window.now_s * 1000
    span, silence = last - first, now - last
    if span < 0 or silence < 0:
        told = f"the clocks disagree: the window spans {in_seconds(span)}, the last commit is {in_seconds(silence)} old"
        return group(*parts, el("text", told, cls="ink", x=SLOTS_LEFT, y=TIME_Y + 5))
    whole, wide = max(1, span + silence), NOW_RIGHT - SLOTS_LEFT

    def x(at_ms: int) -> float:
        return round(SLOTS_LEFT + wide * min(1.0, max(0.0, (at_ms - first) / whole)), 1)

    middle, is_long = x(last), silence > span
    ticks = "".join(f"M{at:g} {TIME_Y - 5}v10" for at in sorted({x(each) for each in known}))
    parts += [
        el("path", d=f"M{SLOTS_LEFT} {TIME_Y}H{middle:g}", stroke=BLUE, stroke_width=4),
        el("path", d=f"M{middle:g} {TIME_Y}H{NOW_RIGHT}", stroke=RED if is_long else None, cls=None if is_long else "grey-line",
           stroke_width=4, stroke_dasharray="5 4"),
        el("path", d=ticks, cls="ink-line", stroke_width=1.2),
        el("path", d=f"M{NOW_RIGHT} {TIME_Y - 8}v16", cls="ink-line", stroke_width=2),
    ]  # fmt: skip
    told = f"commits over {in_seconds(span)}"
    quiet = f"silent for {in_seconds(silence)}" + (", longer than that" if is_long else ", not longer than that")
    parts.append(el("text", told, cls="ink", x=SLOTS_LEFT, y=TIME_Y + 22, font_size=11))
    parts.append(el("text", f"{quiet}; now", cls="ink", x=NOW_RIGHT, y=TIME_Y + 22, text_anchor="end", font_size=11))
    return group(*parts)


def _draw_rules(window: Window, judgement: Judgement) -> tuple[Svg, int]:
    """All the rules in their order: why each did not apply up to the one that fired; those behind it were not asked."""
    parts = [el("path", d=f"M{LEFT} 0H{NOW_RIGHT}", cls="grey-line", stroke_width=0.7)]
    fired = next((place for place, rule in enumerate(RULES) if rule.name == judgement.rule), -1)
    y = 20
    if fired < 0:  # judged by none of them
        for line in wrap(plain_text(judgement.why, 240), 105):
            parts.append(el("text", line, cls="ink", x=LEFT, y=y))
            y += RULE_TALL
    for place, rule in enumerate(RULES):
        is_fired, tone = place == fired, "ink" if place <= fired else "grey"
        said = judgement.why if is_fired else f"no: {rule.answer(window)[1]}" if place < fired else "not asked"
        weight, lines = "bold" if is_fired else None, wrap(plain_text(said, 240), 82)[:2]
        if is_fired:
            tall, wide = 10 + 17 * len(lines), NOW_RIGHT - LEFT + 14
            frame = {"fill": "none", "stroke": BLUE, "stroke_width": 2}
            parts.append(el("rect", x=LEFT - 8, y=y - 15, width=wide, height=tall, rx=4, **frame))
        parts.append(el("text", f"{place + 1}  {rule.name}", cls=tone, x=LEFT, y=y, font_weight=weight))
        parts.append(el("text", rule.status.name, cls=tone, x=STATUS_X, y=y, font_weight=weight))
        for row, line in enumerate(lines):
            parts.append(el("text", line, cls=tone, x=WHY_X, y=y + 17 * row, font_size=12 if is_fired else 11.5))
        y += RULE_TALL + 17 * (len(lines) - 1) + 4 * is_fired
    return group(*parts), y - 4
