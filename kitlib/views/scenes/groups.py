"""A consumer group's run as swim lanes: who holds which partition, when nobody does, and the three cursors.

Time runs to the right. The topmost row is the group as its coordinator sees it: generations, and the
rebalances between them. Below are the members with what befell them, and then a lane for each partition
with its holder's texture; where nobody holds it although the group has members the lane is hatched in
red. The panel shows after each step how far each partition was fetched, processed and committed.

A group's commit is one number, and so is how far a consumer has worked. Neither shows a hole: records that a
commit has passed and that were never processed. Here the holes are kept. A record is *lost* once the committed
offset or the start of the log has passed it, unless a member that lives was given it, or it is processed later
in the run all the same.

The lanes are drawn by hand: two members may hold a partition at once, and all boxes with one texture are one path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kitlib.text import plain_text
from kitlib.trace import Step, Trace, add_to_ranges, to_ranges
from kitlib.views.look import LEFT
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT, Scene
from kitlib.views.scenes import lag
from kitlib.views.scenes.group_reader import (
    BAND_TALL,
    BAND_TOP,
    BAR_LEFT,
    BAR_RIGHT,
    LANES_GAP,
    MEMBER_TALL,
    MEMBERS_TOP,
    MOST_LANES,
    PANEL_HEAD,
    PANEL_ROW,
    SIGN_WORDS,
    STEADY,
    TEXTURES,
    GroupStory,
    Held,
    Lane,
    Place,
    box_path,
    draw_texture,
    place_of,
    read_group,
    texture_path,
)
from kitlib.views.scenes.offsets import signs_scene
from kitlib.views.scenes.timeline import (
    Drawn,
    Item,
    centred,
    compose,
    draw_glyph,
    draw_tick,
    glyph_marks,
    glyphs_of,
    occurred,
    places,
    tick_legend,
)
from kitlib.views.svg import HATCH, Svg, el, group, letter_paint
from kitlib.words.glyphs import BLACK, BLUE, GREEN, ORANGE, RED, Glyph
from kitlib.words.word import Range

ENDS = frozenset({"kill", "leave", "error"})  # with these a member gives up what it was given


@dataclass(slots=True)
class Fates:
    """The records of all partitions after the steps that were taken."""

    ever: dict[Place, set[int]]  # processed somewhere in the whole run
    processed: dict[Place, list[Range]] = field(default_factory=dict)  # up to now
    in_hand: dict[Place, dict[int, str]] = field(
        default_factory=dict
    )  # given to a member and not processed yet -> the member
    log: dict[Place, tuple[int, int]] = field(
        default_factory=dict
    )  # the first offset that was appended, and one after the last
    log_start: dict[Place, int] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        """Take the next step."""
        if step.what in ENDS:
            for held in self.in_hand.values():
                for offset in [offset for offset, name in held.items() if name == step.actor]:
                    del held[offset]
        place = place_of(step.data)
        if place is None:
            return
        self.log_start[place] = step.state.get("log_start", self.log_start.get(place, 0))
        if step.what == "append":
            first, end = self.log.get(place, (step.data["first"], 0))
            self.log[place] = first, max(end, step.data["last"] + 1)
        elif step.what == "emit":
            self.in_hand.setdefault(place, {})[step.data["offset"]] = step.actor
        elif step.what == "process":
            add_to_ranges(self.processed.setdefault(place, []), step.data["offset"])
            self.in_hand.get(place, {}).pop(step.data["offset"], None)

    def lost(self, place: Place, committed: int) -> list[Range]:
        """The offsets that are lost, when the committed offset is this one; one beyond the log's end has passed nothing."""
        at, end = self.log.get(place, (0, 0))
        passed = max(committed if committed <= end else 0, self.log_start.get(place, 0))
        ever, in_hand = self.ever.get(place, ()), self.in_hand.get(place, ())
        found: list[int] = []
        for first, last in [*self.processed.get(place, ()), (passed, passed)]:
            found += (offset for offset in range(at, min(first, passed)) if offset not in ever and offset not in in_hand)
            at = last + 1
            if at >= passed:
                break
        return to_ranges(found)


def fates_of(trace: Trace) -> Fates:
    """The fates before the first step of a trace."""
    ever: dict[Place, set[int]] = {}
    for step in trace.steps:
        place = place_of(step.data)
        if step.what == "process" and place is not None:
            ever.setdefault(place, set()).add(step.data["offset"])
    return Fates(ever)


def told_ranges(ranges: list[Range]) -> str:
    """Ranges in words: "150 to 199, 210"."""
    return ", ".join(f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in ranges)


