"""Delivery Lab: the mechanisms by which streaming systems keep their promises, run, shown and judged."""

__version__ = "0.1.0"
