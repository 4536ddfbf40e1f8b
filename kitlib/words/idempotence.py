"""Words of a producer's run: what producers, the network and the broker do with batches."""

from __future__ import annotations

import re

from kitlib.text import plain_text
from kitlib.words.word import Data, Domain, Rule, Word

SIDE = re.compile(r"producer( \d+)?|network|broker")


def is_side(actor: str) -> bool:
    """Whether this is who acts in a producer's run."""
    return SIDE.fullmatch(actor) is not None


def records(data: Data) -> str:
    """`record 4`, or `records 0-4`."""
    first, last = data["first"], data["last"]
    return f"record {first:d}" if first == last else f"records {first:d}-{last:d}"


def batch(data: Data) -> str:
    """`Batch 0 (records 0-4, sequence 0)`."""
    told = [records(data)] if "first" in data else []
    seq = data.get("seq")
    told += ["no sequence number" if seq == -1 else f"sequence {seq:d}"] if seq is not None else []
    return f"Batch {data['batch']:d}" + (f" ({', '.join(told)})" if told else "")


def _small(data: Data) -> str:
    """The same within a sentence."""
    told = batch(data)
    return told[0].lower() + told[1:]


def error_name(data: Data) -> str:
    return plain_text(data["error"], 50)


def _who(who: str) -> str:
    return "The producer" if who == "producer" else who.capitalize() if is_side(who) else who


def _send(who: str, data: Data) -> str:
    to = "the producer" if who == "producer" else who
    return f"The application passes {records(data)} to {to}: batch {data['batch']:d} waits in the accumulator."


def _request(who: str, data: Data) -> str:
    before = data.get("attempt", 0)  # the attempts before this one
    again = f" again, attempt {before + 1:d}" if before > 0 else ""
    tail = ""
    if data.get("seq", -1) >= 0:
        tail = f", with producer id {data['pid']:d}, epoch {data['epoch']:d}"
    return f"{_who(who)} sends {_small(data)}{again}: request {data['request']:d}{tail}."


def _answer(who: str, data: Data) -> str:
    if data["error"] != "NONE":
        return f"The answer to batch {data['batch']:d} arrives: {error_name(data)}."
    offset = data.get("offset", -1)
    at = f"stored from offset {offset:d}" if offset >= 0 else "stored"
    return f"The answer to batch {data['batch']:d} arrives: {at}."


def _no_answer(who: str, data: Data) -> str:
    why = plain_text(data.get("why", ""), 80)
    tail = f" ({why})" if why else ""
    return (
        f"{_who(who)} stops waiting for the answer to batch {data['batch']:d}{tail}: was it stored? It cannot know."
    )


def _requeue(who: str, data: Data) -> str:
    return f"{batch(data)} goes back into the queue for a retry."


def _delivered(who: str, data: Data) -> str:
    offset = data.get("offset", -1)
    at = f"stored from offset {offset:d}" if offset >= 0 else "sent, and no answer will say whether they were stored"
    return f"The application is notified: {records(data)} (batch {data['batch']:d}) {_are(data)} {at}."


def _are(data: Data) -> str:
    return "is" if data["first"] == data["last"] else "are"


def _undelivered(who: str, data: Data) -> str:
    return f"The application is notified: {records(data)} (batch {data['batch']:d}) failed with {error_name(data)}."


def _id(who: str, data: Data) -> str:
    pid, epoch = data["pid"], data["epoch"]
    if pid < 0:
        return f"{_who(who)} has no producer id: {data.get('why', '')}."
    told = f"producer id {pid:d}, epoch {epoch:d}"
    ways = {
        "init": f"{_who(who)} gets {told}; its sequence numbers start at 0.",
        "bump": f"{_who(who)} bumps its epoch: {told}; sequence numbers restart at 0.",
        "reset": f"{_who(who)} starts over with {told}: the broker knows nothing about it yet.",
    }
    return ways.get(str(data.get("why")), f"{_who(who)} continues with {told} ({data.get('why', '')}).")


def _write(who: str, data: Data) -> str:
    copy = data.get("copy", 1)
    if copy > 1:
        ordinal = {2: "a second", 3: "a third"}.get(copy, f"a {copy:d}th")
        return f"{batch(data)} is written again, from offset {data['offset']:d}: {ordinal} copy in the log."
    late = " It lands after records that were sent later." if data.get("is_late") else ""
    return f"{batch(data)} arrives and is written from offset {data['offset']:d}.{late}"


