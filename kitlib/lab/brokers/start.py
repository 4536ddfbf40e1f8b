"""Starts a warden with its brokers and waits until they serve.

One caller at a time does so, under a lock that ends with its holder; the others wait for it and then
find a cluster. Whoever is interrupted takes back what it had started.
"""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from kitlib.errors import DiskError, KnobError, LabError
from kitlib.lab import jars, java, state, supervisor, workspace
from kitlib.lab.brokers import node, warden
from kitlib.lab.processes import wait_until
from kitlib.lab.state import Say, say_on_stderr

# The longest that a start, a restart or somebody else's start may take, jars not counted.
START_TIMEOUT_S = 150.0
HEAP_VARIABLE = "KIT_BROKER_HEAP_MB"

def home_mark() -> str:
    """The workspace's name in command lines: the same one, whichever way a caller spells its path."""
    return os.path.realpath(workspace.home())


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


def present_state() -> state.ClusterState | None:
    """The state of the warden that holds the workspace's lock, as soon as it says one; None when nobody holds it."""
    found = wait_until(lambda: living_state() or lock_is_free(), warden.STOP_TIMEOUT_S * 2, "an earlier Kafka has ended")
    return found if isinstance(found, state.ClusterState) else None


def only_starter(say: Say) -> AbstractContextManager[None]:
    """One caller at a time looks for a cluster and starts one; the lock ends with its holder."""
    return workspace.holding(
        workspace.run_dir() / "kafka.start.lock", 600.0, "Another process has been starting Kafka for 10 minutes. End it, then try again.",
        lambda: say("another process is starting Kafka; waiting for it"),
    )


def lock_is_free() -> bool:
    """Whether no warden lives in this workspace."""
    lock = FileLock(warden.lock_file(workspace.run_dir()), mode=0o600)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    lock.release()
    return True


def start(brokers: int, progress: Say | None) -> state.ClusterState:
    """Start a warden and wait until its brokers serve. The caller holds the starter's lock."""
    say = progress or say_on_stderr
    began = time.monotonic()
    chosen = java.find_java()
    # Without links: an archive of classes is for jars in one place, whichever workspace they are used from.
    paths = [path.resolve() for path in jars.ensure_jars("kafka", progress)]
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
    """The warden's process: a session of its own, no terminal, nothing of the lab it happens to be started from."""
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
            raise LabError(f"The warden exited before Kafka was up: {(last_lines(log, 1) or ['no word'])[0]}. See {log}.")
        if ended and lock_is_free():
            raise LabError("Kafka was stopped while it was starting. `kit up` starts it again.")
        return None

    return wait_until(look, START_TIMEOUT_S, "Kafka serves")  # type: ignore[return-value]


def last_lines(path: Path, count: int) -> list[str]:
    """The last `count` lines of a file, read from its last megabyte."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 1_000_000))
        return file.read().decode("utf-8", "replace").splitlines()[-count:] if count > 0 else []
