"""The assignors against every recorded group of Kafka's own classes."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.conformance.assignors import subscriptions_of
from kitlib.conformance.golden import bundled, read_traces
from kitlib.more.assignors import as_the_leader_sees

FILES = ("named", "public", "asked")  # the last one: what groups that random rows seldom have were told by Kafka 4.3.1


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return [row for name in FILES for row in read_traces(bundled("groups", f"assignors_{name}.jsonl.gz"))]


def test_recorded_groups_have_what_is_hard(rows: list[dict[str, Any]]) -> None:
    """Among them are those at which the real class throws, and those that hang on a hash table's order."""
    answers = [answer for row in rows for answer in row["steps"][0]["result"].values()]
    assert sum("exception" in answer for answer in answers) == 12
    assert sum(answer.get("order_sensitive", False) for answer in answers) == 10


def test_members_of_all_groups_come_in_the_order_of_javas_hash_map(rows: list[dict[str, Any]]) -> None:
    """The order in which the leader goes through its members is the recorded one."""
    for row in rows:
        _, members = as_the_leader_sees({}, subscriptions_of(row["steps"][0]["args"]))
        assert [each.member for each in members] == row["java_hashmap_member_order"], row["name"]
