"""What the provider's claims say of a person: the role, the name to show, and whether their e-mail domain may enter."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from backend.settings import IdentityProvider

_NAME_CHARS: Final = 100
_DIGEST_CHARS: Final = 8


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


def name_of(claims: Mapping[str, Any]) -> str:
    """Returns a valid user name made of the claims, to show; it identifies nobody."""
    for claim in ("preferred_username", "email", "name"):
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
    found: Any = claims
    for part in (name,) if name in claims else name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found if isinstance(found, (str, list)) else []
