"""One Kafka node: its settings, its data folder, its java.

A node is a folder with a `meta.properties` (which cluster, which node), a settings file and a java
that runs `kafka.Kafka`. Node 1 is broker and controller at once; nodes 2 and 3 of a set of three are
brokers only. Everything listens on 127.0.0.1. Left out: authentication, TLS, JMX.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import re
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kitlib.errors import DiskError, KitError, LabError
from kitlib.lab import workspace
from kitlib.lab.java import WRITE_ARCHIVE
from kitlib.lab.state import put_aside

SETTINGS = Path(__file__).with_name("broker.properties")  # of every node
ARGUMENTS = Path(__file__).with_name("java.args")  # of every Java
HEAP_MB = {1: 384, 3: 256}
FORMAT_HEAP_MB = 128
TAIL_LINES = 200
LOG_BYTES, LOG_FILES = 2_000_000, 3
_SIGNALS = {number.value: number.name for number in signal.Signals}
# What the broker's log or the JVM's last words say when a disk, a quota or a limit leaves no room.
TOO_LARGE = "File too large"
NO_ROOM = ("No space left on device", "Disk quota exceeded", TOO_LARGE)


@dataclass(frozen=True, slots=True)
class Machinery:
    """What all nodes of one start have in common."""

    java: Path
    jars: tuple[Path, ...]
    home: Path
    run_dir: Path
    # Stands in the command line of every java: the identity of this start.
    token: str
    heap_mb: int
    # What lets Java start from an archive of its classes (`java.class_archive_flags`).
    archive_flags: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Machinery:
        """As the caller who starts a warden writes it."""
        java, home, run_dir = (Path(told[name]) for name in ("java", "home", "run_dir"))
        return cls(java, tuple(map(Path, told["jars"])), home, run_dir, told["token"], told["heap_mb"], tuple(told["archive_flags"]))


def settings(node: int, brokers: int, port: int, controller_port: int, is_controller: bool, data: Path) -> dict[str, str]:
    """The settings of a node in a set of one or three brokers: `broker.properties`, with this node's own in it."""
    own, controller = f"PLAINTEXT://127.0.0.1:{port}", f"CONTROLLER://127.0.0.1:{controller_port}"
    filled_in = {
        "node": node, "brokers": brokers, "quorum": 2 if brokers == 3 else 1, "controller_port": controller_port, "data": data, "own": own,
        "roles": "broker,controller" if is_controller else "broker", "listeners": f"{own},{controller}" if is_controller else own,
    }  # fmt: skip
    lines = SETTINGS.read_text(encoding="utf-8").splitlines()
    values = dict(line.format_map(filled_in).split("=", 1) for line in lines if not line.startswith("#"))
    # The controller's to say, and a warning at the others.
    return values | ({"default.replication.factor": str(brokers)} if is_controller else {})


def properties_text(values: dict[str, str]) -> str:
    """A Java properties file, in the ASCII that `Properties.load` reads everywhere; JSON escapes what it escapes, as it does."""
    return "".join(f"{key}={json.dumps(value)[1:-1]}\n" for key, value in values.items())


def java_command(machinery: Machinery, node: int, main_class: str, *arguments: str) -> list[str]:
    """The command line that runs a class of Kafka, marked with the token, the home folder and the node."""
    return [
        str(machinery.java),
        f"-Dkit.run={machinery.token}",
        f"-Dkit.home={machinery.home}",
        f"-Dkit.node={node}",
        f"-Xmx{machinery.heap_mb}m",
        f"@{ARGUMENTS}",
        *machinery.archive_flags,
        f"-XX:ErrorFile={machinery.run_dir / 'java-crash-%p.log'}",  # no report of a crash anywhere but here
        f"-Djava.io.tmpdir={machinery.run_dir / 'tmp'}",
        "-cp",
        os.pathsep.join(map(str, machinery.jars)),
        main_class,
        *arguments,
    ]


def read_meta(folder: Path) -> dict[str, str] | None:
    """What a formatted data folder says about itself; None when it is half-written or says nothing usable."""
    try:
        lines = (folder / "meta.properties").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    meta = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return meta if {"version", "cluster.id", "node.id"} <= meta.keys() else None


