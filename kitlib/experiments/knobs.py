"""Knobs: the settings of an experiment, described once.

From one description come the slider, the command line's option with its help, and the sentence a
learner reads after a bad value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kitlib.errors import KnobError
from kitlib.java.numbers import MAX_LONG

UNLIMITED = MAX_LONG  # what Storm writes for "no bound"

_BOOLS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

Kind = Literal["int", "float", "bool", "choice"]
PLACES = ("offset", "day")  # units that say where or when, and not how many: "offset 35"
ENDINGS = (("ies", "y"), ("ches", "ch"), ("s", ""))  # of a plural and its singular


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting: its name, unit, range, default and one line of help.

    `low` and `high` are inclusive and matter for numbers; `choices` for kind "choice". A `live` knob
    may change in the middle of a run (at a fork); the others shape the run from its first step.
    """

    name: str
    kind: Kind
    default: Any
    help: str
    unit: str = ""
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    scale: Literal["linear", "log"] = "linear"
    live: bool = True

    @property
    def range(self) -> str:
        """The allowed values in words."""
        if self.kind == "bool":
            return "true or false"
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        high = "unlimited" if self.high == UNLIMITED else f"{self.high:,}"
        return f"{self.low:,} to {high}" + (f" {self.unit}" if self.unit else "")

    def with_unit(self, number: str) -> str:
        """A value's number with the unit, as one says it: "35 tuples", "1 tuple", "offset 35"."""
        if self.unit in PLACES:
            return f"{self.unit} {number}"
        what, per, time = self.unit.partition("/")
        if number == "1" and len(what) > 2:  # not ms, s or %
            what = next((what.removesuffix(many) + one for many, one in ENDINGS if what.endswith(many)), what)
        return f"{number} {what}{per}{time}".strip()

    def check(self, value: Any) -> Any:
        """`value` as this knob's type. KnobError when it is of another type or outside the range.

        Texts are read as a command line writes them: "unlimited", "true", "1e3", "1_000".
        """
        try:
            return self._checked(value)
        except (ValueError, TypeError, OverflowError, KeyError):
            shown = repr(value)[:60]
            raise KnobError(f"{self.name} is {shown}, expected {self.range}. {self.help}") from None

    def _checked(self, value: Any) -> Any:
        if self.kind == "bool":
            if isinstance(value, str):
                return _BOOLS[value.strip().lower()]
            return value if isinstance(value, bool) else _refuse()
        if self.kind == "choice":
            return value if value in self.choices else _refuse()
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return _refuse()
        if isinstance(value, str) and value.strip().lower() == "unlimited" and self.high == UNLIMITED:
            return UNLIMITED
        number = float(value) if self.kind == "float" else _whole(value)
        return number if math.isfinite(number) and self.low <= number <= self.high else _refuse()

    def to_json(self) -> dict[str, Any]:
        """The description as JSON values, for widgets; 64-bit bounds as text, which JavaScript keeps exactly."""
        return {
            "name": self.name,
            "kind": self.kind,
            "default": self.default if self.default != UNLIMITED else "unlimited",
            "help": self.help,
            "unit": self.unit,
            "low": self.low,
            "high": self.high if self.high != UNLIMITED else "unlimited",
            "choices": list(self.choices),
            "scale": self.scale,
            "live": self.live,
        }


def _whole(value: Any) -> int:
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        text = value.strip().replace("_", "")
        try:
            return int(text)
        except ValueError:
            value = float(text)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(_refuse())


def _refuse() -> Any:
    raise ValueError


