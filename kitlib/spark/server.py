"""Finds the Spark server that all notebooks of a user share, or starts it; whoever asks first starts it.

`ensure` returns what its warden (`kitlib.spark.warden`) tells of a server that listens, however many callers ask at once;
`status` looks without changing anything; `down` ends it, leaving no process. Sessions on it are `kitlib.spark.sessions`'s, so that
nothing here has to load pyspark.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock

from kitlib.errors import DiskError, LabError
from kitlib.lab import java, processes, state, supervisor, workspace
from kitlib.lab.brokers.ports import draw
from kitlib.lab.jars import ensure_jars
from kitlib.lab.processes import end_warden, find, wait_until
from kitlib.lab.workspace import home_mark
from kitlib.spark import knock
from kitlib.spark.warden import (
    LOOPBACK,
    SERVER,
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    State,
    folder_of,
    state_file,
)

# Two slots that one job may take, and one that is left to the next: a sweep does not keep a cell waiting.
LOCAL_MASTER = "local[3]"
DRIVER_MEMORY = "2g"  # at most
LAST_START = "last_start_s"  # the file that says how long it took
SECONDS_TO_RELEASE = 5.0
LONGEST_SOCKET_PATH = 103 if sys.platform == "darwin" else 107  # bytes
SOCKET_NAME = "/.01234567-89ab-cdef-0123-456789abcdef.sock"  # what Spark calls them
FILES = Path(__file__).parent  # Spark's own settings, and those of its log and of its one pool


def read() -> State | None:
    """What the last warden wrote down, whether it lives or not."""
    return state.read_json(state_file(workspace.run_dir()))


def living() -> State | None:
    """The same, if the warden that wrote it lives."""
    found = read()
    process = find(found["pid"], f"--run={found['run']}") if found else None
    if process is None:
        return None
    process.resume()  # one that was stopped is woken: whoever asks may wait for it
    return found


def is_alive(server: State) -> bool:
    return find(server["java"], f"-Dkit.run={server['run']}") is not None


def ensure(master: str | None = None, spark_ui: bool | None = None, settings: Mapping[str, str] | None = None) -> State:
    """The state of the running server, started first if there is none; safe to call from many processes at once."""
    found = _settled()
    if found is None:
        workspace.ensure()
        with FileLock(workspace.run_dir() / "spark.start.lock", mode=0o600):
            found = _settled() or _start(master or os.environ.get("KIT_SPARK_MASTER") or LOCAL_MASTER, spark_ui, dict(settings or {}))
    check(found, master, spark_ui, settings or {})
    return found


def check(found: State, master: str | None, spark_ui: bool | None, settings: Mapping[str, str]) -> None:
    """Raise LabError when a server was started otherwise than it is asked for now."""
    trouble = ""
    if master and master != found["master"]:
        trouble = f"with master {found['master']}, {master} was asked for"
    if spark_ui and not found["ui"]:
        trouble = "without its UI"
    for name, value in settings.items():
        if found["own"].get(name) != value:
            trouble = f"and its setting {name} can only be given before it starts"
    if trouble:
        raise LabError(f"Spark already runs {trouble}. End it with `kit down`, then try again.")


def _settled() -> State | None:
    """The state of a server that listens; None when there is none, or it ended while it started."""

    def look() -> State | str:
        found = living()
        return "none" if found is None else found if found["phase"] == "running" and is_alive(found) else ""

    found = wait_until(look, START_TIMEOUT_S + 10, "Spark has started")
    return found if isinstance(found, dict) else None


def _start(master: str, spark_ui: bool | None, own: dict[str, str]) -> State:
    """Start a warden and wait until Spark listens. LabError when it does not. The caller holds the starter's lock."""
    has_ui = os.environ.get("KIT_SPARK_UI", "") not in ("", "0") if spark_ui is None else spark_ui
    if has_ui and not is_local(master):
        raise LabError(
            f"Spark's UI on {master} would be open to the network. Leave out spark_ui and KIT_SPARK_UI; "
            "the cluster's own pages show its jobs."
        )
    chosen, jars, run = java.find_java(), ensure_jars("spark"), uuid.uuid4().hex
    ui = draw(1)[0] if has_ui else 0
    folder = folder_of(workspace.run_dir())
    spec = {
        "run": run, "mark": f"-Dkit.spark.home={home_mark()}", "run_dir": str(workspace.run_dir()),
        "scratch": [str(_scratch()), str(_sockets_folder()), str(folder / "clients")], "told": {"master": master, "ui": ui, "own": own},
        "command": [str(_distribution() / "bin" / "spark-submit"), "--class", SERVER],
        "settings": _settings(master, jars, run, ui) | own,
        "environment": supervisor.with_kitlib(_environment(java.spark_java_home(chosen), master)),
    }  # fmt: skip
    log = folder / "warden.log"
    with log.open("wb") as output:
        process = supervisor.start_warden("kitlib.spark.warden", f"--spark-of={home_mark()}", f"--run={run}", spec=spec, output=output)

    def look() -> State | None:
        found = read()
        is_ours = found is not None and found["run"] == run
        if found is not None and is_ours and found["phase"] == "running":
            return found
        if process.poll() is not None:
            why = found["message"] if found is not None and is_ours else (workspace.last_lines(log, 1) or ["its warden ended"])[0]
            raise LabError(
                f"Spark {master} did not start with Java {chosen.version} from {chosen.source} ({why}){log_tail()}. "
                f"{processes.limits()}`kit doctor` checks Java, memory and jars."
            )
        return None

    began = time.monotonic()
    try:
        found = wait_until(look, START_TIMEOUT_S + 10, "Spark listens")
    except BaseException:
        process.terminate()
        raise
    assert found is not None
    with suppress(DiskError):
        workspace.write_atomic(folder / LAST_START, f"{time.monotonic() - began:.1f}")
    return found


