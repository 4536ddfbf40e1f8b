"""A producer's whole send path, a network and a cluster, in virtual time.

The user's side calls `send` one call after the other, as one thread does: a call that blocks holds up
the next one. The sender's loop turns when it is woken, when something comes in, or when its sleep is
over. Between them and the brokers lies a network with a delay. Chance (a keyless record's partition, and with the
knob `jitter` each backoff's random part) is drawn from the seed.

The source's log shows that the two threads of a producer also need time of their own (a first
connection, a class that is loaded): those times are knobs of the one story that retells the log.

Left out: more than one topic, more than one leader at a time, more than one user thread.

What its steps hold for pictures, the path with its batches and the metadata's clock:

    path   {"calls": [[record, "metadata" | "memory"]], "queues": {partition: [[batch, records, bytes, attempts]]},
            "in_flight": [[request, batch, partition, records, node]], "stored": {partition: log end},
            "memory": [available, total, waiting]}
    clock  {"version", "need_update", "partial", "in_progress", "last_refresh_ms", "last_successful_refresh_ms",
            "expire_ms", "next_ms", "allow_ms", "attempts", "leader"}; the three last but one as times from now
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

from kitlib.experiments.interventions import Intervention
from kitlib.experiments.send_path.send_cluster import PORT, REPLICA_LAG_MS, SendCluster
from kitlib.experiments.send_path.send_network import SendNetwork
from kitlib.experiments.world import NEVER, Action
from kitlib.more.client.backoff import MIDDLE
from kitlib.more.client.cluster import Node
from kitlib.more.client.connections import ConnectionState
from kitlib.more.client.send_path import KafkaProducer, SendConfig, Sending
from kitlib.trace import in_log_order

PATIENCE_MS = 3_600_000  # virtual time after which a story that should settle is ended
SAME_MS_TURNS = 4  # a loop that turns without sleeping takes a ms for so many turns


@dataclass(slots=True)
class SendRun(SendNetwork):
    """One run: a story calls `begin`, `send`, `run_for`, ..., `finish` in its order."""

    domain: ClassVar[str] = "send_path"
    on_kafka: ClassVar[str] = "kitlib.experiments.send_path.real_send:RealSend"
    takes: ClassVar[tuple[str, ...]] = (
        "lose request N", "lose answer N", "delay request N by D ms", "delay answer N by D ms", "double request N",
        "break broker at T ms for D ms",
    )  # fmt: skip
    model_script: ClassVar[str] = "a real client's threads decide which records leave together, so no number names the same request twice"

    shows_loop: bool = False  # write a step for each sleep of the loop
    shows_calls: bool = False  # write a step for each call, also for those that return at once
    turn_at_ms: int = 0  # the loop's next turn at the latest
    turns_now: int = 0

    def begin(self, config: SendConfig, cluster: SendCluster) -> None:
        """Make the brokers and the producer; its loop begins to turn."""
        self.cluster = cluster
        self.round_trip_ms = int(self.settings.round_trip_ms)
        luck = Random(f"{self.trace.seed}:partitions")
        jitter = Random(f"{self.trace.seed}:jitter")
        earlier = config.release == "0.10"
        self.producer = KafkaProducer(
            config,
            cluster.topic,
            luck=jitter.random if self.settings.jitter else lambda: MIDDLE,
            partition_luck=(lambda: self.trace.seed) if earlier else (lambda: luck.getrandbits(31)),
        )
        self.producer.start(cluster.bootstrap_addresses, self.now_ms)
        self.record("user", "start", release=config.release, version=self.producer.metadata.version)
        self._turn()

    def send(self, key: bytes | None = None, partition: int | None = None) -> Sending:
        """The user sends the next record, and waits until the call returns."""
        sending = self.call(key, partition)
        self.run_for(PATIENCE_MS, until=lambda: sending.is_over)
        return sending

    def call(self, key: bytes | None = None, partition: int | None = None) -> Sending:
        """Begin such a call, without waiting for its end."""
        record = self.records
        self.records += 1
        self.user_busy_until_ms = self.now_ms  # whoever calls is not busy
        value = b"%d" % record
        value += b" " * (int(self.settings.record_bytes) - len(value))
        if self.shows_calls:
            self.record("user", "call", record=record, **self.stage_of(1))
        wants_before = self.producer.metadata.need_update
        sending = self.producer.send(value, self.now_ms, key, partition)
        if self.producer.metadata.need_update and not wants_before:
            self.record("metadata", "request_update", name=self.cluster.topic, version=self.producer.metadata.version,
                        full=self.producer.metadata.need_full_update, why="an unknown topic")  # fmt: skip
        if not sending.is_over:
            self.record("user", "blocked", record=record, on=sending.state, most_ms=sending.deadline_ms - self.now_ms)
        self.look_at_sendings()
        self._wake()
        return sending

    def settle(self) -> None:
        """Run until the user was told of every record."""
        self.run_for(PATIENCE_MS, until=lambda: not self.open_records and not self.producer.sendings)

    def finish(self) -> None:
        """Settle, and look at what the topic holds."""
        if self.is_over:
            self.run_for(PATIENCE_MS, until=lambda: not self.agenda)  # what has left arrives all the same
        else:
            self.settle()
        self.read()

    def flush(self) -> None:
        """The user waits until everything that was sent has an end."""
        self.record("user", "flush", waiting=self.open_records)
        self.producer.sender.flush()
        self._wake(always=True)
        self.settle()

    def exit(self) -> None:
        """The process ends now, with whatever lies in its memory. What is on its way to the broker arrives."""
        self.is_over = True
        for partition in range(self.cluster.partitions):
            self.record("user", "exit", topic=self.cluster.topic, partition=partition)

    def read(self) -> None:
        """Read the topic from its first record to its last; the last word on what is stored."""
        if not self.cluster.exists:
            return
        for partition, log in self.cluster.leader.logs.items():
            if partition in self.lanes:
                records = in_log_order(self.in_lane[int(value)][1] for stored in log.batches for value in stored.batch.values)
                self.record("broker", "read", topic=self.cluster.topic, partition=partition, first_offset=0, records=records)

    def move_leader(self, to: int) -> None:
        """Another broker leads from now on; the client does not know."""
        self.cluster.move_leader(to)
        self.record("broker", "move_leader", to=to, leader_epoch=self.cluster.leader_epoch)

    def refuse(self, error: str) -> None:
        """The client does not even take the next record, and the user goes on without it."""
        record = self.records
        self.records += 1
        where = self.numbered(record, 0)
        self.record("user", "send", **where, record=record)
        self.record("user", "undelivered", **where, error=error)

    def break_process(self, found: Intervention) -> None:
        """The broker that leads dies, and with it its connections; a follower that has everything takes over at once."""
        dead, successor = self.cluster.leader_id, self.cluster.successor()
        self.cluster.down.add(dead)
        self.record("broker", "killed", broker=dead)
        if successor is not None:
            self.move_leader(successor)
        self.break_connections("the broker is down", of=dead)

    def mend_process(self, found: Intervention) -> None:
        """The broker is back with its log; where another one leads by now, it follows."""
        for broker in sorted(self.cluster.down):
            self.record("broker", "started", broker=broker)
        self.cluster.down.clear()

    def break_connections(self, why: str, of: int | None = None) -> None:
        """Every connection that stands is gone, or every one to this broker."""
        known = {node.id: node for node in self.producer.metadata.cluster.nodes}
        for number in [number for number, found in self.producer.client.connections.nodes.items()
                       if found.state is not ConnectionState.DISCONNECTED and of in (None, max(number, 0))]:  # fmt: skip
            self.break_connection(known.get(number) or Node(number, self.cluster.bootstrap_host, PORT), why)

    def stop_followers(self) -> None:
        """The followers copy no more; the ISR shrinks once they are behind for too long."""
        replicas = self.cluster.replicas
        replicas.stopped_at_ms = dict.fromkeys(replicas.followers, self.now_ms)
        self.record("broker", "stop_copying", brokers=list(replicas.followers))
        self.after(REPLICA_LAG_MS, self._shrink)

    def _shrink(self) -> None:
        """Look, and look again later, who is too far behind to count as in sync."""
        cluster = self.cluster
        left = cluster.replicas.shrink(cluster.log_end(0), self.now_ms)
        if left:
            self.record("broker", "shrink_isr", left=left, in_sync=[cluster.leader_id, *cluster.replicas.in_sync()])
            self.look_at_replicas()
        if cluster.replicas.stopped_at_ms.keys() - cluster.replicas.out_of_sync:
            self.after(REPLICA_LAG_MS // 2, self._shrink)

    def destroy_leader(self) -> None:
        """The leader and its disk are gone; whoever can takes over."""
        cluster = self.cluster
        if not cluster.replicas.followers:
            cluster.leader.logs[0] = type(cluster.leader.logs[0])(cluster.config)
            self.record("broker", "destroy", topic=cluster.topic, partition=0, broker=cluster.leader_id, unclean=True, gone="everything")
            return
        gone_id, is_unclean = cluster.leader_id, not cluster.replicas.in_sync()
        gone = cluster.destroy_leader()
        self.record("broker", "destroy", topic=cluster.topic, partition=0, broker=gone_id, unclean=is_unclean, records_gone=gone,
                    leader=cluster.leader_id, leader_epoch=cluster.leader_epoch)  # fmt: skip
        self.break_connections("the broker is gone")

    def next_wake(self) -> tuple[int, Action]:
        """The loop's next turn, or the end of a blocked call; nothing of the client once its process has ended."""
        self._wake()
        if self.is_over:
            return NEVER, self._turn
        turn_ms, deadline_ms = max(self.turn_at_ms, self.busy_until_ms), self.producer.next_deadline_ms()
        if deadline_ms is None or turn_ms <= max(deadline_ms, self.user_busy_until_ms):
            return turn_ms, self._turn
        return max(deadline_ms, self.user_busy_until_ms), self.look_at_sendings

    def _wake(self, always: bool = False) -> None:
        if self.producer.is_woken or always:
            self.turn_at_ms = min(self.turn_at_ms, self.now_ms)

    def _turn(self) -> None:
        """One turn of the sender's loop, and when the next one is."""
        producer, before = self.producer, self.now_ms
        need_before = producer.metadata.need_update
        select = producer.run_once(self.now_ms)
        if producer.metadata.need_update and not need_before:
            self.note_request_update("the loop")
        cost_ms = sum(self.perform(effect) for effect in producer.client.take_effects())
        self._record_sender_events()
        self._note_completed()
        if self.shows_loop:
            self.record("network", "select", poll=min(select.poll_ms, 2**53), metadata=min(select.metadata_ms, 2**53),
                        request=select.request_ms, timeout=select.least_ms)  # fmt: skip
        self.look_at_sendings()
        self.busy_until_ms = before + cost_ms
        self.turn_at_ms = self.busy_until_ms + select.least_ms
        expiry_ms = producer.client.next_expiry_ms()
        if expiry_ms is not None:
            self.turn_at_ms = min(self.turn_at_ms, max(expiry_ms, before + 1))
        self.turns_now = self.turns_now + 1 if self.turn_at_ms <= before else 0
        if self.turns_now > SAME_MS_TURNS:
            self.turn_at_ms, self.turns_now = before + 1, 0

    def came_in(self) -> None:
        """Something came from the network: the user is told what it means, and the loop does not sleep any longer."""
        self._record_sender_events()
        self._note_completed()
        self.look_at_sendings()
        self._wake(always=True)

    def look_at_sendings(self) -> None:
        """Let blocked calls go on that can, and tell of those that returned."""
        if self.is_over or self.now_ms < self.user_busy_until_ms:
            return
        for sending in self.producer.advance(self.now_ms):
            self._returned(sending)
        self._wake()

    def _returned(self, sending: Sending) -> None:
        """A call has returned: its record lies in a batch, or was refused."""
        record, waited_ms = int(sending.value), self.now_ms - sending.begun_ms
        partition = sending.partition if sending.partition is not None else sending.wanted_partition or 0
        where = self.numbered(record, partition)
        if sending.error is not None:
            self.record("user", "send", **where, record=record)
            self.record("user", "undelivered", **where, error=sending.error, message=sending.message, waited_ms=waited_ms)
            return
        assert sending.batch is not None, "a record that was appended has a batch"
        self.of_batch.setdefault(sending.batch, []).append(record)
        self.open_records += 1
        first = self.stage_of(5) if self.shows_calls else {}
        self.record("accumulator" if first else "user", "send", **where, record=record, batch=sending.batch, waited_ms=waited_ms, **first)
        if self.shows_calls and sending.wakes_sender:
            lane = {"topic": self.cluster.topic, "partition": partition}
            self.record("accumulator", "new_batch" if sending.is_new_batch else "full", **lane, batch=sending.batch, **self.stage_of(6))
        if self.shows_calls:
            self.record("user", "returned", record=record, waited_ms=waited_ms)

    def _record_sender_events(self) -> None:
        events, self.producer.events = self.producer.events, []
        for event in events:
            batch = event.batch
            if batch is None:
                self.record("sender", "id", pid=event.producer_id, epoch=event.producer_epoch, why=event.what)
            elif event.what in ("requeue", "expire"):
                first, last = (self.in_lane[self.of_batch[batch.send][at]][1] for at in (0, -1))
                self.record("sender", event.what, topic=self.cluster.topic, partition=batch.partition, batch=batch.send,
                            first=first, last=last, attempt=batch.attempts)  # fmt: skip

    def _note_completed(self) -> None:
        """Tell what the user is told."""
        for done in self.producer.completed():
            partition, first = self.in_lane[self.of_batch[done.send][done.first]]
            data = {"topic": self.cluster.topic, "partition": partition, "batch": done.send, "first": first, "last": first + done.count - 1}
            self.open_records -= done.count
            if done.error is None:
                self.record("user", "delivered", **data, offset=done.offset)
            else:
                self.record("user", "undelivered", **data, error=done.error)

    def state(self) -> dict[str, Any]:
        """The path with its batches, and the metadata's clock."""
        return {"path": self._path_shown(), "clock": self._clock_shown()}

    def _path_shown(self) -> dict[str, Any]:
        """Where everything is that was sent."""
        producer, cluster = self.producer, self.cluster
        queues = {
            str(partition): [[batch.send, batch.count, batch.size_bytes, batch.attempts] for batch in queue]
            for partition, queue in sorted(producer.sender.accumulator.queues.items())
        }
        in_flight = [
            [leaving.request.number, data["batch"], data["partition"], data["last"] - data["first"] + 1, leaving.node.id]
            for leaving in self.flights.values()
            for data in leaving.data
        ]
        return {
            "calls": [[int(sending.value), sending.state] for sending in producer.sendings],
            "queues": queues,
            "in_flight": in_flight,
            "stored": {str(partition): log.end for partition, log in cluster.leader.logs.items()},
            "memory": [producer.pool.available, producer.pool.total_memory, producer.pool.queued],
        }

    def _clock_shown(self) -> dict[str, Any]:
        """How old the metadata is, and when it may and will be asked for."""
        metadata, leader = self.producer.metadata, self.producer.leader
        forgotten, luck = metadata.equivalent_response_count, metadata.luck  # looking must change nothing: no chance is drawn
        metadata.luck = lambda: MIDDLE
        shown = {
            "version": metadata.version,
            "need_update": metadata.need_update,
            "partial": metadata.need_partial_update and not metadata.need_full_update,
            "in_progress": self.producer.client.metadata_in_progress is not None,
            "last_refresh_ms": metadata.last_refresh_ms,
            "last_successful_refresh_ms": metadata.last_successful_refresh_ms,
            "expire_ms": metadata.time_to_expire(self.now_ms),
            "allow_ms": max(metadata.time_to_allow_update(self.now_ms), 0),
            "next_ms": metadata.time_to_next_update(self.now_ms),
            "attempts": metadata.attempts,
            "leader": None if leader is None else leader.id,
        }
        metadata.equivalent_response_count, metadata.luck = forgotten, luck
        return shown
