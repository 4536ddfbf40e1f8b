"""Words of a producer's run: what producers, the network and the broker do with batches."""

from __future__ import annotations

import re

from kitlib.words.template import count, phrase
from kitlib.words.word import Data, Domain, Range, Rule, Word, rules

sender = rules("mechanisms.producer.sender:Sender.")
producer_state_manager = rules("mechanisms.broker.producer_state:ProducerStateManager.")
unified_log = rules("mechanisms.broker.unified_log:UnifiedLog.")

SIDE = re.compile(r"producer( \d+)?|network|broker")


def is_side(actor: str) -> bool:
    """Whether this is who acts in a producer's run."""
    return SIDE.fullmatch(actor) is not None


@phrase
def records(data: Data) -> str:
    """`record 4`, or `records 0-4`."""
    first, last = data["first"], data["last"]
    return f"record {first:d}" if first == last else f"records {first:d}-{last:d}"


@phrase
def batch(data: Data) -> str:
    """`Batch 0 (records 0-4, sequence 0)`."""
    told = [records(data)] if "first" in data else []
    seq = data.get("seq")
    told += ["no sequence number" if seq == -1 else f"sequence {seq:d}"] if seq is not None else []
    return f"Batch {data['batch']:d}" + (f" ({', '.join(told)})" if told else "")


@phrase
def _small(data: Data) -> str:
    """The same within a sentence."""
    told = batch(data)
    return told[0].lower() + told[1:]


@phrase
def _next_attempt(data: Data) -> str:
    """`attempt` counts those before."""
    return f"{data.get('attempt', 1) + 1:d}"


@phrase
def _counted(ranges: list[Range]) -> str:
    return count(sum(last - first + 1 for first, last in ranges), "record")


@phrase
def _sender(data: Data) -> str:
    who = data["who"]
    return "The producer" if who == "producer" else who.capitalize() if is_side(who) else who


def _id(who: str, data: Data) -> str:
    who, pid, epoch = _sender({"who": who}), data["pid"], data["epoch"]
    if pid < 0:
        return f"{who} has no producer id: {data.get('why', '')}."
    told = f"producer id {pid:d}, epoch {epoch:d}"
    ways = {
        "init": f"{who} gets {told}; its sequence numbers start at 0.",
        "bump": f"{who} bumps its epoch: {told}; sequence numbers restart at 0.",
        "reset": f"{who} starts over with {told}: the broker knows nothing about it yet.",
    }
    return ways.get(str(data.get("why")), f"{who} continues with {told} ({data.get('why', '')}).")


@phrase
def _refusal(error: str) -> str:
    return REFUSALS.get(error, "")


REFUSALS = {
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "not the next sequence number",
    "DUPLICATE_SEQUENCE_NUMBER": "older than the batches it remembers",
    "INVALID_PRODUCER_EPOCH": "it knows a newer epoch",
    "UNKNOWN_PRODUCER_ID": "it does not know the producer id",
    "MESSAGE_TOO_LARGE": "larger than allowed",
    "NOT_LEADER_OR_FOLLOWER": "another broker is the leader now",
}


