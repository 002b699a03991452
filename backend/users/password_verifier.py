"""Verifies a name with its password, within limits on failures by name and address."""

from typing import Final, NamedTuple

from backend.audit import sql as audit
from backend.errors import ApiError
from backend.services import Services
from backend.storage.database import Tx
from backend.storage.tables.users import UserRow
from backend.users import rules, sign_in_subjects, sql, tries_sql
from backend.users.passwords import Passwords
from workflow_api.v1 import errors_pb2

# Not a valid name of a user.
_NOBODY: Final = "(nobody)"


class VerifiedUser(NamedTuple):
    """User as stored when the password was verified; `fresh_hash` replaces a hash of outdated parameters."""

    row: UserRow
    fresh_hash: str | None

    def holds(self, row: UserRow) -> bool:
        """Returns whether the password is still the same and the user is enabled."""
        return row.disabled_at is None and row.password_hash == self.row.password_hash


class PasswordVerifier:
    """Verifies passwords; ten failures in a row of a name from one address lock that pair for a minute.

    Sixty failures in a row of an address lock it, whatever the names. Failures at other addresses have no effect.
    """

    def __init__(self, services: Services, passwords: Passwords) -> None:
        self._services = services
        self._passwords = passwords

    def verify(self, name: str, password: str, actor: str, address: str) -> VerifiedUser | None:
        """Returns the user whose password it is; None if it is not, or if the user is unknown or disabled.

        The try counts as failed until `forget`.

        Raises:
            ApiError: `rate_limited`, whatever the password is.
        """
        limits = _limits(name, address)
        self._services.database.read(lambda tx: self._refuse_waiting(tx, limits))
        with self._passwords.slot():
            row, waits = self._services.database.write(lambda tx: self._count(tx, name, limits), lock_key=sql.OF_USERS)
            # Made by the first try of this process, whatever its name.
            decoy = self._passwords.decoy_hash
            kept = decoy if row is None else row.password_hash
            matches = self._passwords.matches(kept, password)
            verified = row if matches and row is not None and row.disabled_at is None else None
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

    @staticmethod
    def forget(tx: Tx, name: str, address: str) -> None:
        """Withdraws the failures of a name from an address, and from the address's count the try that succeeded."""
        tries_sql.forget(tx, sign_in_subjects.name_and_address(name, address))
        tries_sql.forget(tx, sign_in_subjects.name_alone(name))
        subject = sign_in_subjects.address_alone(address)
        row = tries_sql.get(tx, subject)
        left = rules.try_withdrawn(row, rules.ADDRESS_LIMIT)
        if row is None or left is None:
            tries_sql.forget(tx, subject)
        else:
            tries_sql.put(tx, subject, **left._asdict(), last_at=row.last_at, audited_at=0)

    def _refuse_waiting(self, tx: Tx, limits: dict[str, rules.Limit]) -> None:
        rows = [row for subject in limits if (row := tries_sql.get(tx, subject)) is not None]
        seconds = max((rules.seconds_to_wait(row.waits_until, self._services.clock()) for row in rows), default=0)
        if seconds:
            raise ApiError(
                errors_pb2.ERROR_REASON_RATE_LIMITED,
                f"Too many sign-ins have failed: wait for {seconds} seconds.",
                retry_after=seconds,
            )

    def _count(self, tx: Tx, name: str, limits: dict[str, rules.Limit]) -> tuple[UserRow | None, bool]:
        """Counts one more try; returns the user's row, and whether the name or the address must wait now."""
        self._refuse_waiting(tx, limits)
        now, waits = self._services.clock(), False
        for subject, limit in limits.items():
            counted = rules.next_try(tries_sql.get(tx, subject), now, limit)
            tries_sql.put(tx, subject, **counted._asdict(), last_at=now, audited_at=0)
            waits = waits or bool(counted.waits_until)
        return sql.get(tx, name), waits

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


def _limits(name: str, address: str) -> dict[str, rules.Limit]:
    return {
        sign_in_subjects.name_and_address(name, address): rules.NAME_AND_ADDRESS_LIMIT,
        sign_in_subjects.address_alone(address): rules.ADDRESS_LIMIT,
    }
