"""Verifies messages that the service sends to webhooks."""

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from workflow_api_client.decoding import decode
from workflow_api_client.failures import UnexpectedAnswerError, WebhookVerificationError

TOLERANCE_SECONDS: Final = 300
"""Most seconds between a message's time and the receiver's, so that recorded messages cannot be replayed later."""

_PREFIX: Final = "whsec_"
_OF_SCHEDULES: Final = "schedule."
_SECONDS: Final = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True)
class WebhookRun:
    """The run of a message; read further fields with an API key."""

    run_id: str
    workflow_id: str
    status: str
    client_reference: str | None
    resumed_from: str | None = None
    """The run that it took over from; None for a run that was not resumed."""


@dataclass(frozen=True)
class WebhookSchedule:
    """The decision of a `schedule.skipped` or `schedule.failed` message.

    `reason` says why due times were skipped, or is the code of the refusal, which has the `message`. `due_at` is the
    due time, of `count` skipped ones the last; `first_due_at` is the first.
    """

    workflow_id: str
    schedule: str
    reason: str
    due_at: datetime
    first_due_at: datetime | None
    count: int | None
    message: str | None


@dataclass(frozen=True)
class WebhookMessage:
    """A verified message. An `id` may arrive several times: ignore processed ids.

    `data` is a `WebhookSchedule` where `type` begins with `schedule.`, which only webhooks that name it receive.
    """

    id: str
    type: str
    timestamp: datetime
    data: WebhookRun | WebhookSchedule


def verify_webhook(
    secret: str | Sequence[str], headers: Mapping[str, str], body: bytes | str, *, now: float | None = None
) -> WebhookMessage:
    """Verifies signature and time of a received message; returns the message.

    `secret` is the webhook's secret, `whsec_…`, or several secrets during a rotation; `headers` and `body` are those of
    the request, with the body's bytes unchanged; `now` is the Unix time in seconds, by default the machine's.

    Raises:
        WebhookVerificationError: the signature or the time is not valid; ignore the message.
        ValueError: a secret has a wrong form.
    """
    given = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in ("webhook-id", "webhook-timestamp", "webhook-signature") if not given.get(name)]
    if missing:
        raise WebhookVerificationError(f"The request has no {', '.join(missing)}.")
    message_id, at = given["webhook-id"], given["webhook-timestamp"]
    if not _SECONDS.fullmatch(at) or abs((time.time() if now is None else now) - int(at)) > TOLERANCE_SECONDS:
        raise WebhookVerificationError(f"The webhook-timestamp is not within {TOLERANCE_SECONDS} seconds of now.")
    content = body.encode() if isinstance(body, str) else body
    signed = f"{message_id}.{at}.".encode() + content
    wanted = [_signature(one, signed) for one in ([secret] if isinstance(secret, str) else secret)]
    # Every pair is compared, in constant time.
    fits = [hmac.compare_digest(one, each.encode()) for one in wanted for each in given["webhook-signature"].split()]
    if not any(fits):
        raise WebhookVerificationError("No webhook-signature fits the secret and the body as it came.")
    try:
        read: dict[str, Any] = {**json.loads(content), "id": message_id}
        of_schedule = str(read.get("type")).startswith(_OF_SCHEDULES)
        kind: type[WebhookRun | WebhookSchedule] = WebhookSchedule if of_schedule else WebhookRun
        return replace(decode(WebhookMessage, {**read, "data": None}), data=decode(kind, read.get("data")))
    except (TypeError, ValueError, UnexpectedAnswerError) as error:
        raise WebhookVerificationError("The body is no message of the service.") from error


def _signature(secret: str, signed: bytes) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise ValueError("`secret` must be the text that was shown when the webhook was made, whsec_….")
    return b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256))
