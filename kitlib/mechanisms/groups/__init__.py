"""Groups: who coordinates them, how members join, how partitions are assigned."""
