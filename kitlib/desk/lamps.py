"""Three witnesses of one run, side by side: our ledgers, the broker's log read back, and Spark.

Each has counted by itself what became of the records. The log is what is really there, so the other two are held against it; where
one of them differs, its lamp says in what.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from kitlib.desk.fold import Tally
from kitlib.words.template import count

State = Literal["agrees", "differs", "unknown", "dark"]  # dark: nothing was compared yet
WITNESSES = ("our ledgers", "the broker's log", "Spark")
PLACES = {"topic": "the topic", "results": "the results"}
KINDS = {"duplicated": "duplicated", "reordered": "out of order", "missing": "missing", "lines": "in all"}


@dataclass(frozen=True, slots=True)
class Witness:
    """What one of the three says of both logs."""

    name: str
    topic: Tally  # by the numbers that the producer gave
    results: Tally  # by the offsets of the records
    unread: int = 0  # offsets of the topic that it was never given, so that of the topic it cannot say all


@dataclass(frozen=True, slots=True)
class Lamp:
    """Whether one witness agrees with the log."""

    name: str
    state: State
    sentence: str


DARK = tuple(Lamp(name, "dark", "") for name in WITNESSES)


@dataclass(frozen=True, slots=True)
class Drained:
    """What the three say when everything has come to rest."""

    handed_over: int  # records that the producer was given
    committed_to: int  # the spout's last commit
    witnesses: tuple[Witness, Witness, Witness]  # our ledgers, the broker's log, Spark

    @property
    def lamps(self) -> tuple[Lamp, Lamp, Lamp]:
        """The verdict on each of the three."""
        ledgers, log, spark = self.witnesses
        said = told(log, self.committed_to)
        return compare(ledgers, log), Lamp(log.name, "agrees", said[:1].upper() + said[1:]), compare(spark, log)

    @property
    def agree(self) -> bool:
        """Whether all three say the same."""
        return all(lamp.state == "agrees" for lamp in self.lamps)

    @property
    def sentence(self) -> str:
        """What was found, and whether the three agree on it."""
        log = self.witnesses[1]
        if self.agree:
            return f"All three agree: {told(log, self.committed_to)}"
        return " ".join(lamp.sentence for lamp in self.lamps if lamp.state != "agrees")

    def to_json(self) -> dict[str, Any]:
        """For a page or a terminal."""
        counts = {each.name: {"topic": each.topic.counts, "results": each.results.counts} for each in self.witnesses}
        lamps = [asdict(lamp) for lamp in self.lamps]
        told = {"handed_over": self.handed_over, "committed_to": self.committed_to, "agree": self.agree, "sentence": self.sentence}
        return {**told, "counts": counts, "lamps": lamps}

    def __repr__(self) -> str:
        return self.sentence


def told(witness: Witness, committed_to: int) -> str:
    """What it counted, in a sentence."""
    topic, results = witness.topic, witness.results
    passed = sum(max(0, min(last, committed_to - 1) - first + 1) for first, last in results.gaps)
    without = "each of them has a result"
    if results.missing:
        has = "has" if results.missing == 1 else "have"
        without = f"{results.missing:,} of them {has} no result, and the commit has passed {passed:,} of these"
    return (
        f"the topic holds {count(topic.lines, 'record')} ({topic.missing:,} missing, {topic.duplicated:,} duplicated, "
        f"{topic.reordered:,} out of order); {without}; {results.duplicated:,} {'was' if results.duplicated == 1 else 'were'} processed "
        f"again, {results.reordered:,} out of order."
    )


def compare(witness: Witness, log: Witness) -> Lamp:
    """One witness held against the log: the first count in which they differ, else whether the same records are counted."""
    name = witness.name
    for place, where in PLACES.items():
        ours, real = getattr(witness, place), getattr(log, place)
        if place == "topic" and witness.unread:
            continue
        for kind, word in KINDS.items():
            if (mine := ours.counts[kind]) != (theirs := real.counts[kind]):
                return Lamp(name, "differs", f"{_begin(name)} {mine:,} {word} in {where}, the broker's log {theirs:,}.")
        if ours.gaps != real.gaps:
            return Lamp(name, "differs", f"{_begin(name)} as many missing in {where} as the broker's log, but other records.")
    if witness.unread:
        sentence = f"{name.capitalize()} cannot tell what is in the topic: {count(witness.unread, 'offset')} were never read by the spout."
        return Lamp(name, "unknown", sentence)
    return Lamp(name, "agrees", f"{name[:1].upper()}{name[1:]}: the same in all counts.")


def _begin(name: str) -> str:
    return f"{name[:1].upper()}{name[1:]} {'count' if name.endswith('s') else 'counts'}"
