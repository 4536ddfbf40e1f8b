"""Experiments with Storm's spouts, topologies and transactional topologies."""