@dataclass(slots=True)
class Node:
    """A node and, while it runs, its java."""

    number: int
    data: Path
    machinery: Machinery
    port: int
    # None at nodes that are brokers only.
    controller_port: int | None
    # Called from the log thread when the java has closed its output, which it does when it ends.
    on_end: Callable[[], None]
    java: subprocess.Popen[bytes] | None = None
    # The last lines of this java's log: the reason of a death is found here even when the disk is full.
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    # The high watermark of each log as it was written down before this java was started.
    watermarks: dict[str, int] = field(default_factory=dict)
    _reader: threading.Thread | None = None
    # What its warden has seen of it, as `state.NodeState` has it.
    phase: str = "starting"
    restarts: int = 0
    last_death: str | None = None
    # The moments (monotonic) of the deaths nobody asked for.
    deaths: list[float] = field(default_factory=list)

    @property
    def settings_file(self) -> Path:
        return self.machinery.run_dir / f"node-{self.number}.properties"

    @property
    def log_file(self) -> Path:
        return log_file(self.machinery.run_dir, self.number)

    def ports(self) -> list[int]:
        """The ports on which the node's java listens."""
        return [self.port] if self.controller_port is None else [self.port, self.controller_port]

    def write_settings(self, brokers: int, controller_port: int, data: Path | None = None) -> None:
        values = settings(self.number, brokers, self.port, controller_port, self.controller_port is not None, data or self.data)
        try:
            self.settings_file.write_text(properties_text(values), encoding="ascii")
        except OSError as error:
            raise workspace.disk_error(f"{self.settings_file} cannot be written", error, self.settings_file) from error

    def start(self) -> None:
        """Start the java; its log lines go to the node's log file, which is rotated, and to `tail`."""
        self.tail.clear()
        self.watermarks = high_watermarks(self.data)
        self.java = self._run(self.machinery, "kafka.Kafka", str(self.settings_file))
        self._reader = threading.Thread(target=self._keep_log, args=(self.java,), daemon=True)
        self._reader.start()

    def format(self, cluster_id: str) -> subprocess.Popen[bytes]:
        """Start Kafka's own format tool on the folder that the node's settings name."""
        # The tool loads few classes: it uses the broker's archive and writes none.
        flags = tuple(flag for flag in self.machinery.archive_flags if flag != WRITE_ARCHIVE)
        tool = replace(self.machinery, heap_mb=FORMAT_HEAP_MB, archive_flags=flags)
        return self._run(tool, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self.settings_file))

    def _run(self, machinery: Machinery, main_class: str, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            java_command(machinery, self.number, main_class, *arguments),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd=machinery.run_dir,
            # Java takes the encoding of file names from the locale, and plain C knows no umlauts.
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )

    def _keep_log(self, java: subprocess.Popen[bytes]) -> None:
        assert java.stdout is not None
        file: logging.Handler
        try:
            file = logging.handlers.RotatingFileHandler(
                self.log_file, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8"
            )
        except OSError:
            file = logging.NullHandler()  # no room for a log; the tail is kept all the same
        for line in java.stdout:
            text = line.decode("utf-8", "replace").rstrip()
            self.tail.append(text)
            file.handle(logging.makeLogRecord({"msg": text}))
        file.close()
        java.wait()
        self.on_end()

    def is_running(self) -> bool:
        return self.java is not None and self.java.poll() is None

    def ask_to_stop(self) -> None:
        """SIGTERM; a paused java is continued so that it can obey."""
        if self.java is not None and self.java.poll() is None:
            self.java.terminate()
            self.java.send_signal(signal.SIGCONT)

    def end(self, timeout_s: float) -> None:
        """Wait for the java's end, and kill it when it has not come after `timeout_s` seconds."""
        if self.java is None:
            return
        try:
            self.java.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.java.kill()
            self.java.wait()
        if self._reader is not None:
            self._reader.join(2.0)
        if self.java.stdout is not None:
            self.java.stdout.close()

    def is_formatted(self) -> bool:
        return (self.data / "meta.properties").is_file()

    def lost_its_port(self) -> bool:
        """Whether the last java ended because somebody else listens on its port."""
        return any("Address already in use" in line for line in self.tail)

    def has_cut(self) -> list[str]:
        """What this java cut off from damaged logs when it started, a sentence for each log."""
        return cuts(list(self.tail), self.watermarks, self.number)

    def error(self) -> type[KitError]:
        """The kind of error that the last death is: for want of room to write, or another."""
        return DiskError if _no_room("\n".join(self.tail)) else LabError

    def why_ended(self) -> str:
        """The reason of the last death in words, from the data folder, the log's tail and the exit code."""
        if self._reader is not None:
            self._reader.join(1.0)
        text = "\n".join(self.tail)
        code = self.java.returncode if self.java is not None else None
        if not self.is_formatted():
            return f"its data folder {self.data} is gone"
        if cause := starved_of(text, self.data, f" (heap {self.machinery.heap_mb} MB; KIT_BROKER_HEAP_MB sets another)"):
            return cause
        if self.lost_its_port():
            return f"its port ({', '.join(map(str, self.ports()))}) is taken by another program"
        if code is not None and code < 0:
            return f"killed by {_SIGNALS.get(-code, f'signal {-code}')}"
        complaints = [line for line in self.tail if " ERROR " in line or " FATAL " in line or "Exception" in line]
        last = (complaints or [line for line in self.tail if line] or ["its log is empty"])[-1]
        return f"exit code {code}: {last[:300].rstrip('.')}"


def starved_of(log: str, data: Path, heap: str = "; KIT_BROKER_HEAP_MB sets another heap") -> str:
    """What the broker that wrote this ran out of, with what to do; "" when it does not complain of that."""
    if words := _no_room(log):
        return "a limit on file sizes is reached (`ulimit -f` before `kit up` sets it)" if words == TOO_LARGE \
            else f"{workspace.no_room(words, data)}; make room there"
    if "Too many open files" in log:
        return "it may open no more files (`ulimit -n` before `kit up` sets how many)"
    return f"out of memory{heap}" if "OutOfMemoryError" in log else ""


