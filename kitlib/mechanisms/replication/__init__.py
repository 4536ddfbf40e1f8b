"""A partition with copies: who leads, who is in sync, what is cut off when a copy that lagged behind leads."""
