"""HTTP server of a process's metrics, in the Prometheus text format, and of its probes.

docs/metrics.md lists the metrics.
"""

import logging
import socket
import socketserver
import threading
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Final, Self

from contract.versions import API_VERSION, RELEASE
from deploy.config.addresses import Address
from deploy.serve.lifecycle import bind_failure
from telemetry import Family, Gauge, MetricsRegistry, Sample
from telemetry.log_output import DROPPED_LINES

if TYPE_CHECKING:
    from prometheus_client import Metric

PATH: Final = "/metrics"
# For probes: they collect nothing, and ask neither the database nor a certificate.
ALIVE_PATH: Final = "/alive"
READY_PATH: Final = "/ready"

_REQUEST_TIMEOUT_SECONDS: Final = 5.0
_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_LOG = logging.getLogger(__name__)

BUILD: Final = Gauge("build_info", "Always 1; its labels name what runs here.", ("part", "version", "api_version"))

_TOTAL: Final = "_total"


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

    def ready(self) -> bool:
        """Returns whether the process serves."""
        return self._registry.ready()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - either may come from a caller
        """Logs that a scrape failed, as when its client disconnects."""
        _LOG.info("A request for metrics was not answered", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    timeout = _REQUEST_TIMEOUT_SECONDS
    server: MetricsServer

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == PATH:
            self._answer(HTTPStatus.OK, self.server.exposition())
        elif path == ALIVE_PATH:
            self._answer(HTTPStatus.OK, b"alive\n")
        elif path == READY_PATH:
            ready = self.server.ready()
            status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
            self._answer(status, b"ready\n" if ready else b"not ready\n")
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", _CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        return "workflow-api"

    def log_message(self, *_: object) -> None:
        """Logs nothing, because clients choose the paths of requests."""


def process_metrics(part: str) -> Iterator[Family]:
    """Yields metrics of the process: release, dropped log lines, CPU time, memory and open files."""
    from prometheus_client import PROCESS_COLLECTOR

    yield BUILD.with_values({(part, RELEASE, API_VERSION): 1})
    yield DROPPED_LINES.collect()
    yield from map(_family, PROCESS_COLLECTOR.collect())


def exposition(families: Iterable[Family]) -> bytes:
    """Returns metrics in Prometheus's text format."""
    from prometheus_client import generate_latest

    return generate_latest(_Registry([_metric(family) for family in families]))


class _Registry:
    """The part of a prometheus_client registry that `generate_latest` uses."""

    def __init__(self, metrics: Sequence["Metric"]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable["Metric"]:
        """Returns all metrics."""
        return self._metrics


def _family(metric: "Metric") -> Family:
    name = metric.name + (_TOTAL if metric.type == "counter" else "")
    samples = [Sample(sample.name.removeprefix(name), sample.labels, sample.value) for sample in metric.samples]
    return Family(name, metric.type, metric.documentation, samples)


def _metric(family: Family) -> "Metric":
    from prometheus_client import Metric

    metric = Metric(family.name.removesuffix(_TOTAL), family.help, family.kind)
    for suffix, labels, value in family.samples:
        metric.add_sample(family.name + suffix, dict(labels), value)
    return metric
