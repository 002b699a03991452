"""E-mail by SMTP, encrypted wherever the server can, and always before a password is sent."""

import smtplib
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from email import policy
from email.message import EmailMessage
from email.utils import formatdate
from typing import Final
from urllib.parse import unquote, urlsplit

from backend.services.notifications.texts import NotificationText
from backend.settings import NotificationTarget

# Lines of headers are not folded: some mailboxes show the blanks.
_POLICY: Final = policy.SMTP.clone(max_line_length=998)
_PORTS: Final = {"smtp": 587, "smtps": 465}

_FAILURES: Final[Sequence[tuple[type[Exception], str]]] = (
    (TimeoutError, "timeout"),
    (ssl.SSLError, "tls"),
    (socket.gaierror, "name"),
    (smtplib.SMTPAuthenticationError, "login"),
    (smtplib.SMTPRecipientsRefused, "recipients"),
    (smtplib.SMTPResponseException, "answer"),
)
"""Word for each kind of failure; the first that fits counts."""


class MailAttempt:
    """One attempt to send a message; `send` is for a thread, `cut` ends its connection from another."""

    def __init__(self, url: str, seconds: float) -> None:
        self._url = urlsplit(url)
        self._seconds = seconds
        self._connection: smtplib.SMTP | None = None
        self._ended = False

    def send(self, target: NotificationTarget, message: NotificationText) -> str | None:
        """Returns None once the server has taken the message, else a word for the failure; never raises for one."""
        try:
            return self._exchange(target, message)
        except (OSError, smtplib.SMTPException, ValueError) as error:
            if self._ended:
                return "timeout"
            return next((word for kind, word in _FAILURES if isinstance(error, kind)), "connection")

    def _exchange(self, target: NotificationTarget, message: NotificationText) -> str | None:
        with self._connect() as connection:
            self._connection = connection
            if self._ended:
                return "timeout"
            if self._url.scheme == "smtp" and connection.has_extn("starttls"):
                connection.starttls(context=ssl.create_default_context())
                connection.ehlo()
            elif self._url.scheme == "smtp" and self._url.password:
                return "tls"
            if self._url.username:
                connection.login(unquote(self._url.username), unquote(self._url.password or ""))
            refused = connection.send_message(_mail(target, message), target.sender, list(target.to))
            return "recipients" if refused else None

    def cut(self) -> None:
        """Ends the attempt, however slowly the server answers."""
        self._ended = True
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _connect(self) -> smtplib.SMTP:
        host = self._url.hostname or ""
        port = self._url.port or _PORTS[self._url.scheme]
        if self._url.scheme == "smtps":
            return smtplib.SMTP_SSL(host, port, timeout=self._seconds, context=ssl.create_default_context())
        connection = smtplib.SMTP(host, port, timeout=self._seconds)
        connection.ehlo_or_helo_if_needed()
        return connection


def _mail(target: NotificationTarget, message: NotificationText) -> EmailMessage:
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = target.sender
    mail["To"] = ", ".join(target.to)
    mail["Subject"] = message.subject
    mail["Date"] = formatdate()
    # One id for all attempts, so that mailboxes can tell a repeated message.
    mail["Message-ID"] = f"<{message.message_id}@{target.sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text)
    return mail
