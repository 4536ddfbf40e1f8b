"""What pictures of offsets over time have in common: numbers and names that fit, and the stair of a committed offset."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kitlib.text import plain_text


def figure(value: int) -> str:
    """A number that fits below a sign: 1,234,567, or 12.3 M and the like."""
    if abs(value) < 10**7:
        return f"{value:,}"
    for unit, name in ((10**6, "M"), (10**9, "G"), (10**12, "T")):
        if abs(value) < unit * 1000:
            return f"{value / unit:.4g} {name}"
    return f"{value:.2e}"


def short(text: str, most: int) -> str:
    """A name in so many characters: its end matters as much as its beginning."""
    shown = plain_text(text, 200)
    return shown if len(shown) <= most else f"{shown[: most - most // 2 - 1]}…{shown[len(shown) - most // 2 :]}"


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
