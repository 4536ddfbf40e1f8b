"""The domains there are, each with the words that its traces are told in (`kitlib.words.word`)."""

from __future__ import annotations

from kitlib.errors import TraceError
from kitlib.text import plain_text
from kitlib.words.checkpoint import CHECKPOINT
from kitlib.words.connect import CONNECT, PARTITIONS, SOURCE, STREAMS
from kitlib.words.difference import DIFFERENCE
from kitlib.words.groups import GROUPS
from kitlib.words.idempotence import IDEMPOTENCE
from kitlib.words.offsets import COMPACTION, INCIDENTS, OFFSETS
from kitlib.words.replication import REPLICATION
from kitlib.words.send_path import SEND_PATH
from kitlib.words.share import SHARE
from kitlib.words.spout import SPOUT
from kitlib.words.topology import TOPOLOGY
from kitlib.words.transactions import TRANSACTIONS
from kitlib.words.word import Domain

DOMAINS: dict[str, Domain] = {
    each.name: each
    for each in (
        SPOUT, TOPOLOGY, IDEMPOTENCE, SEND_PATH, GROUPS, TRANSACTIONS, CONNECT, SOURCE, STREAMS, PARTITIONS,
        OFFSETS, INCIDENTS, COMPACTION, REPLICATION, CHECKPOINT, SHARE, DIFFERENCE,
    )
}  # fmt: skip


def declare(domain: Domain) -> Domain:
    """Make a domain known that is not one of the kit's; the same name again replaces it."""
    DOMAINS[domain.name] = domain
    return domain


def domain(name: str) -> Domain:
    """The domain with this name. TraceError when there is none."""
    if name not in DOMAINS:
        raise TraceError(f"there is no domain {plain_text(name, 40)!r}. Expected one of {', '.join(DOMAINS)}.")
    return DOMAINS[name]
