"""Experiments with consumer groups: rebalances, commits, assignors, partitions, and groups on ZooKeeper."""
