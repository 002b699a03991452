"""Verifies ID tokens: signature, issuer, audience, times and nonce (OpenID Connect Core 3.1.3.7)."""

import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from joserfc.jwk import Key

# Signatures that only the provider can make: none with a shared secret, which a public key could be passed off as.
ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519",
)  # fmt: skip
LEEWAY_SECONDS: Final = 60

_TOKEN_CHARS: Final = 65_536
_SUBJECT_CHARS: Final = 255
_MOST_KEYS: Final = 50
_SMALLEST_RSA_BITS: Final = 2_048


class TokenError(Exception):
    """An ID token that must not be trusted; the text says why, and quotes nothing of it."""


class UnknownKeyError(TokenError):
    """The token may be signed with a key that is not among those given: the provider may have new ones."""


def keys_of(document: Mapping[str, Any]) -> "list[Key]":
    """Returns the public keys of a JWKS that may verify tokens; those of other kinds and uses are left out."""
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
) -> Mapping[str, Any]:
    """Returns the claims of a token that this issuer made for this client and this sign-in.

    Raises:
        TokenError: it is anything else.
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


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    for name in ("exp", "iat"):
        if not _is_time(claims.get(name)):
            raise TokenError(f"it has no time as {name}")
    if now >= claims["exp"] + LEEWAY_SECONDS:
        raise TokenError("it has expired")
    begins = claims.get("nbf", claims["iat"])
    if not _is_time(begins) or now < max(begins, claims["iat"]) - LEEWAY_SECONDS:
        raise TokenError("it is not valid yet")


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _signed_claims(token: str, keys: "list[Key]") -> Mapping[str, Any]:
    from joserfc import jws, jwt
    from joserfc.errors import BadSignatureError, JoseError

    if len(token) > _TOKEN_CHARS:
        raise TokenError("it is too long")
    # Providers add header parameters of their own; those that must be understood are named by `crit`.
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
        # A token that names no key may be signed with a new one.
        refusal = TokenError if key_id is not None else UnknownKeyError
        raise refusal("its signature is not valid") from error
    except (JoseError, ValueError, TypeError, RecursionError) as error:
        raise TokenError("its signature is not valid") from error
