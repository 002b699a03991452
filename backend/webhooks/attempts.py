"""What follows from an attempt: the end of a message, a later attempt, or the pause of a webhook that is dead."""

import logging
import random
from collections.abc import Sequence
from typing import Final

from backend import metrics
from backend.audit import sql as audit
from backend.clock import HOUR_MS
from backend.storage.database import Tx
from backend.webhooks import delivery_sql
from backend.webhooks.delivery_sql import ClaimedRow
from backend.webhooks.events import DeliveryState, PausedReason
from backend.webhooks.outcome import Outcome

_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60_000
_GONE: Final = 410
ACTOR: Final = "system"

BACK_OFF_MS: Final[Sequence[int]] = (
    5 * _SECOND_MS,
    _MINUTE_MS,
    5 * _MINUTE_MS,
    15 * _MINUTE_MS,
    40 * _MINUTE_MS,
    *(hours * HOUR_MS for hours in (1, 2, 4, 8, 12, 20, 24)),
)
"""The time before each further attempt, 72 hours together; up to a tenth is added, so that they spread."""
JITTER: Final = 0.1

# A little less than all of it, as an attempt takes time.
_DEAD_MS: Final = sum(BACK_OFF_MS) - HOUR_MS

_LOG = logging.getLogger(__name__)


def settle(tx: Tx, row: ClaimedRow, claim_id: str, outcome: Outcome, at: int) -> None:
    """Records what came of an attempt, under the lock of the run; does nothing where the claim has lapsed.

    A webhook at which every attempt failed, from the first of a message to its last, is dead: it is paused, and the
    message waits until it is resumed, as it does where the receiver answers that it is gone for good.
    """
    if outcome.error is None:
        if delivery_sql.finish(tx, row, claim_id, DeliveryState.DELIVERED, at, status=outcome.status, error=None):
            delivery_sql.note_success(tx, row.webhook_id)
        return
    last = row.attempts > len(BACK_OFF_MS)
    failing_since = delivery_sql.note_failure(tx, row.webhook_id, at)
    dead = last and at - failing_since >= _DEAD_MS
    gone = outcome.status == _GONE
    if last and not dead and not gone:
        delivery_sql.finish(tx, row, claim_id, DeliveryState.FAILED, at, status=outcome.status, error=outcome.error)
        return
    next_at = at if last else at + _with_jitter(BACK_OFF_MS[row.attempts - 1])
    kept = delivery_sql.retry(tx, row, claim_id, next_at, status=outcome.status, error=outcome.error)
    if kept and (gone or dead):
        _pause(tx, row.webhook_id, PausedReason.GONE if gone else PausedReason.UNREACHABLE, at)


def _pause(tx: Tx, webhook_id: str, reason: PausedReason, at: int) -> None:
    if not delivery_sql.pause(tx, webhook_id, reason, at):
        return
    audit.record(tx, at=at, actor=ACTOR, action="webhook.paused", target=webhook_id, details={"reason": reason})

    def tell() -> None:
        metrics.WEBHOOKS_PAUSED.add(reason)
        _LOG.warning("Webhook %s is paused (%s); `workflow-api webhooks resume` resumes it", webhook_id, reason)

    tx.after_commit(tell)


def _with_jitter(milliseconds: int) -> int:
    return milliseconds + round(milliseconds * JITTER * random.random())  # noqa: S311 - spreads attempts
