"""The settings that every Kafka client of the kit begins with.

One place decides to whom clients talk and how: the kit's own cluster on 127.0.0.1, or the cluster
that `KIT_KAFKA_BOOTSTRAP` names, whose further settings (a company's certificates and passwords)
come from the file that `KIT_KAFKA_CONFIG` names, never from a command line or a notebook cell.
Left out on purpose: anything that changes delivery. acks, idempotence and retries are librdkafka's
own defaults unless an experiment sets them.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import ssl
import stat
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kitlib.errors import DiskError, LabError
from kitlib.lab.security import java_settings, kafka_python_settings, openssl_context, without_tls

EXTERNAL_TIMEOUT_S = 10.0
ADMIN_S = 30.0  # how long an admin client's question may take
LOOK_S = 0.5  # how often one looks whether a cluster has refused us
NOT_LET_IN = (KafkaError._AUTHENTICATION, KafkaError._SSL)
RIGHTS = (  # where a cluster of one's own has ACLs
    "The user of KIT_KAFKA_CONFIG lacks a right: ask for an ACL (--operation All --resource-pattern-type prefixed) on the topics, "
    "groups and transactional ids that begin with kit."
)
DENIED = (29, 30, 31, 53)  # a broker's word: the authorization of a topic, a group, the cluster or a transactional id failed
POLICY = (  # where it has a policy for topics
    "That is the word of the class in create.topic.policy.class.name of its brokers: have its owner allow topics that begin with kit., "
    "or use the kit's own broker (unset KIT_KAFKA_BOOTSTRAP)."
)
SILENT = logging.getLogger("kitlib.librdkafka")  # for a client that says by other ways what becomes of its records
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Kafka cluster that answered a moment ago."""

    bootstrap: str
    cluster_id: str | None
    brokers: int
    # "kit": started by the kit; "external": KIT_KAFKA_BOOTSTRAP names it.
    source: str
    # The javas of the nodes, in the nodes' order; empty for an external cluster.
    pids: tuple[int, ...] = ()
    # Where the nodes' logs are; None for an external cluster.
    log_dir: Path | None = None
    # Whether `bootstrap` is a ChaosProxy's, which speaks TLS with the brokers itself, so that clients must not.
    behind_proxy: bool = False


def must_be_own(cluster: Cluster, what: str) -> None:
    """LabError, begun with `what` is wanted, unless the cluster is the kit's: no other broker is ended, changed or looked into."""
    if cluster.source != "kit":
        raise LabError(f"{what}: the brokers at {cluster.bootstrap} are not the kit's. Unset KIT_KAFKA_BOOTSTRAP to use the kit's own.")


def client_config(cluster: Cluster, **more: Any) -> dict[str, Any]:
    """The configuration of a confluent_kafka client for this cluster; `more` has the last word.

    Names with dots are passed as `**{"group.id": "g"}`.
    """
    config: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap, "client.id": "kit", "log_level": 2}
    if cluster.source == "kit":
        config |= {
            # A broker that was killed is back within seconds; do not wait longer than that to see it.
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
        }
    return config | librdkafka_config(cluster) | more


def librdkafka_config(cluster: Cluster) -> dict[str, str]:
    """What librdkafka needs to be let in by this cluster. Errors of `file_config`."""
    if cluster.source == "kit":
        return {}
    return without_tls(file_config()) if cluster.behind_proxy else file_config()


def kafka_python_config(cluster: Cluster) -> dict[str, Any]:
    """What kafka-python, and a `Wire`, needs to be let in by this cluster. LabError for a setting that it does not have."""
    return kafka_python_settings(librdkafka_config(cluster))


def java_config(cluster: Cluster) -> dict[str, str]:
    """What a client of Java needs to be let in by this cluster. LabError for a setting that it does not have."""
    return java_settings(librdkafka_config(cluster))


def tls_context(cluster: Cluster) -> ssl.SSLContext | None:
    """TLS as this cluster asks for it, None where it asks for none. LabError and DiskError for settings that cannot be followed."""
    return openssl_context(librdkafka_config(cluster))


# By the name of a client library: what it needs to be let in by a cluster.
LIBRARY_CONFIGS: dict[str, Callable[[Cluster], dict[str, Any]]] = {
    "librdkafka": librdkafka_config, "kafka-python": kafka_python_config, "java": java_config,
}  # fmt: skip


def answered(asked: Future[Any], trouble: str) -> Any:
    """A broker's answer to an admin client. LabError that begins with `trouble` when it refuses, or is silent for ADMIN_S."""
    try:
        return asked.result(ADMIN_S)
    except KafkaException as error:
        why = error.args[0].str() or error.args[0].name()
        raise LabError(f"{trouble}: {why}. Look at `kit status`; start a broker with `kit up`.") from error
    except TimeoutError as error:
        raise LabError(f"{trouble}: no answer within {ADMIN_S:g} s. Look at `kit status`; start a broker with `kit up`.") from error


@contextmanager
def kafka_python_admin(cluster: Cluster, trouble: str) -> Iterator[Any]:
    """The admin client of kafka-python, for what confluent-kafka's cannot ask. LabError that begins with `trouble` for its errors."""
    from kafka.admin import KafkaAdminClient
    from kafka.errors import KafkaError

    from kitlib.lab.wire.connection import Wire

    try:
        if security := kafka_python_config(cluster):  # who is not let in is told why by a wire, at once; by this client never
            Wire.open_any(cluster.bootstrap, **security).close()
        with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap, client_id="kit", **security)) as admin:
            yield admin
    except KafkaError as error:
        raise LabError(f"{trouble}: {error}. Look at `kit status`; start a broker with `kit up`.") from error


