"""When a committed offset is forgotten: the clocks of three releases, to the millisecond."""

from __future__ import annotations

import pytest

from kitlib.more.offsets.offset_rules import CachedGroup, Clock, is_expired

RETENTION_MS = 1_000
SIMPLE = CachedGroup()
EMPTY = CachedGroup("consumer", 0, 700, frozenset())
EMPTY_OF_OLD = CachedGroup("consumer", 0, None, frozenset())
READS_T = CachedGroup("consumer", 1, 700, frozenset({"t"}))
READS_U = CachedGroup("consumer", 1, 700, frozenset({"u"}))
NOT_TOLD = CachedGroup("consumer", 1, 700, None)
CONNECT = CachedGroup("connect", 1, 700, None)
EMPTY_CONNECT = CachedGroup("connect", 0, 700, None)

OLD, WITH_EXPIRY, NEW = Clock
# sentence -> (clock, group, committed at, its own expiry, the first millisecond at which it is too old or None for never)
CASES: dict[str, tuple[Clock, CachedGroup, int, int | None, int | None]] = {
    "0.8.2 keeps it for the retention after the commit, and one ms": (OLD, READS_T, 500, None, 1_501),
    "0.8.2 does not ask what the commit said": (OLD, READS_T, 500, 600, 1_501),
    "0.9 computes an expiry, and is over it by one ms": (WITH_EXPIRY, READS_T, 500, None, 1_501),
    "0.9 takes the expiry that the commit said": (WITH_EXPIRY, READS_T, 500, 600, 601),
    "a consumer without a group ages from its commit": (NEW, SIMPLE, 500, None, 1_500),
    "it expires at the very time that its commit said": (NEW, SIMPLE, 500, 600, 600),
    "an empty group ages from the time it became empty": (NEW, EMPTY, 500, None, 1_700),
    "an empty group of an old record ages from its commit": (NEW, EMPTY_OF_OLD, 500, None, 1_500),
    "an empty group's offset expires when its commit said so": (NEW, EMPTY, 500, 600, 600),
    "what a member reads does not age": (NEW, READS_T, 500, None, None),
    "what a member reads does not expire, whatever its commit said": (NEW, READS_T, 500, 600, None),
    "what no member reads any more ages from its commit": (NEW, READS_U, 500, None, 1_500),
    "a consumer group that does not tell what it reads keeps all": (NEW, NOT_TOLD, 500, None, None),
    "a group of another kind with members keeps all": (NEW, CONNECT, 500, None, None),
    "an empty group of another kind ages as an empty one": (NEW, EMPTY_CONNECT, 500, None, 1_700),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_is_expired_at_the_first_millisecond_and_not_before(case: str) -> None:
    """The sentence is true to the millisecond, and stays true."""
    clock, group, committed_ms, expires_ms, first_ms = CASES[case]

    def asked(now_ms: int) -> bool:
        return is_expired(clock, group, "t", committed_ms, expires_ms, now_ms, RETENTION_MS)

    if first_ms is None:
        assert not any(map(asked, (600, 1_500, 1_700, 10**12)))
    else:
        assert not asked(first_ms - 1) and asked(first_ms) and asked(10**12)
