"""Small made-up traces of transactions, by the words of the transactions' experiments."""

from __future__ import annotations

from typing import Any

from kitlib.trace import Trace

Row = list[Any]


class Transacting:
    """A log, a coordinator and two readers that do what their test says, step by step."""

    def __init__(self, topic: str = "output") -> None:
        self.trace = Trace("t1", "transactions", domain="transactions")
        self.where = {"topic": topic, "partition": 0}
        self.now_ms = 0
        self.log: list[Row] = []
        self.coordinator: dict[str, dict[str, Any]] = {}
        self.open: dict[int, int] = {}  # producer id -> first offset of its open transaction
        self.records: dict[int, tuple[int, int]] = {}  # offset -> record, transaction
        self.positions = {"read_committed": 0, "read_uncommitted": 0}
        self.input: int | None = None
        self.tell("broker", "open", **self.where)

    @property
    def end(self) -> int:
        return int(self.log[-1][1]) + 1 if self.log else 0

    @property
    def lso(self) -> int:
        return min(self.open.values(), default=self.end)

    def tell(self, actor: str, what: str, **data: Any) -> None:
        state = {
            "log": [list(row) for row in self.log],
            "lso": self.lso,
            "high_watermark": self.end,
            "aborted": [],
            "coordinator": {name: dict(entry) for name, entry in self.coordinator.items()},
            "committed_input": self.input,
            "positions": dict(self.positions),
        }
        self.now_ms += 5
        self.trace.record(self.now_ms, actor, what, state=state, **data)

    def move(self, name: str, to: str, pid: int, epoch: int, why: str = "") -> None:
        self.coordinator[name] = {"state": to, "pid": pid, "epoch": epoch}
        more = {"why": why} if why else {}
        self.tell("coordinator", "transition", transactional_id=name, to=to, pid=pid, epoch=epoch, **more)

    def write(self, actor: str, tx: int | None, pid: int, epoch: int, first: int, last: int) -> None:
        self.tell(actor, "send", **self.where, first=first, last=last, tx=tx)
        offset = self.end
        self.log.append([offset, offset + last - first, pid, epoch, tx, None])
        if tx is not None:
            self.open.setdefault(pid, offset)
        for record in range(first, last + 1):
            self.records[offset + record - first] = (record, -1 if tx is None else tx)
        told = {"first": first, "last": last, "offset": offset, "pid": pid, "epoch": epoch, "tx": tx}
        self.tell("broker", "write", **self.where, **told)

    def mark(self, kind: str, pid: int, epoch: int) -> None:
        self.log.append([self.end, self.end, pid, epoch, None, kind])
        self.open.pop(pid, None)
        self.tell("broker", "marker", **self.where, offset=self.end - 1, kind=kind, pid=pid, epoch=epoch)

    def read(self, reader: str, *offsets: int) -> None:
        for offset in offsets:
            record, tx = self.records[offset]
            self.positions[reader] = offset + 1
            self.tell(reader, "read", **self.where, offset=offset, record=record, tx=None if tx < 0 else tx)


def a_zombie() -> Trace:
    """Transaction 0 is committed; in transaction 1 the producer stands still, its successor fences it and goes on."""
    run = Transacting()
    run.tell("producer", "id", transactional_id="orders", pid=0, epoch=0)
    run.move("orders", "Empty", 0, 0)
    run.tell("producer", "begin", tx=0)
    run.move("orders", "Ongoing", 0, 0)
    run.write("producer", 0, 0, 0, 0, 2)
    run.read("read_uncommitted", 0, 1, 2)
    run.tell("read_committed", "waits", **run.where, at=0, high_watermark=3)
    run.move("orders", "PrepareCommit", 0, 0)
    run.tell("producer", "commit_tx", tx=0, **run.where)
    run.mark("COMMIT", 0, 0)
    run.move("orders", "CompleteCommit", 0, 0)
    run.read("read_committed", 0, 1, 2)
    run.tell("producer", "begin", tx=1)
    run.move("orders", "Ongoing", 0, 0)
    run.write("producer", 1, 0, 0, 3, 4)
    run.read("read_uncommitted", 4, 5)
    run.tell("producer", "freeze")
    run.tell("producer 2", "id", transactional_id="orders", pid=0, epoch=1)
    run.move("orders", "PrepareAbort", 0, 1, "a new producer has come")
    run.mark("ABORT", 0, 1)
    run.move("orders", "CompleteAbort", 0, 1)
    run.tell("producer 2", "begin", tx=2)
    run.move("orders", "Ongoing", 0, 1)
    run.write("producer 2", 2, 0, 1, 3, 4)
    run.tell("producer", "thaw")
    run.tell("producer", "fenced", error="PRODUCER_FENCED", fatal=True, must_abort=False, tx=1, tried="commit_tx")
    run.tell("database", "effect", topic="charges", partition=0, record=3, charged=True, by="producer")
    run.tell("database", "effect", topic="charges", partition=0, record=3, charged=True, by="producer 2")
    run.tell("database", "effect", topic="charges", partition=0, record=4, charged=False, by="producer 2")
    run.write("producer 2", None, -1, -1, 9, 9)
    run.tell(
        "network", "late_marker", **run.where, kind="ABORT", pid=0, epoch=0, version=1, error="INVALID_PRODUCER_EPOCH"
    )
    return run.trace
