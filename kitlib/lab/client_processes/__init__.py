"""Real consumers and producers, each in a process of its own that can be killed and frozen."""
