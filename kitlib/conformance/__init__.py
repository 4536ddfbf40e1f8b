"""The models against traces recorded from the real classes: what keeps the word "faithful" honest."""
