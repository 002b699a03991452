"""An SMTP server on loopback, which keeps the mails it takes and answers as a test wants."""

import socketserver
import ssl
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from time import sleep


@dataclass
class MailServer:
    """Mails that were taken, and how the server answers.

    Attributes:
        refuses: Whether mails are refused for a time.
        gone: Recipients that are refused for good.
        farewell: The answer to QUIT; None for silence.
        greets: Whether it greets at once; else the greeting never ends.
        lost: Clients that left during the greeting.
        gate: While it is clear, no mail is answered.
    """

    port: int = 0
    scheme: str = "smtp"
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    refuses: bool = False
    gone: Collection[str] = ()
    farewell: str | None = "221 bye"
    greets: bool = True
    lost: int = 0
    attempts: int = 0
    gate: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, kept: MailServer, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.kept = kept
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients may go at any time."""


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        recipients: list[str] = []
        self._greet()
        while line := self.rfile.readline().decode().strip():
            match line.split(maxsplit=1)[0].upper():
                case "QUIT":
                    if self.server.kept.farewell is not None:
                        self._answer(self.server.kept.farewell)
                        return
                case "DATA":
                    self._answer("354 go on")
                    self._take(recipients)
                    recipients = []
                case "RCPT":
                    self._add(recipients, line.partition("<")[2].partition(">")[0])
                case _:
                    self._answer("250 ok")

    def _greet(self) -> None:
        kept = self.server.kept
        while not kept.greets:
            try:
                self._answer("220-one moment")
            except OSError:
                kept.lost += 1
                raise
            sleep(0.02)
        self._answer("220 mail.example.org ready")

    def _add(self, recipients: list[str], recipient: str) -> None:
        if recipient in self.server.kept.gone:
            self._answer("550 no such mailbox")
            return
        recipients.append(recipient)
        self._answer("250 ok")

    def _take(self, recipients: list[str]) -> None:
        kept = self.server.kept
        lines = []
        while (line := self.rfile.readline()).strip() != b".":
            if not line:
                return
            lines.append(line.removeprefix(b"."))
        kept.attempts += 1
        kept.gate.wait(30)
        if kept.refuses:
            self._answer("451 not now")
            return
        mail = message_from_bytes(b"".join(lines), policy=policy.default)
        assert isinstance(mail, EmailMessage)
        kept.mails.append(mail)
        kept.recipients.append(recipients)
        self._answer("250 taken")

    def _answer(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mail_server(tls: ssl.SSLContext | None = None) -> Iterator[MailServer]:
    """Serves SMTP on a free port, with TLS from the start or without encryption."""
    kept = MailServer(scheme="smtp" if tls is None else "smtps")
    kept.gate.set()
    server = _Server(kept, tls)
    kept.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        kept.greets = True
        kept.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()
