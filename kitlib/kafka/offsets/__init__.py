"""Where groups keep their offsets: the records of __consumer_offsets, and the compacted log that they lie in."""
