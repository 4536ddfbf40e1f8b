"""What a step says that no experiment's default run meets (`tests/test_net.py` keeps the sentences of those), and templates."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.words import domain
from kitlib.words.word import Word

LANE = {"topic": "t", "partition": 0}
WIDE = -0x7000_0000_0000_1234  # a root of 64 bits, whose last hexadecimal digits are edcc
LONG = 0x0123_4567_89AB_CDEF


def said(actor: str, what: str, **data: Any) -> str:
    return domain("spout" if actor in ("spout", "bolt") else "topology").sentence(actor, what, data)


def entry(what: str, before: int | None, val: int, end: str | None = None) -> str:
    data: dict[str, Any] = {"spout_task": 1} if what == "acker_init" else {}
    return said("__acker-5", what, root=WIDE, val=val, before=before, after=None, end=end, **data)


# A sentence as it is told -> as it should be.
SENTENCES: dict[str, tuple[str, str]] = {
    "once more, to several tasks": (
        said("lines-1", "emit", **LANE, offset=3, attempt=2, root=9, val=6, tuples=[[1, "split-2", 6], [2, "log-4", 0]]),
        "lines-1 emits offset 3 again (attempt 2) to split-2 and log-4: the tree 9 begins with 2 tuples."),
    "from a spout without a topic": (
        said("lines-1", "emit", root=WIDE, val=6, tuples=[[1, "split-2", 300]]),
        "lines-1 emits a tuple to split-2: the tree …edcc begins with id 0000 0001 0010 1100."),
    "a bolt works": (
        said("split-2", "execute", tuple=7, values=["to be", 2]), "split-2 executes tuple 7: to be, 2."),
    "a tuple of a tree": (
        said("split-2", "send", tuple=8, parents=[7], ids=[[WIDE, 255]], to="count-4", values=["to"]),
        "split-2 sends tuple 8 to count-4: to. It is anchored to tuple 7; its id is 1111 1111 in the tree …edcc."),
    "a tuple of two trees, with long ids": (
        said("join-2", "send", tuple=8, parents=[6, 7], ids=[[WIDE, LONG], [5, 1]], to="count-4", values=[]),
        "join-2 sends tuple 8 to count-4: no values. It is anchored to tuple 6 and 7; "
        "its id is …cdef in the tree …edcc and …0001 in the tree 5."),
    "an unanchored tuple": (
        said("split-2", "send", tuple=8, parents=[], ids=[], to="count-4", values=["to"]),
        "split-2 sends tuple 8 to count-4: to. It is not anchored, so no tree will miss it."),
    "a child of an untracked tuple": (
        said("split-2", "send", tuple=8, parents=[7], ids=[], to="count-4", values=["to"]),
        "split-2 sends tuple 8 to count-4: to. It is anchored to tuple 7, which is not tracked."),
    "a bolt fails five trees": (said("join-2", "bolt_fail", tuple=7, roots=[1, 2, 3, 4, 5]), "join-2 fails tuple 7, and with it 5 trees."),
    "a bolt fails what nobody tracks": (
        said("split-2", "bolt_fail", tuple=7, roots=[]), "split-2 fails tuple 7, which is not tracked."),
    "an init after an ack": (
        entry("acker_init", 3, 6), "__acker-5 receives the init of the tree …edcc: 0011 XOR 0110 = 0101."),
    "an ack that makes zero before the init": (
        entry("acker_ack", 6, 6),
        "__acker-5 receives an ack in the tree …edcc: 0110 XOR 0110 = 0000. Zero, but the acker does not know which spout to notify."),
    "an init after a fail": (
        entry("acker_init", None, 6, "fail"),
        "__acker-5 receives the init of the tree …edcc: its ack value is 0110. It had already failed: the acker notifies the spout."),
    "a fail when the number is zero": (
        said("__acker-5", "acker_fail", root=WIDE, before=0, after=None, end="ack"),
        "__acker-5 is notified that the tree …edcc has failed, but its ack value is zero: it considers the tree complete."),
    "a fail before the init": (
        said("__acker-5", "acker_fail", root=WIDE, before=None, after=None, end=None),
        "__acker-5 is notified that the tree …edcc has failed; it does not yet know which spout to notify."),
    "somebody asks for more time": (
        said("__acker-5", "acker_reset", root=WIDE, end="reset"),
        "__acker-5 is notified that the tree …edcc is still being processed and notifies the spout."),
    "a tick at the acker": (
        said("__acker-5", "acker_tick", dropped=[WIDE, 7]),
        "One timeout interval has passed: __acker-5 discards the trees …edcc, 7."),
    "a failure that lies too far back": (
        said("lines-1", "fail", **LANE, offset=3, root=WIDE, retry=False, why="failed"),
        "Offset 3 fails because its tree …edcc has failed; it is NOT emitted again."),
    "a late answer": (
        said("lines-1", "late", root=WIDE, answer="ack"), "The ack of the tree …edcc arrives late: lines-1 is no longer waiting for it."),
    "a crash of a bolt": (said("split-2", "crash", lost=1), "split-2 dies; 1 tuple is lost with it."),
    "a tuple that hangs": (said("split-2", "fault", kind="hang", tuple=7, ms=None), "A fault: split-2 hangs on tuple 7 forever."),
    "a tuple that takes longer": (
        said("split-2", "fault", kind="hang", tuple=7, ms=1500), "A fault: split-2 hangs on tuple 7 for another 1,500 ms."),
    "a tuple acked twice": (said("split-2", "fault", kind="ack_twice", tuple=7), "A fault: split-2 acks tuple 7 a second time."),
    "a forgotten anchor": (
        said("split-2", "fault", kind="unanchored", tuple=7), "A fault: split-2 forgets to anchor the tuples it sends for tuple 7."),
    "an exception": (
        said("split-2", "fault", kind="raise", error="ValueError: no"), "A fault: split-2 throws an exception (ValueError: no)."),
    "a planted exception": (said("split-2", "fault", kind="raise", tuple=7), "A fault: split-2 throws an exception on tuple 7."),
    "a lost tuple": (said("count", "fault", kind="lose", tuple=7), "A fault: tuple 7 to count is lost in transit."),
    "a lost message": (said("__acker", "fault", kind="lose", tuple=None), "A fault: a message to __acker is lost in transit."),
    "the odds": (
        said("acker", "odds", messages=256, false_completions=1, predicted=1.0),
        "256 messages arrived while a tree still had open tuples: its ack value was zero by chance 1 time; 1 were expected."),
}  # fmt: skip


@pytest.mark.parametrize("case", SENTENCES)
def test_step_of_a_task_is_told_as_a_sentence(case: str) -> None:
    """Each word of a topology's trace has a sentence of its own; the words of a lone spout keep theirs."""
    found, expected = SENTENCES[case]
    assert found == expected


