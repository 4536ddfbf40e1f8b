"""The ports of the kit's brokers: who only looks whether a proxy is there is not taken for one."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from filelock import FileLock

from kitlib.lab import ports


def test_one_who_only_looks_is_not_a_proxy(tmp_path: Path) -> None:
    """A proxy's port that a stranger has moves, although somebody holds the proxy's lock to look; a real proxy's stays."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken = stranger.getsockname()[1]
        node: Any = SimpleNamespace(number=1, proxy_port=taken, controller_port=None, ports=lambda: ())
        node.port, node.behind_port = ports.free_ports(2, range(ports.FIRST_PORT, ports.LAST_PORT))
        lock = FileLock(ports.proxy_lock_file(tmp_path), thread_local=False)
        with lock:
            ports.move_taken([node], tmp_path, print)
            assert node.proxy_port == taken
            looker = threading.Timer(0.05, lock.release)
            looker.start()
            ports.move_taken([node], tmp_path, print)
            looker.join()
        assert node.proxy_port != taken
