"""The part of Kafka's client that producers and consumers share: what it knows of the cluster, and its connections."""
