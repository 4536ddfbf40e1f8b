"""Transactions: the coordinator's ledger, the producer's states, offsets that wait for a marker, and who reads what."""
