"""Committed offsets that go back or vanish: coordinators that move, two incidents, resets, and a second reader that loses."""
