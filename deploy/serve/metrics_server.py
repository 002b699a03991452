"""HTTP server for `GET /metrics`, in threads of its own so that scrapes take no time from the event loop."""

import logging
import socket
import socketserver
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final, Self

from deploy.config.addresses import Address
from deploy.serve.lifecycle import bind_failure
from deploy.serve.prometheus import exposition
from telemetry import MetricsRegistry

PATH: Final = "/metrics"

_REQUEST_TIMEOUT_SECONDS: Final = 5.0
_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_LOG = logging.getLogger(__name__)


class MetricsServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serves a registry's metrics at `url` while its context lasts; collects them for one request at a time.

    Raises:
        CommandError: the address cannot be bound.
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: Address, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._collecting = threading.Lock()
        try:
            self.address_family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
            super().__init__((address.host, address.port), _Handler)
        except OSError as error:
            raise bind_failure(error, address, "metrics") from None
        self.url = f"http://{Address(address.host, self.server_address[1])}{PATH}"
        # Imports prometheus_client now rather than during the first scrape.
        exposition(())
        self._thread = threading.Thread(target=self.serve_forever, name="metrics", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def exposition(self) -> bytes:
        """Returns the current metrics in the text format."""
        with self._collecting:
            return exposition(self._registry.collect())

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - either may come from a caller
        """Logs that a scrape failed, as when its client disconnects."""
        _LOG.info("A request for metrics was not answered", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    timeout = _REQUEST_TIMEOUT_SECONDS
    server: MetricsServer

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != PATH:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = self.server.exposition()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", _CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "workflow-api"

    def log_message(self, *_: object) -> None:
        """Logs nothing: paths of requests are the client's words."""
