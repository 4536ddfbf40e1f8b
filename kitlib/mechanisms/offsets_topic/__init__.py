"""Where groups keep their offsets: a log of segments, and the compaction that it goes through."""
