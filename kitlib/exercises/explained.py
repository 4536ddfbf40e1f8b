"""Model answers to the questions that begin with *Explain*: one is shown when the learner has written an answer of their own.

Nothing here is checked by a machine: a text is compared with the model by the person who wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explained:
    """One question, as its notebook asks it, and what an instructor would accept."""

    name: str  # unique among the exercises too
    notebook: str  # "04b"
    question: str  # a part of the notebook's text
    answer: str


_ROWS = (
    (
        "promise_of_a_commit", "00", "what does a committed offset promise, and what does it leave out?",
        "It promises that every record below it is finished, so a restart may begin there. It says nothing about the records at or "
        "above it: some of them may be finished too, and a restart processes those again.",
    ),
    (
        "wrong_ruler", "01b", "Which of these offsets lay within 15 of the ack?",
        "The ack was of 27, so 12 to 26 lay within 15 of it: 14 to 17 and 20 to 26 should have stayed pending. 0.9.2 cleared them "
        "as well, so its next commit wrote 27; the restart began there, and those that had not been processed yet never came "
        "again. It is a violation because the limit permits giving up what is more than 15 behind, and these were not.",
    ),
    (
        "two_seconds_of_work", "01a", 'so a crash repeats at most two seconds of work."',
        "A commit writes the smallest pending offset, whenever it is written. One record that does not finish holds it there, "
        "while everything above it goes on being processed. The crash then repeats all of that: what counts is the age of the "
        "oldest unfinished record and how many are in flight, not how often the commit is written.",
    ),
    (
        "who_chose_it", "03a", "Did anyone choose that, knowing what it would mean on a day like this?",
        "Hardly. `force_from_start=False` is chosen for the normal restart, where the stored offset is used. That it also means "
        '"without a stored offset, begin at the end" shows only when there is none, and a record 0 that never finishes is enough '
        "for that. Explained means that a setting accounts for the loss, not that somebody wanted it.",
    ),
    (
        "late_ack", "04b", "why is the number not zero, although `a` has been told twice?",
        "The failed tree ended at the init and its entry was removed, with the first `a` in it. The late ack finds no entry and "
        "begins a new one with 0 XOR a, which is a. That entry has no spout and can never end by a zero, so it stays until two "
        "ticks have dropped it.",
    ),
    (
        "window_and_timeout", "04c", "Why do only some of the tuples fail? Why so few at 60 s",
        "A tuple waits until its window of 77 is full, so the first of a window waits 76 s and the last one not at all; only those "
        "that wait longer than the timeout fail. The timeout is a number of rotations, not an exact age: a tuple is thrown out at "
        "the second rotation after its emit, after 60 to 120 s, so at 60 s only those emitted early in a window and late before a "
        "rotation are caught. One is safe as soon as the timeout is at least the longest wait, here 77 s.",
    ),
    (
        "what_the_acker_knows", "04c", "Which two things are wrong in this sentence?",
        "The acker does not keep the tuples: a tree of any size is one number of 64 bits and the spout's task. So tracking costs a "
        "message for each tuple, and memory for each tree only, and ackers can be added. And a zero does not mean that every bolt "
        "did its work: it means that every anchored tuple was acked. A tuple that was not anchored, or acked before the work, is "
        "invisible to it, and two ids may cancel by chance.",
    ),
    (
        "who_noticed", "05a", "Who noticed the crash in each: the spout, the source, or nobody?",
        "In all four: what else had been done for the same record is done again, since the record comes back as a whole. With the "
        "topic even finished records come again, because their offset was not stored yet. A dead bolt or acker is noticed by "
        "nobody: the spout's timeout runs out. A dead spout is noticed by the queue, whose connection breaks; the topic notices "
        "nothing, and the new spout simply reads the stored offset.",
    ),
    (
        "pending_and_timeouts", "05c", 'and to switch the timeouts off because "they only make duplicates"',
        "With 1,000 pending each tuple waits longer, and as soon as that wait exceeds the timeout, work is done for trees that "
        "have failed already: the topology is busy and acks nothing. An idle spout means that the bolts are the bottleneck, so "
        "more pending only lengthens the queue. Without a timeout nobody ever learns of a tuple that was lost in a crash; its "
        "record is never replayed, and the commit stands still. Raise the parallelism of the slow bolt, and keep pending × time "
        "per tuple ÷ tasks well below the timeout.",
    ),
    (
        "smallest_change", "06b", "what is the smallest change that moves it to another row?",
        "It is the row of Spark with increments: at least once. The checkpoint is written after the sink, so a crash between the "
        "two repeats a batch, and the increments are added twice; killing the job just after a batch is written shows it. The "
        "smallest change is to store the number of the batch beside the count, in the same transaction, and to skip a batch whose "
        "number is there already. Writing totals instead of increments does it too.",
    ),
    (
        "three_replicas", "09c", "what is missing, and what it will cost them when two brokers are away",
        "`acks=all` waits for the replicas that are in sync, and with `min.insync.replicas=1` the leader alone is enough: a record "
        "can be acknowledged with one copy, and that one may die. What is missing is `min.insync.replicas=2`. It costs them "
        "availability: with two brokers away only one replica is left, and the producer is refused until a second one is back.",
    ),
    (
        "four_settings", "09c", "Say for each of the four settings what it did, and what you would look at first.",
        "`max.block.ms` bounds how long `send` itself waits for metadata or memory, so callers now hang longer before they are "
        "told. `request.timeout.ms` is how long a lost answer is waited for, so a dead broker is noticed later. "
        "`delivery.timeout.ms` is when the application is told that a record failed; raising it keeps undeliverable records in "
        "memory for longer. `linger.ms=0` sends more and smaller requests, and under load saves little, since records wait for a "
        "free request anyway. Which clock ran out stands in the exception's text: look there first. The silent loss is another "
        "matter: a process that ends without `flush` or `close`, or ignores the callbacks, loses what lies in its buffer.",
    ),
    (
        "copies_after_a_restart", "07c", "how many copies are there with two requests in flight, and how many with one?",
        "With two, both batches are there twice: the broker that comes back remembers only the last batch of each producer, so it "
        "does not recognise the first one when it is sent again, and the client begins a new epoch with both. With one in flight "
        "there is no copy: the one unanswered batch is the last one, and that is the one that is remembered.",
    ),
    (
        "send_the_file_again", "07c", 'so after a crash of our service we just send the last file again."',
        "Idempotence recognises what one client sends again under the same producer id and sequence. After a crash the service is "
        "a new producer with a new id, and even within one life an application that sends again gets new sequences, so the broker "
        "stores the file a second time. They need a key in the records by which readers recognise a copy, or a transaction whose "
        "id outlives the process.",
    ),
    (
        "back_to_its_place", "08a", "Explain** why rule (2) needs the numbers.",
        "Each refused batch would be put in front of whatever is there: batch 3 goes to the front, then batch 2 in front of it, "
        "which happens to be right. But if batch 2 comes back first and batch 3 second, 3 stands before 2. The order in which "
        "answers arrive is not the order of the batches; only their sequences say where each belongs.",
    ),
    (
        "which_of_the_three", "08c", "Which of the three would you change, and what would each change cost them?",
        "I would switch idempotence on: by the table its rows are zero whatever the network does, and five in flight keep their "
        "order. It costs next to nothing. Then `max.in.flight` can go back to 5, which costs nothing either and brings back the "
        "throughput that one request at a time gives away. Sending every failed batch again must stop: a failure that is reported "
        "may be of a record that is stored, so each such send can be a copy; it costs a look at the topic, or a key by which "
        "readers recognise it.",
    ),
    (
        "who_ends_it", "15a", "what lies in the log when the worker is dead, who ends it, and when?",
        "The records of its open transaction lie in the log, behind the last stable offset, so readers of committed records wait "
        "there. Its successor ends it: with the same transactional id its first request, InitProducerId, has the coordinator abort "
        "what is open. Without a successor of that id the coordinator does it when `transaction.timeout.ms` is over.",
    ),
    (
        "longer_than_the_timeout", "15b", "why the wait is a little longer than the timeout itself",
        "The coordinator looks for transactions that are too old only now and then, so the abort begins at its first look after "
        "the timeout. Then it has to write the decision, and a marker into each partition, before the last stable offset moves.",
    ),
    (
        "batch_in_the_key", "15b", "why the key holds the batch's number and not only the order's",
        "With the order's number alone, the second, rightful occurrence in another batch would look like a copy and be dropped. "
        "With the batch's number it is a different row, and a batch that is done again finds its own rows. That holds only if a "
        "batch that is done again has the same orders: with others, rows of the first attempt would stay and nobody would take "
        "them back.",
    ),
    (
        "three_smallest_changes", "15b", "Which of their numbers can be wrong, by which section of notebooks 15a and 15b",
        "All of them. A new transactional id at each start fences nobody, so a worker that was thought dead can still commit, and "
        "an open transaction is ended only by its timeout. The database is outside the transaction, so a crash between the row and "
        "the commit leaves a row twice. And a reader with default settings may count aborted invoices. The changes: one "
        "transactional id for each worker, kept over restarts; the input record's offset as the row's unique key; "
        "`isolation.level=read_committed` for the job. The offsets have to be in the transaction as well.",
    ),
    (
        "long_history", "11a", "why does a history reach back a long way for one group, and for another it is a single commit?",
        "Compaction keeps the last record of each key and never touches the active segment. A group whose commits lie in segments "
        "that were cleaned has only its last one; a group whose commits are all newer than the last pass, or in the active "
        "segment, has all of them.",
    ),
    (
        "own_offsets", "11b", "why a consumer that commits an offset of its own for each record cannot know where its position is",
        "The application sees records, and the markers of transactions and the gaps of compaction are none. So the last record's "
        "offset + 1 may be a marker's, and the position is behind it. The client knows: `position()` returns it, in Java's "
        "consumer as in librdkafka, and `commit()` without offsets commits it.",
    ),
    (
        "told_minus_one", "11c", "Which three things would you look for in `__consumer_offsets`",
        "A tombstone of the group's key, and its time: was the offset deleted or expired? The group's last commit before the move: "
        "if it is there and no tombstone follows, the offset existed and the coordinator did not know it, because it answered "
        "before its cache was loaded, or loaded it wrongly. And the first commit after the move, smaller than the one before: how "
        "far it went back. The newest record of the key is still there this morning; the older ones only as long as no cleaner has "
        "passed over their segment, and a tombstone at least `delete.retention.ms` from its first cleaning.",
    ),
    (
        "one_hour_back", "12c", "why it loses 20 where the offset is forgotten, and what an hour had to be instead",
        "The 40 old records are two hours old, so an hour back is behind all of them: B begins at the first of the 30 new ones. A "
        "had processed 20 of the 40; the other 20 are skipped. The duration has to reach back at least to the oldest record that "
        "nobody has processed, here more than two hours, and whatever it reaches beyond that is repeated.",
    ),
    (
        "latest_and_four_days", "12c", "Which two sentences of these incidents do you answer with",
        "The policy is consulted only when there is no valid offset, and an old offset that still lies in the log is valid: it is "
        "simply read from, and everything since is processed again, `latest` or not. And where the policy is consulted, `latest` "
        "prevents repetition by losing everything up to the end. Four days of retention only bound how old the repeated records "
        "can be. I would first ask about the offsets topic: does its cleaner live, and how does `offsets.retention.minutes` "
        "compare with their longest silence?",
    ),
    (
        "leaving_the_set", "13a", "why the paused follower had to leave the in-sync set before the ten records could be "
        "acknowledged",
        "`acks=all` waits for every member of the in-sync set, and the paused follower was still one. Until "
        "`replica.lag.time.max.ms` had passed and the leader had shrunk the set, no record behind it could count as committed. The "
        "producer saw no error, only an answer that did not come for so long; with a shorter request timeout it would have sent "
        "again.",
    ),
    (
        "three_complaints", "13b", "Which setting, which commit and which client had each of the three?",
        "There was an unclean election, so the log was shorter than some commits. Those who jumped to the start came back while "
        "their commit was beyond the end, without an epoch, with `auto.offset.reset=earliest`. Those who skipped came back when "
        "the log had grown past their commit: it was valid again, and named other records. That is any client that had committed "
        "without the leader epoch, and librdkafka with it too, since it does not ask at its start. The last one did the same and "
        "lost the records in silence; only Java's consumer with the epoch in its commit and the policy `none` would have said "
        "where the histories part.",
    ),
    (
        "worse_dashboard", "14a", "why this dashboard looks worse and its users are better off",
        "It now shows 160 records that are fetched and not processed, which were there before and did not count. When A dies they "
        "come again, so nothing is lost. Beside the lag I would plot how many records are processed, or the age of the oldest "
        "unprocessed one; only the application can report that, because Kafka sees fetches and commits.",
    ),
    (
        "the_excuse", "14b", "which false alarm would ring without it, and on what kind of topic?",
        "A group that has read everything of a quiet topic stops committing, because there is nothing to commit. Then one record "
        "arrives: the lag is 1, and the last commit is older than the window. Without the excuse STOP would ring at once, before "
        "the group had a chance to commit; it would on every topic on which records are rare.",
    ),
    (
        "no_rule_finds_it", "14c", "to the person who owns that dashboard why no rule over commits could have found it",
        'A rule over commits sees only what the group says it has done. This group said "done" for 160 records that lay in a '
        "queue, so its commits are those of a healthy group, to the last number. What differs is outside of Kafka: what the "
        "workers really did. Only a count of processed records, or an audit of the effects, can tell.",
    ),
    (
        "caught_in_time", "14c", "which of them would have caught the stale offset of notebook 12",
        "The figures of the cleaner: its cause is a log that nothing compacts, so the dirty ratio has been high for days, the last "
        "pass is old and there are more and more records for each key. The load time stays below its bound because that log is "
        "small, and what is missing in the cache is over with the group's next commit. So the dirty ratio rings before the move, "
        "and the check that compares the coordinator's answer with the topic, if anyone looks at the right moment.",
    ),
    (
        "one_alarm_for_all", "14a", "Which two figures would you take instead?",
        "A group of a small topic that is dead never reaches 10,000, nor does one that commits before it works. A batch job that "
        "starts every hour has a large lag for five minutes and is well. I would take the time since the group last made progress "
        "while records wait, and the age of the oldest unprocessed record, or the slope of the lag over a window.",
    ),
    (
        "told_the_operator", "14c", "which rule of notebook 14a or alarm of section 2 would have told the operator, and after how long?",
        "It depends on the fault. *Stopped* is told by STOP, once the silence is longer than the window. *Stalled* is told by "
        "STALL, when the whole window is commits of one offset, *slow* by WARN, when the lag has grown all through it. A rewind is "
        "told by REWIND at the first commit that went back, unless it has recovered by then. An offset that was reset by hand or "
        "vanished may leave no lag and no alarm at all: only the records of the offsets topic have it.",
    ),
    (
        "session_and_poll", "10c", "why a longer session timeout does nothing against slow work, and what it costs in the third "
        "case",
        "The session is kept by heartbeats, and a busy process goes on sending them from another thread. What removes a slow "
        "member is `max.poll.interval.ms`, the time since its last poll. A frozen or dead process is noticed by the session alone, "
        "so a longer one means that its partitions are nobody's for that much longer.",
    ),
    (
        "three_questions", "10a", "Which three questions do you ask before you say whether anything was lost",
        "Who committed which offset before and after the deploy: did the committed offset go back, or jump? That is the committed "
        "cursor. Where did the new members begin to read: at that offset, or where the reset policy sent them? That is the "
        "position. And which of those 55,000 records have an effect in the sink, and how often? That is what was processed, and "
        "Kafka does not know it. A lag of 0 only says that the commits have reached the end again.",
    ),
    (
        "who_sees_5900", "16c", "the 5,900 records that were produced before the crash in the second run",
        "They belong to a transaction that was open when the worker died, so it was aborted, and their source offset was not "
        "stored. The next task produces them again, in a new transaction. Readers with `read_committed` see only the second ones; "
        "everyone with `read_uncommitted` sees both.",
    ),
    (
        "half_of_them", "16b", "Explain** both numbers.",
        "A key stays if its hash has the same remainder by both numbers. From 6 to 12 a remainder r becomes r or r + 6, so half of "
        "the keys move. From 6 to 8 the pattern repeats after 24 values, and only 6 of them (0 to 5) agree: three quarters move. "
        "The two measured shares are near that, with 500 keys.",
    ),
    (
        "friday", "16b", "Which of the three helps, which does nothing, and which may cost the weekend?",
        "More threads help if tasks wait for one: up to the number of tasks, and no further. More Connect tasks mostly do nothing: "
        "`tasks.max` is an upper bound, and a source makes as many tasks as it has work for. More partitions move about half of "
        "the keys, so the order of a key is broken while its old records wait, and Streams counts such a key in two stores. That "
        "one may cost the weekend, because it cannot be taken back: partitions are never removed. On Friday I would add threads or "
        "an instance, and measure first where it lags.",
    ),
    (
        "silent_losses", "17b", "so that most of these losses are silent?",
        "In an outage every record fails, so nothing is acked and commit after commit stands still before anything is given up. When "
        "single records fail, all the others go on: they are acked, and one of these acks clears the failed record as soon as it is too "
        "far behind. The commit never waits for long, so an alarm on commits has nothing to ring for.",
    ),
    (
        "green_for_a_year", "17a", "the seed, the number of seeds, or the scenarios?",
        "It is one seed, so I know that one order of events passes, and it is the same run each night: a year adds no evidence. I would "
        "first run many seeds of each scenario, new ones every night, and print the seed of a failure so that it can be repeated. Another "
        "single seed would prove no more than this one. Then the scenarios: no number of seeds finds what none of them does.",
    ),
    (
        "two_answers_to_poison", "18", "What does each of them do with record 13, and who pays for it?",
        "The spout never gives it up: it is retried without end, the commit stands at 13, and a crash would repeat everything above it. "
        "The share group delivers it five times and archives it, so the start offset moves on and one record is lost, with nothing but "
        "the delivery limit to say so. The spout pays with progress, the share group with the record.",
    ),
    (
        "three_promises", "18", "Which of the three would you choose for each",
        "Balances need the order of each account, so a consumer group keyed by the account. Resizing pictures needs no order, some take "
        "minutes, and there may be more workers than partitions: a share group, with a lock that is long enough or renewed, and with "
        "effects that may happen twice. Where a record must never be given up, a limit on deliveries is wrong: retry without end as the "
        "spout does, or keep what is archived somewhere else before it is rejected.",
    ),
)  # fmt: skip

EXPLAINED = {row[0]: Explained(*row) for row in _ROWS}
