"""One attempt to send a notification: by e-mail, or to a webhook of Slack or Teams."""

import asyncio
import json
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from backend.common.secrets import SecretError, Secrets
from backend.services.notifications.mail import MailAttempt
from backend.services.notifications.rules import AttemptOutcome
from backend.services.notifications.texts import NotificationText
from backend.services.webhooks.sender import Sender
from backend.settings import NotificationTarget

_SCHEMES: Final = {"email": ("smtp", "smtps"), "slack": ("https", "http"), "teams": ("https", "http")}


def address_of(target: NotificationTarget, secrets: Secrets) -> str:
    """Returns the address of a target, which the text of an error does not quote.

    Raises:
        SecretError: it cannot be read, or is no address for the kind of the target.
    """
    url = secrets.get(target.url)
    schemes = _SCHEMES[target.kind]
    try:
        parts = urlsplit(url)
        usable = parts.scheme in schemes and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise SecretError(
            f"the secret '{target.url}' is no address that begins with {schemes[0]}:// or {schemes[1]}://"
        )
    return url


async def attempt(
    target: NotificationTarget,
    secrets: Secrets,
    message: NotificationText,
    sender: Sender,
    threads: Executor,
    seconds: float,
) -> AttemptOutcome:
    """Sends a message; never raises for a failure."""
    try:
        url = address_of(target, secrets)
    except SecretError:
        return AttemptOutcome(False, "secret")
    if target.kind != "email":
        body = _slack(message) if target.kind == "slack" else _teams(message)
        error = (await sender.post(url, json.dumps(body), {})).error
        return AttemptOutcome(error is None, error)
    mail = MailAttempt(url, seconds)
    sending = asyncio.get_running_loop().run_in_executor(threads, mail.send, target, message)
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(sending, seconds)
    finally:
        mail.cut()
    return mail.outcome


def _slack(message: NotificationText) -> dict[str, Any]:
    text = f"{message.subject}\n{message.text}"
    # Slack reads these three as markup, by which a text could mention everybody.
    return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


def _teams(message: NotificationText) -> dict[str, Any]:
    blocks = [{"type": "TextBlock", "text": message.subject, "weight": "Bolder", "wrap": True}]
    blocks += [{"type": "TextBlock", "text": line, "wrap": True} for line in message.text.splitlines() if line]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
    }
    return {
        "type": "message",
        "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}],
    }
