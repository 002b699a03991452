"""The certificate that PostgreSQL presents: the driver tells that one is refused, and not why."""

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from cryptography import x509

from contract.certificate_expiry import SOON
from deploy.doctor.check import Check, failed, ok, warning

_NAME: Final = "database certificate"
_SECONDS: Final = 5.0
_PORT: Final = "5432"
# A request for TLS: the length of the message, and the number that stands for it.
_START_TLS: Final = struct.pack("!ii", 8, 80877103)
_ACCEPTED: Final = b"S"
_VERIFYING: Final = frozenset({"verify-ca", "verify-full"})


def check_server_certificate(url: str) -> Iterator[Check]:
    """Judges the dates of each server's certificate; nothing where a server has none or is not reached by TLS."""
    from psycopg.conninfo import conninfo_to_dict

    given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    hosts, ports = given.get("host", "").split(","), given.get("port", _PORT).split(",")
    if given.get("sslmode") == "disable":
        return
    for number, host in enumerate(hosts):
        if not host or host.startswith(("/", "@")):
            continue
        port = ports[number if len(ports) > 1 else 0]
        # Whether it can be reached at all is reported by the check of the database.
        with suppress(OSError, ValueError):
            certificate = _presented(host, int(port or _PORT))
            if certificate is not None:
                yield _judged(host, certificate, verified=given.get("sslmode") in _VERIFYING)


def _presented(host: str, port: int) -> x509.Certificate | None:
    # It is looked at and not trusted: nothing is sent.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, port), timeout=_SECONDS) as plain:
        plain.sendall(_START_TLS)
        if plain.recv(1) != _ACCEPTED:
            return None
        with context.wrap_socket(plain, server_hostname=host) as tls:
            presented = tls.getpeercert(binary_form=True)
    return None if presented is None else x509.load_der_x509_certificate(presented)


def _judged(host: str, certificate: x509.Certificate, *, verified: bool) -> Check:
    now, ends = datetime.now(UTC), certificate.not_valid_after_utc
    issuer = certificate.issuer.rfc4514_string() or "an authority without a name"
    shown = f"The certificate of PostgreSQL on {host}, issued by {issuer},"
    renew = "Renew it on the server and reload that (`SELECT pg_reload_conf()`)."
    if ends <= now:
        judge = failed if verified else warning
        return judge(_NAME, f"{shown} expired at {ends:%Y-%m-%d %H:%M} UTC.", renew)
    if certificate.not_valid_before_utc > now:
        judge = failed if verified else warning
        return judge(
            _NAME, f"{shown} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on.", "Set the clocks."
        )
    if ends - now < SOON:
        return warning(_NAME, f"{shown} expires at {ends:%Y-%m-%d %H:%M} UTC.", renew)
    return ok(_NAME, f"{shown} is valid until {ends:%Y-%m-%d}.")
