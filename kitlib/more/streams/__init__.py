"""Kafka Streams: from a topology to tasks, who runs them, what is restored when one dies, and what a query sees."""
