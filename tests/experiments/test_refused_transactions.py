"""What a misused transactional producer says: the kit's model at once, the real clients as they are."""

from __future__ import annotations

import pytest

from kitlib.errors import KnobError
from kitlib.experiments.transactions.refused_transactions import CASES, CLIENTS, RefusalTable, refusal_table
from kitlib.lab.clients import Cluster


@pytest.fixture(scope="module")
def table(broker: Cluster) -> RefusalTable:
    """All three clients in all cases."""
    return refusal_table(CLIENTS)


@pytest.mark.kafka
def test_table_every_client_refuses_a_call_that_does_not_fit_and_can_be_used_afterwards(table: RefusalTable) -> None:
    """Begun twice, committed without a begin, sent outside: each has its own word, and none of them is the end of it."""
    calls = [name for name, case in CASES.items() if case.id_chars == 20 and case.timeout_ms == 60_000]
    for case in calls:
        said = {client: table.says(case, client) for client in CLIENTS}
        assert {client: row.says for client, row in said.items()} == {
            "kit": "ProducerMisusedError", "librdkafka": "_STATE", "java": "IllegalStateException"
        }, case  # fmt: skip
        assert {row.then for row in said.values()} == {"goes on"}


@pytest.mark.kafka
def test_table_timeout_above_the_maximum_is_fatal_and_a_long_id_is_not_told(table: RefusalTable) -> None:
    """The broker names the timeout and ends the connection over the id; a client that hears nothing waits."""
    above = {client: table.says("timeout above the broker's maximum", client) for client in CLIENTS}
    assert [row.then for row in above.values()] == ["closed"] * 3 and "timeout is larger" in above["java"].message
    assert above["kit"].says == above["librdkafka"].says == "INVALID_TRANSACTION_TIMEOUT"
    assert [table.says("id too long", client).says for client in CLIENTS] == ["KnobError", "waits", "waits"]
    assert table.says("empty id", "java").at == "start"


def test_table_of_the_kit_needs_no_broker() -> None:
    """One row for each case, as text and as HTML; what is not there is refused."""
    found = refusal_table()
    assert [row.case for row in found.rows] == list(CASES)
    assert repr(found).count("\n") == len(CASES) and found._repr_html_().count("<tr>") == len(CASES) + 1
    assert "Call begin_transaction first" in found.says("commit without begin", "kit").message
    assert "at most 32,767" in found.says("id too long", "kit").message
    with pytest.raises(KnobError, match="expected clients of kit, librdkafka, java"):
        refusal_table(("sarama",))
    with pytest.raises(KnobError, match="no row 'x'"):
        found.says("x", "kit")
