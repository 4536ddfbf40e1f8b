"""A producer's run: the sequence diagram of what crosses between it and the broker, the batches, and the log."""