PARTS = {
    "all": "Who holds which partition, and when does nobody?",
    "cursors": "How far is each partition fetched, processed and committed?",
    "signs": "Which signs could have been seen, and when?",
    "lag": "What is the lag, and what does the monitor make of it?",
}
HAS_RECORDS = True
CURSORS = (("fetched", ORANGE), ("processed", GREEN), ("committed", BLUE))
COLUMNS = {"fetched": 490, "processed": 566, "committed": 648, "log end": 698}  # right ends of the numbers
HOLDER_X = 708
Ranges = tuple[tuple[int, int], ...]
TITLE = ("state", "generation", "leader", "protocol", "members")  # of the state, in the panel's first line


def to_scene(trace: Trace, part: str) -> Scene:
    """The scene of a group's trace; `part` "cursors" is the panel with the group's row alone.

    "signs" and "lag" are what a monitor sees from outside of the group.
    """
    if part == "signs":
        return signs_scene(trace)
    if part == "lag":
        return lag.to_scene(trace, "all")
    xs = places(trace)
    story = read_group(trace, xs)
    lanes = dict(list(story.lanes.items())[:MOST_LANES])
    glyphs = glyphs_of(trace, SIGN_WORDS)
    top = MEMBERS_TOP if part == "all" else BAND_TOP + BAND_TALL
    drawn = _draw_band(story)
    if part == "all":
        drawn += _draw_members(story, glyphs)
        top += MEMBER_TALL * len(story.members) + LANES_GAP
        tall, pitch = (28, 42) if len(lanes) <= 8 else (16, 27)
        spells, asked = _Spells(list(story.members)), list[Svg]()
        for lane in lanes.values():
            drawn += _draw_lane(lane, top, tall)
            for spell in lane.spells:
                spells.take(spell, top, tall)
            box = {"x": AXIS_LEFT, "y": top, "width": AXIS_RIGHT - AXIS_LEFT, "height": tall}
            asked.append(el("rect", **box, fill="transparent", data_ref=lane.ref))
            top += pitch
        drawn += [*spells.draw(), *asked]
        lines = "".join(f"M{x:.1f} {BAND_TOP + BAND_TALL}V{top}" for x, _ in story.boundaries)
        drawn.insert(0, el("path", d=lines, cls="grey-line", stroke_width=1, stroke_dasharray="2 3"))
    if (more := len(story.lanes) - len(lanes)) > 0:
        drawn.append(el("text", f"and {more} more partitions", cls="grey", x=LEFT, y=top + 10, font_size=11))
    panel = _Panel(trace, {place: lane.name for place, lane in lanes.items()})
    rows = [Drawn(top - BAND_TOP, lambda y: drawn)]
    tall, legend = PANEL_HEAD + PANEL_ROW * len(lanes), _legend(story, glyphs) if part == "all" else []
    panels = map(panel.take, trace)
    scene = compose(trace, xs, "A consumer group", PARTS[part], rows, panels, tall, legend, begin=BAND_TOP, top=BAND_TOP, gap=6, below=24)
    if panel.has_lost:
        scene.legend.insert(0, (draw_hole(1, 1, 24, 16), "lost: will never be processed"))
    return scene


def _draw_band(story: GroupStory) -> list[Svg]:
    """The group's row: a box for each generation, an orange one for each rebalance."""
    middle = BAND_TOP + BAND_TALL / 2
    parts = [el("text", "the group", cls="ink", x=LEFT, y=middle + 4, font_weight="bold")]
    for x0, x1, generation in story.bands:
        box = {"x": x0, "y": BAND_TOP, "width": max(1.0, x1 - x0), "height": BAND_TALL}
        if generation is None:
            words: tuple[str, ...] = ("a rebalance", "rebalance")
            paint: dict[str, Any] = {"fill": BLACK}
            parts.append(
                el("rect", el("title", "a rebalance goes on"), fill=ORANGE, stroke=BLACK, stroke_width=0.8, **box)
            )
        else:
            name = f"generation {generation}" if generation != STEADY else "all have their share"
            words = (name, f"gen {generation}", f"{generation}") if generation != STEADY else (name, "shared out")
            paint = {"cls": "ink"}
            parts.append(el("rect", el("title", name), fill="none", cls="grey-line", **box))
        parts += centred(words, x0, x1, middle + 4, paint)
    return parts


