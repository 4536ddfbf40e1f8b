"""Words of a transaction's run: what producers, the coordinator, the broker, readers and a database do."""

from __future__ import annotations

from kitlib.text import plain_text
from kitlib.words.glyphs import (
    ALARM,
    BLUE,
    CHECK,
    CROSSED_SQUARE,
    DIAMOND,
    GOES_ON,
    IS_KILLED,
    PAUSE,
    RED,
    SMALL_CROSS,
    Glyph,
)
from kitlib.words.idempotence import records
from kitlib.words.template import phrase
from kitlib.words.word import Data, Domain, Rule, Word, rules

transaction_coordinator = rules("mechanisms.transactions.coordinator:TransactionCoordinator.")
transactional_producer = rules("mechanisms.transactions.producer:TransactionalProducer.")
group_offsets = rules("mechanisms.transactions.offsets:GroupOffsets.")
producer = rules("mechanisms.transactions.producer:")
unified_log = rules("mechanisms.broker.unified_log:UnifiedLog.")
append_checks = rules("mechanisms.broker.append_checks:")


@phrase
def _actor(data: Data) -> str:
    who = data["who"]
    return "The producer" if who == "producer" else who[:1].upper() + who[1:]


@phrase
def _records_begin(data: Data) -> str:
    return records(data).capitalize()


@phrase
def _tx(data: Data) -> str:
    return "outside any transaction" if data["tx"] is None else f"in transaction {data['tx']:d}"


@phrase
def _payer(data: Data) -> str:
    by = plain_text(data.get("by", ""), 20)
    return "the producer" if by == "producer" else by or "someone"


@phrase
def _way_out(data: Data) -> str:
    return WAYS_OUT.get((bool(data.get("fatal")), bool(data.get("must_abort"))), WAYS_OUT[True, False])


@phrase
def _outcome(state: str) -> str:
    return OUTCOMES.get(state, plain_text(state, 30))


WAYS_OUT = {
    (True, False): "this producer is finished; only a new one can continue",
    (False, True): "the transaction must be aborted first",
    (False, False): "the operation can be retried",
}


OUTCOMES = {
    "Empty": "has no transaction",
    "Ongoing": "has an open transaction",
    "PrepareCommit": "has decided to commit; the markers follow, and the decision is final",
    "PrepareAbort": "has decided to abort; the markers follow",
    "PrepareEpochFence": "bumps the epoch, which fences the old producer",
    "CompleteCommit": "has written all markers: the commit is complete",
    "CompleteAbort": "has written all markers: the abort is complete",
    "Dead": "is forgotten",
}


