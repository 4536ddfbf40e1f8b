"""Scripts: a run as a few lines, what is done to it, and that it replays to the same trace; and the world in which it is done."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kitlib.errors import KitError
from kitlib.experiments import every, get, run
from kitlib.experiments.backend import ModelBackend
from kitlib.experiments.script import MOST_MS, Intervention, Script, ScriptError
from kitlib.experiments.world import LOST_MS, World
from kitlib.monitor.delivery import judge
from kitlib.settings import Settings
from kitlib.trace import Step, Trace

PLAIN = "answers_lost records=60 lost_answers=0 idempotence=false"

THINGS = ["request", "answer", "record", "ack of tuple", "heartbeat", "vote"]  # a story may have a message of its own
numbers = st.integers(0, 10**9 - 1)
delays = st.integers(1, MOST_MS)
on_things = st.builds(lambda verb, thing, number: Intervention(verb, f"{thing} {number}"), st.sampled_from(["lose", "double", "fail"]),
                      st.sampled_from(THINGS), numbers)  # fmt: skip
few = st.integers(2, 99)
on_attempts = st.builds(lambda number, attempt: Intervention("lose", f"ack of record {number} attempt {attempt}"), numbers, few)
of_producers = st.builds(lambda number, who: Intervention("lose", f"answer {number} of producer {who}"), numbers, few)
delayed = st.builds(lambda thing, number, ms: Intervention("delay", f"{thing} {number}", ms), st.sampled_from(THINGS), numbers, delays)
processes = st.sampled_from(["broker", "broker 2", "spout", "store-4", "__acker-7", "A"])
breaks = st.builds(lambda name, at, ms: Intervention("break", name, ms, at), processes, numbers, st.none() | delays)
freezes = st.builds(lambda name, at, ms: Intervention("freeze", name, ms, at), processes, numbers, delays)


@given(st.one_of(on_things, on_attempts, of_producers, delayed, breaks, freezes))
def test_intervention_written_and_read_is_the_same(intervention: Intervention) -> None:
    """Whatever an intervention is, its line reads back as the same one."""
    assert Intervention.parse(str(intervention)) == intervention


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    knobs: dict[str, Any] = {}
    for name, values in (("records", st.integers(1, 2_000)), ("idempotence", st.booleans()), ("acks", st.sampled_from(["all", "1", "0"]))):
        if draw(st.booleans()):
            knobs[name] = draw(values)
    script = Script.parse(" ".join(["answers_lost", f"seed={draw(st.integers(0, 2**63 - 1))}", *(f"{k}={v}" for k, v in knobs.items())]))
    for line in draw(st.lists(st.sampled_from(["lose request 3", "lose answer 3", "delay answer 4 by 20 ms", "double request 9",
                                               "break broker at 400 ms for 250 ms"]), unique=True)):  # fmt: skip
        script = script.having(line)
    return script


@given(scripts())
def test_script_written_and_read_is_the_same(script: Script) -> None:
    """A script's text reads back as the same script."""
    assert Script.parse(str(script)) == script


