"""The groups' experiments with real consumers: killed, frozen, late and cut off, they come to the model's verdict."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kitlib.errors import KnobError, LabError
from kitlib.experiments import get
from kitlib.experiments.groups.group import MemberSettings
from kitlib.experiments.groups.kafka_members import KafkaGroup, KafkaMember
from kitlib.experiments.kafka_backend import KafkaBackend
from kitlib.lab.client_processes.driver import Refused
from kitlib.lab.kafka_server import Cluster
from kitlib.lab.processes import wait_until
from kitlib.monitor.delivery import judge
from kitlib.trace import Trace
from tests.experiments.knob_values import case_id

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

# Others are compared in notebooks 10b (all protocols) and 10c (a frozen member), the rest was by hand; a test for each would take minutes.
CASES: list[tuple[str, dict[str, Any]]] = [
    # Who is there stays, also when this machine is busy: a longer session, where nobody waits for its end.
    ("rebalance", {"library": "librdkafka", "session_ms": 6_000}),  # eager
    ("poll_too_late", {"library": "librdkafka", "trouble_ms": 4_000, "session_ms": 2_000}),  # the client looks twice a second
    ("poll_too_late", {"library": "librdkafka", "trouble": "killed"}),
    ("static_member", {"library": "librdkafka", "what": "two with one id"}),
]
LATE = MemberSettings(max_poll_interval_ms=60_000)


def removed(trace: Trace) -> set[str]:
    return {step.data["member"] for step in trace if step.what == "evict"}


def refused_commits(trace: Trace) -> set[str]:
    return {step.actor for step in trace if step.what == "commit" and not step.data["written"]}


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_group_on_kafka_comes_to_the_models_verdict(broker: Cluster, case: tuple[str, dict[str, Any]]) -> None:
    """As many records lost, repeated and gone back over, the same members removed and refused, and no violation."""
    name, knobs = case
    model, real = get(name).run(**knobs), get(name).run(backend="kafka", **knobs)
    assert judge(real).counts == judge(model).counts and judge(real).violations == ()
    assert removed(real) >= {member for member in removed(model) if name != "static_member"}  # a twin is not seen to go
    assert refused_commits(real) == refused_commits(model)


def test_client_cut_off_costs_one_rebalance_and_no_commit(broker: Cluster) -> None:
    """Row 33: longer cut off than its session, one member is removed once; each partition has an owner, no commit goes back."""
    knobs: dict[str, Any] = {"library": "librdkafka", "session_ms": 3_000, "cut_ms": 5_000}  # nobody else is late for a heartbeat
    trace = get("client_cut_off").run(backend="kafka", **knobs)
    cut = next(step.number for step in trace if step.what == "cut_off")
    back = next(step.number for step in trace if step.what == "reconnect")
    meanwhile = [step for step in trace.steps[cut:back] if step.actor == "coordinator"]
    assert [step.data["member"] for step in meanwhile if step.what == "evict"] == ["A"]
    # A rebalance ends with a stable group; its beginning may be over before somebody looks.
    assert sum(step.what == "stable" for step in meanwhile) == 1 and sum(step.what == "prepare" for step in meanwhile) <= 1
    assert all(trace.steps[-1].state["group"]["owners"].values())
    assert judge(trace).counts == judge(get("client_cut_off").run(**knobs)).counts
    assert judge(trace).counts["rewound"] == 0 and judge(trace).counts["lost"] == 0


@pytest.fixture
def group(broker: Cluster) -> Iterator[KafkaGroup]:
    backend = KafkaBackend.open(f"group-tests-{uuid.uuid4().hex[:8]}")
    group = KafkaGroup.open(backend, backend.run)
    yield group
    group.close()
    backend.close()


def poll_all(group: KafkaGroup, members: list[KafkaMember], until: Callable[[], bool]) -> set[str]:
    """Poll them in turn until it is so; the kinds of errors that they told of (a client that tries again tells again)."""
    errors: set[str] = set()

    def so_far() -> bool:
        for member in members:
            errors.update(event.error for event in member.poll(500, 30).events if event.what == "error")
        return until() or bool(errors)

    wait_until(so_far, 30, "the members are where they shall be")
    return errors


def test_members_without_a_common_assignor_do_not_come_together(group: KafkaGroup) -> None:
    """E8: range alone and cooperative-sticky alone: the second is refused, the first goes on undisturbed."""
    group.create(2)
    first = group.join("A", LATE)
    assert poll_all(group, [first], lambda: group.view().state == "Stable") == set()
    second = group.join("B", MemberSettings(strategies=("cooperative-sticky",), max_poll_interval_ms=60_000))
    assert poll_all(group, [first, second], lambda: False) == {"INCONSISTENT_GROUP_PROTOCOL"}
    assert (group.view().members, set(group.owners().values())) == (("A",), {"A"})


def test_group_in_use_by_the_classic_protocol_takes_a_member_of_the_newer_one(group: KafkaGroup) -> None:
    """Kafka 4 turns the group into one of the newer protocol; the classic member stays in it, and each gets its share."""
    group.create(2)
    first = group.join("A", LATE)
    poll_all(group, [first], lambda: group.view().state == "Stable")
    assert group.watch.last.kind == "classic"
    second = group.join("B", MemberSettings(protocol="consumer", max_poll_interval_ms=60_000))
    assert poll_all(group, [first, second], lambda: set(group.owners().values()) == {"A", "B"}) == set()
    assert group.watch.last.kind == "consumer"


def test_what_no_group_can_be_is_refused_in_a_sentence(group: KafkaGroup) -> None:
    """The kit's own refusals name what is wrong; a client's are its own words."""
    for settings, words in (
        (MemberSettings(strategies=("sticky",)), "librdkafka has no sticky assignor"),
        (MemberSettings(release=(1, 4, 1)), "exists only in the model"),
    ):
        with pytest.raises(KnobError, match=words):
            group.join("A", settings)
    with pytest.raises(Refused, match=r"must be >= `session\.timeout\.ms`"):
        group.join("A", MemberSettings(max_poll_interval_ms=100))


def test_member_that_did_not_come_through_the_proxy_cannot_be_cut_off(group: KafkaGroup) -> None:
    """A sentence that says what to do."""
    group.create(1)
    with pytest.raises(LabError, match="Set `through_proxy` before it joins"):
        group.join("A", LATE).cut_off()
