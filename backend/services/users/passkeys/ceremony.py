"""WebAuthn ceremonies: options for browsers, and verification of their responses."""

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from backend.storage.tables.users import PasskeyRow

if TYPE_CHECKING:
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor

_TIMEOUT_MS: Final = 120_000
_PRODUCT: Final = "Workflow API"


class PasskeyError(Exception):
    """Response of a browser that proves nothing; the text is for the log."""


class PasskeyResponse(NamedTuple):
    """A browser's response, and the origin and host that it must have been made for."""

    response_json: str
    origin: str
    host: str


def registration_options(name: str, deployment: str, host: str, challenge: str, known: Sequence[PasskeyRow]) -> str:
    """Returns the options by which a browser makes a passkey, as JSON; `known` are the person's present passkeys."""
    from webauthn import base64url_to_bytes, generate_registration_options, options_to_json
    from webauthn.helpers.structs import (
        AuthenticatorSelectionCriteria,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    return options_to_json(
        generate_registration_options(
            rp_id=host,
            rp_name=_PRODUCT,
            # Opaque, because authenticators show it to anybody who holds them.
            user_id=hashlib.sha256(f"{deployment}\0{name}".encode()).digest(),
            user_name=name,
            challenge=base64url_to_bytes(challenge),
            timeout=_TIMEOUT_MS,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.PREFERRED,
                user_verification=UserVerificationRequirement.PREFERRED,
            ),
            exclude_credentials=_descriptors(known, host),
        )
    )


def assertion_options(host: str, challenge: str, known: Sequence[PasskeyRow]) -> str:
    """Returns the options by which a browser signs with a passkey, as JSON; empty if `known` has none of this host."""
    from webauthn import base64url_to_bytes, generate_authentication_options, options_to_json
    from webauthn.helpers.structs import UserVerificationRequirement

    usable = _descriptors(known, host)
    if not usable:
        return ""
    return options_to_json(
        generate_authentication_options(
            rp_id=host,
            challenge=base64url_to_bytes(challenge),
            timeout=_TIMEOUT_MS,
            allow_credentials=usable,
            user_verification=UserVerificationRequirement.PREFERRED,
        )
    )


def credential_id_of(answer: PasskeyResponse) -> str:
    """Returns the id of the passkey that a response names; an empty text if it names none."""
    try:
        response = json.loads(answer.response_json)
    except (ValueError, RecursionError):
        return ""
    given = response.get("id") if isinstance(response, dict) else None
    return given if isinstance(given, str) else ""


def registered(answer: PasskeyResponse, challenge: str | None, name: str, label: str, now: int) -> PasskeyRow:
    """Returns the passkey of a browser's answer.

    Raises:
        PasskeyError: the answer is not valid.
    """
    from webauthn import base64url_to_bytes, verify_registration_response
    from webauthn.helpers import bytes_to_base64url

    if challenge is None:
        raise PasskeyError("the challenge was answered before")
    try:
        verified = verify_registration_response(
            credential=answer.response_json,
            expected_challenge=base64url_to_bytes(challenge),
            expected_rp_id=answer.host,
            expected_origin=answer.origin,
        )
    except Exception as error:
        # Hostile bytes may fail in any of the library's parsers, each with errors of its own.
        raise PasskeyError(f"{type(error).__name__}: {error}") from error
    return PasskeyRow(
        credential_id=bytes_to_base64url(verified.credential_id),
        name=name,
        label=label,
        rp_id=answer.host,
        public_key=bytes_to_base64url(verified.credential_public_key),
        sign_count=verified.sign_count,
        created_at=now,
        used_at=None,
    )


def verified_sign_count(answer: PasskeyResponse, challenge: str | None, passkey: PasskeyRow, name: str) -> int:
    """Verifies that the passkey of this person has signed the challenge; returns its count of signatures.

    Raises:
        PasskeyError: the signature is not valid, or a copy of the passkey was used since.
    """
    from webauthn import base64url_to_bytes, verify_authentication_response

    if passkey.name != name or passkey.rp_id != answer.host:
        raise PasskeyError("it is not one of theirs at this host")
    if challenge is None:
        raise PasskeyError("the challenge was answered before")
    try:
        verified = verify_authentication_response(
            credential=answer.response_json,
            expected_challenge=base64url_to_bytes(challenge),
            expected_rp_id=passkey.rp_id,
            expected_origin=answer.origin,
            credential_public_key=base64url_to_bytes(passkey.public_key),
            credential_current_sign_count=passkey.sign_count,
        )
    except Exception as error:
        # Hostile bytes may fail in any parser, as in `registered`.
        raise PasskeyError(f"{type(error).__name__}: {error}") from error
    return verified.new_sign_count


def _descriptors(known: Sequence[PasskeyRow], host: str) -> "list[PublicKeyCredentialDescriptor]":
    from webauthn import base64url_to_bytes
    from webauthn.helpers.structs import PublicKeyCredentialDescriptor

    return [
        PublicKeyCredentialDescriptor(id=base64url_to_bytes(passkey.credential_id))
        for passkey in known
        if passkey.rp_id == host
    ]
