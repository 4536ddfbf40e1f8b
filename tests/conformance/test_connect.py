"""Connect's leader against every recorded rebalance of Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

from kitlib.conformance.connect import members_of, replay
from kitlib.conformance.golden import bundled, read_traces
from kitlib.more.connect.work import ConnectorsAndTasks, as_told

FILES = ("connect_named", "connect_public")
TRACES = {each["name"]: each for file in FILES for each in read_traces(bundled("groups", f"{file}.jsonl.gz"))}


def work_of(told: dict[str, Any], what: str) -> ConnectorsAndTasks:
    return ConnectorsAndTasks.of([*told[f"{what}_connectors"], *((name, number) for name, number in told[f"{what}_tasks"])])


def test_connect_work_comes_back_in_the_order_of_the_wire() -> None:
    """What a worker was told and kept, sent twice over the wire, is what the leader sees next, in that order."""
    compared = 0
    for trace in TRACES.values():
        held: dict[str, Any] = {}
        for step, done in zip(trace["steps"], replay(trace), strict=True):
            args, members = step["args"], members_of(step["args"])
            for name in held.keys() & members.keys() - set(args["restarted"]):
                assert (members[name].connectors, members[name].tasks) == held[name]
                compared += 1
            held = {}
            for name, told in done["result"]["workers"].items() if trace["protocol"] != "default" else ():
                if name in args["lost_sync"]:
                    continue
                new = as_told(work_of(told, "assigned"))
                new |= members[name]
                new.remove(work_of(told, "revoked"))
                again = as_told(new)
                held[name] = again.connectors, again.tasks
    assert compared > 400
