"""The part of the client that producers and consumers share."""
