"""Words of a share group: what a consumer is handed and what it answers, and what the broker makes of both.

log      append                          consumer  acquire, process, fail, accept, release, reject, renew, refused, ignored, kill, freeze
network  lose_answer, delay               consumer  thaw
broker   start, time_out, hand_back, archive, full, move
"""

from __future__ import annotations

from kitlib.words.word import Domain, Word, rules

share_partition = rules("more.share_partition:SharePartition.")

_ANSWER = share_partition("acknowledge", "Only the consumer that has the lock may answer, and its answers count together or not at all.")

SHARE = Domain(
    "share",
    {
        "append": Word("{arriving()} in the log: {span()}.", "first last", judged="append", about="record:first-last"),
        "start": Word("The share group begins at offset {offset:d}: {why}.", "offset why", judged="start"),
        "acquire": Word(
            "{who} acquires offset {offset:d}[delivery>1?, delivery {delivery:d} of {limit:d}]: no one else gets it while the lock lasts.",
            "delivery limit offset", judged="emit", about="record:offset",
            rule=share_partition(
                "acquire",
                "A fetch locks records for one consumer: those available again first, then new ones as long as there are locks left.",
            ),
        ),
        "process": Word("{who} processes offset {offset:d}: the effect happens now.", "offset", judged="process", about="record:offset"),
        "fail": Word("{who} cannot process offset {offset:d}.", "offset", about="record:offset"),
        "accept": Word(
            "{who} accepts offset {offset:d}[failed?, although its processing has failed: the next poll accepts whatever the last one "
            "brought].", "offset", "failed:flag", judged="ack", about="record:offset", rule=_ANSWER,
        ),
        "release": Word(
            "{who} releases offset {offset:d}: anybody may have it now.", "offset", judged="fail", about="record:offset", rule=_ANSWER
        ),
        "reject": Word(
            "{who} rejects offset {offset:d}: it is archived, and no one gets it again.", "offset why", judged="archive",
            about="record:offset", rule=_ANSWER,
        ),
        "renew": Word("{who} renews its lock on offset {offset:d}.", "offset", about="record:offset", rule=_ANSWER),
        "refused": Word(
            "{who} answers for {first:d} to {last:d} too late: {error}. None of these answers counts.", "error first last",
            about="record:first-last", rule=_ANSWER,
        ),
        "ignored": Word(
            "{who} answers for offset {offset:d} too late, and the broker ignores it: the start offset has passed this record.", "offset",
            about="record:offset", rule=_ANSWER,
        ),
        "time_out": Word(
            "The lock of {member} on offset {offset:d} runs out.", "member offset", judged="give_back", about="record:offset",
            rule=share_partition("expire", "A lock that runs out ends the delivery: the record is available again, or archived."),
        ),
        "hand_back": Word(
            "The connection of {member} is gone, and its locks with it: it had {ranges:spans()}.", "member ranges", judged="give_back",
            about="record:ranges",
            rule=share_partition("close_session", "A consumer whose connection ends hands back what it has at once; the deliveries count."),
        ),
        "archive": Word(
            "Offset {offset:d} has come back from delivery {delivery:d} of {limit:d}: it is archived, and no one gets it again.",
            "delivery limit offset why", judged="archive", about="record:offset",
            rule=share_partition("_give_back", "A record that comes back from its last delivery is archived."),
        ),
        "full": Word(
            "All {locks:d} record locks are between the start offset {offset:d} and the end offset: no new record is handed out.",
            "locks offset", judged="full",
            rule=share_partition("acquire", "Between start and end offset lie at most so many records, done or not."),
        ),
        "move": Word(
            "The start offset moves to {offset:d}: everything below is acknowledged or archived.", "offset", judged="commit",
            rule=share_partition("acknowledge", "The start offset passes a record only when all below it are done."),
        ),
        "kill": Word("{who} is killed."),
        "freeze": Word("The process of {who} freezes; its connection stays open."),
        "thaw": Word("{who} resumes as if nothing had happened."),
        "lose_answer": Word("The answer of {member} for {span()} is lost.", "member first last", about="record:first-last"),
        "delay": Word("The answer of {member} for {span()} is held back for {ms:,} ms.", "member first last ms", about="record:first-last"),
        "end": Word("[left>0?The story ends with {left:record} left to do|Every record is acknowledged or archived].", "left:whole"),
    },
    marks={
        "kill": "killed", "freeze": "frozen", "thaw": "resumes", "lose_answer": "answer lost", "delay": "held back",
        "time_out": "lock runs out", "hand_back": "handed back", "archive": "archived", "reject": "rejected",
        "refused": "answer refused", "ignored": "answer ignored", "full": "no locks left",
    },
)  # fmt: skip
