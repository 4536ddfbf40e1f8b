"""The proxy's rules and what it understands of the protocol: refused at once when wrong, the same for the same seed."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.errors import KnobError
from kitlib.lab.proxy.frames import GarbageError, read_request
from kitlib.lab.proxy.rules import Rule, RuleBook
from tests.lab.chaos_peers import HEARTBEAT, METADATA, request

WRONG = {
    "an action that is not there": ({"action": "lose_anwser"}, "no action 'lose_anwser'.*lose_answer"),
    "an API that is not there": ({"action": "cut", "api": "Produced"}, "no API 'Produced'.*Produce, Fetch"),
    "more than all": ({"action": "cut", "percent": 101}, "percent=101 is not 0 to 100"),
    "a count below nothing": ({"action": "cut", "count": -1}, "count=-1 is not 0 or more"),
    "a truth for a number": ({"action": "cut", "skip": True}, "skip=True is not 0 or more"),
    "a delay of no time": ({"action": "delay_answer"}, "ms=0 is not 1 to 3600000"),
    "an error that is not there": ({"action": "answer_error", "error": "OOPS"}, "no error 'OOPS'.*NOT_LEADER_OR_FOLLOWER"),
    "an error for an API without": ({"action": "answer_error", "api": "ListGroups", "error": "NOT_COORDINATOR"}, "for 'ListGroups'.*Fetch"),
    "an error nobody gives": ({"action": "cut", "error": "NOT_COORDINATOR"}, "for answer_error and replace_answer"),
}
WRONG_TEXTS = {
    "melt": "no action 'melt'", "cut:percent": "'percent' is no setting", "cut:colour=red": "'colour=red' is no setting",
    "cut:count=many": "count is a number, not 'many'",
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_rule_that_names_what_is_not_there_is_refused(case: str) -> None:
    """A rule with a wrong name or number is refused when it is made, with what there is."""
    given_, words = WRONG[case]
    with pytest.raises(KnobError, match=words):
        Rule(**given_)  # type: ignore[arg-type]


def test_rule_in_one_word_is_the_rule_or_names_its_mistake() -> None:
    """Every setting can be said in one word, as the command line takes it."""
    for wrong, words in WRONG_TEXTS.items():
        with pytest.raises(KnobError, match=words):
            Rule.parse(wrong)
    text = "delay_answer:api=Fetch,percent=12.5,skip=1,count=2,client_id=me*,ms=30"
    assert Rule.parse(text) == Rule("delay_answer", "Fetch", 12.5, 1, 2, "me*", 30)
    assert Rule.parse("cut") == Rule("cut")


def deeds(book: RuleBook, frames: int, is_answer: bool = True) -> list[int | None]:
    """Which rule acts on each of so many Produce frames of one client."""
    chosen = [book.choose("Produce", "me", is_answer) for _ in range(frames)]
    return [entry.handle if entry else None for entry in chosen]


def test_skip_then_count_then_spent() -> None:
    """The first frames are skipped, so many are acted upon, then the rule is spent and the next one's turn comes."""
    book = RuleBook(seed=1)
    book.add(Rule("lose_answer", skip=2, count=3))
    book.add(Rule("withhold"))
    book.add(Rule("lose_request"))
    assert deeds(book, 8) == [2, 2, 1, 1, 1, 2, 2, 2]
    assert deeds(book, 1, is_answer=False) == [3]


def test_same_seed_same_deeds_whatever_other_rules_do() -> None:
    """Percentages are drawn from the seed and the rule's number: repeatable, and independent of other rules."""
    rule = Rule("lose_answer", percent=30)

    def drawn(seed: int, *more: Rule) -> list[int | None]:
        book = RuleBook(seed)
        for each in (rule, *more):
            book.add(each)
        return deeds(book, 2000)

    assert drawn(1) == drawn(1) != drawn(2)
    assert 500 < len([handle for handle in drawn(1) if handle]) < 700
    with_another = drawn(1, Rule("withhold", percent=50))
    assert [handle == 1 for handle in with_another] == [handle == 1 for handle in drawn(1)]


def test_clients_and_apis_are_told_apart() -> None:
    """A rule is for one client, for all whose name begins so, or for all; for one API or any."""
    assert Rule("cut", client_id="me").matches("Produce", "me") and not Rule("cut", client_id="me").matches("Produce", "me2")
    assert Rule("cut", client_id="me*").matches("Produce", "me2") and not Rule("cut", client_id="me*").matches("Produce", "you")
    assert not Rule("cut").matches("Fetch", "me") and Rule("cut", api="any").matches("Fetch", "me")


def test_book_forgets_a_rule_by_its_handle_only_once() -> None:
    """Removing a rule that is not there names those that are."""
    book = RuleBook(seed=1)
    first, second = book.add(Rule("cut")), book.add(Rule("withhold"))
    book.remove(first)
    with pytest.raises(KnobError, match=f"no rule {first} in the proxy's book .there: {second}."):
        book.remove(first)
    assert deeds(book, 1) == [second]


def varint(number: int) -> bytes:
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def flexible_produce(acks: int, transactional_id: str | None, tags: bytes = b"\0") -> bytes:
    """A Produce of version 9, which writes lengths as varints and has room for tagged fields."""
    name = b"\0" if transactional_id is None else varint(1 + len(transactional_id)) + transactional_id.encode()
    body = struct.pack(">hhih", 0, 9, 5, 2) + b"me" + tags + name + struct.pack(">hi", acks, 1000) + b"\1\0"
    return struct.pack(">i", len(body)) + body


FRAMES = [
    (request(7, b"cargo"), "Produce", True),
    (request(7, b"cargo", acks=0), "Produce", False),
    (request(7, api=METADATA), "Metadata", True),
    (request(7, api=HEARTBEAT, client_id=None), "Heartbeat", True),
    (flexible_produce(-1, None), "Produce", True),
    (flexible_produce(0, "t" * 300), "Produce", False),
    (flexible_produce(0, None, tags=b"\2\0\3abc\7\0"), "Produce", False),
]


@pytest.mark.parametrize(("frame", "api", "is_answered"), FRAMES, ids=range(len(FRAMES)))
def test_head_of_a_request_is_read(frame: bytes, api: str, is_answered: bool) -> None:
    """Whose request it is, of which API, and whether an answer comes; one that ends too early is garbage, and never read wrong."""
    head = read_request(frame)
    assert (head.api, head.is_answered, head.correlation_id, head.size) == (api, is_answered, frame[11], len(frame))
    for size in range(14):
        with pytest.raises(GarbageError):
            read_request(frame[:size])


@settings(max_examples=300, deadline=1000)
@given(st.binary(max_size=80))
def test_any_bytes_are_a_head_or_garbage(data: bytes) -> None:
    """Whatever comes, the answer comes at once."""
    try:
        head = read_request(data)
    except GarbageError:
        return
    assert head.size == len(data) >= 14


def test_tags_without_end_are_not_walked_through() -> None:
    """A header that claims billions of tagged fields costs nothing, and is none."""
    for tags in (b"\xff\xff\xff\xff\x7f" + b"\xff" * 20, b"\xff\xff\xff\xff\x0f" + b"\0\0" * 5):
        with pytest.raises(GarbageError):
            read_request(flexible_produce(1, None, tags=tags))
