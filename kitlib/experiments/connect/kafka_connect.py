"""Connect's workers as members of a real group: the coordinator is the broker, the leader's decisions are the model's.

Each worker has a connection of its own and writes what a real worker writes. The broker counts generations,
names the leader and passes the bytes on; the leader reads what the others say they run, decides, and every
worker does what it reads in its own answer. Nothing but the deciding is the kit's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from kitlib.errors import KnobError
from kitlib.experiments.connect.connect_stories import ModelWorkers
from kitlib.experiments.kafka_backend import DEADLINE_S, KafkaBackend
from kitlib.lab import created_resources
from kitlib.lab.clients import kafka_python_config
from kitlib.lab.wire.coordinator import CoordinatorWire, Joined, find_coordinator
from kitlib.more.connect.assignors import assign_eagerly
from kitlib.more.connect.cluster import Worker
from kitlib.more.connect.protocol import (
    OFFERED,
    ExtendedAssignment,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from kitlib.more.connect.work import EAGER, Assignment, ConnectorsAndTasks, ConnectSettings

URL = "http://127.0.0.1:8083/"
CONFIG_OFFSET = 1  # nobody is behind the configuration


@dataclass(slots=True)
class KafkaConnectCluster(ModelWorkers):
    """A cluster whose group is real. Time is real; what is due happens at once, and nothing is waited for."""

    backend: KafkaBackend | None = None
    group: str = ""
    coordinator: tuple[str, int] = ("", 0)
    wires: dict[str, CoordinatorWire] = field(default_factory=dict)  # by worker
    began_s: float = 0.0

    @classmethod
    def open(cls, backend: KafkaBackend, settings: ConnectSettings) -> KafkaConnectCluster:
        """A cluster without workers; its group is `kit.<run>`. LabError when nobody coordinates it."""
        group = f"kit.{backend.run}"
        created_resources.remember("group", group)
        _, host, port = find_coordinator(backend.cluster, group, DEADLINE_S)
        return cls(settings, backend=backend, group=group, coordinator=(host, port), began_s=time.monotonic())

    def start(self, name: str) -> None:
        """A worker connects; it joins in the rebalance that begins."""
        assert self.backend is not None
        ModelWorkers.start(self, name)
        self.wires[name] = CoordinatorWire.open(*self.coordinator, name, DEADLINE_S, **kafka_python_config(self.backend.cluster))

    def kill(self, name: str) -> None:
        """KnobError: the model's delay takes minutes."""
        raise KnobError(f'{name} can be killed on the model only. Run it with backend="model".')

    def next_ms(self) -> int | None:
        self.now_ms = self._clock_ms()
        waits = [worker.rejoin_ms for worker in self.workers.values() if worker.rejoin_ms is not None]
        due = [self.now_ms] if self.rebalance_ms is not None else waits
        return max(min(due), self.now_ms) if due else None

    def run_until(self, now_ms: int) -> None:
        """One rebalance, if one is due by then; until then the workers wait."""
        time.sleep(max(0, now_ms - self._clock_ms()) / 1_000)
        self.now_ms = self._clock_ms()
        for worker in self.workers.values():
            if worker.rejoin_ms is not None and worker.rejoin_ms <= self.now_ms:
                worker.rejoin_ms = None
                self.prepare("the delay is over")
        if self.rebalance_ms is not None:
            self._complete()

    def _clock_ms(self) -> int:
        return round((time.monotonic() - self.began_s) * 1_000)

    def close(self) -> None:
        """Everybody leaves, so that the group is empty at once."""
        with ExitStack() as rest:  # one whose leaving fails leaves the others no later
            for name, wire in self.wires.items():
                if wire.is_open:
                    rest.callback(wire.close)
                    if name in self.workers and self.workers[name].is_member:
                        rest.callback(wire.leave)

    def _complete(self) -> None:
        self.rebalance_ms = None
        up = {name: worker for name, worker in self.workers.items() if worker.is_up}
        joined = self._join(up)
        leader = next(name for name, answer in joined.items() if answer.leads)
        told = self._decide(up[leader], joined[leader])
        heard = {leader: self.wires[leader].sync(told)}
        heard |= {name: self.wires[name].sync() for name in up if name != leader}
        self.generation, self.leader = joined[leader].generation, up[leader].member_id
        self._tell("group", "sync", generation=self.generation, leader=leader, members=list(up))
        moved, delay_ms = False, 0
        for name, worker in up.items():
            assignment = decode_assignment(heard[name]).assignment
            worker.is_member, worker.last_completed_generation = True, self.generation
            worker.rejoin_ms = self.now_ms + assignment.delay_ms if assignment.delay_ms else None
            moved = self._obey(worker, assignment) or moved
            delay_ms = max(delay_ms, assignment.delay_ms)
        if delay_ms:
            self._tell("group", "delay", delay_ms=delay_ms, until_ms=self.now_ms + delay_ms)
        self._follow_up(moved)

    def _join(self, up: Mapping[str, Worker]) -> dict[str, Joined]:
        """Who makes the coordinator begin joins first, the others once their heartbeat tells them of it."""
        new = [name for name, worker in up.items() if not worker.is_member]
        lead = [name for name, worker in up.items() if worker.member_id == self.leader]
        first = new or lead
        others = [name for name in up if name not in first]
        for name in first:
            self._ask_to_join(name, up[name])
        for name in others:
            self.wires[name].wait_for_rebalance(DEADLINE_S)
            self._ask_to_join(name, up[name])
        found = {name: self.wires[name].receive_join(DEADLINE_S) for name in (*first, *others)}
        for name, worker in up.items():
            worker.member_id = found[name].member_id
        return {name: found[name] for name in up}

    def _ask_to_join(self, name: str, worker: Worker) -> None:
        runs = ExtendedAssignment("", URL, CONFIG_OFFSET, Assignment(worker.work, ConnectorsAndTasks()))
        offers = [
            (protocol, encode_metadata(URL, CONFIG_OFFSET, protocol, runs if worker.is_member else None))
            for protocol in OFFERED[self.settings.protocol]
        ]
        rebalance_ms = round(DEADLINE_S * 1_000)
        self.wires[name].send_join(self.group, "connect", offers, self.settings.session_timeout_ms, rebalance_ms)

    def _decide(self, leader: Worker, joined: Joined) -> dict[str, bytes]:
        """What the leader writes for everybody, from what it has read of everybody."""
        runs = {member: decode_metadata(data)[2] for member, data in joined.members.items()}
        if self.settings.protocol == EAGER:
            told = assign_eagerly(self.published, runs)
        else:
            told = leader.assignor.perform_task_assignment(
                self.published, leader.last_completed_generation, joined.generation, runs, self.now_ms
            )
        return {
            member: encode_assignment(ExtendedAssignment(joined.member_id, URL, CONFIG_OFFSET, assignment), joined.protocol)
            for member, assignment in told.items()
        }
