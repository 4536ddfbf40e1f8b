"""The lab's one Spark, which all notebooks and commands of a user share as they share the broker.

A Spark of one's own takes each notebook twenty seconds and 600 MB. So the lab has one: a Spark Connect server, started by
whoever needs it first and looked after by `kitlib.spark.warden`. `session()` gives a session on it, of this Python alone:
its temporary views, its settings, its streaming queries. The server is quiet and private: the kit's Java and its checked
Kafka connector, every port on 127.0.0.1, a token that only the user can read, what Java has to say in a file, all folders in
the workspace. Its Python functions run in this very Python's environment, in processes of their own.

KIT_SPARK_MASTER is where the lab's server works instead of on this machine: a standalone cluster, or `local-cluster[...]`.
KIT_SPARK_REMOTE=sc://host:port is a Spark Connect service of somebody else's, which the kit neither starts nor ends.

Left out: tuning. A few task slots and two shuffle partitions fit jobs of seconds.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import secrets
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self, cast

# Before anything of pyspark's is used: its functions then build plans for Spark Connect, without a Java in this process.
os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own lines about a connection that is gone

import grpc
from filelock import FileLock
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession as RemoteSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kitlib.errors import KnobError, LabError
from kitlib.lab import workspace
from kitlib.lab.kept_rows import FOLDER
from kitlib.spark import server as spark_server
from kitlib.spark import warden as spark_warden
from kitlib.spark.knock import knock
from kitlib.spark.server import log_file
from kitlib.spark.warden import LOOPBACK, State

__all__ = ["Session", "check_alive", "is_alive", "lent", "log_file", "session", "slots", "start", "stop"]

USER = "kit"  # the same in every client, so that the warden can release any session

# `session` and `stop` may be called from two threads of one kernel (a widget's and a cell's).
_lock = threading.RLock()
_session: Session | None = None


class Session(RemoteSession):
    """A session of this Python on the lab's Spark; `stop()` ends it and what it runs, and nothing else."""

    def __init__(self, builder: DefaultChannelBuilder, server: State | None) -> None:
        super().__init__(builder, userId=USER)
        self.server = server  # None: somebody else's service
        folder = spark_warden.folder_of(workspace.run_dir()) / "clients"
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(folder / f"{self.session_id}.new", mode=0o600, thread_local=False)
        if server is not None:
            self.lock.acquire()
            os.rename(self.lock.lock_file, self._held)  # from now on the warden looks at it
            self.client.set_retry_policies([_WhileItRuns(server)])
        handle = self.client._handle_error

        def told(error: Exception) -> NoReturn:
            check_alive()
            handle(error)

        self.client._handle_error = told  # type: ignore[method-assign]

    @property
    def _held(self) -> Path:
        return Path(self.lock.lock_file).with_suffix(".lock")

    def stop(self) -> None:
        """End the session; the next `session()` begins another."""
        global _session
        with _lock:
            _session = None if _session is self else _session
            if not self.is_stopped:
                self.release_session_on_close = self.server is None or spark_server.is_alive(self.server)
                super().stop()
            if self.lock.is_locked:
                self._held.unlink(missing_ok=True)
                self.lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        stop()

    @property
    def ui(self) -> str:
        """Where Spark's own web pages about jobs, queries and executors are; when they are off, how to switch them on."""
        if self.server and self.server["ui"]:
            return f"Spark's UI is at http://{LOOPBACK}:{self.server['ui']}."
        return "Spark's UI is off. `kit down`, then set KIT_SPARK_UI=1 before Spark starts again."


class _WhileItRuns(DefaultPolicy):
    """Try again what a server that runs has not answered, as Spark does by itself; of one that has ended, tell at once."""

    def __init__(self, server: State) -> None:
        super().__init__()
        self.server = server

    def can_retry(self, exception: BaseException) -> bool:
        return spark_server.is_alive(self.server) and super().can_retry(exception)


class _Channel(DefaultChannelBuilder):
    """To a port of this machine by its number, with the token: "localhost" might lead to somebody else's port on ::1."""

    def toChannel(self) -> grpc.Channel:
        token = grpc.access_token_call_credentials(self.token)
        return self._secure_channel(self.endpoint, grpc.composite_channel_credentials(grpc.local_channel_credentials(), token))


def session(
    app: str = "kit", master: str | None = None, *, spark_ui: bool | None = None, say: Callable[[str], object] | None = None, **conf: Any
) -> SparkSession:
    """The Spark session of this Python: begun at the first call, found again at the next.

    `conf` are Spark settings by their own names: `session(**{"spark.sql.shuffle.partitions": 8})`. Those of queries
    (`spark.sql.*`) are the session's own and may change between calls; others are the server's, and can be given only by the
    call that starts it, as can `master` and `spark_ui` (or KIT_SPARK_MASTER, KIT_SPARK_UI=1: Spark's web pages, on
    127.0.0.1; `session().ui` says where). Where Spark has to be started, `say` is told so at once; without it a notebook's cell
    says so. LabError when Spark does not start, or runs with other settings than asked for.
    """
    global _session
    settings = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in conf.items()}
    of_server = {name: value for name, value in settings.items() if not name.startswith("spark.sql.")}
    with _lock:
        if _session is not None and (_session.is_stopped or not is_alive()):
            _session.stop()
        found = _session
        if found is None and (remote := os.environ.get("KIT_SPARK_REMOTE", "").strip()):
            found = _connected(DefaultChannelBuilder(_checked(remote)), None)
        elif found is None:
            is_learners = "ipykernel" in sys.modules and FOLDER not in os.environ  # with it, outputs are compared with another run's
            if (say or is_learners) and spark_server.living() is None:
                (say or print)(f"Spark is starting; {spark_server.last_start()}. Read on meanwhile.")
            server = spark_server.ensure(master, spark_ui, of_server)
            token = spark_warden.token_file(workspace.run_dir()).read_text()
            found = _connected(_Channel(f"sc://{LOOPBACK}:{server['port']}/;token={token}"), server)
        elif found.server is not None:
            spark_server.check(found.server, master, spark_ui, of_server)
        for name, value in settings.items():
            if name in of_server:
                continue
            try:
                found.conf.set(name, value)
            except PySparkException as error:
                raise LabError(
                    f"Spark already runs, and its setting {name} can only be given before it starts ({_first_line(error)}). "
                    "End it with `kit down`, then give the setting to the first session()."
                ) from error
        return cast(SparkSession, found)  # one of Spark Connect has the same methods and is of another class


