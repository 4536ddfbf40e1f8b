"""Stands for a producer of yours: it sends orders, and knows nothing of the kit.

Usage: our_producer.py BOOTSTRAP TOPIC [IDEMPOTENCE], the last `true` or `false`.
"""

import sys

from confluent_kafka import Producer

ORDERS = 2_000


def main(bootstrap: str, topic: str, idempotence: str = "true") -> int:
    """Send the orders; 0 when the broker has acknowledged all of them."""
    failed = []
    producer = Producer({
        "bootstrap.servers": bootstrap,
        "enable.idempotence": idempotence,
        "batch.num.messages": 100,
        "log_level": 0,
    })  # fmt: skip
    for number in range(ORDERS):
        producer.produce(topic, f"order {number}", on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0)
    return 1 if producer.flush(60) or failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
