"""Experiments: knobs in, a trace out, on the model or on a real broker."""

from __future__ import annotations

from typing import Any

from kitlib.errors import KnobError
from kitlib.experiments.compaction.compaction_stories import compacted_topic, tombstones
from kitlib.experiments.compaction.size_story import size_of_offsets_topic
from kitlib.experiments.connect.connect_stories import connect_layouts, connect_source_crash, connect_worker_lost
from kitlib.experiments.experiment import Experiment
from kitlib.experiments.groups.assignor_stories import mixed_assignors
from kitlib.experiments.groups.commit_stories import auto_commit, off_by_one, store_after_revoke, worker_pool
from kitlib.experiments.groups.group_stories import (
    client_cut_off,
    commit_during_rebalance,
    poll_too_late,
    rebalance,
    slow_group,
    static_member,
)
from kitlib.experiments.groups.rebalance_stories import rebalance_protocols
from kitlib.experiments.groups.scaling_stories import more_consumers, partitions_added
from kitlib.experiments.groups.zookeeper_story import zookeeper_group
from kitlib.experiments.offsets.by_hand_story import reset_by_hand
from kitlib.experiments.offsets.coordinator_stories import coordinator_moves, offset_expiry
from kitlib.experiments.offsets.incident_stories import dead_cleaner, stale_offset
from kitlib.experiments.offsets.reset_stories import mirror, new_partition_latest, reset_policy, retention_overtakes
from kitlib.experiments.producer.producer_stories import (
    answers_lost,
    batch_expires,
    broker_restart,
    log_start_moved,
    producer_id_expired,
    reordering_by_retry,
    six_in_flight,
    two_producers_one_id,
)
from kitlib.experiments.replicas.unclean_stories import flipped_bit, follower_cut, truncated_commit, unclean_election
from kitlib.experiments.sends.delivery_stories import (
    acks_and_isr,
    expired_batch,
    linger_and_batches,
    stale_metadata,
    unflushed_sends,
)
from kitlib.experiments.sends.send_stories import blocked_send, two_sends
from kitlib.experiments.storm.crash_stories import acker_crash, bolt_crash, spout_crash
from kitlib.experiments.storm.later_stories import failed_offset_deleted, start_position, uncommitted_cap
from kitlib.experiments.storm.stories import (
    happy_path,
    out_of_range,
    poison_record,
    restart,
    retry_with_backoff,
    same_id_other_topic,
    several_tuples,
    small_max_offset_behind,
)
from kitlib.experiments.storm.transactional_stories import transactional_word_count
from kitlib.experiments.storm.tree_stories import false_completion, livelock, reliability_off, tuple_tree
from kitlib.experiments.storm.word_stories import word_count
from kitlib.experiments.streams.streams_stories import streams_failover, streams_queries, streams_tasks
from kitlib.experiments.transactions.transaction_faults import (
    consume_transform_produce,
    delayed_marker,
    hanging_transaction,
    outside_effect,
    transaction_timeout,
    zombie,
)
from kitlib.experiments.transactions.transaction_stories import commit_and_abort
from kitlib.experiments.watching.lag_stories import flat_lag, lag_is_zero, stale_commit_lag
from kitlib.experiments.watching.transactional_lag import transactional_lag
from kitlib.trace import Trace

ALL = (
    happy_path,
    small_max_offset_behind,
    poison_record,
    retry_with_backoff,
    out_of_range,
    failed_offset_deleted,
    restart,
    same_id_other_topic,
    several_tuples,
    uncommitted_cap,
    start_position,
    tuple_tree,
    false_completion,
    livelock,
    reliability_off,
    bolt_crash,
    acker_crash,
    spout_crash,
    word_count,
    transactional_word_count,
    answers_lost,
    six_in_flight,
    reordering_by_retry,
    broker_restart,
    batch_expires,
    two_producers_one_id,
    producer_id_expired,
    log_start_moved,
    zookeeper_group,
    rebalance,
    rebalance_protocols,
    poll_too_late,
    slow_group,
    commit_during_rebalance,
    static_member,
    client_cut_off,
    auto_commit,
    worker_pool,
    store_after_revoke,
    off_by_one,
    mixed_assignors,
    commit_and_abort,
    consume_transform_produce,
    zombie,
    transaction_timeout,
    delayed_marker,
    hanging_transaction,
    outside_effect,
    two_sends,
    blocked_send,
    linger_and_batches,
    unflushed_sends,
    stale_metadata,
    expired_batch,
    acks_and_isr,
    connect_layouts,
    connect_worker_lost,
    connect_source_crash,
    streams_tasks,
    streams_failover,
    streams_queries,
    partitions_added,
    more_consumers,
    compacted_topic,
    tombstones,
    offset_expiry,
    size_of_offsets_topic,
    coordinator_moves,
    transactional_lag,
    stale_offset,
    dead_cleaner,
    unclean_election,
    truncated_commit,
    follower_cut,
    flipped_bit,
    reset_policy,
    retention_overtakes,
    new_partition_latest,
    mirror,
    reset_by_hand,
    lag_is_zero,
    flat_lag,
    stale_commit_lag,
)
_BY_NAME = {experiment.name: experiment for experiment in ALL}


def names() -> list[str]:
    """The experiments there are, in the order of the lessons."""
    return list(_BY_NAME)


def get(name: str) -> Experiment:
    """The experiment with this name. KnobError when there is none."""
    if name not in _BY_NAME:
        raise KnobError(f"there is no experiment '{str(name)[:60]}'. The experiments are {', '.join(_BY_NAME)}.")
    return _BY_NAME[name]


def run(name: str, backend: str = "model", seed: int = 1, **knobs: Any) -> Trace:
    """Run an experiment by name; as Experiment.run."""
    return get(name).run(backend=backend, seed=seed, **knobs)
