"""Recovery codes: each stands in for a passkey once."""

import secrets
from typing import Final

from backend.users.rules import sha256_hex

CODES: Final = 10

# Without the letters that are mistaken for others: 5 bits each, 80 in a code.
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_GROUPS: Final = 4
_GROUP: Final = 4


def new_codes() -> list[str]:
    """Returns new codes, in groups that a person can copy by hand."""
    return [
        "-".join("".join(secrets.choice(_ALPHABET) for _ in range(_GROUP)) for _ in range(_GROUPS))
        for _ in range(CODES)
    ]


def digest_of(code: str) -> str:
    """Returns what is stored of a code; it is the same in any case, with other hyphens and blanks."""
    return sha256_hex("".join(letter for letter in code.lower() if letter.isalnum()))
