"""A collector of traces on loopback: OTLP over HTTP, decoded as the protocol says."""

import gzip
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.poll import until

SERVER = Span.SPAN_KIND_SERVER
CLIENT = Span.SPAN_KIND_CLIENT


@dataclass(frozen=True)
class ReceivedSpan:
    """A span, and the part that recorded it."""

    part: str
    service: str
    span: Span

    @property
    def name(self) -> str:
        return self.span.name

    @property
    def trace_id(self) -> str:
        return self.span.trace_id.hex()

    @property
    def span_id(self) -> str:
        return self.span.span_id.hex()

    @property
    def parent_id(self) -> str:
        return self.span.parent_span_id.hex()

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-01"

    @property
    def attributes(self) -> dict[str, Any]:
        return _values(self.span.attributes)


@dataclass
class Collector:
    """What arrived so far; `status` is how exports are answered."""

    url: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)
    status: int = 200

    def trace(self, trace_id: str) -> list[ReceivedSpan]:
        return [span for span in tuple(self.spans) if span.trace_id == trace_id]

    def named(self, name: str, trace_id: str) -> list[ReceivedSpan]:
        return [span for span in self.trace(trace_id) if span.name == name]

    def wait_for(self, trace_id: str, *names: str) -> None:
        """Waits for spans of these names, each as often as it is given."""
        until(lambda: not Counter(names) - Counter(span.name for span in self.trace(trace_id)), f"spans {names}")

    def texts(self) -> str:
        """Everything that spans say."""
        return "\n".join(str(span.span) for span in self.spans)


def _values(attributes: Any) -> dict[str, Any]:
    def value(pair: KeyValue) -> Any:
        kind = pair.value.WhichOneof("value")
        return None if kind is None else getattr(pair.value, kind)

    return {pair.key: value(pair) for pair in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """Serves a collector on a free port."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers["content-encoding"] == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces" and collector.status == 200:
                for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                    of = _values(group.resource.attributes)
                    collector.spans += [
                        ReceivedSpan(of["workflow_api.part"], of["service.name"], span)
                        for scope in group.scope_spans
                        for span in scope.spans
                    ]
            self.send_response(collector.status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
