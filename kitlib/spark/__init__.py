"""Spark's mechanisms as models: what a streaming query keeps, and what it does again."""
