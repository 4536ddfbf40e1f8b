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
from kitlib.lab.processes import end_trees, find_all, limits
from kitlib.lab.supervisor import DEATHS_WINDOW_S, too_often

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 10.0
# The warden looks around this often; the end of a java wakes it at once.
TICK_S = 0.25


def state_file(run_dir: Path) -> Path:
    return run_dir / "kafka.json"


def lock_file(run_dir: Path) -> Path:
    return run_dir / "kafka.lock"


def request(run_dir: Path, what: str, number: int) -> Path:
    """A file that, while it is there, asks the warden to keep a node dead ("held"), or says that a java's death was asked for ("asked")."""
    return run_dir / f"kafka-{what}-{number}"


def memory_file(run_dir: Path, brokers: int) -> Path:
    """What a set of brokers keeps over restarts: its ports, and the cluster it last was."""
    return run_dir / f"kafka-{brokers}.memory.json"


class Warden(supervisor.Warden):
    """Owner of the brokers of one workspace; `spec` is what `kitlib.lab.kafka_server` hands over."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.machinery = Machinery.from_json(spec)
        self.run_dir, self.brokers = self.machinery.run_dir, int(spec["brokers"])
        self.folder = Path(spec["data_dir"]) / f"kafka-{self.brokers}"
        super().__init__(lock_file(self.run_dir))
        self.state = state.ClusterState(os.getpid(), self.machinery.token, self.brokers, "starting", time.time())
        self.nodes: list[Node] = []

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
        if orphans := find_all(f"-Dkit.home={self.machinery.home}"):
            end_trees(orphans, STOP_TIMEOUT_S)
            self._note(f"Ended {len(orphans)} broker(s) which a killed warden had left behind.")
        for left in (*run_dir.glob("kafka-held-*"), *run_dir.glob("kafka-asked-*")):
            left.unlink()
        (run_dir / "tmp").mkdir(exist_ok=True)
        memory = state.read_json(memory_file(run_dir, brokers)) or {}
        controller_port, *chosen = memory.get("ports") or ports.draw(brokers + 1)
        self.nodes = [
            Node(number, self.folder / f"node-{number}", self.machinery, port, controller_port if number == 1 else None, self.wake.set)
            for number, port in enumerate(chosen, 1)
        ]
        ports.move_taken(self.nodes, self._note)
        self._write(message="Preparing the data folders")
        cluster_id = prepare(self.nodes, brokers, self._note, self.check_stop)
        if memory.get("cluster_id", cluster_id) != cluster_id:
            self._note(f"The data of cluster {memory['cluster_id']} are gone; this is a new, empty cluster {cluster_id}.")
        self._write(cluster_id=cluster_id, message="Starting Kafka")

    def _start_all(self) -> None:
        """Start all nodes, wait until they serve, and tell so."""
        for node in self.nodes:
            node.write_settings(self.brokers, self.nodes[0].controller_port or 0)
            node.start()
        self._wait_ready()
        taken = [self.nodes[0].controller_port, *(node.port for node in self.nodes)]
        state.write_json(memory_file(self.run_dir, self.brokers), {"ports": taken, "cluster_id": self.state.cluster_id})
        for node in self.nodes:
            self._serves(node)
        self._write(phase="running", message="")

    def _wait_ready(self) -> None:
        """Wait until every node answers, knows its cluster and serves producers."""
        deadline, doors = time.monotonic() + START_TIMEOUT_S, [node.port for node in self.nodes]
        while True:
            for node in self.nodes:
                if not node.is_running():
                    raise node.error()(f"Broker {node.number} did not start: {node.why_ended()}. {limits()}`kit logs` shows its log.")
            waiting = [node for node in self.nodes if not ports.answers(node.port)]
            if not waiting and ports.serves_producers(doors[0]) and ports.are_cluster(self.state.cluster_id, doors):
                return
            if time.monotonic() > deadline:
                raise LabError(
                    f"Broker {(waiting or self.nodes)[0].number} runs, but does not serve after {START_TIMEOUT_S:g} s. "
                    "`kit logs` shows why; on a very slow machine, try again."
                )
            self.pause(0.05)

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
                    if node.phase == "starting" and ports.answers(node.port) and ports.serves_producers(node.port):
                        self._serves(node)
                elif request(self.run_dir, "held", node.number).exists():
                    node.phase = "held"
                else:
                    self._restart(node)
            if self._described() != before or not state_file(self.run_dir).exists():
                self._write()
            self.pause(TICK_S)

    def _restart(self, node: Node) -> None:
        """Start a dead node again, on the same ports, unless it has died too often."""
        reason = node.why_ended()
        # Looked for after the death was seen: whoever asks for one writes it down first.
        by_request = node.phase == "held" or (node.java is not None and request(self.run_dir, "asked", node.java.pid).exists())
        node.end(0.1)
        is_too_often = not by_request and too_often(node.deaths)
        if not by_request:
            node.restarts += 1
            node.last_death = reason
        if is_too_often or not node.is_formatted():
            often = f"ended {len(node.deaths)} times within {DEATHS_WINDOW_S:g} s, last" if len(node.deaths) > 1 else "ended"
            raise node.error()(f"Broker {node.number} {often} because {reason}. Mend that, then `kit up` starts it again.")
        node.phase = "starting"
        node.start()

    # What others read

    def _serves(self, node: Node) -> None:
        """Note that a node serves, and what it has cut off from damaged logs when it started."""
        node.phase = "running"
        for sentence in node.has_cut():
            self._note(sentence)

    def _note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        self._write(notes=(*self.state.notes, text))

    def _described(self) -> state.ClusterState:
        nodes = tuple(
            state.NodeState(
                node.number, node.port, node.controller_port,
                node.java.pid if node.java is not None and node.is_running() else None, node.phase, node.restarts, node.last_death,
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


def main() -> int:
    """Read the specification from stdin and be the warden it asks for."""
    logging.raiseExceptions = False  # a log that cannot be written must not fill another one
    text = sys.stdin.read()
    return Warden(json.loads(text)).run() if text else 0  # without it the caller died before it could say what it wants


if __name__ == "__main__":
    sys.exit(main())