def _connected(builder: DefaultChannelBuilder, server: State | None) -> Session:
    global _session
    _session = Session(builder, server)
    RemoteSession._set_default_and_active_session(_session)
    try:
        _session.version  # noqa: B018 - the first word with the server
    except PySparkException as error:
        _session.stop()
        raise LabError(f"Spark at {builder.endpoint} does not answer ({_first_line(error)}). Look at `kit status`.") from error
    return _session


def _checked(remote: str) -> str:
    if not re.match(r"sc://[^/;]+(:\d+)?(/;.*)?$", remote):
        told = remote.split(";")[0]
        raise KnobError(f"KIT_SPARK_REMOTE={told}: expected sc://host:port of a Spark Connect service. Set it so, or unset it.")
    return remote


def stop() -> None:
    """End this Python's Spark session. Does nothing when there is none."""
    with _lock:
        if _session is not None:
            _session.stop()


@contextmanager
def lent() -> Iterator[None]:
    """For a command: a session that it begins ends with it, and so does a Spark that was started for it, unless others use that by now."""
    before = _session
    with spark_server.lent():
        try:
            yield
        finally:
            if before is None:
                stop()


def is_alive() -> bool:
    """Whether the Spark of this Python's session runs; False when there is no session."""
    return _session is not None and (_session.server is None or spark_server.is_alive(_session.server))


def check_alive() -> None:
    """Raise LabError with the end of Java's log when the Spark of this Python's session has died."""
    if _session is None or is_alive():
        return
    server = _session.server or {}
    found = spark_server.read() or {}
    why = f" ({found['last_death']})" if found.get("last_death") else ""
    raise LabError(
        f"Spark's Java process {server['java']} ended{why}{spark_server.log_tail()}. Call session() for a new session; "
        "DataFrames, views and queries of the old one are gone, so run their cells again."
    )


def slots(spark: SparkSession) -> int:
    """How many tasks the session's Spark runs at a time, as Spark itself divides work that it may divide as it likes."""
    return len(spark.range(10_000).selectExpr("spark_partition_id() AS id").distinct().collect())


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


# A batch's function


def start(writer: DataStreamWriter, function: Callable[[DataFrame, int], None]) -> StreamingQuery:
    """Start a query whose batches `function` takes, though it needs what is in this Python: locks, clients, a trace that grows.

    Spark Connect runs such a function in a Python of its own beside the server. What is run there only knocks here, at a socket
    with a key, says which batch it is and by which name the server knows its rows, and waits until `function` has run in this
    Python. LabError where Spark is somebody else's service, which cannot knock here.
    """
    if _session is None or _session.server is None:
        raise LabError("What follows a stream batch by batch needs the lab's own Spark. Unset KIT_SPARK_REMOTE.")
    name = uuid.uuid4().hex
    _functions[name] = function, _session
    return writer.foreachBatch(functools.partial(knock, _door().address, _KEY, name)).start()


_KEY = secrets.token_bytes(32)
_functions: dict[str, tuple[Callable[[DataFrame, int], None], Session]] = {}


@functools.cache
def _door() -> Listener:
    door = Listener(None, "AF_UNIX", authkey=_KEY)

    def answer() -> None:
        while True:
            with suppress(OSError, EOFError, AuthenticationError):
                threading.Thread(target=_run_batch, args=(door.accept(),), daemon=True).start()

    threading.Thread(target=answer, daemon=True).start()
    return door


def _run_batch(line: Connection) -> None:
    with line, suppress(OSError, EOFError):
        name, rows, batch = line.recv()
        function, session_ = _functions[name]
        told = ""
        try:
            function(session_._create_remote_dataframe(rows), batch)
        except BaseException as error:  # noqa: BLE001 - whatever it is ends the query, as it would there
            told = f"{type(error).__name__}: {error}"
        line.send(told)


@atexit.register
def _at_end() -> None:
    """When this Python ends in good order, so does its session."""
    with suppress(Exception):
        stop()


if __name__ == "__main__":  # the warden's order to release the session of a Python that is gone
    with suppress(Exception):
        state_ = spark_server.living()
        token_ = spark_warden.token_file(workspace.run_dir()).read_text()
        address_ = f"sc://{LOOPBACK}:{state_['port']}/;token={token_};session_id={sys.argv[1]}" if state_ else ""
        RemoteSession(_Channel(address_), userId=USER).client.release_session()
