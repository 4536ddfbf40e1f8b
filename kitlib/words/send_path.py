"""Words of a record's path from `send` to the log, in the model and in real clients."""

from __future__ import annotations

from dataclasses import replace

from kitlib.text import plain_text
from kitlib.words.idempotence import IDEMPOTENCE, error_name, records
from kitlib.words.word import Data, Domain, Rule, Word

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


def _numbered(who: str, what: str, data: Data, said: str) -> str:
    """One of the source's nine stages begins with its number."""
    stage = data.get("stage")
    return f"({stage:d}) {said}" if isinstance(stage, int) and 1 <= stage <= len(STAGES) else said


def _node(data: Data) -> str:
    number = data["node"]
    return "the bootstrap address" if number < 0 else f"broker {number:d}"


def _ms(number: int) -> str:
    return "until something happens" if number >= 2**31 - 1 else f"{number:,} ms"


def _start(who: str, data: Data) -> str:
    return (
        f"A producer is created, with the behaviour of release {data['release']}. All it knows is its bootstrap addresses."
    )


def _blocked(who: str, data: Data) -> str:
    for_what = {"metadata": "The topic is not known yet", "memory": "The buffer memory is full"}.get(
        data.get("on", ""), "It cannot continue"
    )
    if "most_ms" in data:
        return f"{for_what}: the call blocks for up to {data['most_ms']:,} ms."
    return f"The call blocked for {data['ms']:,} ms."


def _returned(who: str, data: Data) -> str:
    waited = data.get("waited_ms", 0)
    after = f"after {waited:,} ms" if waited else "at once"
    return f"send returns {after}. Record {data['record']:d} is in a batch; so far only the producer has it."


def _send(who: str, data: Data) -> str:
    number = data.get("batch")
    into = f"joins batch {number:d} of" if number is not None else "is for"
    return f"Record {data.get('record', data['first']):d} {into} partition {data['partition']:d}."


def _undelivered(who: str, data: Data) -> str:
    message = plain_text(data.get("message", ""), 120)
    told = f": {message.rstrip('.')}" if message else ""
    return f"The application is notified that {records(data)} failed, {error_name(data)}{told}."


def _delivered(who: str, data: Data) -> str:
    offset = data.get("offset", -1)
    are = "is" if data["first"] == data["last"] else "are"
    return f"The application is notified that {records(data)} {are} stored" + (f", from offset {offset:d}." if offset >= 0 else ".")


def _flush(who: str, data: Data) -> str:
    return f"The application calls flush and waits for {data.get('waiting', 0):,} records."


def _request_update(who: str, data: Data) -> str:
    what = "for all topics" if data.get("full", True) else "for the new topic"
    why = f": {data['why']}" if data.get("why") else ""
    return f"The producer needs metadata {what}{why}."


def _update(who: str, data: Data) -> str:
    leader = data.get("leader")
    errors = ", ".join(
        f"{plain_text(name, 40)} {plain_text(error, 40)}" for name, error in (data.get("errors") or {}).items()
    )
    led = f"broker {leader:d} is the leader" if isinstance(leader, int) and leader >= 0 else "no leader is known"
    version = f"version {data['version']:d} of the metadata" if "version" in data else "new metadata"
    return f"The client has {version}: {errors or led}." + (" It will ask again." if data.get("need_update") else "")


def _leader(who: str, data: Data) -> str:
    if "to" in data:
        return f"The error named the new leader, broker {data['to']:d}: the client takes its word for it."
    return f"Broker {data['leader']:d} is the leader now."


def _request(who: str, data: Data) -> str:
    again = f", attempt {data['attempt'] + 1:d}" if data.get("attempt") else ""
    to = f" to {_node(data)}" if "node" in data else ""
    return f"The sender takes batch {data['batch']:d} ({records(data)}) out of its queue and sends it{to}{again}."


def _answer(who: str, data: Data) -> str:
    error = data.get("error", "NONE")
    if error != "NONE":
        return f"The answer to batch {data['batch']:d}: {error_name(data)}."
    return f"The answer to batch {data['batch']:d}: stored."


def _no_answer(who: str, data: Data) -> str:
    return (
        f"No answer to batch {data['batch']:d} will come: {plain_text(data.get('why', 'its connection is gone'), 80)}."
    )


def _requeue(who: str, data: Data) -> str:
    return f"Batch {data['batch']:d} goes back into its queue for attempt {data.get('attempt', 1) + 1:d}."


def _connect(who: str, data: Data) -> str:
    address = f" at {data['address']}" if data.get("address") else ""
    return f"The client connects to {_node(data)}{address}."


