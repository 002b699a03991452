"""Generation of passwords, and their hashing and verification with Argon2id, a few at a time."""

import secrets
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Final

from backend.errors import ApiError
from workflow_api.v1 import errors_pb2

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MAX_CONCURRENT: Final = 2
"""Each takes 64 MiB and, for a tenth of a second, a core or more."""

MAX_CALLERS: Final = 4
"""How many may be verified or wait: each holds one of the few threads that everything else needs as well.

A console sends no more than two at a time, and retries what is refused for this.
"""

# Without the letters that are mistaken for others: 32 of them, 5 bits each.
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_GROUPS: Final = 5
_GROUP: Final = 5


def new_password() -> str:
    """Returns a password of 125 random bits, in groups that a person can copy by hand."""
    return "-".join("".join(secrets.choice(_ALPHABET) for _ in range(_GROUP)) for _ in range(_GROUPS))


class Passwords:
    """Hashes and verifies passwords; call it within a slot and outside of transactions, because it takes long."""

    def __init__(self) -> None:
        self._slots = BoundedSemaphore(MAX_CONCURRENT)
        self._callers = BoundedSemaphore(MAX_CALLERS)

    @cached_property
    def _hasher(self) -> "PasswordHasher":
        from argon2 import PasswordHasher

        return PasswordHasher()

    @cached_property
    def decoy_hash(self) -> str:
        """Hash of a random password, verified for unknown names so that they cost the same."""
        return self._hasher.hash(secrets.token_urlsafe())

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Waits until few enough passwords are being hashed.

        Raises:
            ApiError: `rate_limited`, too many wait already.
        """
        if not self._callers.acquire(blocking=False):
            raise ApiError(
                errors_pb2.ERROR_REASON_RATE_LIMITED, "Too many passwords are being checked; try again.", retry_after=1
            )
        try:
            with self._slots:
                yield
        finally:
            self._callers.release()

    @contextmanager
    def slot_of_authenticated(self) -> Iterator[None]:
        """Waits like `slot`, for callers who are authenticated: none is refused."""
        with self._slots:
            yield

    def hash(self, password: str) -> str:
        """Returns the hash of a password, which is what is stored."""
        return self._hasher.hash(_normal(password))

    def matches(self, kept: str, password: str) -> bool:
        """Returns whether a stored hash is of this password."""
        from argon2.exceptions import VerifyMismatchError

        try:
            return self._hasher.verify(kept, _normal(password))
        except VerifyMismatchError:
            return False

    def outdated(self, kept: str) -> bool:
        """Returns whether a stored hash was made with other parameters than new ones."""
        return self._hasher.check_needs_rehash(kept)


def _normal(password: str) -> str:
    # Keyboards differ in how they encode the same letter.
    return unicodedata.normalize("NFKC", password)
