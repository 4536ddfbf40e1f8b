"""Experiments: knobs in, a trace out, on the model or on a real broker.

An experiment's module is imported when the experiment is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from typing import Any, TypeVar

from kitlib.errors import KnobError
from kitlib.experiments.experiment import DECLARED, Experiment
from kitlib.experiments.script import Script
from kitlib.mechanisms.partition_manager import PartitionManager
from kitlib.trace import Trace

Key = TypeVar("Key")
Answer = TypeVar("Answer")
# In the order of the lessons: the modules below this one, and the experiments that each of them tells.
LESSONS = (
    ("storm.stories",
     "happy_path small_max_offset_behind poison_record retry_with_backoff out_of_range failed_offset_deleted "
     "restart same_id_other_topic several_tuples uncommitted_cap"),
    ("storm.tree_stories", "tuple_tree false_completion livelock reliability_off bolt_crash acker_crash spout_crash"),
    ("storm.word_stories", "word_count"),
    ("idempotence.producer_stories",
     "answers_lost six_in_flight reordering_by_retry broker_restart batch_expires two_producers_one_id "
     "producer_id_expired log_start_moved one_partition_waits new_id_for_all"),
    ("groups.zookeeper_group", "zookeeper_group"),
    ("groups.group_stories", "rebalance"),
    ("groups.rebalance_stories", "rebalance_protocols"),
    ("groups.group_stories", "poll_too_late slow_group commit_during_rebalance static_member client_cut_off"),
    ("groups.commit_stories", "auto_commit worker_pool store_after_revoke off_by_one"),
    ("groups.assignor_stories", "mixed_assignors"),
    ("transactions.transaction_stories",
     "commit_and_abort consume_transform_produce zombie transaction_timeout delayed_marker hanging_transaction "
     "outside_effect"),
    ("send_path.send_stories",
     "two_sends blocked_send linger_and_batches unflushed_sends stale_metadata expired_batch"),
    ("connect.connect_stories", "connect_layouts connect_worker_lost connect_source_crash"),
    ("streams.streams_stories", "streams_tasks streams_failover streams_thread_lost streams_queries"),
    ("groups.added_partitions", "partitions_added"),
    ("groups.group_stories", "more_consumers"),
    ("compaction.compaction_stories", "compacted_topic tombstones"),
    ("offsets.coordinator_stories", "offset_expiry coordinator_moves"),
    ("offsets.incident_stories", "stale_offset dead_cleaner"),
    ("replication.replication_stories", "unclean_election truncated_commit follower_cut flipped_bit"),
    ("offsets.reset_stories", "reset_policy retention_overtakes new_partition_latest reset_by_hand"),
    ("lag.lag_stories", "lag_is_zero flat_lag stale_commit_lag"),
    ("checkpoint.checkpoint_stories", "checkpoint_kill"),
    ("share.share_stories", "share_group share_lock share_crash"),
)  # fmt: skip
_MODULES = {name: module for module, told in LESSONS for name in told.split()}


def names() -> list[str]:
    """The experiments there are, in the order of the lessons."""
    return list(_MODULES)


def get(name: str) -> Experiment:
    """The experiment with this name, the kit's or one that was declared elsewhere. KnobError when there is none."""
    if name not in _MODULES and name in DECLARED:
        return DECLARED[name]
    if name not in _MODULES:
        meant = "".join(f" Did you mean '{near}'?" for near in get_close_matches(str(name), _MODULES, n=1))
        raise KnobError(f"there is no experiment '{str(name)[:60]}'.{meant} The experiments are {', '.join(_MODULES)}.")
    experiment: Experiment = getattr(import_module(f"kitlib.experiments.{_MODULES[name]}"), name)
    return experiment


def every() -> Iterator[Experiment]:
    """All experiments, in the order of the lessons; this imports all their modules."""
    return map(get, _MODULES)


def run(
    name: str | None = None, backend: str = "model", seed: int = 1, script: Script | str | None = None,
    manager: type[PartitionManager] | None = None, **knobs: Any,
) -> Trace:
    """Run an experiment by name, or by its script, as Experiment.run; `manager` is a PartitionManager of one's own."""
    if isinstance(script, str):
        script = Script.parse(script)
    name = name or (script.experiment if script else None)
    if name is None:
        raise KnobError("run: neither an experiment's name nor a script was given. Give one of them.")
    found = get(name)
    return (found if manager is None else replace(found, manager=manager)).run(backend=backend, seed=seed, script=script, **knobs)


def at_once(call: Callable[[Key], Answer], keys: Iterable[Key]) -> dict[Key, Answer]:
    """What `call` gives for each key, a thread for each call, in the order of the keys: runs on real brokers mostly wait.

    at_once(lambda library: run("off_by_one", backend="kafka", library=library), ("librdkafka", "java"))

    The first key's error, if calls fail.
    """
    from concurrent.futures import ThreadPoolExecutor

    keys = list(keys)
    with ThreadPoolExecutor(max_workers=max(1, len(keys))) as threads:
        return dict(zip(keys, threads.map(call, keys), strict=True))