def _draw_members(story: GroupStory, glyphs: dict[str, Glyph]) -> list[Svg]:
    """Each member's name and texture, its line, dashed while it is frozen, and what befell it."""
    parts = []
    for place, (name, row) in enumerate(story.members.items()):
        y = MEMBERS_TOP + MEMBER_TALL * place + MEMBER_TALL / 2
        drawn = [
            el("text", row.name, cls="ink", x=LEFT, y=y + 4, font_size=12, font_weight="bold"),
            draw_texture(place, texture_path(place, AXIS_LEFT - 28, y - 8, 22, 16)),
            el("rect", x=AXIS_LEFT - 28, y=y - 8, width=22, height=16, fill="none", cls="ink-line", stroke_width=0.8),
        ]
        lines = {False: "", True: ""}
        for x0, x1, is_frozen in row.spells:
            lines[is_frozen] += f"M{x0:.1f} {y:g}H{x1:.1f}"
        drawn += [el("path", d=lines[False], cls="ink-line", stroke_width=1.6)] if lines[False] else []
        if lines[True]:
            drawn.append(el("path", d=lines[True], cls="grey-line", stroke_width=1.6, stroke_dasharray="2 4"))
        parts.append(group(*drawn, *glyph_marks(row.signs, glyphs)(y), data_ref=f"member:{plain_text(name, 60)}"))
    return parts


def _draw_lane(lane: Lane, y: float, tall: float) -> list[Svg]:
    """A partition's name and line, and below it what happened to its records."""
    parts = [el("text", lane.name, cls="ink", x=LEFT, y=y + tall / 2 + 4)]
    parts.append(el("path", d=f"M{AXIS_LEFT} {y + tall:g}H{AXIS_RIGHT}", cls="grey-line", stroke_width=0.5))
    parts += [draw_tick(what, xs, y + tall) for what, xs in lane.ticks.items() if xs]
    return parts


class _Spells:
    """The spells of all lanes, gathered so that each kind of box is one path."""

    def __init__(self, order: list[str]) -> None:
        self.order = order
        self.textures: dict[int, str] = {}
        self.missed = self.held = self.frozen = ""
        self.labels: list[Svg] = []

    def take(self, spell: Held, y: float, tall: float) -> None:
        """One spell of the lane at `y`; where two hold the partition, they have half of its height each."""
        wide = max(0.8, spell.x1 - spell.x0)
        if spell.is_missed:
            self.missed += box_path(spell.x0, y, wide, tall)
            self.labels += centred(("nobody",), spell.x0, spell.x1, y + tall / 2 + 4, {})
        each = tall / max(1, len(spell.holders))
        for row, (name, is_frozen) in enumerate(spell.holders):
            top, place = y + each * row, self.order.index(name) % TEXTURES
            self.textures[place] = self.textures.get(place, "") + texture_path(place, spell.x0, top, wide, each)
            if is_frozen:
                self.frozen += box_path(spell.x0, top, wide, each)
            else:
                self.held += box_path(spell.x0, top, wide, each)
            if each >= 14:
                words = (f"{name}, frozen", name) if is_frozen else (name,)
                self.labels += centred(words, spell.x0, spell.x1, top + each / 2 + 4, {})

    def draw(self) -> list[Svg]:
        """Textures, then outlines, then words."""
        parts = [draw_texture(place, path) for place, path in sorted(self.textures.items()) if path]
        if self.missed:
            parts.append(el("path", d=self.missed, fill=HATCH, stroke=RED, stroke_width=1))
        if self.held:
            parts.append(el("path", d=self.held, fill="none", cls="ink-line", stroke_width=0.8))
        if self.frozen:
            parts.append(el("path", d=self.frozen, fill="none", stroke=RED, stroke_width=1.6, stroke_dasharray="4 3"))
        return [*parts, group(*self.labels, **letter_paint("ink", 3))] if self.labels else parts


def _legend(story: GroupStory, glyphs: dict[str, Glyph]) -> list[Item]:
    box = {"x": 1, "y": 1, "width": 24, "height": 16, "fill": "none"}
    spells = [spell for lane in story.lanes.values() for spell in lane.spells]
    rebalances = [generation is None for _, _, generation in story.bands]
    frozen = [is_frozen for spell in spells for _, is_frozen in spell.holders]
    two = group(el("rect", **box, cls="ink-line"), el("path", d="M1 9H25", cls="ink-line"))
    held = el("rect", **box, stroke=RED, stroke_width=1.6, stroke_dasharray="4 3")
    missed = el("rect", **box | {"fill": HATCH}, stroke=RED)
    spans = [
        (any(rebalances), el("rect", **box | {"fill": ORANGE}, stroke=BLACK), "a rebalance goes on"),
        (any(spell.is_missed for spell in spells), missed, "nobody holds the partition: it stands still"),
        (any(frozen), held, "held by one who is frozen"),
        (any(len(spell.holders) > 1 for spell in spells), two, "two believe that they hold it"),
    ]
    ticks = {what for lane in story.lanes.values() for what, xs in lane.ticks.items() if xs}
    signs = {what for row in story.members.values() for what, _ in row.signs}
    shown = [(what in signs, draw_glyph(glyph, 13, 9), glyph.meaning) for what, glyph in glyphs.items()]
    return [*occurred(spans), *tick_legend(ticks), *occurred(shown)]


