"""One quiet Spark session, on this machine only.

Left to itself, pyspark prints a wall of warnings into a notebook, opens its ports to the network,
starts whichever Java, Python and configuration the environment names, drops folders where the
notebook lies, and cannot be used again in the same kernel once its Java has died. `session()` gives a
session without any of that: the kit's Java and the kit's checked Kafka connector, every port on
127.0.0.1, what Java has to say in a file, all folders in the workspace, about a gigabyte of memory.

Spark lives in a Java process that watches its standard input: when the Python that started it ends,
however it ends, the pipe breaks and Java goes too. Should Java die first, the next `session()` lets
the dead one go and starts another.

Left out: tuning. Two cores, two shuffle partitions and the fast, simple compiler fit jobs of seconds;
for anything bigger point KIT_SPARK_MASTER at a cluster.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyspark
from filelock import FileLock, Timeout
from py4j.protocol import ERROR, Py4JError, Py4JNetworkError
from pyspark.conf import SparkConf
from pyspark.core.context import SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kitlib.errors import LabError
from kitlib.lab import java, supervisor, workspace
from kitlib.lab.jars import ensure_jars
from kitlib.lab.processes import limits

LOCAL_MASTER = "local[2]"
LOOPBACK = "127.0.0.1"
DRIVER_MEMORY = "1g"
SECONDS_TO_END = 10.0
SECONDS_TO_ANSWER = 5.0
LOGS_KEPT = 5
LONGEST_SOCKET_PATH = 103 if sys.platform == "darwin" else 107  # bytes
SOCKET_NAME = "/.01234567-89ab-cdef-0123-456789abcdef.sock"  # what Spark calls them

# Java's own flags: the first compiler alone and one collector thread are quicker for short jobs on two cores.
JAVA_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8")
# For jobs of minutes: the second compiler pays for itself, and the collector may use both cores.
LONG_JOB_FLAGS = ("-XX:+UseParallelGC", "-Dfile.encoding=UTF-8")

LOG4J = """\
# Written by the kit for each Spark session: warnings go to a file, never into a notebook.
status = fatal
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = ${sys:kit.spark.log}
appender.file.filePattern = ${sys:kit.spark.log}.old
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 4MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
"""

# `session` and `stop` may be called from two threads of one kernel (a widget's and a cell's).
_lock = threading.RLock()


class Session(SparkSession):
    """A Spark session whose `stop()` also ends the Java process behind it, and so gives its memory back."""

    def stop(self) -> None:
        """End the session and its Java; the next `session()` starts both anew."""
        stop()

    @property
    def ui(self) -> str:
        """Where Spark's own web pages about jobs, queries and executors are; when they are off, how to switch them on."""
        if address := self.sparkContext.uiWebUrl:
            return f"The Spark UI of this session is at http://{LOOPBACK}:{address.rpartition(':')[2]}."
        return "The Spark UI is off. Restart the kernel, and begin with session(spark_ui=True), or set KIT_SPARK_UI=1 for all notebooks."


