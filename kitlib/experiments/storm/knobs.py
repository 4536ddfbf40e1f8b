"""The knobs of Storm's spout."""

from __future__ import annotations

from typing import Annotated, Literal

from kitlib.experiments.knobs import UNLIMITED, Knob

Records = Annotated[int, Knob("How many records the topic holds at the start.", "records", 1, 5_000)]
FetchRecords = Annotated[int, Knob("Maximum number of records per fetch.", "records", 1, 1_000, live=True)]
MaxOffsetBehind = Annotated[
    int,
    Knob(
        "How far below the newest fetched offset a failure is still retried, and an unfinished record still remembered.",
        "offsets", 0, UNLIMITED, scale="log", live=True,
    ),
]
MaxSpoutPending = Annotated[
    int, Knob("How many tuples may be in flight at once.", "tuples", 1, 10_000, scale="log", live=True)
]
FailPercent = Annotated[int, Knob("Share of tuples that fail, at random.", "%", 0, 100, live=True)]
CommitEveryMs = Annotated[int, Knob("How often the spout commits.", "ms", 10, 60_000, live=True)]
ForceFromStart = Annotated[
    bool, Knob("Whether start_offset_time decides where a new topology starts; otherwise at the log end.", live=True)
]
StartOffsetTime = Annotated[Literal["earliest", "latest"], Knob("Where a forced start goes.", live=True)]
UseStartOffsetTime = Annotated[
    bool, Knob("Whether the spout moves on when the wanted offset is gone, instead of failing at each fetch.", live=True)
]
Release = Annotated[
    Literal["0.9.2", "0.9.3", "1.1.0"],
    Knob("Which rules the PartitionManager follows: those of an earlier release, of Storm 0.9.3, or of the later retry manager."),
]


class WorkKnobs:
    """What a spout fetches, keeps in flight and commits, and how long its bolt works."""

    fetch_records: FetchRecords = 10
    max_spout_pending: MaxSpoutPending = 10
    process_ms: Annotated[
        int, Knob("Mean time per tuple; each takes 50 to 150 % of it.", "ms", 1, 5_000, live=True)
    ] = 40
    commit_every_ms: CommitEveryMs = 50


class SpoutKnobs(WorkKnobs):
    """The same, with failures and the rules for retrying them."""

    max_offset_behind: MaxOffsetBehind
    fail_percent: FailPercent
    release: Release = "0.9.3"
