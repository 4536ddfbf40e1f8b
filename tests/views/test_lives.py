"""The life of a thing: every step that is about it, every change of its box, and the line of the model that decided."""

from __future__ import annotations

import inspect
import json
import re
from importlib import import_module

import pytest

import kitlib
from kitlib.experiments import get, names
from kitlib.settings import Settings
from kitlib.trace import Trace
from kitlib.views.browser.played import played
from kitlib.views.frames import to_frames
from kitlib.views.lives import changes_of, index_of, place_of, state_of
from kitlib.words import DOMAINS
from tests.views.lives import Event, Lives, life
from tests.views.projector import Projector
from tests.views.traces import Spout, long_trace, some_steps_of


def states(told: list[Event]) -> list[str]:
    return [each.state for each in told if each.state]


def verbs(trace: Trace, told: list[Event]) -> list[str]:
    return [trace.steps[each.step].what for each in told]


@pytest.fixture(scope="module")
def lossy() -> Trace:
    return get("small_max_offset_behind").run()


RECORDS = {
    "fetched, emitted, processed, acked, committed": (3, "append emit emit process ack commit"),
    "failed, not retried, cleared and passed by a commit": (9, "append emit emit fail clear commit"),
    "failed again and again until it succeeds": (55, "append emit" + " emit fail" * 9 + " emit process ack"),
}


@pytest.mark.parametrize("case", RECORDS)
def test_life_of_a_record_has_the_steps_that_name_it_and_those_that_change_its_box(lossy: Trace, case: str) -> None:
    """A record's life has the steps that name it and those which only its box shows: a fetch, a clear, a commit."""
    offset, expected = RECORDS[case]
    assert verbs(lossy, life(lossy, f"record:events/0/{offset}")) == expected.split()


def test_record_that_is_too_far_behind_ends_as_lost_by_the_commit_that_passes_it(lossy: Trace) -> None:
    """The life of a lost record: waiting, pending, failed for good, given up by a clear, lost by a commit."""
    told = life(lossy, "record:events/0/9")
    assert states(told) == ["not read yet", "waiting", "in flight", "failed for good", "no longer tracked", "lost: given up"]
    by = {lossy.steps[each.step].what: each.why for each in told}
    assert "max_offset_behind" in by["fail"] and by["fail"].endswith("PartitionManager.fail")
    assert "max_offset_behind" in by["clear"] and by["clear"].endswith("PartitionManager.ack")
    assert by["commit"].endswith("PartitionManager.last_completed_offset")
    assert told[-1].said.startswith("The spout commits offset 54")


def test_record_that_a_fetch_brings_along_is_changed_by_fill_and_not_by_next(lossy: Trace) -> None:
    """What a step changes and does not name has the rule of that change: a fetch brings more than it emits."""
    fetched, emitted = (each for each in life(lossy, "record:events/0/9") if lossy.steps[each.step].what == "emit")
    assert (fetched.state, emitted.state) == ("waiting", "in flight")
    assert fetched.why.endswith("PartitionManager.fill") and emitted.why.endswith("PartitionManager.next")


def test_record_that_fails_is_followed_through_its_retry() -> None:
    """A failed record's life shows the failure, the fetch that takes it again, its second attempt and the ack."""
    spout = Spout()
    spout.append(3), spout.start(0)
    for _ in range(3):
        spout.emit()
    spout.fail(1), spout.emit(), spout.process(1), spout.ack(1)
    told = life(spout.trace, "record:orders/0/1")
    assert states(told) == ["not read yet", "waiting", "in flight", "failed", "in flight", "in flight, already processed", "done"]
    assert "again, attempt 2" in told[-3].said


