"""What lag tells, and what it does not."""