BAD = {
    "nothing": ("", "the script names no experiment"),
    "only comments": ("# kit script 1\n# hello", "the script names no experiment"),
    "another experiment": ("answer_lost seed=1", "line 1: there is no experiment 'answer_lost'. Did you mean 'answers_lost'?"),
    "an intervention first": ("lose answer 7", "line 1: there is no experiment 'lose'"),
    "a newer version": ("# kit script 2\nanswers_lost", 'line 1: got version "2" of the language of scripts, expected 1'),
    "a version that is none": ("# kit script <b>\nanswers_lost", 'line 1: got version "<b>"'),
    "a knob that is none": ("answers_lost sed=1", "line 1: answers_lost has no knob 'sed'"),
    "a knob without a value": ("answers_lost records", 'line 1: got "records" behind answers_lost, expected knob=value'),
    "a knob out of range": ("answers_lost records=0", "line 1: records is '0', expected 1 to 2,000 records"),
    "a knob twice": ("answers_lost records=5 records=6", "line 1: records is given twice"),
    "a bad seed": ("answers_lost seed=-1", 'line 1: seed is "-1", expected a whole number'),
    "a seed that is too large": ("answers_lost seed=9999999999999999999999", "expected a whole number from 0 to 2^63 - 1"),
    "an open quotation mark": ("answers_lost acks='all", "line 1: got \"answers_lost acks='all\", where a quotation mark is not closed"),
    "an unknown verb": ("answers_lost\nkill answer 7", 'line 2: got "kill answer 7", expected lose, delay, double or fail'),
    "no number": ("answers_lost\n\nlose answer", 'line 3: got "lose answer", expected'),
    "a negative number": ("answers_lost\nlose answer -1", 'line 2: got "lose answer -1"'),
    "a number of other digits": ("answers_lost\nlose answer ٣", "line 2: got"),
    "a delay without a time": ("answers_lost\ndelay answer 7", 'line 2: got "delay answer 7", expected lose, delay'),
    "a loss with a time": ("answers_lost\nlose answer 7 by 5 ms", 'got "lose answer 7 by 5 ms", expected lose, delay'),
    "no attempt": ("happy_path\nlose record 7 attempt 0", 'got "lose record 7 attempt 0", expected lose, delay'),
    "a delay of no time": ("answers_lost\ndelay answer 7 by 0 ms", "expected 1 to 600,000 ms"),
    "a freeze without an end": ("rebalance\nfreeze A at 5 ms", '"freeze A at 400 ms for 2000 ms"'),
    "a death with an end": ("share_group\nkill A at 5 ms for 9 ms", '"kill A at 400 ms")'),
    "a break of a member": ("rebalance\nbreak A at 5 ms", 'does not take "break A at 5 ms". It takes: freeze MEMBER at T ms for D ms;'),
    "a form that it does not take": ("answers_lost\nlose record 7", 'does not take "lose record 7". It takes: lose request N;'),
    "another process": ("answers_lost\nbreak spout at 5 ms", 'line 2: answers_lost does not take "break spout at 5 ms"'),
    "the same thing twice": ("answers_lost\nlose answer 7\ndelay answer 7 by 5 ms", "line 3:"),
    "a break in a break": ("answers_lost\nbreak broker at 5 ms for 90 ms\nbreak broker at 50 ms", "comes while broker is still down"),
    "an experiment that takes none": ("compacted_topic\nlose answer 7", "line 2: compacted_topic takes no interventions"),
    "a terminal's escapes": ("answers_lost\n\x1b[31mlose", "line 2: got \"\\x1b[31mlose\""),
    "too long": ("answers_lost\n" * 30_000, "at most 20,000 characters"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), BAD.values(), ids=BAD)
def test_bad_script_is_refused_with_a_sentence_that_names_the_line(text: str, said: str) -> None:
    """A script that cannot be read says which line is wrong, what it says and what is expected, in one printable text."""
    with pytest.raises(ScriptError) as refused:
        Script.parse(text)
    assert said in str(refused.value)
    assert str(refused.value).isprintable()


def differs_at(one: Trace, other: Trace) -> Step:
    """The first step of `other` that `one` does not have."""
    return next(step for at, step in enumerate(other.steps) if at >= len(one) or one.steps[at] != step)


