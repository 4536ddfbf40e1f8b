"""Which settings of Kafka's clients and brokers the notebooks name, so that a table can show what each of them is.

A setting is named where it stands in backticks in the text of a notebook, alone or with a value
(`acks=1`), as its owner writes it: `linger.ms`, not the kit's own knob `linger_ms`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kitlib.lab import notebooks
from kitlib.lab.client_defaults import settings_of

BACKTICKED = re.compile(r"`([^`\n]+)`")
SHORT_NAMES = ("acks", "retries", "partitioner")  # the settings without a dot that are names in a text
SOURCES = ("java.producer", "java.consumer", "librdkafka", "broker.class", "topic", "group")  # what a table of them has


def is_name(word: str, known: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a word in backticks is a setting of anybody's; `known` has the settings of each source."""
    return ("." in word or word in SHORT_NAMES) and any(word in settings for settings in known.values())


def named_in(paths: Iterable[Path]) -> list[str]:
    """The settings that these notebooks name, sorted. LabError when a source cannot be asked."""
    known = {source: settings_of(source) for source in SOURCES}
    words = {
        quoted.partition("=")[0].strip()
        for path in paths
        for text in _texts(path)
        for quoted in BACKTICKED.findall(text)
    }
    return sorted(word for word in words if is_name(word, known))


def _texts(path: Path) -> Iterator[str]:
    return (cell.source for cell in notebooks.load(path).cells if cell.cell_type == "markdown")
