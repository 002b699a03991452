"""Passwords: generation, hashing by Argon2id a few at a time, and verification with limits on failed sign-ins."""

import secrets
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Final, NamedTuple

from backend.common.errors import ApiError
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.users import rules, sql, tries_sql
from backend.services.users.tries import SignInTries, limits_of
from backend.storage.database import Tx
from backend.storage.tables.users import UserRow
from workflow_api.v1 import errors_pb2

if TYPE_CHECKING:
    from argon2 import PasswordHasher


MAX_CONCURRENT: Final = 2
"""Most concurrent hashings: each takes 64 MiB and, for a tenth of a second, a core or more."""

MAX_CALLERS: Final = 4
"""Most passwords that are verified or wait at once: each holds one of the few threads that all calls need.

A console sends no more than two at a time, and retries refusals for this.
"""

# 32 characters of 5 bits each, without letters that are mistaken for others.
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_GROUPS: Final = 5
_GROUP: Final = 5


def new_password() -> str:
    """Returns a password of 125 random bits, in groups that a person can copy by hand."""
    return "-".join("".join(secrets.choice(_ALPHABET) for _ in range(_GROUP)) for _ in range(_GROUPS))


class Passwords:
    """Hashes and verifies passwords; both take long, so call them within a slot and outside of transactions."""

    def __init__(self) -> None:
        self._slots = BoundedSemaphore(MAX_CONCURRENT)
        self._callers = BoundedSemaphore(MAX_CALLERS)

    @cached_property
    def _hasher(self) -> "PasswordHasher":
        from argon2 import PasswordHasher

        return PasswordHasher()

    @cached_property
    def decoy_hash(self) -> str:
        """Hash of a random password, verified for unknown names so that their refusal takes as long."""
        return self._hasher.hash(secrets.token_urlsafe())

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Waits until few enough passwords are being hashed.

        Raises:
            ApiError: `rate_limited`, too many callers wait already.
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
        """Waits like `slot`, but refuses nobody: for callers who are authenticated."""
        with self._slots:
            yield

    def hash(self, password: str) -> str:
        """Returns the hash of a password, stored in its place."""
        return self._hasher.hash(_normal(password))

    def matches(self, stored_hash: str, password: str) -> bool:
        """Returns whether a stored hash is of this password."""
        from argon2.exceptions import VerifyMismatchError

        try:
            return self._hasher.verify(stored_hash, _normal(password))
        except VerifyMismatchError:
            return False

    def outdated(self, stored_hash: str) -> bool:
        """Returns whether a stored hash was made with other parameters than new ones."""
        return self._hasher.check_needs_rehash(stored_hash)


def _normal(password: str) -> str:
    # Keyboards differ in how they encode the same letter.
    return unicodedata.normalize("NFKC", password)


# Not a valid name of a user.
_NOBODY: Final = "(nobody)"


class VerifiedUser(NamedTuple):
    """User as stored when the password was verified; `fresh_hash` replaces a hash of outdated parameters."""

    row: UserRow
    fresh_hash: str | None

    def matches(self, row: UserRow) -> bool:
        """Returns whether the user is enabled and still has the verified password."""
        return _may_enter(row) and row.password_hash == self.row.password_hash


class PasswordVerifier:
    """Verifies passwords; ten failures in a row of a name from one address lock that pair for a minute.

    Sixty failures in a row of an address lock it, whatever the names. Failures at other addresses have no effect.
    """

    def __init__(self, services: Services, passwords: Passwords) -> None:
        self._services = services
        self._passwords = passwords
        self._tries = SignInTries(services.clock)

    def verify(self, name: str, password: str, actor: str, address: str) -> VerifiedUser | None:
        """Returns the user if the password is right; None if it is wrong, or the user is unknown or disabled.

        The try counts as failed until `SignInTries.forget`.

        Raises:
            ApiError: `rate_limited`, whatever the password is.
        """
        limits = limits_of(name, address)

        def count(tx: Tx) -> tuple[UserRow | None, bool]:
            waits = self._tries.count(tx, limits)
            return sql.get(tx, name), waits

        self._services.database.read(lambda tx: self._tries.refuse_waiting(tx, limits))
        with self._passwords.slot():
            row, waits = self._services.database.write(count, lock_key=sql.LOCK_KEY)
            # The first try of this process makes the decoy, whatever the name.
            decoy = self._passwords.decoy_hash
            stored_hash = decoy if row is None or row.issuer is not None else row.password_hash
            matches = self._passwords.matches(stored_hash, password)
            verified = row if matches and row is not None and _may_enter(row) else None
            fresh = self._passwords.hash(password) if verified and self._passwords.outdated(stored_hash) else None
        if verified:
            return VerifiedUser(verified, fresh)
        details: dict[str, object] = {"address": address} if address else {}
        if row is not None:
            details["waits"] = waits
            if matches:
                details["disabled"] = True
        target = None if row is None else name
        self._services.database.write(lambda tx: self._audit(tx, target, actor, details), lock_key=sql.LOCK_KEY)
        return None

    def _audit(self, tx: Tx, name: str | None, actor: str, details: dict[str, object]) -> None:
        """Records the failures of a name since the last record, at most once a minute and whenever a wait begins.

        Unknown names are counted together and not recorded, because the text may be a password.
        """
        subject = rules.UNKNOWN_NAMES if name is None else rules.name_alone(name)
        before, now = tries_sql.get(tx, subject), self._services.clock()
        tries = 1 if before is None else before.tries + 1
        audited_at = 0 if before is None else before.audited_at
        must_audit = bool(details.get("waits")) or rules.must_audit_refusal(audited_at, now)
        tries_sql.put(
            tx,
            subject,
            tries=0 if must_audit else tries,
            last_at=now,
            waits_until=0,
            audited_at=now if must_audit else audited_at,
        )
        if must_audit:
            details |= {"tries": tries}
            audit.record(
                tx, at=now, actor=actor, action="user.sign_in_refused", target=name or _NOBODY, details=details
            )


def _may_enter(row: UserRow) -> bool:
    """Returns whether a person is enabled and has a password."""
    return row.disabled_at is None and row.issuer is None
