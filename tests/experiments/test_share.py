"""The share group's experiments: what their verdicts say, what their steps show, and that a broker says the same."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.errors import KnobError
from kitlib.experiments import run
from kitlib.experiments.share.share_run import ShareRun
from kitlib.monitor.delivery import judge
from kitlib.trace import from_ranges

LIMIT = "share.delivery.count.limit"
CASES: dict[str, tuple[str, dict[str, Any], dict[str, int], str]] = {
    "a record that always fails is archived after its last delivery":
        ("share_group", {}, {"lost": 1}, f"{LIMIT}=5: a record that comes back from so many deliveries is archived"),
    "a record that is rejected is archived at once":
        ("share_group", {"on_failure": "reject"}, {"lost": 1}, "a consumer that rejected it"),
    "implicit answers accept what failed":
        ("share_group", {"acknowledge": "implicit"}, {"lost": 1}, "share.acknowledgement.mode=implicit"),
    "without a bad record nothing is lost":
        ("share_group", {"poison_offset": -1}, {}, ""),
    "a lock that runs out repeats the whole poll":
        ("share_lock", {}, {"duplicated": 5}, "share.record.lock.duration.ms=1000: the lock ran out"),
    "a lock that is renewed does not run out":
        ("share_lock", {"renew": True}, {}, ""),
    "a full window holds the group up":
        ("share_lock", {"max_locks": 10, "slow_ms": 900}, {"stalled": 1}, "share.partition.max.record.locks=10"),
    "a consumer that dies repeats nothing that it has answered for":
        ("share_crash", {}, {}, ""),
    "a consumer that dies with implicit answers repeats what it has done":
        ("share_crash", {"acknowledge": "implicit"}, {"duplicated": 3}, "a consumer that died before it had answered"),
    "a record that ends as many consumers as the limit says is archived":
        ("share_crash", {"crashes": 5}, {"lost": 1}, f"{LIMIT}=5"),
    "an answer that is lost is no answer: the lock runs out":
        ("share_lock", {"slow_offset": -1, "script": "share_lock\nlose answer 3"}, {"duplicated": 1}, "share.record.lock.duration.ms=1000"),
    "an answer that comes after its lock does not count":
        ("share_lock", {"slow_offset": -1, "script": "share_lock\ndelay answer 3 by 1200 ms"}, {"duplicated": 1}, "the lock ran out"),
    "a consumer that is killed at any time hands back what it has":
        ("share_lock", {"slow_offset": -1, "script": "share_lock\nkill A at 250 ms"}, {}, ""),
    "a consumer that stands still for longer than its locks is repeated, and answers too late":
        ("share_lock", {"slow_offset": -1, "script": "share_lock\nfreeze A at 50 ms for 1000 ms"}, {"duplicated": 5}, "the lock ran out"),
    "a frozen consumer's deliveries count as well":
        ("share_crash", {"crashes": 5, "crash": "frozen"}, {"lost": 1}, f"{LIMIT}=5"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "knobs", "counts", "reason"), CASES.values(), ids=CASES)
def test_verdict_of_a_share_groups_story_names_the_setting(name: str, knobs: dict[str, Any], counts: dict[str, int], reason: str) -> None:
    """Each loss, each second time and each standstill is explained by the setting that causes it; any order is."""
    verdict = judge(run(name, **knobs))
    found = {kind: count for kind, count in verdict.counts.items() if count and kind != "reordered"}
    assert (found, verdict.violations) == (counts, ())
    assert all(reason in verdict.first(kind).reason for kind in counts)


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize(("name", "knobs"), [case[:2] for case in CASES.values()], ids=CASES)
def test_steps_of_a_share_group_show_what_the_broker_has(
    name: str, knobs: dict[str, Any], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each poll and answer, the state that is put together from what consumers see is that of the share partition."""
    checked = 0
    turn = ShareRun._turn

    def checking(self: ShareRun, worker: Any) -> None:
        nonlocal checked
        turn(self, worker)
        self._take_returned()
        share, state = self.share, self.state()
        rows = share.records.items()
        assert (self.ledger.committed_to, self.ledger.emitted_to_offset) == (share.start_offset, share.end_offset)
        assert set(from_ranges(state["pending"])) == {offset for offset, row in rows if row.state == "acquired"}
        assert set(from_ranges(state["failed"])) == {offset for offset, row in rows if row.state == "available"}
        checked += 1

    monkeypatch.setattr(ShareRun, "_turn", checking)
    run(name, seed=seed, **knobs)
    assert checked > 50


REAL: dict[str, tuple[str, dict[str, Any], dict[str, int]]] = {
    "poison": ("share_group", {"poison_offset": 3, "delivery_limit": 3}, {"lost": 1, "duplicated": 0}),
    "slow": (
        "share_lock", {"slow_offset": 2, "slow_ms": 1_300, "max_poll_records": 2, "acknowledge": "implicit"}, {"lost": 0, "duplicated": 2},
    ),
    "killed": ("share_crash", {"crash_offset": 3, "crashes": 2, "delivery_limit": 2}, {"lost": 2, "duplicated": 0}),  # a neighbour as well
    "frozen": ("share_crash", {"crash_offset": 3, "crash": "frozen"}, {"lost": 0, "duplicated": 0}),
    "others wait": (  # whose polls may not keep the one that works from its turn until its locks run out: half a second
        "share_crash",
        {"records": 5, "process_ms": 100, "consumers": 6, "crashes": 0, "acknowledge": "implicit"},
        {"lost": 0, "duplicated": 0},
    ),
}


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("name", "knobs", "counts"),
    [pytest.param(*case, id=key, marks=[pytest.mark.alone] if key == "others wait" else []) for key, case in REAL.items()],
)
def test_verdict_on_a_broker_is_that_on_the_model(broker: Any, name: str, knobs: dict[str, Any], counts: dict[str, int]) -> None:
    """Real share consumers lose and repeat what those of the model do, for the same reason."""
    knobs = {"records": 12, "process_ms": 20, **knobs}
    model, real = (judge(run(name, backend=backend, **knobs)) for backend in ("model", "kafka"))
    for kind, count in counts.items():
        assert (model.counts[kind], real.counts[kind]) == (count, count), real
        assert (model.first(kind).reason, model.first(kind).offset) == (real.first(kind).reason, real.first(kind).offset)
    assert real.violations == ()


@pytest.mark.kafka
@pytest.mark.parametrize(("knobs", "why"), [({"max_locks": 10}, "no less than 100"), ({"renew": True}, "cannot renew")])
def test_share_group_on_a_broker_refuses_what_only_the_model_can(broker: Any, knobs: dict[str, Any], why: str) -> None:
    """What the broker or librdkafka does not offer is refused in a sentence."""
    with pytest.raises(KnobError, match=why):
        run("share_lock", backend="kafka", records=4, slow_offset=0, **knobs)
