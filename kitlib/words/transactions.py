"""Words of a transaction's run: what producers, the coordinator, the broker, readers and a database say."""

from __future__ import annotations

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
from kitlib.words.word import Data, Domain, Word


def _who(who: str) -> str:
    return "The producer" if who == "producer" else who[:1].upper() + who[1:]


def _reader(who: str) -> str:
    return f"The {who} reader"


def _tx(data: Data) -> str:
    return "outside of any transaction" if data["tx"] is None else f"in transaction {data['tx']:d}"


def _identity(data: Data) -> str:
    return f"producer id {data['pid']:d}, epoch {data['epoch']:d}"


def _failed(data: Data) -> str:
    error = str(data.get("error") or "NONE")
    return "" if error == "NONE" else error


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _a(kind: object) -> str:
    return f"{'an' if kind == 'ABORT' else 'a'} {kind}"


def _id(who: str, data: Data) -> str:
    name = str(data["transactional_id"])
    return f"{_who(who)} starts as {name} and gets {_identity(data)}; whoever had the id before is fenced."


def _send(who: str, data: Data) -> str:
    held = " It is held back on its way." if data.get("held") else ""
    return f"{_who(who)} sends {records(data)} {_tx(data)}.{held}"


WAYS_OUT = {
    (True, False): "this producer is finished; only a new one can go on",
    (False, True): "the transaction must be aborted before anything else",
    (False, False): "it may be tried again",
}


def _unknown(who: str, data: Data) -> str:
    tried = {"commit_tx": " its commit", "abort_tx": " its abort"}.get(str(data.get("tried", "")), "")
    way = WAYS_OUT.get((bool(data.get("fatal")), bool(data.get("must_abort"))), WAYS_OUT[True, False])
    return f"{_who(who)} hears {_failed(data)}{f' to{tried}' if tried else ''}: {way}."


def _fenced(who: str, data: Data) -> str:
    tried = {"commit_tx": " when it wants to commit", "abort_tx": " when it wants to abort"}
    return f"{_who(who)} is fenced{tried.get(str(data.get('tried', '')), '')}: {_failed(data)}. A newer epoch of its id is known."


TO = {
    "Empty": "has no transaction",
    "Ongoing": "has an open transaction",
    "PrepareCommit": "has decided to commit; the markers follow, and nothing can change it any more",
    "PrepareAbort": "has decided to abort; the markers follow",
    "PrepareEpochFence": "raises the epoch, so that the old producer is fenced",
    "CompleteCommit": "has written all markers: the commit is complete",
    "CompleteAbort": "has written all markers: the abort is complete",
    "Dead": "is forgotten",
}


def _transition(who: str, data: Data) -> str:
    to, why = str(data["to"]), str(data.get("why", ""))
    told = TO.get(to, to)
    tail = f" ({why})" if why else ""
    name = str(data["transactional_id"])
    return f"The coordinator: {name}, {_identity(data)}, {told}{tail}."


def _write(who: str, data: Data) -> str:
    seen = "" if data["tx"] is None else "; only a marker will say what they are worth"
    is_one = data["first"] == data["last"]
    told = f"{_capital(records(data))} {'is' if is_one else 'are'} written from offset {data['offset']:d} {_tx(data)}"
    return f"{told}{seen}."


def _marker(who: str, data: Data) -> str:
    ends = {
        "COMMIT": "what it wrote since its last marker counts",
        "ABORT": "what it wrote since its last marker does not count",
    }
    return f"Offset {data['offset']:d} is {_a(data['kind'])} marker for {_identity(data)}: {ends[data['kind']]}."


def _refuse(who: str, data: Data) -> str:
    what = f" {records(data)}" if "first" in data else ""
    return f"The broker refuses{what}: {_failed(data)}."


def _read(who: str, data: Data) -> str:
    return (
        f"{_reader(who)} is given record {data['record']} at offset {data['offset']:d} ({_tx(data)})."
    )


def _waits(who: str, data: Data) -> str:
    return f"{_reader(who)} waits at offset {data['at']:d}, the last stable one, though the log goes on: a transaction is open there."


def _commit(who: str, data: Data) -> str:
    lag = data.get("lag")
    tail = f"; the log ends at {data['end']:d}, so the lag is {lag:d}" if isinstance(lag, int) else ""
    return f"{_reader(who)}'s group commits offset {data['offset']:d}{tail}."


def _late_marker(who: str, data: Data) -> str:
    told = f"{_capital(_a(data['kind']))} marker for {_identity(data)} arrives late"
    return f"{told}: refused, {_failed(data)}." if _failed(data) else f"{told}, and the log takes it."


