"""A streaming query that is killed between two of its writes, and started again."""
