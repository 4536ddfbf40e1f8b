"""Topologies of spouts and bolts, and their run in virtual time: what a learner writes real topologies in."""

from kitlib.more.topology.builder import Topology, TopologyBuilder, TopologyConfig
from kitlib.more.topology.components import (
    BasicBolt,
    BasicOutputCollector,
    Bolt,
    FailedError,
    Spout,
    TopologyContext,
    TopologyError,
    Tuple,
)
from kitlib.more.topology.faults import Fault
from kitlib.more.topology.run import TopologyRun
from kitlib.more.topology.tasks import OutputCollector, SpoutOutputCollector

__all__ = [
    "BasicBolt",
    "BasicOutputCollector",
    "Bolt",
    "FailedError",
    "Fault",
    "OutputCollector",
    "Spout",
    "SpoutOutputCollector",
    "Topology",
    "TopologyBuilder",
    "TopologyConfig",
    "TopologyContext",
    "TopologyError",
    "TopologyRun",
    "Tuple",
]
