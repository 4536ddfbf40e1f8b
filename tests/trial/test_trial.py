"""`kit trial`: programs with known verdicts, the comparison itself, and that nothing is left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from confluent_kafka.admin import AdminClient

from kitlib.errors import KnobError
from kitlib.lab.clients import client_config
from kitlib.lab.proxy.chaos_proxy import Rule
from kitlib.trial.programs import CONSUMER_KINDS, DRAWN, Finished, Trial, compared, drawn, kit_trial
from tests.conftest import mentions, our_processes, wait_for, within

__all__ = ["kit_trial"]  # pytest finds the fixture here, as it does in a conftest.py

# (what the topic holds, what the program was told, the counts, the first that is wrong)
DELIVERIES = {
    "all of them": ("abc", {}, {}, ""),
    "one lost": ("ac", {"a": "ack", "b": "ack"}, {"lost": 1}, "lost: b"),
    "one twice": ("abbc", {}, {"duplicated": 1}, "duplicated: b"),
    "two exchanged": ("bac", {}, {"reordered": 1}, "out of order: a"),
    "the last one first": ("cab", {}, {"reordered": 2}, "out of order: a"),
    "a batch again, later": ("abcab", {}, {"duplicated": 2}, "duplicated: a"),
    "a stranger's": ("a\x1bbc", {}, {"unknown": 1}, "unknown: \\x1b"),
    "nothing": ("", {}, {"lost": 3}, "lost: a"),
    "told failed, and stored": ("abc", {"b": "fail"}, {"failed_stored": 1}, "told failed and stored: b"),
    "told of one that nobody sent": ("abc", {"a ": "ack", "z": "ack"}, {"unknown": 1}, "unknown: z"),
    "told failed, and absent: not lost": ("ac", {"b": "fail"}, {"failed_absent": 1}, "told failed and absent: b"),
}


@pytest.mark.parametrize(("stored", "told", "counts", "witness"), DELIVERIES.values(), ids=DELIVERIES)
def test_producer_is_judged_by_what_is_stored_and_told(stored: str, told: dict[str, str], counts: dict[str, int], witness: str) -> None:
    """Each kind of trouble is counted, and the first is named; kinds that are allowed are no failure."""
    found = compared("abc", [(0, each.encode()) for each in stored], told)
    assert {kind: count for kind, count in found.counts.items() if count} == counts
    assert found.passed == (not counts) and witness in repr(found) and found.judged(counts).passed


def test_producer_of_records_that_look_alike_is_refused() -> None:
    """Two records with one value could not be told apart."""
    with pytest.raises(KnobError, match="3 records were sent with only 2 different values"):
        compared(["a", "b", "a"], [])


def test_consumer_is_judged_by_what_was_committed_before() -> None:
    """A repetition is excused only if no commit had passed the record; a missing one is passed over only if a commit has."""
    finished = Finished({each: (0, offset) for offset, each in enumerate("abcd")})
    for lines, commit in ((["b", "a"], {0: 0}), (["b"], {0: 2}), ([], {0: 3}), (["b", "?"], {0: 3})):
        finished.add(lines)
        finished.commits = [finished.commits[-1], commit]
    found = finished.verdict({0: 3})
    assert {kind: list(ids) for kind, ids in found.found.items()} == {
        "passed_over": ["c"], "unfinished": ["d"], "repeated_after_commit": ["b"], "repeated": ["b"], "reordered": ["a"], "unknown": ["?"],
    }  # fmt: skip
    assert list(found.counts) == list(CONSUMER_KINDS)


def test_repetition_after_a_restart_is_judged_by_what_was_committed_then() -> None:
    """A program that was killed reads from its commit on, however early it commits what it reads."""
    finished = Finished({each: (0, offset) for offset, each in enumerate("abc")}, [{}])
    finished.add("abc")
    finished.begun, finished.commits = [{}, {0: 1}], [{0: 3}, {0: 3}]
    finished.add("abc")
    assert (finished.found["repeated_after_commit"], finished.found["repeated"]) == (["a"], ["b", "c"])


@pytest.mark.parametrize("side", DRAWN)
def test_faults_of_a_seed_end_and_are_the_same_again(side: str) -> None:
    """Each seed draws two rules with a count, which the command can be given again."""
    for seed in range(30):
        rules = drawn(side, seed)
        assert rules == drawn(side, seed) == [Rule.parse(rule.text) for rule in rules] and all(rule.count for rule in rules)
    assert len({str(drawn(side, seed)) for seed in range(30)}) > 20


def program(name: str) -> list[str]:
    return [sys.executable, "-m", "tests.trial.trial_programs", name]


REFUSAL = "answer_error:skip=1,count=1,error="
ANSWER = ["cut_after_answer:count=1"]
COMMIT = ["cut:api=OffsetCommit,count=1", "answer_error:api=Fetch,count=2,error=NOT_LEADER_OR_FOLLOWER"]
# program: side, faults, killed after, and the kinds of trouble that are found.
VERDICTS: dict[str, tuple[str, list[str], list[int], set[str]]] = {
    "idempotent": ("producer", ["lose_answer:count=1"], [], set()),
    "kafka_python_producer": ("producer", ["lose_request:count=1", "reset:skip=4,count=1"], [], set()),
    "java_producer": ("producer", ["lose_request:count=1", f"{REFUSAL}NOT_ENOUGH_REPLICAS", "reset_answer:skip=4,count=1"], [], set()),
    "aiokafka_producer": ("producer", ["lose_answer:count=1", f"{REFUSAL}NOT_LEADER_OR_FOLLOWER"], [], set()),
    "retries": ("producer", ANSWER, [], {"duplicated"}),
    "no_flush": ("producer", [], [], {"lost"}),
    "gives_up": ("producer", ANSWER, [], {"failed_stored"}),
    "commits_after": ("consumer", COMMIT, [100], set()),
    "auto_commits": ("consumer", [], [100], set()),
    "kafka_python_consumer": ("consumer", COMMIT, [], set()),
    "aiokafka_consumer": ("consumer", COMMIT, [100], set()),
    "transactional": ("consumer", [], [100], set()),
    "spark_query": ("consumer", [], [], set()),
    "commits_before": ("consumer", [], [104], {"passed_over"}),
    "skips_what_fails": ("consumer", [], [], {"passed_over"}),
    "reads_again": ("consumer", [], [], {"repeated_after_commit"}),
}


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", VERDICTS)
def test_program_gets_its_verdict(name: str, broker: Any) -> None:
    """Right programs are never called wrong, and of wrong ones the trouble is named: Python, Java, Spark."""
    side, faults, kill, wrong = VERDICTS[name]
    with Trial.open(*map(Rule.parse, faults)) as trial:
        found = trial.producer(program(name)) if side == "producer" else trial.consumer(program(name), kill=kill, patience_s=within(75))
        counts = trial.proxy.counts()
    assert all(counts.get(Rule.parse(fault).action) for fault in faults), counts
    assert {kind for kind, count in found.counts.items() if count} - found.allowed - {"failed_absent"} == wrong, found
    assert found.passed == (not wrong) and (name != "transactional" or found.counts["repeated"] == 0)


@pytest.mark.kafka
def test_fixture_gives_a_trial_of_its_own(kit_trial: Trial, broker: Any) -> None:
    """Rules may be added, and a program killed in the middle is started again with what it was not told of."""
    kit_trial.proxy.add(Rule.parse("delay_answer:ms=100"))
    found = kit_trial.producer(program("idempotent"), records=2_000, value="order {}", kill=[100]).judged({"duplicated", "reordered"})
    assert found.passed and found.sent == 2_000, found


@pytest.mark.kafka
def test_command_prints_and_writes_its_verdict_and_takes_all_back(broker: Any, tmp_path: Path) -> None:
    """Exit 1 with JSON and JUnit for a wrong program, 2 for what cannot be run, 130 at Ctrl-C; no topic, group or process stays."""
    kit = [sys.executable, "-m", "kitlib", "trial"]
    admin = AdminClient(client_config(broker))

    def left() -> set[str]:
        groups = {each.group_id for each in admin.list_consumer_groups(request_timeout=20).result().valid}
        return {name for name in {*admin.list_topics(timeout=20).topics, *groups} if name.startswith("kit.trial.")}

    before, out = left(), tmp_path / "results" / "junit.xml"
    wrong = [*kit, "producer", "--fault", *ANSWER, "--json", "--junit", out, "--", *program("retries")]
    done = subprocess.run(wrong, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    assert done.returncode == 1 and told["counts"]["duplicated"] > 0 and not told["passed"] and told["done"] == {"cut_after_answer": 1}
    assert ElementTree.parse(out).getroot().get("failures") == "1"
    excused = [*kit, "producer", "--fault", *ANSWER, "--allow", "duplicated", "--", *program("retries")]
    allowed = subprocess.run(excused, capture_output=True, text=True, check=False)
    assert allowed.returncode == 0 and allowed.stdout.startswith("right: 300 sent"), allowed.stderr
    for bad in (["mixer", "--", "x"], ["producer", "--", "no-such-program"], ["producer", "--allow", "repeated", "--", "x"]):
        assert subprocess.run([*kit, *bad], capture_output=True, check=False).returncode == 2
    running = subprocess.Popen([*kit, "consumer", "--", *program("commits_after")], stderr=subprocess.PIPE, text=True)
    assert wait_for(lambda: [each for each in our_processes() if mentions(each, "commits_after") and each.pid != running.pid], 30)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130 and said.endswith("kit: stopped.\n") and "Traceback" not in said
    assert not [each for each in our_processes() if mentions(each, "trial_programs")] and wait_for(lambda: left() == before, 10)
