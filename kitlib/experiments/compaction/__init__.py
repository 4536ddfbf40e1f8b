"""A log that keeps the last record of each key: what the cleaner leaves, what a reader misses, how long the log gets."""
