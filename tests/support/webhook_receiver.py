"""A receiver of webhooks on loopback, which records what arrives and answers as a test wants."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ReceivedMessage:
    """A message that arrived."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message_id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """What arrived so far, and how the next messages are answered: by a status, or by what `answer` writes.

    Those that `refuses` picks are answered 503; `accepted` has what a status of success was sent for, in that order.
    """

    url: str = ""
    received: list[ReceivedMessage] = field(default_factory=list)
    status: int = 204
    location: str | None = None
    answer: Callable[[BaseHTTPRequestHandler], None] | None = None
    refuses: Callable[[ReceivedMessage], bool] = lambda _: False
    accepted: list[ReceivedMessage] = field(default_factory=list)

    @property
    def types(self) -> list[str]:
        return [each.json["type"] for each in self.received]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Serves a receiver on a free port."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            message = ReceivedMessage(self.path, headers, body)
            receiver.received.append(message)
            if receiver.answer is not None:
                receiver.answer(self)
                return
            status = 503 if receiver.refuses(message) else receiver.status
            if status < 300:
                receiver.accepted.append(message)
            self.send_response(status)
            if receiver.location is not None:
                self.send_header("location", receiver.location)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
