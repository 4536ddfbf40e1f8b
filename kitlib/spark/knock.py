"""What runs beside the server for a query whose batches go to a Python elsewhere: it knocks there, and waits until that is done.

Spark Connect starts a Python for each such query. Spark's own loads pyspark, pandas and a client first, for two seconds of a
processor, and may take ten at most. This one loads none of them and speaks Spark's protocol itself; a function that is not the
kit's it hands to Spark's own.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
from importlib import import_module
from io import BufferedRWPair, BytesIO
from multiprocessing.connection import Client
from typing import Any

STOCK = "pyspark.sql.connect.streaming.worker.foreach_batch_worker"
FAILED = -2  # SpecialLengths.PYTHON_EXCEPTION_THROWN


def knock(address: str, key: bytes, name: str, rows: Any, batch: int) -> None:
    """Have a batch worked on, whose rows the server knows by this name. RuntimeError tells what was raised there.

    Spark's own Python, which does this on a cluster, makes a DataFrame of the name before.
    """
    if not isinstance(rows, str):
        rows = rows._plan._relation_id
    with Client(address, authkey=key) as line:
        line.send((name, rows, batch))
        if told := line.recv():
            raise RuntimeError(told)


class _Line:
    """The socket to Spark's Java, and all that was read from it, for a reader who comes later."""

    def __init__(self, file: BufferedRWPair) -> None:
        self.file, self.read_so_far = file, b""

    def frame(self) -> bytes:
        (size,) = struct.unpack("!i", self._exactly(4))
        return self._exactly(size)

    def long(self) -> int:
        return int(struct.unpack("!q", self._exactly(8))[0])

    def _exactly(self, size: int) -> bytes:
        if len(found := self.file.read(size)) < size:
            raise EOFError
        self.read_so_far += found
        return found

    def write(self, number: int, text: str | None = None) -> None:
        told = (text or "").encode()
        self.file.write(struct.pack("!i", number) + (b"" if text is None else struct.pack("!i", len(told)) + told))
        self.file.flush()


class _Again:
    """The same as a file of its own, from the beginning."""

    def __init__(self, line: _Line) -> None:
        self.before, self.file = BytesIO(line.read_so_far), line.file

    def read(self, size: int) -> bytes:
        return self.before.read(size) or self.file.read(size)


def main() -> None:
    if place := os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH"):
        road = socket.socket(socket.AF_UNIX)
        road.connect(place)
    else:
        road = socket.create_connection(("127.0.0.1", int(os.environ["PYTHON_WORKER_FACTORY_PORT"])))
    with road, road.makefile("rwb") as file:
        line = _Line(file)
        if not place:
            secret = os.environ["PYTHON_WORKER_FACTORY_SECRET"]
            line.write(len(secret.encode()))
            file.write(secret.encode())
            file.flush()
            line.frame()
        line.read_so_far = b""
        line.write(os.getpid())
        _version, _session, command = line.frame(), line.frame(), line.frame()
        if __spec__.name.encode() not in command:
            stock = import_module(STOCK)
            vars(stock)["print"] = lambda *told: None  # its own words would show Spark's token in a log
            stock.main(_Again(line), file)
            return
        function = pickle.loads(command)  # noqa: S301 - what a session of this user's sent, who alone has Spark's token
        line.write(0)
        while True:
            try:
                rows, batch = line.frame().decode(), line.long()
            except (EOFError, OSError):
                return  # the query has ended
            try:
                function(rows, batch)
            except Exception as error:  # noqa: BLE001 - Spark tells it
                line.write(FAILED, str(error))
                return
            line.write(0)


if __name__ == "__main__":
    main()
