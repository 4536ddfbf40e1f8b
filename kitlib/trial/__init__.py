"""Programs of other people under faults: what they promised, held against what happened."""
