"""What stands around the PartitionManager: its spout, other queues, later rules of retries, and its records in Spark's batches."""
