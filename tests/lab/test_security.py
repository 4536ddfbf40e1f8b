"""The user's settings, which are librdkafka's, in the words of kafka-python and of Java."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient
from kafka.net import KafkaConnection

from kitlib.errors import DiskError, LabError
from kitlib.lab.security import NAMES, java_settings, kafka_python_settings

COMPANY = {
    "security.protocol": "sasl_ssl", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "me", "sasl.password": 'a"b',
    "ssl.ca.location": "ca.pem", "queue.buffering.max.ms": "5",
}  # fmt: skip


def test_the_settings_of_a_companys_cluster_get_the_names_of_each_library() -> None:
    """Passwords and the authority by which certificates are judged; what is no matter of security stays behind."""
    assert java_settings(COMPANY) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": 'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="a\\"b";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "ca.pem",
    }
    assert kafka_python_settings(COMPANY) == {
        "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "sasl_plain_username": "me",
        "sasl_plain_password": 'a"b', "ssl_cafile": "ca.pem",
    }  # fmt: skip


def test_a_certificate_of_ones_own_and_a_name_that_is_not_checked(tmp_path: Path) -> None:
    """Java is given the certificate itself, kafka-python its file; none is how librdkafka says that any name will do."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    settings = {"ssl.certificate.location": str(certificate), "ssl.key.location": str(key), "ssl.endpoint.identification.algorithm": "none"}
    assert kafka_python_settings(settings) == {
        "ssl_certfile": str(certificate), "ssl_keyfile": str(key), "ssl_check_hostname": False,
    }  # fmt: skip
    with pytest.raises(DiskError, match=r"ssl\.certificate\.location=.*cannot be read"):
        java_settings(settings)
    certificate.write_text("CERTIFICATE")
    key.write_text("KEY")
    assert java_settings(settings) == {
        "ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": "CERTIFICATE", "ssl.keystore.key": "KEY",
        "ssl.endpoint.identification.algorithm": "",
    }  # fmt: skip


def test_every_name_is_one_that_kafka_python_has() -> None:
    """Its admin client and its connection know each name of the table that is for them."""
    known = {*KafkaAdminClient.DEFAULT_CONFIG, *KafkaConnection.DEFAULT_CONFIG}
    assert {name for name, _ in NAMES.values() if name is not None} <= known


REFUSED = [
    pytest.param({"ssl.key.pem": "..."}, r"ssl\.key\.pem", id="a key in the file"),
    pytest.param({"enable.ssl.certificate.verification": "false"}, "enable.ssl.certificate.verification", id="no verification"),
    pytest.param({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism=OAUTHBEARER", id="a token"),
    pytest.param({"security.protocol": "SASL_SSL"}, "sasl.mechanism=GSSAPI", id="Kerberos, which librdkafka takes unless told otherwise"),
    pytest.param({"ssl.certificate.location": "cert.pem"}, r"ssl\.certificate\.location", id="a certificate without its key"),
]


@pytest.mark.parametrize("translate", [kafka_python_settings, java_settings])
@pytest.mark.parametrize(("settings", "named"), REFUSED)
def test_what_a_library_cannot_be_told_is_named(
    translate: Callable[[dict[str, str]], object], settings: dict[str, str], named: str
) -> None:
    """One sentence names the setting, the library, and what can be used instead."""
    with pytest.raises(LabError, match=f"KIT_KAFKA_CONFIG: .*{named}.* cannot be passed on to .*Use "):
        translate(settings)
