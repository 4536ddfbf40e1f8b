"""The warden: one background process per workspace that owns the brokers.

A broker that is a child of a notebook dies with its kernel, and one that is nobody's child stays for
ever. So the first who needs a broker starts a warden, a process in a session of its own which holds
the workspace's lock for life, is the parent of the brokers, starts one again that died unasked, and
writes down what others need to know (`kafka.json`). It ends on SIGTERM, when it has to give up, and
when its workspace vanishes. `kitlib.lab.kafka_server` starts it, finds it and talks about it.

Left out: choosing a Java and checking the jars, which the caller has done before (it can show
progress); the caller hands the result over on stdin.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import threading
import time
import traceback
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path

from kitlib.errors import DiskError, KitError, LabError
from kitlib.lab import state, workspace
from kitlib.lab.brokers import ports
from kitlib.lab.brokers.node import Machinery, Node, prepare
from kitlib.lab.processes import end_trees, find_by_argument, identify, limits
from kitlib.lab.supervisor import Tenure

PORT_TRIES = 5
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 10.0
# The warden looks around this often; the end of a java wakes it at once.
TICK_S = 0.25
PROBE_EVERY_S = 1.0
# A node without an answer for this long is called silent.
SILENT_AFTER_S = 2.0
# So many deaths that nobody asked for in so many seconds are one too many.
DEATHS, DEATHS_WINDOW_S = 3, 60.0


class Stopped(Exception):
    """The warden was asked to end."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What the caller hands over."""

    token: str
    home: Path
    run_dir: Path
    data_dir: Path
    brokers: int
    java: Path
    jars: tuple[Path, ...]
    heap_mb: int
    archive_flags: tuple[str, ...]

    @classmethod
    def from_json(cls, text: str) -> Spec:
        values = json.loads(text)
        return cls(
            values["token"], Path(values["home"]), Path(values["run_dir"]), Path(values["data_dir"]),
            values["brokers"], Path(values["java"]), tuple(map(Path, values["jars"])), values["heap_mb"],
            tuple(values["archive_flags"]),
        )


@dataclass(slots=True)
class Watch:
    """What the warden has seen of one node."""

    phase: str = "starting"
    last_answer: float = field(default_factory=time.monotonic)
    next_probe: float = 0.0
    restarts: int = 0
    last_death: str | None = None
    # Moments (monotonic) of the deaths nobody asked for.
    deaths: deque[float] = field(default_factory=deque)


def state_file(run_dir: Path) -> Path:
    return run_dir / "kafka.json"


def lock_file(run_dir: Path) -> Path:
    return run_dir / "kafka.lock"


def requests_file(run_dir: Path) -> Path:
    """What others ask of the warden: nodes to be held dead, and java ids whose death was asked for."""
    return run_dir / "kafka-requests.json"


def memory_file(run_dir: Path, brokers: int) -> Path:
    """What a set of brokers keeps over restarts: its ports, and the cluster it last was."""
    return run_dir / f"kafka-{brokers}.memory.json"