def last_start() -> str:
    """How long a start takes, 5 seconds or 60 by machine and load: as long as the last one here, or what is known of others."""
    try:
        return f"the last time it took {float(workspace.read_regular(folder_of(workspace.run_dir()) / LAST_START, 100)):.0f} s"
    except (OSError, ValueError, DiskError):
        return "on a cold machine it takes 20 to 60 s"


def down() -> bool:
    """End the lab's Spark and its warden; whether there was anything to end."""
    ended = end_warden(f"--spark-of={home_mark()}", f"-Dkit.spark.home={home_mark()}", STOP_TIMEOUT_S)
    state_file(workspace.run_dir()).unlink(missing_ok=True)
    return ended


@contextmanager
def lent() -> Iterator[None]:
    """At the end, end the Spark that was started meanwhile, unless others use it by then."""
    was_running = living() is not None
    try:
        yield
    finally:
        if not was_running:
            with suppress(LabError):  # sessions of kernels that have just ended are released in a moment
                wait_until(lambda: not sessions(), SECONDS_TO_RELEASE, "no session is left")
            if not sessions():
                down()


def status() -> tuple[str, str]:
    """What there is in one word (running, starting, failed, stopped, external) and one sentence."""
    if remote := os.environ.get("KIT_SPARK_REMOTE"):
        return "external", f"KIT_SPARK_REMOTE names {remote.split(';')[0]}; the kit neither starts nor ends it."
    found = read()
    if found is not None and found["phase"] == "failed":
        return "failed", f"Spark gave up: {found['message']}. `kit logs spark` shows its log; the next session() starts it again."
    if (found := living()) is None:
        return "stopped", "Spark is not running; the first session() starts it."
    restarts = f", restarted {found['restarts']} time(s), last: {found['last_death']}" if found["restarts"] else ""
    pages = f", UI http://{LOOPBACK}:{found['ui']}" if found["ui"] else ""
    return found["phase"], f"Spark: {found['phase']}, {found['master']}, process {found['java']}, {sessions()} session(s){pages}{restarts}."


def sessions() -> int:
    """How many Pythons have a session."""
    return len([*(folder_of(workspace.run_dir()) / "clients").glob("*.lock")])


def log_file() -> Path:
    """Where Spark writes its warnings."""
    return folder_of(workspace.run_dir()) / "spark.log"


def log_files() -> list[Path]:
    """The log, if there is one."""
    return [path for path in [log_file()] if path.is_file()]


def is_local(master: str) -> bool:
    """Whether the executors of this master are on this machine and started by Spark itself."""
    return master.startswith("local")


