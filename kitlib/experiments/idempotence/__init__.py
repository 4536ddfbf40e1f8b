"""Experiments with idempotent and plain producers: faults, clients, and the table of guarantees."""