# script -> where it is done (word, its data), and what the verdict says then
DEEDS: dict[str, tuple[str, str, dict[str, Any], dict[str, int]]] = {
    "lose answer": (PLAIN, "lose answer 4", {"what": "lose_answer", "request": 4}, {"duplicated": 30}),
    "lose request": (PLAIN, "lose request 4", {"what": "lose_request", "request": 4}, {"reordered": 25}),
    "delay request": (PLAIN, "delay request 4 by 200 ms", {"what": "delay", "request": 4, "ms": 200}, {}),
    "delay answer": (PLAIN, "delay answer 4 by 200 ms", {"what": "delay", "request": 4, "ms": 200}, {}),
    "double request": (PLAIN, "double request 4", {"what": "duplicate_request", "request": 4}, {"duplicated": 5}),
    "break broker": (PLAIN, "break broker at 150 ms for 250 ms", {"what": "down"}, {"duplicated": 15, "reordered": 10}),
    "break broker for good": (PLAIN, "break broker at 150 ms", {"what": "down"}, {"lost": 25, "indefinite": 15}),
    "lose record": ("happy_path", "lose record 7", {"what": "lose", "offset": 7}, {"reordered": 19, "stalled": 1}),
    "lose ack of record": ("happy_path", "lose ack of record 7", {"what": "lose_ack", "offset": 7}, {"reordered": 21, "stalled": 1}),
    "lose ack and the rest": (
        "small_max_offset_behind", "lose ack of record 7", {"what": "lose_ack"}, {"lost": 46, "reordered": 8, "stalled": 2}
    ),
    "delay record": ("happy_path", "delay record 7 by 300 ms", {"what": "delay", "ms": 300}, {"reordered": 20, "stalled": 1}),
    "double record": ("happy_path", "double record 7", {"what": "double", "offset": 7}, {"duplicated": 1, "reordered": 22}),
    "fail record": ("happy_path", "fail record 7 once", {"what": "fail", "offset": 7}, {"reordered": 22}),
    "break spout": ("happy_path", "break spout at 100 ms for 250 ms", {"what": "crash"}, {"duplicated": 13, "reordered": 23}),
    "break spout for good": ("happy_path", "break spout at 100 ms", {"what": "crash"}, {"reordered": 13}),
    "lose tuple": ("tuple_tree", "lose tuple 5", {"what": "fault", "kind": "lose", "tuple": 5}, {"duplicated": 2, "stalled": 1}),
    "delay tuple": ("tuple_tree", "delay tuple 5 by 300 ms", {"what": "fault", "kind": "delay", "ms": 300}, {}),
    "double tuple": ("tuple_tree", "double tuple 5", {"what": "fault", "kind": "double", "tuple": 5}, {"duplicated": 6, "stalled": 1}),
    "fail tuple": ("tuple_tree", "fail tuple 5", {"what": "fault", "kind": "fail", "tuple": 5}, {"duplicated": 2}),
    "lose ack of tuple": ("tuple_tree", "lose ack of tuple 5", {"what": "fault", "kind": "lose"}, {"duplicated": 4, "stalled": 1}),
    "double ack of tuple": ("tuple_tree", "double ack of tuple 5", {"what": "fault", "kind": "double"}, {"duplicated": 4, "stalled": 1}),
    "send path: lose request": ("linger_and_batches", "lose request 2", {"what": "lose_request", "request": 2}, {}),
    "send path: lose answer": ("linger_and_batches", "lose answer 2", {"what": "lose_answer", "request": 2}, {}),
    "send path: delay answer": ("linger_and_batches", "delay answer 2 by 900 ms", {"what": "delay", "ms": 900}, {}),
    "send path: double request, before idempotence": (
        "expired_batch release=0.10 stall_ms=100", "double request 0", {"what": "duplicate_request"}, {"duplicated": 1}
    ),
    "send path: break the leader": ("stale_metadata", "break broker at 100 ms for 500 ms", {"what": "killed", "broker": 0}, {}),
    "replicas: break a follower": (
        "unclean_election", "break broker 3 at 100 ms for 300 ms", {"what": "append", "last": 9},
        {"lost": 10, "duplicated": 40, "rewound": 1},
    ),
    "connect: break a worker": ("connect_worker_lost", "break w2 at 10000 ms for 20000 ms", {"what": "kill", "connectors": ["source"]}, {}),
    "streams: break an instance": ("streams_failover", "break i1 at 60000 ms for 5000 ms", {"what": "kill"}, {}),
    "group: freeze a member": ("rebalance", "freeze A at 300 ms for 3000 ms", {"what": "freeze"}, {"duplicated": 72}),
    "group: lose a heartbeat": ("rebalance", "lose heartbeat 1 of A", {"what": "lose_message", "message": "heartbeat"}, {"duplicated": 72}),
    "group: lose a commit": ("off_by_one", "lose commit 1 of A", {"what": "lose_message", "message": "commit"}, {"duplicated": 44}),
    "transaction: lose a commit's request": ("commit_and_abort", "lose request 3", {"what": "lose_request", "api": "EndTxn"}, {}),
    "transaction: lose an answer": ("commit_and_abort", "lose answer 2", {"what": "lose_answer", "api": "Produce"}, {}),
    "transaction: double a request": ("commit_and_abort", "double request 2", {"what": "duplicate_request", "request": 2}, {}),
    "transaction: delay an answer": ("commit_and_abort", "delay answer 2 by 300 ms", {"what": "delay", "ms": 300}, {}),
    "transaction: break the broker": ("commit_and_abort", "break broker at 30 ms for 800 ms", {"what": "down"}, {}),
    "transaction: break the broker for good": ("outside_effect", "break broker at 30 ms", {"what": "down"}, {"lost": 3, "duplicated": 6}),
    "transaction: freeze a producer": ("zombie", "freeze producer 2 at 60 ms for 2000 ms", {"what": "freeze"}, {"stalled": 1}),
    "break task": ("tuple_tree", "break events-1 at 60 ms for 100 ms", {"what": "crash"}, {"duplicated": 16}),
}  # fmt: skip


@pytest.mark.parametrize(("base", "line", "told", "counts"), DEEDS.values(), ids=DEEDS)
def test_intervention_changes_what_it_says_and_nothing_before_it(
    base: str, line: str, told: dict[str, Any], counts: dict[str, int]
) -> None:
    """The steps up to the fate of what was named are those of the run without the intervention; then comes the step that tells of it.

    The script that the recorded trace tells of runs to the same trace, and no anomaly of it is without a reason.
    """
    trace = run(script=f"{base}\n{line}")
    parted = differs_at(run(script=base), trace)
    assert {"what": parted.what, **parted.data}.items() >= told.items()
    verdict = judge(trace)
    assert ({kind: count for kind, count in verdict.counts.items() if count}, verdict.violations) == (counts, ())
    lines = [*trace.to_json_lines()]
    assert [*run(script=str(Script.of(Trace.from_json_lines(lines)))).to_json_lines()] == lines


