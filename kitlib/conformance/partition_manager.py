"""Replays recorded scripts of Storm 0.9.3's PartitionManager on the kit's model.

The recorded answers of the broker are handed to the model, so that a replay judges the model alone;
the log operations run on the kit's `PartitionLog`, whose starts and ends are compared as well. A
model of the learner's own goes through the same door: anything that is built from (SpoutConfig,
LogReader, OffsetStore) and has the ledgers' names.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kitlib.conformance.golden import unknown
from kitlib.errors import KitError
from kitlib.mechanisms import spout_errors
from kitlib.mechanisms.log import Fetch, FetchError, PartitionLog, Record
from kitlib.mechanisms.offset_store import MemoryOffsetStore
from kitlib.mechanisms.partition_manager import PartitionManager, SpoutConfig

Build = Callable[[SpoutConfig, "RecordedLog", "FaultyStore"], Any]

CONFIG_NAMES = frozenset(each.name for each in dataclasses.fields(SpoutConfig)) - {"scheme"}

# Storm's fetch wraps an IOException in a FailedFetchException, and everything else but the class that its list names in a
# RuntimeException. So these are the IOExceptions of Java's network: packages that have hardly any other, and the classes of a mixed one.
_NETWORK_PACKAGES = ("java.io.", "java.net.", "javax.net.ssl.")
_NOT_NETWORK = {"java.io.UncheckedIOException", "java.net.URISyntaxException"}
_NETWORK_CLASSES = {  # the first one is no IOException, but in Storm's list
    f"java.nio.channels.{name}Exception"
    for name in ("UnresolvedAddress", "AsynchronousClose", "ClosedByInterrupt", "ClosedChannel", "InterruptedByTimeout")
}
_CONNECTION_LOSS = {
    "class": "org.apache.zookeeper.KeeperException$ConnectionLossException",
    "message": "KeeperErrorCode = ConnectionLoss",
}


class RecordedNetworkError(OSError):
    """A recorded exception that Storm takes for network trouble."""


class RecordedError(Exception):
    """A recorded exception that Storm does not expect."""


class ConnectionLossError(Exception):
    """ZooKeeper lost the connection in the middle of a call."""


@dataclass(slots=True)
class RecordedLog:
    """A LogReader that gives the answers which were recorded, and notes what it was asked."""

    topic: str
    logs: dict[str, PartitionLog]  # by topic: the kit's own, which a test holds against the recorded answers
    special: dict[str, dict[str, str]]  # topic -> offset -> what is special about the record there
    answers: list[dict[str, Any]] = field(default_factory=list)  # of this step, in order
    calls: list[dict[str, Any]] = field(default_factory=list)  # made in this step
    fault: dict[str, Any] = field(default_factory=dict)  # what the script lets the next fetch meet

    def fetch(self, offset: int) -> Fetch:
        answer = self._answer("fetch")
        self.calls.append({**answer, "call": "fetch", "offset": offset})
        if "exception" in answer:
            raise recorded_exception(answer["exception"])
        if answer.get("error"):
            return Fetch(error=FetchError.of(answer["error"]))
        special = self.special.get(self.topic, {})
        return Fetch([Record(at, _payload(special.get(str(at)), at)) for at in answer.get("returned", [])])

    def offset_before(self, time: int) -> int | None:
        answer = self._answer("getOffsetsBefore")
        self.calls.append({**answer, "call": "getOffsetsBefore", "topic": self.topic, "time": time})
        offsets = answer.get("offsets", [])
        return offsets[0] if offsets else None

    def _answer(self, call: str) -> dict[str, Any]:
        """The next recorded answer; another call than the recorded one gets a broker's most harmless answer."""
        position = len(self.calls)
        if position < len(self.answers) and self.answers[position].get("call") == call:
            return self.answers[position]
        return {"error": 0, "returned": []} if call == "fetch" else {"offsets": []}


@dataclass(slots=True)
class FaultyStore(MemoryOffsetStore):
    """A ZooKeeper in memory whose next read or write can be made to lose its connection."""

    faults: set[str] = field(default_factory=set)  # "read", "write": each ends the next such call
    written: str | None = None  # in this step

    def read(self, path: str) -> str | None:
        self._maybe_fail("read")
        return self.texts.get(path)

    def write(self, path: str, text: str) -> None:
        self._maybe_fail("write")
        self.texts[path] = text
        self.written = text

    def _maybe_fail(self, what: str) -> None:
        if what in self.faults:
            self.faults.discard(what)
            raise ConnectionLossError


