"""Advisory locks: what a change must not run beside, and the names that one holder has at a time."""

import hashlib
from typing import Final

from sqlalchemy import ColumnElement, literal_column

_SETTING: Final = "workflow_api.locks"

# For the rest of the transaction; `has_locks` reads it.
_SET_RESULT: Final = f"SELECT set_config('{_SETTING}', CASE WHEN {{}} THEN 'held' ELSE 'claimed' END, true)"


def lock_number(name: str) -> int:
    """Returns the advisory lock of a name."""
    return int.from_bytes(hashlib.sha256(f"workflow-api {name}".encode()).digest()[:8], signed=True)


_EVERYTHING: Final = lock_number("everything")


def take_locks(lock_key: str | None, claim: str | None) -> tuple[str, list[int]]:
    """Returns a query, and its arguments, that waits for the locks; it gives false if another one has the claim."""
    locks, numbers = _locks(lock_key, claim)
    return f"SELECT {locks}", numbers


def take_locks_for_next(lock_key: str, claim: str) -> tuple[str, list[int]]:
    """Returns a query as `take_locks`, for a statement in the same transaction that begins with `has_locks`.

    It gives 'held', or 'claimed' if another transaction has the claim.
    """
    locks, numbers = _locks(lock_key, claim)
    return _SET_RESULT.format(locks), numbers


def has_locks() -> ColumnElement[bool]:
    """Returns the condition that `take_locks_for_next` got the locks."""
    return literal_column(f"current_setting('{_SETTING}', true) = 'held'")


def _locks(lock_key: str | None, claim: str | None) -> tuple[str, list[int]]:
    """An expression that takes the locks, and is false if another transaction has the claim; and its arguments."""
    if lock_key is None:
        locks, numbers = "pg_advisory_xact_lock($1::bigint) IS NOT NULL", [_EVERYTHING]
    else:
        shared = "pg_advisory_xact_lock_shared($1::bigint) IS NOT NULL"
        locks = f"{shared} AND pg_advisory_xact_lock($2::bigint) IS NOT NULL"
        numbers = [_EVERYTHING, lock_number(lock_key)]
    if claim is not None:
        numbers.append(lock_number(claim))
        locks = f"CASE WHEN pg_try_advisory_xact_lock(${len(numbers)}::bigint) THEN {locks} ELSE false END"
    return locks, numbers
