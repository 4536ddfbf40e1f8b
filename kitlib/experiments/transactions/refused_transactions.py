"""What a transactional producer tells whoever uses it wrongly, by the kit's model.

Each case is a few calls on a fresh producer, of which the last one is the mistake. The tests ask librdkafka and Java's client the same.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from kitlib.errors import KnobError
from kitlib.experiments.transactions.model_transactions import MISUSED, ModelTransactions
from kitlib.mechanisms.transactions.offsets import GroupIdentity
from kitlib.mechanisms.transactions.producer import ProducerMisusedError
from kitlib.text import html_table, text_table

COLUMNS = ("case", "client", "told at", "says", "then")
WAIT_S = 1.5  # a client that has told nothing for so long is not waited for, where it is known to tell nothing
DEADLINE_S = 20.0  # elsewhere a client or the broker may be slow
TOO_LONG = 40_000  # characters of an id: a text of the coordinator's log has at most 32,767 bytes
ABOVE_MAXIMUM_MS = 900_001  # transaction.max.timeout.ms of the kit's brokers is Kafka's own


@dataclass(frozen=True, slots=True)
class Case:
    """Calls on a fresh producer, and the settings it is made with."""

    calls: tuple[str, ...]
    id_chars: int = 20
    timeout_ms: int = 60_000
    wait_s: float = DEADLINE_S  # the longest that a call waits


CASES: dict[str, Case] = {
    "begin before init": Case(("begin",)),
    "init twice": Case(("init", "init")),
    "begin twice": Case(("init", "begin", "begin")),
    "commit without begin": Case(("init", "commit")),
    "abort without begin": Case(("init", "abort")),
    "send outside of a transaction": Case(("init", "send")),
    "offsets outside of a transaction": Case(("init", "send_offsets")),
    "timeout above the broker's maximum": Case(("init",), timeout_ms=ABOVE_MAXIMUM_MS),
    "empty id": Case(("init",), id_chars=0),
    "id too long": Case(("init",), id_chars=TOO_LONG, wait_s=WAIT_S),
}


@dataclass(frozen=True, slots=True)
class RefusalRow:
    """What one client said in one case."""

    case: str
    client: str
    at: str  # "start", or the call
    says: str  # the error's name; "nothing" when it did what was asked for; "waits" when it told nothing
    then: str  # "closed": the producer can only be closed; "goes on": it can be used; "" when it never was
    message: str = ""

    def cells(self) -> tuple[str, ...]:
        """In the order of COLUMNS."""
        return self.case, self.client, self.at, self.says, self.then


@dataclass(frozen=True, slots=True)
class RefusalTable:
    """What is said in each case."""

    rows: tuple[RefusalRow, ...]

    def __repr__(self) -> str:
        return "\n".join(text_table([COLUMNS, *(row.cells() for row in self.rows)], left=len(COLUMNS)))

    def _repr_html_(self) -> str:
        return html_table(COLUMNS, (row.cells() for row in self.rows))


def refusal_table() -> RefusalTable:
    """What the kit's producer says in every case; it needs no broker."""
    return RefusalTable(tuple(map(by_the_kit, CASES)))


def id_of(case: Case) -> str:
    """A transactional id that nobody else has, of the case's length."""
    return (uuid.uuid4().hex + "x" * case.id_chars)[: case.id_chars]


def by_the_kit(name: str) -> RefusalRow:
    """A case on the kit's model."""
    case = CASES[name]
    broker = ModelTransactions()
    try:
        producer = broker.start("producer", id_of(case), case.timeout_ms, 2)
    except KnobError as error:
        return RefusalRow(name, "kit", "start", type(error).__name__, "", str(error))
    for call in case.calls:
        told = producer.do(call, [0], offset=1, group=GroupIdentity(broker.group))
        if told.error:
            says = ProducerMisusedError.__name__ if told.error == MISUSED else told.error
            return RefusalRow(name, "kit", call, says, "closed" if told.is_fatal else "goes on", told.said)
    return RefusalRow(name, "kit", case.calls[-1], "nothing", "goes on")
