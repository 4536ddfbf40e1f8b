"""A query's checkpoint: which batch comes next, what it is made of, and what each sink shows after it was killed anywhere."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.more.micro_batch import SINKS, Batch, Checkpoint, TransactionalSink

WRITES = ("offsets", "state", "half the sink", "sink", "commit")


def run_batch(checkpoint: Checkpoint, sink: object, batch: Batch, until: str) -> None:
    """The writes of a batch, up to this one."""
    checkpoint.write_offsets(batch)
    if until == "offsets":
        return
    rows = checkpoint.write_state(batch)
    if until == "state":
        return
    if sink.takes(batch):  # type: ignore[attr-defined]
        sink.write(batch, rows, until == "half the sink")  # type: ignore[attr-defined]
    if until == "commit":
        checkpoint.write_commit(batch)


@given(
    kills=st.lists(st.sampled_from(WRITES), max_size=12), records=st.integers(0, 20), per_batch=st.integers(1, 6),
    kind=st.sampled_from(sorted(SINKS)),
)  # fmt: skip
def test_killed_anywhere_any_number_of_times_every_record_is_in_the_sink(
    kills: list[str], records: int, per_batch: int, kind: str
) -> None:
    """Nothing is lost; only the sink that appends shows rows twice, and only those of batches that ran again."""
    checkpoint, sink, again = Checkpoint(), SINKS[kind](), 0
    for until in [*kills, *["commit"] * (records + 1)]:
        batch = checkpoint.next_batch(records, per_batch)
        if batch is None:
            break
        if batch.is_again:
            again += len(batch.offsets)
            assert batch.end == checkpoint.offsets[batch.number]
        run_batch(checkpoint, sink, batch, until)
        assert all(number in checkpoint.offsets for number in checkpoint.commits)
        assert len(checkpoint.offsets.keys() - checkpoint.commits) <= 1
    counted = Counter(sink.rows)
    assert set(counted) == set(range(records)) and checkpoint.next_batch(records, per_batch) is None
    extra = sum(counted.values()) - records
    assert extra <= (again if kind == "append" else 0)


def test_a_batch_that_runs_again_is_made_from_the_state_before_it() -> None:
    """The state's operator passes the same records again: what the killed batch had written does not count."""
    checkpoint = Checkpoint()
    batch = checkpoint.next_batch(4, 4)
    assert batch is not None
    checkpoint.write_offsets(batch)
    assert checkpoint.write_state(batch) == checkpoint.write_state(batch) == [0, 1, 2, 3]
    checkpoint.write_commit(batch)
    later = checkpoint.next_batch(6, 4)
    assert later == Batch(1, 4, 6, False) and checkpoint.write_state(later) == [4, 5]


@pytest.mark.parametrize(("number", "shown"), [(0, []), (1, []), (2, [7, 8])])
def test_a_transactional_sink_passes_over_a_number_that_it_has_seen(number: int, shown: list[int]) -> None:
    """The number is what it knows a batch by, whatever is in it."""
    sink = TransactionalSink([1], last_batch=1)
    batch = Batch(number, 7, 9, False)
    assert (sink.write(batch, batch.offsets) if sink.takes(batch) else []) == shown
