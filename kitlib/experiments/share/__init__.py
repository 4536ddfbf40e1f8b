"""Experiments with share groups: records that are handed to any consumer, one lock and one answer each."""
