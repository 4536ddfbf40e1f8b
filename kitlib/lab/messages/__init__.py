"""Messages of Kafka's protocol that kafka-python does not have, field by field (`kitlib.lab.wire.share_state`)."""
