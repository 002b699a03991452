"""Attempts to deliver a message: content and signature (Standard Webhooks 1.0.0), outcome and time of the next one."""

import base64
import logging
import random
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from standardwebhooks import Webhook

from backend.common import json_text, metrics
from backend.common.clock import HOUR_MS, to_text
from backend.common.json_text import JsonObject
from backend.services.audit import sql as audit
from backend.services.webhooks import delivery_sql
from backend.services.webhooks.delivery_sql import ClaimedMessageRow, DueWebhookRow
from backend.services.webhooks.rules import DeliveryOutcome, DeliveryState, PausedReason
from backend.storage.database import Tx

_PREFIX: Final = "whsec_"
_SECRET_BYTES: Final = 32


def new_secret() -> str:
    """Returns a new signing secret."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def valid_secrets(webhook: DueWebhookRow, at: int) -> tuple[str, ...]:
    """Returns the secrets to sign with: the present one, and during an overlap the previous one."""
    if webhook.previous_secret is None or (webhook.previous_secret_expires_at or 0) <= at:
        return (webhook.secret,)
    return webhook.secret, webhook.previous_secret


def message_body(row: ClaimedMessageRow) -> str:
    """Returns the JSON of a message, equal in all attempts; it names the run and has none of its content."""
    data: JsonObject = (
        {
            "run_id": row.run_id,
            "workflow_id": row.workflow_id,
            "status": row.run_status,
            "client_reference": row.client_reference,
            **({} if row.resumed_from is None else {"resumed_from": row.resumed_from}),
        }
        if row.data is None
        else json_text.parse(row.data)
    )
    return json_text.write({"type": row.event, "timestamp": to_text(row.occurred_at), "data": data})


def signed_headers(message_id: str, body: str, at: int, secrets_: Sequence[str]) -> Mapping[str, str]:
    """Returns the headers of an attempt at a time, with a signature for each secret."""
    moment = datetime.fromtimestamp(at // 1000, UTC)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at // 1000),
        "webhook-signature": " ".join(Webhook(secret).sign(message_id, moment, body) for secret in secrets_),
    }


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
"""Milliseconds before each further attempt, 72 hours together; up to a tenth is added to spread attempts."""
JITTER: Final = 0.1

# A little less than the whole schedule, because attempts take time.
_DEAD_MS: Final = sum(BACK_OFF_MS) - HOUR_MS

_LOG = logging.getLogger(__name__)


def record_outcome(tx: Tx, row: ClaimedMessageRow, claim_id: str, outcome: DeliveryOutcome, at: int) -> None:
    """Records the outcome of an attempt; the caller holds `delivery_lock`. Does nothing if the claim has lapsed.

    A webhook is dead once all attempts of the whole schedule of a message have failed. A dead webhook, like one that
    answers 410 (gone), is paused, and the message waits until the webhook is resumed.
    """
    if outcome.error is None:
        if delivery_sql.finish(tx, row, claim_id, DeliveryState.DELIVERED, at, status=outcome.status, error=None):
            delivery_sql.record_success(tx, row.webhook_id)
        return
    last = row.attempts > len(BACK_OFF_MS)
    failing_since = delivery_sql.record_failure(tx, row.webhook_id, at)
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

    def report() -> None:
        metrics.WEBHOOKS_PAUSED.add(reason)
        _LOG.warning("Webhook %s is paused (%s); `workflow-api webhooks resume` resumes it", webhook_id, reason)

    tx.after_commit(report)


def _with_jitter(milliseconds: int) -> int:
    return milliseconds + round(milliseconds * JITTER * random.random())  # noqa: S311 - spreads attempts
