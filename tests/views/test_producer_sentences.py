"""What is said of a producer's steps, and the few words that stand on marks and in boxes."""

from __future__ import annotations

import re

from kitlib.experiments import every, run
from kitlib.views.frames import to_frames
from kitlib.views.scenes.idempotence import sequence_word
from kitlib.views.stage.producers import error_word
from kitlib.words.idempotence import IDEMPOTENCE
from tests.views.producing import everything


def test_every_word_has_a_sentence_and_a_long_one_fits() -> None:
    """Each word of the vocabulary is told in plain English; no story has a sentence of more than two lines."""
    stories = [everything(), *(each.run() for each in every() if each.kind.__module__.endswith(".producer_run"))]
    stories.append(run("broker_restart", restart="fail over"))
    said = {step.what: told for trace in stories for step, told in zip(trace, to_frames(trace).said, strict=True)}
    observed = {"differs", "client", "withhold", "batches", "refuse_to_start"}  # of a real broker, or a real client, alone
    assert set(IDEMPOTENCE.words) - observed == set(said)
    assert not [text for text in said.values() if re.search(r"[{}\[\]]|None\b", text)]
    assert max(len(told) for trace in stories for told in to_frames(trace).said) <= 180
    assert IDEMPOTENCE.sentence("producer", "send", {"batch": "x"}) == "producer: send batch x"


def test_words_in_boxes_are_short() -> None:
    """What stands in a box or under a mark fits there, up to the last sequence number."""
    assert [sequence_word(seq, count) for seq, count in ((0, 5), (7, 1), (100, 20), (99_990, 20), (2**31 - 3, 5))] == [
        "seq 0-4", "seq 7", "100-119", "seq 99990", "2147483645",
    ]  # fmt: skip
    assert (sequence_word(-1, 5), sequence_word(None, 5)) == ("no seq", "no seq")
    assert error_word("OUT_OF_ORDER_SEQUENCE_NUMBER") == "gap"
    assert error_word("SOME_ERROR_OF_A_LATER_RELEASE") == "some error …"
