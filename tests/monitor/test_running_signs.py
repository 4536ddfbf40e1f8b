"""Signs of a rewind while the commits come one by one: the same as over the whole history."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.errors import KnobError
from kitlib.monitor.commit_history import Committed, GroupSeen
from kitlib.monitor.rewinds import Excuse, is_topic_gone, rewinds, vanished
from kitlib.monitor.running_signs import KEPT, RunningSigns

# ms since the step before, then a commit (offset or None, topic id, members) or the end of the group
STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 400, 1_500]),
        st.one_of(
            st.none(),
            st.tuples(st.one_of(st.none(), st.integers(0, 5)), st.sampled_from([None, "a", "b"]), st.sampled_from([None, 0, 1])),
        ),
    ),
    max_size=12,
)


@given(steps=STEPS, made_good_within=st.integers(0, 3), retention_ms=st.sampled_from([5, 1_000, 10**9]))
@settings(max_examples=300, deadline=None)
def test_running_signs_are_those_of_the_whole_history(
    steps: list[tuple[int, tuple[int | None, str | None, int | None] | None]], made_good_within: int, retention_ms: int
) -> None:
    """The counts by excuse, and the last findings with all they say."""
    running = RunningSigns(made_good_within, retention_ms)
    commits, groups, at_ms = [], [], 0
    for order, (since_ms, told) in enumerate(steps):
        at_ms += since_ms
        if told is None:
            groups.append(GroupSeen(order, at_ms, 0, is_gone=True))
            running.group_ended(at_ms)
        else:
            offset, topic_id, members = told
            commits.append(Committed(order, at_ms, offset, topic_id, None, members))
            running.add(commits[-1], [each.at_ms for each in groups])
    back, gone = rewinds(commits, made_good_within), vanished(commits, groups, retention_ms)
    assert Counter(running.rewinds) == Counter(each.excuse for each in back)
    assert [each.found for each in running.rewound] == back[len(back) - len(running.rewound) :]
    if len(gone) <= KEPT:
        assert Counter(running.vanished) == Counter(each.excuse for each in gone) and running.gone == gone
    lost = running.lost()
    for topic_now in ("", "a", None):
        excuses = [each.excuse for each in vanished(commits, groups, retention_ms, topic_now=topic_now)]
        assert (Excuse.TOPIC_GONE in excuses) == (lost is not None and is_topic_gone(lost.last.topic_id, topic_now))


def test_findings_are_told_and_kept_bounded() -> None:
    """A thousand rewinds are counted, and the last few told."""
    running = RunningSigns()
    for order in range(2_000):
        running.add(Committed(order, order, 100 - order % 2 * 50 - order // 2 % 2))
    assert running.rewinds == {Excuse.NONE: 501, Excuse.MADE_GOOD: 499}
    assert len(running.rewound) == KEPT and len(running.told()) <= KEPT


@pytest.mark.parametrize("name", ["made_good_within", "retention_ms"])
def test_setting_below_nought_is_refused(name: str) -> None:
    """With what it is, and what it may be."""
    with pytest.raises(KnobError, match=f"{name}.* -1"):
        RunningSigns(**{name: -1})