@pytest.mark.parametrize(("template", "data", "expected"), [
    ("{who} joins[ and supports {names:listed()}].", {"names": []}, "A joins."),
    ("[error?no: {error:5}|yes].", {"error": "NONE"}, "yes."), ("[error?no: {error:5}|yes].", {"error": "GONE"}, "no: GONE."),
    ("{n:record} [n=1?is|are] lost.", {"n": 1}, "1 record is lost."),
    ("{n:try/tries}.", {"n": [1, 2]}, "2 tries."), ("{n:try/tries}.", {}, "0 tries."),
    ("at {at:d}[ from {old:d}[, by {by}]].", {"at": 7, "old": 0}, "at 7 from 0."), ("[a>1?many|a=@b?as b|few]", {"a": 1, "b": 1}, "as b"),
])  # fmt: skip
def test_template_says_only_what_its_data_hold(template: str, data: dict[str, Any], expected: str) -> None:
    """A section is left out, or its next alternative taken, where a field of it says nothing; 0 says something."""
    assert Word(template).sentence("A", data) == expected


@pytest.mark.parametrize("what", ["send", "emit", "acker_ack", "ack", "result", "execute", "crash"])
def test_step_whose_data_are_not_what_the_word_promises_is_told_as_it_stands(what: str) -> None:
    """A broken step is shown with what it holds, and breaks nothing."""
    assert said("split-2", what, root="<x>", ids=7, kind="new", counts=[]).startswith(f"split-2: {what} root <x>")


def test_step_of_a_task_shows_what_it_holds_as_harmless_text() -> None:
    """Values and names are cut short and written without what a terminal would obey."""
    told = said("\x1b[31m-2", "execute", tuple=7, values=["\x1b[2J" * 50])
    assert told.startswith("\\x1b[31m-2 executes tuple 7: \\x1b[2J") and len(told) < 200
