"""What each library and the broker say their defaults are, read from them when they are asked.

A default that is typed into a text is right until the next release, and of one library only. So the kit
types none: Java's come from the configuration classes in the broker's own jars, librdkafka's from the
library under confluent-kafka, kafka-python's from its classes, a broker's from a running broker.

    default("java.producer", "linger.ms"), default("librdkafka", "linger.ms")
    print(settings_table(["linger.ms", "acks", "enable.idempotence"]))
    print(settings_table(["min.insync.replicas"], sources=("broker",)))

Left out: Kafka Connect and Kafka Streams, whose jars the kit does not have. Their columns say "not read here".
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # they are exported by assignment
    AdminClient,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)
from py4j.java_gateway import get_field
from py4j.protocol import Py4JError, Py4JJavaError

from kitlib.errors import KnobError, LabError
from kitlib.lab import kafka_server, librdkafka_settings
from kitlib.lab.clients import client_config
from kitlib.lab.java_client import JavaClient, message_of

ANSWER_S = 10.0
JAVA_CLASSES = {  # source -> the class, and where it keeps its ConfigDef: a static method, or a constant
    "java.producer": ("org.apache.kafka.clients.producer.ProducerConfig", "configDef"),
    "java.consumer": ("org.apache.kafka.clients.consumer.ConsumerConfig", "configDef"),
    "java.admin": ("org.apache.kafka.clients.admin.AdminClientConfig", "configDef"),
    "broker.class": ("org.apache.kafka.server.config.AbstractKafkaConfig", "CONFIG_DEF"),  # also when no broker runs
    "group": ("org.apache.kafka.coordinator.group.GroupConfig", "CONFIG_DEF"),  # what can be set for one group
    "topic": ("org.apache.kafka.storage.internals.log.LogConfig", "configDefCopy"),  # what can be set for one topic
}
PYTHON_CLASSES = {"kafka-python.producer": "KafkaProducer", "kafka-python.consumer": "KafkaConsumer"}
NOT_READ = ("connect", "streams")
SOURCES = (*JAVA_CLASSES, "librdkafka", *PYTHON_CLASSES, "broker", *NOT_READ)
CLIENTS = ("java.producer", "java.consumer", "librdkafka")  # what a table has when it is not told otherwise
JAVA_CLASS = re.compile(r"(?:class )?(?:[a-z0-9_]+\.){2,}([A-Z]\w*)")
NO_VALUE = "(none)"
ABSENT = "-"
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
    here: str | None = None  # a broker's value in force, when the kit has set another than the default

    @property
    def shown(self) -> str:
        """The default as a table has it, classes without their packages, with what the kit has set beside it."""
        text = JAVA_CLASS.sub(r"\1", str(self.default)) if self.default not in (None, "") else NO_VALUE
        return text if self.here is None else f"{text} (here: {self.here})"


def default(source: str, name: str) -> str:
    """The default as text, "" for a setting without a value. KnobError for a source or a setting that there is not."""
    return setting(source, name).default or ""


def setting(source: str, name: str) -> Setting:
    """One setting with its default and its sentences. Errors as `default`; LabError when its source cannot be asked."""
    known = settings_of(source)
    if name not in known:
        near = [each for each in known if name in each or each in name][:5]
        hint = f"There is {', '.join(near)}." if near else "Look at the names in settings_of."
        raise KnobError(f"{source} has no setting '{name[:60]}'. {hint}")
    return known[name]


def settings_of(source: str) -> Mapping[str, Setting]:
    """All settings of one source, by name. KnobError for a source that there is not, or that is not read here."""
    if source in NOT_READ:
        raise KnobError(
            f"the settings of {source} are not read here: the kit does not have its jars. Read its documentation."
        )
    if source not in SOURCES:
        raise KnobError(f"there is no source '{source[:60]}'. There are {', '.join(SOURCES)}.")
    if source == "broker":
        return broker_settings()
    if source == "librdkafka":
        return _librdkafka()
    return _kafka_python(source) if source in PYTHON_CLASSES else _java()[source]


def settings_table(names: Sequence[str], sources: Sequence[str] = CLIENTS) -> str:
    """A text table: a line for each setting, a column for each source; "-" where a source has no such setting.

    Columns that would hold nothing are left out. KnobError for a setting that no source has, and for a
    source that there is not.
    """
    known = {source: {} if source in NOT_READ else settings_of(source) for source in sources}
    for name in names:
        if not any(name in found for found in known.values()) and not set(sources) & set(NOT_READ):
            raise KnobError(f"no source of {', '.join(sources)} has a setting '{name[:60]}'. Look at its spelling.")
    shown = [each for each in sources if each in NOT_READ or any(name in known[each] for name in names)]
    head = ["setting", *(HEADS.get(each, each) for each in shown)]
    lines = [[name, *(_cell(known[each].get(name), each) for each in shown)] for name in names]
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    rows = [head, ["-" * width for width in widths], *lines]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _cell(found: Setting | None, source: str) -> str:
    if found is None:
        return "not read here" if source in NOT_READ else ABSENT
    return found.shown


# -- the sources ------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _java() -> dict[str, dict[str, Setting]]:
    """The settings of Java's classes, all read in one JVM."""
    with JavaClient.open() as java:
        try:
            return {source: _config_def(java, source, *where) for source, where in JAVA_CLASSES.items()}
        except Py4JJavaError as error:
            raise LabError(f"Java's settings cannot be read: {message_of(error)}. Run `kit doctor`.") from None
        except Py4JError as error:
            raise LabError(f"Java's settings cannot be read: {error}. Run `kit doctor`.") from None


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