def listed_groups(cluster: Cluster) -> list[dict[str, Any]]:
    """The groups of all kinds, as kafka-python lists them. A broker that still loads its own is asked again; LabError after ADMIN_S."""
    from kafka.errors import KafkaError

    ends_s = time.monotonic() + ADMIN_S
    with kafka_python_admin(cluster, "the groups could not be listed") as admin:
        while True:
            try:
                return list(admin.list_groups())
            except KafkaError as error:
                if not error.retriable or time.monotonic() > ends_s:
                    raise
                time.sleep(0.1)


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """(host, port) of each broker that is named for the beginning; LabError for a name without a port."""
    found = []
    for name in (each.strip() for each in bootstrap.split(",")):
        host, _, port = name.rpartition("://")[2].rpartition(":")
        if not host or not port.isdecimal():
            raise LabError(f"the broker's address is {name!r}, expected host:port. Correct KIT_KAFKA_BOOTSTRAP.")
        found.append((host.strip("[]"), int(port)))
    return found


def file_config() -> dict[str, str]:
    """The settings in the file that `KIT_KAFKA_CONFIG` names: lines of `name=value`, `#` for comments.

    DiskError when the file cannot be read or when other users can: it is the place for passwords.
    """
    name = os.environ.get("KIT_KAFKA_CONFIG", "")
    if not name:
        return {}
    path = Path(name).expanduser()
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DiskError(f"KIT_KAFKA_CONFIG={name} cannot be read: {error}. Correct the path or unset it.") from error
    if mode & 0o077:
        raise DiskError(f"KIT_KAFKA_CONFIG={name} can be read by others (mode {mode:o}). Run `chmod 600` on it.")
    config: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise LabError(f"KIT_KAFKA_CONFIG={name}, line {number}: expected name=value. Correct that line.")
        config[key.strip()] = value.strip()
    return config


def _asked_at_the_door(bootstrap: str, timeout_s: float = 1.0) -> str:
    """What a listener that drops plain requests asks for, and the settings of it; "" where nobody listens, or plain requests are right."""
    from kitlib.lab.brokers import ports  # which talks to the kit's own brokers

    for host, port in addresses(bootstrap):
        told = ports.ask(port, ports.SASL_HANDSHAKE, b"\0\1?", timeout_s, host)
        if told is not None and struct.unpack(">h", told[:2])[0] == KafkaError.UNSUPPORTED_SASL_MECHANISM:
            known = re.findall(r"[A-Z][A-Z0-9-]+", told[2:].decode("ascii", "replace"))
            asked = "sasl.username and sasl.password"
            return f"it asks for a password. Set security.protocol=SASL_PLAINTEXT, sasl.mechanisms={' or '.join(known)}, {asked}"
        with suppress(OSError), socket.create_connection((host, port), timeout_s) as plain:
            with ssl._create_unverified_context().wrap_socket(plain):
                return "it speaks TLS. Set security.protocol=SSL or SASL_SSL, and ssl.ca.location"
    return ""


def describe(bootstrap: str, timeout_s: float = EXTERNAL_TIMEOUT_S) -> tuple[str | None, int]:
    """Cluster id and number of brokers of an external cluster; LabError when nobody answers in time, or at once when it refuses the kit."""
    refusals: list[KafkaError] = []
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap, "client.id": "kit", "log_level": 2, **file_config(),
        "error_cb": lambda error: refusals.append(error) if error.code() in NOT_LET_IN else None,
    }  # fmt: skip
    deadline, is_plain = time.monotonic() + timeout_s, config.get("security.protocol", "plaintext").lower() == "plaintext"
    try:
        admin = AdminClient(config, logger=SILENT)
        while True:
            try:
                metadata = admin.list_topics(timeout=max(0.0, min(LOOK_S, deadline - time.monotonic())))
            except KafkaException as error:
                admin.poll(0)  # now librdkafka tells why it was not let in
                if refusals:
                    raise KafkaException(refusals[0]) from error
                if is_plain and (asked := _asked_at_the_door(bootstrap)):
                    raise LabError(f"KIT_KAFKA_BOOTSTRAP={bootstrap}: {asked}, in the file that KIT_KAFKA_CONFIG names.") from error
                is_plain = False  # once is enough
                if time.monotonic() >= deadline:
                    raise
            else:
                if metadata.brokers or time.monotonic() >= deadline:  # after a pause none is named, for a moment
                    return metadata.cluster_id, len(metadata.brokers)
                time.sleep(0.1)
    except (KafkaException, ValueError, TypeError) as error:
        why = error.args[0].str() if isinstance(error, KafkaException) else error
        if refusals:
            raise LabError(f"KIT_KAFKA_BOOTSTRAP={bootstrap}: the cluster refuses the kit ({why}). Correct KIT_KAFKA_CONFIG.") from error
        raise LabError(
            f"KIT_KAFKA_BOOTSTRAP={bootstrap}: no Kafka answers within {timeout_s:g} s ({why}). Correct it, "
            "start that cluster, or unset it to use the kit's own."
        ) from error
