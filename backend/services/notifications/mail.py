"""E-mail by SMTP, encrypted wherever the server can, and always before a password is sent."""

import smtplib
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from email import policy
from email.message import EmailMessage
from email.utils import formatdate
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from backend.services.notifications.rules import AttemptOutcome
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
        self._socket: socket.socket | None = None
        self._ended = False
        self.outcome = AttemptOutcome(False, "timeout")
        """The outcome so far; the answer to the message decides it, however the connection ends."""

    def send(self, target: NotificationTarget, message: NotificationText) -> None:
        """Sends the message, and keeps the outcome; never raises for a failure."""
        try:
            self._exchange(target, message)
        except (OSError, smtplib.SMTPException, ValueError) as error:
            if not self._ended:
                word = next((word for kind, word in _FAILURES if isinstance(error, kind)), "connection")
                self.outcome = AttemptOutcome(False, word)
        finally:
            if self._socket is not None:
                self._socket.close()

    def _exchange(self, target: NotificationTarget, message: NotificationText) -> None:
        with closing(_Connection(self._url, self._seconds, self._on_opened)) as connection:
            try:
                self.outcome = self._deliver(connection, target, message)
            finally:
                with suppress(OSError):
                    connection.quit()

    def _deliver(
        self, connection: smtplib.SMTP, target: NotificationTarget, message: NotificationText
    ) -> AttemptOutcome:
        connection.ehlo_or_helo_if_needed()
        if self._url.scheme == "smtp" and connection.has_extn("starttls"):
            connection.starttls(context=ssl.create_default_context())
            connection.ehlo()
        elif self._url.scheme == "smtp" and self._url.password:
            return AttemptOutcome(False, "tls")
        if self._url.username:
            connection.login(unquote(self._url.username), unquote(self._url.password or ""))
        refused = connection.send_message(_mail(target, message), target.sender, list(target.to))
        # Another attempt would repeat the message to those that took it.
        return AttemptOutcome(True, "recipients" if refused else None)

    def _on_opened(self, opened: socket.socket) -> None:
        # A copy, because TLS takes the socket over.
        self._socket = opened.dup()
        if self._ended:
            self.cut()

    def cut(self) -> None:
        """Ends the attempt, however slowly the server answers."""
        self._ended = True
        opened = self._socket
        if opened is not None:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)


class _Connection(smtplib.SMTP):
    """A connection that hands over its socket before TLS and the greeting, both of which may be slow."""

    def __init__(self, url: SplitResult, seconds: float, on_opened: Callable[[socket.socket], None]) -> None:
        self._on_opened = on_opened
        self._begins_with_tls = url.scheme == "smtps"
        super().__init__(url.hostname or "", url.port or _PORTS[url.scheme], timeout=seconds)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        opened = socket.create_connection((host, port), timeout)
        self._on_opened(opened)
        return (
            ssl.create_default_context().wrap_socket(opened, server_hostname=host) if self._begins_with_tls else opened
        )


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