IDEMPOTENCE = Domain(
    "idempotence",
    {
        "send": Word(
            "The application passes {records()} to [who=producer?the producer|{who}]: batch {batch:d} waits in the accumulator.",
            "first last", "batch", judged="send", about="process:=application batch:batch record:first-last",
            rule=Rule(
                "A record joins the newest batch of its partition, or opens a new one.",
                "mechanisms.producer.accumulator:RecordAccumulator.append",
            ),
        ),
        "request": Word(
            "{sender()} sends {small()}[attempt>0? again, attempt {next_attempt()}]: request {request:d}[seq>=0?, with producer id "
            "{pid:d}, epoch {epoch:d}].", "request", "attempt batch epoch first last pid seq", judged="request",
            about="batch:batch request:request record:first-last",
            rule=sender("_send_producer_data", "max.in.flight.requests.per.connection limits how many requests may wait for an answer."),
        ),
        "answer": Word(
            "The answer to batch {batch:d} arrives: [error?{error:50}|stored[offset>=0? from offset {offset:d}]].", "error",
            "batch offset request", judged="answer", about="batch:batch request:request answer:request",
            rule=sender("_complete", "An answer completes its batch, or puts it back into the queue."),
        ),
        "no_answer": Word(
            "{sender()} stops waiting for the answer to batch {batch:d}[ ({why:80})]: was it stored? It cannot know.", "batch",
            "request why", about="batch:batch request:request answer:request",
            rule=sender(
                "_lose_requests", "When the connection is lost or request.timeout.ms is over, all its requests count as unanswered."
            ),
        ),
        "requeue": Word(
            "{batch()} goes back into the queue for a retry.", "batch", "attempt first last", about="batch:batch record:first-last",
            rule=sender("_can_retry", "A retriable error, and time left within delivery.timeout.ms: the batch is sent again."),
        ),
        "delivered": Word(
            "The application is notified: {records()} (batch {batch:d}) [first=@last?is|are] [offset>=0?stored from offset "
            "{offset:d}|sent, and no answer will say whether they were stored].", "batch first last", "offset", judged="delivered",
            about="process:=application batch:batch record:first-last",
            rule=sender("_succeed", "A batch that the leader has stored is reported as delivered."),
        ),
        "undelivered": Word(
            "The application is notified: {records()} (batch {batch:d}) failed with {error:50}.", "batch error first last",
            judged="undelivered", about="process:=application batch:batch record:first-last",
            rule=sender("_fail", "A batch that may not be retried is reported as failed."),
        ),
        "id": Word(
            _id, "epoch pid", "why",
            rule=Rule(
                "A producer id and an epoch identify an idempotent producer; a bumped epoch restarts its sequence numbers.",
                "mechanisms.producer.transaction_manager:TransactionManager.receive_id",
            ),
        ),
        "refuse_to_start": Word("{sender()} refuses to start: {error}", "error"),
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
            "The network delivers request {request:d} twice.", "request", "batch deed", judged="double",
            about="batch:batch request:request",
        ),
        "delay": Word(
            "The network holds back a message of batch {batch:d}[ for {ms:,} ms].", "", "batch deed ms request",
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
            "{batch()} [copy>1?is written again, from offset {offset:d}: [copy=2?a second|copy=3?a third|a {copy:d}th] copy in the "
            "log.|arrives and is written from offset {offset:d}.[is_late? It lands after records that were sent later.]]", "batch offset",
            "copy epoch first is_late last pid request seq", judged="write",
            about="batch:batch request:request answer:request record:first-last",
            rule=producer_state_manager("check", "The leader appends a batch whose sequence number follows the last one."),
        ),
        "recognise": Word(
            "{batch()} arrives [arrival=3?a third time|arrival=2?a second time|arrival?once more|a second time]: the broker still "
            "remembers it and answers with offset {offset:d} again.", "batch offset", "arrival epoch first last pid request seq",
            about="batch:batch request:request answer:request record:first-last",
            rule=producer_state_manager(
                "find_duplicate", "The leader remembers the last five batches of each producer and does not write them again."
            ),
        ),
        "refuse": Word(
            "The broker refuses [seq>=0?batch {batch:d} (sequence {seq:d})|{small()}]: {error:50}[, {error:refusal()}].", "batch error",
            "epoch first last pid request seq", about="batch:batch request:request answer:request record:first-last",
            rule=producer_state_manager("check", "The leader refuses a batch whose epoch is old or whose sequence number does not follow."),
        ),
        "down": Word("The broker goes down. Its connections end, and it answers no one until it is back."),
        "restart": Word(
            "[how=kill?The broker is killed and restarts|how=clean?The broker is shut down cleanly and restarts|how=up?The broker is back "
            "up|The broker restarts[ ({how:40})]]: it remembers only the last batch of each producer.", "", "how", judged="restart",
            rule=unified_log(
                "restart", "After an unclean restart the leader rebuilds what it knows of producers from its log and its last snapshot."
            ),
        ),
        "expire": Word(
            "The broker has not heard from producer id {pid:d} for too long and forgets it.", "pid", judged="expire",
            rule=producer_state_manager("remove_expired", "producer.id.expiration.ms: a producer that is silent for so long is forgotten."),
        ),
        "delete": Word(
            "Retention deletes the start of the log: it now begins at offset {to:d}.", "to", judged="delete",
            rule=producer_state_manager("log_start_moved", "What the leader knows of a producer goes with its last batch."),
        ),
        "fail_over": Word(
            "Another broker becomes the leader; it knows only the batches it had replicated.", judged="fail_over",
            rule=unified_log("fail_over", "A new leader knows the producers whose batches it has replicated."),
        ),
        "read": Word(
            "The topic is read back: {records:counted()} starting at offset {first_offset:d}.", "first_offset records:ranges",
            judged="read",
        ),
    },
    marks={
        "down": "crash", "restart": "restart", "lose_request": "request lost", "lose_answer": "answer lost",
        "duplicate_request": "sent twice",
        "cut": "cut", "expire": "id expires", "refuse": "refused", "delete": "log start moves", "fail_over": "new leader",
        "undelivered": lambda data: "time-out" if "Timeout" in str(data["error"]) else "fails", "differs": "disagree",
    },
    within={"record": "batch"},
)