def test_record_that_a_reset_jumps_over_is_told_of_the_reset_and_of_the_commit_that_passes_it() -> None:
    """A record that is lost by a reset has in its life what made it so, though no step names it."""
    trace = get("out_of_range").run()
    reset = next(step for step in trace if step.what == "reset")
    offset = reset.data["to"] - 1
    told = life(trace, f"record:events/0/{offset}")
    assert verbs(trace, told) == ["append", "reset", "commit"]
    assert states(told) == ["not read yet", "skipped, not lost yet", "lost: skipped"]
    assert next(each for each in told if each.step == reset.number).why.endswith("PartitionManager.fill")


def test_life_of_a_record_ends_with_what_its_box_shows() -> None:
    """At any step the newest state in a record's life is what the strip shows of it then."""
    trace = long_trace(300)
    index, lane = Lives(trace), to_frames(trace).lanes[0]
    for step in (20, 77, 150, 299):
        codes = lane.after(step).codes
        for offset in range(0, 60, 7):
            told = [each.state for each in index.of(f"record:orders/0/{offset}") if each.state and each.step <= step]
            assert told[-1].partition(",")[0] == state_of(codes[offset], 0), (step, offset)


def test_changes_are_those_that_comparing_whole_strips_finds() -> None:
    """The changes of a lane, worked out from its toggles, are those between the strips of one step and the next."""
    trace = get("several_tuples").run()
    lane = to_frames(trace).lanes[0]
    shown: dict[int, str] = {}
    found = list(changes_of(lane))
    for step in [moment.step for moment in lane.moments]:
        for change in found:
            if change.step == step:
                shown |= dict.fromkeys(range(change.first, change.last + 1), change.state.partition(",")[0])
        codes = lane.after(step).codes
        expected = {lane.base + at: state_of(code, 0) for at, code in enumerate(codes) if code != "."}
        assert {offset: name for offset, name in shown.items() if name != "no record"} == expected, step


# Run, thing -> verbs of its life in their order, and a verb that is none of it.
LIVES = {
    "a tuple with its parent, its children and its ack": ("tuple_tree", "tuple:4", "send execute send send bolt_ack", "emit"),
    "a batch with its lost answer and its retry": (
        "answers_lost", "batch:4", "request write lose_answer no_answer requeue recognise answer delivered", "read"),
    "a record has what becomes of its batch": ("answers_lost", "record:events/0/20", "lose_answer requeue", "read"),
    "a record of another batch has not": ("answers_lost", "record:events/0/2", "write", "lose_answer"),
    "a record of an aborted transaction has its marker": ("zombie", "record:output/0/0", "write marker", "poll"),
    "a member and what is done to it": ("poll_too_late", "member:A", "join assigned late evict lost", "append"),
    "a partition and its owners, not its records": ("poll_too_late", "partition:orders/0", "assigned lost commit", "process"),
}


@pytest.mark.parametrize("case", LIVES)
def test_life_of_a_thing_has_what_happens_to_it_in_order(case: str) -> None:
    """Also where a step names what the thing is a part of, and nothing of its neighbours."""
    name, ref, expected, other = LIVES[case]
    trace = get(name).run()
    told = iter(verbs(trace, life(trace, ref)))
    assert all(verb in told for verb in expected.split()), "each after the one before"
    assert other not in verbs(trace, life(trace, ref))


def test_batches_of_two_producers_with_the_same_number_have_lives_of_their_own() -> None:
    """Where two producers number alike, the second one's names begin with it, at the broker as well."""
    trace = get("two_producers_one_id").run()
    first, second = life(trace, "batch:0"), life(trace, "batch:producer 2/0")
    assert not {each.step for each in first} & {each.step for each in second}
    assert verbs(trace, first) == verbs(trace, second) == ["send", "request", "write", "answer", "delivered"]


def test_models_of_other_releases_decide_in_runs_that_have_them() -> None:
    """The rule's line is that of the release that the knobs name."""
    trace = get("retry_with_backoff").run()
    failed = next(step.data["offset"] for step in trace if step.what == "fail")
    why = next(each.why for each in life(trace, f"record:events/0/{failed}") if trace.steps[each.step].what == "fail")
    assert why.endswith("BackoffPartitionManager.fail") and "kitlib/more/spout/retry.py" in why


