"""Kafka's protocol spoken message by message, with every number of one's own choosing."""