@lru_cache(maxsize=1)
def _librdkafka() -> dict[str, Setting]:
    told = librdkafka_settings.read_properties()
    return {name: Setting("librdkafka", name, each.default, each.doc) for name, each in told.items()}


@lru_cache(maxsize=2)
def _kafka_python(source: str) -> dict[str, Setting]:
    """kafka-python writes its settings with underscores; here they have the names that all others use."""
    import kafka

    values: dict[str, Any] = getattr(kafka, PYTHON_CLASSES[source]).DEFAULT_CONFIG
    return {
        name.replace("_", "."): Setting(source, name.replace("_", "."), _text(value)) for name, value in values.items()
    }


def broker_settings() -> dict[str, Setting]:
    """Every setting of a running broker: its built-in default, and what is in force where the kit has set another.

    The kit's own broker is started when none runs. A setting without a built-in default in the broker's
    answer has None. LabError when the broker does not answer.
    """
    cluster = kafka_server.ensure()
    where, admin = cluster.bootstrap, AdminClient(client_config(cluster))
    try:
        number = min(admin.list_topics(timeout=ANSWER_S).brokers)
        resource = ConfigResource(ConfigResource.Type.BROKER, str(number))
        [answer] = admin.describe_configs([resource], request_timeout=ANSWER_S).values()
        entries = answer.result(ANSWER_S)
    except (KafkaException, ValueError, TimeoutError) as error:
        raise LabError(f"broker {where} does not report its settings: {error}. Look at `kit status`.") from None
    documented = settings_of("broker.class")
    return {name: _broker_setting(entry, documented.get(name)) for name, entry in sorted(entries.items())}


def _broker_setting(entry: ConfigEntry, documented: Setting | None) -> Setting:
    built_in = [each.value for each in _with_synonyms(entry) if _is_built_in(each.source)]
    value = built_in[0] if built_in else None
    doc, here = "" if documented is None else documented.doc, entry.value if entry.value != value else None
    return Setting("broker", entry.name, value, doc, here)


def _is_built_in(source: Any) -> bool:
    """Whether a value is the broker's own default; the client tells sources by number or by name."""
    return source in (ConfigSource.DEFAULT_CONFIG, ConfigSource.DEFAULT_CONFIG.value)


def _with_synonyms(entry: ConfigEntry) -> Iterable[ConfigEntry]:
    yield entry
    with contextlib.suppress(AttributeError):
        yield from entry.synonyms.values()


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
