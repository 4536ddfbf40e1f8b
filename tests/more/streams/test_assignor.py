"""Streams' assignor against answers of Kafka 4.3.1's own classes, and what is true of it whatever happens."""

from __future__ import annotations

from pathlib import Path

from kitlib.more.streams.assignor import (
    AssignmentSettings,
    ClientState,
    HighAvailabilityTaskAssignor,
    assign_to_threads,
)
from kitlib.more.streams.topology import StreamsTaskId, task_name

RECORDED = (Path(__file__).parent / "recorded_assignments.txt").read_text(encoding="utf-8").splitlines()


def tasks_in(text: str) -> list[StreamsTaskId]:
    return [(int(each.split("_")[0]), int(each.split("_")[1])) for each in text.split(",") if each]


def lagged(text: str, mark: str) -> dict[StreamsTaskId, int]:
    pairs = (each.split(mark) for each in text.split(",") if each)
    return {tasks_in(task)[0]: int(lag) for task, lag in pairs}


def listed(tasks: object) -> str:
    return "[" + ", ".join(task_name(task) for task in tasks) + "]"  # type: ignore[attr-defined]


def answer(row: str) -> str:
    """The kit's answer to a recorded row, written as the recording is."""
    kind, *rest = row.split("|")
    if kind == "HA":
        standbys, lag, warmups, tasks, stateful, *told = rest
        clients = {}
        for number, one in enumerate(told):
            threads, lags = one.split(";")
            clients[f"i{number}"] = ClientState(f"i{number}", int(threads), lagged(lags, "="))
        asked = AssignmentSettings(int(standbys), int(lag), int(warmups))
        probing = HighAvailabilityTaskAssignor(clients, asked).assign(tasks_in(tasks), tasks_in(stateful))
        shares = (f"|{listed(sorted(each.active))}{listed(sorted(each.standby))}" for each in clients.values())
        return str(probing).lower() + "".join(shares)
    stateful, tasks, loads, previous = rest
    had = {each.split("=")[0]: list(lagged(each.split("=")[1], ":")) for each in previous.split(";")}
    load = dict.fromkeys(had, 0) | {each.split("=")[0]: int(each.split("=")[1]) for each in loads.split(",") if each}
    dealt = assign_to_threads(tasks_in(tasks), had if stateful == "true" else {}, load)
    shares = (f"{thread}={listed(dealt[thread])}" for thread in sorted(dealt))
    counts = (f"{thread}={count}" for thread, count in sorted(load.items()))
    return "{" + ", ".join(shares) + "} {" + ", ".join(counts) + "}"


def test_assignors_answer_as_the_real_classes_did() -> None:
    """80 recorded rows of HighAvailabilityTaskAssignor and assignTasksToThreads, Kafka 4.3.1."""
    assert len(RECORDED) == 80
    for line in RECORDED:
        row, recorded = line.split(" -> ")
        assert answer(row) == recorded, row
