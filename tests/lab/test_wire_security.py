"""The wire to a broker that wants TLS and a password."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kitlib.errors import LabError
from kitlib.lab import jars, java, node, ports
from kitlib.lab.processes import wait_until
from kitlib.lab.wire import Wire

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CERTIFY = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=kit -addext subjectAltName=IP:127.0.0.1"
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_kit="secret";'


@pytest.fixture(scope="module")
def secured(kit_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, dict[str, Any]]]:
    """The port of a broker's listener for SASL over TLS, and what a client needs there."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl, which makes the certificate")
    home = tmp_path_factory.mktemp("secured")
    (home / "tmp").mkdir()
    subprocess.run(CERTIFY.split(), cwd=home, check=True, capture_output=True)
    java_of_all = java.find_java(needs_vector=False).executable
    machinery = node.Machinery(java_of_all, tuple(jars.ensure_jars("kafka")), home, home, uuid.uuid4().hex, node.HEAP_MB[1])
    controller_port, [own, door] = ports.choose({}, 2)
    broker = node.Node(
        1, home / "node-1", machinery, own.port, own.behind_port, own.proxy_port, controller_port, on_end=lambda: None
    )
    node.prepare([broker], 1, lambda _sentence: None, lambda: None)
    broker.write_settings(1, controller_port)
    values = dict(line.split("=", 1) for line in broker.settings_file.read_text().splitlines())
    values["listeners"] += f",SECURE://127.0.0.1:{door.port}"
    values["advertised.listeners"] += f",SECURE://127.0.0.1:{door.port}"
    values["listener.security.protocol.map"] += ",SECURE:SASL_SSL"
    values |= {
        f"listener.name.secure.{name}": value
        for name, value in {
            "sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": LOGIN, "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": (home / "cert.pem").read_text().replace("\n", "\\n"),
            "ssl.keystore.key": (home / "key.pem").read_text().replace("\n", "\\n"),
        }.items()
    }  # fmt: skip
    broker.settings_file.write_text("".join(f"{name}={value}\n" for name, value in values.items()), encoding="ascii")
    broker.start()
    try:
        wait_until(lambda: not broker.is_running() or ports.serves_producers(broker.port), 60, "the broker serves")
        assert broker.is_running(), broker.why_ended()
        yield door.port, {
            "security_protocol": "SASL_SSL", "ssl_cafile": str(home / "cert.pem"), "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "kit", "sasl_plain_password": "secret",
        }  # fmt: skip
    finally:
        broker.ask_to_stop()
        broker.end(30)


def test_wire_speaks_to_a_broker_that_wants_tls_and_a_password(secured: tuple[int, dict[str, Any]]) -> None:
    """With kafka-python's settings the wire is let in, and is told the listener that it came by."""
    port, security = secured
    with Wire.open("127.0.0.1", port, **security) as wire:
        assert wire.metadata([]).brokers == {1: ("127.0.0.1", port)} and wire.init_producer_id()[0] == 0


WRONG = [
    pytest.param({"sasl_plain_password": "other"}, "Authentication failed", id="a wrong password"),
    pytest.param({"ssl_cafile": None}, "CERTIFICATE_VERIFY_FAILED", id="a certificate that nobody vouches for"),
    pytest.param({"security_protocol": "PLAINTEXT"}, "Invalid frame length|disconnected", id="no TLS"),
]


@pytest.mark.parametrize(("change", "said"), WRONG)
def test_wire_that_is_not_let_in_is_told_why(secured: tuple[int, dict[str, Any]], change: dict[str, Any], said: str) -> None:
    """A wrong password, an unknown certificate and a connection without TLS are a LabError with the reason."""
    port, security = secured
    with pytest.raises(LabError, match=f"No Kafka broker answers .*({said})"):
        Wire.open("127.0.0.1", port, timeout_s=5, **security | change)
