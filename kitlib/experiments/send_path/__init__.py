"""Experiments with the send path: what a client does between `send` and the wire."""
