"""Who leads a partition after something happened to a broker: the controller's decision, as a function.

The controller knows who is alive and who is in sync, and nothing about the contents of the logs. So it can
promise no more than that a leader from the *in-sync set* holds every acknowledged record. When no one in
that set is alive, it has to choose: no leader, or one that may have missed something. The setting
`unclean.leader.election.enable` is that choice.

Since release 4.0 there is a second list, the *eligible* replicas (KIP-966): those with whose leaving the in-sync
set became smaller than `min.insync.replicas`, or that left it afterwards. Nothing could be acknowledged with
acks=all after that, so they hold all that was, and may lead cleanly. A replica whose broker died without
writing everything to disk is removed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

NO_LEADER = -1

Election = Literal["online", "unclean", "preferred"]
WAYS = ("in sync", "eligible", "last leader", "unclean")  # only the last one can lose what was acknowledged with acks=all


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What the controller holds of one partition."""

    replicas: tuple[int, ...]  # the first one is the preferred leader
    in_sync: tuple[int, ...]
    leader: int  # NO_LEADER when there is none
    leader_epoch: int = 0  # one more with each change of `leader`, to and from NO_LEADER as well
    eligible: tuple[int, ...] = ()  # may lead cleanly when nobody is in sync
    last_leader: int | None = None  # who led before nobody could; None while someone leads
    is_recovering: bool = False  # led by one that was not in sync, until it has said that it is done


@dataclass(frozen=True, slots=True)
class Change:
    """The controller's decision."""

    state: PartitionState
    unclean: bool = False  # the new leader was neither in sync nor eligible
    why: str = ""  # how the new leader was found: one of WAYS; "" when the leader stays or there is none


def decide(
    before: PartitionState,
    target_in_sync: Sequence[int],
    acceptable: Collection[int],
    election: Election = "online",
    *,
    min_insync_replicas: int = 1,
    with_eligible: bool = True,
    unclean_shutdown: Collection[int] = (),
) -> Change:
    """The partition's state when its in-sync set is to be `target_in_sync` and the brokers `acceptable` may lead.

    A leader that is still acceptable and in sync stays. Else the first replica that is in sync or, when nobody is,
    eligible; else the last leader, if it is back; else, in an "unclean" election, the first that lives.

    Source: Apache Kafka 4.3.1, `PartitionChangeBuilder` (`build`, `electAnyLeader`, `electPreferredLeader`,
    `maybePopulateTargetElr`, `maybeUpdateRecordElr`, `maybeUpdateLastKnownLeader`).
    Differs: reassignments, directories and the metadata versions before 3.6 are left out; who unites the fenced,
    the unfenced and the shut-down brokers into `acceptable` and `target_in_sync` is the caller
    (`ReplicationControlManager.generateLeaderAndIsrUpdates`).
    """
    in_sync, eligible = list(target_in_sync), list(before.eligible)
    if with_eligible:
        eligible = _eligible(before, in_sync, min_insync_replicas, unclean_shutdown)
    leader, unclean = _elected(before, in_sync, eligible, acceptable, election, with_eligible)
    changes = leader != before.leader
    unclean = unclean and changes
    why = "" if not changes or leader == NO_LEADER else _way(before, leader, unclean, in_sync)
    if changes and leader in eligible:
        in_sync, eligible = [leader], [each for each in eligible if each != leader]
    if unclean:
        in_sync = [leader]
    if unclean or not with_eligible:
        eligible = []
    if not in_sync and not with_eligible:
        in_sync = list(before.in_sync)  # before KIP-966 the last one stays in the set, dead or not
    last_leader = before.last_leader
    if with_eligible and changes:
        last_leader = (before.leader if last_leader is None else last_leader) if leader == NO_LEADER else None
    after = replace(
        before, in_sync=tuple(in_sync), leader=leader, leader_epoch=before.leader_epoch + changes, eligible=tuple(eligible),
        last_leader=last_leader, is_recovering=before.is_recovering or unclean,
    )  # fmt: skip
    return Change(after, unclean, why)


def _way(before: PartitionState, leader: int, unclean: bool, in_sync: list[int]) -> str:
    if not unclean:
        return "in sync" if leader in in_sync else "eligible"
    return "last leader" if leader == before.last_leader else "unclean"


def _eligible(before: PartitionState, in_sync: list[int], min_insync: int, unclean_shutdown: Collection[int]) -> list[int]:
    """Who holds all that was acknowledged, beside those in sync: it left when nothing more could be."""
    if len(in_sync) >= min(min_insync, len(before.replicas)):
        return []
    candidates = sorted({*before.eligible, *before.in_sync})
    return [each for each in candidates if each not in in_sync and each not in unclean_shutdown]


def _elected(
    before: PartitionState, in_sync: list[int], eligible: list[int], acceptable: Collection[int], election: Election,
    with_eligible: bool,
) -> tuple[int, bool]:  # fmt: skip
    """Who leads, and whether that is unclean."""

    def may_lead(replica: int) -> bool:
        return replica in acceptable and (replica in in_sync or (not in_sync and replica in eligible))

    order = list(before.replicas)
    if election == "preferred":
        order = [order[0], before.leader, *order[1:]]
    else:
        order = [before.leader, *order]
    clean = next((each for each in order if may_lead(each)), None)
    if clean is not None:
        return clean, False
    last = before.last_leader
    if with_eligible and not in_sync and not eligible and last is not None and last in acceptable:
        return last, True
    lives = next((each for each in before.replicas if each in acceptable), None)
    return (lives, True) if election == "unclean" and lives is not None else (NO_LEADER, False)