def _effect(who: str, data: Data) -> str:
    by = str(data.get("by", ""))
    who_did = "the producer" if by == "producer" else by or "somebody"
    if data["charged"]:
        return (
            f"Outside of Kafka {who_did} charges for record {data['record']}: no abort takes that back."
        )
    told = f"Outside of Kafka record {data['record']} was charged already"
    return f"{told}: its key is known, so {who_did} charges nothing."


def _commit_offsets(who: str, data: Data) -> str:
    told = f"{_who(who)} commits input offset {data['offset']:d} outside of any transaction"
    return f"{told}: refused, {_failed(data)}." if _failed(data) else f"{told}."


TRANSACTIONS = Domain(
    "transactions",
    {
        "open": Word(
            lambda who, data: (
                f"The topics are there, and {data['inputs']:,} input records."
                if data.get("inputs")
                else "The topic is there, and empty."
            ),
            "",
            "inputs",
            judged="open",
            room=0.25,
        ),
        "id": Word(_id, "epoch pid transactional_id"),
        "begin": Word(
            lambda who, data: f"{_who(who)} begins transaction {data['tx']:d}; so far nobody else knows.", "tx"
        ),
        "join": Word(
            lambda who, data: (
                f"{_who(who)} is a member of its group now, generation {data['generation']:d}; its offsets will carry that number."
            ),
            "generation",
            "group",
        ),
        "send": Word(_send, "tx", "first held last", judged="send"),
        "send_offsets": Word(
            lambda who, data: (
                f"{_who(who)} puts input offset {data['offset']:d} of its group into transaction {data['tx']:d}."
            ),
            "offset tx",
            "group",
        ),
        "commit_tx": Word(
            lambda who, data: f"{_who(who)} is told: transaction {data['tx']:d} is committed.",
            "tx",
            judged="commit_tx",
            glyph=Glyph("the producer is told: committed", CHECK, BLUE, 2.6),
        ),
        "abort_tx": Word(
            lambda who, data: f"{_who(who)} is told: transaction {data['tx']:d} is aborted.",
            "tx",
            judged="abort_tx",
            glyph=Glyph("the producer is told: aborted", SMALL_CROSS, "ink", 2.2),
        ),
        "fenced": Word(
            _fenced, "", "error fatal must_abort tried tx", glyph=Glyph("is fenced", CROSSED_SQUARE, RED, 1.8, "paper")
        ),
        "unknown": Word(
            _unknown, "", "error fatal must_abort tried tx", glyph=Glyph("hears an error", ALARM, RED, 1.8, "paper")
        ),
        "kill": Word(
            lambda who, data: f"{_who(who)} is killed; its transaction, if it has one, stays open.", glyph=IS_KILLED
        ),
        "freeze": Word(
            lambda who, data: f"{_who(who)} stands still, as in a long pause of its garbage collector.",
            glyph=Glyph("stands still", PAUSE, "ink", 2.6),
        ),
        "thaw": Word(lambda who, data: f"{_who(who)} goes on, and does not know that it stood still.", glyph=GOES_ON),
        "transition": Word(_transition, "epoch pid to transactional_id", "why"),
        "write": Word(_write, "first last offset pid tx", "epoch", judged="write"),
        "marker": Word(_marker, "epoch kind offset pid", judged="marker"),
        "refuse": Word(
            _refuse, "", "error first last tx", glyph=Glyph("refused by the broker", CROSSED_SQUARE, RED, 1.6, "paper")
        ),
        "read": Word(_read, "offset record tx", judged="read", room=0.25),
        "waits": Word(_waits, "at", "high_watermark", judged="waits"),
        "commit": Word(_commit, "end offset", "lag"),
        "end": Word(
            lambda who, data: f"{_reader(who)} stands at offset {data['position']:d} in the end.",
            "position",
            judged="end",
            room=0.25,
        ),
        "release": Word(
            "What was held back arrives now.",
            glyph=Glyph("arrives after all", "M-6 0H4M0.5 -3.5L4.5 0L0.5 3.5", "ink", 1.8),
        ),
        "late_marker": Word(
            _late_marker, "epoch kind pid", "error version", glyph=Glyph("a late marker", DIAMOND, "ink", 1.6, "paper")
        ),
        "effect": Word(_effect, "charged record", "by", judged="effect"),
        "commit_offsets": Word(_commit_offsets, "offset", "error group"),
    },
)
