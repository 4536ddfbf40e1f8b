"""A topology's tuple trees, and the acker's number bit by bit."""
