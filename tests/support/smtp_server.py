"""An SMTP server on loopback, which keeps the mails it takes and answers as a test wants."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage


@dataclass
class MailServer:
    """Mails that were taken. While `refuses`, mails are refused for a time; while `gate` is clear, none is answered."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    refuses: bool = False
    attempts: int = 0
    gate: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"


@contextmanager
def mail_server() -> Iterator[MailServer]:
    """Serves SMTP without encryption on a free port."""
    kept = MailServer()
    kept.gate.set()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            recipients: list[str] = []
            self._answer("220 mail.example.org ready")
            while line := self.rfile.readline().decode().strip():
                verb = line.split(maxsplit=1)[0].upper()
                if verb == "QUIT":
                    self._answer("221 bye")
                    return
                if verb == "DATA":
                    self._answer("354 go on")
                    self._take(recipients)
                    recipients = []
                    continue
                if verb == "RCPT":
                    recipients.append(line.partition("<")[2].partition(">")[0])
                self._answer("250 ok")

        def _take(self, recipients: list[str]) -> None:
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

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Clients may go at any time."""

    server = Server(("127.0.0.1", 0), Handler)
    kept.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        kept.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()
