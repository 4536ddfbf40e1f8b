"""A broker that is not the kit's: started from its jars with settings of a test's own, as a user's cluster would be."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kitlib.lab import jars, java
from kitlib.lab.brokers import node, ports
from kitlib.lab.processes import wait_until

Settings = dict[str, str]


@contextmanager
def own_broker(
    home: Path, change: Callable[[Settings, list[int]], Settings], more_ports: int = 0, plugin: Path | None = None
) -> Iterator[node.Node]:
    """One broker with the kit's settings as `change` makes them of these, and a folder of classes beside Kafka's.

    It is given so many further ports. Ended at the end.
    """
    (home / "tmp").mkdir()
    java_of_all = java.find_java().executable
    classes = (*jars.ensure_jars("kafka"), *([plugin] if plugin else ()))
    machinery = node.Machinery(java_of_all, classes, home, home, uuid.uuid4().hex, node.HEAP_MB[1])
    controller_port, own, *more = ports.draw(2 + more_ports)
    broker = node.Node(1, home / "node-1", machinery, own, controller_port, on_end=lambda: None)
    node.prepare([broker], 1, lambda _sentence: None, lambda: None)
    broker.write_settings(1, controller_port)
    values = change(dict(line.split("=", 1) for line in broker.settings_file.read_text().splitlines()), more)
    broker.settings_file.write_text("".join(f"{name}={value}\n" for name, value in values.items()), encoding="ascii")
    broker.start()
    try:
        wait_until(lambda: not broker.is_running() or ports.serves_producers(broker.port), 60, "the broker serves")
        assert broker.is_running(), broker.why_ended()
        yield broker
    finally:
        broker.ask_to_stop()
        broker.end(30)
