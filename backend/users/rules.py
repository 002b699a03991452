"""How long sessions and waits last, and what is kept of the secrets that stand for people."""

import hashlib
import secrets
from typing import Final, NamedTuple

from backend.clock import DAY_MS, HOUR_MS
from backend.storage.tables.users import TriesRow
from backend.users.sql import SessionRow

SESSION_MS: Final = 12 * HOUR_MS
MOST_SESSIONS: Final = 20

WAIT_MS: Final = 60_000
TRIES_KEPT_MS: Final = DAY_MS


class Limit(NamedTuple):
    """How many failed sign-ins in a row begin a wait, and after how many ms without one they count from 1 again."""

    most: int
    forgotten_ms: int


NAME_AND_ADDRESS_LIMIT: Final = Limit(10, TRIES_KEPT_MS)
ADDRESS_LIMIT: Final = Limit(60, WAIT_MS)
"""Of all names together, so that one address cannot try every name ten times a minute."""


_IDLE_MS: Final = HOUR_MS
_USE_NOTED_MS: Final = 60_000
_REFUSAL_AUDITED_MS: Final = 60_000


class Try(NamedTuple):
    """One more try to sign in: how many there were in a row, and until when there is no other; 0 for none.

    It counts as failed until it has succeeded: tries at the same time are no more than tries one after the other.
    """

    tries: int
    waits_until: int


def new_token() -> str:
    """A session's token: 43 characters, 256 bits of chance."""
    return secrets.token_urlsafe(32)


def sha256_hex(value: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(value.encode()).hexdigest()


def session_lasts(session: SessionRow, now: int) -> bool:
    """Whether a session, read with `disabled_at` of its person, can still be used."""
    return session.disabled_at is None and now < min(session.created_at + SESSION_MS, session.used_at + _IDLE_MS)


def use_is_news(used_at: int, now: int) -> bool:
    """Whether a session's use is to be written: at most once a minute."""
    return now - used_at >= _USE_NOTED_MS


def seconds_to_wait(waits_until: int, now: int) -> int:
    """How long after too many tries there is still no other."""
    return max(0, -((now - waits_until) // 1000))


def next_try(before: TriesRow | None, now: int, limit: Limit) -> Try:
    """One more try, after those of the row `before`, which is None where there are none."""
    if before is None or before.tries >= limit.most or now - before.last_at >= limit.forgotten_ms:
        tries = 1
    else:
        tries = before.tries + 1
    return Try(tries, now + WAIT_MS if tries >= limit.most else 0)


def try_withdrawn(row: TriesRow | None, limit: Limit) -> Try | None:
    """What is left of the tries of `row` when one of them succeeded; None for none."""
    if row is None or row.tries <= 1:
        return None
    return Try(row.tries - 1, 0 if row.tries >= limit.most else row.waits_until)


def refusal_is_news(audited_at: int, now: int) -> bool:
    """Whether a refused sign-in is to be audited: strangers must not fill the trail."""
    return now - audited_at >= _REFUSAL_AUDITED_MS
