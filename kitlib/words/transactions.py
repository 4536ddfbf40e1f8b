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
from kitlib.words.word import Data, Domain, Rule, Word


def _who(who: str) -> str:
    return "The producer" if who == "producer" else who[:1].upper() + who[1:]


def _reader(who: str) -> str:
    return f"The {plain_text(who, 20)} reader"


def _tx(data: Data) -> str:
    return "outside any transaction" if data["tx"] is None else f"in transaction {data['tx']:d}"


def _identity(data: Data) -> str:
    return f"producer id {data['pid']:d}, epoch {data['epoch']:d}"


def _failed(data: Data) -> str:
    error = str(data.get("error") or "NONE")
    return "" if error == "NONE" else plain_text(error, 50)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _a(kind: object) -> str:
    return f"{'an' if kind == 'ABORT' else 'a'} {plain_text(kind, 10)}"


def _id(who: str, data: Data) -> str:
    name = plain_text(data["transactional_id"], 40)
    return f"{_who(who)} starts as {name} and gets {_identity(data)}; any earlier producer with that id is fenced."


def _send(who: str, data: Data) -> str:
    held = " The network holds the request back." if data.get("held") else ""
    return f"{_who(who)} sends {records(data)} {_tx(data)}.{held}"


WAYS_OUT = {
    (True, False): "this producer is finished; only a new one can continue",
    (False, True): "the transaction must be aborted first",
    (False, False): "the operation can be retried",
}


def _unknown(who: str, data: Data) -> str:
    tried = {"commit_tx": " in answer to its commit", "abort_tx": " in answer to its abort"}.get(str(data.get("tried", "")), "")
    way = WAYS_OUT.get((bool(data.get("fatal")), bool(data.get("must_abort"))), WAYS_OUT[True, False])
    return f"{_who(who)} gets {_failed(data)}{tried}: {way}."


def _fenced(who: str, data: Data) -> str:
    tried = {"commit_tx": " when it tries to commit", "abort_tx": " when it tries to abort"}
    return f"{_who(who)} is fenced{tried.get(str(data.get('tried', '')), '')}: {_failed(data)}. Its transactional id has a newer epoch."


TO = {
    "Empty": "has no transaction",
    "Ongoing": "has an open transaction",
    "PrepareCommit": "has decided to commit; the markers follow, and the decision is final",
    "PrepareAbort": "has decided to abort; the markers follow",
    "PrepareEpochFence": "bumps the epoch, which fences the old producer",
    "CompleteCommit": "has written all markers: the commit is complete",
    "CompleteAbort": "has written all markers: the abort is complete",
    "Dead": "is forgotten",
}


def _transition(who: str, data: Data) -> str:
    to, why = str(data["to"]), plain_text(data.get("why", ""), 80)
    told = TO.get(to, plain_text(to, 30))
    tail = f" ({why})" if why else ""
    name = plain_text(data["transactional_id"], 40)
    return f"The coordinator: {name}, {_identity(data)}, {told}{tail}."


def _write(who: str, data: Data) -> str:
    seen = "" if data["tx"] is None else "; only a marker will decide whether they count"
    is_one = data["first"] == data["last"]
    told = f"{_capital(records(data))} {'is' if is_one else 'are'} written from offset {data['offset']:d} {_tx(data)}"
    return f"{told}{seen}."


def _marker(who: str, data: Data) -> str:
    ends = {
        "COMMIT": "what it wrote since its previous marker counts",
        "ABORT": "what it wrote since its previous marker does not count",
    }
    return f"Offset {data['offset']:d} is {_a(data['kind'])} marker for {_identity(data)}: {ends[data['kind']]}."


def _refuse(who: str, data: Data) -> str:
    what = f" {records(data)}" if "first" in data else ""
    return f"The broker refuses{what}: {_failed(data)}."


def _read(who: str, data: Data) -> str:
    return (
        f"{_reader(who)} receives record {data['record']} at offset {data['offset']:d} ({_tx(data)})."
    )


def _waits(who: str, data: Data) -> str:
    return f"{_reader(who)} waits at offset {data['at']:d}, the last stable offset, although the log goes on: a transaction is open there."


def _commit(who: str, data: Data) -> str:
    lag = data.get("lag")
    tail = f"; the log ends at {data['end']:d}, so the lag is {lag:d}" if isinstance(lag, int) else ""
    return f"{_reader(who)}'s group commits offset {data['offset']:d}{tail}."


