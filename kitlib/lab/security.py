"""What a cluster asks of its clients (TLS, certificates, passwords), in the words of each client library.

A user writes librdkafka's names; kafka-python and Java call the same things otherwise. What one of them cannot do is
a LabError that names the setting, before anything is sent.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kitlib.errors import DiskError, LabError

# librdkafka's name -> (kafka-python's, Java's); None: said in another way below, or not at all.
NAMES: dict[str, tuple[str | None, str | None]] = {
    "security.protocol": ("security_protocol", "security.protocol"),
    "ssl.ca.location": ("ssl_cafile", "ssl.truststore.location"),
    "ssl.certificate.location": ("ssl_certfile", None),
    "ssl.key.location": ("ssl_keyfile", None),
    "ssl.key.password": ("ssl_password", "ssl.key.password"),
    "ssl.endpoint.identification.algorithm": (None, "ssl.endpoint.identification.algorithm"),
    "sasl.mechanism": ("sasl_mechanism", "sasl.mechanism"),
    "sasl.username": ("sasl_plain_username", None),
    "sasl.password": ("sasl_plain_password", None),
}
ALIASES = {"sasl.mechanisms": "sasl.mechanism"}
UPPER = ("security.protocol", "sasl.mechanism")  # librdkafka takes them in small letters, too
LOGIN_MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule", "SCRAM-SHA-512": "scram.ScramLoginModule"}
FAMILIES = ("security.", "ssl.", "sasl.", "enable.ssl.", "enable.sasl.", "https.")
PYTHON, JAVA = 0, 1


def kafka_python_settings(settings: Mapping[str, str]) -> dict[str, Any]:
    """The security settings among librdkafka's, as kafka-python names them. LabError for one that it does not have."""
    known = _known(settings, "kafka-python")
    told: dict[str, Any] = {name: known[ours] for ours, (name, _) in NAMES.items() if name is not None and ours in known}
    if "ssl.endpoint.identification.algorithm" in known:
        told["ssl_check_hostname"] = known["ssl.endpoint.identification.algorithm"] == "https"
    return told


def java_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The same as Java's clients name them. LabError for one that has no counterpart here, DiskError for a file that cannot be read."""
    known = _known(settings, "Java")
    told = {name: known[ours] for ours, (_, name) in NAMES.items() if name is not None and ours in known}
    if told.get("ssl.endpoint.identification.algorithm") == "none":
        told["ssl.endpoint.identification.algorithm"] = ""
    if "ssl.truststore.location" in told:
        told["ssl.truststore.type"] = "PEM"
    if "ssl.certificate.location" in known:
        told |= {
            "ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": _pem(known, "ssl.certificate.location"),
            "ssl.keystore.key": _pem(known, "ssl.key.location"),
        }  # fmt: skip
    if "sasl.username" in known:
        module = LOGIN_MODULES[known["sasl.mechanism"]]
        user, password = (_quoted(known.get(f"sasl.{name}", "")) for name in ("username", "password"))
        told["sasl.jaas.config"] = f"org.apache.kafka.common.security.{module} required username={user} password={password};"
    return told


def openssl_context(settings: Mapping[str, str]) -> ssl.SSLContext | None:
    """TLS as the settings ask for it, None when they ask for none. LabError as above, DiskError for a file that cannot be used."""
    known = _known(settings, "the chaos proxy")
    if known.get("security.protocol") not in ("SSL", "SASL_SSL"):
        return None
    context = ssl.create_default_context()
    context.check_hostname = known.get("ssl.endpoint.identification.algorithm", "https") == "https"
    try:
        if trusted := known.get("ssl.ca.location"):
            context.load_verify_locations(**{"capath" if Path(trusted).is_dir() else "cafile": trusted})
        if own := known.get("ssl.certificate.location"):
            context.load_cert_chain(own, known["ssl.key.location"], known.get("ssl.key.password", ""))
    except OSError as error:  # an SSLError is one
        named = ", ".join(f"{name}={known[name]}" for name in known if name.endswith(".location"))
        raise DiskError(f"KIT_KAFKA_CONFIG: {named} cannot be used: {error}. Correct the paths, and the key's password.") from error
    return context


def without_tls(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of a client to whom somebody else speaks for the cluster, without TLS; passwords are still its own."""
    left = {name: value for name, value in settings.items() if not name.startswith(("ssl.", "enable.ssl."))}
    if "security.protocol" in left:
        left["security.protocol"] = "SASL_PLAINTEXT" if left["security.protocol"].upper().startswith("SASL") else "PLAINTEXT"
    return left


def _known(settings: Mapping[str, str], library: str) -> dict[str, str]:
    """The security settings, each under its first name. LabError for one that is not in NAMES, or a mechanism that is no password."""
    found = {ALIASES.get(name, name): value for name, value in settings.items() if name.startswith(FAMILIES)}
    found |= {name: found[name].upper() for name in UPPER if name in found}
    unknown = [name for name in found if name not in NAMES]
    if found.get("security.protocol", "").startswith("SASL") or "sasl.username" in found:
        mechanism = found.get("sasl.mechanism", "GSSAPI")  # librdkafka's default
        unknown += [] if mechanism in LOGIN_MODULES else [f"sasl.mechanism={mechanism}"]
    unknown += [name for name in ("ssl.certificate.location", "ssl.key.location") if (name in found) and not _is_pair(found)]
    if unknown:
        raise LabError(
            f"KIT_KAFKA_CONFIG: {', '.join(sorted(unknown))} cannot be passed on to {library}, which this needs. Use "
            f"{', '.join(sorted(NAMES))}, a certificate with its key, and one of the mechanisms {', '.join(LOGIN_MODULES)}."
        )
    return found


def _is_pair(found: Mapping[str, str]) -> bool:
    return "ssl.certificate.location" in found and "ssl.key.location" in found


def _pem(known: Mapping[str, str], name: str) -> str:
    try:
        return Path(known[name]).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise DiskError(f"KIT_KAFKA_CONFIG: {name}={known[name]} cannot be read: {error}. Correct the path.") from error


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
