"""The experiments with a coordinator that forgets what nobody uses, or moves to another broker."""

from __future__ import annotations

from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.offsets.coordinator_run import CoordinatorRun
from kitlib.kafka.offsets.offset_rules import RULES

RULES_KNOB = Knob(
    "rules", "choice", "4.3.1",
    "Whose rules the coordinator follows: Kafka 0.8.2's, those of its trunk of April 2015, 0.9.0's or today's.",
    choices=tuple(RULES), live=False,
)  # fmt: skip
GROUP = Knob(
    "group", "choice", "alive", "Whether the group has its member all the time, or nobody is in it for a while.",
    choices=("alive", "empty"), live=False,
)  # fmt: skip
RETENTION_MS = Knob(
    "offsets_retention_ms", "int", 1_500, "How long a committed offset is kept; a broker says it in minutes.", "ms",
    100, 600_000, live=False,
)  # fmt: skip
CHECK_MS = Knob(
    "check_interval_ms", "int", 1_000, "How often the model's coordinator looks for expired offsets.", "ms", 100, 600_000,
    live=False,
)  # fmt: skip
AWAY_MS = Knob("away_ms", "int", 3_500, "How long nothing happens on one of the two topics.", "ms", 0, 600_000, live=False)
RECORDS = Knob("records", "int", 10, "How many records a topic has at first.", "records", 1, 500, live=False)
WHILE_AWAY = Knob("records_while_away", "int", 4, "How many come after the wait, before the consumer asks where to begin.",
                  "records", 0, 500, live=False)  # fmt: skip
RESET = Knob(
    "auto_offset_reset", "choice", "earliest", "Where a consumer begins that is told of no offset.",
    choices=("earliest", "latest"), live=False,
)  # fmt: skip
ODD_RECORD = Knob(
    "odd_record", "choice", "none",
    "A record of a later release in the middle of the offsets topic: of a type that is not known, or a commit in a later version.",
    choices=("none", "unknown type", "later version"), live=False,
)  # fmt: skip
OTHERS = Knob("others_records", "int", 60, "How often other groups commit to the same partition of the offsets topic.",
              "records", 0, 1_000, live=False)  # fmt: skip
OTHERS_KEYS = Knob("others_keys", "int", 10, "To how many partitions they do.", "keys", 1, 100, live=False)
LOAD_SPEED = Knob("load_records_per_s", "int", 50, "How fast the model's new coordinator reads the log.", "records/s",
                  1, 1_000_000, scale="log", live=False)  # fmt: skip
LOAD_CHUNK = Knob("load_chunk_records", "int", 10, "How many records it reads at a time.", "records", 1, 10_000, live=False)
RETRY_MS = Knob("retry_ms", "int", 250, "How long the consumer waits before it asks again.", "ms", 10, 60_000, live=False)
BETWEEN = Knob("records_while_loading", "int", 1, "How many records come before each time that it asks again.", "records",
               0, 100, live=False)  # fmt: skip

REQUIRE_STABLE = Knob(
    "require_stable", "bool", True,
    "Whether the consumer asks for stable offsets only, as Java's and librdkafka's clients of today do.", live=False,
)  # fmt: skip
UNREPLICATED = Knob(
    "unreplicated", "int", 0,
    "On the model: of how many of the last records the new leader does not know yet that all copies have them.",
    "records", 0, 1_000, live=False,
)  # fmt: skip

FIRST_ANSWER_MS = 10_000
TOLD_WITHIN_MS = 20_000  # a consumer that is told nothing for so long has stopped, for this story
ROUNDS = 4  # of records on the busy topic while the other one is quiet


def _offset_expiry(run: CoordinatorRun) -> None:
    """All is read and committed; then one topic is quiet for a while, or nobody is there; then the consumer asks where to begin."""
    knobs = run.knobs
    policy = knobs["auto_offset_reset"]
    try:
        run.create("orders", "refunds")
        run.resume(policy, FIRST_ANSWER_MS)
        run.join()
        for name in ("orders", "refunds"):
            run.append(name, knobs["records"])
            run.read(name)
        if knobs["group"] == "empty":
            run.leave()
            run.wait(knobs["away_ms"])
        else:
            for _ in range(ROUNDS):
                run.wait(knobs["away_ms"] // ROUNDS)
                run.append("orders", 1)
                run.read("orders")
        for name in ("orders", "refunds"):
            run.append(name, knobs["records_while_away"])
        run.resume(policy, FIRST_ANSWER_MS)
        for name in ("orders", "refunds"):
            run.read(name)
    finally:
        run.keeper.close()


def _coordinator_moves(run: CoordinatorRun) -> None:
    """The consumer commits before and after a time in which other groups do; then the coordinator moves, and it asks where to begin."""
    knobs = run.knobs
    policy = knobs["auto_offset_reset"]
    try:
        run.create("orders")
        run.resume(policy, FIRST_ANSWER_MS)
        run.append("orders", knobs["records"])
        run.read("orders")
        run.others_commit(knobs["others_records"], knobs["others_keys"])
        run.append("orders", knobs["records"])
        run.read("orders")
        run.move()
        if run.resume(policy, TOLD_WITHIN_MS, knobs["records_while_loading"]):
            run.read("orders")
    finally:
        run.keeper.close()


offset_expiry = Experiment(
    "offset_expiry",
    "A committed offset grows old",
    "A consumer reads two topics, and on one of them nothing happens for longer than offsets are kept. Where does it begin there?",
    (RULES_KNOB, GROUP, RETENTION_MS, AWAY_MS, CHECK_MS, RESET, RECORDS, WHILE_AWAY, MAX_STEPS),
    _offset_expiry,
    kind=CoordinatorRun,
)
coordinator_moves = Experiment(
    "coordinator_moves",
    "A coordinator moves",
    "Another broker becomes the coordinator and has to read the offsets topic first. What is a consumer told that asks meanwhile?",
    (
        RULES_KNOB,
        ODD_RECORD,
        REQUIRE_STABLE,
        UNREPLICATED,
        RESET,
        RECORDS,
        OTHERS,
        OTHERS_KEYS,
        LOAD_SPEED,
        LOAD_CHUNK,
        RETRY_MS,
        BETWEEN,
        MAX_STEPS,
    ),
    _coordinator_moves,
    kind=CoordinatorRun,
)
