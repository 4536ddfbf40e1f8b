"""Finds the broker that all notebooks of a user share, or starts it; whoever asks first starts it.

Callers see four verbs. `ensure` returns a `Cluster` that answers, however many callers ask at once.
`status` looks without changing anything. `down` ends it, leaving no process. `kill_node` and `restart`
are for experiments: the broker dies as in a power cut, or stops in order, and is back within seconds. With
`KIT_KAFKA_BOOTSTRAP` all of them speak of that cluster instead, which the kit neither starts nor ends.

The work is done by `kitlib.lab.brokers.warden`, a background process; this module starts and finds it.
"""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psutil

from kitlib.errors import DiskError, KnobError, LabError
from kitlib.lab import clients, jars, java, state, supervisor, workspace
from kitlib.lab.brokers import node, ports, warden
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.processes import end_warden, find_all, is_alive, wait_until
from kitlib.lab.state import Say, say_on_stderr
from kitlib.lab.workspace import home_mark

__all__ = ["Cluster", "Status", "client_config", "down", "ensure", "kill_node", "log_files", "restart", "start_node", "status"]

BROKERS = (1, 3)
# How a node can be ended for a restart: asked to (it writes down all it knows), or with SIGKILL.
ENDINGS = ("clean", "kill")
# The longest that a start, a restart or somebody else's start may take, jars not counted.
START_TIMEOUT_S = 150.0
RESTART_TIMEOUT_S = 60.0
# How long a broker that was killed may take to be gone: its memory is given back first, and the machine may be busy.
KILL_TIMEOUT_S = 20.0
# A silent broker may be busy; after this it counts as paused or stuck.
SILENCE_TIMEOUT_S = 5.0
# Who only looks at an external cluster does not wait long.
STATUS_TIMEOUT_S = 3.0
HEAP_VARIABLE = "KIT_BROKER_HEAP_MB"


