"""Certificates for a backend under test and its callers, issued by an authority in memory."""

import functools
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

SERVER_NAME: Final = "backend.test"
_URI: Final = "uri:"
_DNS: Final = "dns:"


class _CertificateAndKey(NamedTuple):
    certificate: bytes
    key: bytes


class Authority:
    """Certificate authority whose certificates are valid for a day."""

    def __init__(self) -> None:
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "workflow_api_testing")])
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self._pem = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        self._issued = functools.cache(self._issue)

    def server_credentials(self) -> grpc.ServerCredentials:
        """Returns the credentials of a server that accepts only callers with a certificate."""
        issued = self._issued(f"{_DNS}{SERVER_NAME}")
        return grpc.ssl_server_credentials([(issued.key, issued.certificate)], self._pem, require_client_auth=True)

    def channel_credentials(self, identity: str) -> grpc.ChannelCredentials:
        """Returns the credentials of a caller with an identity, `dns:…` or `uri:…`, in its certificate."""
        issued = self._issued(identity)
        return grpc.ssl_channel_credentials(self._pem, issued.key, issued.certificate)

    def _issue(self, identity: str) -> _CertificateAndKey:
        key = ec.generate_private_key(ec.SECP256R1())
        name: x509.GeneralName = (
            x509.UniformResourceIdentifier(identity.removeprefix(_URI))
            if identity.startswith(_URI)
            else x509.DNSName(identity.removeprefix(_DNS))
        )
        builder = _builder(x509.Name([]), self._name, key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName([name]), critical=True)
        return _CertificateAndKey(
            builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
