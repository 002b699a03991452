"""ID tokens: verification of signature, issuer, audience, times and nonce, and claims about a person.

The checks follow OpenID Connect Core 3.1.3.7.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeGuard

from backend.common.json_text import JsonMapping
from backend.settings import IdentityProvider

if TYPE_CHECKING:
    from joserfc.jwk import Key


Claims = Mapping[str, object]
"""Claims by name, as the provider states them: any JSON."""

_NAME_CHARS: Final = 100
_DIGEST_CHARS: Final = 8
_NAMES_IN_ORDER: Final = ("preferred_username", "email", "name")
_NAMES: Final = frozenset(_NAMES_IN_ORDER)
_EMAIL: Final = frozenset({"email", "email_verified"})


def role_of(claims: Claims, provider: IdentityProvider) -> str | None:
    """Returns the role of the first entry of the settings whose value the claim contains; None if it contains none."""
    claim = _claim(claims, provider.role_claim)
    values = {claim} if isinstance(claim, str) else {value for value in claim if isinstance(value, str)}
    return next((role for value, role in provider.roles.items() if value in values), None)


def has_allowed_domain(claims: Claims, provider: IdentityProvider) -> bool:
    """Returns whether the settings allow the person's e-mail domain; an unverified address has no domain."""
    if not provider.email_domains:
        return True
    email = claims.get("email")
    if not isinstance(email, str) or claims.get("email_verified") is not True:
        return False
    return email.rpartition("@")[2].lower() in provider.email_domains


def lacks_claims(claims: Claims, provider: IdentityProvider) -> bool:
    """Returns whether an ID token lacks claims that UserInfo may have: groups, e-mail address or name."""
    return (
        not _has_claim(claims, provider.role_claim)
        or (bool(provider.email_domains) and not claims.keys() >= _EMAIL)
        or not claims.keys() & _NAMES
    )


def add_user_info(claims: Claims, user_info: Claims, provider: IdentityProvider) -> Claims:
    """Adds to the claims of an ID token the claims that only the person's UserInfo has."""
    found = {name: user_info[name] for name in _NAMES & user_info.keys()} | dict(claims)
    if not claims.keys() >= _EMAIL:
        # `email_verified` must come from the source of the address.
        found |= {"email": user_info.get("email"), "email_verified": user_info.get("email_verified")}
    if not _has_claim(claims, provider.role_claim):
        whole = provider.role_claim if provider.role_claim in user_info else provider.role_claim.partition(".")[0]
        found[whole] = user_info.get(whole)
    return found


def name_of(claims: Claims) -> str:
    """Returns a valid user name made from the claims, for display only."""
    for claim in _NAMES_IN_ORDER:
        given = claims.get(claim)
        if isinstance(given, str):
            name = re.sub(r"[^a-z0-9._@-]+", "-", given.lower()).lstrip("._@-").rstrip("-")[:_NAME_CHARS]
            if name:
                return name
    return "person"


def distinct_name(name: str, issuer: str, subject: str) -> str:
    """Returns the name with a digest of the identity, for a person whose name is taken."""
    digest = hashlib.sha256(f"{issuer}\0{subject}".encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: _NAME_CHARS - _DIGEST_CHARS - 1]}-{digest}"


def _claim(claims: Claims, name: str) -> str | list[object]:
    """Returns a claim by its name, or by a path with dots into objects; an empty list if there is none."""
    found = _found(claims, name)
    return found if isinstance(found, (str, list)) else []


def _has_claim(claims: Claims, name: str) -> bool:
    return _found(claims, name) is not None


def _found(claims: Claims, name: str) -> object:
    found: object = claims
    for part in (name,) if name in claims else name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


# Signatures that only the provider can make. No HMAC: an attacker could pass a public key off as its shared secret.
ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519",
)  # fmt: skip
LEEWAY_SECONDS: Final = 60

_TOKEN_CHARS: Final = 65_536
_SUBJECT_CHARS: Final = 255
_MOST_KEYS: Final = 50
_SMALLEST_RSA_BITS: Final = 2_048


class TokenError(Exception):
    """An ID token must not be trusted; the text says why, without quoting the token."""


class UnknownKeyError(TokenError):
    """The token may be signed with a new key of the provider, which is not among the given keys."""


def keys_of(document: JsonMapping) -> "list[Key]":
    """Returns the public keys of a JWKS that may verify tokens, without keys of other kinds and uses."""
    from joserfc.errors import JoseError
    from joserfc.jwk import JWKRegistry, RSAKey

    entries = document.get("keys")
    keys: list[Key] = []
    for entry in entries[:_MOST_KEYS] if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or entry.get("kty") not in {"RSA", "EC", "OKP"}:
            continue
        if entry.get("use", "sig") != "sig":
            continue
        try:
            key = JWKRegistry.import_key(entry)
            if isinstance(key, RSAKey) and key.public_key.key_size < _SMALLEST_RSA_BITS:
                continue
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        keys.append(key)
    return keys


def verified_claims(
    token: str, keys: "list[Key]", *, issuer: str, client_id: str, nonce: str, now_seconds: float
) -> Claims:
    """Returns the claims of a token that this issuer made for this client and this sign-in.

    Raises:
        TokenError: a check failed.
    """
    claims = _signed_claims(token, keys)
    if claims.get("iss") != issuer:
        raise TokenError("it is of another issuer")
    audience = claims.get("aud")
    if audience not in (client_id, [client_id]):
        raise TokenError("it is not for this client alone")
    if claims.get("azp", client_id) != client_id:
        raise TokenError("it was given to another client")
    _check_times(claims, now_seconds)
    given = claims.get("nonce")
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
        raise TokenError("it is of another sign-in")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _SUBJECT_CHARS:
        raise TokenError("it names nobody")
    return claims


def _check_times(claims: Claims, now: float) -> None:
    expires, issued = claims.get("exp"), claims.get("iat")
    if not _is_time(expires):
        raise TokenError("it has no time as exp")
    if not _is_time(issued):
        raise TokenError("it has no time as iat")
    if now >= expires + LEEWAY_SECONDS:
        raise TokenError("it has expired")
    begins = claims.get("nbf", issued)
    if not _is_time(begins) or now < max(begins, issued) - LEEWAY_SECONDS:
        raise TokenError("it is not valid yet")


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _signed_claims(token: str, keys: "list[Key]") -> Claims:
    from joserfc import jws, jwt
    from joserfc.errors import BadSignatureError, JoseError

    if len(token) > _TOKEN_CHARS:
        raise TokenError("it is too long")
    # Providers add header parameters of their own; `crit` names those that must be understood.
    registry = jws.JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
    key_id: str | None = None
    try:
        header = jws.extract_compact(token.encode(), registry=registry).headers()
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenError("its signature is not of a kind that is accepted")
        fitting = [
            key for key in keys if key.get("alg") in {None, algorithm} and (key_id is None or key.get("kid") == key_id)
        ]
        if not fitting:
            raise UnknownKeyError("it is signed with an unknown key")
        for key in fitting[:-1]:
            try:
                return jwt.decode(token, key, algorithms=ALGORITHMS, registry=registry).claims
            except JoseError:
                continue
        return jwt.decode(token, fitting[-1], algorithms=ALGORITHMS, registry=registry).claims
    except BadSignatureError as error:
        # A token that names no key may be signed with a new key.
        refusal = TokenError if key_id is not None else UnknownKeyError
        raise refusal("its signature is not valid") from error
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise TokenError("its signature is not valid") from error
