"""SQL that bounds the waits of messages, whose times a clock that was ahead may have set."""

from typing import Final

from sqlalchemy import BigInteger, bindparam, case, cast, literal_column, select, update

from backend.services.webhooks.attempts import BACK_OFF_MS, JITTER
from backend.storage.database import Tx
from backend.storage.statements import Command, ScalarQuery
from backend.storage.tables.webhooks import webhook_deliveries, webhooks

LONGEST_CLAIM_MS: Final = 60_000
"""Longest time of a claim, for any `webhooks.timeout_seconds`."""

_LONGEST_PAUSES_MS: Final = tuple(pause + round(pause * JITTER) for pause in BACK_OFF_MS)

_AT = cast(bindparam("at_ms"), BigInteger)
_ROW: Final = webhook_deliveries.c
# Before the first attempt there is no pause.
_LONGEST_WAIT = case(
    (_ROW.claim.is_not(None), literal_column(str(LONGEST_CLAIM_MS))),
    *(
        (_ROW.attempts == literal_column(str(attempts)), literal_column(str(longest)))
        for attempts, longest in enumerate((0, *_LONGEST_PAUSES_MS))
    ),
    else_=literal_column("0"),
)
_WAITS_TOO_LONG: Final = (
    _ROW.webhook_id.in_(select(webhooks.c.webhook_id).where(webhooks.c.paused_at.is_(None))),
    # The condition of the partial index, and a range of it.
    _ROW.due_at.is_not(None),
    _ROW.due_at > _AT,
    _ROW.due_at > _AT + _LONGEST_WAIT,
    _ROW.state == literal_column("'pending'"),
)
_ANY = ScalarQuery[int](select(literal_column("1")).select_from(webhook_deliveries).where(*_WAITS_TOO_LONG).limit(1))
_BOUND = Command(update(webhook_deliveries).where(*_WAITS_TOO_LONG).values(due_at=_AT + _LONGEST_WAIT))


def any_waits_too_long(tx: Tx, at: int) -> bool:
    """Returns whether a message to an active webhook is due later than its schedule allows."""
    return tx.scalar(_ANY, at_ms=at) is not None


def bound_waits(tx: Tx, at: int) -> None:
    """Shortens each too long wait to the longest pause before its next attempt."""
    tx.enqueue(_BOUND, at_ms=at)