@pytest.mark.parametrize("experiment", [*every()], ids=lambda experiment: experiment.name)
def test_script_of_every_experiment_is_its_run(experiment: Any) -> None:
    """Without interventions a script is experiment, seed and changed knobs, and each experiment's replays to its trace."""
    trace = experiment.run(seed=7, max_steps=experiment.run().settings.max_steps - 1)
    assert run(script=str(Script.of(trace))) == trace


# One experiment of each kind of run that takes interventions -> processes in it, and its length in ms.
KINDS = {
    "answers_lost": (["broker"], 200), "happy_path": (["spout"], 400), "tuple_tree": (["events-1", "store-4"], 300),
    "stale_metadata": (["broker"], 2_000), "expired_batch": (["broker"], 4_000),
    "follower_cut": (["broker 1", "broker 2", "broker 3"], 9_000), "connect_layouts": (["w1", "w2"], 30_000),
    "streams_tasks": (["i1", "i2"], 8_000), "rebalance": (["A", "B", "C"], 5_000), "poll_too_late": (["A", "B"], 8_000),
    "auto_commit": (["A", "B"], 3_000), "zombie": (["producer", "producer 2", "broker"], 200), "hanging_transaction": (["producer"], 1_500),
    "share_group": (["A", "B"], 900), "share_lock": (["A", "B"], 1_500),
}  # fmt: skip


@st.composite
def lines(draw: st.DrawFn, name: str) -> str:
    """Any line that the experiment takes."""
    processes, length = KINDS[name]
    form = draw(st.sampled_from(get(name).takes))
    filled = {"N": st.integers(0, 12), "T": st.integers(0, length), "D": st.integers(1, 9_000)}
    if " at T " in form and draw(st.booleans()) and not form.startswith("freeze"):
        form = form.removesuffix(" for D ms")
    words = [draw(filled[word] if word in filled else st.sampled_from(processes)) if word.isupper() else word for word in form.split()]
    return " ".join(map(str, words))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_script_replays_to_the_same_trace_or_is_refused_with_a_sentence(data: st.DataObject) -> None:
    """Whatever is done to a run, its trace's script makes the same trace, and no anomaly of it is without a reason."""
    name = data.draw(st.sampled_from([*KINDS]))
    script = "\n".join([name, *data.draw(st.lists(lines(name), min_size=1, max_size=3, unique=True))])
    try:
        trace = run(script=script)
    except ScriptError as refused:
        assert str(refused).isprintable()
        return
    assert run(script=str(Script.of(trace))) == trace
    assert not judge(trace).violations


MISSED = {
    "lose answer 99": 'answers_lost: "lose answer 99" never happened: the last answer of this run is number 10.',
    "break broker at 99999 ms": "the run was over at 194 ms",
    "lose answer 1 of producer 2": "never happened",
    "happy_path|lose record 7 attempt 2": "it did not come to that attempt",
    "happy_path|break spout at 99999 ms": "the run was over at ",
    "follower_cut|break broker 9 at 5 ms": 'names no replica that runs then. Running: broker 2, broker 3, broker 1.',
    "rebalance|freeze Z at 500 ms for 9 ms": "names no member that runs then. Running: A",
    "zombie|freeze producer 9 at 5 ms for 9 ms": "names no producer that runs then. Running:",
    "rebalance|lose heartbeat 999 of A": "the last heartbeat of this run is number",
    "share_group|kill C at 50 ms": "names no consumer that runs then. Running: A, B",
    "lag_is_zero|lose commit 1 of A": "after what the script does, the story cannot go on",
    "tuple_tree|break store-99 at 5 ms": "names no task of its topology. There are events-1, split1-2,",
    "tuple_tree|lose ack of tuple 9999": "the last acked tuple of this run is number",
}


