"""Makes the data folders of a set of brokers usable, and never destroys what it does not understand.

Kafka's format tool writes several files; killed half way it leaves a folder that looks formatted and
is not. So a folder is formatted under a temporary name and renamed when it is whole. A folder that
is there but cannot be used is put aside under another name, for people to look at.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

from kitlib.errors import DiskError, LabError
from kitlib.lab.node import NO_ROOM, Node, read_meta
from kitlib.lab.processes import wait_until
from kitlib.lab.state import put_aside

FORMAT_TIMEOUT_S = 120.0
META_VERSION = "1"


def prepare(nodes: list[Node], brokers: int, say: Callable[[str], None], check_stop: Callable[[], None]) -> str:
    """Format what is not formatted; returns the cluster id.

    LabError when the folders belong to different clusters or to a newer Kafka: then nothing is changed.
    """
    folder = nodes[0].data.parent
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(".formatting-*"):
        shutil.rmtree(left)
    metas = {node.number: read_meta(node.data) for node in nodes}
    _check_metas(metas, nodes)
    first = metas[1]
    broken = [node for node in nodes if metas[node.number] is None]
    if first is None:
        broken = nodes  # the controller's metadata are gone, and without them the brokers' data mean nothing
    for node in broken:
        if node.data.exists():
            aside = put_aside(node.data)
            say(f"The data folder of broker {node.number} was not whole; it is kept as {aside}.")
    cluster_id = first["cluster.id"] if first else new_cluster_id()
    _format(broken, brokers, cluster_id, nodes[0].controller_port or 0, check_stop)
    return cluster_id


def new_cluster_id() -> str:
    """A random cluster id in the form of Kafka's own: a UUID in URL-safe base 64 that does not begin with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _check_metas(metas: dict[int, dict[str, str] | None], nodes: list[Node]) -> None:
    clusters = {meta["cluster.id"] for meta in metas.values() if meta}
    folder = nodes[0].data.parent
    if len(clusters) > 1:
        raise LabError(
            f"The data folders in {folder} belong to different clusters: {', '.join(sorted(clusters))}. Move the one that "
            "does not belong there away, or set KIT_HOME to another folder; nothing was changed."
        )
    for number, meta in metas.items():
        if meta and meta["version"] != META_VERSION:
            raise LabError(
                f"{folder}/node-{number} has the format version {meta['version']}, this kit's Kafka writes {META_VERSION}. "
                "Use the kit that made it, or set KIT_HOME to another folder; nothing was changed."
            )
        if meta and meta["node.id"] != str(number):
            raise LabError(
                f"{folder}/node-{number} holds the data of node {meta['node.id']}. Move it to its place, or set KIT_HOME "
                "to another folder; nothing was changed."
            )


def _format(
    nodes: list[Node], brokers: int, cluster_id: str, controller_port: int, check_stop: Callable[[], None]
) -> None:
    """Format the nodes' folders at the same time, each under a temporary name first."""
    running: list[tuple[Node, Path, subprocess.Popen[bytes]]] = []
    try:
        for node in nodes:
            draft = node.data.with_name(f".formatting-{node.data.name}")
            node.write_settings(brokers, controller_port, draft)
            running.append((node, draft, node.format(cluster_id)))
        for node, draft, tool in running:
            _finish(node, draft, tool, check_stop)
    finally:
        for _, draft, tool in running:
            if tool.poll() is None:
                tool.kill()
                tool.communicate()
            shutil.rmtree(draft, ignore_errors=True)


def _finish(node: Node, draft: Path, tool: subprocess.Popen[bytes], check_stop: Callable[[], None]) -> None:
    def ended() -> bool:
        check_stop()
        return tool.poll() is not None

    wait_until(ended, FORMAT_TIMEOUT_S, f"the data folder of broker {node.number} is formatted")
    output = tool.communicate()[0].decode("utf-8", "replace").strip()
    if tool.returncode != 0 or read_meta(draft) is None:
        last = (output.splitlines() or ["no output"])[-1]
        if any(words in output for words in NO_ROOM):
            free_mb = shutil.disk_usage(node.data.parent).free // 1_000_000
            raise DiskError(f"No room to format {node.data} ({free_mb} MB free): {last}. Make room, then try again.")
        raise LabError(f"Kafka could not format {node.data}: {last[:300]}. `kit doctor` looks at Java, jars and disk.")
    draft.rename(node.data)
