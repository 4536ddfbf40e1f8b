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
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kitlib.errors import KitError, LabError
from kitlib.lab import state, supervisor
from kitlib.lab.brokers import ports
from kitlib.lab.brokers.node import Machinery, Node, prepare
from kitlib.lab.processes import end_trees, find_by_argument, identify, limits
from kitlib.lab.supervisor import DEATHS_WINDOW_S, too_often

PORT_TRIES = 5
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 10.0
# The warden looks around this often; the end of a java wakes it at once.
TICK_S = 0.25
PROBE_EVERY_S = 1.0
# A node without an answer for this long is called silent.
SILENT_AFTER_S = 2.0


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


class Warden(supervisor.Warden):
    """Owner of the brokers of one workspace; `spec` is what `kitlib.lab.brokers.start` hands over."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.machinery = Machinery.from_json(spec)
        self.run_dir, self.brokers = self.machinery.run_dir, int(spec["brokers"])
        self.folder = Path(spec["data_dir"]) / f"kafka-{self.brokers}"
        super().__init__(lock_file(self.run_dir))
        me = identify(os.getpid(), self.machinery.token)
        self.state = state.ClusterState(me.pid, me.born_s, me.token, self.brokers, "starting", time.time())
        self.nodes: list[Node] = []
        self.memory: dict[str, object] = {}

    # The life of a warden

    def live(self) -> None:
        self._prepare()
        self._start_all()
        self._watch()

    def end(self, failure: KitError | None) -> None:
        if self.holds() and failure is None:
            self._write(phase="stopping")
        self._stop_nodes()
        if self.holds():
            if failure is None:
                state_file(self.run_dir).unlink(missing_ok=True)
            else:
                self._write(phase="failed", message=str(failure), failure=type(failure).__name__)
            shutil.rmtree(self.run_dir / "tmp", ignore_errors=True)

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
        run_dir, brokers = self.run_dir, self.brokers
        orphans = find_by_argument(f"-Dkit.home={self.machinery.home}")
        if orphans:
            end_trees(orphans, STOP_TIMEOUT_S)
            self._note(f"Ended {len(orphans)} broker(s) which a killed warden had left behind.")
        requests_file(run_dir).unlink(missing_ok=True)
        (run_dir / "tmp").mkdir(exist_ok=True)
        self.memory = state.read_json(memory_file(run_dir, brokers), self._note) or {}
        controller_port, chosen = ports.choose(self.memory, brokers)
        self.nodes = [
            Node(number, self.folder / f"node-{number}", self.machinery, port, controller_port if number == 1 else None, self.wake.set)
            for number, port in enumerate(chosen, 1)
        ]
        ports.move_taken(self.nodes, self._note)
        self._write(message="Preparing the data folders")
        cluster_id = prepare(self.nodes, brokers, self._note, self.check_stop)
        before = self.memory.get("cluster_id")
        if isinstance(before, str) and before != cluster_id:
            self._note(f"The data of cluster {before} are gone; this is a new, empty cluster {cluster_id}.")
        self._write(cluster_id=cluster_id, message="Starting Kafka")

    def _start_all(self) -> None:
        """Start all nodes and wait until they serve; a port that was snatched away is replaced, a few times."""
        for left in reversed(range(PORT_TRIES)):
            for node in self.nodes:
                node.write_settings(self.brokers, self.nodes[0].controller_port or 0)
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
        for node in self.nodes:
            node.phase, node.last_answer = "running", time.monotonic()
        self._write(phase="running", message="")
        for node in self.nodes:
            self._tell_cuts(node)

    def _wait_ready(self) -> Node | None:
        """Wait until every node answers, knows its cluster and serves producers; the node that died instead, or None."""
        deadline = time.monotonic() + START_TIMEOUT_S
        waiting = list(self.nodes)
        while True:
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
            self.pause(0.05)

    def _remember(self) -> None:
        self.memory = {**ports.to_memory(self.nodes), "cluster_id": self.state.cluster_id}
        state.write_json(memory_file(self.run_dir, self.brokers), self.memory)

    # Watch

    def _watch(self) -> None:
        """Look after the nodes until asked to stop or until it is no use any more."""
        while True:
            before = self.state
            for node in self.nodes:
                if node.is_running():
                    if not node.is_formatted():
                        raise LabError(
                            f"The data folder of broker {node.number}, {node.data}, disappeared while it was running; what was in it "
                            "is lost unless you put it back. `kit up` starts a new, empty cluster."
                        )
                    self._probe(node)
                    continue
                # Read after the death was seen: whoever asks for one writes it down first.
                held, asked = self._requests()
                if node.number in held:
                    node.phase = "held"
                else:
                    self._restart(node, asked)
            if self._described() != before or not state_file(self.run_dir).exists():
                self._write()
            self.pause(TICK_S)

    def _restart(self, node: Node, asked: frozenset[int]) -> None:
        """Start a dead node again, on the same ports, unless it has died too often."""
        reason = node.why_ended()
        by_request = node.phase == "held" or (node.java is not None and node.java.pid in asked)
        node.end(0.1)
        is_too_often = not by_request and too_often(node.deaths)
        if not by_request:
            node.restarts += 1
            node.last_death = reason
        if is_too_often or not node.is_formatted():
            often = f"ended {len(node.deaths)} times within {DEATHS_WINDOW_S:g} s, last" if len(node.deaths) > 1 else "ended"
            raise node.error()(f"Broker {node.number} {often} because {reason}. Mend that, then `kit up` starts it again.")
        node.phase = "starting"
        node.next_probe = 0.0
        node.start()

    def _probe(self, node: Node) -> None:
        """Ask the node whether it answers, from time to time; more often while it starts."""
        now = time.monotonic()
        if now < node.next_probe:
            return
        if now - node.next_probe > SILENT_AFTER_S:
            node.last_answer = now  # the warden itself stood still, and asked nobody
        if ports.answers(node.port):
            if node.phase != "starting" or ports.serves_producers(node.port):
                if node.phase == "starting":
                    self._tell_cuts(node)
                node.phase, node.last_answer = "running", now
        elif node.phase == "running" and now - node.last_answer > SILENT_AFTER_S:
            node.phase = "silent"
        node.next_probe = time.monotonic() + (0.1 if node.phase == "starting" else PROBE_EVERY_S)

    def _requests(self) -> tuple[frozenset[int], frozenset[int]]:
        """The nodes to be held dead, and the ids of javas whose death was asked for."""
        path = requests_file(self.run_dir)
        content = (state.read_json(path, self._note) if path.exists() else None) or {}
        return _numbers(content.get("held")), _numbers(content.get("asked"))

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
                node.phase, node.last_answer if node.phase == "silent" else None, node.restarts, node.last_death,
            )
            for node in self.nodes
        )
        return replace(self.state, nodes=nodes)

    def _write(self, **changes: object) -> None:
        """Write the state down. A disk without room must not end the warden, who can still tell why a broker died."""
        self.state = replace(self._described(), **changes)  # type: ignore[arg-type]
        try:
            state.write_json(state_file(self.run_dir), asdict(self.state))
        except KitError as error:
            print(error, file=sys.stderr, flush=True)


def _numbers(value: object) -> frozenset[int]:
    return frozenset(each for each in value if isinstance(each, int)) if isinstance(value, list) else frozenset()


def main() -> int:
    """Read the specification from stdin and be the warden it asks for."""
    logging.raiseExceptions = False  # a log that cannot be written must not fill another one
    text = sys.stdin.read()
    return Warden(json.loads(text)).run() if text else 0  # without it the caller died before it could say what it wants


if __name__ == "__main__":
    sys.exit(main())
