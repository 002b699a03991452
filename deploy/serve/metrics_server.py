"""`GET /metrics`, in threads of its own, so that whoever asks takes no time of callers."""

import logging
import socket
import socketserver
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final, Self

from deploy.config.addresses import Address
from deploy.serve.lifecycle import cannot_listen
from deploy.serve.metrics import Metrics, exposition

PATH: Final = "/metrics"

_ANSWER_SECONDS: Final = 5.0
_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_LOG = logging.getLogger(__name__)


class MetricsServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serves while it is entered, at `url`; what it tells it collects for one at a time.

    Raises:
        CommandFailed: the address cannot be bound.
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: Address, metrics: Metrics) -> None:
        self._metrics = metrics
        self._collecting = threading.Lock()
        try:
            self.address_family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
            super().__init__((address.host, address.port), _Handler)
        except OSError as error:
            raise cannot_listen(error, address, "metrics") from None
        self.url = f"http://{Address(address.host, self.server_address[1])}{PATH}"
        # Imported now, not while the first one who asks waits.
        exposition(())
        self._thread = threading.Thread(target=self.serve_forever, name="metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def told(self) -> bytes:
        """All there is to tell now."""
        with self._collecting:
            return exposition(self._metrics.families())

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - it may be anybody's
        """Tell of a caller that broke off."""
        _LOG.info("somebody who asked for metrics was not answered", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    timeout = _ANSWER_SECONDS
    server: MetricsServer

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != PATH:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = self.server.told()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", _CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "workflow-api"

    def log_message(self, *_: object) -> None:
        """Log nothing: who asks says what it likes."""
