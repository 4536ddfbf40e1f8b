"""What librdkafka itself says of its settings: the library inside of the confluent-kafka wheel, asked through ctypes.

confluent-kafka has no function that tells a default. The C library has two: one copies a fresh
configuration out as names and values, the other prints the manual of all properties. The values come
from the first, so they are what a client really starts with; the second one has the sentences, the
topic's properties, and those that have no value until they are set.
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka

from kitlib.errors import LabError

PATTERNS = (  # where wheels for Linux, macOS and Windows keep the library, from the package's folder
    "../confluent_kafka.libs/librdkafka*.so*",
    ".dylibs/librdkafka*.dylib",
    "../confluent_kafka.libs/*rdkafka*.dll",
    "librdkafka*.so*",
)
ROW = re.compile(
    r"^(?P<name>[a-z][a-z0-9_.]*) *\| *(?P<who>[*CP]) *\| *(?P<range>.*?) *\| *(?P<default>.*?) *\| *\w+ *\| *(?P<doc>.*)$"
)
TYPE = re.compile(r" *<br> *\*Type: (.*?)\* *$")


@dataclass(frozen=True, slots=True)
class Property:
    """One property as the library tells it."""

    name: str
    default: str | None  # None when it has no value until it is set
    doc: str
    is_topics: bool  # whether it belongs to a topic's configuration


def find_library() -> Path:
    """The library file of this Python's confluent-kafka. LabError when it is not where wheels keep it."""
    package = Path(confluent_kafka.__file__).parent
    for pattern in PATTERNS:
        folder, name = os.path.split(pattern)
        found = sorted((package / folder).resolve().glob(name))
        if found:
            return found[0]
    raise LabError(
        f"confluent-kafka in {package} has no librdkafka of its own, so its defaults cannot be read. "
        "Install the wheel: pip install --only-binary :all: confluent-kafka."
    )


def read_properties(path: Path | None = None) -> dict[str, Property]:
    """Every property that librdkafka documents, by name. LabError when the library cannot be asked."""
    where = find_library() if path is None else path
    try:
        library = ctypes.CDLL(str(where))
        values = {**_values(library, "rd_kafka_topic_conf"), **_values(library, "rd_kafka_conf")}
        manual = _manual(library)
    except (OSError, AttributeError, TypeError) as error:  # the last one: no C library to print with (Windows)
        raise LabError(f"librdkafka at {where} cannot be asked for its settings: {error}. Run `kit doctor`.") from None
    found: dict[str, Property] = {}
    for name, default, doc, is_topics in _rows(manual):
        alias = re.match(r"Alias for `([^`]+)`", doc)
        value = values.get(name) or values.get(alias[1] if alias else name) or default
        if name not in found:  # a topic's property that is a client's too is told by the client
            found[name] = Property(name, value or None, doc, is_topics)
    if "linger.ms" not in found:
        raise LabError(
            f"librdkafka at {where} reported no known settings. Use the kit's own confluent-kafka."
        )
    return found


def _values(library: ctypes.CDLL, kind: str) -> dict[str, str]:
    """A fresh configuration of this kind, as names and values."""
    new, dump, destroy = (getattr(library, f"{kind}_{name}") for name in ("new", "dump", "destroy"))
    new.restype, dump.restype = ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p)
    dump.argtypes, destroy.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)], [ctypes.c_void_p]
    free = library.rd_kafka_conf_dump_free
    free.argtypes, free.restype = [ctypes.POINTER(ctypes.c_char_p), ctypes.c_size_t], None
    configuration, count = new(), ctypes.c_size_t()
    try:
        told = dump(configuration, ctypes.byref(count))
        texts = [(told[at] or b"").decode("utf-8", "replace") for at in range(count.value)]
        free(told, count)
    finally:
        destroy(configuration)
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _manual(library: ctypes.CDLL) -> str:
    """The manual of all properties, which the library prints to a C file."""
    show = library.rd_kafka_conf_properties_show
    libc = ctypes.CDLL(None)
    libc.fdopen.restype, libc.fdopen.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_char_p]
    libc.fclose.argtypes, show.argtypes, show.restype = [ctypes.c_void_p], [ctypes.c_void_p], None
    with tempfile.TemporaryFile() as file:
        stream = libc.fdopen(os.dup(file.fileno()), b"w")
        show(stream)
        libc.fclose(stream)
        file.seek(0)
        return file.read().decode("utf-8", "replace")


def _rows(manual: str) -> Iterator[tuple[str, str, str, bool]]:
    """Name, default, sentence and whether it is a topic's, of each row of the manual."""
    is_topics = False
    for line in manual.splitlines():
        is_topics |= "Topic configuration properties" in line
        row = ROW.match(line)
        if row:
            yield row["name"], row["default"], TYPE.sub("", row["doc"]), is_topics
