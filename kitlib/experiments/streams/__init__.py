"""Experiments with Kafka Streams."""
