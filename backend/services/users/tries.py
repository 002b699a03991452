"""Counts tries to sign in by name and address, and refuses further ones after too many failures."""

from collections.abc import Mapping

from backend.common.clock import Clock
from backend.common.errors import ApiError
from backend.services.users import rules, tries_sql
from backend.storage.database import Tx
from workflow_api.v1 import errors_pb2

Limits = Mapping[str, rules.Limit]
"""Limits by subject, the key under which tries are counted: a name at an address, or an address."""


def limits_of(name: str, address: str) -> Limits:
    """Returns the limits of a try with a name from an address, by subject."""
    subject = rules.name_and_address(name, address)
    return {subject: rules.NAME_AND_ADDRESS_LIMIT, **limits_of_address(address)}


def limits_of_address(address: str) -> Limits:
    """Returns the limit of a try from an address without a name, by subject."""
    return {rules.address_alone(address): rules.ADDRESS_LIMIT}


class SignInTries:
    """Counter of tries, in the caller's transaction. A try counts as failed until it is withdrawn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def refuse_waiting(self, tx: Tx, limits: Limits) -> None:
        """Raises ApiError `rate_limited` if a subject has to wait."""
        rows = [row for subject in limits if (row := tries_sql.get(tx, subject)) is not None]
        seconds = max((rules.seconds_to_wait(row.waits_until, self._clock()) for row in rows), default=0)
        if seconds:
            raise ApiError(
                errors_pb2.ERROR_REASON_RATE_LIMITED,
                f"Too many sign-ins have failed: wait for {seconds} seconds.",
                retry_after=seconds,
            )

    def count(self, tx: Tx, limits: Limits) -> bool:
        """Counts one more try; returns whether a subject must wait now.

        Raises:
            ApiError: `rate_limited`.
        """
        self.refuse_waiting(tx, limits)
        now, waits = self._clock(), False
        for subject, limit in limits.items():
            counted = rules.next_try(tries_sql.get(tx, subject), now, limit)
            tries_sql.put(tx, subject, **counted._asdict(), last_at=now, audited_at=0)
            waits = waits or bool(counted.waits_until)
        return waits

    @staticmethod
    def forget(tx: Tx, name: str, address: str, *, tries: int = 1) -> None:
        """Clears the failures of a name after it signed in, and takes `tries` off the count of its address."""
        tries_sql.forget(tx, rules.name_and_address(name, address))
        tries_sql.forget(tx, rules.name_alone(name))
        for _ in range(tries):
            SignInTries.withdraw(tx, address)

    @staticmethod
    def withdraw(tx: Tx, address: str) -> None:
        """Withdraws one try from an address's count."""
        subject = rules.address_alone(address)
        row = tries_sql.get(tx, subject)
        left = rules.try_withdrawn(row, rules.ADDRESS_LIMIT)
        if row is None or left is None:
            tries_sql.forget(tx, subject)
        else:
            tries_sql.put(tx, subject, **left._asdict(), last_at=row.last_at, audited_at=0)
