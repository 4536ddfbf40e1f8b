"""Every model against every step that was recorded of the real class: what a result, a state, an error and an effect was there."""

from __future__ import annotations

import pytest

from kitlib.cli.conform import MODELS
from kitlib.conformance.golden import bundled, conform, read_traces

# Traces and steps of each file that comes with the kit.
COUNTS = {
    "storm/pm_scenarios.jsonl.gz": (95, 1_024), "storm/pm_random_public.jsonl.gz": (200, 15_090),
    "storm/acker_scenarios.jsonl.gz": (40, 183), "storm/acker_random_public.jsonl.gz": (150, 11_372),
    "producer/producer_state_named.jsonl.gz": (61, 339), "producer/producer_state_public.jsonl.gz": (300, 19_549),
    "producer/sender_named.jsonl.gz": (47, 916), "producer/sender_public.jsonl.gz": (100, 8_449),
    "producer/sender_named_2_0_0.jsonl.gz": (36, 646),
    "groups/connect_named.jsonl.gz": (22, 58), "groups/connect_public.jsonl.gz": (40, 304),
    "groups/assignors_named.jsonl.gz": (21, 21), "groups/assignors_public.jsonl.gz": (100, 100),
    "groups/assignors_asked.jsonl.gz": (45, 45), "groups/hashes.jsonl.gz": (200, 200),
    "groups/offsets_topic_public.jsonl.gz": (93, 93),
    "groups/compaction_named.jsonl.gz": (24, 212), "groups/compaction_public.jsonl.gz": (60, 1_385),
    "client/metadata.jsonl.gz": (86, 450), "client/pool.jsonl.gz": (60, 497),
    "burrow/windows_named.jsonl.gz": (36, 36), "burrow/windows_public.jsonl.gz": (200, 200),
    "burrow/commits_named.jsonl.gz": (16, 16), "burrow/commits_public.jsonl.gz": (60, 60),
}  # fmt: skip


@pytest.mark.parametrize(("model", "file"), [(model, file) for model, (_, files) in MODELS.items() for file in files])
def test_model_agrees_with_every_recorded_step(model: str, file: str) -> None:
    """Each trace is there, and each of its steps comes out as it did in the real class."""
    found = conform(MODELS[model][0], read_traces(bundled(*file.split("/"))))
    assert found.agrees, str(found)
    assert (found.traces, found.matched, found.total) == (*COUNTS[file], COUNTS[file][1])
