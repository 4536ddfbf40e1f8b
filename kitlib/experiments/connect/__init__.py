"""Experiments with Kafka Connect."""
