"""Figures: how fast and how large the mechanisms are, each promise beside what was measured."""
