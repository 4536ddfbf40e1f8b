"""What can be done to a desk that runs, besides turning its knobs."""

from __future__ import annotations

# The button, and the method of `DeskRun` behind it.
DEEDS = {"database away": "database_away", "kill broker": "kill_broker", "kill spout": "kill_spout"}