def session(
    app: str = "kit",
    master: str | None = None,
    *,
    java_flags: tuple[str, ...] = JAVA_FLAGS,
    spark_ui: bool | None = None,
    **conf: Any,
) -> Session:
    """The Spark session of this Python: made at the first call (some seconds), found again at the next.

    `master` is `local[2]` unless it or KIT_SPARK_MASTER says otherwise. `conf` are Spark settings by
    their own names: `session(**{"spark.sql.shuffle.partitions": 8})`; settings of a query may change
    between calls, others and `java_flags` only before the first. `spark_ui`, or KIT_SPARK_UI=1, switches on Spark's web
    pages, on 127.0.0.1; `session().ui` says where. LabError when Spark does not start, when a session with another
    master or without the pages that were asked for is in the way, or one that somebody else made, and for the pages with
    a cluster's master.
    """
    wanted = master or os.environ.get("KIT_SPARK_MASTER") or LOCAL_MASTER
    settings = {name: _text(value) for name, value in conf.items()}
    has_ui = os.environ.get("KIT_SPARK_UI", "") not in ("", "0") if spark_ui is None else spark_ui
    with _lock:
        if not is_alive():
            _forget()
        context = SparkContext._active_spark_context
        if context is None:
            if has_ui and not is_local(wanted):
                raise LabError(
                    f"The Spark UI of a session on {wanted} would be open to the network. Leave out spark_ui and KIT_SPARK_UI; "
                    "the cluster's own pages show this session."
                )
            _check_master(wanted)
            return _start(app, wanted, java_flags, {"spark.ui.enabled": _text(has_ui), **settings})
        found = SparkSession._instantiatedSession
        if not isinstance(found, Session):
            raise LabError(
                f"Spark already runs in this Python as {context.appName!r}, started by other means than the kit's session(). "
                "Stop that one with its stop(), or restart the kernel."
            )
        if master and context.master != master:
            raise LabError(
                f"Spark already runs in this Python with master {context.master}, {master} was asked for. "
                "Call stop() on the running session first."
            )
        if spark_ui and context.uiWebUrl is None:
            raise LabError("Spark already runs in this Python without its UI. Call stop() on the running session first.")
        _adjust(found, settings)
        return found


def stop(patience_s: float = SECONDS_TO_END) -> None:
    """End this Python's Spark session and its Java process, which is killed after `patience_s`. Does nothing when there is none."""
    with _lock:
        _forget(patience_s)


def is_alive() -> bool:
    """Whether the Java process of this Python's Spark runs; False when none was started."""
    process = java_process()
    return process is not None and process.poll() is None


def check_alive(patience_s: float = 0.0, process: subprocess.Popen[bytes] | None = None) -> None:
    """Raise LabError with the end of Java's log when Spark's Java has died, or does in `patience_s`; `process` is an earlier one."""
    process = process or java_process()
    with suppress(subprocess.TimeoutExpired):
        if process is not None and patience_s:
            process.wait(patience_s)
    if process is not None and process.poll() is not None:
        how = f"killed by signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
        raise LabError(
            f"Spark's Java process {process.pid} ended ({how}){_log_tail()}. "
            "Call session() for a new one; DataFrames of the old session are gone, so run their cells again."
        ) from None


def java_process() -> subprocess.Popen[bytes] | None:
    """The Java process of this Python's Spark; None when none was started."""
    return getattr(SparkContext._gateway, "proc", None)


def log_file() -> Path:
    """Where this Python's Spark writes its warnings."""
    return workspace.run_dir() / "spark" / f"spark-{os.getpid()}.log"


