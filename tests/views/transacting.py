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
