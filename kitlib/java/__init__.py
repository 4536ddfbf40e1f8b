"""Java's numbers, hash codes and orders, on which answers of Storm and Kafka hang: without them no recorded trace would agree."""
