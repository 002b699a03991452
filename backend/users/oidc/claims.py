"""What the provider's claims say of a person: the role, the name to show, and whether their e-mail domain may enter."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from backend.settings import IdentityProvider

_NAME_CHARS: Final = 100
_DIGEST_CHARS: Final = 8
_NAMES_IN_ORDER: Final = ("preferred_username", "email", "name")
_NAMES: Final = frozenset(_NAMES_IN_ORDER)
_EMAIL: Final = frozenset({"email", "email_verified"})


def role_of(claims: Mapping[str, Any], provider: IdentityProvider) -> str | None:
    """Returns the role of the first entry of the settings that the claim has; None for no entry at all."""
    claim = _claim(claims, provider.role_claim)
    values = {claim} if isinstance(claim, str) else {value for value in claim if isinstance(value, str)}
    return next((role for value, role in provider.roles.items() if value in values), None)


def has_allowed_domain(claims: Mapping[str, Any], provider: IdentityProvider) -> bool:
    """Returns whether the settings let the person's e-mail domain in; an unverified address has none."""
    if not provider.email_domains:
        return True
    email = claims.get("email")
    if not isinstance(email, str) or claims.get("email_verified") is not True:
        return False
    return email.rpartition("@")[2].lower() in provider.email_domains


def lacks_claims(claims: Mapping[str, Any], provider: IdentityProvider) -> bool:
    """Returns whether an ID token leaves something to the UserInfo endpoint: groups, e-mail address or name."""
    return (
        not _has_claim(claims, provider.role_claim)
        or (bool(provider.email_domains) and not claims.keys() >= _EMAIL)
        or not claims.keys() & _NAMES
    )


def completed(claims: Mapping[str, Any], user_info: Mapping[str, Any], provider: IdentityProvider) -> Mapping[str, Any]:
    """Returns the claims of an ID token with those of the same person's UserInfo that it lacks."""
    found = {name: user_info[name] for name in _NAMES & user_info.keys()} | dict(claims)
    if not claims.keys() >= _EMAIL:
        # Whether an address is verified belongs to that address.
        found |= {"email": user_info.get("email"), "email_verified": user_info.get("email_verified")}
    if not _has_claim(claims, provider.role_claim):
        whole = provider.role_claim if provider.role_claim in user_info else provider.role_claim.partition(".")[0]
        found[whole] = user_info.get(whole)
    return found


def name_of(claims: Mapping[str, Any]) -> str:
    """Returns a valid user name made of the claims, to show; it identifies nobody."""
    for claim in _NAMES_IN_ORDER:
        given = claims.get(claim)
        if isinstance(given, str):
            name = re.sub(r"[^a-z0-9._@-]+", "-", given.lower()).lstrip("._@-").rstrip("-")[:_NAME_CHARS]
            if name:
                return name
    return "person"


def distinct_name(name: str, issuer: str, subject: str) -> str:
    """Returns the name with a digest of the identity, for a person whose name another person has already."""
    digest = hashlib.sha256(f"{issuer}\0{subject}".encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{name[: _NAME_CHARS - _DIGEST_CHARS - 1]}-{digest}"


def _claim(claims: Mapping[str, Any], name: str) -> str | list[Any]:
    """Returns a claim by its name, or by a path with dots into objects; an empty list where there is none."""
    found = _found(claims, name)
    return found if isinstance(found, (str, list)) else []


def _has_claim(claims: Mapping[str, Any], name: str) -> bool:
    return _found(claims, name) is not None


def _found(claims: Mapping[str, Any], name: str) -> Any:
    found: Any = claims
    for part in (name,) if name in claims else name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