def _connected(who: str, data: Data) -> str:
    return f"The connection to {_node(data)} is open."


def _disconnected(who: str, data: Data) -> str:
    why = f": {data['why']}" if data.get("why") else ""
    return f"There is no connection to {_node(data)}{why}."


def _metadata_request(who: str, data: Data) -> str:
    names = ", ".join(plain_text(name, 40) for name in data.get("names") or ())
    what = f"for {names}" if names else "for no topic, only the brokers"
    return f"The client sends a metadata request {what} to {_node(data)}."


def _id_request(who: str, data: Data) -> str:
    return f"The client requests a producer id from {_node(data)}; it may send no batch before the answer."


def _select(who: str, data: Data) -> str:
    return (
        f"The loop sleeps for {_ms(data['timeout'])}, the shortest of three waits: the sender's {_ms(data['poll'])}, "
        f"the metadata's {_ms(data['metadata'])}, and the request timeout of {_ms(data['request'])}."
    )


def _refuse(who: str, data: Data) -> str:
    return f"The broker refuses batch {data['batch']:d}: {error_name(data)}."


def _stop_copying(who: str, data: Data) -> str:
    return f"The followers stop replicating: brokers {', '.join(f'{number:d}' for number in data['brokers'])}."


def _shrink_isr(who: str, data: Data) -> str:
    are = "are" if len(data["in_sync"]) > 1 else "is"
    return f"Replicas fell too far behind: only {', '.join(f'{number:d}' for number in data['in_sync'])} {are} in sync."


def _destroy(who: str, data: Data) -> str:
    told = f" {data['records_gone']:,} records are lost with it." if data.get("records_gone") else ""
    leader = f" Broker {data['leader']:d} is the leader now." if "leader" in data else ""
    return f"The leader is lost for good.{told}{leader}"


def _fault(who: str, data: Data) -> str:
    return f"From here on: {data['cause']}."


def _version(who: str, data: Data) -> str:
    return f"The client observed here is {data['name']} {data['version']}."


