"""Storm's knobs: the spout's, and the topologies'."""

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
ProcessMs = Annotated[
    int, Knob("Mean time per tuple; each takes 50 to 150 % of it.", "ms", 1, 5_000, live=True)
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
TopologyAckers = Annotated[
    int, Knob("Number of acker tasks; 0: a tuple counts as acked when it is emitted.", "ackers", 0, 50)
]
MessageTimeoutSecs = Annotated[
    int, Knob("How often the pending maps rotate: a tree times out after one to two times this.", "s", 1, 3_600, scale="log", live=True)
]
IdBits = Annotated[int, Knob("Bits of a tuple's id; Storm uses 64.", "bits", 1, 64)]
AckerRelease = Annotated[
    Literal["0.9.3", "2.4.0"], Knob("Which rules the acker follows: those of Storm 0.9.3 or of Storm 2.")
]
FanOut = Annotated[int, Knob("How many tuples a bolt emits for each input tuple.", "tuples", 1, 8)]
Depth = Annotated[int, Knob("How many such bolts are chained.", "bolts", 0, 4)]
ExecuteMs = Annotated[int, Knob("Time a bolt takes per tuple.", "ms", 0, 5_000, live=True)]
Anchored = Annotated[bool, Knob("Whether the bolts anchor the tuples that they send.")]
MessageIds = Annotated[bool, Knob("Whether the spout emits tuples with a message id.")]
MessageTimeouts = Annotated[bool, Knob("Whether trees time out at all; otherwise, what is lost stays pending.", live=True)]
TransferJitterMs = Annotated[
    int, Knob("How much longer than 1 ms a message may take, at random; acks may overtake inits.", "ms", 0, 1_000, live=True)
]
Parallelism = Annotated[int, Knob("How many tasks each bolt has.", "tasks", 1, 20)]


class WorkKnobs:
    """What a spout fetches, keeps in flight and commits, and how long its bolt works."""

    fetch_records: FetchRecords = 10
    max_spout_pending: MaxSpoutPending = 10
    process_ms: ProcessMs = 40
    commit_every_ms: CommitEveryMs = 50


class SpoutKnobs(WorkKnobs):
    """The same, with failures and the rules for retrying them."""

    max_offset_behind: MaxOffsetBehind
    fail_percent: FailPercent
    release: Release = "0.9.3"


class TopologyKnobs:
    """What a topology's spout fetches, keeps in flight and commits, and how long its bolts work."""

    topology_message_timeout_secs: MessageTimeoutSecs = 30
    max_spout_pending: MaxSpoutPending = 10
    execute_ms: ExecuteMs = 10
    fetch_records: FetchRecords = 10
    commit_every_ms: CommitEveryMs = 2_000


class TreeKnobs(TopologyKnobs):
    """The same, of a topology that makes several tuples of one."""

    fan_out: FanOut = 2
    parallelism: Parallelism
