"""Which ports the kit's brokers have: drawn once, kept over restarts, moved when somebody else sits there.

A broker has two doors for clients. Through the first (`port`) they reach it directly. Through the
second it listens at `behind_port` and *says* that it listens at `proxy_port`: whoever comes in by a
proxy there is told to come back to the proxy, for all partitions and after every restart. Nobody
listens at `proxy_port` until a `kitlib.lab.chaos_proxy` does; it is the kit's all the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from kitlib.lab import probe, state
from kitlib.lab.node import Node

DRAWN = 50
# Longer than anybody takes to look whether a proxy is there.
LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class NodePorts:
    """The three ports of one broker."""

    port: int
    behind_port: int
    proxy_port: int


def proxy_lock_file(run_dir: Path) -> Path:
    """Held by the one proxy that stands before the brokers, for as long as it does."""
    return run_dir / "proxy.lock"


def proxy_file(run_dir: Path) -> Path:
    """What that proxy has written about itself; without the lock, the note of one that was killed."""
    return run_dir / "proxy.json"


def proxy_sentence(run_dir: Path) -> str | None:
    """What there is to say about a proxy before the brokers: that it is there, or that it was killed; None otherwise."""
    path = proxy_file(run_dir)
    found = state.read_json(path, lambda _text: None) if path.exists() else None
    if found is None:
        return None
    who = f"at {found.get('bootstrap')} (process {found.get('pid')})"
    if proxy_is_there(run_dir):
        return f"A proxy stands before the brokers {who}."
    return f"The proxy {who} was killed; its clients are refused. Start it again where it was started, or `kit proxy`."


def proxy_is_there(run_dir: Path, patience_s: float = 0.0) -> bool:
    """Whether a proxy of the kit holds the proxy's ports just now.

    Who looks takes the proxy's lock for a moment, and so two who look at once each see a proxy; with
    `patience_s` the answer is True only if somebody held it for so long.
    """
    lock = FileLock(proxy_lock_file(run_dir), mode=0o600)
    try:
        lock.acquire(timeout=patience_s, poll_interval=0.02)
    except Timeout:
        return True
    lock.release()
    return False


def choose(memory: Mapping[str, object], brokers: int) -> tuple[int, list[NodePorts]]:
    """The controller's port and those of each broker: the remembered ones, else free ones."""
    kept = _ports(memory.get("ports"), brokers + 1) or _draw(brokers + 1)
    doors = _ports(memory.get("doors"), 2 * brokers) or _draw(2 * brokers, kept)
    return kept[0], [NodePorts(kept[1 + n], doors[2 * n], doors[2 * n + 1]) for n in range(brokers)]


def to_memory(nodes: list[Node]) -> dict[str, Any]:
    """What `choose` needs to choose the same ports again."""
    return {
        "ports": [nodes[0].controller_port, *(node.port for node in nodes)],
        "doors": [port for node in nodes for port in (node.behind_port, node.proxy_port)],
    }


def move_taken(nodes: list[Node], run_dir: Path, say: Callable[[str], None]) -> None:
    """Give a new port to whoever's old one is taken; a proxy of the kit's own keeps its ports."""
    proxy_stays = proxy_is_there(run_dir, LOOK_S)
    own = {port for node in nodes for port in (*node.ports(), node.proxy_port)}
    for node in nodes:
        if not probe.is_free(node.port):
            new = _draw(1, own)[0]
            say(f"Port {node.port} is taken by another program; broker {node.number} moved to {new}.")
            node.port = new
        if node.controller_port is not None and not probe.is_free(node.controller_port):
            node.controller_port = _draw(1, own)[0]
        if not probe.is_free(node.behind_port):
            node.behind_port = _draw(1, own)[0]
        if not proxy_stays and not probe.is_free(node.proxy_port):
            node.proxy_port = _draw(1, own)[0]
        own |= {*node.ports(), node.proxy_port}


def _ports(value: object, count: int) -> list[int] | None:
    whole = isinstance(value, list) and len(value) == count == len({*value}) and all(map(_is_port, value))
    return list(value) if whole and isinstance(value, list) else None


def _is_port(value: object) -> bool:
    return isinstance(value, int) and 0 < value < 65536


def _draw(count: int, without: Iterable[int] = ()) -> list[int]:
    drawn = random.sample(range(probe.FIRST_PORT, probe.LAST_PORT + 1), DRAWN)
    return probe.free_ports(count, [port for port in drawn if port not in set(without)])
