"""Judgements over what happened: pure functions of a trace."""
