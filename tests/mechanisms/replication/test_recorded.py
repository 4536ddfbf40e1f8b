"""The controller's decisions and the table of leader epochs, held against what Java's own classes of 4.3.1 did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kitlib.mechanisms.replication.controller import PartitionState, decide
from kitlib.mechanisms.replication.epochs import LeaderEpochs

HERE = Path(__file__).parent


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / name).read_text(encoding="ascii").splitlines()]


def state_of(row: list[Any]) -> PartitionState:
    replicas, in_sync, leader, epoch, eligible, last_leader, is_recovering = row
    return PartitionState(tuple(replicas), tuple(in_sync), leader, epoch, tuple(sorted(eligible)), last_leader, is_recovering)


def test_decisions_are_those_of_partition_change_builder() -> None:
    """Leader, epoch, in-sync set, eligible replicas and last leader come out as PartitionChangeBuilder made them."""
    for number, row in enumerate(rows("recorded_decisions.jsonl")):
        change = decide(
            state_of(row["before"]), row["in_sync"], row["acceptable"], row["election"], min_insync_replicas=row["least"],
            with_eligible=row["eligible"], unclean_shutdown=row["unclean_shutdown"],
        )  # fmt: skip
        after = change.state
        told = PartitionState(
            after.replicas, after.in_sync, after.leader, after.leader_epoch, tuple(sorted(after.eligible)), after.last_leader,
            after.is_recovering,
        )  # fmt: skip
        assert told == state_of(row["after"]), f"decision {number}"


def test_epochs_are_those_of_leader_epoch_file_cache() -> None:
    """Each question about an epoch's end, and the table after each deed, is answered as LeaderEpochFileCache answered it."""
    for number, row in enumerate(rows("recorded_epochs.jsonl")):
        epochs = LeaderEpochs()
        for did, *given in row["did"]:
            if did == "ask":
                assert epochs.end_offset_for(given[0], given[1]) == tuple(given[2]), f"row {number}"
            else:
                deeds: dict[str, Any] = {"assign": epochs.assign, "end": epochs.truncate_from_end, "start": epochs.truncate_from_start}
                deeds[did](*given)
        assert epochs.entries == [tuple(entry) for entry in row["entries"]], f"row {number}"
