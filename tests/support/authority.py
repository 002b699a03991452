"""Certificates for edges, backends and commands, issued by test authorities."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

EDGE, ADMIN, BACKEND = "edge.test", "spiffe://test/admin", "backend.test"


@dataclass(frozen=True)
class IssuedCertificate:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, authority: bytes) -> Path:
        """Writes certificate, key and trusted authorities to a folder, each by an atomic rename."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in (("ca.pem", authority), ("key.pem", self.key), ("certificate.pem", self.certificate)):
            beside = folder / f"{name}.new"
            beside.write_bytes(content)
            beside.replace(folder / name)
        return folder


class Authority:
    """Certificate authority of a test."""

    def __init__(self, name: str = "authority") -> None:
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(self._name, self._name, self._key.public_key(), days=90)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.pem = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def issue(self, *names: str, days: float = 60, password: str | None = None) -> IssuedCertificate:
        """A certificate for host names, addresses and URIs that ends after so many days, or ended before them."""
        key = ec.generate_private_key(ec.SECP256R1())
        names_of = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = _builder(x509.Name([]), self._name, key.public_key(), days).add_extension(names_of, critical=True)
        sealed: KeySerializationEncryption = (
            BestAvailableEncryption(password.encode()) if password is not None else NoEncryption()
        )
        return IssuedCertificate(
            builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed),
        )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + timedelta(days=days))
    )


def _general_name(name: str) -> x509.GeneralName:
    if ":" in name:
        return x509.UniformResourceIdentifier(name)
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
