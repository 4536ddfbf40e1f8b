"""The table of meanings: one letter or shape and one colour for each, and none by colour alone."""

from __future__ import annotations

import itertools

import pytest

from kitlib.views.look import (
    ALL_COLOURS,
    BANDS,
    BLACK,
    DARK_GREY,
    DARK_INK,
    DARK_PAPER,
    EXISTS,
    FAILED,
    GREY,
    INK,
    IS_BELOW_COMMIT,
    IS_GONE,
    IS_READ,
    LOG_LOOKS,
    LOOK_OF,
    LOOKS,
    PAPER,
    PENDING,
    PROCESSED,
    REFUSED,
    SKIPPED,
    TABLE,
    TWICE,
    WAITING,
    badge_of,
    code_of,
)  # fmt: skip
from kitlib.views.scenes.timeline import FILLS
from kitlib.words.glyphs import RED

CASES = [
    (0, ".", "an offset without a record"),
    (EXISTS, "U", "a record that nobody has read"),
    (EXISTS | PENDING | WAITING | IS_READ, "W", "fetched, not emitted yet"),
    (EXISTS | PENDING | IS_READ, "P", "emitted, not acked"),
    (EXISTS | PENDING | PROCESSED | IS_READ, "P", "processed, but the ack has not come"),
    (EXISTS | PENDING | FAILED | IS_READ, "F", "failed, to be fetched again"),
    (EXISTS | PENDING | REFUSED | IS_READ, "N", "failed too far back: pending for ever"),
    (EXISTS | PROCESSED | IS_READ, "D", "acked, above the commit"),
    (EXISTS | PROCESSED | IS_READ | IS_BELOW_COMMIT, "C", "acked, below the commit"),
    (EXISTS | PROCESSED | IS_READ | IS_BELOW_COMMIT | IS_GONE, "R", "acked and deleted"),
    (EXISTS | REFUSED | IS_READ, "K", "cleared, the commit not there yet"),
    (EXISTS | REFUSED | IS_READ | IS_BELOW_COMMIT, "X", "cleared, and the commit has passed it"),
    (EXISTS | IS_GONE, "X", "deleted before anybody read it"),
    (EXISTS | FAILED | PENDING | IS_GONE | IS_READ, "X", "deleted before its retry could fetch it"),
    (EXISTS | PENDING | IS_GONE | IS_READ, "P", "deleted while a bolt processes it: it may still be done"),
    (EXISTS | SKIPPED | IS_BELOW_COMMIT, "S", "jumped over, and the commit has passed it"),
    (EXISTS | SKIPPED | IS_GONE, "S", "jumped over, then deleted"),
    (EXISTS | SKIPPED, "s", "jumped over, but still in the log above the commit"),
    (REFUSED | IS_BELOW_COMMIT, "E", "a tombstone that was removed before anybody read it"),
    (REFUSED | PROCESSED | IS_BELOW_COMMIT, ".", "a tombstone that was read and then removed"),
    (EXISTS | SKIPPED | PROCESSED | IS_READ, "D", "jumped over, then read after all"),
    (EXISTS | PROCESSED, "D", "done, then the position went back: it will be read again"),
]


@pytest.mark.parametrize(("flags", "code", "sentence"), CASES, ids=[case[2] for case in CASES])
def test_code_of_case(flags: int, code: str, sentence: str) -> None:
    """A record's flags and the partition's positions decide its code."""
    assert code_of(flags) == TABLE[flags] == code, sentence


def test_badges_tell_duplicates_and_work_that_the_spout_does_not_know_of() -> None:
    """2x for a duplicate, 1x for work on a record that is still pending, none else."""
    assert [badge_of(f) for f in (0, EXISTS | PROCESSED, PROCESSED | PENDING, PROCESSED | TWICE)] == [0, 0, 1, 2]


def test_every_pair_of_looks_differs_in_more_than_colour() -> None:
    """Colour never stands alone: letter, shape, outline or hatch differ too."""

    def without_colour(look: object) -> tuple[object, ...]:
        letter = look.code if look.shape == "letter" else ""
        return (letter, look.shape, look.fill == "none", look.hatch)

    for one, other in itertools.combinations(LOOKS, 2):
        assert without_colour(one) != without_colour(other), (one.name, other.name)
    assert len({band[0] for band in BANDS.values()}) == len(BANDS)


def test_every_code_has_a_look_and_every_colour_is_of_the_set() -> None:
    """The table uses only codes that can be drawn, as the looks of a producer's log are, in Okabe and Ito's colours."""
    assert set(TABLE) == {look.code for look in LOOKS} and len(LOOK_OF) == len(LOOKS) + len(LOG_LOOKS)
    named = {"none", "ink", "grey"}
    assert {c for look in (*LOOKS, *LOG_LOOKS) for c in (look.fill, look.text, look.edge)} - named <= ALL_COLOURS


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2."""

    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def washed(colour: str, wash: float, paper: str) -> str:
    """A colour with this opacity on a paper."""
    pairs = [(int(colour[i : i + 2], 16), int(paper[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(wash * above + (1 - wash) * below):02x}" for above, below in pairs)


@pytest.mark.parametrize(("ink", "grey", "paper"), [(INK, GREY, PAPER), (DARK_INK, DARK_GREY, DARK_PAPER)], ids=["light", "dark"])
def test_text_on_boxes_and_pages_has_a_contrast_of_4_5(ink: str, grey: str, paper: str) -> None:
    """Letters can be read on their boxes, pale ones too, and words on the page, in both themes."""
    named = {"ink": ink, "grey": grey}
    pairs = {
        look.meaning: (named.get(look.text, look.text), washed(look.fill, look.wash, paper) if look.fill != "none" else paper)
        for look in LOOKS
    }
    filled = {kind: fill for kind, fill in FILLS.items() if fill.fill.startswith("#")}
    pairs |= {kind: (named.get(fill.text, fill.text), washed(fill.fill, fill.wash or 1, paper)) for kind, fill in filled.items()}
    pairs |= {told: (BLACK, colour) for told, colour, _ in BANDS.values()}
    pairs |= {"ink": (ink, paper), "grey": (grey, paper)}
    assert {name: round(contrast(*pair), 1) for name, pair in pairs.items() if contrast(*pair) < 4.5} == {}


def test_what_is_lost_is_filled_with_the_alarm_and_nothing_else_is() -> None:
    """Lost is loud, what may still be lost has the alarm's outline, done is pale."""
    assert {look.code for look in LOOKS if look.fill == RED} == {"X", "S", "E"}
    assert {look.code for look in LOOKS if look.edge == RED} == {"N", "K", "F", "s"}
    assert {look.code for look in LOOKS if look.wash < 0.5} == {"D", "C"}