def _recognise(who: str, data: Data) -> str:
    times = data.get("arrival", 2)
    again = {2: "a second time", 3: "a third time"}.get(times, "once more")
    return f"{batch(data)} arrives {again}: the broker still remembers it and answers with offset {data['offset']:d} again."


REFUSALS = {
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "not the next sequence number",
    "DUPLICATE_SEQUENCE_NUMBER": "older than the batches it remembers",
    "INVALID_PRODUCER_EPOCH": "it knows a newer epoch",
    "UNKNOWN_PRODUCER_ID": "it does not know the producer id",
    "MESSAGE_TOO_LARGE": "larger than allowed",
    "NOT_LEADER_OR_FOLLOWER": "another broker is the leader now",
}


def _refuse(who: str, data: Data) -> str:
    why = REFUSALS.get(str(data["error"]))
    told = f"{error_name(data)}, {why}" if why else error_name(data)
    return (
        f"The broker refuses batch {data['batch']:d} (sequence {data['seq']:d}): {told}."
        if data.get("seq", -1) >= 0
        else (f"The broker refuses {_small(data)}: {told}.")
    )


def _restart(who: str, data: Data) -> str:
    how = data.get("how")
    begin = {
        "kill": "The broker is killed and restarts",
        "clean": "The broker is shut down cleanly and restarts",
        "up": "The broker is back up",
    }.get(str(how), f"The broker restarts ({plain_text(how, 40)})")
    return f"{begin}: it remembers only the last batch of each producer."


def _read(who: str, data: Data) -> str:
    number = sum(last - first + 1 for first, last in data["records"])
    return f"The topic is read back: {number:,} record{'' if number == 1 else 's'} starting at offset {data['first_offset']:d}."


def _delay(who: str, data: Data) -> str:
    ms = f" for {data['ms']:,} ms" if "ms" in data else ""
    return f"The network holds back a message of batch {data['batch']:d}{ms}."


