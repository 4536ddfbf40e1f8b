"""The signs of a rewind as a picture: a stair of commits, and what stands on it."""

from __future__ import annotations

from kitlib.experiments import run
from kitlib.monitor.commit_history import Committed
from kitlib.monitor.rewinds import Sample, rewinds
from kitlib.views import show
from kitlib.views.pictures.history import short
from kitlib.views.scene import AXIS_LEFT, AXIS_RIGHT
from kitlib.views.scenes.signs import Clock, draw_marks, look_for_signs, thinned
from kitlib.views.svg import group
from kitlib.words.glyphs import RED

NOON = 1_763_812_800_000  # 2025-11-22, 12:00 UTC


def commits(*offsets: int | None, members: int | None = 1) -> list[Committed]:
    """One commit a second, from noon on."""
    return [Committed(order, NOON + order * 1_000, offset, members=members) for order, offset in enumerate(offsets)]


def seconds(count: int) -> Clock:
    """An axis of so many seconds from noon on."""
    return lambda at_ms: AXIS_LEFT + (AXIS_RIGHT - AXIS_LEFT) * (at_ms - NOON) / (1_000 * count)


def test_signs_near_to_each_other_have_one_number() -> None:
    """The larger of two steps back that stand side by side is the one that is told; one that is excused is grey and says by what."""
    near = [Committed(order, NOON + order, offset) for order, offset in enumerate((900, 100, 850, 800))]
    told = str(group(*draw_marks(rewinds(near), seconds(60), float)))
    assert "−800" in told and "−50" not in told and RED in told
    excused = str(group(*draw_marks(rewinds(commits(500, 100, 200, members=0)), seconds(60), float)))
    assert "someone reset it" in excused and RED not in excused


def test_names_are_cut_in_the_middle() -> None:
    """The end of a name tells the partition."""
    assert short("kit.some-long-run.orders-12", 12) == "kit.s…ers-12" and short("orders-1", 12) == "orders-1"


def rewound(at: int, seconds: int = 30) -> tuple[list[Committed], list[Sample]]:
    """Twenty records a second come in and go out; at one second the consumer begins again at offset 100."""
    position, emitted = 500, 0
    found: list[Committed] = []
    samples: list[Sample] = []
    for second in range(seconds):
        end = 500 + 20 * second
        if second == at:
            position = 100
            found.append(Committed(second, NOON + second * 1_000, 100, members=1))
        else:
            before, position = position, min(end, position + 200)
            emitted += position - before
            found.append(Committed(second, NOON + second * 1_000, position, members=1))
        samples.append(Sample(NOON + second * 1_000, end, found[-1].offset, emitted))
    return found, samples


def test_the_three_signs_stand_at_one_moment_on_one_axis() -> None:
    """The step back, the output without input and the leap of the lag; a line through all rows at the moment."""
    found, samples = rewound(12)
    seen = look_for_signs(found, samples)
    assert seen.moments_ms == [NOON + 12_000] and seen.signs.surges and seen.signs.lag_spikes
    assert seen.sentence.startswith("1 step back; 0 vanished commits; ") and "1 lag spike" in seen.sentence
    svg = show(run("stale_offset"), part="signs").svg
    assert all(f">{name}<" in svg for name in ("offsets", "rates", "lag", "−16"))
    assert "more went out than had come in and waited" in svg


def test_an_excused_step_back_is_no_moment() -> None:
    """A reset by hand is drawn in its row, and no line goes through the others."""
    by_hand = commits(500, 100, 200, 300, members=0)
    assert len(look_for_signs(by_hand, []).steps) == 1 and look_for_signs(by_hand, []).moments_ms == []


def test_many_samples_are_thinned_and_stay_counted() -> None:
    """Of a column its last look stays, so that what went out between two drawn looks is all that went out."""
    samples = [Sample(NOON + each, each, each, each) for each in range(10_000)]
    few = thinned(samples, seconds(10))
    assert len(few) <= 212 and few[0] == samples[0] and few[-1] == samples[-1]
