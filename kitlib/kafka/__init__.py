"""Kafka's mechanisms as pure models: no socket, clock, thread or chance of their own."""
