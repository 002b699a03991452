"""Checks of the part's certificates: key, dates, issuer, names, and readers of the key."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final

from cryptography import x509

from backend.common.certificate_expiry import SOON, time_left
from deploy.config.settings import ServerTls, Settings
from deploy.doctor.examination import ExaminedPart, Finding, Outcome, ServingPart, failed, not_applicable, ok, warning
from deploy.doctor.files import private_file
from deploy.transport.certificates import CertificateError, CertificateFiles

_LATE_PART: Final = 5
"""Divisor: a certificate should be renewed once a fifth of its lifetime is left, if that is under two weeks."""


def check_certificates(examined: ExaminedPart) -> Iterator[Finding]:
    """Checks every certificate that the part presents to others."""
    given = {name: tls for name, tls in _tls_of_part(examined.part, examined.settings).items() if tls.given}
    if examined.part is ServingPart.WORKER:
        yield not_applicable(
            "certificates", "A worker presents none: it takes runs from the database, and serves no gRPC."
        )
    elif not given:
        yield not_applicable("certificates", "The settings name none: gRPC is plain, on this machine only.")
    for name, tls in given.items():
        yield from _checked(name, tls, examined.settings)
    admin = examined.settings.admin.backend_tls
    # Files of administrators may be on another machine, and no part needs them.
    if admin.key is not None and os.access(admin.key, os.R_OK):
        for check in _checked("admin.backend_tls", admin, examined.settings):
            yield replace(check, outcome=Outcome.WARNING) if check.outcome is Outcome.FAILED else check


def _checked(name: str, tls: ServerTls, settings: Settings) -> Iterator[Finding]:
    try:
        pem = CertificateFiles(tls).current()
    except CertificateError as error:
        yield failed(name, error.message, "Renew it, or write files that fit together (docs/security.md).")
        return
    chain = x509.load_pem_x509_certificates(pem.certificate)
    trusted = x509.load_pem_x509_certificates(pem.ca)
    found = [*_files(name, tls), *_dates(name, chain, trusted), *_issuer(name, chain, trusted, tls.ca)]
    found += _names(name, chain[0], settings)
    yield from found
    if not found:
        until = f"{chain[0].not_valid_after_utc:%Y-%m-%d}"
        yield ok(name, f"The certificate of {', '.join(_identities(chain[0]))} is valid until {until}.")


def _tls_of_part(part: ServingPart, settings: Settings) -> dict[str, ServerTls]:
    own: dict[ServingPart, dict[str, ServerTls]] = {
        ServingPart.SERVE: {"backend.tls": settings.backend.tls},
        ServingPart.BACKEND: {"backend.tls": settings.backend.tls},
        ServingPart.EDGE: {"edge.backend_tls": settings.edge.backend_tls},
        ServingPart.CONSOLE: {"console.backend_tls": settings.console.backend_tls},
        ServingPart.WORKER: {},
    }
    return own[part]


def _files(name: str, tls: ServerTls) -> Iterator[Finding]:
    if tls.key is not None:
        yield from private_file(name, f"{name}.key", tls.key)


def _dates(name: str, chain: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate]) -> Iterator[Finding]:
    now = datetime.now(UTC)
    own = chain[0]
    left, lasts = own.not_valid_after_utc - now, own.not_valid_after_utc - own.not_valid_before_utc
    if own.not_valid_before_utc > now:
        yield failed(name, f"The certificate is valid from {own.not_valid_before_utc} on.", "Set this machine's clock.")
    elif left < min(SOON, lasts / _LATE_PART):
        subject = ", ".join(_identities(own)) or own.subject.rfc4514_string()
        yield warning(
            name,
            f"The certificate of {subject} expires in {time_left(left)}.",
            f"Write a renewed one to {name}.certificate, its key to {name}.key; they are read without a restart.",
        )
    expired = [each for each in (*chain[1:], *trusted) if each.not_valid_after_utc <= now]
    if expired:
        subject = expired[0].subject.rfc4514_string()
        yield warning(name, f"The authority {subject} has expired.", "Replace it in the files of all parts.")


def _issuer(
    name: str, chain: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate], ca: Path | None
) -> Iterator[Finding]:
    for certificate, issuer in pairwise(chain):
        if not _issued(certificate, issuer):
            subject = certificate.subject.rfc4514_string() or "the certificate"
            yield failed(
                name, f"The chain is broken: the one after {subject} did not issue it.", "Write it leaf first."
            )
            return
    if not any(_issued(chain[-1], issuer) or chain[-1] == issuer for issuer in trusted):
        yield warning(
            name,
            f"None of the authorities in {ca} issued the certificate.",
            "That is right only where the other side trusts another authority than this one.",
        )


def _names(name: str, certificate: x509.Certificate, settings: Settings) -> Iterator[Finding]:
    identities = _identities(certificate)
    if not identities:
        remedy = "Issue one with a DNS name or a URI; a common name does not count."
        yield failed(name, "The certificate has no alternative name.", remedy)
    elif name != "backend.tls" and settings.identities and not set(identities) & settings.identities.keys():
        yield failed(name, f"[identities] grants nothing to {', '.join(identities)}.", "Add it there, for backends.")


def _identities(certificate: x509.Certificate) -> list[str]:
    """Returns the names of a certificate as `[identities]` writes them."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    dns = [f"dns:{each.lower()}" for each in names.get_values_for_type(x509.DNSName)]
    return [*dns, *(f"uri:{each}" for each in names.get_values_for_type(x509.UniformResourceIdentifier))]


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except Exception:  # noqa: BLE001 - each kind of key has its own error for a signature that does not fit
        return False
    return True
