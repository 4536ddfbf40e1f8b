"""What every experiment does with its defaults is what it did before: trace, verdict, sentences and pictures."""

from __future__ import annotations

import json

import pytest

from kitlib.experiments import names
from tests import net

KEPT = json.loads(net.SMALL.read_text(encoding="utf-8"))


def test_net_holds_every_experiment() -> None:
    """A new experiment is added to the net, and one that is gone leaves it."""
    assert list(KEPT) == names(), "run: python -m tests.net small"


@pytest.mark.parametrize("name", names())
def test_experiment_does_what_it_did(name: str) -> None:
    """Its run with the defaults and a fork in the middle: what changed is named, and meant or mended."""
    found = net.small(name)
    changed = [
        f"{case}: {kind}" for case in KEPT[name] for kind in KEPT[name][case] if found.get(case, {}).get(kind) != KEPT[name][case][kind]
    ]
    assert not changed, (
        f"{name} has changed in {', '.join(changed)}. See how with `python -m tests.net record` on the commit before and "
        "`python -m tests.net compare` here; if it is meant, say so in the commit and run `python -m tests.net small`."
    )
