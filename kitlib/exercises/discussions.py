"""What else would have been right, and what each way costs: shown beside an exercise's solution (`kitlib.exercises.course`)."""

from __future__ import annotations

DISCUSSIONS = {
    # 00
    "mend_the_crash": '`{"commit_every_ms": 20}` works too, and repeats nothing here: a commit comes before the crash. It makes '
    "the window smaller and does not close it; `force_from_start=True` closes it and repeats everything that the topic holds.",
    "name_the_anomalies": "The stored offset is that of the stuck record, so everything above it is emitted again: duplicated, "
    "and therefore also out of order. Nothing is lost or skipped, because the commit never passed the record that was not done.",
    "done_but_not_saved": "Counted in code: the offsets in the step's `processed` ranges that are at or above its "
    "`committed_to`. The number differs at each commit; what stays is that a commit cannot name finished records above an "
    "unfinished one.",
    # 01
    "what_is_committed": "Any rule gives 3 that looks for the smallest offset not yet acked. A failure changes who is waiting "
    "for the record, not whether it is finished, so 3 is still pending.",
    "cheap_restart": "What is repeated is everything that was finished above the stuck record. With 2 in flight one place is left "
    "for the others, which repeats 26 of them, and with 3 or more all 38 are repeated. Only 1 helps, by stopping the whole partition "
    "behind the stuck record (head-of-line blocking): nothing is repeated because nothing was done, and everything waits. "
    "`max_offset_behind=5` also repeats little, by declaring the stuck record done, and that loses it.",
    "commit_goes_back": "One record is enough: `next, ack 0, commit, fail 0, next, next, commit`. In a real topology it happens "
    "when a record becomes several tuples and one of them fails after the tree was acked.",
    "forgotten_too_much": "A set, a list or `range(29, 37)` are the same answer. 29 is 37 - 8, and `clear_below(bound)` keeps "
    "the bound itself.",
    "own_ack": "The check of the smallest pending offset can be left out: clearing below a bound that nothing is under changes "
    "nothing. Storm keeps it because looking at one number is cheaper than copying a part of the ledger.",
    "own_partition_manager": "Any set does for `failed`. For `pending` a plain set is right and too slow: `min` of it goes through all "
    "that is open at each ack, so the solution takes `OffsetSet`; a heap from which nothing is removed until it is on top does as well.",
    # 02
    "smallest_bound": "A bound must be at least as large as a fetch, or the oldest records of each fetch are refused at their "
    "first failure. Nothing in the configuration compares the two numbers.",
    "forgotten": "A loop over the steps with two sets does the same. What matters is to subtract at the end and not along the "
    "way: a record that was cleared may still be processed, since its tuple is in flight.",
    "stop_the_partition": "A faster bolt (`process_ms`) can stop the partition as well: then too the poison record has mostly "
    "just failed when the spout may ask. It is a race between two rates, not a property of one setting.",
    "choose_a_default": 'Every bound from 40 on survives the outage for all fetch sizes. With `"unlimited"` the poison record '
    "stalls the commit instead of being lost. There is no bound that does neither, so the choice is which of the two your "
    "service can see and repair.",
    "passed_over": "Take the highest commit that any result tells of, and the set of offsets that have a result: what is below "
    "the one and not in the other is lost. Looking at each commit alone would call a result that only comes late lost.",
    # 03
    "silent_jump": "22,092,614 - 15,266,940, with the beginning taken from `begins_at(...)` and not from the log line. Both "
    "numbers name the next record to read, so nothing has to be added or subtracted.",
    "lying_line": "A and B are two views of one stored number, and D is what happened. A log line is written by someone who knew "
    "what should happen; check its numbers against the rule before you believe its words.",
    "reproduce_the_jump": "Any bound smaller than the distance from 20 to the log's end does it: a larger `records_while_down` "
    "with a larger bound is the same jump. `start_offset_time` changes nothing, which is the point of the incident.",
    "second_bug": "Any list with one ack far ahead of an unfinished record will do; `[30]` is the shortest. Hypothesis would "
    "find it too: state the property and let it shrink the list.",
    "defend_a_start": "With `force_from_start=True` the price is duplicates: each redeployment reads what the topic still holds. "
    "Without it the price is the loss of what retention took first. A finite bound is refused, because a backlog can be larger "
    "than any number you write down.",
    # 04
    "zero_too_early": "Choose two different ids and take their XOR as the third; it must differ from both and from zero. Two "
    "tuples would not do, because only equal ids cancel each other.",
    "bits_for_ten_years": "`next(bits for bits in range(1, 65) if years_to_false_completion(bits) > 10)` finds it. Each bit "
    "doubles the wait, so halving an interval is not needed.",
    "when_it_fails": "Rotations come at 60 and 80: at 60 the bucket of the tuple becomes the older one, at 80 it is thrown out. "
    "Counting 20 s from the emit is wrong, because the buckets do not know when a tuple came.",
    "own_split": "`BasicBolt` anchors and acks by itself and would leave only the loop; a question then has to raise its "
    "failure. Emitting first and failing afterwards is not the same: words of a failed sentence would be out already.",
    "own_acker": "Two dicts, a list of dicts or one dict with the number of ticks beside each entry all work. What cannot be "
    "left out is the order of the questions, zero before failed, and that a tree without a spout cannot end.",
    # 05
    "largest_pending": "30 s divided by 0.1 s for each tuple. With two tasks it would be 600: the wait is pending × time ÷ "
    "tasks.",
    "quiet_fault": "Faults that lose a tuple show within the first second that something is missing. Acking twice leaves every "
    "effect in place and breaks only the acker's sum, so it shows when the timeout runs out.",
    "cheap_spout_crash": "Other pairs of small numbers work as well. Turning only one of the knobs leaves either what was in "
    "flight or what was finished and not yet stored; with pending too small the last record is late.",
    "end_the_livelock": "A longer `topology_message_timeout_secs` works without more machines, at the price that a tuple that is "
    "really lost is missed for that much longer. Fewer pending would be the third way, and was forbidden here.",
    "own_batch": "Acking each tuple right after the write, or all of them in a loop, is the same. Writing from a tick as well "
    "would end the wait of a batch that never fills. A write that is keyed by the number would make the repetition harmless.",
    # 06
    "doubled_words": "Add up `parts` of the third six lines. Batches 0 and 1 are noted as done, and batch 3 had not begun.",
    "own_put": "A tuple instead of a list, or `setdefault`, does the same. Keeping the previous count as well would be opaque "
    "state, which also bears replays that are different.",
    "sum_differs": "In B and D something comes after the moment at which the acker had already sent its word. In all others the "
    "acker's last message and the sum agree. A sum cannot see an order, and the acker's rule depends on one.",
    # 07
    "second_send": "Metadata and connections are kept until they are too old or broken, so a later send after a long pause may "
    "take all steps again.",
    "told_after": "The four faults fall into two clocks: a call that waits for metadata or memory is bounded by `max.block.ms`, "
    "a record in a batch by `delivery.timeout.ms`. It is the time at which the *first* record fails that differs from the third "
    "one's.",
    "batch_of_a_round_trip": "2,000 × 0.03 = 60. What arrives while a request is in flight leaves with the next one, so load "
    "makes batches even with a linger of 0.",
    "word_of_one": "`acks=all` may be named as well. `min_insync_replicas=3` loses nothing either, but nothing is stored any "
    "more: two replicas are not enough then.",
    "own_metadata_clock": "Clamping both times at 0 first and taking the maximum afterwards gives the same. The common slip is "
    "to count the backoff from the last *successful* refresh: a broker that fails is then asked without any pause.",
    # 08
    "sixth_batch": "(2,147,483,640 + 14) modulo 2,147,483,648. A client that let the number become negative would be refused.",
    "how_many_copies": "The rule behind all four: a copy is recognised if the same numbers come again and the broker still knows "
    "them. A new send has new numbers; a broker that forgot accepts any.",
    "safe_kill": "With one in flight the unanswered batch is the newest one, and that is what a restarted broker still knows. "
    "`retries=0` prevents copies too, but the user is told that every record failed, and does not know which of them are stored.",
    "quiet_switch": '`{"retries": 0}` does it too. `max.in.flight.requests.per.connection=6` does not: the client refuses to '
    "start even if nobody asked for idempotence by name.",
    "own_check_sequence": "Epochs come first: what is remembered belongs to the old epoch, so a new one makes no batch a copy. "
    "Then the copy, then the order. Comparing only first sequences would accept a batch of another length as a copy.",
    # 09
    "order_in_log": "Batches 2 and 3 are in flight when batch 1 is refused, so they are written first; 1 goes to the front of "
    "what has not left.",
    "enough_memory": "As many as are in flight, since all of them may be unanswered. That is why Kafka allows five: the broker "
    "remembers five.",
    "in_flight_needed": "550 × 0.05 s ÷ 5 = 5.5, rounded up. More records in a request would do the same with fewer in flight.",
    "send_again": "`set(sent) - set(in the topic)`, in any form. It works only because the records carry numbers, and because "
    "nobody else writes; with a transaction the question does not arise.",
    "own_broker_state": "A deque with `maxlen=5` replaces the slice. Keeping more than five would accept more retries than the "
    "real broker does, and the recorded steps show it.",
    "own_sender": "The last stored sequence and the batches that are out are all that the rules ask for; nothing has to be sorted, "
    "since batches are numbered in order. Raising the epoch in `refused` itself is wrong: the other answers of that run are still "
    "about the old one.",
    "copies_and_order": "A set of the numbers seen and the highest one so far are enough for one pass. Comparing neighbours is "
    "wrong: behind a late record the next ones in order would count as late, too.",
    # 10
    "what_each_sees": "5 × 2 records, and a marker for each transaction: 15 offsets. Transaction 3 is the aborted one, so its 2 "
    "records are what separates the two readers.",
    "losing_order": "In a transaction the position and the output go together, so only a run without one can lose. With the "
    "output first the same crash repeats: at least once.",
    "four_zombies": "Fencing needs something that both workers share and only one can hold: the transactional id, or the group's "
    "generation. The offsets must be in the transaction for the generation to be checked.",
    "own_read_committed": "Kafka does it with one pass: the broker stops at the last stable offset and sends the aborted "
    "transactions along. The quadratic search is the plainer specification.",
    "right_key": "Everything that is made at the attempt (transaction, producer, output offset) differs at the next attempt. A "
    "business key from the record itself would do as well, if it is unique.",
    # 11
    "group_home": "Python's `hash` would not do: it differs from process to process. Kafka's own special case, the smallest int, "
    "is why `abs` alone is not enough.",
    "decode_commit": "`struct.unpack_from` with `>h`, `>i` and `>q` reads the same bytes. The length checks are the answer's "
    "other half: Python's slices do not complain about a record that was cut off.",
    "live_records": "Deleting a key from the dict when its tombstone comes is the same, as long as a later value can bring it "
    "back.",
    "survivors": "A pass from the end that keeps each key's first sight works as well. Tombstones stay in the first pass, "
    "because their time only begins with it.",
    "kept_or_gone": "Old rule: the age of the commit. New rule: how long the group has been empty. Only the second situation and "
    "the first one differ between the two.",
    "gap_or_loss": "Whether anything came is asked last, because `None` means the end only at the end. A gap is normal where a "
    "topic is compacted or transactional.",
    "rebuilt": "Applying what is left to the old table is wrong, since a deleted key may have no record any more, its tombstone "
    "included.",
    # 12
    "endings": "Two questions decide each line: is the offset that the consumer is told valid in the log, and if not, what does "
    "the policy say?",
    "after_the_load": "A dict with offset and age, purged once in the middle, is all that it takes. The fault is the order of "
    "the two, the purge before the load has ended.",
    "load_speed": "The load must be over before the first purge. No speed is safe for every log: a purge that waits for the load "
    "to end would be.",
    "who_sees_it": "A monitor of lag sees a commit that jumps forward as good news. Only the history in the offsets topic has "
    "the tombstone in both cases.",
    "own_alarm": "Records for each key work as well, if they have risen for long enough. A fixed number of records does not: "
    "what is much for one cluster is little for another.",
    "after_the_outage": "14 hours of 10 records, of which retention keeps 12 hours: 20 are gone. `latest` gives up the remaining "
    "120 too.",
    "where_it_begins": "`log_start <= committed <= log_end`, with both ends included: a consumer at the very end has a valid "
    "offset.",
    "no_effect_twice": "A key in the sink that makes the second effect a no-op is the same thing: the effect and the note of it "
    "are one write.",
    # 13
    "what_is_left": "Follow the log's end: an unclean leader begins at what it has copied, so what the other one had alone is "
    "cut off when it returns.",
    "safe_follower": "`min_insync_replicas=3` loses nothing either, but refuses as soon as one of three is away. Two copies "
    "cannot do both.",
    "goes_on": "First the epoch, then the range, then the policy. An `epoch_end` of 0 is an answer, not a missing one: compare "
    "with `is not None`.",
    "cut_to": "Comparing epoch by epoch from the start gives the same offset. Brokers ask from the newest epoch down, because "
    "the logs mostly differ near their ends.",
    # 14
    "which_rule": "The words follow from the order of the rules, not from the stories: a dead group at the end of its log has no "
    "lag and is OK.",
    "rings_after": "Ten commits have nine gaps, and the silence has to be longer than the window. A group that commits once a "
    "minute is missed for nine minutes.",
    "second_rewind": "Any list works in which the first step back is made good and a later one is not. The kit's `rewinds` looks "
    "at every pair.",
    "hidden_stop": "The last log end that excuses the silence was read with the last commit, and the tenth later one pushes it "
    "out: ten reads of ten seconds.",
    "thin_out": "Nine gaps of 7 s are 63 s, which is more than the pause of 60 s; 6 s give only 54 s. A pause that the group "
    "does not always make would still ring.",
    "every_step_back": "`itertools.pairwise` and indexes are the same. A tombstone is no smaller offset: what follows it is a "
    "new beginning.",
    "own_lag_rules": "A list of pairs of a question and a word, asked in order, is the same, and is how the kit writes it: then "
    "the order can be read and changed. Sorting to see that nothing shrinks is short; a loop over neighbours is faster.",
    "broken_cluster": "Lag first, then the commits of one partition, then who made them. With other seeds the last question "
    "decides: a step back while the group had members is a rewind, without members a reset by hand.",
    # 15
    "after_the_crash": "Only committed and processed matter. What was fetched lies in the dead process, and its successor "
    "fetches it again.",
    "committable": "A set instead of a list makes each test cheap; sorting and looking for the first hole is the same.",
    "stand_still": "Eager: all six stop. Cooperative: only the two that will move. The four others are read all the while.",
    "which_clock": "Ask who still sends heartbeats. A busy process does, so only its polls betray it; a frozen or dead one does "
    "not.",
    "poll_size": "20 × 100 ms is exactly the interval, and the next poll has to come before it. In production leave room: one "
    "slow record is enough.",
    "own_assignor": "Any assignment with the same shares and as many partitions kept is right; Kafka's sticky assignors differ "
    "in which one is moved.",
    # 16
    "nobodys_task": "20 + 120 + 2 × 2. A shorter delay is the only knob that helps: the worker's early return changes nothing.",
    "flush_often_enough": "1,200 ÷ 150 is 8 polls between two flushes, and the task polls once a second, so the interval is 9 s. "
    "Exactly-once support repeats nothing at any interval.",
    "moved_keys": "A loop does the same. There is no table of keys anywhere: the partition is computed, so nothing can be asked "
    "whether a key has moved.",
    "busy_threads": "12 + 3 tasks over 3 instances. Threads beyond 5 wait for a task that does not exist.",
    "own_leader": "A running index modulo the number of workers is the same as the slices. Dealing the tasks from the first "
    "worker again is not: the recorded assignor goes on where the connectors ended.",
    # 17
    "seeds_needed": "`math.ceil(math.log(0.05) / math.log(0.95))` is the same without trying. The rule of thumb 3/n gives 60.",
    "safe_bound": "Sorting the bounds from the largest down and stopping at the first that is not clean does it in one pass. "
    '`not row["lost"]` alone would take a run that raised for a clean one.',
    "silent_loss": "Many knobs will do; what they share is that few commits come while the outage lasts, so none of them stands "
    "still for long. `find` with a function of both columns does the search and shrinks it.",
    "exchanges": "Count what has to meet: no other row for a filter or a new column, the rows of one group for GROUP BY, all "
    "rows in one order for ORDER BY.",
    # 18
    "after_the_event": "A dict from event to state and one comparison do the same. There is no case for who answers: an answer of a "
    "consumer that has not got the lock is refused before the record is looked at.",
    "nothing_twice": "A smaller `process_ms` works as well, until the records get slower again; fewer consumers do not. In production "
    "one chooses a lock longer than `max.poll.records` times the slowest record, or renews it.",
    "consumers_it_may_end": "The limit less one, whatever the limit. Where such a delivery does not count (before KAFKA-19972), there "
    "is no such number: the record ends consumers until somebody deletes it.",
}  # fmt: skip
