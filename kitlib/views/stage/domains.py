"""Which domains have a stage: for each its actors, and one table of what each verb does there.

A row names a verb and its deeds (`kitlib.views.stage.deeds`); a verb without a deed is named in `still`, so that a new one cannot be
forgotten. Names of actors that the trace does not name itself are those of the domain's parts. Left out: domains in which
nothing travels (compaction, offsets and their incidents).
"""

from __future__ import annotations

from kitlib.views.stage.groups import CONNECT, GROUPS, PARTITIONS, REPLICATION, SHARE, SOURCE, STREAMS
from kitlib.views.stage.producers import IDEMPOTENCE, SEND_PATH, TRANSACTIONS
from kitlib.views.stage.score import Setting
from kitlib.views.stage.storm import SPOUT, TOPOLOGY

STAGES: dict[str, Setting] = {
    "spout": SPOUT,
    "topology": TOPOLOGY,
    "idempotence": IDEMPOTENCE,
    "send_path": SEND_PATH,
    "groups": GROUPS,
    "transactions": TRANSACTIONS,
    "replication": REPLICATION,
    "connect": CONNECT,
    "streams": STREAMS,
    "source": SOURCE,
    "partitions": PARTITIONS,
    "share": SHARE,
}  # domain -> its stage