class Warden:
    """Owner of the brokers of one workspace."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.machinery = Machinery(spec.java, spec.jars, spec.home, spec.run_dir, spec.token, spec.heap_mb, spec.archive_flags)
        self.tenure = Tenure(lock_file(spec.run_dir))
        self.stop = threading.Event()
        # Set by whatever should make the warden look around before the next tick.
        self.wake = threading.Event()
        me = identify(os.getpid(), spec.token)
        self.state = state.ClusterState(me.pid, me.born_s, me.token, spec.brokers, "starting", time.time())
        self.nodes: list[Node] = []
        self.watches: dict[int, Watch] = {}
        self.memory: dict[str, object] = {}

    # The life of a warden

    def run(self) -> int:
        """From the lock to the last broker's end; the exit code. Without the lock it ends at once: another is here."""
        if not self.tenure.begin(self._asked_to_stop):
            return 0
        failure: KitError | None = None
        try:
            self._prepare()
            self._start_all()
            self._watch()
        except Stopped:
            pass
        except KitError as error:
            failure = error
        except Exception as error:  # noqa: BLE001  whatever it was, the brokers must not be left alone
            traceback.print_exc()
            full = workspace.full_disk()
            failure = DiskError(f"The warden failed: {full}. Make room there, then `kit up` starts Kafka again.") if full \
                else LabError(f"The warden failed with {type(error).__name__}: {error}. Its log has more: warden.log.")
        self._end(failure)
        return 0 if failure is None else 1

    def _asked_to_stop(self) -> None:
        self.stop.set()
        self.wake.set()

    def _check_stop(self) -> None:
        if self.stop.is_set() or not self.tenure.holds():
            raise Stopped

    def _end(self, failure: KitError | None) -> None:
        """Stop all nodes; then tell why it failed, or forget."""
        if self.tenure.holds() and failure is None:
            self._write(phase="stopping")
        self._stop_nodes()
        if self.tenure.holds():
            if failure is None:
                state_file(self.spec.run_dir).unlink(missing_ok=True)
            else:
                self._write(phase="failed", message=str(failure), failure=type(failure).__name__)
            shutil.rmtree(self.spec.run_dir / "tmp", ignore_errors=True)
        self.tenure.lock.release()

    def _stop_nodes(self) -> None:
        """Stop the brokers, then the controller that they say goodbye to."""
        for group in (self.nodes[1:], self.nodes[:1]):
            for node in group:
                node.ask_to_stop()
            deadline = time.monotonic() + STOP_TIMEOUT_S
            for node in group:
                node.end(max(0.1, deadline - time.monotonic()))

    # Start

    def _prepare(self) -> None:
        """End what a dead warden left behind, choose ports, and make the data folders usable."""
        self._write()
        run_dir, brokers = self.spec.run_dir, self.spec.brokers
        orphans = find_by_argument(f"-Dkit.home={self.spec.home}")
        if orphans:
            end_trees(orphans, STOP_TIMEOUT_S)
            self._note(f"Ended {len(orphans)} broker(s) which a killed warden had left behind.")
        requests_file(run_dir).unlink(missing_ok=True)
        (run_dir / "tmp").mkdir(exist_ok=True)
        self.memory = state.read_json(memory_file(run_dir, brokers), self._note) or {}
        controller_port, chosen = ports.choose(self.memory, brokers)
        folder = self.spec.data_dir / f"kafka-{brokers}"
        self.nodes = [
            Node(number, folder / f"node-{number}", self.machinery, port, controller_port if number == 1 else None, self.wake.set)
            for number, port in enumerate(chosen, 1)
        ]
        self.watches = {node.number: Watch() for node in self.nodes}
        ports.move_taken(self.nodes, self._note)
        self._write(message="Preparing the data folders")
        cluster_id = prepare(self.nodes, brokers, self._note, self._check_stop)
        before = self.memory.get("cluster_id")
        if isinstance(before, str) and before != cluster_id:
            self._note(f"The data of cluster {before} are gone; this is a new, empty cluster {cluster_id}.")
        self._write(cluster_id=cluster_id, message="Starting Kafka")

    def _start_all(self) -> None:
        """Start all nodes and wait until they serve; a port that was snatched away is replaced, a few times."""
        for left in reversed(range(PORT_TRIES)):
            for node in self.nodes:
                node.write_settings(self.spec.brokers, self._controller_port())
                node.start()
            dead = self._wait_ready()
            if dead is None:
                break
            reason = dead.why_ended()
            self._stop_nodes()
            if left == 0 or not dead.lost_its_port():
                raise dead.error()(f"Broker {dead.number} did not start: {reason}. {limits()}`kit logs` shows its log.")
            ports.move_taken(self.nodes, self._note)
        self._remember()
        for watch in self.watches.values():
            watch.phase, watch.last_answer = "running", time.monotonic()
        self._write(phase="running", message="")
        for node in self.nodes:
            self._tell_cuts(node)

    def _wait_ready(self) -> Node | None:
        """Wait until every node answers, knows its cluster and serves producers; the node that died instead, or None."""
        deadline = time.monotonic() + START_TIMEOUT_S
        waiting = list(self.nodes)
        while True:
            self._check_stop()
            for node in self.nodes:
                if not node.is_running():
                    return node
            waiting = [node for node in waiting if not ports.answers(node.port)]
            if not waiting and ports.serves_producers(self.nodes[0].port):
                ports.check_cluster(self.state.cluster_id, [node.port for node in self.nodes])
                return None
            if time.monotonic() > deadline:
                raise LabError(
                    f"Broker {(waiting or self.nodes)[0].number} runs, but does not serve after {START_TIMEOUT_S:g} s. "
                    "`kit logs` shows why; on a very slow machine, try again."
                )
            self._pause(0.05)

    def _controller_port(self) -> int:
        port = self.nodes[0].controller_port
        assert port is not None
        return port

    def _remember(self) -> None:
        self.memory = {**ports.to_memory(self.nodes), "cluster_id": self.state.cluster_id}
        state.write_json(memory_file(self.spec.run_dir, self.spec.brokers), self.memory)

    # Watch

    def _watch(self) -> None:
        """Look after the nodes until asked to stop or until it is no use any more."""
        while True:
            self._check_stop()
            before = self.state
            for node in self.nodes:
                watch = self.watches[node.number]
                if node.is_running():
                    if not node.is_formatted():
                        raise LabError(
                            f"The data folder of broker {node.number}, {node.data}, disappeared while it was running; what was in it "
                            "is lost unless you put it back. `kit up` starts a new, empty cluster."
                        )
                    self._probe(node, watch)
                    continue
                # Read after the death was seen: whoever asks for one writes it down first.
                held, asked = self._requests()
                if node.number in held:
                    watch.phase = "held"
                else:
                    self._restart(node, watch, asked)
            if self._described() != before or not state_file(self.spec.run_dir).exists():
                self._write()
            self._pause(TICK_S)

    def _restart(self, node: Node, watch: Watch, asked: frozenset[int]) -> None:
        """Start a dead node again, on the same ports, unless it has died too often."""
        reason = node.why_ended()
        by_request = watch.phase == "held" or (node.java is not None and node.java.pid in asked)
        node.end(0.1)
        if not by_request:
            now = time.monotonic()
            watch.deaths.append(now)
            while watch.deaths and now - watch.deaths[0] > DEATHS_WINDOW_S:
                watch.deaths.popleft()
            watch.restarts += 1
            watch.last_death = reason
        if not node.is_formatted() or len(watch.deaths) >= DEATHS:
            often = f"ended {len(watch.deaths)} times within {DEATHS_WINDOW_S:g} s, last" if len(watch.deaths) > 1 \
                else "ended"
            raise node.error()(f"Broker {node.number} {often} because {reason}. Mend that, then `kit up` starts it again.")
        watch.phase = "starting"
        watch.next_probe = 0.0
        node.start()

    def _probe(self, node: Node, watch: Watch) -> None:
        """Ask the node whether it answers, from time to time; more often while it starts."""
        now = time.monotonic()
        if now < watch.next_probe:
            return
        if now - watch.next_probe > SILENT_AFTER_S:
            watch.last_answer = now  # the warden itself stood still, and asked nobody
        if ports.answers(node.port):
            if watch.phase != "starting" or ports.serves_producers(node.port):
                if watch.phase == "starting":
                    self._tell_cuts(node)
                watch.phase, watch.last_answer = "running", now
        elif watch.phase == "running" and now - watch.last_answer > SILENT_AFTER_S:
            watch.phase = "silent"
        watch.next_probe = time.monotonic() + (0.1 if watch.phase == "starting" else PROBE_EVERY_S)

    def _requests(self) -> tuple[frozenset[int], frozenset[int]]:
        """The nodes to be held dead, and the ids of javas whose death was asked for."""
        path = requests_file(self.spec.run_dir)
        content = (state.read_json(path, self._note) if path.exists() else None) or {}
        return _numbers(content.get("held")), _numbers(content.get("asked"))

    def _pause(self, seconds: float) -> None:
        self.wake.wait(seconds)
        self.wake.clear()

    # What others read

    def _tell_cuts(self, node: Node) -> None:
        """Note what a broker has cut off from damaged logs when it started."""
        for sentence in node.has_cut():
            self._note(sentence)

    def _note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        self._write(notes=(*self.state.notes, text))

    def _described(self) -> state.ClusterState:
        nodes = tuple(
            state.NodeState(
                node.number, node.port, node.controller_port,
                node.java.pid if node.java is not None and node.is_running() else None,
                node.born_s if node.is_running() else None,
                watch.phase, watch.last_answer if watch.phase == "silent" else None, watch.restarts, watch.last_death,
            )
            for node in self.nodes for watch in [self.watches[node.number]]
        )
        return replace(self.state, nodes=nodes)

    def _write(self, **changes: object) -> None:
        """Write the state down. A disk without room must not end the warden, who can still tell why a broker died."""
        self.state = replace(self._described(), **changes)  # type: ignore[arg-type]
        try:
            state.write_cluster_state(state_file(self.spec.run_dir), self.state)
        except KitError as error:
            print(error, file=sys.stderr, flush=True)


def _numbers(value: object) -> frozenset[int]:
    return frozenset(each for each in value if isinstance(each, int)) if isinstance(value, list) else frozenset()


def main() -> int:
    """Read the specification from stdin and be the warden it asks for."""
    logging.raiseExceptions = False  # a log that cannot be written must not fill another one
    text = sys.stdin.read()
    if not text:
        return 0  # the caller died before it could say what it wants
    return Warden(Spec.from_json(text)).run()


if __name__ == "__main__":
    sys.exit(main())