def _check_master(master: str) -> None:
    """Raise LabError when nothing answers at a `spark://` master: Spark itself says so after a minute, by ending its Java."""
    places = master.removeprefix("spark://").split(",") if master.startswith("spark://") else []
    why = ""
    for place in places:
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host, int(port)), SECONDS_TO_ANSWER).close()
            return
        except (OSError, ValueError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
    if places:
        raise LabError(
            f"Spark's master {master} cannot be reached ({why}). Start it, or unset KIT_SPARK_MASTER: Spark then runs on this machine."
        )


def _start(app: str, master: str, java_flags: tuple[str, ...], settings: dict[str, str]) -> Session:
    _forget()  # a Java that was started by other means would not be quiet
    workspace.ensure()
    found = java.find_java()
    jars = ensure_jars("spark")
    conf = SparkConf(loadDefaults=False)
    for name, value in _settings(app, master, java_flags, jars, settings).items():
        conf.set(name, value)
    environment = _environment(java.spark_java_home(found), master)
    try:
        with _environment_of(environment), open(log_file().with_suffix(".out"), "w", encoding="utf-8") as output:
            SparkContext._gateway = launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
            SparkContext._jvm = SparkContext._gateway.jvm
            context = SparkContext(conf=conf, gateway=SparkContext._gateway)
            _hush(context)
            return Session(context)
    except (PySparkException, Py4JError, OSError) as error:
        tail = _log_tail()
        _forget()
        raise LabError(
            f"Spark {master} did not start with Java {found.version} from {found.source} "
            f"({_first_line(error)}){tail}. {limits()}`kit doctor` checks Java, memory and jars."
        ) from error


def _settings(app: str, master: str, java_flags: Sequence[str], jars: list[Path], own: Mapping[str, str]) -> dict[str, str]:
    """What every session of the kit is started with, and over it the caller's own settings; to those for jars the connector is added."""
    scratch = _scratch()
    log4j = scratch / "log4j2.properties"
    workspace.write_atomic(log4j, LOG4J)
    with_ours = ",".join([*(jar.as_uri() for jar in jars), *filter(None, [own.get("spark.jars")])])
    options = [
        *(f'"{flag}"' for flag in java_flags),
        f'"-Djava.io.tmpdir={scratch}"',
        f'"-Dderby.system.home={scratch}"',
        f'"-Dkit.spark.log={log_file()}"',
        f'"-Dlog4j2.configurationFile={log4j.as_uri()}"',
    ]
    if token := os.environ.get("KIT_RUN"):
        options.append(f"-Dkit.run={token}")
    settings = {
        "spark.app.name": app,
        "spark.master": master,
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.ui.enabled": "false",
        "spark.ui.killEnabled": "false",  # its pages show, and change nothing
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.adaptive.enabled": "false",  # re-planning costs more than it saves on two partitions
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # a JSON line on stderr for each error
        "spark.sql.codegen.cache.maxEntries": "1000",  # one audit alone makes more than the usual 100
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.warehouse.dir": (workspace.spark_dir() / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.streaming.stopTimeout": "10s",
        "spark.local.dir": str(scratch),
    }
    if is_local(master):
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK} | _sockets()
        settings["spark.python.daemon.module"] = "kitlib.lab.spark_daemon"
    return {**settings, **own, "spark.jars": with_ours}


def _sockets() -> dict[str, str]:
    """Let Java and Python meet in a folder, if its path is fit for a socket, and not at a port.

    At a port Java serves whoever comes first, and that can be a Kafka client which looks for a broker that
    listened there before. A path may be too long for a socket; and PySpark 4.2's worker puts that of a state
    server into lower case (`worker.py`, `Conf.get`), so one with a capital letter in it would not be found.
    """
    folder = _socket_folder()
    is_short = len(os.fsencode(folder) + SOCKET_NAME.encode()) <= LONGEST_SOCKET_PATH
    if not is_short or str(folder) != str(folder).lower():
        return {}
    folder.mkdir(parents=True, exist_ok=True)
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(folder)}


def is_local(master: str) -> bool:
    """Whether the executors of this master are on this machine and started by Spark itself."""
    return master.startswith("local")