def _no_room(log: str) -> str:
    return next((words for words in NO_ROOM if words in log), "")


def log_file(run_dir: Path, node: int) -> Path:
    """Where the log of a node is."""
    return run_dir / f"node-{node}.log"



# What a broker cut off when it started

HIGH_WATERMARKS = "replication-offset-checkpoint"  # written again and again, see broker.properties
HIGH_WATERMARK = re.compile(r"^(\S+) (\d+) (\d+)$", re.MULTILINE)  # the first two lines are the version and the number of entries
_CUT = re.compile(r"LogLoader partition=(?P<log>\S+-\d+), dir=.*truncating to offset (?P<offset>\d+)")


def high_watermarks(data: Path) -> dict[str, int]:
    """The high watermark of each log ("topic-partition") as the broker last wrote it down; {} when there is no such file."""
    try:
        text = (data / HIGH_WATERMARKS).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return {}
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in HIGH_WATERMARK.findall(text)}


def cuts(log_lines: Iterable[str], before: dict[str, int], node: int) -> list[str]:
    """A sentence for each log that the broker has cut at its start, by the lines of its log since then.

    A broker that was not stopped in order checks its newest segments, cuts off all from the first batch on that does not
    fit its checksum, and says so in one line of warning. It does not say how much had been acknowledged: that is read from
    `before`, the high watermarks that it wrote down while it lived.
    Source: Apache Kafka 4.3.1, `LogLoader.recoverLog` (the warning), `OffsetCheckpointFile` (the file's form).
    """
    ends = {found["log"]: int(found["offset"]) for line in log_lines if (found := _CUT.search(line))}
    return [_sentence(log, end, before.get(log, 0) - end, node) for log, end in ends.items()]


def _sentence(log: str, end: int, gone: int, node: int) -> str:
    lost = (
        f"{gone} acknowledged record{'s are' if gone > 1 else ' is'} gone from it, or more"
        if gone > 0
        else "what lay behind is gone from it"
    )
    return f"Broker {node} found {log} damaged at its start and cut it at offset {end}: {lost}. With replicas, the others still have it."


# The data folders
# Kafka's format tool writes several files; killed half way it leaves a folder that looks formatted and is not. So a folder
# is formatted under a temporary name and renamed when it is whole. One that cannot be used is put aside, for people to look at.

FORMAT_TIMEOUT_S = 120.0


def prepare(nodes: list[Node], brokers: int, say: Callable[[str], None], check_stop: Callable[[], None]) -> str:
    """Format what is not formatted; returns the cluster id. Kafka itself refuses folders of another cluster, node or release."""
    folder = nodes[0].data.parent
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(".formatting-*"):
        shutil.rmtree(left)
    metas = {node.number: read_meta(node.data) for node in nodes}
    first = metas[1]
    broken = [node for node in nodes if metas[node.number] is None]
    if first is None:
        broken = nodes  # the controller's metadata are gone, and without them the brokers' data mean nothing
    for node in broken:
        if node.data.exists():
            aside = put_aside(node.data)
            say(f"The data folder of broker {node.number} was not whole; it is kept as {aside}.")
    cluster_id = first["cluster.id"] if first else new_cluster_id()
    _format(broken, brokers, cluster_id, nodes[0].controller_port or 0, check_stop)
    return cluster_id


def new_cluster_id() -> str:
    """A random cluster id in the form of Kafka's own: a UUID in URL-safe base 64 that does not begin with a dash."""
    text = secrets.token_urlsafe(16)
    return new_cluster_id() if text.startswith("-") else text


def _format(nodes: list[Node], brokers: int, cluster_id: str, controller_port: int, check_stop: Callable[[], None]) -> None:
    """Format the nodes' folders at the same time, each under a temporary name first."""
    drafts = [node.data.with_name(f".formatting-{node.data.name}") for node in nodes]
    tools: list[subprocess.Popen[bytes]] = []
    try:
        for node, draft in zip(nodes, drafts, strict=True):
            node.write_settings(brokers, controller_port, draft)
            tools.append(node.format(cluster_id))
        for node, draft, tool in zip(nodes, drafts, tools, strict=True):
            deadline = time.monotonic() + FORMAT_TIMEOUT_S
            while tool.poll() is None and time.monotonic() < deadline:
                check_stop()
                time.sleep(0.05)
            tool.kill()  # one that is late
            output = tool.communicate()[0].decode("utf-8", "replace").strip()
            if tool.returncode != 0 or read_meta(draft) is None:
                why = starved_of(output, node.data) or (output.splitlines() or ["no output"])[-1][:300]
                kind = DiskError if _no_room(output) else LabError
                raise kind(f"Kafka could not format {node.data}: {why}. `kit doctor` looks at Java, jars and disk.")
            draft.rename(node.data)
    finally:
        for tool in tools:
            tool.kill()
            tool.wait()
        for draft in drafts:
            shutil.rmtree(draft, ignore_errors=True)
