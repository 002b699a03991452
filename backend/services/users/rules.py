"""Rules of users: life of sessions, limits of failed sign-ins, recovery codes, and digests of stored secrets."""

import hashlib
import secrets
from typing import Final, NamedTuple

from backend.common.clock import DAY_MS, HOUR_MS, is_due, is_recent
from backend.services.users.sql import SessionRow
from backend.storage.tables.users import TriesRow
from contract.addresses import network_of

SESSION_MS: Final = 12 * HOUR_MS
MAX_SESSIONS: Final = 20

WAIT_MS: Final = 60_000
TRIES_KEPT_MS: Final = DAY_MS


class Limit(NamedTuple):
    """Failed sign-ins in a row that lock a subject, and the milliseconds without one that reset the count."""

    most: int
    reset_ms: int


NAME_AND_ADDRESS_LIMIT: Final = Limit(10, TRIES_KEPT_MS)
ADDRESS_LIMIT: Final = Limit(60, WAIT_MS)
"""Limit of all names from one address, which could otherwise try every name ten times a minute."""


_IDLE_MS: Final = HOUR_MS
_USE_RECORDED_MS: Final = 60_000
_REFUSAL_AUDITED_MS: Final = 60_000
_CLOCKS_APART_MS: Final = 5_000
"""More than the clocks of two processes differ."""


class Try(NamedTuple):
    """Number of tries to sign in in a row, and the time until which further tries are refused, 0 for none.

    A try counts as failed until it has succeeded, so concurrent tries gain nothing over successive ones.
    """

    tries: int
    waits_until: int


def new_token() -> str:
    """Returns a session token: 43 characters, 256 random bits."""
    return secrets.token_urlsafe(32)


def sha256_hex(value: str) -> str:
    """Returns the digest of a token, stored in its place."""
    return hashlib.sha256(value.encode()).hexdigest()


def is_session_valid(session: SessionRow, now: int) -> bool:
    """Returns whether a session, read with `disabled_at` of its user, can still be used."""
    return (
        session.disabled_at is None
        and is_recent(session.created_at, now, SESSION_MS)
        # A use in the future is corrected with the next one: `must_record_use`.
        and now < session.used_at + _IDLE_MS
    )


def must_record_use(used_at: int, now: int) -> bool:
    """Returns whether a session's use must be written: at most once a minute."""
    return not is_recent(used_at, now, _USE_RECORDED_MS)


def seconds_to_wait(waits_until: int, now: int) -> int:
    """Returns the seconds for which further tries are refused."""
    if is_due(waits_until, now, WAIT_MS + _CLOCKS_APART_MS):
        return 0
    return -((now - waits_until) // 1000)


def next_try(before: TriesRow | None, now: int, limit: Limit) -> Try:
    """Returns the count after one more try; `before` is the row of the tries so far, None for no tries."""
    if before is None or before.tries >= limit.most or not is_recent(before.last_at, now, limit.reset_ms):
        tries = 1
    else:
        tries = before.tries + 1
    return Try(tries, now + WAIT_MS if tries >= limit.most else 0)


def try_withdrawn(row: TriesRow | None, limit: Limit) -> Try | None:
    """Returns the count of `row` without one successful try; None if none is left."""
    if row is None or row.tries <= 1:
        return None
    return Try(row.tries - 1, 0 if row.tries >= limit.most else row.waits_until)


def must_audit_refusal(audited_at: int, now: int) -> bool:
    """Returns whether a refused sign-in must be audited; unauthenticated callers must not fill the trail."""
    return not is_recent(audited_at, now, _REFUSAL_AUDITED_MS)


UNKNOWN_NAMES: Final = ""
"""Key of all names that no user has, counted together for the audit trail."""


def name_and_address(name: str, address: str) -> str:
    """Returns the key of a name tried from an address."""
    return _digest("name and address", network_of(address), name)


def address_alone(address: str) -> str:
    """Returns the key of an address, for all names tried from it."""
    return _digest("address", network_of(address))


def name_alone(name: str) -> str:
    """Returns the key of a name, for all addresses that it was tried from."""
    return _digest("name", name)


def _digest(*parts: str) -> str:
    # A password may have been typed as a name, so only digests are stored.
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


CODES: Final = 10

# Without letters that are mistaken for others: 5 bits each, 80 bits in a code.
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
    """Returns the stored digest of a code, which ignores case, hyphens and blanks."""
    return sha256_hex("".join(letter for letter in code.lower() if letter.isalnum()))
