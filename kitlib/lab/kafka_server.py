"""Finds the broker that all notebooks of a user share, or starts it; whoever asks first starts it.

Callers see four verbs. `ensure` returns a `Cluster` that answers, however many callers ask at once.
`status` looks without changing anything. `down` ends it, leaving no process. `kill_node` and `restart`
are for experiments: the broker dies as in a power cut, or stops in order, and is back within seconds. With
`KIT_KAFKA_BOOTSTRAP` all of them speak of that cluster instead, which the kit neither starts nor ends.

The work is done by `kitlib.lab.brokers.warden`, a background process; this module starts and finds it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from kitlib.errors import KnobError, LabError
from kitlib.lab import clients, state, workspace
from kitlib.lab.brokers import node, ports, warden
from kitlib.lab.brokers.start import (
    START_TIMEOUT_S,
    home_mark,
    last_lines,
    living_state,
    only_starter,
    present_state,
    read,
    start,
)
from kitlib.lab.clients import Cluster, client_config
from kitlib.lab.processes import end_warden, find_all, is_alive, wait_until
from kitlib.lab.state import Say, say_on_stderr

__all__ = ["Cluster", "Status", "client_config", "down", "ensure", "kill_node", "last_lines", "log_files",
           "restart", "start_node", "status"]

BROKERS = (1, 3)
# How a node can be ended for a restart: asked to (it writes down all it knows), or with SIGKILL.
ENDINGS = ("clean", "kill")
RESTART_TIMEOUT_S = 60.0
# How long a broker that was killed may take to be gone: its memory is given back first, and the machine may be busy.
KILL_TIMEOUT_S = 20.0
# A silent broker may be busy; after this it counts as paused or stuck.
SILENCE_TIMEOUT_S = 5.0
# Who only looks at an external cluster does not wait long.
STATUS_TIMEOUT_S = 3.0


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
    found = _settled(living_state())
    if found is None:
        workspace.ensure()
        with only_starter(progress or say_on_stderr):
            found = _settled(present_state()) or start(brokers or 1, progress)
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
        phase = next((wanted for wanted in ("silent", "starting", "dead") if wanted in {n.phase for n in nodes}), phase)
        phase = "starting" if phase == "dead" else phase
        phase = "held" if all(each.phase == "held" for each in nodes) else phase
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
    for what, which in [("asked", process.pid), ("held", number)][: 1 + hold]:
        warden.request(workspace.run_dir(), what, which).touch()
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


# The state, and what it is worth


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


def _settled(found: state.ClusterState | None) -> state.ClusterState | None:
    """Wait until a living cluster serves, or has ended (None); LabError when it does neither."""
    deadline = time.monotonic() + START_TIMEOUT_S
    silence_ends = time.monotonic() + SILENCE_TIMEOUT_S
    while found is not None and found.phase != "failed":
        nodes = [_looked_at(found, each) for each in found.nodes if each.phase != "held"]
        if found.phase == "running" and not nodes:
            raise LabError(status().sentence)
        if found.phase == "running" and all(each.phase == "running" for each in nodes):
            return found
        if found.phase != "running" or any(each.phase in ("starting", "dead") for each in nodes):
            silence_ends = time.monotonic() + SILENCE_TIMEOUT_S
        if time.monotonic() > min(deadline, silence_ends):
            raise LabError(status().sentence)
        time.sleep(0.1)
        found = living_state()
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
