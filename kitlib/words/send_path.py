"""Words of a record's path from `send` to the log, in the model and in real clients."""

from __future__ import annotations

from dataclasses import replace

from kitlib.text import plain_text
from kitlib.words.idempotence import IDEMPOTENCE
from kitlib.words.template import phrase
from kitlib.words.word import Data, Domain, Rule, Word, rules

kafka_producer = rules("more.client.send_path:KafkaProducer.")
record_accumulator = rules("mechanisms.producer.accumulator:RecordAccumulator.")
sender = rules("mechanisms.producer.sender:Sender.")
metadata = rules("more.client.metadata:Metadata.")
network_client = rules("more.client.network_client:NetworkClient.")

STAGES = (
    "send needs metadata and wakes the sender's loop",
    "a connection is opened to ask for metadata",
    "the metadata request is sent",
    "the answer arrives, and send continues",
    "the record is assigned a partition and joins a batch",
    "the batch is new, so the loop is woken again",
    "a connection to the partition's leader is opened",
    "the produce request is sent with the batch",
    "its answer arrives",
)


@phrase
def _node(number: int) -> str:
    return "the bootstrap address" if number < 0 else f"broker {number:d}"


@phrase
def _wait(ms: int) -> str:
    return "until something happens" if ms >= 2**31 - 1 else f"{ms:,} ms"


@phrase
def _unended(message: str) -> str:
    return plain_text(message, 120).rstrip(".")


def _numbered(who: str, what: str, data: Data, said: str) -> str:
    """One of the source's nine stages begins with its number."""
    stage = data.get("stage")
    return f"({stage:d}) {said}" if isinstance(stage, int) and 1 <= stage <= len(STAGES) else said


@phrase
def _refusals(errors: dict[str, str]) -> str:
    return ", ".join(f"{name:.40} {error:.40}" for name, error in errors.items())


