"""Which task gets a tuple, grouping by grouping."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kitlib.java.hash_codes import list_hash_code
from kitlib.more.topology import TopologyBuilder, TopologyError
from kitlib.more.topology.groupings import Grouping, GroupingKind, chooser_of
from tests.more.topology.parts import Numbers, Store, chain, started

FIELDS = ("word", "count")
VALUES = st.tuples(st.text(max_size=5), st.integers(-5, 5))


def chosen(kind: GroupingKind, tasks: list[int], tuples: list[tuple[object, ...]], *fields: str) -> list[list[int]]:
    choose = chooser_of(Grouping(kind, "a", fields=fields), FIELDS, tasks, Random(1))
    return [choose(values) for values in tuples]


@given(st.integers(1, 7), st.integers(1, 5))
def test_shuffle_each_task_gets_as_many(tasks: int, rounds: int) -> None:
    """Of each `tasks` tuples in a row every task gets one."""
    got = chosen("shuffle", list(range(3, 3 + tasks)), [("a", 1)] * tasks * rounds)
    for begin in range(0, len(got), tasks):
        assert sorted(got[begin : begin + tasks]) == [[task] for task in range(3, 3 + tasks)]


@given(st.lists(VALUES, min_size=1), st.integers(1, 9))
def test_fields_equal_values_meet_in_one_task(tuples: list[tuple[object, ...]], tasks: int) -> None:
    """The task follows from the named fields alone: Java's hash of their list, modulo the tasks."""
    got = chosen("fields", list(range(10, 10 + tasks)), tuples, "word")
    assert got == [[10 + list_hash_code([word]) % tasks] for word, _ in tuples]
    both = chosen("fields", list(range(10, 10 + tasks)), tuples, "count", "word")
    assert both == [[10 + list_hash_code([count, word]) % tasks] for word, count in tuples]


def test_each_bolt_that_subscribes_gets_a_copy_with_an_id_of_its_own() -> None:
    """The tree of a tuple that goes to three bolts has three edges, and is finished after three acks."""
    builder = TopologyBuilder()
    builder.set_spout("spout", lambda: Numbers(1))
    for name in "abc":
        builder.set_bolt(name, Store).shuffle_grouping("spout")
    run, watch = started(builder.create_topology())
    run.run_for(1_000)
    (emit,) = watch.of("emit")
    ids = [edge for _, _, edge in emit["tuples"]]
    assert [to for _, to, _ in emit["tuples"]] == ["a-2", "b-3", "c-4"] and len(set(ids)) == 3
    assert emit["val"] == ids[0] ^ ids[1] ^ ids[2]
    assert [event["end"] for event in watch.of("acker_ack")] == [None, None, "ack"]
    assert watch.messages("ack") == [0] and watch.effects() == {0: 3}


def test_fields_a_value_without_hash_is_named_with_who_sent_it() -> None:
    """A fields grouping on a dict says who sends it, by which field, and what would do."""

    class Dicts(Numbers):
        def next_tuple(self) -> None:
            self.collector.emit([{}])

    builder = TopologyBuilder()
    builder.set_spout("spout", Dicts)
    builder.set_bolt("store", Store).fields_grouping("spout", ["n"])
    with pytest.raises(TopologyError, match=r"spout sends for a fields grouping by n: \{\} of type dict has no Java hash code"):
        started(builder.create_topology())[0].run_for(10)


def test_ackers_the_root_s_hash_chooses_one_and_all_take_part() -> None:
    """With three ackers each tree's messages go to the one that its root's hash names."""
    run, watch = started(chain(lambda: Numbers(200), Store), topology_ackers=3)
    run.run_for(2_000)
    by_acker = Counter(event.actor for event in watch.of("acker_init"))
    assert sorted(by_acker) == ["__acker-3", "__acker-4", "__acker-5"] and min(by_acker.values()) > 40
    for event in watch.of("acker_init") + watch.of("acker_ack"):
        assert event.actor == f"__acker-{3 + list_hash_code([event['root']]) % 3}"
    assert watch.count("ack") == 200
