"""Kafka Connect: workers, connectors and tasks, who runs what, and what is repeated when one of them dies."""