SEND_PATH = Domain(
    "send_path",
    {
        "start": Word(
            "A producer is created, with the behaviour of release {release}. All it knows is its bootstrap addresses.", "",
            "release version",
        ),
        "call": Word(
            "The application calls send for record {record:d}.", "", "first last record stage why", about="call:record",
            rule=kafka_producer("send", "send needs the topic's metadata, then memory, then a place in a batch."),
        ),
        "blocked": Word(
            "[most_ms?[on=metadata?The topic is not known yet|on=memory?The buffer memory is full|It cannot continue]: the call blocks "
            "for up to {most_ms:,} ms|The call blocked for {ms:,} ms].", "", "most_ms ms on record", about="call:record",
            rule=kafka_producer("advance", "max.block.ms limits how long send may wait for metadata or memory."),
        ),
        "returned": Word(
            "send returns [waited_ms>0?after {waited_ms:,} ms|at once]. Record {record:d} is in a batch; so far only the producer has it.",
            "", "record waited_ms", room=0.4, about="call:record",
        ),
        "send": Word(
            "Record [record?{record:d}|{first:d}] [batch?joins batch {batch:d} of|is for] partition {partition:d}.", "first last",
            "batch record records stage waited_ms", judged="send", room=0.4, about="call:record batch:batch record:first-last",
            rule=record_accumulator("append", "A record joins the newest batch of its partition, or opens a new one."),
        ),
        "undelivered": Word(
            "The application is notified that {records()} failed, {error:50}[: {message:unended()}].", "first last",
            "batch error message waited_ms", judged="undelivered", about="batch:batch record:first-last",
            rule=sender("_fail", "A batch that may not be retried is reported as failed."),
        ),
        "delivered": Word(
            "The application is notified that {records()} [first=@last?is|are] stored[offset>=0?, from offset {offset:d}].", "first last",
            "batch offset", judged="delivered", about="batch:batch record:first-last",
            rule=sender("_succeed", "A batch that the leader has stored is reported as delivered."),
        ),
        "flush": Word("The application calls flush and waits for [waiting?{waiting:,}|0] records.", "", "waiting"),
        "exit": Word(
            "The process exits. What is still in its memory was never anywhere else.", "", "left:whole told:wholes", judged="exit"
        ),
        "request_update": Word(
            "The producer needs metadata [full=False?for the new topic|for all topics][: {why}].", "", "full name version why",
            rule=metadata(
                "time_to_next_update", "Metadata is requested for a new topic, after an error, and when metadata.max.age.ms is over."
            ),
        ),
        "update": Word(
            "The client has [version>=0?version {version:d} of the metadata|new metadata]: [errors?{errors:refusals()}|leader>=0?broker "
            "{leader:d} is the leader|no leader is known].[need_update? It will ask again.]",
            "", "errors leader:whole? need_update nodes partial partitions:whole stage version",
            rule=metadata("update", "An answer replaces what the client knows, unless it is older."),
        ),
        "failed_update": Word(
            "The metadata request failed, {attempts:d} in a row; the next one waits longer.", "", "attempts",
            rule=metadata("failed_update", "Each failure in a row doubles the wait before the next metadata request."),
        ),
        "leader": Word(
            "[to?The error named the new leader, broker {to:d}: the client takes its word for it|Broker {leader:d} is the leader now].",
            "", "leader leader_epoch to why",
        ),
        "new_batch": Word(
            "Batch {batch:d} is new: the sender's loop is woken.", "", "batch first last records stage",
            about="batch:batch record:first-last",
            rule=kafka_producer("_append", "A new batch wakes the sender, which plans when to send it."),
        ),
        "full": Word(
            "Batch {batch:d} is full: the sender's loop is woken.", "", "batch first last records", about="batch:batch record:first-last",
            rule=record_accumulator("ready", "A full batch does not wait for linger.ms."),
        ),
        "request": Word(
            "The sender takes batch {batch:d} ({records()}) out of its queue and sends it[ to {node:node()}][attempt>0?, attempt "
            "{next_attempt()}].", "", "attempt batch first last node request stage", judged="request",
            about="batch:batch request:request record:first-last",
            rule=record_accumulator("drain", "A batch is sent when it is full, when linger.ms is over, or on flush."),
        ),
        "answer": Word(
            "The answer to batch {batch:d}: [error?{error:50}|stored].", "", "batch error first last offset request stage",
            judged="answer", about="batch:batch request:request answer:request",
            rule=sender("_complete", "An answer completes its batch, or puts it back into the queue."),
        ),
        "no_answer": Word(
            "No answer to batch {batch:d} will come: [why?{why:80}|its connection is gone].", "", "batch request why",
            about="batch:batch request:request answer:request",
            rule=sender(
                "_lose_requests", "When the connection is lost or request.timeout.ms is over, all its requests count as unanswered."
            ),
        ),
        "requeue": Word(
            "Batch {batch:d} goes back into its queue for attempt {next_attempt()}.", "", "attempt batch first last",
            about="batch:batch record:first-last",
            rule=sender("_can_retry", "A retriable error, and time left within delivery.timeout.ms: the batch is sent again."),
        ),
        "expire": Word(
            "Batch {batch:d} has timed out; the sender gives it up.", "", "attempt batch first last", judged="expire",
            about="batch:batch record:first-last",
            rule=sender("_expire", "delivery.timeout.ms: a batch that is not delivered in time fails."),
        ),
        "id": Word("The producer has its id: {pid:d}, epoch {epoch:d}.", "", "epoch pid why"),
        "connect": Word("The client connects to {node:node()}[ at {address}].", "", "address node stage why"),
        "connected": Word("The connection to {node:node()} is open.", "", "node"),
        "disconnected": Word("There is no connection to {node:node()}[: {why}].", "", "node why"),
        "metadata_request": Word(
            "The client sends a metadata request [names?for {names:listed()}|for no topic, only the brokers] to {node:node()}.", "",
            "first last names node partial stage",
            rule=network_client("least_loaded_node", "The client asks the node with the fewest requests in flight."),
        ),
        "id_request": Word("The client requests a producer id from {node:node()}; it may send no batch before the answer.", "", "node"),
        "select": Word(
            "The loop sleeps for {timeout:wait()}, the shortest of three waits: the sender's {poll:wait()}, the metadata's "
            "{metadata:wait()}, and the request timeout of {request:wait()}.", "", "metadata poll request timeout", room=0.4,
            rule=network_client("poll", "The loop sleeps for the shortest of its waits."),
        ),
        "refuse": Word(
            "The broker refuses batch {batch:d}: {error:50}.", "", "batch error first last node request",
            about="batch:batch request:request answer:request record:first-last",
            rule=Rule("A broker that no longer leads the partition refuses its batches.", "mechanisms.broker.leader:Leader._append"),
        ),
        "move_leader": Word(
            "Broker {to:d} is now the leader of the partition. The client does not know yet.", "", "leader_epoch to"
        ),
        "fault": Word("From here on: {cause}.", "", "cause"),
        "killed": Word("Broker {broker} is killed.", "broker"),
        "started": Word("Broker {broker} is restarted.", "broker"),
        "frames": Word("The requests sent are those of stages {stages}.", "stages"),
        "version": Word("The client observed here is {name} {version}.", "name", "version"),
        "write": replace(
            IDEMPOTENCE.words["write"], needs="batch first last offset", may="copy epoch is_late node pid request seq"
        ),
        "recognise": replace(IDEMPOTENCE.words["recognise"], may="arrival epoch first last node pid request seq"),
        "read": IDEMPOTENCE.words["read"],
        **{word: IDEMPOTENCE.words[word] for word in ("lose_request", "lose_answer", "duplicate_request", "delay")},
    },
    _numbered,
    marks={
        "lose_request": "request lost", "lose_answer": "answer lost", "duplicate_request": "sent twice",
        "expire": "time-out", "exit": "exit", "killed": "crash", "started": "restart",
        "move_leader": "new leader", "refuse": "refused", "disconnected": "cut", "undelivered": "fails",
    },
    within={"record": "batch"},
)