@dataclass(slots=True)
class LiveLog(RecordedLog):
    """A RecordedLog that asks the kit's own log, and fails where the script says so: for a model that may ask for something else."""

    def fetch(self, offset: int) -> Fetch:
        fault, self.fault = self.fault, {}
        if "class" in fault:
            raise recorded_exception(fault["class"])
        if "code" in fault:
            return Fetch(error=FetchError.of(fault["code"]))
        fetched = self.logs[self.topic].fetch(offset)
        return Fetch(error=fetched.error) if fault else fetched  # "partial": not one record came whole

    def offset_before(self, time: int) -> int | None:
        return self.logs[self.topic].offset_before(time)


def replay(
    trace: dict[str, Any], build: Build = PartitionManager, reads: type[RecordedLog] = RecordedLog
) -> Iterator[dict[str, Any]]:
    """What the model did at each step of one recorded script: result, broker calls, text written, state."""
    settings, described = dict(trace["config"]), trace.get("log", {})
    logs = {topic: log_of(topic, log, settings) for topic, log in described.items()}
    special = {topic: dict(log.get("special", {})) for topic, log in described.items()}
    store = FaultyStore(dict(trace.get("zk", {})))
    reader = reads(settings["topic"], logs, special)
    manager: Any = None
    for step in trace["steps"]:
        reader.answers, reader.calls, store.written = step.get("broker", []), [], None
        op, args = step["op"], step.get("args", {})
        result: dict[str, Any] = {}
        if op in ("start", "restart"):
            settings |= args.get("config", {})
            reader.topic = settings["topic"]
            for log in logs.values():
                log.max_fetch_records = settings.get("fetchMaxMessages", log.max_fetch_records)
            result, manager = _built(build, settings, reader, store, manager)
        elif op in ("next", "ack", "fail", "commit"):
            result = _driven(manager, op, args)
        elif op == "zk_fault":
            store.faults.add(args["on"])
        elif op == "zk_set":
            given = [args[name] for name in ("text", "data", "value", "json") if name in args]
            store.texts[args.get("path", _config(settings).committed_path())] = (
                given[0] if given else step["state"]["zk"]
            )
        elif op == "zk_delete":
            store.texts.pop(args.get("path", _config(settings).committed_path()), None)
        elif op == "fault":
            reader.fault = args
        else:
            topic = args.get("topic", settings["topic"])
            result = changed(logs.setdefault(topic, PartitionLog(topic)), special.setdefault(topic, {}), op, args)
        done: dict[str, Any] = {"result": result}
        if reader.calls:
            done["broker"] = reader.calls
        if store.written is not None:
            done["zk_write"] = store.written
        done["state"] = state_of(manager, store, _config(settings))
        yield done


def state_of(manager: Any, store: FaultyStore, config: SpoutConfig) -> dict[str, Any]:
    """The model's ledgers in the recording's words."""
    return {
        "emittedToOffset": manager.emitted_to_offset,
        "committedTo": manager.committed_to,
        "lastCompletedOffset": manager.last_completed_offset(),
        "pending": sorted(manager.pending),
        "failed": sorted(manager.failed),
        "waitingToEmit": [record.offset for record in manager.waiting_to_emit],
        "numberAcked": manager.number_acked,
        "numberFailed": manager.number_failed,
        "zk": store.texts.get(config.committed_path()),
    }


def in_python(name: str) -> str:
    """A name of Java's as Python writes it: `maxOffsetBehind` is `max_offset_behind`."""
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def recorded_exception(name: str) -> Exception:
    """The Python exception that stands for a recorded Java class."""
    network = name in _NETWORK_CLASSES or (name.startswith(_NETWORK_PACKAGES) and name not in _NOT_NETWORK)
    return RecordedNetworkError(name) if network else RecordedError(name)


def _scheme(record: Record) -> list[Any] | None:
    """The recording's scheme: one tuple, but for the payloads that stand for special cases."""
    value = record.value
    if value is None or value == b"skip":
        return None
    if value == b"empty":
        return []
    if value.startswith(b"multi:"):
        return [(value, part) for part in range(int(value[6:]))]
    return [(value,)]