TRANSACTIONS = Domain(
    "transactions",
    {
        "open": Word(
            "[inputs>0?The topics exist, with {inputs:,} input records|The topic exists and is empty].", "", "inputs", judged="open",
            room=0.25,
        ),
        "id": Word(
            "{actor()} starts as {transactional_id:40} and gets producer id {pid:d}, epoch {epoch:d}; any earlier producer with that id "
            "is fenced.", "epoch pid transactional_id",
            rule=transaction_coordinator(
                "init_producer_id", "A producer that starts with a transactional.id bumps its epoch, which fences any earlier one."
            ),
        ),
        "begin": Word(
            "{actor()} begins transaction {tx:d}; so far no one else knows.", "tx", about="transaction:tx",
            rule=transactional_producer("begin", "Beginning a transaction sends nothing."),
        ),
        "join": Word(
            "{actor()} is now a member of its group, generation {generation:d}; its offset commits will carry that number.", "generation",
            "group",
        ),
        "send": Word(
            "{actor()} sends {records()} {tx()}.[held? The network holds the request back.]", "tx:whole?", "first held last",
            judged="send", about="transaction:tx",
            rule=transactional_producer("send", "A partition joins the transaction before the first batch is sent to it."),
        ),
        "send_offsets": Word(
            "{actor()} adds input offset {offset:d} of its group to transaction {tx:d}.", "offset tx", "group", about="transaction:tx",
            rule=group_offsets("commit_transactional", "The group's offsets join the transaction and count when it commits."),
        ),
        "commit_tx": Word(
            "{actor()} is notified: transaction {tx:d} is committed.", "tx", judged="commit_tx",
            glyph=Glyph("the producer learns: committed", CHECK, BLUE, 2.6), about="transaction:tx",
            rule=transaction_coordinator("end_transaction", "Once the coordinator has decided, the outcome is final; the markers follow."),
        ),
        "abort_tx": Word(
            "{actor()} is notified: transaction {tx:d} is aborted.", "tx", judged="abort_tx",
            glyph=Glyph("the producer learns: aborted", SMALL_CROSS, "ink", 2.2), about="transaction:tx",
            rule=transaction_coordinator("end_transaction", "Once the coordinator has decided, the outcome is final; the markers follow."),
        ),
        "fenced": Word(
            "{actor()} is fenced[tried=commit_tx? when it tries to commit|tried=abort_tx? when it tries to abort]: {error:50}. Its "
            "transactional id has a newer epoch.", "", "error fatal must_abort tried tx",
            glyph=Glyph("is fenced", CROSSED_SQUARE, RED, 1.8, "paper"), about="transaction:tx",
            rule=producer("meaning_of", "A newer epoch of the same transactional.id fences the producer."),
        ),
        "unknown": Word(
            "{actor()} gets {error:50}[tried=commit_tx? in answer to its commit|tried=abort_tx? in answer to its abort]: {way_out()}.", "",
            "error fatal must_abort tried tx:whole?", glyph=Glyph("gets an error", ALARM, RED, 1.8, "paper"), about="transaction:tx",
            rule=producer("meaning_of", "Each error says whether to retry, to abort or to give up."),
        ),
        "lose_request": Word(
            "The network loses request {request:d} of {by} ({api}): the broker never sees it.", "request api by",
            glyph=Glyph("a request is lost", CROSSED_SQUARE, RED, 1.6, "paper"), about="process:by request:request",
        ),
        "lose_answer": Word(
            "The network loses the answer to request {request:d} of {by} ({api}): the broker has done it, and its producer does not know.",
            "request api by", glyph=Glyph("an answer is lost", CROSSED_SQUARE, RED, 1.6, "paper"),
            about="process:by request:request answer:request",
        ),
        "duplicate_request": Word(
            "The network delivers request {request:d} of {by} ({api}) twice.", "request api by", about="process:by request:request",
        ),
        "delay": Word(
            "The network holds back [message=answer?the answer to ]request {request:d} of {by} ({api}) for {ms:,} ms.",
            "request api by message ms", about="process:by request:request",
        ),
        "down": Word(
            "The broker goes down, and with it the coordinator. Its connections end, and no one answers until it is back.", judged="down"
        ),
        "restart": Word("The broker is back with its log and the coordinator's.", judged="restart"),
        "kill": Word("{actor()} is killed; its transaction, if any, stays open.", glyph=IS_KILLED),
        "freeze": Word("{actor()} is paused, as by a long garbage collection.", glyph=Glyph("paused", PAUSE, "ink", 2.6)),
        "thaw": Word("{actor()} resumes, unaware that it was paused.", glyph=GOES_ON),
        "transition": Word(
            "The coordinator: {transactional_id:40}, producer id {pid:d}, epoch {epoch:d}, {to:outcome()}[ ({why:80})].",
            "epoch pid to:text transactional_id", "why",
            rule=Rule(
                "A transaction moves only between the states that its table allows.",
                "mechanisms.transactions.metadata:TransactionMetadata.move_to",
            ),
        ),
        "write": Word(
            "{records_begin()} [first=@last?is|are] written from offset {offset:d} {tx()}[tx?; only a marker will decide whether they "
            "count].", "first last offset pid tx:whole?", "epoch", judged="write", about="transaction:tx record:offset+first-last",
            rule=unified_log("append", "A transaction's records are in the log at once; its marker decides whether they count."),
        ),
        "marker": Word(
            "Offset {offset:d} is [kind=ABORT?an|a] {kind:10} marker for producer id {pid:d}, epoch {epoch:d}: what it wrote since its "
            "previous marker [kind=COMMIT?counts|does not count].", "epoch kind offset pid", judged="marker", about="marker:offset",
            rule=unified_log("append_marker", "A marker ends the producer's open transaction in this partition."),
        ),
        "refuse": Word(
            "The broker refuses[first? {records()}]: {error:50}.", "", "error first last tx",
            glyph=Glyph("refused by the broker", CROSSED_SQUARE, RED, 1.6, "paper"), about="transaction:tx",
            rule=append_checks(
                "check_transaction", "The leader refuses a batch with an old epoch, or one that belongs to no open transaction."
            ),
        ),
        "read": Word(
            "The {who:20} reader receives record {record} at offset {offset:d} ({tx()}).", "offset record tx:whole?", judged="read",
            room=0.25, about="transaction:tx record:offset",
            rule=Rule(
                "read_committed reads up to the last stable offset and leaves out what was aborted.",
                "mechanisms.transactions.reader:Reader.poll",
            ),
        ),
        "waits": Word(
            "The {who:20} reader waits at offset {at:d}, the last stable offset, although the log goes on: a transaction is open there.",
            "at", "high_watermark", judged="waits",
            rule=Rule(
                "The last stable offset is where the oldest open transaction begins.", "mechanisms.transactions.reader:last_stable_offset"
            ),
        ),
        "commit": Word(
            "The {who:20} reader's group commits offset {offset:d}[lag?; the log ends at {end:d}, so the lag is {lag:d}].", "end offset",
            "lag",
        ),
        "end": Word("The {who:20} reader ends at offset {position:d}.", "position", judged="end", room=0.25),
        "release": Word(
            "The messages that were held back arrive now.",
            glyph=Glyph("arrives after all", "M-6 0H4M0.5 -3.5L4.5 0L0.5 3.5", "ink", 1.8),
        ),
        "late_marker": Word(
            "[kind=ABORT?An|A] {kind:10} marker for producer id {pid:d}, epoch {epoch:d} arrives late[error?: refused, {error:50}|, and "
            "the log accepts it].", "epoch kind pid", "error version", glyph=Glyph("a late marker", DIAMOND, "ink", 1.6, "paper"),
            rule=append_checks("check_marker", "A marker is accepted unless its epoch is old."),
        ),
        "effect": Word(
            "Outside Kafka, [charged?{payer()} charges for record {record}: no abort can undo that|record {record} has already been "
            "charged: its key is known, so {payer()} charges nothing].", "charged record", "by", judged="effect", about="record:record",
        ),
        "commit_offsets": Word(
            "{actor()} commits input offset {offset:d} outside any transaction[error?: refused, {error:50}].", "offset", "error group",
            rule=group_offsets("commit", "A group's offsets outside a transaction count at once."),
        ),
    },
    marks={
        "lose_request": "request lost", "lose_answer": "answer lost", "duplicate_request": "sent twice", "down": "crash",
        "restart": "restart",
        "kill": "crash", "fenced": "fenced", "freeze": "frozen", "thaw": "resumes", "refuse": "refused", "unknown": "error",
        "late_marker": "late marker", "release": "arrives late",
        "transition": lambda data: "time-out" if "timeout" in data.get("why", "") else "",
    },
    within={"record": "transaction"},
)
