"""Two incidents of 2015, told again: an old offset that wins, and an offset that a purge takes away.

In both a coordinator moves while a consumer is away, and the consumer is told something that is not so. What
follows is decided elsewhere: by the retention of the topic, and by the consumer's reset policy. On the model
the old releases' rules do it; a healthy broker of today does not, so on a real one an operator does to the
group's offset what the old coordinator would have answered, and everything after that is real.

Source: LinkedIn's account of the two incidents (Kafka's trunk between 0.8.2 and 0.9.0); KAFKA-2117, KAFKA-2163.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kitlib.experiments.experiment import MAX_STEPS, Experiment
from kitlib.experiments.knobs import Knob
from kitlib.experiments.offsets.incident_on_kafka import RealIncident, incident_run
from kitlib.experiments.offsets.offsets_run import LATER, MINUTE_MS, OTHERS, SECOND_MS, OffsetsRun


def on_both(story: Callable[[OffsetsRun], None]) -> Callable[[OffsetsRun | RealIncident], None]:
    """The story on the model, or on a real broker: there the model tells what happens, and it is done for real."""

    def tell(run: OffsetsRun | RealIncident) -> None:
        if isinstance(run, RealIncident):
            run.replay(story)
        else:
            story(run)

    return tell


RESET = Knob(
    "auto_offset_reset", "choice", "latest", "Where A begins when it is told no usable offset.", choices=("earliest", "latest")
)
POLL = Knob("poll_records", "int", 5, "How many records A reads and commits at a time.", "records", 1, 100, live=False)

# -- the stale offset --------------------------------------------------------------------------------


@on_both
def _tell_stale_offset(run: OffsetsRun) -> None:
    rules = run.knobs["coordinator_rules"]
    run.begin("0.8.2")
    for _ in range(run.knobs["old_days"]):
        run.day()
    run.upgrade(rules)
    for _ in range(run.knobs["days"]):
        run.day()
    run.stop()
    run.move(rules)
    run.wait(run.knobs["asks_after_min"] * MINUTE_MS)
    run.resume()
    run.look()
    run.go_on()


stale_offset = Experiment(
    "stale_offset",
    "The stale offset",
    "Brokers write offsets in a new format. Weeks later the coordinator moves, and A asks where it was. What is it told, what does it do?",
    (
        Knob(
            "coordinator_rules", "choice", "2015-04", "Whose rules the upgraded coordinators follow.",
            choices=("2015-04", "0.9.0", "4.3.1"), live=False,
        ),
        Knob(
            "log_rules", "choice", "0.8.2",
            "From when the age of a segment counts, after which it is rolled: the broker's start (0.8.2), or its first record (4.3.1).",
            choices=("0.8.2", "4.3.1"), live=False,
        ),
        replace(RESET, default="latest"),
        Knob("old_days", "int", 4, "For how long offsets were written in the old format.", "days", 1, 10, live=False),
        Knob("days", "int", 21, "How long ago that was.", "days", 1, 40, live=False),
        Knob("retention_days", "int", 4, "The topic's retention.", "days", 1, 40, live=False),
        Knob("roll_days", "int", 7, "After so long a segment of the topic is rolled.", "days", 1, 40, live=False),
        Knob("restart_every_days", "int", 3, "How often the topic's brokers are restarted.", "days", 1, 40, live=False),
        Knob("offsets_retention_days", "int", 7, "For how long a committed offset is kept.", "days", 1, 60, live=False),
        Knob(
            "asks_after_min", "int", 1, "How long after the move A asks. The coordinator forgets what is too old every ten minutes.",
            "min", 0, 60, live=False,
        ),
        POLL,
        replace(MAX_STEPS, default=4_000),
    ),
    _tell_stale_offset,
    kind=incident_run,
    domain="incidents",
)  # fmt: skip

# -- the dead cleaner --------------------------------------------------------------------------------


@on_both
def _tell_dead_cleaner(run: OffsetsRun) -> None:
    knobs, rules = run.knobs, run.knobs["coordinator_rules"]
    run.begin(rules, OTHERS + LATER)
    for day in range(knobs["days"]):
        if knobs["cleaner"] == "dies" and day == min(knobs["dies_on_day"], knobs["days"] - 1):
            run.kill_cleaner()
        run.day()
    run.stop()
    run.move(rules, since_check_ms=min(5, knobs["check_interval_s"] - 1) * SECOND_MS)
    run.resume()
    run.look()
    run.go_on()


dead_cleaner = Experiment(
    "dead_cleaner",
    "The dead cleaner",
    "The log cleaner has died, and the offsets topic has grown. The coordinator moves and reads it. What does A hear when it asks again?",
    (
        Knob(
            "coordinator_rules", "choice", "0.8.2", "Whose rules the coordinator follows.",
            choices=("0.8.2", "0.9.0", "4.3.1"), live=False,
        ),
        Knob("cleaner", "choice", "dies", "What becomes of the log cleaner.", choices=("dies", "runs"), live=False),
        replace(RESET, default="earliest"),
        Knob("days", "int", 12, "After so long the coordinator moves.", "days", 2, 40, live=False),
        Knob("dies_on_day", "int", 3, "The day on which the cleaner dies.", "day", 0, 39, live=False),
        Knob("load_records_per_s", "int", 1, "How fast a coordinator reads the offsets topic.", "records/s", 1, 1_000, live=False),
        Knob(
            "check_interval_s", "int", 30, "How often a coordinator forgets what is too old; the incident's did every ten minutes.",
            "s", 1, 3_600, live=False,
        ),
        Knob("offsets_retention_days", "int", 1, "For how long a committed offset is kept.", "days", 1, 60, live=False),
        Knob("rounds_a_day", "int", 2, "How often each group commits in a day.", "commits", 1, 6, live=False),
        POLL,
        replace(MAX_STEPS, default=4_000),
    ),
    _tell_dead_cleaner,
    kind=incident_run,
    domain="incidents",
)  # fmt: skip
