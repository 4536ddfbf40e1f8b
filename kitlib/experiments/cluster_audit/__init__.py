"""The commits of a real cluster: read, judged, and a fault told from what they show alone."""
