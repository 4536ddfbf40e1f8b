"""Two incidents of 2015, told again: an old offset that wins, and an offset that a purge takes away.

In both a coordinator moves while a consumer is away, and the consumer is told something that is not so. What
follows is decided elsewhere: by the retention of the topic, and by the consumer's reset policy. On the model
the old releases' rules do it; a healthy broker of today does not, so on a real one an operator does to the
group's offset what the old coordinator would have answered, and everything after that is real.

Source: LinkedIn's account of the two incidents (Kafka's trunk between 0.8.2 and 0.9.0); KAFKA-2117, KAFKA-2163.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from kitlib.experiments.backend import ModelBackend
from kitlib.experiments.experiment import experiment
from kitlib.experiments.groups.group import MemberSettings
from kitlib.experiments.groups.group_run import GroupRun
from kitlib.experiments.knobs import Knob
from kitlib.experiments.offsets.incident_run import LATER, MINUTE_MS, NAME, OTHERS, SECOND_MS, IncidentRun
from kitlib.experiments.run import RunIsOver
from kitlib.monitor.figures import WENT_BACK
from kitlib.trace import Step, Trace


@dataclass(slots=True)
class RealIncident(GroupRun):
    """One run of an incident on a real broker: a real group, and an operator who does what the old coordinator would have said.

    The model is told the story first. Then its delivery words are done for real, in their order: records are appended
    and deleted, a real consumer reads, works and commits, is closed, and comes back. Where the model's coordinator
    answers something else than what is committed, the real group's offset is set to that, or deleted, while nobody
    is a member.

    Left out: the offsets topic's own steps; days (they pass at once).
    """

    answered: int | None = None  # what the model's coordinator said last; None: no offset
    pending: int = 0  # records that A has been handed by the model and not yet for real

    def tell(self, story: Callable[..., None], /, **given: Any) -> None:
        """Tell the story to the model, then do it."""
        name = self.trace.run
        imagined = IncidentRun(Trace(name, self.trace.experiment, domain=self.trace.domain), ModelBackend(name), self.settings)
        cut: RunIsOver | None = None
        try:
            story(imagined, **given)
        except RunIsOver as over:  # what it had told until then is done
            cut = over
        self.create(1)
        for step in imagined.trace:
            self.do(step)
        if cut:
            raise cut

    def do(self, step: Step) -> None:
        """Do for real what one step of the model tells."""
        data = step.data
        match step.actor, step.what:
            case "log", "append":
                self.append(0, data["last"] - data["first"] + 1)
            case "log", "delete":
                self.delete_before(0, data["to"])
            case _, "answer":
                self.answered = None if data["offset"] < 0 else data["offset"]
            case (who, "leave") if who == NAME:
                self.close(NAME)
            case (who, "start") if who == NAME:
                self._resume()
            case (who, "emit") if who == NAME:
                self.pending += 1
            case (who, "commit") if who == NAME:
                self._work(data["offset"])

    def _resume(self) -> None:
        """The group's offset becomes what the model was answered, if it is something else; then A begins."""
        committed = self.group.committed()[0]
        if self.answered is None and committed is not None:
            self.forget([0])
        elif self.answered is not None and self.answered != committed:
            self.alter({0: self.answered})
        settings = MemberSettings(auto_offset_reset=self.settings.auto_offset_reset, max_poll_records=self.settings.poll_records)
        self.start(settings, NAME)

    def _work(self, next_offset: int) -> None:
        self.work(NAME, self.take(NAME, self.pending))
        self.pending = 0
        self.commit(NAME, {0: next_offset})


Reset = Annotated[Literal["earliest", "latest"], Knob("Where A starts without a usable offset.", live=True)]
OffsetsRetentionDays = Annotated[int, Knob("How long a committed offset is retained.", "days", 1, 60)]
Poll = Annotated[int, Knob("How many records A reads and commits at a time.", "records", 1, 100)]