IDEMPOTENCE = Domain(
    "idempotence",
    {
        "send": Word(
            _send, "first last", "batch", judged="send",
            about="process:=application batch:batch record:first-last",
            rule=Rule(
                "A record joins the newest batch of its partition, or opens a new one.",
                "mechanisms.producer.accumulator:RecordAccumulator.append",
            ),
        ),
        "request": Word(
            _request, "request", "attempt batch epoch first last pid seq", judged="request",
            about="batch:batch request:request record:first-last",
            rule=Rule(
                "max.in.flight.requests.per.connection limits how many requests may wait for an answer.",
                "mechanisms.producer.sender:Sender._send_producer_data",
            ),
        ),
        "answer": Word(
            _answer, "error", "batch offset request", judged="answer",
            about="batch:batch request:request answer:request",
            rule=Rule(
                "An answer completes its batch, or puts it back into the queue.",
                "mechanisms.producer.sender:Sender._complete",
            ),
        ),
        "no_answer": Word(
            _no_answer, "batch", "request why",
            about="batch:batch request:request answer:request",
            rule=Rule(
                "When the connection is lost or request.timeout.ms is over, all its requests count as unanswered.",
                "mechanisms.producer.sender:Sender._lose_requests",
            ),
        ),
        "requeue": Word(
            _requeue, "batch", "attempt first last",
            about="batch:batch record:first-last",
            rule=Rule(
                "A retriable error, and time left within delivery.timeout.ms: the batch is sent again.",
                "mechanisms.producer.sender:Sender._can_retry",
            ),
        ),
        "delivered": Word(
            _delivered, "batch first last", "offset", judged="delivered",
            about="process:=application batch:batch record:first-last",
            rule=Rule(
                "A batch that the leader has stored is reported as delivered.",
                "mechanisms.producer.sender:Sender._succeed",
            ),
        ),
        "undelivered": Word(
            _undelivered, "batch error first last", judged="undelivered",
            about="process:=application batch:batch record:first-last",
            rule=Rule("A batch that may not be retried is reported as failed.", "mechanisms.producer.sender:Sender._fail"),
        ),
        "id": Word(
            _id, "epoch pid", "why",
            rule=Rule(
                "A producer id and an epoch identify an idempotent producer; a bumped epoch restarts its sequence numbers.",
                "mechanisms.producer.transaction_manager:TransactionManager.receive_id",
            ),
        ),
        "refuse_to_start": Word(
            lambda who, data: f"{_who(who)} refuses to start: {data['error']}", "error",
            rule=Rule(
                "Settings that contradict idempotence stop the client from starting.",
                "more.client.refusals:check",
            ),
        ),
        "lose_request": Word(
            "Request {request:d} with batch {batch:d} is lost: the broker never sees it.", "request", "batch deed",
            about="batch:batch request:request",
        ),
        "lose_answer": Word(
            "The answer to batch {batch:d} is lost: the batch is stored, but the producer does not know.",
            "",
            "batch deed request",
            about="batch:batch request:request answer:request",
        ),
        "duplicate_request": Word(
            "The network delivers request {request:d} twice.", "request", "batch deed",
            about="batch:batch request:request",
        ),
        "delay": Word(
            _delay, "", "batch deed ms request",
            about="batch:batch request:request",
        ),
        "cut": Word("The connection is cut: everything in flight is lost.", "", "deed request"),
        "differs": Word(
            "The broker and the model disagree: {from_the_model}.", "from_the_model", "batch request",
            about="batch:batch request:request",
        ),
        # of clients that were observed on a real broker
        "client": Word("The client observed here is {who} {version}.", "version"),
        "withhold": Word("The network withholds {answers} answers.", "answers", "deed request"),
        "batches": Word("The topic's batches are read back, with their producer ids, epochs and sequence numbers.", "batches columns"),
        "write": Word(
            _write, "batch offset", "copy epoch first is_late last pid request seq", judged="write",
            about="batch:batch request:request answer:request record:first-last",
            rule=Rule(
                "The leader appends a batch whose sequence number follows the last one.",
                "mechanisms.broker.producer_state:ProducerStateManager.check",
            ),
        ),
        "recognise": Word(
            _recognise, "batch offset", "arrival epoch first last pid request seq",
            about="batch:batch request:request answer:request record:first-last",
            rule=Rule(
                "The leader remembers the last five batches of each producer and does not write them again.",
                "mechanisms.broker.producer_state:ProducerStateManager.find_duplicate",
            ),
        ),
        "refuse": Word(
            _refuse, "batch error", "epoch first last pid request seq",
            about="batch:batch request:request answer:request record:first-last",
            rule=Rule(
                "The leader refuses a batch whose epoch is old or whose sequence number does not follow.",
                "mechanisms.broker.producer_state:ProducerStateManager.check",
            ),
        ),
        "down": Word("The broker goes down. Its connections end, and it answers no one until it is back."),
        "restart": Word(
            _restart, "", "how", judged="restart",
            rule=Rule(
                "After an unclean restart the leader rebuilds what it knows of producers from its log and its last snapshot.",
                "mechanisms.broker.unified_log:UnifiedLog.restart",
            ),
        ),
        "expire": Word(
            "The broker has not heard from producer id {pid:d} for too long and forgets it.", "pid", judged="expire",
            rule=Rule(
                "producer.id.expiration.ms: a producer that is silent for so long is forgotten.",
                "mechanisms.broker.producer_state:ProducerStateManager.remove_expired",
            ),
        ),
        "delete": Word(
            "Retention deletes the start of the log: it now begins at offset {to:d}.", "to", judged="delete",
            rule=Rule(
                "What the leader knows of a producer goes with its last batch.",
                "mechanisms.broker.producer_state:ProducerStateManager.log_start_moved",
            ),
        ),
        "fail_over": Word(
            "Another broker becomes the leader; it knows only the batches it had replicated.", judged="fail_over",
            rule=Rule(
                "A new leader knows the producers whose batches it has replicated.",
                "mechanisms.broker.unified_log:UnifiedLog.fail_over",
            ),
        ),
        "read": Word(_read, "first_offset records:ranges", judged="read"),
    },
    marks={
        "down": "crash", "restart": "restart", "lose_request": "request lost", "lose_answer": "answer lost",
        "duplicate_request": "sent twice",
        "cut": "cut", "expire": "id expires", "refuse": "refused", "delete": "log start moves", "fail_over": "new leader",
        "undelivered": lambda data: "time-out" if "Timeout" in str(data["error"]) else "fails", "differs": "disagree",
    },
    within={"record": "batch"},
)
