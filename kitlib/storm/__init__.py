"""Storm's mechanisms as pure models: the spout's PartitionManager and what it stands on."""
