"""Settings that a running broker takes at once, changed for a while and set back.

A broker forgets an idle producer after a day (`producer.id.expiration.ms`); who wants to see that
happen cannot wait so long. Kafka lets this setting be changed while it runs.
Source: Kafka 4.3.1, TransactionLogConfig / DynamicProducerStateManagerConfig.RECONFIGURABLE_CONFIGS.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from filelock import FileLock, Timeout

from kitlib.errors import LabError
from kitlib.lab import workspace
from kitlib.lab.clients import Cluster, client_config, must_be_own
from kitlib.lab.processes import wait_until

EXPIRATION = "producer.id.expiration.ms"
DEADLINE_S = 10.0
# A block of somebody else may well wait for what its setting brings about.
LOCK_DEADLINE_S = 60.0


@contextmanager
def broker_setting(cluster: Cluster, name: str, value: str, wait_s: float = LOCK_DEADLINE_S) -> Iterator[None]:
    """Let all brokers of the kit's cluster have another value of a dynamic setting; at the end, their own again.

    One block at a time for each setting in a workspace: it waits `wait_s` seconds for another to end.
    Their own value is the one of their start, so a block that was killed leaves nothing that outlasts the
    next one. LabError when another block does not end, the brokers do not take the value, or they do not
    have it within DEADLINE_S; a failure to set it back is a note of the exception that ended the block.
    """
    must_be_own(cluster, f"another value of {name}")
    admin = AdminClient(client_config(cluster))
    with _alone(name, wait_s):
        numbers = _numbers(admin)
        for number in numbers:
            if _value(admin, number, name)[1]:  # by a block that was killed
                _set(admin, number, name, None)
        try:
            for number in numbers:
                _set(admin, number, name, value)
            yield
        except BaseException as error:
            for failure in _set_back(admin, numbers, name):
                error.add_note(str(failure))
            raise
        if failures := _set_back(admin, numbers, name):
            raise failures[0]


@contextmanager
def _alone(name: str, wait_s: float) -> Iterator[None]:
    """No two blocks for a setting at once: the end of one would be that of the other. LabError after `wait_s` seconds in vain."""
    # The block may end in another thread than it began in.
    lock = FileLock(workspace.run_dir() / f"broker-setting-{name}.lock", mode=0o600, thread_local=False)
    try:
        lock.acquire(timeout=wait_s)
    except Timeout:
        raise LabError(
            f"{name} of the kit's brokers is already changed, and was not restored within {wait_s:g} s. "
            "End the block or the program that changed it, then try again."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _set_back(admin: AdminClient, numbers: list[int], name: str) -> list[LabError]:
    """Take the change back at every broker; what went wrong on the way."""
    failures = []
    for number in numbers:
        try:
            _set(admin, number, name, None)
        except LabError as error:
            failures.append(error)
    return failures


def _numbers(admin: AdminClient) -> list[int]:
    try:
        return sorted(admin.list_topics(timeout=DEADLINE_S).brokers)
    except KafkaException as error:
        raise LabError(f"The brokers do not say who they are ({error}). Look at `kit status`.") from error


def _value(admin: AdminClient, number: int, name: str) -> tuple[str, bool]:
    """The setting as the broker has it now, and whether it was changed since its start."""
    resource = ConfigResource(ResourceType.BROKER, str(number))
    try:
        found = admin.describe_configs([resource], request_timeout=DEADLINE_S)[resource].result(DEADLINE_S)
    except (KafkaException, TimeoutError) as error:
        raise LabError(f"Broker {number} does not report its settings ({error!r}). Look at `kit status`.") from error
    if name not in found:
        raise LabError(f"Broker {number} has no setting {name}. Look for the name in Kafka's documentation.")
    entry = found[name]
    return str(entry.value), entry.source == DYNAMIC_BROKER_CONFIG


# AdminClient's number for "changed on this broker while it ran".
DYNAMIC_BROKER_CONFIG = 2


def _set(admin: AdminClient, number: int, name: str, value: str | None) -> None:
    """Change a setting, or with None take the change back, and wait until the broker has it."""
    operation = AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE
    entry = ConfigEntry(name, value or "", incremental_operation=operation)
    resource = ConfigResource(ResourceType.BROKER, str(number), incremental_configs=[entry])
    try:
        admin.incremental_alter_configs([resource], request_timeout=DEADLINE_S)[resource].result(DEADLINE_S)
    except (KafkaException, TimeoutError) as error:
        raise LabError(f"Broker {number} does not accept {name}={value} ({error!r}). Choose another value.") from error

    def has_it() -> bool:
        now, was_changed = _value(admin, number, name)
        return now == value if value is not None else not was_changed

    wait_until(has_it, DEADLINE_S, f"broker {number} has {name}={value or 'its own'}")


def broker_value(cluster: Cluster, name: str) -> str | None:
    """A setting as one of the brokers has it; None when nobody tells."""
    admin = AdminClient(client_config(cluster))
    try:
        return _value(admin, _numbers(admin)[0], name)[0]
    except (LabError, IndexError):
        return None
