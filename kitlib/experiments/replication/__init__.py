"""A partition with copies: elections, what they cut off, and where a reader goes on."""
