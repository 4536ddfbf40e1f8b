"""The knobs that every producer has, whichever of its experiments turns them: the idempotent ones' and the send path's."""

from __future__ import annotations

from kitlib.experiments.knobs import Knob
from kitlib.kafka.producer.config import MAX_INT

RETRIES = Knob(
    "retries", "int", MAX_INT, "How often a batch is sent again.", "retries", 0, MAX_INT, scale="log", live=False
)
ACKS = Knob("acks", "choice", "all", "Whose word the producer waits for.", choices=("all", "1", "0"), live=False)
RECORDS = Knob(
    "records", "int", 40, "How many records the user sends, one after the other.", "records", 1, 2_000, live=False
)
LINGER_MS = Knob("linger_ms", "int", 4, "How long a batch waits for more records.", "ms", 0, 1_000, live=False)
DELIVERY_TIMEOUT_MS = Knob(
    "delivery_timeout_ms", "int", 120_000, "After so long the user is told that a record failed.", "ms", 100, 600_000,
    scale="log", live=False,
)  # fmt: skip
REQUEST_TIMEOUT_MS = Knob(
    "request_timeout_ms", "int", 30_000, "After so long without an answer the connection is given up.", "ms", 50, 600_000,
    scale="log", live=False,
)  # fmt: skip
MAX_IN_FLIGHT = Knob(
    "max_in_flight", "int", 5, "How many requests may be without an answer at once.", "requests", 1, 10, live=False
)