def _environment(java_home: Path, master: str) -> dict[str, str]:
    """What Spark's Java is started with: nothing foreign, the kit's Java, this very Python."""
    environment = java.clean_java_env(os.environ)
    environment |= {"JAVA_HOME": str(java_home), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    environment["SPARK_HOME"] = str(_spark_home())  # without spark-defaults and spark-env
    if is_local(master):
        environment["SPARK_LOCAL_IP"] = LOOPBACK
    if environment.get("LC_ALL") in ("C", "POSIX"):
        environment["LC_ALL"] = "C.UTF-8"  # else Java 17 cannot open a path with an umlaut
    return supervisor.with_kitlib(environment)


@contextmanager
def _environment_of(environment: Mapping[str, str]) -> Iterator[None]:
    """pyspark reads the environment of its own process; give it ours while it starts."""
    before = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(environment)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _spark_home() -> Path:
    """pyspark's programs and jars without its archive, from which each Python of Spark's would import, compiling it anew."""
    home = scratch_folder() / "home"
    home.mkdir(exist_ok=True)
    for name in ("bin", "jars"):
        with suppress(FileExistsError):
            (home / name).symlink_to(Path(pyspark.__file__).with_name(name))
    return home


def _scratch() -> Path:
    """A folder for this Python's temporary files; removed at its end, or by a later start after a crash."""
    _hold(log_file().with_suffix(".lock"))
    ended = []
    for path in sorted(log_file().parent.glob("spark-*.lock"), key=lambda path: path.stat().st_mtime, reverse=True):
        with suppress(Timeout), FileLock(path, timeout=0):
            ended.append(path)
            pid = path.stem.removeprefix("spark-")
            for left in (workspace.spark_dir() / "scratch" / pid, path.with_name(pid)):
                shutil.rmtree(left, ignore_errors=True)
            for old in path.parent.glob(f"{path.stem}.*") if len(ended) > LOGS_KEPT else ():
                old.unlink(missing_ok=True)
    own = scratch_folder()
    own.mkdir(parents=True, exist_ok=True)
    return own


@cache
def _hold(path: Path) -> FileLock:
    """Lock this file until this Python ends, however it ends: what bears its process id is in use until then."""
    lock = FileLock(path, mode=0o600, thread_local=False)
    lock.acquire()
    return lock


def scratch_folder() -> Path:
    """This Python's folder for temporary files of Spark; gone with its session."""
    return workspace.spark_dir() / "scratch" / str(os.getpid())


def _socket_folder() -> Path:
    return log_file().with_name(str(os.getpid()))


def _adjust(found: Session, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        if found.sparkContext.getConf().get(name) == value:
            continue
        try:
            found.conf.set(name, value)
        except PySparkException as error:
            raise LabError(
                f"Spark already runs, and its setting {name} can only be given before it starts ({_first_line(error)}). "
                "Call stop() on the running session first."
            ) from error


def _forget(patience_s: float = SECONDS_TO_END) -> None:
    """End what can be ended, and clear every place where pyspark remembers it."""
    gateway, context, found = SparkContext._gateway, SparkContext._active_spark_context, SparkSession._instantiatedSession
    process = java_process()
    if context is not None:
        if is_alive():
            with suppress(Exception):  # Java may die at any moment of this; what follows ends it anyway
                SparkSession.stop(found) if found is not None else context.stop()
        if server := getattr(context, "_accumulatorServer", None):
            server.shutdown()
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
    if process is not None:
        _end(process, patience_s)
        for folder in (scratch_folder(), _socket_folder()):
            shutil.rmtree(folder, ignore_errors=True)
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def _end(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Break Java's standard input, at which it ends by itself; kill it when it does not."""
    try:
        process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _log_tail() -> str:
    """Where the log is and its last complaint, as the end of a sentence; empty when there is no log."""
    if full := workspace.full_disk():
        return f"; {full}"
    for path in (log_file(), log_file().with_suffix(".out")):
        with suppress(OSError):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            if told := [line.strip() for line in lines if re.search(r"\bERROR\b|\bFATAL\b|Exception|Error:", line)]:
                return f"; its log {path} ends with: {told[-1][:200].rstrip('.')}"
    return f"; its log is {log_file()}" if log_file().exists() else ""


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _hush(context: SparkContext) -> None:
    """When this session's Java has died, `check_alive` speaks in place of Py4J, even in a cell that runs beside a newer session."""
    for name in (None, "py4j.clientserver"):  # the second is of the callbacks of streaming queries
        logging.getLogger(name).addFilter(_is_worth_saying)
    tell = (server := context._accumulatorServer).handle_error
    client, process = context._gateway._gateway_client, java_process()  # type: ignore[union-attr]
    send = client.send_command

    def handle_error(request: Any, address: Any) -> None:
        with suppress(LabError):
            check_alive(1.0, process)
            tell(request, address)

    def send_command(*command: Any, **options: Any) -> Any:
        with suppress(Py4JNetworkError, OSError):
            if (answer := send(*command, **options)) != ERROR:
                return answer
        check_alive(1.0, process)  # Java's sockets close before it has ended
        return ERROR

    server.handle_error = handle_error  # type: ignore[method-assign, assignment]
    client.send_command = send_command


def _is_worth_saying(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway" and (record.module != "clientserver" or is_alive())


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@atexit.register
def _at_end() -> None:
    """When this Python ends in good order, so do its Spark and its scratch folder."""
    with suppress(Exception):
        stop()
