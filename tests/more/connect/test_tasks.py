"""Source tasks and their offsets, and how many tasks there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.more.connect.source_task import SourceSettings, SourceTask
from kitlib.more.connect.work import ConnectError, TooManyTasksError, sink_tasks, source_tasks


def run(task: SourceTask, seconds: int, from_s: int = 0) -> list[int]:
    """100 records a second, with a look at the flush timer each second; what a reader sees of them."""
    seen: list[int] = []
    for second in range(from_s + 1, from_s + seconds + 1):
        for done in (task.poll(100, second * 1_000), task.maybe_flush(second * 1_000)):
            if done.visible:
                seen.extend(range(done.visible[0], done.visible[1] + 1))
    return seen


def test_interval_transaction_hides_records_until_it_ends() -> None:
    """A read_committed reader waits up to a flush interval; a crash aborts what it has not seen."""
    task = SourceTask(SourceSettings(exactly_once=True, transaction_boundary="interval"))
    task.start(0)
    assert run(task, 59) == [] and task.crash() == (0, 5_899) and task.stored == 0


@given(
    st.lists(st.tuples(st.sampled_from(["poll", "flush", "crash"]), st.integers(1, 50)), max_size=30),
    st.booleans(),
    st.sampled_from(["poll", "interval"]),
)
def test_source_task_never_loses_and_exactly_once_never_repeats(
    steps: list[tuple[str, int]], once: bool, boundary: str
) -> None:
    """Whatever happens when, every record is there; with transactions once."""
    task = SourceTask(SourceSettings(1_000, once, boundary))  # type: ignore[arg-type]
    task.start(0)
    seen: list[int] = []
    now = 0
    for what, number in [*steps, ("flush", 1)]:
        now += number * 50
        if what == "crash":
            task.crash()
            task.start(now)
            continue
        done = task.poll(number, now) if what == "poll" else task.maybe_flush(now)
        seen.extend(range(done.visible[0], done.visible[1] + 1) if done.visible else ())
    if (done := task.stop(now)).visible:
        seen.extend(range(done.visible[0], done.visible[1] + 1))
    assert set(seen) == set(range(max(seen, default=-1) + 1)) and len(set(seen)) >= task.position
    assert not once or len(seen) == len(set(seen)) == task.position


def test_tasks_max_is_a_bound_and_no_order() -> None:
    """A source that has work for one gets one; one that returns too many is refused."""
    assert source_tasks("jdbc", 1, 10) == 1
    with pytest.raises(TooManyTasksError, match=r"returned 4 tasks, expected at most tasks\.max=3"):
        source_tasks("jdbc", 4, 3)
    for wanted, most in ((1, 0), (-1, 1)):
        with pytest.raises(ConnectError, match=r"tasks\.max"):
            source_tasks("jdbc", wanted, most)


@given(st.integers(1, 12), st.dictionaries(st.sampled_from("ab"), st.integers(1, 12)))
def test_sink_tasks_share_the_partitions_and_the_rest_idles(tasks_max: int, partitions: dict[str, int]) -> None:
    """Each partition once; no more tasks at work than the largest topic has partitions."""
    held = sink_tasks(tasks_max, partitions)
    assert sorted(each for task in held for each in task) == [
        (t, p) for t in sorted(partitions) for p in range(partitions[t])
    ]
    assert len(held) == tasks_max and sum(map(bool, held)) == min(tasks_max, max(partitions.values(), default=0))
