"""What anchoring, acking and failing do to the trees, and the three ways to give reliability up."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.more.topology import BasicBolt, Bolt, FailedError, Fault
from tests.more.topology.parts import Event, Join, Numbers, Once, Slow, Store, bolt_that, chain, started


def vals(event: Event) -> dict[int, int]:
    return dict(event["vals"])


def test_multi_anchoring_one_id_per_anchor_goes_into_each_of_its_trees() -> None:
    """A tuple with two anchors of one tree each: an id for each, which that anchor's ack carries, too."""
    run, watch = started(chain(lambda: Numbers(2), Join, Store))
    run.run_for(50)
    (send,), emits, acks = watch.of("send"), watch.of("emit"), watch.of("bolt_ack", "a")
    first, second = emits[0]["root"], emits[1]["root"]
    ids = dict(send["ids"])
    assert list(ids) == [first, second] and ids[first] != ids[second]
    for emit, ack in zip(emits, acks, strict=True):
        ((number, _, edge),) = emit["tuples"]
        assert ack["tuple"] == number and vals(ack) == {emit["root"]: edge ^ ids[emit["root"]]}
    assert vals(*watch.of("bolt_ack", "b")) == ids and watch.messages("ack") == [0, 1]


def test_multi_anchoring_one_failed_child_fails_both_roots() -> None:
    """A tuple that is anchored to two is failed: both of their spout tuples fail and are handed out again."""
    run, watch = started(chain(lambda: Numbers(4), Join, Store), [Fault("fail", "b", nth=[1])])
    run.run_for(1_000)
    assert watch.messages("fail") == [0, 1]
    assert len(watch.of("bolt_fail")[0]["roots"]) == 2 and watch.count("acker_fail", end="fail") == 2
    assert {event["why"] for event in watch.of("fail")} == {"failed"} and {event["retry"] for event in watch.of("fail")} == {True}
    assert sorted(watch.messages("ack")) == [0, 1, 2, 3]


def habit(words: str) -> type[Bolt]:
    """A bolt that does these with each tuple: `emit` a child, once or `twice` anchored to it, `ack` it, `fail` it."""

    def does(bolt: Any, given: Any) -> None:
        for word in words.split():
            if word in ("emit", "twice"):
                bolt.collector.emit(given.values, anchors=[given] * (2 if word == "twice" else 1))
            else:
                getattr(bolt.collector, word)(given)

    return bolt_that(does)


HABITS = {
    "two acks cancel each other: the tree never ends and times out": ("emit ack ack", [], ["timeout"], 0),
    "three acks are as one: two of them cancel each other": ("emit ack ack ack", [0], [], 0),
    "two acks with another child between: the tuple's id and the first child's are told three times, so it never ends": (
        "emit ack emit ack",
        [],
        ["timeout"],
        0,
    ),
    "a fail ends the tree, and the ack after it is late for good": ("fail ack", [], ["failed"], 0),
    "one tuple as two anchors of another counts twice, and all ends well": ("twice ack", [0], [], 0),
    "a tuple that is never acked times out": ("emit", [], ["timeout"], 0),
    "a child that is anchored after the ack is not in the tree: it is acked too early": ("ack emit", [0], [], 1),
}


@pytest.mark.parametrize(("words", "acks", "whys", "outstanding"), HABITS.values(), ids=HABITS)
def test_bolt_with_a_habit_meets_the_rules_of_storm(words: str, acks: list[int], whys: list[str], outstanding: int) -> None:
    """What a bolt says twice, too late or not at all is sent as it is said."""
    run, watch = started(chain(lambda: Once(1), habit(words), Store))
    run.run_for(70_000)
    assert watch.messages("ack") == acks and [event["why"] for event in watch.of("fail")] == whys
    assert [event["outstanding"] for event in watch.of("ack")] == [outstanding] * len(acks)
    assert {event["retry"] for event in watch.of("fail")} <= {True}


def test_spout_without_a_fail_of_its_own_says_that_nothing_is_retried() -> None:
    """A failed message of such a spout is gone, and the trace says so."""

    class Forgetful(Numbers):
        fail = Numbers.__mro__[1].fail

    run, watch = started(chain(lambda: Forgetful(2), Store), [Fault("fail", "a", nth=[1])])
    run.run_for(100)
    assert [event.data for event in watch.of("fail")] == [
        {"message_id": 0, "root": watch.of("emit")[0]["root"], "retry": False, "why": "failed"}
    ]


def test_basic_bolt_fails_the_tuple_on_failed_error_and_acks_it_otherwise() -> None:
    """A BasicBolt acks when `process` returns, and fails on FailedError; what it sends is anchored."""

    class Odd(BasicBolt):
        output_fields = ("n",)
        refused: list[int] = []  # noqa: RUF012

        def prepare(self, *told: Any) -> None:
            """Without a word to the base class."""

        def process(self, given: Any, collector: Any) -> None:
            if given["n"] % 2 and given["n"] not in self.refused:
                self.refused.append(given["n"])
                raise FailedError
            collector.emit(given.values)

    run, watch = started(chain(Numbers, Odd, Store))
    run.run_for(100)
    assert watch.messages("fail") == [1, 3, 5, 7, 9] and sorted(watch.messages("ack")) == list(range(10))
    assert all(event["parents"] and event["ids"] for event in watch.of("send"))


def test_root_ids_of_few_bits_let_two_trees_be_taken_for_one() -> None:
    """Two open trees with one root: the later message takes the place of the first, which never hears of its end."""
    run, watch = started(chain(lambda: Numbers(200), Slow), root_id_bits=6)
    run.run_for(100_000)
    roots = [event["root"] for event in watch.of("emit")]
    assert len(set(roots)) <= 64 < len(roots)
    ended = {*watch.messages("ack"), *watch.messages("fail")}
    assert ended < set(range(200)), "some were overwritten: neither acked nor failed"
    assert not run.pending and {event["outstanding"] for event in watch.of("ack")} == {0}, "the tuples of both are counted"