@pytest.mark.parametrize(("line", "said"), MISSED.items())
def test_intervention_that_never_happens_is_told(line: str, said: str) -> None:
    """A script that no longer fits its run ends in a sentence that says what the run has instead."""
    with pytest.raises(ScriptError) as refused:
        run(script=f"{line.partition('|')[0] if '|' in line else PLAIN}\n{line.rpartition('|')[2]}")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("script", "why"),
    {"linger_and_batches\nlose answer 2": "a real client's threads", "commit_and_abort\nbreak broker at 5 ms": "a real client hides",
     "rebalance\nlose commit 1 of A": "a real client's threads", "share_group\nlose answer 1": "a real consumer decides"}.items(),
)  # fmt: skip
def test_what_only_the_model_can_do_is_refused_on_a_real_broker_with_its_reason(script: str, why: str) -> None:
    """A line that no real run can follow is refused before anything is started, and the sentence says why."""
    with pytest.raises(ScriptError, match=f"can be done on the model only: {why}"):
        run(backend="kafka", script=script)


def test_script_without_answers_says_so() -> None:
    """With acks=0 there is no answer that could be lost."""
    with pytest.raises(ScriptError, match="this run has no answer"):
        run(script="answers_lost acks=0 lost_answers=0 idempotence=false\nlose answer 1")


def test_knobs_and_seed_beside_a_script_come_before_its_own() -> None:
    """The same interventions can be run under another setting."""
    trace = run(script=f"{PLAIN}\nlose answer 4", idempotence=True, seed=5)
    assert (trace.settings.idempotence, trace.settings.records, trace.seed) == (True, 60, 5)
    assert not any(judge(trace).counts.values())


def test_script_of_another_experiment_is_refused() -> None:
    """An experiment runs its own scripts alone."""
    with pytest.raises(ScriptError, match="the script is one of answers_lost"):
        get("six_in_flight").run(script=PLAIN)
    with pytest.raises(KitError, match="neither an experiment's name nor a script"):
        run()


def test_second_producer_is_named() -> None:
    """Where there are two producers, a request of the second one is named with it."""
    trace = run(script="two_producers_one_id\nlose answer 0 of producer 2")
    assert [step.data["request"] for step in trace if step.what == "lose_answer"] == [0]
    assert Script.of(trace).interventions[0].target == "answer 0 of producer 2"


def test_fork_keeps_what_was_done_to_its_run() -> None:
    """A fork of a run with interventions meets them as well, and a script of it is refused with a sentence."""
    trace = run(script=f"{PLAIN}\nlose answer 4")
    fork = get("answers_lost").fork(trace, 10, delay_ms=30)
    assert fork.script == ["lose answer 4"]
    assert fork.steps[:11] == trace.steps[:11]
    with pytest.raises(ScriptError, match="is a fork"):
        Script.of(fork)


def test_header_with_a_script_that_is_no_list_of_texts_is_refused() -> None:
    """A recorded trace whose header was edited into another type says so."""
    header = json.loads(run(script=f"{PLAIN}\nlose answer 4").header())
    for wrong in ("lose answer 4", [4]):
        with pytest.raises(KitError, match="script should be"):
            Trace.from_json_lines([json.dumps(header | {"script": wrong})])


def world() -> World:
    return World(Trace("r", "test"), ModelBackend("r"), Settings())


def test_agenda_goes_by_time_and_then_by_the_order_of_adding() -> None:
    """Also for actions that could not be compared with each other; time goes on to where it was to go."""
    run, done = world(), list[tuple[int, str]]()
    for at_ms, name in ((20, "late"), (10, "first"), (10, "second"), (0, "now")):
        run.after(at_ms, lambda name=name: done.append((run.now_ms, name)))  # type: ignore[misc]
    run.run_for(15)
    assert (done, run.now_ms) == ([(0, "now"), (10, "first"), (10, "second")], 15)
    run.run_for(15)
    assert (done[-1], run.now_ms) == ((20, "late"), 30)


def test_what_follows_a_late_message_waits_and_what_follows_a_lost_one_is_lost() -> None:
    """On its line, until the network ends that; what is under way then never comes, and the next connection is as good as new."""
    run, done = world(), list[tuple[int, str]]()

    def end() -> None:
        done.append((run.now_ms, "ends"))
        line.cut()

    line = run.line("A", end)

    def carry(name: str, script: str = "") -> None:
        found = Intervention.parse(script) if script else None
        run.carry("answer", found, 5, lambda: done.append((run.now_ms, name)), lambda what, **ms: done.append((run.now_ms, what)), line)

    carry("late", "delay answer 1 by 20 ms")
    carry("behind it")
    run.run_for(30)
    carry("lost", "lose answer 3")
    carry("lost with it")
    run.run_for(LOST_MS)
    carry("again")
    run.run_for(10)
    assert done == [
        (0, "delay"), (25, "late"), (25, "behind it"), (30, "lose_answer"), (30, "lose_answer"), (30 + LOST_MS, "ends"),
        (35 + LOST_MS, "again"),
    ]  # fmt: skip