def settle(knobs: Iterable[Knob], given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Every knob's value: the given one, checked, or its default. KnobError for a name that is no knob."""
    by_name = {knob.name: knob for knob in knobs}
    for name in given:
        if name not in by_name:
            raise KnobError(f"{where} has no knob '{name}'. Its knobs are {', '.join(by_name)}.")
    return {name: knob.check(given[name]) if name in given else knob.default for name, knob in by_name.items()}


RECORDS = Knob("records", "int", 40, "How many records the topic holds at the start.", "records", 1, 5_000, live=False)
FETCH_RECORDS = Knob("fetch_records", "int", 10, "How many records one fetch brings at most.", "records", 1, 1_000)
MAX_OFFSET_BEHIND = Knob(
    "max_offset_behind",
    "int",
    UNLIMITED,
    "How far below the newest fetched offset a failure is still retried, and an unfinished record still remembered.",
    "offsets",
    0,
    UNLIMITED,
    scale="log",
)
MAX_SPOUT_PENDING = Knob(
    "max_spout_pending", "int", 10, "How many tuples may be on their way at once.", "tuples", 1, 10_000, scale="log"
)
PROCESS_MS = Knob(
    "process_ms", "int", 40, "How long the bolt works on a tuple, half to one and a half times.", "ms", 1, 5_000
)
FAIL_PERCENT = Knob("fail_percent", "int", 0, "How many of a hundred tuples fail, by chance.", "%", 0, 100)
COMMIT_EVERY_MS = Knob("commit_every_ms", "int", 50, "How often the spout commits.", "ms", 10, 60_000)
FORCE_FROM_START = Knob(
    "force_from_start", "bool", False, "Lets start_offset_time decide where a new topology begins; else the log's end."
)
START_OFFSET_TIME = Knob(
    "start_offset_time", "choice", "earliest", "Where a forced start begins.", choices=("earliest", "latest")
)
USE_START_OFFSET_TIME = Knob(
    "use_start_offset_time_if_offset_out_of_range",
    "bool",
    True,
    "Move on when the wanted offset is gone, instead of failing at each fetch.",
)
RELEASE = Knob(
    "release",
    "choice",
    "0.9.3",
    "Whose rules the PartitionManager follows: an earlier release's, Storm 0.9.3's, or those of the later retry manager.",
    choices=("0.9.2", "0.9.3", "1.1.0"),
    live=False,
)
TOPOLOGY_ACKERS = Knob(
    "topology_ackers", "int", 1, "How many tasks follow the trees; 0: a tuple counts as acked when it is emitted.",
    "ackers", 0, 50, live=False,
)  # fmt: skip
MESSAGE_TIMEOUT_SECS = Knob(
    "topology_message_timeout_secs",
    "int",
    30,
    "How often the pending maps rotate: a tree times out after one to two times this.",
    "s",
    1,
    3_600,
    scale="log",
)
ID_BITS = Knob("id_bits", "int", 64, "How many bits a tuple's id has; Storm's have 64.", "bits", 1, 64, live=False)
ACKER_RELEASE = Knob(
    "acker_release",
    "choice",
    "0.9.3",
    "Whose rules the acker follows: Storm 0.9.3's, or those of Storm 2.",
    choices=("0.9.3", "2.4.0"),
    live=False,
)
FAN_OUT = Knob("fan_out", "int", 2, "How many tuples a bolt makes of one.", "tuples", 1, 8, live=False)
DEPTH = Knob("depth", "int", 1, "How many such bolts come one after the other.", "bolts", 0, 4, live=False)
EXECUTE_MS = Knob("execute_ms", "int", 10, "How long a bolt works on a tuple.", "ms", 0, 5_000)
ANCHORED = Knob("anchored", "bool", True, "Whether the bolts anchor the tuples that they send.", live=False)
MESSAGE_IDS = Knob("message_ids", "bool", True, "Whether the spout hands tuples out with a message id.", live=False)
MESSAGE_TIMEOUTS = Knob(
    "topology_enable_message_timeouts", "bool", True, "Whether trees time out at all; else what is lost stays pending."
)
TRANSFER_JITTER_MS = Knob(
    "transfer_jitter_ms", "int", 0, "How much longer than 1 ms a message may take, by chance; acks may overtake inits.",
    "ms", 0, 1_000,
)  # fmt: skip
