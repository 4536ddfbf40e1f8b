"""The lab's one Spark: the server, who looks after it, and the sessions that notebooks and commands have on it."""
