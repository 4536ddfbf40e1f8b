"""What can be done to a desk that runs, besides turning its knobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line reads this table before it loads any client
    from kitlib.lab.clients import Cluster

# The button, and the method of `DeskRun` behind it.
DEEDS = {"database away": "database_away", "kill broker": "kill_broker", "kill spout": "kill_spout"}


def deeds_of(cluster: Cluster) -> list[str]:
    """The buttons of a desk on this cluster: a broker that is not the kit's is not killed."""
    return [deed for deed in DEEDS if deed != "kill broker" or cluster.source == "kit"]
