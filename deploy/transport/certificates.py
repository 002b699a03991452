"""Certificate files: reading, checking, and reading again when they change."""

import logging
import os
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from backend.common.secrets import FILE, SecretError
from deploy.config.secret_references import resolve_reference
from deploy.config.settings import ServerTls
from deploy.failures import CommandError

_LOG = logging.getLogger(__name__)


class CertificateError(CommandError):
    """A certificate cannot be used; the message is one sentence that says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="invalid_settings")


@dataclass(frozen=True, slots=True, repr=False)
class Pem:
    """PEM texts for gRPC: the certificate with its chain, its key, and the trusted authorities.

    `expires_at` is the earlier of two times: the first expiry within the chain, the last among the authorities.
    """

    certificate: bytes
    key: bytes
    ca: bytes
    expires_at: datetime


class CertificateFiles:
    """Certificate files of one end of a connection, read again when they change.

    The files may be replaced one by one: until they fit together, the former contents stay in use.

    Raises:
        CertificateError: they cannot be used.
    """

    def __init__(self, tls: ServerTls) -> None:
        if tls.certificate is None or tls.key is None or tls.ca is None:
            raise CertificateError("A certificate goes with its key and with the authorities of the others.")
        self._certificate, self._key, self._ca = tls.certificate, tls.key, tls.ca
        self._key_password = tls.key_password
        self._lock = threading.Lock()
        self._state = self._file_states()
        self._pem = self._load()

    def current(self) -> Pem:
        """Returns the contents of the files, or the former contents while the files cannot be used."""
        with self._lock:
            state = self._file_states()
            if state == self._state:
                return self._pem
            try:
                pem = self._load()
            except CertificateError as error:
                pem = None
                _LOG.warning("The current certificate stays in use: %s", error)
            if (
                self._file_states() != state
            ):  # The files changed while they were read, so the next call reads them again.
                return self._pem
            self._state = state
            if pem is not None:
                self._pem = pem
                _LOG.info("Certificate %s was reloaded", self._certificate)
            return self._pem

    @property
    def expires_at_ms(self) -> int:
        """Returns the expiry of the current certificate, in milliseconds since the epoch."""
        return int(self.current().expires_at.timestamp() * 1000)

    def _file_states(self) -> object:
        password = self._key_password or ""
        password_files = [Path(password.removeprefix(FILE))] if password.startswith(FILE) else []
        return tuple(_file_state(path) for path in (self._certificate, self._key, self._ca, *password_files))

    def _load(self) -> Pem:
        certificate, key_text, ca = _content(self._certificate), _content(self._key), _content(self._ca)
        try:
            chain = x509.load_pem_x509_certificates(certificate)
        except ValueError:
            raise CertificateError(f"{self._certificate} holds no certificate in PEM.") from None
        try:
            authorities = x509.load_pem_x509_certificates(ca)
        except ValueError:
            raise CertificateError(f"{self._ca} holds no certificate in PEM.") from None
        own = chain[0]
        key = self._private_key(key_text)
        try:
            fits = key.public_key() == own.public_key()
        except UnsupportedAlgorithm:
            raise CertificateError(
                f"The key of the certificate in {self._certificate} is of no supported kind."
            ) from None
        if not fits:
            raise CertificateError(f"The key in {self._key} is not that of the certificate in {self._certificate}.")
        if own.not_valid_after_utc <= datetime.now(UTC):
            raise CertificateError(f"The certificate in {self._certificate} expired at {own.not_valid_after_utc}.")
        # gRPC takes no password.
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        # A file of authorities may hold an old one beside its successor.
        expires_at = min(
            *(each.not_valid_after_utc for each in chain), max(each.not_valid_after_utc for each in authorities)
        )
        return Pem(certificate, private, ca, expires_at)

    def _private_key(self, key: bytes) -> PrivateKeyTypes:
        try:
            password = self._key_password and resolve_reference("key_password", self._key_password, os.environ).encode()
        except SecretError as error:
            raise CertificateError(f"The key in {self._key} cannot be opened: {error}.") from None
        try:
            return load_pem_private_key(key, password or None)
        except TypeError:
            how = "has no password, but one is given" if password else "has a password: key_password says where it is"
            raise CertificateError(f"The key in {self._key} {how}.") from None
        except ValueError:
            raise CertificateError(f"{self._key} holds no private key in PEM that can be opened.") from None
        except UnsupportedAlgorithm:
            raise CertificateError(f"The key in {self._key} is of no supported kind.") from None


def _file_state(path: Path) -> object:
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path} cannot be read: {error.strerror}.") from None
