"""`draw_history`: what groups have committed over time, as the offsets topic tells it, with the signs on it.

A row for each partition of a group, with its own scale: the committed offset as a stair, red where it goes
back, broken where it has vanished. Of rows with more commits than there is room for, each column keeps its
first, lowest, highest and last, so that no step back is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kitlib.monitor.commit_history import CommitHistory, Committed, GroupPartition
from kitlib.monitor.rewinds import Rewind, Vanished, in_order, rewinds, vanished
from kitlib.text import plain_text
from kitlib.views.look import LEFT, WIDTH
from kitlib.views.picture import Picture
from kitlib.views.pictures.clock import Clock, Placed, clock_over, figure
from kitlib.views.svg import Svg, document, el, group, legend
from kitlib.words.glyphs import BLUE, RED
from kitlib.words.template import count

QUESTION = "Where did the committed offset go back, or vanish?"
CHART_LEFT, CHART_RIGHT = 176, 736
ROW_TALL, STAIR_TALL = 78, 44
FIRST_ROW = 44
MOST_ROWS = 12  # partitions that are drawn; the ones with signs come first
FEW_COMMITS = 120  # that are drawn with a dot each
COLUMN = 3  # wide, in which commits are drawn as one
MOST_MARKS = 40  # signs drawn in a row
MOST_NAMED = 4  # of which so many have their number
NAMED_APART = 130  # and none near another one with its number: one may stand left of its sign and the other right

EXCUSED = "the same, excused (point at it)"

Sign = Rewind | Vanished
Signs = Mapping[GroupPartition, Sequence[Sign]]
Commits = Mapping[GroupPartition, Sequence[Committed]]


def draw_history(history: CommitHistory | Commits, signs: Signs | None = None) -> Picture:
    """The commits of each partition, with its signs.

    `signs` None: rewinds and vanished commits are looked for here. Nothing committed is a picture that says so.
    """
    rows = rows_of(history)
    found = signs if signs is not None else signs_of(history)
    kept = {where: list(found.get(where, ())) for where in rows}
    order = sorted(rows, key=lambda where: (-sum(each.is_fault for each in kept[where]), -len(kept[where]), where))
    drawn = order[:MOST_ROWS]
    clock = clock_over((each.at_ms for where in rows for each in rows[where]), CHART_LEFT, CHART_RIGHT)
    foot = FIRST_ROW + ROW_TALL * max(1, len(drawn))
    parts = [el("text", QUESTION, cls="ink", x=LEFT, y=22, font_size=14, font_weight="bold"), clock.draw(foot, FIRST_ROW)]
    for place, where in enumerate(drawn):
        row = draw_row(where, rows[where], kept[where], clock)
        parts.append(group(row, transform=f"translate(0 {FIRST_ROW + ROW_TALL * place})"))
    if not drawn:
        parts.append(el("text", "nothing was committed", cls="ink", x=CHART_LEFT, y=FIRST_ROW + 40))
    swatches, height = draw_signs_legend(foot + 30)
    sentence = sentence_of(rows, kept)
    if len(order) > len(drawn):
        told = f"{count(len(order) - len(drawn), 'more partition')} not drawn"
        parts.append(el("text", told, cls="grey", x=CHART_RIGHT, y=22, text_anchor="end"))
    return Picture(sentence, document("Committed offsets over time", sentence, group(*parts, swatches), WIDTH, foot + 40 + height))


def rows_of(history: CommitHistory | Commits) -> dict[GroupPartition, list[Committed]]:
    """The commits in the order of the log; partitions without any are left out."""
    commits = history.commits if isinstance(history, CommitHistory) else history
    return {where: in_order(found) for where, found in commits.items() if found}


def signs_of(history: CommitHistory | Commits) -> dict[GroupPartition, list[Sign]]:
    """The rewinds and the vanished commits of every partition, by their own rules."""
    commits = history.commits if isinstance(history, CommitHistory) else history
    groups = history.groups if isinstance(history, CommitHistory) else {}
    return {
        where: [*rewinds(found), *vanished(found, groups.get(where.group, ()))] for where, found in commits.items()
    }


def sentence_of(rows: Mapping[GroupPartition, Sequence[Committed]], signs: Signs) -> str:
    """What a reader who cannot see the picture is told."""
    commits = sum(each.offset is not None for found in rows.values() for each in found)
    every = [each for found in signs.values() for each in found]
    back = [each for each in every if isinstance(each, Rewind)]
    gone = [each for each in every if isinstance(each, Vanished)]
    told = f"{count(commits, 'commit')} of {count(len(rows), 'partition')}: "
    told += f"{count(len(back), 'step')} back, {count(len(gone), 'vanished commit')}"
    faults = sum(each.is_fault for each in every)
    return f"{told}; nothing excuses {faults:,} of them." if every else f"{told}."


def draw_row(where: GroupPartition | str, commits: Sequence[Committed], signs: Sequence[Sign], clock: Clock) -> Svg:
    """The stair of one partition, with its signs; 0 <= y <= ROW_TALL. `commits` in the order of the log."""
    known = [each.offset for each in commits if each.offset is not None] or [0]
    low, high = min(known), max(known)

    def y(offset: int) -> float:
        share = (offset - low) / (high - low) if high > low else 0.5
        return round(18 + STAIR_TALL * (1 - share), 1)

    name = (where.group, f"{where.topic}-{where.partition}") if isinstance(where, GroupPartition) else (where, "")
    parts = [
        el("text", el("title", name[0]), short(name[0], 12), cls="ink", x=LEFT, y=26, font_weight="bold"),
        el("text", el("title", name[1]), short(name[1], 14), cls="ink", x=LEFT, y=42),
        el("text", figure(high), cls="grey", x=CHART_LEFT - 8, y=y(high) + 4, font_size=11, text_anchor="end"),
    ]
    if high > low:
        parts.append(el("text", figure(low), cls="grey", x=CHART_LEFT - 8, y=y(low) + 4, font_size=11, text_anchor="end"))
    points = points_of(commits, clock)
    parts.append(el("path", d=stair(points, y), fill="none", stroke=BLUE, stroke_width=2))
    if len(points) <= FEW_COMMITS:
        dots = "".join(f"M{x - 2:g} {y(offset):g}h4" for x, offset in points if offset is not None)
        parts.append(el("path", d=dots or "M0 0", stroke=BLUE, stroke_width=4))
    parts += draw_marks(signs, clock, y)
    return group(*parts)


def short(text: str, most: int) -> str:
    """A name in so many characters: its end matters as much as its beginning."""
    shown = plain_text(text, 200)
    return shown if len(shown) <= most else f"{shown[: most - most // 2 - 1]}…{shown[len(shown) - most // 2 :]}"


def points_of(commits: Sequence[Committed], clock: Placed) -> list[tuple[float, int | None]]:
    """Places with their offsets; the time never falls, and a column has four of them at most, and each tombstone."""
    columns: dict[int, list[tuple[float, int | None]]] = {}
    x = clock.left
    for each in commits:
        x = max(x, clock.x(each.at_ms))
        columns.setdefault(int(x) // COLUMN, []).append((x, each.offset))
    found: list[tuple[float, int | None]] = []
    for column in columns.values():
        if len(column) <= 4:
            found += column
            continue
        keep = {0, len(column) - 1}
        known = [(offset, place) for place, (_, offset) in enumerate(column) if offset is not None]
        keep |= {min(known)[1], max(known)[1]} if known else set()
        gone = next((place for place, (_, offset) in enumerate(column) if offset is None), None)
        keep |= set() if gone is None else {gone}
        found += [column[place] for place in sorted(keep)]
    return found


def stair(points: Sequence[tuple[float, int | None]], y: Callable[[int], float]) -> str:
    """A path that stays at an offset until the next commit, and breaks off at a tombstone."""
    path, last_y, is_open = [], -1.0, False
    for x, offset in points:
        if offset is None:
            path.append(f"H{x:g}" if is_open else "")
            is_open = False
            continue
        at_y = y(offset)
        if not is_open:
            path.append(f"M{x:g} {at_y:g}h0.1")
        elif at_y != last_y:
            path.append(f"H{x:g}V{at_y:g}")
        else:
            path.append(f"H{x:g}")
        last_y, is_open = at_y, True
    return "".join(path) or "M0 0"


def draw_marks(signs: Sequence[Sign], clock: Placed, y: Callable[[int], float]) -> list[Svg]:
    """Red arrows where it went back, crosses where it vanished; excused ones are thin and dashed."""
    parts: list[Svg] = []
    named: list[float] = []  # places of those with their number
    for sign in sorted(signs, key=lambda each: (not each.is_fault, -_size(each)))[:MOST_MARKS]:
        if isinstance(sign, Rewind):
            x, from_y, to_y = clock.x(sign.after.at_ms), y(sign.before.offset or 0), y(sign.after.offset or 0)
            from_y = min(from_y, to_y - 10)
            path, label = f"M{x:g} {from_y:g}V{to_y:g}m-4 -6l4 6l4 -6", f"−{figure(sign.records)}"
        else:
            x, from_y = clock.x(sign.tombstone.at_ms), y(sign.last.offset or 0)
            path, label = f"M{x - 5:g} {from_y - 5:g}l10 10m0 -10l-10 10", "vanished"
            to_y = from_y
            if sign.begun_again is not None and sign.begun_again.offset is not None:
                again = clock.x(sign.begun_again.at_ms), y(sign.begun_again.offset)
                line = f"M{x:g} {from_y:g}L{again[0]:g} {again[1]:g}"
                parts.append(el("path", d=line, stroke=RED, stroke_width=1.2, stroke_dasharray="2 4"))
        is_fault = sign.is_fault
        parts.append(
            el("path", el("title", str(sign)), d=path, fill="none", stroke=RED if is_fault else None,
               cls=None if is_fault else "grey-line", stroke_width=2.8 if is_fault else 1.6,
               stroke_dasharray=None if is_fault else "3 2")
        )  # fmt: skip
        if len(named) < MOST_NAMED and all(abs(x - other) > NAMED_APART for other in named):
            named.append(x)
            is_right = x < clock.right - 80
            at_y = min(ROW_TALL - 2.0, (from_y + to_y) / 2 + 4)
            parts.append(
                el("text", label, cls="ink paper-line", x=x + (8 if is_right else -8), y=round(at_y, 1), font_size=11,
                   text_anchor=None if is_right else "end", stroke_width=3, paint_order="stroke")
            )  # fmt: skip
    return parts


def _size(sign: Sign) -> int:
    return sign.records if isinstance(sign, Rewind) else 2**62


def draw_signs_legend(top: int) -> tuple[Svg, int]:
    """What the signs mean, and its height."""
    arrow, cross = "M13 2V16m-4 -6l4 6l4 -6", "M8 4l10 10m0 -10l-10 10"
    return legend(
        [
            (el("path", d="M2 14H10V9H18V4H24", fill="none", stroke=BLUE, stroke_width=2), "the committed offset"),
            (el("path", d=arrow, fill="none", stroke=RED, stroke_width=2.8), "went back: by so many records"),
            (el("path", d=cross, fill="none", stroke=RED, stroke_width=2.8), "vanished: a tombstone; dots lead to the next commit"),
            (el("path", d=arrow, fill="none", cls="grey-line", stroke_width=1.6, stroke_dasharray="3 2"), EXCUSED),
        ],
        top,
    )
