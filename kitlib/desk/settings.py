"""The desk's settings: knobs as an experiment has them, all of which act on running parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from kitlib.errors import KnobError
from kitlib.experiments.idempotence.client_run import KNOBS as OF_CLIENTS
from kitlib.experiments.idempotence.producer_knobs import MaxInFlight
from kitlib.experiments.knobs import UNLIMITED, Knob, bind, settle
from kitlib.experiments.storm.knobs import FetchRecords, MaxOffsetBehind, MaxSpoutPending
from kitlib.settings import Settings

MOST_WITH_NUMBERS = 5  # requests in flight that librdkafka allows an idempotent producer

Rate = Annotated[int, Knob("How many records a second the application hands to the producer.", "records/s", 0, 2_000)]
Client = Annotated[Literal["librdkafka", "kit"], Knob("Whose producer it is: librdkafka's, or the kit's own over Kafka's protocol.")]
Idempotence = Annotated[bool, Knob("Whether the producer numbers its batches, so that the broker can refuse a second copy.")]
LostAnswers = Annotated[
    int, Knob("Share of the broker's answers to the producer that are lost: the connection is cut instead.", "%", 0, 100)
]
BoltRate = Annotated[int, Knob("How many records a second the bolt can work through.", "records/s", 1, 5_000, scale="log")]

KNOBS = (
    bind("rate", Rate, 200),
    bind("client", Client, "librdkafka"),
    bind("idempotence", Idempotence, True),
    bind("max_in_flight", MaxInFlight, 5),
    bind("lost_answers", LostAnswers, 0),
    bind("max_offset_behind", MaxOffsetBehind, UNLIMITED),
    bind("max_spout_pending", MaxSpoutPending, 100),
    bind("fetch_records", FetchRecords, 50),
    bind("bolt_rate", BoltRate, 1_000),
)
# What can be done to a desk that runs, besides turning its knobs: the button, and the method of `DeskRun` behind it.
DEEDS = {"database away": "database_away", "kill broker": "kill_broker", "kill spout": "kill_spout"}
PRODUCERS = ("client", "idempotence", "max_in_flight")  # a change of one of these needs another producer


def settled(given: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> Settings:
    """Every setting: the given one, checked, or what it was before. KnobError for one that there is not, or that no client takes."""
    found = settle(KNOBS, {**(before or {}), **given}, "the desk")
    if found.client == "librdkafka" and found.idempotence and found.max_in_flight > MOST_WITH_NUMBERS:
        raise KnobError(
            f"max_in_flight is {found.max_in_flight} and idempotence is on: librdkafka allows at most {MOST_WITH_NUMBERS} "
            "requests in flight then. Lower it, switch idempotence off, or take client=kit."
        )
    return found


def deeds_of(cluster: Any) -> list[str]:
    """The buttons of a desk on this cluster: a broker that is not the kit's is not killed."""
    return [deed for deed in DEEDS if deed != "kill broker" or cluster.source == "kit"]


def client_settings(settings: Settings) -> Settings:
    """The settings of the producer's client, in the words of `kitlib.experiments.idempotence.client_run`."""
    fixed = {"linger_ms": 20, "batch_records": 1_000, "request_timeout_ms": 1_000, "records": 100_000}
    return settle(OF_CLIENTS, {**settings.given(*PRODUCERS), **fixed}, "the desk")