@dataclass(frozen=True, slots=True)
class Status:
    """What there is, in one word (`phase`), one sentence, and the details per node."""

    # running, starting, silent, held, stopping, failed, stopped; external clusters: running or silent.
    phase: str
    sentence: str
    bootstrap: str | None = None
    cluster_id: str | None = None
    source: str = "kit"
    # Unix time of the warden's start.
    since: float | None = None
    nodes: tuple[state.NodeState, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_running(self) -> bool:
        return self.phase == "running"


def external_bootstrap() -> str | None:
    """The cluster that `KIT_KAFKA_BOOTSTRAP` names, or None."""
    return os.environ.get("KIT_KAFKA_BOOTSTRAP", "").strip() or None


def ensure(brokers: int | None = None, progress: Say | None = None) -> Cluster:
    """The running cluster, started first if there is none; safe to call from many processes at once.

    `brokers` is 1 or 3; None takes what runs, or starts 1. `progress` gets a line now and then, stderr
    without it; nothing is said when the cluster runs already. LabError when a set of another size runs,
    when Kafka does not start or does not answer.
    """
    if brokers not in (None, *BROKERS):
        raise KnobError(f"--brokers {brokers}: the kit runs 1 or 3 brokers. Choose one of them.")
    if bootstrap := external_bootstrap():
        return _external(bootstrap)
    found, say = _settled(), progress or say_on_stderr
    if found is None:
        workspace.ensure()
        trouble = "Another process has been starting Kafka for 10 minutes. End it, then try again."
        waiting = partial(say, "another process is starting Kafka; waiting for it")
        with workspace.holding(workspace.run_dir() / "kafka.start.lock", 600.0, trouble, waiting):
            wait_until(lambda: living_state() or not _is_held(), warden.STOP_TIMEOUT_S * 2, "an earlier Kafka has ended")
            found = _settled() or _start(brokers or 1, say)
    if brokers is not None and found.brokers != brokers:
        raise LabError(
            f"A set of {found.brokers} is running at {found.bootstrap}, {brokers} were asked for. "
            f"End it with `kit down`, then `kit up --brokers {brokers}`; each set keeps data of its own."
        )
    return _cluster(found)


def down(progress: Say | None = None) -> bool:
    """End the kit's brokers and their warden, gracefully if they can; whether there was anything to end."""
    if external_bootstrap():
        return False
    say = progress or say_on_stderr
    ended = end_warden(f"--home={home_mark()}", f"-Dkit.home={home_mark()}", warden.STOP_TIMEOUT_S, lambda: say("stopping Kafka"))
    warden.state_file(workspace.run_dir()).unlink(missing_ok=True)
    return ended


def status() -> Status:
    """What runs and whether it answers; nothing is started, ended or mended."""
    if bootstrap := external_bootstrap():
        try:
            cluster = _external(bootstrap, STATUS_TIMEOUT_S)
        except LabError as error:
            return Status("silent", str(error), bootstrap, source="external")
        return Status("running", f"KIT_KAFKA_BOOTSTRAP: {cluster.brokers} broker(s) answer at {bootstrap}.",
                      bootstrap, cluster.cluster_id, "external")
    found = read()
    is_watched = found is not None and found.warden is not None
    if not is_watched and (left := find_all(f"-Dkit.home={home_mark()}")):
        told = f"Kafka (process {', '.join(str(each.pid) for each in left)}) runs, but what looked after it has ended."
        return Status("failed", f"{told} `kit up` ends it and starts it again, `kit down` only ends it.")
    if found is None:
        return Status("stopped", "No broker is running. `kit up` starts one.")
    if not is_watched:
        if found.phase == "failed":
            return Status("failed", found.message, since=found.since, notes=found.notes)
        full = workspace.full_disk()
        told = f"; {full}. Make room there, then" if full else "."
        return Status("stopped", f"No broker is running: the one that was ended without a word{told} `kit up` starts it again.")
    nodes = tuple(_looked_at(found, each) for each in found.nodes)
    phase = found.phase
    if phase == "running":
        seen = {"starting" if each.phase == "dead" else each.phase for each in nodes}
        phase = "held" if seen == {"held"} else next((wanted for wanted in ("silent", "starting") if wanted in seen), phase)
    told = _sentence(found, nodes, phase)
    if _is_paused(found.pid):
        told += f" The warden (process {found.pid}) is paused; `kill -CONT {found.pid}` wakes it."
    return Status(phase, told, found.bootstrap, found.cluster_id, "kit", found.since, nodes, found.notes)


@contextmanager
def telling_troubles() -> Iterator[None]:
    """A LabError of this block says as well what a broker of the kit's has run out of meanwhile: disk, files or memory."""
    ends = {path: path.stat().st_size for path in log_files()}
    try:
        yield
    except LabError as error:
        for path in log_files():
            with path.open("rb") as file:
                end = ends.get(path, 0)
                file.seek(end if os.fstat(file.fileno()).st_size >= end else 0)  # it was rotated
                if cause := node.starved_of(file.read().decode(errors="replace"), workspace.data_dir()):
                    raise LabError(f"{error} The broker is in trouble: {cause}.") from error
        raise


def kill_node(number: int = 1, hold: bool = False) -> int:
    """Kill a broker with SIGKILL, as a power cut would; returns the id of the process that is no more.

    The warden starts it again at once, on the same ports and data; with `hold` only after `start_node`.
    LabError when there is no such broker or it does not run.
    """
    return _end_node(number, "kill", hold, KILL_TIMEOUT_S)


def restart(how: str = "clean", number: int = 1, timeout_s: float = RESTART_TIMEOUT_S) -> Cluster:
    """End a broker and wait until it serves again, on the same ports and data; the cluster with its new process.

    "clean" asks the broker to stop: it flushes its logs and writes what it knows of its producers down.
    "kill" is SIGKILL: it must recover from what is in the logs. LabError when it does not run, or does
    not serve again within `timeout_s` seconds; KnobError for any other `how`.
    """
    if how not in ENDINGS:
        raise KnobError(f"restart(how={how!r}): a broker is ended {' or '.join(map(repr, ENDINGS))}. Choose one of them.")
    deadline = time.monotonic() + timeout_s
    ended = _end_node(number, how, False, timeout_s)

    def serves() -> state.ClusterState | None:
        found = _own_state()
        wanted = _node(found, number)
        is_new = wanted.phase == "running" and wanted.pid not in (None, ended)
        return found if is_new and ports.serves_producers(wanted.port) else None

    found = wait_until(serves, max(0.1, deadline - time.monotonic()), f"broker {number} serves again")
    assert found is not None
    return _cluster(found)


def _end_node(number: int, how: str, hold: bool, timeout_s: float) -> int:
    """End a broker by one of the ENDINGS, with the warden told before that this is wanted; the ended process's id."""
    found = _own_state()
    wanted = _node(found, number)
    process = found.java(wanted)
    if process is None:
        raise LabError(f"Broker {number} does not run (it is {wanted.phase}). Wait until it is; `kit status` shows it.")
    warden.request(workspace.run_dir(), "asked", process.pid).touch()
    if hold:
        warden.request(workspace.run_dir(), "held", number).touch()
    if how == "kill":
        process.kill()
    else:
        process.terminate()
        process.resume()  # a paused broker can obey only then
    wait_until(lambda: not is_alive(process), timeout_s, f"broker {number} has ended")
    return int(process.pid)


def start_node(number: int) -> None:
    """Let a held broker start again, and wait until it serves; LabError when it does not."""
    _node(_own_state(), number)
    warden.request(workspace.run_dir(), "held", number).unlink(missing_ok=True)

    def serves() -> bool:
        found = _own_state()
        wanted = _node(found, number)
        return wanted.phase == "running" and found.java(wanted) is not None  # the warden may not have seen yet that it is dead

    wait_until(serves, START_TIMEOUT_S, f"broker {number} serves again")


def log_files() -> list[Path]:
    """The nodes' log files that exist."""
    numbers = range(1, max(BROKERS) + 1)
    return [path for path in (node.log_file(workspace.run_dir(), each) for each in numbers) if path.is_file()]


# The start


def _start(brokers: int, say: Say) -> state.ClusterState:
    """Start a warden and wait until its brokers serve. The caller holds the starter's lock."""
    began = time.monotonic()
    chosen = java.find_java()
    # Without links: an archive of classes is for jars in one place, whichever workspace they are used from.
    paths = [path.resolve() for path in jars.ensure_jars("kafka", say)]
    say(f"starting Kafka {jars.KAFKA_VERSION} ({brokers} broker{'s' if brokers > 1 else ''}, Java {chosen.major} of "
        f"{chosen.source})")
    token = uuid.uuid4().hex
    process = _spawn(token, brokers, chosen, paths)
    try:
        found = _wait_started(process, token)
    except BaseException:  # Ctrl-C, or a failure
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(warden.STOP_TIMEOUT_S * 2)
        raise
    for note in found.notes:
        say(note)
    say(f"Kafka is ready at {found.bootstrap} ({time.monotonic() - began:.1f} s)")
    return found


def _spawn(token: str, brokers: int, chosen: java.Java, paths: list[Path]) -> subprocess.Popen[bytes]:
    spec = {
        "token": token, "home": home_mark(), "run_dir": str(workspace.run_dir()),
        "data_dir": str(workspace.data_dir()), "brokers": brokers, "java": str(chosen.executable),
        "jars": [str(path) for path in paths], "heap_mb": _heap_mb(brokers),
        "archive_flags": java.class_archive_flags(chosen, "kafka", paths[0].parent),
    }
    log = workspace.run_dir() / "warden.log"
    mode = "ab" if log.exists() and log.stat().st_size < 1_000_000 else "wb"
    with log.open(mode) as output:
        return supervisor.start_warden("kitlib.lab.brokers.warden", f"--run={token}", f"--home={home_mark()}", spec=spec, output=output)


def _heap_mb(brokers: int) -> int:
    text = os.environ.get(HEAP_VARIABLE, "")
    if not text:
        return node.HEAP_MB[brokers]
    if not text.isdecimal() or not 16 <= int(text) <= 65536:
        raise KnobError(f"{HEAP_VARIABLE}={text}: a broker's heap is 16 to 65536 (MB). Set such a number or unset it.")
    return int(text)


def _wait_started(process: subprocess.Popen[bytes], token: str) -> state.ClusterState:
    """The state of the cluster that serves; LabError with the reason when it never will."""

    def look() -> state.ClusterState | None:
        ended = process.poll() is not None
        found = read()
        if found is not None and found.token == token and found.phase == "failed":
            raise found.error
        if found is not None and found.phase == "running" and found.warden:
            return found
        if ended and process.returncode != 0:
            if full := workspace.full_disk():  # then the end of a log is no reason
                raise DiskError(f"Kafka did not start: {full}. Make room there, then try again.")
            log = workspace.run_dir() / "warden.log"
            raise LabError(f"The warden exited before Kafka was up: {(workspace.last_lines(log, 1) or ['no word'])[0]}. See {log}.")
        if ended and not _is_held():
            raise LabError("Kafka was stopped while it was starting. `kit up` starts it again.")
        return None

    return wait_until(look, START_TIMEOUT_S, "Kafka serves")  # type: ignore[return-value]


# The state, and what it is worth


def read() -> state.ClusterState | None:
    """What the last warden wrote down, whether it lives or not."""
    return state.read_as(state.ClusterState.from_json, warden.state_file(workspace.run_dir()))


def living_state() -> state.ClusterState | None:
    """The same, if the warden that wrote it lives. One that was stopped is woken: whoever asks may wait for it."""
    found = read()
    if found is None or (process := found.warden) is None:
        return None
    process.resume()
    return found


def _is_held() -> bool:
    """Whether a warden lives in this workspace."""
    return workspace.is_held(warden.lock_file(workspace.run_dir()))


def _own_state() -> state.ClusterState:
    if bootstrap := external_bootstrap():
        raise LabError(f"The brokers at {bootstrap} are not the kit's to kill. Unset KIT_KAFKA_BOOTSTRAP to use the kit's.")
    found = living_state()
    if found is None:
        raise LabError("No broker is running. `kit up` starts one.")
    return found


def _node(found: state.ClusterState, number: int) -> state.NodeState:
    for each in found.nodes:
        if each.node == number:
            return each
    raise LabError(f"There is no broker {number}: this set has {', '.join(str(each.node) for each in found.nodes)}.")


def _cluster(found: state.ClusterState) -> Cluster:
    return Cluster(
        found.bootstrap, found.cluster_id, found.brokers, "kit",
        tuple(each.pid for each in found.nodes if each.pid is not None), workspace.run_dir(),
    )


def _settled() -> state.ClusterState | None:
    """Wait until the living cluster serves, or has ended (None); LabError when it does neither."""
    deadline = time.monotonic() + START_TIMEOUT_S
    silence_ends = time.monotonic() + SILENCE_TIMEOUT_S
    while (found := living_state()) is not None and found.phase != "failed":
        now = status()
        if now.is_running:
            return found
        if now.phase == "held" or time.monotonic() > (silence_ends if now.phase == "silent" else deadline):
            raise LabError(now.sentence)
        if now.phase != "silent":
            silence_ends = time.monotonic() + SILENCE_TIMEOUT_S
        time.sleep(0.1)
    return None


def _looked_at(found: state.ClusterState, each: state.NodeState) -> state.NodeState:
    """The node as it is now: whether one that serves goes on to answer, whoever wants to know has to ask."""
    if each.phase != "running":
        return each
    return each if ports.answers(each.port, 1.0) else replace(each, phase="silent" if found.java(each) else "dead")


def _sentence(found: state.ClusterState, nodes: tuple[state.NodeState, ...], phase: str) -> str:
    count = f"{found.brokers} broker" + ("s" if found.brokers > 1 else "")
    if phase == "running":
        held = [str(each.node) for each in nodes if each.phase == "held"]
        dead = f"; broker {', '.join(held)} is held dead by an experiment" if held else ""
        return f"Kafka runs: {count} at {found.bootstrap}, cluster {found.cluster_id}{dead}."
    if phase == "held":
        return f"Kafka is held dead by an experiment: {count}. `kit down`, then `kit up` starts it again."
    if phase == "silent":
        each = next(each for each in nodes if each.phase == "silent")
        paused = _is_paused(each.pid)
        why = f"it is paused; `kill -CONT {each.pid}` wakes it" if paused else "it is busy or stuck; `kit logs` may tell"
        return f"Broker {each.node} (process {each.pid}) is not answering: {why}."
    if phase == "stopping":
        return f"Kafka is stopping: {count}."
    return f"Kafka is starting: {count}{', ' + found.message if found.message else ''}."


def _is_paused(pid: int | None) -> bool:
    try:
        return pid is not None and psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return False


def _external(bootstrap: str, timeout_s: float = clients.EXTERNAL_TIMEOUT_S) -> Cluster:
    cluster_id, brokers = clients.describe(bootstrap, timeout_s)
    return Cluster(bootstrap, cluster_id, brokers, "external")
