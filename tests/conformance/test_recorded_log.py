"""The model's log beside the recorder's broker: every fetch and every question for an offset, answered alike."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kitlib.conformance.golden import bundled, read_traces
from kitlib.conformance.partition_manager import changed, log_of
from kitlib.mechanisms.log import FetchError, PartitionLog

# Whole answers compared, per file: fetches, beginnings of a partial fetch, questions for an offset.
FILES = {"pm_scenarios.jsonl.gz": (243, 1, 136), "pm_random_public.jsonl.gz": (3_567, 56, 1_499)}


class RecordedLogs:
    """The topics of one recorded script as model logs, changed as the script changes them."""

    def __init__(self, trace: dict[str, Any]) -> None:
        self.topic, self.batch_size = trace["config"]["topic"], trace["config"]["fetchMaxMessages"]
        self.logs = {topic: log_of(topic, described, trace["config"]) for topic, described in trace["log"].items()}

    @property
    def log(self) -> PartitionLog:
        """The log that the spout reads now, with the fetch size that it asks for."""
        log = self.logs[self.topic]
        log.max_fetch_records = self.batch_size
        return log

    def follow(self, op: str, args: dict[str, Any]) -> dict[str, int] | None:
        """Change what the operation changes; the changed log's start and end, None if it is no log operation."""
        if op == "restart":
            self.topic = args.get("config", {}).get("topic", self.topic)
            self.batch_size = args.get("config", {}).get("fetchMaxMessages", self.batch_size)
        if op not in ("append", "truncate", "truncate_end", "compact"):
            return None
        return changed(self.logs.setdefault(args.get("topic", self.topic), PartitionLog()), {}, op, args)


def agrees(log: PartitionLog, call: dict[str, Any], fault: str) -> str:
    """How the model's log was compared with a recorded call: "fetch", "partial", "question", or "" for not at all."""
    if call["call"] == "getOffsetsBefore":
        found = log.offset_before(call["time"])
        assert ([] if found is None else [found]) == call["offsets"], call
        return "question"
    if fault in ("error_code", "exception"):
        return ""
    answer = log.fetch(call["offset"])
    offsets = [record.offset for record in answer.records]
    if fault == "partial":
        offsets = offsets[: len(call["returned"])]
    assert answer.error is FetchError.of(call["error"]) and offsets == call["returned"], call
    return fault or "fetch"


@pytest.mark.parametrize("name", FILES)
def test_log_answers_recorded_calls_as_the_recorders_broker(name: str) -> None:
    """Every fetch and every question for an offset is answered as recorded, but for the one fetch after an injected fault:
    a partial answer is a beginning of the model's, an injected error or exception is no answer of a log."""
    kinds: Counter[str] = Counter()
    for trace in read_traces(bundled("storm", name)):
        logs, fault = RecordedLogs(trace), ""
        for step in trace["steps"]:
            bounds = logs.follow(step["op"], step.get("args", {}))
            assert bounds is None or bounds == step["result"], (trace["name"], step)
            if step["op"] == "fault":
                fault = step["args"]["kind"]
            for call in step.get("broker", []):
                kinds[agrees(logs.log, call, fault)] += 1
                fault = "" if call["call"] == "fetch" else fault
    assert (kinds["fetch"], kinds["partial"], kinds["question"]) == FILES[name]