def _frozen(ranges: list[Range]) -> Ranges:
    """Ranges as they are now, to look up what was drawn of them."""
    return tuple((first, last) for first, last in ranges)


def draw_hole(x: float, y: float, wide: float, tall: float) -> Svg:
    """Lost records: filled with the alarm's colour, with a cross at each end where there is room."""
    box = el("rect", x=x, y=y, width=wide, height=tall, fill=RED, stroke=BLACK)
    at = [x + 10, x + wide - 10] if wide > 110 else [x + wide / 2] if wide < 30 else []
    half = min(5.0, wide / 2 - 1)
    rise = tall - 8
    path = "".join(f"M{middle - half:.1f} {y + 4:g}l{2 * half:.1f} {rise:g}m0 -{rise:g}l{-2 * half:.1f} {rise:g}" for middle in at)
    return group(box, el("path", d=path, stroke=BLACK, stroke_width=2)) if path and half > 1 else group(box)


class _Panel:
    """The panel after each step: the group in a line, and a row of three cursors for each partition."""

    def __init__(self, trace: Trace, names: dict[Place, str]) -> None:
        self.names = names
        ends = [row[3] for step in trace.steps for row in step.state.get("cursors", {}).values()]
        ends += [step.state.get("log_end", 0) for step in trace.steps]
        self.scale = (BAR_RIGHT - BAR_LEFT) / max(1, *(end for end in ends if isinstance(end, int)), 1)
        self.fates = fates_of(trace)
        self.group: dict[str, Any] = {}
        self.cursors: dict[str, list[int | None]] = {}
        self.drawn: dict[tuple[object, ...], Svg] = {}  # rows that were drawn before
        self.has_lost = False  # at any step so far
        self.head = self._head()

    def take(self, step: Step) -> tuple[list[Svg], str]:
        """The panel's pieces after a step, and what they show in words."""
        self.group = step.state.get("group", self.group)
        self.cursors = step.state.get("cursors") or self._follow(step)
        owners = self.group.get("owners", {})
        still = self.group.get("standing_still") or {}
        self.fates.take(step)
        pieces = [self.head, self._drawn(self._title)]
        told = []
        for row, (place, name) in enumerate(self.names.items()):
            y, key = PANEL_HEAD + PANEL_ROW * row, f"{place[0]}-{place[1]}"
            committed, processed, fetched, end = self.cursors.get(key, [None, 0, 0, 0])
            done = self.fates.processed.get(place) or ([[0, processed - 1]] if processed else [])
            lost = self.fates.lost(place, committed or 0)
            since = still.get(key)
            for_ms = step.at_ms - since if isinstance(since, int) else None
            pieces += [
                self._drawn(self._row, name, (fetched, committed, end or 0), _frozen(done), _frozen(lost), y),
                self._drawn(self._holder, owners.get(key), for_ms, y),
            ]
            count = sum(last + 1 - first for first, last in done)
            told.append(f"{name} fetched to {fetched or 0}, {count} processed, committed to {committed or 0}, log end {end or 0}")
            told[-1] += f", {sum(last + 1 - first for first, last in lost)} lost: {told_ranges(lost)}" if lost else ""
        return pieces, f"the cursors: {'; '.join(told)}"

    def _drawn(self, draw: Callable[..., Svg], *shown: object) -> Svg:
        """A piece, drawn once: most pieces stay as they are from one step to the next."""
        key = (draw.__name__, *(shown or [str(self.group.get(name)) for name in TITLE]))
        if key not in self.drawn:
            self.drawn[key] = draw(*shown)
        return self.drawn[key]

    def _follow(self, step: Step) -> dict[str, list[int | None]]:
        """The cursors by the steps' words, where the state does not tell them."""
        place = place_of(step.data)
        if place is None or not step.state:
            return self.cursors
        key = f"{place[0]}-{place[1]}"
        row = list(self.cursors.get(key, [None, 0, 0, 0]))
        row[3] = step.state.get("log_end", row[3])
        if step.what in ("emit", "start"):
            row[2] = step.data["offset"] + (step.what == "emit")
        elif step.what == "process":
            row[1] = max(row[1] or 0, step.data["offset"] + 1)
        elif step.what == "commit" and step.data.get("written", True):
            row[0] = step.data["offset"]
        return self.cursors | {key: row}

    def _head(self) -> Svg:
        parts = []
        for name, colour in CURSORS:
            x = COLUMNS[name]
            parts.append(el("text", name, cls="ink", x=x, y=34, text_anchor="end", font_size=11))
            parts.append(el("rect", x=x - len(name) * 6.7 - 11, y=26, width=8, height=8, fill=colour, stroke=BLACK))
        parts.append(el("text", "log end", cls="ink", x=COLUMNS["log end"], y=34, text_anchor="end", font_size=11))
        parts.append(el("text", "held by", cls="ink", x=HOLDER_X, y=34, font_size=11))
        return group(*parts)

    def _title(self) -> Svg:
        told = self.group
        if not told:
            return el("text", "There is no group yet.", cls="ink", x=LEFT, y=14)
        bold = el("tspan", plain_text(told.get("state", ""), 24), font_weight="bold")
        words = [f"generation {plain_text(told['generation'], 8)}"] if told.get("generation") is not None else []
        words += [f"leader {plain_text(told['leader'], 12)}"] if told.get("leader") else []
        words += [f"dealt by {plain_text(told['protocol'], 20)}"] if told.get("protocol") else []
        members = [plain_text(name, 12) for name in told.get("members", ())]
        words += [f"members {', '.join(members[:8])}"] if members else ["no members"]
        return el("text", "The group: ", bold, el("tspan", ", ".join(words), dx=6), cls="ink", x=LEFT, y=14)

    def _row(self, name: str, cursors: tuple[int | None, int | None, int], done: Ranges, lost: Ranges, y: int) -> Svg:
        """A partition's two cursors and what is processed as bars of their own, and as numbers; what is lost is a hole across all three."""
        fetched, committed, end = cursors
        count = sum(last + 1 - first for first, last in done)
        outline = el("rect", x=BAR_LEFT, y=y, width=max(1.0, end * self.scale), height=20, fill="none", cls="grey-line")
        parts = [el("text", name, cls="ink", x=LEFT, y=y + 14), outline]
        bars = {"fetched": ((0, (fetched or 0) - 1),), "processed": done, "committed": ((0, (committed or 0) - 1),)}
        shown = {"fetched": fetched, "processed": count, "committed": committed}
        for place, (cursor, colour) in enumerate(CURSORS):
            for first, last in bars[cursor]:
                wide = (min(last + 1, end) - first) * self.scale
                if wide > 0:
                    box = {"x": BAR_LEFT + first * self.scale, "y": y + 1 + 6.3 * place, "width": wide, "height": 5.4}
                    title = el("title", f"{cursor} {first:,} to {last:,}")
                    parts.append(el("rect", title, **box, fill=colour, stroke=BLACK, stroke_width=0.5))
            value = shown[cursor]
            told = "none" if value is None else f"{value:,}"
            parts.append(el("text", told, cls="ink", x=COLUMNS[cursor], y=y + 14, text_anchor="end"))
        parts += [self._hole(first, last, y) for first, last in lost]
        parts.append(el("text", f"{end:,}", cls="ink", x=COLUMNS["log end"], y=y + 14, text_anchor="end"))
        return group(*parts)

    def _hole(self, first: int, last: int, y: int) -> Svg:
        """Lost records, with their number where it fits."""
        self.has_lost = True
        x, wide = BAR_LEFT + first * self.scale, max(2.0, (last + 1 - first) * self.scale)
        words, paint = (f"{last + 1 - first:,} lost", f"{last + 1 - first:,}"), {"fill": BLACK, "font_weight": "bold"}
        title = el("title", f"lost: {told_ranges([[first, last]])}")
        return group(title, draw_hole(x, y, wide, 20), *centred(words, x, x + wide, y + 14, paint))

    def _holder(self, owner: object, still: int | None, y: int) -> Svg:
        """Who holds the partition by the group's last word, or for how long it has stood still."""
        name = "nobody" if owner is None else plain_text(owner, 7)
        first = el("text", name, cls="ink", x=HOLDER_X, y=y + (9 if still else 14), font_size=11)
        if not still:
            return first
        return group(first, el("text", f"{still:,} ms", cls="ink", x=HOLDER_X, y=y + 21, font_size=11))