SEND_PATH = Domain(
    "send_path",
    {
        "start": Word(_start, "", "release version"),
        "call": Word(
            "The application calls send for record {record:d}.", "", "first last record stage why",
            about="call:record",
            rule=Rule(
                "send needs the topic's metadata, then memory, then a place in a batch.",
                "more.client.send_path:KafkaProducer.send",
            ),
        ),
        "blocked": Word(
            _blocked, "", "most_ms ms on record",
            about="call:record",
            rule=Rule(
                "max.block.ms limits how long send may wait for metadata or memory.",
                "more.client.send_path:KafkaProducer._after_metadata",
            ),
        ),
        "returned": Word(
            _returned, "", "record waited_ms", room=0.4,
            about="call:record",
        ),
        "send": Word(
            _send, "first last", "batch record records stage waited_ms", judged="send", room=0.4,
            about="call:record batch:batch record:first-last",
            rule=Rule(
                "A record joins the newest batch of its partition, or opens a new one.",
                "mechanisms.producer.accumulator:RecordAccumulator.append",
            ),
        ),
        "undelivered": Word(
            _undelivered, "first last", "batch error message waited_ms", judged="undelivered",
            about="batch:batch record:first-last",
            rule=Rule("A batch that may not be retried is reported as failed.", "mechanisms.producer.sender:Sender._fail"),
        ),
        "delivered": Word(
            _delivered, "first last", "batch offset", judged="delivered",
            about="batch:batch record:first-last",
            rule=Rule(
                "A batch that the leader has stored is reported as delivered.",
                "mechanisms.producer.sender:Sender._succeed",
            ),
        ),
        "flush": Word(_flush, "", "waiting"),
        "exit": Word(
            "The process exits. What is still in its memory was never anywhere else.", "", "left:whole told:wholes", judged="exit"
        ),
        "request_update": Word(
            _request_update, "", "full name version why",
            rule=Rule(
                "Metadata is requested for a new topic, after an error, and when metadata.max.age.ms is over.",
                "more.client.metadata:Metadata.time_to_next_update",
            ),
        ),
        "update": Word(
            _update, "", "errors leader:whole? need_update nodes partial partitions:whole stage version",
            rule=Rule(
                "An answer replaces what the client knows, unless it is older.",
                "more.client.metadata:Metadata.update",
            ),
        ),
        "failed_update": Word(
            "The metadata request failed, {attempts:d} in a row; the next one waits longer.",
            "",
            "attempts",
            rule=Rule(
                "Each failure in a row doubles the wait before the next metadata request.",
                "more.client.metadata:Metadata.failed_update",
            ),
        ),
        "leader": Word(_leader, "", "leader leader_epoch to why"),
        "new_batch": Word(
            "Batch {batch:d} is new: the sender's loop is woken.", "", "batch first last records stage",
            about="batch:batch record:first-last",
            rule=Rule(
                "A new batch wakes the sender, which plans when to send it.",
                "more.client.send_path:KafkaProducer._append",
            ),
        ),
        "full": Word(
            "Batch {batch:d} is full: the sender's loop is woken.", "", "batch first last records",
            about="batch:batch record:first-last",
            rule=Rule(
                "A full batch does not wait for linger.ms.",
                "mechanisms.producer.accumulator:RecordAccumulator.ready",
            ),
        ),
        "request": Word(
            _request, "", "attempt batch first last node request stage", judged="request",
            about="batch:batch request:request record:first-last",
            rule=Rule(
                "A batch is sent when it is full, when linger.ms is over, or on flush.",
                "mechanisms.producer.accumulator:RecordAccumulator.drain",
            ),
        ),
        "answer": Word(
            _answer, "", "batch error first last offset request stage", judged="answer",
            about="batch:batch request:request answer:request",
            rule=Rule(
                "An answer completes its batch, or puts it back into the queue.",
                "mechanisms.producer.sender:Sender._complete",
            ),
        ),
        "no_answer": Word(
            _no_answer, "", "batch request why",
            about="batch:batch request:request answer:request",
            rule=Rule(
                "When the connection is lost or request.timeout.ms is over, all its requests count as unanswered.",
                "mechanisms.producer.sender:Sender._lose_requests",
            ),
        ),
        "requeue": Word(
            _requeue, "", "attempt batch first last",
            about="batch:batch record:first-last",
            rule=Rule(
                "A retriable error, and time left within delivery.timeout.ms: the batch is sent again.",
                "mechanisms.producer.sender:Sender._can_retry",
            ),
        ),
        "expire": Word(
            "Batch {batch:d} has timed out; the sender gives it up.",
            "",
            "attempt batch first last",
            judged="expire",
            about="batch:batch record:first-last",
            rule=Rule(
                "delivery.timeout.ms: a batch that is not delivered in time fails.",
                "mechanisms.producer.sender:Sender._expire",
            ),
        ),
        "id": Word("The producer has its id: {pid:d}, epoch {epoch:d}.", "", "epoch pid why"),
        "connect": Word(_connect, "", "address node stage why"),
        "connected": Word(_connected, "", "node"),
        "disconnected": Word(_disconnected, "", "node why"),
        "metadata_request": Word(
            _metadata_request, "", "first last names node partial stage",
            rule=Rule(
                "The client asks the node with the fewest requests in flight.",
                "more.client.network_client:NetworkClient.least_loaded_node",
            ),
        ),
        "id_request": Word(_id_request, "", "node"),
        "select": Word(
            _select, "", "metadata poll request timeout", room=0.4,
            rule=Rule(
                "The loop sleeps for the shortest of its waits.",
                "more.client.network_client:NetworkClient.poll",
            ),
        ),
        "refuse": Word(
            _refuse, "", "batch error first last node request",
            about="batch:batch request:request answer:request record:first-last",
            rule=Rule(
                "A broker that no longer leads the partition refuses its batches.",
                "mechanisms.broker.leader:Leader._append",
            ),
        ),
        "move_leader": Word(
            "Broker {to:d} is now the leader of the partition. The client does not know yet.", "", "leader_epoch to"
        ),
        "stop_copying": Word(_stop_copying, "", "broker brokers"),
        "shrink_isr": Word(_shrink_isr, "", "brokers in_sync left"),
        "destroy": Word(_destroy, "", "broker gone leader leader_epoch records_gone unclean", judged="destroy"),
        "fault": Word(_fault, "", "cause"),
        "killed": Word("Broker {broker} is killed.", "broker"),
        "started": Word("Broker {broker} is restarted.", "broker"),
        "frames": Word("The requests sent are those of stages {stages}.", "stages"),
        "version": Word(_version, "name", "version"),
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
        "expire": "time-out", "exit": "exit", "destroy": "broker lost", "killed": "crash", "started": "restart",
        "move_leader": "new leader", "refuse": "refused", "disconnected": "cut", "undelivered": "fails", "shrink_isr": "ISR shrinks",
    },
    within={"record": "batch"},
)
