"""Messages to receivers: their JSON, and their headers with a signature as Standard Webhooks 1.0.0 defines it."""

import base64
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from standardwebhooks import Webhook

from backend import json_text
from backend.clock import to_text
from backend.webhooks.delivery_sql import ClaimedRow, DueWebhookRow

_PREFIX: Final = "whsec_"
_SECRET_BYTES: Final = 32


def new_secret() -> str:
    """Returns a new signing secret."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def valid_secrets(webhook: DueWebhookRow, at: int) -> tuple[str, ...]:
    """Returns the secrets to sign with: the present one, and the one before during their overlap."""
    if webhook.previous_secret is None or (webhook.previous_secret_expires_at or 0) <= at:
        return (webhook.secret,)
    return webhook.secret, webhook.previous_secret


def message_body(row: ClaimedRow) -> str:
    """Returns the JSON of a message, the same at every attempt; it names the run and holds nothing of its content."""
    return json_text.write(
        {
            "type": row.event,
            "timestamp": to_text(row.occurred_at),
            "data": {
                "run_id": row.run_id,
                "workflow_id": row.workflow_id,
                "status": row.run_status,
                "client_reference": row.client_reference,
            },
        }
    )


def signed_headers(message_id: str, body: str, at: int, secrets_: Sequence[str]) -> Mapping[str, str]:
    """Returns the headers of an attempt at that time, with a signature for each secret."""
    moment = datetime.fromtimestamp(at // 1000, UTC)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(at // 1000),
        "webhook-signature": " ".join(Webhook(secret).sign(message_id, moment, body) for secret in secrets_),
    }