def _settings(master: str, jars: list[Path], run: str, ui: int) -> dict[str, str]:
    """What the server is started with."""
    scratch = _scratch()
    options = [
        f"-Djava.io.tmpdir={scratch}", f"-Dderby.system.home={scratch}", f"-Dkit.spark.log={log_file()}",
        f"-Dlog4j2.configurationFile={(FILES / 'log4j2.properties').as_uri()}", f"-Dkit.spark.home={home_mark()}", f"-Dkit.run={run}",
    ]  # fmt: skip
    lines = (FILES / "spark.properties").read_text(encoding="utf-8").splitlines()
    settings = dict(line.split("=", 1) for line in lines if not line.startswith("#")) | {
        "spark.master": master,
        "spark.jars": ",".join(jar.as_uri() for jar in sorted(jar.resolve() for jar in jars)),
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": " ".join(f'"{option}"' for option in options),
        "spark.scheduler.allocation.file": str(FILES / "fair.xml"),
        "spark.ui.enabled": str(ui > 0).lower(),
        "spark.ui.port": str(ui),
        "spark.sql.warehouse.dir": (workspace.spark_dir() / "warehouse").as_uri(),
        "spark.local.dir": str(scratch),
    }
    if is_local(master) or LOOPBACK in master:  # no executor can be elsewhere
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    if is_local(master):
        settings |= _sockets()
    if master.startswith("local["):
        settings["spark.python.daemon.module"] = "kitlib.spark.daemon"
    return settings


def _sockets() -> dict[str, str]:
    """Let Java and Python meet in a folder, if its path is fit for a socket, and not at a port.

    At a port Java serves whoever comes first, and that can be a Kafka client which looks for a broker that listened there before. A path
    may be too long for a socket; and PySpark 4.2's worker puts that of a state server into lower case (`worker.py`, `Conf.get`).
    """
    folder = _sockets_folder()
    is_short = len(os.fsencode(folder) + SOCKET_NAME.encode()) <= LONGEST_SOCKET_PATH
    if not is_short or str(folder) != str(folder).lower():
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(folder)}


def _sockets_folder() -> Path:
    return folder_of(workspace.run_dir()) / "sockets"


def _scratch() -> Path:
    """The server's temporary files; gone with it."""
    return workspace.spark_dir() / "scratch"


def _distribution() -> Path:
    """A folder with Spark's programs and jars, without the archive of pyspark that lies beside them.

    With it every Python that Spark starts would read and compile pyspark anew; without, it finds the installed one, compiled.
    """
    spec = importlib.util.find_spec("pyspark")  # pyspark itself takes a while to import
    assert spec is not None and spec.origin is not None
    home = folder_of(workspace.run_dir()) / "home"
    home.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        (home / name).unlink(missing_ok=True)
        (home / name).symlink_to(Path(spec.origin).with_name(name), target_is_directory=True)
    return home


def _python() -> Path:
    """This very Python, which runs `kitlib.spark.knock` where Spark asks for its own; a listener's would print the token."""
    path = _distribution() / "python"
    workspace.write_atomic(path, f"""#!/bin/sh
case "$2" in {knock.STOCK}) set -- -m {knock.__name__} ;; *.listener_worker) exec >/dev/null ;; esac
exec {shlex.quote(sys.executable)} "$@"
""")
    path.chmod(0o700)
    return path


def _environment(java_home: Path, master: str) -> dict[str, str]:
    """What Spark's Java is started with: nothing foreign, the kit's Java, this very Python."""
    environment = java.clean_java_env(os.environ)
    for name in ("KIT_RUN", "SPARK_CONNECT_MODE_ENABLED"):
        environment.pop(name, None)
    python = str(_python()) if is_local(master) else sys.executable
    environment |= {"JAVA_HOME": str(java_home), "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    # A folder without spark-defaults or spark-env.
    environment |= {"SPARK_HOME": str(_distribution()), "SPARK_CONF_DIR": str(folder_of(workspace.run_dir()) / "no-conf")}
    if is_local(master):
        environment["SPARK_LOCAL_IP"] = LOOPBACK
    if environment.get("LC_ALL") in ("C", "POSIX"):
        environment["LC_ALL"] = "C.UTF-8"  # else Java 17 cannot open a path with an umlaut
    return environment


def log_tail() -> str:
    """Where the log is and its last complaint, as the end of a sentence; empty when there is no log."""
    if full := workspace.full_disk():
        return f"; {full}"
    for path in (log_file(), log_file().with_suffix(".out")):
        with suppress(OSError):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            if told := [line.strip() for line in lines if re.search(r"\bERROR\b|\bFATAL\b|Exception|Error:", line)]:
                return f"; its log {path} ends with: {told[-1][:200].rstrip('.')}"
    return f"; its log is {log_file()}" if log_file().exists() else ""
