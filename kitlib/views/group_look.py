"""What the picture of a consumer group is made of: the members' textures, the signs, and where things stand.

Colours keep the meanings that they have in all pictures (`kitlib.views.look`), so members are told apart
by texture and name, not by colour.
"""

from __future__ import annotations

from kitlib.views.svg import Svg, el

BAND_TOP, BAND_TALL = 6, 18  # the group's row
MEMBERS_TOP, MEMBER_TALL = 36, 24
LANES_GAP = 22  # between the last member's row and the partitions' words
MOST_LANES = 16  # partitions that are drawn
PANEL_HEAD, PANEL_ROW = 44, 28
BAR_LEFT, BAR_RIGHT = 108, 420

SIGN_WORDS = (  # what is shown of a member, in the legend's order
    "join", "leave", "kill", "freeze", "thaw", "late", "evict", "refused", "cut_off", "reconnect", "expired", "failed",
    "heard", "error",
)  # fmt: skip

TEXTURES = 6  # members beyond the sixth begin anew


def texture_path(place: int, x: float, y: float, wide: float, tall: float) -> str:
    """The texture of the member with this place among the members, on a box, as a path for `draw_texture`."""
    x, y, wide, tall = round(x, 1), round(y, 1), round(wide, 1), round(tall, 1)
    kind = place % TEXTURES
    if kind == 0:
        return box_path(x, y, wide, tall)
    if kind == 3:
        return "".join(f"M{x:g} {y + step:g}h{wide:g}" for step in range(4, int(tall), 4))
    if kind == 2:
        return "".join(f"M{x + step:g} {y:g}v{tall:g}" for step in range(4, int(wide) + 1, 5))
    if kind == 5:
        rows, columns = range(4, int(tall), 5), range(3, int(wide) - 1, 6)
        return "".join(f"M{x + step:g} {y + row:g}h2" for row in rows for step in columns)
    return "".join(_slope(x, y, wide, tall, step, kind == 1) for step in range(4, int(wide + tall), 6))


def draw_texture(place: int, path: str) -> Svg:
    """The boxes of one member, whose `texture_path`s are joined."""
    if place % TEXTURES == 0:
        return el("path", d=path, cls="grey", opacity=0.3)
    return el("path", d=path, cls="grey-line", stroke_width=2 if place % TEXTURES == 5 else 1)


def box_path(x: float, y: float, wide: float, tall: float) -> str:
    """A box, to be joined with others."""
    return f"M{x:.1f} {y:.1f}h{wide:.1f}v{tall:.1f}h-{wide:.1f}Z"


def _slope(x: float, y: float, wide: float, tall: float, step: int, is_rising: bool) -> str:
    """One line at 45 degrees through a box, cut at its edges."""
    from_x, to_x = max(0.0, step - tall), min(float(step), wide)  # on the one long edge, and on the other
    from_y, to_y = step - from_x, step - to_x
    if not is_rising:
        from_y, to_y = tall - from_y, tall - to_y
    return f"M{x + from_x:.1f} {y + from_y:.1f}l{to_x - from_x:.1f} {to_y - from_y:.1f}"