def _late_marker(who: str, data: Data) -> str:
    told = f"{_capital(_a(data['kind']))} marker for {_identity(data)} arrives late"
    return f"{told}: refused, {_failed(data)}." if _failed(data) else f"{told}, and the log accepts it."


def _effect(who: str, data: Data) -> str:
    by = plain_text(data.get("by", ""), 20)
    who_did = "the producer" if by == "producer" else by or "someone"
    if data["charged"]:
        return (
            f"Outside Kafka, {who_did} charges for record {data['record']}: no abort can undo that."
        )
    told = f"Outside Kafka, record {data['record']} has already been charged"
    return f"{told}: its key is known, so {who_did} charges nothing."


def _commit_offsets(who: str, data: Data) -> str:
    told = f"{_who(who)} commits input offset {data['offset']:d} outside any transaction"
    return f"{told}: refused, {_failed(data)}." if _failed(data) else f"{told}."


def _message(data: Data) -> str:
    return f"request {data['request']:d} of {data['by']} ({data['api']})"


TRANSACTIONS = Domain(
    "transactions",
    {
        "open": Word(
            lambda who, data: (
                f"The topics exist, with {data['inputs']:,} input records."
                if data.get("inputs")
                else "The topic exists and is empty."
            ),
            "",
            "inputs",
            judged="open",
            room=0.25,
        ),
        "id": Word(
            _id, "epoch pid transactional_id",
            rule=Rule(
                "A producer that starts with a transactional.id bumps its epoch, which fences any earlier one.",
                "mechanisms.transactions.coordinator:TransactionCoordinator.init_producer_id",
            ),
        ),
        "begin": Word(
            lambda who, data: f"{_who(who)} begins transaction {data['tx']:d}; so far no one else knows.", "tx",
            about="transaction:tx",
            rule=Rule(
                "Beginning a transaction sends nothing.",
                "mechanisms.transactions.producer:TransactionalProducer.begin",
            ),
        ),
        "join": Word(
            lambda who, data: (
                f"{_who(who)} is now a member of its group, generation {data['generation']:d}; its offset commits will carry that number."
            ),
            "generation",
            "group",
        ),
        "send": Word(
            _send, "tx:whole?", "first held last", judged="send",
            about="transaction:tx",
            rule=Rule(
                "A partition joins the transaction before the first batch is sent to it.",
                "mechanisms.transactions.producer:TransactionalProducer.send",
            ),
        ),
        "send_offsets": Word(
            lambda who, data: (
                f"{_who(who)} adds input offset {data['offset']:d} of its group to transaction {data['tx']:d}."
            ),
            "offset tx",
            "group",
            about="transaction:tx",
            rule=Rule(
                "The group's offsets join the transaction and count when it commits.",
                "mechanisms.transactions.offsets:GroupOffsets.commit_transactional",
            ),
        ),
        "commit_tx": Word(
            lambda who, data: f"{_who(who)} is notified: transaction {data['tx']:d} is committed.",
            "tx",
            judged="commit_tx",
            glyph=Glyph("the producer learns: committed", CHECK, BLUE, 2.6),
            about="transaction:tx",
            rule=Rule(
                "Once the coordinator has decided, the outcome is final; the markers follow.",
                "mechanisms.transactions.coordinator:TransactionCoordinator.end_transaction",
            ),
        ),
        "abort_tx": Word(
            lambda who, data: f"{_who(who)} is notified: transaction {data['tx']:d} is aborted.",
            "tx",
            judged="abort_tx",
            glyph=Glyph("the producer learns: aborted", SMALL_CROSS, "ink", 2.2),
            about="transaction:tx",
            rule=Rule(
                "Once the coordinator has decided, the outcome is final; the markers follow.",
                "mechanisms.transactions.coordinator:TransactionCoordinator.end_transaction",
            ),
        ),
        "fenced": Word(
            _fenced, "", "error fatal must_abort tried tx", glyph=Glyph("is fenced", CROSSED_SQUARE, RED, 1.8, "paper"),
            about="transaction:tx",
            rule=Rule(
                "A newer epoch of the same transactional.id fences the producer.",
                "mechanisms.transactions.producer:meaning_of",
            ),
        ),
        "unknown": Word(
            _unknown, "", "error fatal must_abort tried tx:whole?", glyph=Glyph("gets an error", ALARM, RED, 1.8, "paper"),
            about="transaction:tx",
            rule=Rule(
                "Each error says whether to retry, to abort or to give up.",
                "mechanisms.transactions.producer:meaning_of",
            ),
        ),
        "lose_request": Word(
            lambda who, data: f"The network loses {_message(data)}: the broker never sees it.", "request api by",
            glyph=Glyph("a request is lost", CROSSED_SQUARE, RED, 1.6, "paper"), about="process:by request:request",
        ),
        "lose_answer": Word(
            lambda who, data: f"The network loses the answer to {_message(data)}: the broker has done it, and its producer does not know.",
            "request api by",
            glyph=Glyph("an answer is lost", CROSSED_SQUARE, RED, 1.6, "paper"), about="process:by request:request answer:request",
        ),
        "duplicate_request": Word(
            lambda who, data: f"The network delivers {_message(data)} twice.", "request api by", about="process:by request:request"
        ),
        "delay": Word(
            lambda who, data: (
                f"The network holds back {'the answer to ' if data['message'] == 'answer' else ''}{_message(data)} for {data['ms']:,} ms."
            ),
            "request api by message ms",
            about="process:by request:request",
        ),
        "down": Word(
            "The broker goes down, and with it the coordinator. Its connections end, and no one answers until it is back.", judged="down"
        ),
        "restart": Word("The broker is back with its log and the coordinator's.", judged="restart"),
        "kill": Word(
            lambda who, data: f"{_who(who)} is killed; its transaction, if any, stays open.", glyph=IS_KILLED
        ),
        "freeze": Word(
            lambda who, data: f"{_who(who)} is paused, as by a long garbage collection.",
            glyph=Glyph("paused", PAUSE, "ink", 2.6),
        ),
        "thaw": Word(lambda who, data: f"{_who(who)} resumes, unaware that it was paused.", glyph=GOES_ON),
        "transition": Word(
            _transition, "epoch pid to:text transactional_id", "why",
            rule=Rule(
                "A transaction moves only between the states that its table allows.",
                "mechanisms.transactions.metadata:TransactionMetadata.complete_transition_to",
            ),
        ),
        "write": Word(
            _write, "first last offset pid tx:whole?", "epoch", judged="write",
            about="transaction:tx record:offset+first-last",
            rule=Rule(
                "A transaction's records are in the log at once; its marker decides whether they count.",
                "mechanisms.broker.unified_log:UnifiedLog.append",
            ),
        ),
        "marker": Word(
            _marker, "epoch kind offset pid", judged="marker",
            about="marker:offset",
            rule=Rule(
                "A marker ends the producer's open transaction in this partition.",
                "mechanisms.broker.unified_log:UnifiedLog.append_marker",
            ),
        ),
        "refuse": Word(
            _refuse, "", "error first last tx", glyph=Glyph("refused by the broker", CROSSED_SQUARE, RED, 1.6, "paper"),
            about="transaction:tx",
            rule=Rule(
                "The leader refuses a batch with an old epoch, or one that belongs to no open transaction.",
                "mechanisms.broker.append_checks:check_transaction",
            ),
        ),
        "read": Word(
            _read, "offset record tx:whole?", judged="read", room=0.25,
            about="transaction:tx record:offset",
            rule=Rule(
                "read_committed reads up to the last stable offset and leaves out what was aborted.",
                "mechanisms.transactions.reader:Reader.poll",
            ),
        ),
        "waits": Word(
            _waits, "at", "high_watermark", judged="waits",
            rule=Rule(
                "The last stable offset is where the oldest open transaction begins.",
                "mechanisms.transactions.reader:last_stable_offset",
            ),
        ),
        "commit": Word(_commit, "end offset", "lag"),
        "end": Word(
            lambda who, data: f"{_reader(who)} ends at offset {data['position']:d}.",
            "position",
            judged="end",
            room=0.25,
        ),
        "release": Word(
            "The messages that were held back arrive now.",
            glyph=Glyph("arrives after all", "M-6 0H4M0.5 -3.5L4.5 0L0.5 3.5", "ink", 1.8),
        ),
        "late_marker": Word(
            _late_marker, "epoch kind pid", "error version", glyph=Glyph("a late marker", DIAMOND, "ink", 1.6, "paper"),
            rule=Rule("A marker is accepted unless its epoch is old.", "mechanisms.broker.append_checks:check_marker"),
        ),
        "effect": Word(
            _effect, "charged record", "by", judged="effect",
            about="record:record",
        ),
        "commit_offsets": Word(
            _commit_offsets, "offset", "error group",
            rule=Rule(
                "A group's offsets outside a transaction count at once.",
                "mechanisms.transactions.offsets:GroupOffsets.commit",
            ),
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
