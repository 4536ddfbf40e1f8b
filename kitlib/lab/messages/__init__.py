"""Messages of Kafka's protocol that kafka-python does not have, each declared field by field in a file of this folder."""

from __future__ import annotations

from types import new_class
from typing import Any

from kafka.protocol.api_message import ApiMessage


def message(name: str) -> Any:
    """The message of this name, which the library reads and writes as its own."""
    return new_class(name, (ApiMessage,), {"load_json": __name__})
