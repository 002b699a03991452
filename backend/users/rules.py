"""How long sessions and waits last, and what is kept of the secrets that stand for people."""

import hashlib
import secrets
from typing import Any, Final, NamedTuple

from backend.clock import DAY_MS, HOUR_MS

SESSION_MS: Final = 12 * HOUR_MS
MOST_SESSIONS: Final = 20

MOST_TRIES: Final = 10
WAIT_MS: Final = 60_000
TRIES_KEPT_MS: Final = DAY_MS

_IDLE_MS: Final = HOUR_MS
_USE_NOTED_MS: Final = 60_000
_REFUSAL_AUDITED_MS: Final = 60_000


class Try(NamedTuple):
    """One more try to sign in with a name: how many there were in a row, and until when there is no other; 0 for none.

    It counts as failed until it has succeeded: tries at the same time are no more than tries one after the other.
    """

    tries: int
    waits_until: int


def new_token() -> str:
    """A session's token: 43 characters, 256 bits of chance."""
    return secrets.token_urlsafe(32)


def sha256_hex(value: str) -> str:
    """What is kept of a token, and of a name that somebody tried."""
    return hashlib.sha256(value.encode()).hexdigest()


def session_lasts(session: Any, now: int) -> bool:
    """Whether a session, read with `disabled_at` of its person, can still be used."""
    return session.disabled_at is None and now < min(session.created_at + SESSION_MS, session.used_at + _IDLE_MS)


def use_is_news(used_at: int, now: int) -> bool:
    """Whether a session's use is to be written: at most once a minute."""
    return now - used_at >= _USE_NOTED_MS


def seconds_to_wait(waits_until: int, now: int) -> int:
    """How long a name that had too many tries still waits."""
    return max(0, -((now - waits_until) // 1000))


def next_try(before: Any, now: int) -> Try:
    """One more try, after those of the row `before`, which is None for a name without any."""
    tries = 1 if before is None or before.tries >= MOST_TRIES else before.tries + 1
    return Try(tries, now + WAIT_MS if tries >= MOST_TRIES else 0)


def refusal_is_news(audited_at: int, now: int) -> bool:
    """Whether a refused sign-in is to be audited: strangers must not fill the trail."""
    return now - audited_at >= _REFUSAL_AUDITED_MS