RULES = {
    f"{domain.name} {what}{' aside' * is_aside}": rule
    for domain in DOMAINS.values()
    for what, word in domain.words.items()
    for is_aside, rule in enumerate((word.rule, word.aside))
    if rule
}


@pytest.mark.parametrize("name", RULES)
def test_rule_names_a_function_that_exists(name: str) -> None:
    """The function that a rule names exists, and its place is the file and the line where it begins."""
    rule = RULES[name]
    path, line, function = re.fullmatch(r"(kitlib/[\w/]+\.py), line (\d+), ([\w.]+)", place_of(rule.by)).groups()  # type: ignore[union-attr]
    source = (import_module("kitlib").__path__[0] + path.removeprefix("kitlib")).__str__()
    with open(source, encoding="utf-8") as lines:
        begun = lines.readlines()[int(line) - 1 :][:4]
    assert any(f"def {function.rpartition('.')[2]}(" in each for each in begun)
    assert rule.says.endswith(".") and len(rule.says) < 160


@pytest.mark.parametrize("domain", DOMAINS)
def test_fields_that_name_things_are_fields_of_the_verb(domain: str) -> None:
    """A row of a table says of which things its verb is by fields that it declares."""
    for what, word in DOMAINS[domain].words.items():
        for told in word.about.split():
            fields = told.partition(":")[2].partition(".")[0]
            assert fields.startswith(("@", "=")) or set(re.split("[+-]", fields)) <= word.kinds.keys(), (what, told)


def test_releases_of_a_domain_have_the_methods_that_its_rules_name() -> None:
    """Each class that may stand for another one is there."""
    for settings in (Settings(release="0.9.2"), Settings(release="1.1.0"), Settings(max_uncommitted_offsets=5)):
        for owner in DOMAINS["spout"].models(settings).values():  # type: ignore[misc]
            module, _, name = owner.partition(":")
            assert inspect.isclass(getattr(import_module(f"{kitlib.__name__}.{module}"), name))


@pytest.mark.parametrize("name", names())
def test_everything_that_a_step_names_has_a_life(name: str) -> None:
    """Whatever a step of a run is about has a life that holds that step, in the browser's index as well."""
    trace = some_steps_of(name)
    index = Lives(trace)
    refs = {ref: number for number in range(0, len(trace), 1 + len(trace) // 20) for ref in index.named(number)[:3]}
    for ref, number in refs.items():
        assert number in [each.step for each in index.of(ref)], ref
    assert len(index.told["at"]) == len(index.told["refs"]) == len(index.told["verbOf"]) == len(trace)


@pytest.mark.parametrize("name", names())
def test_everything_that_is_drawn_with_a_ref_has_a_life(name: str) -> None:
    """Whatever a picture of a run lets one ask about has a life with at least one sentence."""
    trace = some_steps_of(name)
    index, sent = Lives(trace), Projector(played(to_frames(trace)))
    drawn = [attributes[name] for _, attributes in sent.heads for name in ("data-ref", "data-each") if name in attributes]
    travelling = sent.row["stage"]["refs"] if sent.row["stage"] else []
    assert [ref for ref in dict.fromkeys([*drawn, *travelling]) if not index.of(ref)] == []


def test_index_of_1000_steps_is_small() -> None:
    """The index of 1,000 steps adds less than 40 kB to what a player gets."""
    trace = long_trace(1000)
    assert len(json.dumps(index_of(trace, to_frames(trace).lanes), separators=(",", ":"))) < 40_000


BAD = ("record:orders/0/9999", "record:nowhere/0/1", "member:", "", "nonsense", "record:", "tuple:-1", "x" * 500)


@pytest.mark.parametrize("ref", BAD)
def test_name_of_nothing_has_no_life(ref: str) -> None:
    """A ref that names nothing in the run."""
    assert life(long_trace(50), ref) == []
