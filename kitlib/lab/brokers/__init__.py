"""The kit's own brokers: how they are started, watched, changed, led and damaged. `kitlib.lab.kafka_server` is their door."""
