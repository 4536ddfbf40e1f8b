"""Experiments with transactions: what a reader is given, and when."""
