"""What a run has of its backend: the model's class, and on Kafka its twin, which the run asks in the same words."""

from __future__ import annotations

from importlib import import_module
from inspect import isfunction, signature
from pkgutil import iter_modules, resolve_name
from typing import Any

import pytest

PACKAGES = ("compaction", "offsets", "lag", "cluster_audit")
MODULES = [
    import_module(f"kitlib.experiments.{package}.{module.name}")
    for package in PACKAGES
    for module in iter_modules(import_module(f"kitlib.experiments.{package}").__path__)
]
MODELS = {
    name: found
    for module in MODULES
    for name, found in vars(module).items()
    if isinstance(found, type) and found.__module__ == module.__name__ and name.startswith("Model") and hasattr(found, "on_kafka")
}


def verbs(kind: type) -> dict[str, list[str]]:
    """The public methods of a class, with their parameters."""
    found: dict[str, Any] = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {name: list(signature(verb).parameters) for name, verb in found.items() if isfunction(verb)}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_twin_on_kafka_has_the_verbs_of_the_model(name: str) -> None:
    """Each method of the model's class has its namesake, which takes the same; more, as a time it takes, is the model's alone."""
    twin = resolve_name(MODELS[name].on_kafka)
    theirs = verbs(twin)
    assert callable(twin.open) and callable(twin.close)
    for verb, parameters in verbs(MODELS[name]).items():
        assert verb in theirs, verb
        assert theirs[verb] == parameters[: len(theirs[verb])], verb


def test_every_twin_is_looked_at() -> None:
    """As many as there are in these packages."""
    assert sorted(MODELS) == ["ModelCompactedLog", "ModelCoordinator", "ModelDriver", "ModelOffsetsLog", "ModelTransactionalTopic"]
