"""Settings that a running broker takes at once, changed for a while and set back.

A broker forgets an idle producer after a day (`producer.id.expiration.ms`); who wants to see that
happen cannot wait so long. Kafka lets this setting be changed while it runs.
Source: Kafka 4.3.1, TransactionLogConfig / DynamicProducerStateManagerConfig.RECONFIGURABLE_CONFIGS.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient, ConfigSource  # type: ignore[attr-defined]
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from kitlib.errors import LabError
from kitlib.lab import workspace
from kitlib.lab.clients import Cluster, answered, client_config, must_be_own
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
    trouble = (
        f"{name} of the kit's brokers is already changed, and was not restored within {wait_s:g} s. "
        "End the block or the program that changed it, then try again."
    )
    with workspace.holding(workspace.run_dir() / f"broker-setting-{name}.lock", wait_s, trouble):
        _set(admin, name, None)  # of a block that was killed
        try:
            _set(admin, name, value)
            yield
        except BaseException as error:
            try:
                _set(admin, name, None)
            except LabError as failure:
                error.add_note(str(failure))
            raise
        _set(admin, name, None)


def _value(admin: AdminClient, number: int, name: str) -> tuple[str, bool]:
    """The setting as the broker has it now, and whether it was changed since its start."""
    resource = ConfigResource(ResourceType.BROKER, str(number))
    found = answered(admin.describe_configs([resource])[resource], f"broker {number} does not report its settings")
    if name not in found:
        raise LabError(f"Broker {number} has no setting {name}. Look for the name in Kafka's documentation.")
    return str(found[name].value), found[name].source == ConfigSource.DYNAMIC_BROKER_CONFIG.value


def _set(admin: AdminClient, name: str, value: str | None) -> None:
    """Change a setting, or with None take the change back, and wait until each broker has it."""
    operation = AlterConfigOpType.SET if value is not None else AlterConfigOpType.DELETE
    entry, numbers = ConfigEntry(name, value or "", incremental_operation=operation), _numbers(admin)
    brokers = [ConfigResource(ResourceType.BROKER, str(number), incremental_configs=[entry]) for number in numbers]
    asked = [admin.incremental_alter_configs([each])[each] for each in brokers]  # all of them, before one refuses
    for number, future in zip(numbers, asked, strict=True):
        answered(future, f"broker {number} does not accept {name}={value}")

    def have_it() -> bool:
        found = [_value(admin, number, name) for number in numbers]
        return all(now == value if value is not None else not was_changed for now, was_changed in found)

    wait_until(have_it, DEADLINE_S, f"the brokers have {name}={value or 'their own'}")


def _numbers(admin: AdminClient) -> list[int]:
    return sorted(node.id for node in answered(admin.describe_cluster(), "the brokers do not say who they are").nodes)


def broker_value(cluster: Cluster, name: str) -> str | None:
    """A setting as one of the brokers has it; None when nobody tells."""
    admin = AdminClient(client_config(cluster))
    try:
        return _value(admin, _numbers(admin)[0], name)[0]
    except (LabError, IndexError):
        return None
