"""Which task of a bolt gets a tuple.

A grouping is declared once per subscription; a chooser is made from it for each task that sends, as a
shuffle remembers where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from kitlib.errors import KitError
from kitlib.java.hash_codes import list_hash_code
from kitlib.more.topology.components import TopologyError

GroupingKind = Literal["shuffle", "fields"]
Chooser = Callable[[Sequence[object]], list[int]]  # values of a tuple -> the task ids that get it


class Rng(Protocol):
    """What a run needs of a generator such as `random.Random(seed)`."""

    def getrandbits(self, k: int, /) -> int:
        """A whole number from 0 to 2^k - 1."""
        ...

    def shuffle(self, x: list[Any], /) -> None:
        """Put a list into another order, in place."""
        ...


@dataclass(frozen=True, slots=True)
class Grouping:
    """How one bolt subscribes to one component."""

    kind: GroupingKind
    component: str  # whose tuples it gets
    fields: tuple[str, ...] = ()  # for kind "fields": those that must be equal to meet in one task


def chooser_of(grouping: Grouping, fields: Sequence[str], tasks: Sequence[int], rng: Rng) -> Chooser:
    """The chooser of one sending task. `fields` are the tuples', `tasks` the subscriber's task ids, ascending.

    Source: Storm 0.9.3, `backtype.storm.daemon.executor` (`mk-grouper`, `mk-fields-grouper`, `mk-shuffle-grouper`).
    Differs: Java's random numbers are another generator's; the later release's shuffle looks at the load, this
    one does not; there are no other kinds (all, global, direct).
    """
    if grouping.kind == "fields":
        return _by_fields(grouping, [fields.index(name) for name in grouping.fields], tasks)
    return _shuffle(tasks, rng)


def _by_fields(grouping: Grouping, places: Sequence[int], tasks: Sequence[int]) -> Chooser:
    """The hash of these values modulo the number of tasks, which is never negative in Clojure, as here."""

    def choose(values: Sequence[object]) -> list[int]:
        try:
            return [tasks[list_hash_code([values[place] for place in places]) % len(tasks)]]
        except KitError as error:
            named = ", ".join(grouping.fields)
            raise TopologyError(f"{grouping.component} sends for a fields grouping by {named}: {error}") from None

    return choose


def _shuffle(tasks: Sequence[int], rng: Rng) -> Chooser:
    """Every task once, in a random order, and then again in another one."""
    order: list[int] = []

    def choose(_values: Sequence[object]) -> list[int]:
        if not order:
            order.extend(tasks)
            rng.shuffle(order)
        return [order.pop()]

    return choose
