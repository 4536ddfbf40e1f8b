"""The idempotent producer's client: batches, their queues, their numbers, and the loop that sends them."""