def _config(settings: dict[str, Any]) -> SpoutConfig:
    named = {ours: value for name, value in settings.items() if (ours := in_python(name)) in CONFIG_NAMES}
    return SpoutConfig(**{"topology_name": None} | named, scheme=_scheme)


def _built(
    build: Build, settings: dict[str, Any], reader: RecordedLog, store: FaultyStore, before: Any
) -> tuple[dict[str, Any], Any]:
    try:
        return {}, build(_config(settings), reader, store)
    except KitError as error:
        return {"exception": _exception(error, settings)}, before


def _driven(manager: Any, op: str, args: dict[str, Any]) -> dict[str, Any]:
    given = [args["offset"]] if op in ("ack", "fail") else []
    try:
        if op == "next":
            emission = manager.next()
            emitted = [emission.record.offset] * len(emission.tuples) if emission.record else []
            return {"ret": emission.state.value, "emitted": emitted}
        getattr(manager, op)(*given)
    except (KitError, ConnectionLossError) as error:
        found: dict[str, Any] = {"exception": _exception(error, manager.config)}
        return found | ({"emitted": []} if op == "next" else {})
    return {}


def _exception(error: Exception, config: Any) -> dict[str, Any]:
    """The Java exception that Storm throws where the model raises `error`."""
    if isinstance(error, spout_errors.FailedFetchError | spout_errors.FetchCrashedError):
        java = (
            "storm.kafka.FailedFetchException" if isinstance(error, spout_errors.FailedFetchError) else "java.lang.RuntimeException"
        )
        if error.__cause__ is not None:
            name = str(error.__cause__)
            return {"class": java, "message": name, "cause": {"class": name, "message": None}}
        where = f"Partition{{host={config.broker_host}:{config.broker_port}, partition={config.partition}}}"
        name = error.error.name if isinstance(error, spout_errors.FailedFetchError) and error.error else "UNKNOWN"
        return {"class": java, "message": f"Error fetching data from [{where}] for topic [{config.topic}]: [{name}]"}
    if isinstance(error, spout_errors.TooManyTupleFailuresError):
        return {"class": "java.lang.RuntimeException", "message": "Too many tuple failures"}
    if isinstance(error, spout_errors.MissingTopologyNameError):
        return {"class": "java.lang.NullPointerException", "message": "null value in entry: name=null"}
    if isinstance(error, ConnectionLossError):
        cause = _CONNECTION_LOSS
        return {
            "class": "java.lang.RuntimeException",
            "message": f"{cause['class']}: {cause['message']}",
            "cause": cause,
        }
    return {"class": type(error).__name__, "message": str(error)}


def _payload(kind: str | None, offset: int) -> bytes | None:
    if kind == "null":
        return None
    return f"m{offset}".encode() if kind is None else kind.encode()


def log_of(topic: str, described: dict[str, Any], settings: dict[str, Any]) -> PartitionLog:
    """One topic of a recorded script as a log."""
    log = PartitionLog(topic, max_fetch_records=settings.get("fetchMaxMessages", 5))
    special = described.get("special", {})
    log.start, log.end = described["start"], described["end"]
    log.batches = [[Record(at, _payload(special.get(str(at)), at)) for at in unit] for unit in described["units"]]
    by_time = described.get("time_offsets") or {}  # time stamp -> the broker's list of offsets
    log.offsets_by_time = {int(time): offsets[0] for time, offsets in by_time.items() if offsets}
    return log


def changed(log: PartitionLog, special: dict[str, str], op: str, args: dict[str, Any]) -> dict[str, Any]:
    """A change of the log, and its start and end after it.

    The recorder keeps what is special about an offset even if the log is cut and the offset used again.
    """
    if op == "append":
        special |= args.get("special", {})
        first = log.end + args.get("gap", 0)
        values = [_payload(special.get(str(first + index)), first + index) for index in range(args["n"])]
        log.append(values, gap=args.get("gap", 0), compressed=bool(args.get("compressed")))
    elif op == "truncate":
        log.delete_before(args["to"])
    elif op == "truncate_end":
        log.truncate_to(args["to"])
    elif op == "compact":
        log.compact(args["offsets"])
    else:
        raise unknown(op)
    return {"log_start": log.start, "log_end": log.end}