@experiment(
    "The stale offset", IncidentRun, max_steps=4_000,
    figure=WENT_BACK, front=("asks_after_min", "days", "old_days", "coordinator_rules", "log_rules"),
)
def stale_offset(
    run: IncidentRun,
    coordinator_rules: Annotated[
        Literal["2015-04", "0.9.0", "4.3.1"], Knob("Which release's rules the upgraded coordinators follow.")
    ] = "2015-04",
    log_rules: Annotated[
        Literal["0.8.2", "4.3.1"],
        Knob("When the age of a segment starts to count towards rolling: at the broker's start (0.8.2), or at its first record (4.3.1)."),
    ] = "0.8.2",
    auto_offset_reset: Reset = "latest",
    old_days: Annotated[int, Knob("How long offsets were written in the old format.", "days", 1, 10)] = 4,
    days: Annotated[int, Knob("How long ago that was.", "days", 1, 40)] = 21,
    retention_days: Annotated[int, Knob("The topic's retention.", "days", 1, 40)] = 4,
    roll_days: Annotated[int, Knob("Age at which a segment of the topic is rolled.", "days", 1, 40)] = 7,
    restart_every_days: Annotated[int, Knob("Time between restarts of the topic's brokers.", "days", 1, 40)] = 3,
    offsets_retention_days: OffsetsRetentionDays = 7,
    asks_after_min: Annotated[
        int, Knob("How long after the move A asks. Every ten minutes, the coordinator removes expired offsets.", "min", 0, 60)
    ] = 1,
    poll_records: Poll = 5,
) -> None:
    """Brokers write offsets in a new format. Weeks later, the coordinator moves, and A asks for its offset. What answer
    does it get, and what does it do?
    """
    run.begin("0.8.2")
    for _ in range(old_days):
        run.day()
    run.upgrade(coordinator_rules)
    for _ in range(days):
        run.day()
    run.stop()
    run.move(coordinator_rules)
    run.wait(asks_after_min * MINUTE_MS)
    run.resume()
    run.look()
    run.go_on()


@experiment(
    "The dead cleaner", IncidentRun, max_steps=4_000,
    figure=WENT_BACK, front=("dies_on_day", "days", "cleaner", "load_records_per_s", "coordinator_rules"),
)
def dead_cleaner(
    run: IncidentRun,
    coordinator_rules: Annotated[Literal["0.8.2", "0.9.0", "4.3.1"], Knob("Which release's rules the coordinator follows.")] = "0.8.2",
    cleaner: Annotated[Literal["dies", "runs"], Knob("What happens to the log cleaner.")] = "dies",
    auto_offset_reset: Reset = "earliest",
    days: Annotated[int, Knob("When the coordinator moves.", "days", 2, 40)] = 12,
    dies_on_day: Annotated[int, Knob("The day on which the cleaner dies.", "day", 0, 39)] = 3,
    load_records_per_s: Annotated[int, Knob("How fast a coordinator reads the offsets topic.", "records/s", 1, 1_000)] = 1,
    check_interval_s: Annotated[
        int, Knob("How often a coordinator removes expired offsets; in the incident, every ten minutes.", "s", 1, 3_600)
    ] = 30,
    offsets_retention_days: OffsetsRetentionDays = 1,
    rounds_a_day: Annotated[int, Knob("Commits of each group per day.", "commits", 1, 6)] = 2,
    poll_records: Poll = 5,
) -> None:
    """The log cleaner has died, and the offsets topic has grown. The coordinator moves and reads it. What answer does A
    get when it asks again?
    """
    run.begin(coordinator_rules, OTHERS + LATER)
    for day in range(days):
        if cleaner == "dies" and day == min(dies_on_day, days - 1):
            run.kill_cleaner()
        run.day()
    run.stop()
    run.move(coordinator_rules, since_check_ms=min(5, check_interval_s - 1) * SECOND_MS)
    run.resume()
    run.look()
    run.go_on()
