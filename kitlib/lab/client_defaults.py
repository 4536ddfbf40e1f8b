"""What each library and the broker's own classes say their defaults are, read from them when they are asked.

A default that is typed into a text is right until the next release, and of one library only. So the kit
types none: Java's and the broker's come from the configuration classes in the broker's own jars, librdkafka's from
the library under confluent-kafka, kafka-python's from its classes.

    settings_of("java.producer")["linger.ms"].default
    print(settings_table(["linger.ms", "acks", "enable.idempotence"]))
    print(settings_table(["min.insync.replicas"], sources=("broker.class",)))

Left out: Kafka Connect and Kafka Streams, whose jars the kit does not have.
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from confluent_kafka import cimpl
from py4j.java_gateway import get_field
from py4j.protocol import Py4JError, Py4JJavaError

from kitlib.errors import KnobError, LabError
from kitlib.lab.java_client import JavaClient, message_of
from kitlib.text import text_table

JAVA_CLASSES = {  # source -> the class, and where it keeps its ConfigDef: a static method, or a constant
    "java.producer": ("org.apache.kafka.clients.producer.ProducerConfig", "configDef"),
    "java.consumer": ("org.apache.kafka.clients.consumer.ConsumerConfig", "configDef"),
    "java.admin": ("org.apache.kafka.clients.admin.AdminClientConfig", "configDef"),
    "broker.class": ("org.apache.kafka.server.config.AbstractKafkaConfig", "CONFIG_DEF"),
    "group": ("org.apache.kafka.coordinator.group.GroupConfig", "CONFIG_DEF"),  # what can be set for one group
    "topic": ("org.apache.kafka.storage.internals.log.LogConfig", "configDefCopy"),  # what can be set for one topic
}
PYTHON_CLASSES = {"kafka-python.producer": "KafkaProducer", "kafka-python.consumer": "KafkaConsumer"}
SOURCES = (*JAVA_CLASSES, "librdkafka", *PYTHON_CLASSES)
CLIENTS = ("java.producer", "java.consumer", "librdkafka")  # what a table has when it is not told otherwise
JAVA_CLASS = re.compile(r"(?:class )?(?:[a-z0-9_]+\.){2,}([A-Z]\w*)")
HEADS = {
    "broker.class": "broker's class",
    "java.producer": "Java producer",
    "java.consumer": "Java consumer",
    "java.admin": "Java admin client",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of one source."""

    source: str
    name: str
    default: str | None  # as text; None when it has no value until it is set
    doc: str = ""  # the source's own sentences

    @property
    def shown(self) -> str:
        """The default as a table has it, classes without their packages."""
        return JAVA_CLASS.sub(r"\1", str(self.default)) if self.default not in (None, "") else "(none)"


def settings_of(source: str) -> Mapping[str, Setting]:
    """All settings of one source, by name. KnobError for a source that there is not."""
    if source not in SOURCES:
        raise KnobError(f"there is no source '{source[:60]}'. There are {', '.join(SOURCES)}.")
    if source == "librdkafka":
        return _librdkafka()
    return _kafka_python(source) if source in PYTHON_CLASSES else _java()[source]


def settings_table(names: Sequence[str], sources: Sequence[str] = CLIENTS) -> str:
    """A text table: a line for each setting, a column for each source; "-" where a source has no such setting.

    Columns that would hold nothing are left out. KnobError for a setting that no source has, and for a
    source that there is not.
    """
    known = {source: settings_of(source) for source in sources}
    for name in names:
        if not any(name in found for found in known.values()):
            raise KnobError(f"no source of {', '.join(sources)} has a setting '{name[:60]}'. Look at its spelling.")
    shown = [each for each in sources if any(name in known[each] for name in names)]
    head = ["setting", *(HEADS.get(each, each) for each in shown)]
    lines = [[name, *(known[each][name].shown if name in known[each] else "-" for each in shown)] for name in names]
    rule = ["-" * max(map(len, column)) for column in zip(head, *lines, strict=True)]
    return "\n".join(text_table([head, rule, *lines], left=len(head)))


@lru_cache(maxsize=1)
def _java() -> dict[str, dict[str, Setting]]:
    """The settings of Java's classes, all read in one JVM."""
    with JavaClient.open() as java:
        try:
            return {source: _config_def(java, source, *where) for source, where in JAVA_CLASSES.items()}
        except Py4JError as error:
            why = message_of(error) if isinstance(error, Py4JJavaError) else error
            raise LabError(f"Java's settings cannot be read: {why}. Run `kit doctor`.") from None


def _config_def(java: JavaClient, source: str, class_name: str, where: str) -> dict[str, Setting]:
    """The settings of one ConfigDef; internal ones are left out, as in its documentation."""
    cls = java.jvm.java.lang.Class.forName(class_name)
    definition = cls.getField(where).get(None) if where.isupper() else cls.getMethod(where, None).invoke(None, None)
    keys = definition.configKeys()
    to_text = java.jvm.org.apache.kafka.common.config.ConfigDef.convertToString
    found = {}
    for key in keys.values():
        if get_field(key, "internalConfig"):
            continue
        name, doc = str(get_field(key, "name")), str(get_field(key, "documentation") or "")
        value = to_text(get_field(key, "defaultValue"), key.type()) if key.hasDefault() else None
        found[name] = Setting(source, name, value, doc)
    return found


@lru_cache(maxsize=2)
def _kafka_python(source: str) -> dict[str, Setting]:
    """kafka-python writes its settings with underscores; here they have the names that all others use."""
    import kafka

    values: dict[str, Any] = getattr(kafka, PYTHON_CLASSES[source]).DEFAULT_CONFIG
    return {
        name.replace("_", "."): Setting(source, name.replace("_", "."), _text(value)) for name, value in values.items()
    }


def _text(value: Any) -> str | None:
    """A Python value as the other libraries would write it."""
    if value is None or (callable(value) and not isinstance(value, type)):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, list | tuple):
        return ",".join(_text(each) or "" for each in value)
    return str(value)


# librdkafka, asked through ctypes: confluent-kafka has no function that tells a default

LIBRARY = cimpl.__file__  # what it is linked to is found through it
ROW = re.compile(
    r"^(?P<name>[a-z][a-z0-9_.]*) *\| *(?P<who>[*CP]) *\| *(?P<range>.*?) *\| *(?P<default>.*?) *\| *\w+ *\| *(?P<doc>.*)$"
)
ALIAS = re.compile(r"Alias for `([^`]+)`")
TYPE = re.compile(r" *<br> *\*Type: (.*?)\* *$")


@lru_cache(maxsize=1)
def _librdkafka() -> dict[str, Setting]:
    """Every property in the manual that the library itself prints, by name. LabError when the library cannot be asked."""
    try:
        manual = _manual(ctypes.CDLL(LIBRARY))
    except (OSError, AttributeError) as error:
        raise LabError(f"librdkafka under {LIBRARY} cannot be asked for its settings: {error}. Run `kit doctor`.") from None
    rows: dict[str, re.Match[str]] = {}
    for row in filter(None, map(ROW.match, manual.splitlines())):
        rows.setdefault(row["name"], row)  # a topic's property that is a client's too is told by the client
    found = {}
    for name, row in rows.items():
        alias = ALIAS.match(row["doc"])
        default = rows[alias[1]]["default"] if alias else row["default"]
        found[name] = Setting("librdkafka", name, default or None, TYPE.sub("", row["doc"]))
    if "linger.ms" not in found:
        raise LabError(f"librdkafka under {LIBRARY} reported no known settings. Use the kit's own confluent-kafka.")
    return found


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
