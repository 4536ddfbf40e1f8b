"""What each experiment claims, on the model: counts, marks and reasons, by tables."""

from __future__ import annotations

from typing import Any

import pytest

from kitlib.experiments import get
from kitlib.experiments.offsets.reset_stories import BY_HOUR
from kitlib.monitor.delivery import judge
from tests.experiments.knob_values import counted

ALONE = {"max_spout_pending": 1}
RETENTION_WAS_FASTER = "use_start_offset_time_if_offset_out_of_range"
COOPERATIVE = {"strategy": "cooperative-sticky"}
BEGINS_AGAIN = "a new owner, which starts at the committed offset"
OUTSIDE, NEW = {"offsets": "outside"}, {"ids": "new per start"}
OFF: dict[str, Any] = {"unclean_leader_election": False}
EPOCH: dict[str, Any] = {"leader_epoch": True}
LIBRDKAFKA: dict[str, Any] = {"library": "librdkafka"}
SCALED = {"copied": 480, "alone": 20, "read": 500}  # the numbers of the question

# (experiment, knobs) -> records that were processed (stored, read) and appended (sent, asked for), the counts that are not 0, and
# where there are any: the violations, or words of the reasons.
Claim = tuple[str, dict[str, Any], tuple[int, int], dict[str, int]] | tuple[str, dict[str, Any], tuple[int, int], dict[str, int], Any]
SPOUTS: dict[str, Claim] = {
    "nothing fails, nothing is wrong": ("happy_path", {}, (40, 40), {}),
    "one tuple at a time keeps the order": ("happy_path", ALONE, (40, 40), {}),
    "failures by chance are retried until all is done": ("happy_path", {"fail_percent": 30}, (40, 40), {}),
    "a bound smaller than a fetch loses what failed": (
        "small_max_offset_behind", {}, (13, 60), {"lost": 46, "stalled": 2}),
    "the same outage without a bound loses nothing, but the commit waits": (
        "small_max_offset_behind", {"max_offset_behind": "unlimited"}, (60, 60), {"stalled": 1}),
    "the same bound without an outage loses nothing": (
        "small_max_offset_behind", {"outage_ms": 0}, (60, 60), {}),
    "a bound of 0 retries nothing at all": ("small_max_offset_behind", {"max_offset_behind": 0}, (8, 60), {"stalled": 1}),
    "a poison record blocks the commit for ever": ("poison_record", {}, (39, 40), {"stalled": 1}),
    "without the poison record all is well": ("poison_record", {"poison_offset": -1}, (40, 40), {}),
    "a bound gives the poison record up": ("poison_record", {"max_offset_behind": 5}, (39, 40), {"lost": 1}),
    "a retry limit gives the poison record up": ("retry_with_backoff", {}, (39, 40), {"lost": 1, "stalled": 1}),
    "without a limit it is retried for ever, and the commit waits": (
        "retry_with_backoff", {"retry_limit": -1}, (39, 40), {"stalled": 1}),
    "out of range, not forced: the whole backlog is jumped over": (
        "out_of_range", {RETENTION_WAS_FASTER: True, "force_from_start": False}, (31, 70), {"lost": 39, "skipped": 29}),
    "out of range, forced to the earliest: only what retention took is lost": (
        "out_of_range", {RETENTION_WAS_FASTER: True, "force_from_start": True}, (56, 70), {"lost": 14, "skipped": 4}),
    "out of range, not followed: everything stops": (
        "out_of_range", {RETENTION_WAS_FASTER: False, "force_from_start": False}, (21, 70), {"lost": 14, "stalled": 1},
        {"stalled"}),
    "out of range, not followed, forced: everything stops as well": (
        "out_of_range", {RETENTION_WAS_FASTER: False, "force_from_start": True}, (21, 70), {"lost": 14, "stalled": 1},
        {"stalled"}),
    "retention that was not faster does no harm": ("out_of_range", {"delete_before": 20}, (70, 70), {"duplicated": 1}),
    "a stuck record freezes the commit, and the restart does all the rest again": (
        "restart", {"stuck_offset": 2, "crash_at_ms": 400}, (60, 60), {"duplicated": 37, "stalled": 1}),
    "a stuck first record leaves nothing stored, and the start jumps to the end": (
        "restart", {"stuck_offset": 0, "crash_at_ms": 400}, (39, 60), {"lost": 21, "skipped": 20, "stalled": 1}),
    "the same id on another topic takes over its offset": (
        "same_id_other_topic", {}, (60, 100), {"lost": 40, "skipped": 40}, {"lost", "skipped"}),
    "an id of its own begins at the end": ("same_id_other_topic", {"same_id": False}, (40, 100), {"lost": 60, "skipped": 60}),
    "an id of its own, forced, reads everything": (
        "same_id_other_topic", {"same_id": False, "force_from_start": True}, (100, 100), {}),
    "one failed tuple does the record's other two again": ("several_tuples", {}, (20, 20), {"duplicated": 2}),
    "one tuple a record has no others to do again": ("several_tuples", {"parts": 1}, (20, 20), {}),
    "a failed tuple that is not retried leaves its record undone": (
        "several_tuples", {"max_offset_behind": 3}, (19, 20), {"lost": 1}),
    "each further failure does them again": ("several_tuples", {"failures": 3}, (20, 20), {"duplicated": 6}),
    "a failed record that is deleted stops everything in 0.9.3": (
        "failed_offset_deleted", {}, (39, 60), {"lost": 1, "skipped": 20, "stalled": 1}, {"stalled"}),
    "with the later manager the new records flow, and the commit stays": (
        "failed_offset_deleted", {"release": "1.1.0"}, (59, 60), {"lost": 1, "stalled": 1}, {"stalled"}),
    "a full cap never retries": ("uncommitted_cap", {}, (29, 60), {"stalled": 1}, {"stalled"}),
    "a retry that may always poll drains": ("uncommitted_cap", {"retries_may_poll": True}, (60, 60), {"stalled": 1}),
}  # fmt: skip
PRODUCERS: dict[str, Claim] = {
    "lost answers, idempotent": ("answers_lost", {}, (60, 60), {}),
    "one in flight, idempotent": ("answers_lost", {"max_in_flight": 1}, (60, 60), {}),
    "two in flight, idempotent": ("answers_lost", {"max_in_flight": 2}, (60, 60), {}),
    "lost answers without idempotence": ("answers_lost", {"idempotence": False}, (60, 60), {"duplicated": 30}),
    "two in flight without idempotence": (
        "answers_lost", {"idempotence": False, "max_in_flight": 2, "lost_answers": 2}, (60, 60), {"duplicated": 30},
    ),
    "no answer is waited for": ("answers_lost", {"acks": "0"}, (60, 60), {}),
    "no retries: told failed, and stored": ("answers_lost", {"retries": 0}, (60, 60), {"indefinite": 30}),
    "every fifth answer lost by chance": ("answers_lost", {"answer_loss_percent": 20}, (60, 60), {}),
    "six in flight": ("six_in_flight", {}, (30, 30), {"duplicated": 30}),
    "six in flight, six remembered": ("six_in_flight", {"remembered_batches": 6}, (30, 30), {}),
    "five in flight, five remembered": ("six_in_flight", {"max_in_flight": 5}, (30, 30), {}),
    "one remembered": ("six_in_flight", {"max_in_flight": 5, "remembered_batches": 1}, (30, 30), {"duplicated": 25}),
    "the better rule mends six in flight": ("six_in_flight", {"older_is_duplicate": True}, (30, 30), {}),
    "a retry comes late": ("reordering_by_retry", {}, (25, 25), {"reordered": 5}),
    "a lost request comes late": ("reordering_by_retry", {"fault": "request lost"}, (25, 25), {"reordered": 15}),
    "one in flight keeps the order": ("reordering_by_retry", {"max_in_flight": 1}, (25, 25), {}),
    "idempotence keeps the order": ("reordering_by_retry", {"idempotence": True}, (25, 25), {}),
    "killed with five answers out": ("broker_restart", {}, (25, 25), {"duplicated": 25}),
    "stopped with five answers out": ("broker_restart", {"restart": "clean"}, (25, 25), {"duplicated": 25}),
    "killed with two answers out": ("broker_restart", {"max_in_flight": 2}, (25, 25), {"duplicated": 10}),
    "killed with one answer out": ("broker_restart", {"max_in_flight": 1}, (25, 25), {}),
    "five answers out, no restart": ("broker_restart", {"restart": "no"}, (25, 25), {}),
    "a replica remembers all five": ("broker_restart", {"restart": "fail over"}, (25, 25), {}),
    "the better rule mends a restart": ("broker_restart", {"older_is_duplicate": True}, (25, 25), {}),
    "told failed, and stored": ("batch_expires", {}, (20, 20), {"indefinite": 10}),
    "told failed, and not stored": ("batch_expires", {"lost": "request"}, (10, 20), {"lost": 10}),
    "sent again by the application": ("batch_expires", {"again": True}, (20, 20), {"duplicated": 5, "indefinite": 5}),
    "expired under the rules of 2.0": ("batch_expires", {"release": "2.0"}, (20, 20), {"indefinite": 5}),
    "fenced by the epoch": ("two_producers_one_id", {}, (20, 25), {"lost": 5}),
    "the same epoch": ("two_producers_one_id", {"second_epoch": "same"}, (15, 25), {"lost": 10}),
    "an id that was forgotten": ("producer_id_expired", {}, (15, 15), {"duplicated": 5}),
    "an id that was not forgotten": ("producer_id_expired", {"expires": False}, (15, 15), {}),
    "not even the better rule knows a forgotten id": (
        "producer_id_expired", {"older_is_duplicate": True}, (15, 15), {"duplicated": 5},
    ),
    "2.0 refuses an id that it has forgotten": (
        "producer_id_expired", {"release": "2.0"}, (15, 15), {"indefinite": 5},
    ),
    "the memory outlives the records": ("log_start_moved", {}, (20, 20), {}),
    "not across a restart": ("log_start_moved", {"restart": "clean"}, (20, 20), {"duplicated": 5}),
    "2.0 forgot with the records": ("log_start_moved", {"release": "2.0"}, (20, 20), {"duplicated": 5}),
    "one of three partitions fails": ("one_partition_waits", {}, (90, 90), {}),
    "without numbers its order is lost": ("one_partition_waits", {"idempotence": False}, (90, 90), {"reordered": 5}),
    "one count for all partitions": (
        "one_partition_waits", {"numbered": "by producer"}, (30, 90), {"lost": 60, "indefinite": 10},
    ),
    "an epoch is one partition's affair": ("new_id_for_all", {}, (280, 290), {"lost": 10}),
    "a new id is every partition's affair": ("new_id_for_all", {"release": "2.0"}, (335, 340), {"lost": 5, "indefinite": 10}),
}  # fmt: skip
GROUPS: dict[str, Claim] = {
    "an eager rebalance repeats what nobody had committed, everywhere": (
        "rebalance", {}, (168, 168), {"duplicated": 72}, {"duplicated": BEGINS_AGAIN}),
    "so does an eager sticky one": ("rebalance", {"strategy": "sticky"}, (168, 168), {"duplicated": 72}),
    "a cooperative one repeats it where partitions move": (
        "rebalance", COOPERATIVE, (168, 168), {"duplicated": 28}, {"duplicated": BEGINS_AGAIN}),
    "who commits before he gives up repeats nothing": ("rebalance", {"commit_on_revoke": True}, (168, 168), {}),
    "nor does a cooperative one": ("rebalance", COOPERATIVE | {"commit_on_revoke": True}, (168, 168), {}),
    "but who is killed cannot commit": (
        "rebalance", COOPERATIVE | {"commit_on_revoke": True, "leaves": "kill"}, (168, 168), {"duplicated": 8}),
    "slow work is repeated by the next owner": ("poll_too_late", {}, (14, 14), {"duplicated": 5}, {"duplicated": BEGINS_AGAIN}),
    "so is a frozen process's": ("poll_too_late", {"trouble": "frozen"}, (14, 14), {"duplicated": 5}),
    "a killed one has done nothing to repeat": ("poll_too_late", {"trouble": "killed"}, (10, 10), {}),
    "work that ends in time is nobody else's": ("poll_too_late", {"trouble_ms": 1_000}, (14, 14), {}),
    "batches that take too long are repeated for ever": ("slow_group", {}, (160, 160), {"duplicated": 240}),
    "smaller ones are not": ("slow_group", {"poll_records": 15}, (160, 160), {}),
    "a commit in a rebalance is refused to Java, and what moved is repeated": (
        "commit_during_rebalance", {"library": "java"}, (48, 48), {"duplicated": 4}),
    "to give up for that repeats everything of one's own": (
        "commit_during_rebalance", {"library": "java", "handler": "fatal"}, (48, 48), {"duplicated": 12}),
    "librdkafka's waits behind its join, and is refused as the old generation's": (
        "commit_during_rebalance", {"library": "librdkafka"}, (48, 48), {"duplicated": 4}),
    "a static member's restart is no rebalance": ("static_member", {}, (150, 150), {}),
    "a slow topic's records arrive as well": ("static_member", {"what": "gone for good", "records_per_s": 5}, (16, 16), {}),
    "a member cut off is replaced, and nothing goes back": ("client_cut_off", {}, (72, 72), {"duplicated": 6}),
    "one cut off for a moment is not": ("client_cut_off", {"cut_ms": 800}, (60, 60), {}),
    "Java's auto-commit and a crash: the batch again": ("auto_commit", {}, (300, 300), {"duplicated": 50}, {"duplicated": BEGINS_AGAIN}),
    "librdkafka's: the batch is lost": (
        "auto_commit", {"library": "librdkafka"}, (250, 300), {"lost": 50}, {"lost": "library=librdkafka: a record counts as done"}),
    "or the one record that was handed out": (
        "auto_commit", {"library": "librdkafka", "poll_records": 1}, (299, 300), {"lost": 1}),
    "close() after an error commits the batch": (
        "auto_commit", {"rule": "closed after an error"}, (250, 300), {"lost": 50}, {"lost": "in close(), java commits"}),
    "offsets stored after the work lose nothing": (
        "auto_commit", {"rule": "kept after the work", "library": "librdkafka"}, (300, 300), {}),
    "nor do commits after the batch": (
        "auto_commit", {"rule": "kept after the work"}, (300, 300), {"duplicated": 50}),
    **{
        f"a pool's records are lost whoever commits: {library}": (
            "auto_commit", {"rule": "handed to a pool", "library": library}, (242, 300), {"lost": 58},
            {"lost": f"{library} commits what poll returned"})
        for library in ("java", "librdkafka")
    },
    "a worker's own commit claims what others have not done": (
        "worker_pool", {}, (107, 111), {"lost": 4, "rewound": 39},
        {"lost": "commits=own: a commit claims everything below it", "rewound": "workers finish in any order"}),
    "a contiguous one repeats what was done above the gap": ("worker_pool", {"commits": "contiguous"}, (111, 111), {"duplicated": 42}),
    "an offset kept too long takes the group back": (
        "store_after_revoke", {}, (200, 200), {"duplicated": 200, "rewound": 1}, {"rewound": "keeper=the user: an offset from before"}),
    "old librdkafka did that by itself": (
        "store_after_revoke", {"keeper": "librdkafka 1.4.1"}, (200, 200), {"duplicated": 200, "rewound": 1}),
    "today's refuses to keep it": ("store_after_revoke", {"keeper": "librdkafka"}, (200, 200), {"duplicated": 40}),
    "the last offset instead of the next: one record a partition and restart": (
        "off_by_one", {}, (88, 88), {"duplicated": 40}, {"duplicated": "commits=offset: the commit names the last record"}),
    "the next one: none": ("off_by_one", {"commits": "offset + 1"}, (88, 88), {}),
}  # fmt: skip
RESETS: dict[str, Claim] = {
    "what retention takes while a consumer pauses is lost under earliest": (
        "retention_overtakes", {"policy": "earliest"}, (65, 80), {"lost": 15, "skipped": 15}),
    "and the rest of the log as well under latest": ("retention_overtakes", {}, (50, 80), {"lost": 30, "skipped": 30}),
    "an operator's deletion does the same": ("retention_overtakes", {"by": "DeleteRecords"}, (50, 80), {"lost": 30, "skipped": 30}),
    "none stops, and loses what is gone": ("retention_overtakes", {"policy": "none"}, (40, 80), {"lost": 15}),
    "ten records a second for five minutes": (
        "new_partition_latest", {"metadata_max_age_ms": 300_000}, (30, 3_030), {"lost": 3_000, "skipped": 3_000}),
    "for five seconds": ("new_partition_latest", {"metadata_max_age_ms": 5_000}, (30, 80), {"lost": 50, "skipped": 50}),
    "earliest reads a new partition from its start": ("new_partition_latest", {"policy": "earliest"}, (40, 40), {}),
    "so does a duration that is long enough": ("new_partition_latest", {"policy": BY_HOUR}, (40, 40), {}),
    "a table that is asked after the effect prevents nothing": ("reset_by_hand", {}, (60, 60), {"duplicated": 66, "rewound": 1}),
    "no table is as good": ("reset_by_hand", {"check": "none"}, (60, 60), {"duplicated": 66, "rewound": 1}),
    "one that is asked before misses the crash": (
        "reset_by_hand", {"check": "before the effect"}, (60, 60), {"duplicated": 1, "rewound": 1}),
    "one step with the effect misses nothing": ("reset_by_hand", {"check": "one step with the effect"}, (60, 60), {"rewound": 1}),
    "lag 0 with 160 records in a pool that dies": ("lag_is_zero", {}, (40, 200), {"lost": 160}),
    "whoever commits what is done loses nothing": ("lag_is_zero", {"rule": "committed after the work"}, (200, 200), {}),
    "a dead consumer's records wait": ("flat_lag", {}, (16, 5_012 - 5), {}),
    "a commit that nobody replaces": ("stale_commit_lag", {}, (100, 500), {"lost": 400, "skipped": 400}),
}  # fmt: skip
TRANSACTIONS: dict[str, Claim] = {
    "a reader of committed records gets the committed ones": ("commit_and_abort", {}, (12, 12), {}),
    "the other one gets the aborted ones too": (
        "commit_and_abort", {"isolation": "read_uncommitted"}, (12, 12), {"aborted_read": 6}),
    "position and output in one transaction: exactly once": ("consume_transform_produce", {}, (9, 9), {"stalled": 1}),
    "and after a crash just before the commit": ("consume_transform_produce", {"crash": "after position"}, (9, 9), {"stalled": 1}),
    "and just after it": ("consume_transform_produce", {"crash": "after commit"}, (9, 9), {}),
    "a position outside comes too late: twice": (
        "consume_transform_produce", OUTSIDE | {"crash": "after commit"}, (9, 9), {"duplicated": 3}),
    "or too early: never": (
        "consume_transform_produce", OUTSIDE | {"order": "offsets first", "crash": "after position"}, (6, 9), {"lost": 3}),
    "without transactions too, wherever the position is": (
        "consume_transform_produce", {"transactional": False, "order": "offsets first", "crash": "after position"}, (6, 9), {"lost": 3}),
    "without transactions: twice": ("consume_transform_produce", {"transactional": False}, (9, 9), {"duplicated": 3}),
    "a reader on the default isolation sees the crash": (
        "consume_transform_produce", {"isolation": "read_uncommitted"}, (9, 9), {"duplicated": 3, "aborted_read": 3}),
    "the same id fences the zombie, whatever else": ("zombie", OUTSIDE | {"generation": False}, (6, 6), {"stalled": 1}),
    "ids of their own: the generation stops it": ("zombie", NEW, (6, 6), {}),
    "ids of their own, no generation: both commit": ("zombie", NEW | {"generation": False}, (6, 6), {"duplicated": 3}),
    "ids of their own, position outside: both commit": ("zombie", NEW | OUTSIDE, (6, 6), {"duplicated": 3}),
    "a pause beyond the timeout ends it too": (
        "zombie", NEW | OUTSIDE | {"pause": "beyond the timeout", "transaction_timeout_ms": 1_500}, (6, 6), {"stalled": 1}),
    "a killed worker's transaction is aborted by the timeout": ("transaction_timeout", {}, (9, 9), {"stalled": 1}),
    "log and continue loses the batch": (
        "transaction_timeout", {"cause": "slow", "on_fenced": "continue"}, (6, 9), {"lost": 3, "stalled": 1}),
    "with one more batch, version 2: the same producer aborts and goes on": (
        "transaction_timeout", {"cause": "slow", "next_call": "batch", "version": "2"}, (9, 9), {}),
    "go back loses nothing": ("transaction_timeout", {"cause": "slow"}, (9, 9), {"stalled": 1}),
    "version 1: a late marker tears a committed transaction": ("delayed_marker", {"version": "1"}, (3, 6), {"lost": 3}),
    "version 2: it is refused": ("delayed_marker", {"version": "2"}, (6, 6), {}),
    "a batch after the end opens what nobody ends": ("hanging_transaction", {}, (0, 6), {"lost": 3, "stalled": 1}),
    "an administrator ends it": ("hanging_transaction", {"rescue": True}, (3, 3), {"stalled": 1}),
    "verification refuses the batch": ("hanging_transaction", {"verification": True}, (3, 3), {}),
    "version 2 refuses it too": ("hanging_transaction", {"version": "2"}, (3, 3), {}),
    "a database is charged twice": ("outside_effect", {}, (18, 18), {"duplicated": 3, "stalled": 1}),
    "unless its key is unique": ("outside_effect", {"unique_key": True}, (18, 18), {"stalled": 1}),
}  # fmt: skip
REPLICAS: dict[str, Claim] = {
    "unclean: acknowledged records vanish, the offset is out of range, all is read again": (
        "unclean_election", {}, (55, 65), {"lost": 10, "duplicated": 40, "rewound": 1}),
    "unclean, latest: what came before the consumer was back is skipped as well": (
        "unclean_election", {"auto_offset_reset": "latest"}, (50, 65), {"lost": 15, "skipped": 5}),
    "unclean, none: the consumer stops, and only what vanished is lost": (
        "unclean_election", {"auto_offset_reset": "none"}, (50, 65), {"lost": 10}),
    "clean: unavailable, and then all is there": ("unclean_election", OFF, (65, 65), {}),
    "two must have it: refused, and nothing to lose": ("unclean_election", {"min_insync_replicas": 2}, (45, 45), {}),
    "two must have it, clean": ("unclean_election", {"min_insync_replicas": 2} | OFF, (45, 45), {}),
    "no epoch, grown past it: new records are skipped in silence": (
        "truncated_commit", {}, (55, 65), {"lost": 10, "skipped": 10}),
    "no epoch, at once: all is read again": (
        "truncated_commit", {"new_records": 0}, (50, 50), {"duplicated": 40, "rewound": 1}),
    "no epoch, none: silence all the same": (
        "truncated_commit", {"auto_offset_reset": "none"}, (55, 65), {"lost": 10, "skipped": 10}),
    "epoch: on it goes where the histories part": ("truncated_commit", EPOCH, (65, 65), {}),
    "epoch, at once": ("truncated_commit", EPOCH | {"new_records": 0}, (50, 50), {}),
    "epoch, latest: the policy is not asked": ("truncated_commit", EPOCH | {"auto_offset_reset": "latest"}, (65, 65), {}),
    "epoch, none: the application is told": ("truncated_commit", EPOCH | {"auto_offset_reset": "none"}, (50, 65), {}),
    "an epoch that librdkafka does not ask for": ("truncated_commit", EPOCH | LIBRDKAFKA, (55, 65), {"lost": 10, "skipped": 10}),
    "480 are repeated when it resumes at once": (
        "truncated_commit", SCALED | {"new_records": 0}, (500, 500), {"duplicated": 480, "rewound": 1}),
    "20 new records are skipped when the log has grown to 550": (
        "truncated_commit", SCALED | {"new_records": 70}, (550, 570), {"lost": 20, "skipped": 20}),
    "a follower that stands still, two of three in sync: nothing is lost": ("follower_cut", {}, (20, 20), {}),
    "two copies, one of them enough: what the leader had alone is lost": (
        "follower_cut", {"replicas": 2, "min_insync_replicas": 1}, (10, 20), {"lost": 10}),
    "two copies, one enough, clean": ("follower_cut", {"replicas": 2, "min_insync_replicas": 1} | OFF, (20, 20), {}),
    "back before the leader dies": ("follower_cut", {"replicas": 2, "returns": True, "trouble": "killed"}, (20, 20), {}),
    "three must have it": ("follower_cut", {"min_insync_replicas": 3}, (10, 10), {}),
    "a bit flips, and the other copy mends it": ("flipped_bit", {}, (20, 20), {}),
    "a bit flips on the only copy": ("flipped_bit", {"replicas": 1}, (7, 20), {"lost": 13}),
    "the first one of the only copy": ("flipped_bit", {"replicas": 1, "at": 0}, (0, 20), {"lost": 20}),
}  # fmt: skip

IN_ANY_ORDER = ("SPOUTS", "GROUPS")  # with several tuples or members at work any order may come
TABLES = {"SPOUTS": SPOUTS, "PRODUCERS": PRODUCERS, "GROUPS": GROUPS, "RESETS": RESETS, "TRANSACTIONS": TRANSACTIONS, "REPLICAS": REPLICAS}


@pytest.mark.parametrize(("table", "case"), [(table, case) for table, claims in TABLES.items() for case in claims])
def test_experiment_shows_what_it_claims(table: str, case: str) -> None:
    """The verdict has the counts, a setting explains each of them unless it is marked, and the reasons say so."""
    name, knobs, done, counts, *rest = TABLES[table][case]
    trace = get(name).run(**knobs)
    verdict = judge(trace)
    assert (verdict.processed, verdict.appended) == done
    assert counted(trace, *(["reordered"] if table in IN_ANY_ORDER else [])) == counts
    assert set(verdict.violations) == next((each for each in rest if isinstance(each, set)), set())
    for kind, words in (pair for each in rest if isinstance(each, dict) for pair in each.items()):
        assert words in verdict.first(kind).reason
