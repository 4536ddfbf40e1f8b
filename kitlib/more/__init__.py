"""Faithful models behind single chapters. They stand on the mechanisms, and no mechanism stands on them."""
