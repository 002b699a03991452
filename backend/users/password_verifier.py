"""Verifies a name with its password, within limits on failures by name and address."""

from typing import Final, NamedTuple

from backend.audit import sql as audit
from backend.services import Services
from backend.storage.database import Tx
from backend.storage.tables.users import UserRow
from backend.users import rules, sign_in_subjects, sql, tries_sql
from backend.users.passwords import Passwords
from backend.users.tries import SignInTries, limits_of

# Not a valid name of a user.
_NOBODY: Final = "(nobody)"


class VerifiedUser(NamedTuple):
    """User as stored when the password was verified; `fresh_hash` replaces a hash of outdated parameters."""

    row: UserRow
    fresh_hash: str | None

    def holds(self, row: UserRow) -> bool:
        """Returns whether the password is still the same and the user is enabled."""
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
        """Returns the user whose password it is; None if it is not, or if the user is unknown or disabled.

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
            row, waits = self._services.database.write(count, lock_key=sql.OF_USERS)
            # Made by the first try of this process, whatever its name.
            decoy = self._passwords.decoy_hash
            kept = decoy if row is None or row.issuer is not None else row.password_hash
            matches = self._passwords.matches(kept, password)
            verified = row if matches and row is not None and _may_enter(row) else None
            fresh = self._passwords.hash(password) if verified and self._passwords.outdated(kept) else None
        if verified:
            return VerifiedUser(verified, fresh)
        details: dict[str, object] = {"address": address} if address else {}
        if row is not None:
            details["waits"] = waits
            if matches:
                details["disabled"] = True
        target = None if row is None else name
        self._services.database.write(lambda tx: self._audit(tx, target, actor, details), lock_key=sql.OF_USERS)
        return None

    def _audit(self, tx: Tx, name: str | None, actor: str, details: dict[str, object]) -> None:
        """Records at most once a minute how many failed for a name since, and whenever a wait begins.

        Unknown names are counted together and not recorded, because the text may be a password.
        """
        subject = sign_in_subjects.UNKNOWN_NAMES if name is None else sign_in_subjects.name_alone(name)
        before, now = tries_sql.get(tx, subject), self._services.clock()
        tries = 1 if before is None else before.tries + 1
        audited_at = 0 if before is None else before.audited_at
        news = bool(details.get("waits")) or rules.must_audit_refusal(audited_at, now)
        tries_sql.put(
            tx,
            subject,
            tries=0 if news else tries,
            last_at=now,
            waits_until=0,
            audited_at=now if news else audited_at,
        )
        if news:
            details |= {"tries": tries}
            audit.record(
                tx, at=now, actor=actor, action="user.sign_in_refused", target=name or _NOBODY, details=details
            )


def _may_enter(row: UserRow) -> bool:
    """Returns whether a person is enabled, and one of those who have a password."""
    return row.disabled_at is None and row.issuer is None
