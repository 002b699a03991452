"""Recording of spans with OpenTelemetry's SDK, exported by OTLP over HTTP; imported only where traces are on."""

import asyncio
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import time_ns
from typing import Any, Final
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from telemetry.trace_context import SPANS, TRACEPARENT, TRACESTATE

Attributes = Mapping[str, str | int | bool | Sequence[str]]
Carrier = Mapping[str, str]
"""`traceparent`, and `tracestate` where there is one."""

DEFAULT_QUEUE_SIZE: Final = 2_048
"""Most spans that wait for export, unless `OTEL_BSP_MAX_QUEUE_SIZE` is set."""

_SERVICE: Final = "workflow-api"
_TRACESTATE_CHARACTERS: Final = 512
_CANCELLATIONS: Final = (asyncio.CancelledError, futures.CancelledError)
_NO_CONTEXT: Final = Context()
_PROPAGATOR: Final = TraceContextTextMapPropagator()

_LOG = logging.getLogger(__name__)


class Export(SpanExporter):
    """Exporter that counts exported and lost spans, and logs once when the collector fails and when it recovers."""

    def __init__(self, exporter: OTLPSpanExporter) -> None:
        self._exporter = exporter
        self._endpoint = _address(exporter._endpoint)  # noqa: SLF001 - many variables determine it
        # The exporter itself returns no reason of a failure.
        self._attempts = _Attempts(exporter._client)  # noqa: SLF001
        exporter._client = self._attempts  # type: ignore[assignment]  # noqa: SLF001 - as the exporter calls it
        self._fails = False
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Exports spans, and never raises."""
        self.taken += len(spans)
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - whatever it is, the spans are lost
            self._attempts.reason = _description_of(error)
            result = SpanExportResult.FAILURE
        failed = result is not SpanExportResult.SUCCESS
        SPANS.add_many(len(spans), "failed" if failed else "exported")
        if failed != self._fails:
            self._fails = failed
            if failed:
                _LOG.warning("Traces cannot be exported to %s and are lost: %s", self._endpoint, self._attempts.reason)
            else:
                _LOG.warning("Traces are exported again")
        return result

    def shutdown(self) -> None:
        """Ends the exporter."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Exports the spans that the exporter holds."""
        return self._exporter.force_flush(timeout_millis)


class _Attempts:
    """The exporter's HTTP client, which keeps the reason of the last failed attempt."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.shutdown = client.shutdown
        self.reason = "no attempt was made"

    def export(self, data: bytes) -> Any:
        """Sends spans; returns the response for the exporter."""
        result = self._client.export(data)
        if result.error is not None:
            self.reason = _description_of(result.error)
        elif result.status_code is not None:
            self.reason = f"it answered {result.status_code}"
        return result


def _description_of(error: Exception) -> str:
    """Returns an error's class, and the system's message if an OSError caused it; other texts quote addresses."""
    said = next((each.strerror for each in _causes(error) if isinstance(each, OSError) and each.strerror), "")
    return f"{type(error).__name__} ({said})" if said else type(error).__name__


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _address(url: str) -> str:
    """Returns a URL without user name, password and query, which may hold secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class Tracing:
    """Makes the spans of one process.

    A span is a child of the present span, or of the carrier of a call or a segment; the process's own work has no
    spans. Spans hold no texts of exceptions, which may quote anything.
    """

    CLIENT: Final = SpanKind.CLIENT

    def __init__(
        self, part: str, version: str, endpoint: str | None = None, queue_size: int = DEFAULT_QUEUE_SIZE
    ) -> None:
        """Reads the standard variables `OTEL_…`; `endpoint` replaces their address of the collector.

        At most `queue_size` spans wait to be exported.
        """
        url = None if endpoint is None else f"{endpoint.rstrip('/')}/v1/traces"
        # `Export` logs failures once, so the exporter's own messages are turned off.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        resource = Resource({SERVICE_VERSION: version, "workflow_api.part": part}).merge(Resource.create())
        # The SDK's default name, where the variables give none.
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: _SERVICE}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(_BoundedProcessor(Export(OTLPSpanExporter(endpoint=url)), queue_size))
        self._tracer = self._provider.get_tracer(_SERVICE, version)

    def trace_id(self) -> str:
        """Returns the id of the present trace; empty without one."""
        context = trace.get_current_span().get_span_context()
        return trace.format_trace_id(context.trace_id) if context.is_valid else ""

    @property
    def present(self) -> Span:
        """The current span; a non-recording span where there is none."""
        return trace.get_current_span()

    @property
    def recording(self) -> bool:
        """Returns whether the current span is recorded."""
        return trace.get_current_span().is_recording()

    def carrier(self) -> dict[str, str]:
        """Returns the carrier that makes a call a child of the current span; empty without a span."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return carrier

    def begun_call(self, name: str, carrier: Carrier, attributes: Attributes, *, continues: bool = True) -> Span:
        """Begins the span of a received call, to be ended from any thread.

        The parent is the span that a well-formed `carrier` names, else none. Without `continues` the span begins a
        trace of its own, with a link to the carrier's span.
        """
        context = _context_of(carrier)
        links = []
        if not continues and context:
            links.append(Link(trace.get_current_span(context).get_span_context()))
            context = _NO_CONTEXT
        return self._tracer.start_span(name, context, SpanKind.SERVER, attributes, links)

    def executed(
        self,
        name: str,
        carrier: Carrier,
        attributes: Attributes,
        queued_at_ms: int | None = None,
        kind: SpanKind = SpanKind.CONSUMER,
    ) -> AbstractContextManager[Span]:
        """Returns the span of work queued by an earlier call; the wait since `queued_at_ms` gets a span of its own.

        Without a carrier neither the work nor its parts have spans.
        """
        context = _context_of(carrier)
        if not context:
            return _detached()
        if queued_at_ms is not None:
            began = queued_at_ms * 1_000_000
            queued = self._tracer.start_span(f"{name} queued", context, attributes=attributes, start_time=began)
            # The time may be from another machine's clock.
            queued.end(max(time_ns(), began))
        return self._within(self._tracer.start_span(name, context, kind, attributes))

    def child(
        self, name: str, attributes: Attributes | None = None, kind: SpanKind = SpanKind.INTERNAL
    ) -> AbstractContextManager[Span]:
        """Returns a child of the current span; the current span itself if it is not recorded."""
        present = trace.get_current_span()
        if not present.is_recording():
            return nullcontext(present)
        return self._within(self._tracer.start_span(name, None, kind, attributes))

    def begun(self, name: str, attributes: Attributes, kind: SpanKind = SpanKind.CLIENT) -> Span | None:
        """Begins a child of the current span, to be ended from any thread; None if the current is not recorded."""
        return self._tracer.start_span(name, None, kind, attributes) if self.recording else None

    def within(self, span: Span) -> AbstractContextManager[object]:
        """Makes the span current while the context lasts, without ending it."""
        return trace.use_span(span, record_exception=False, set_status_on_exception=False)

    def stay_within(self, span: Span | None) -> None:
        """Makes the span, or none, current in this task until further notice."""
        attach(_NO_CONTEXT if span is None else trace.set_span_in_context(span, _NO_CONTEXT))

    @staticmethod
    def fail(span: Span, kind: str) -> None:
        """Marks a span as failed; `kind` is an error code, a status, or the name of an exception's class."""
        span.set_attribute("error.type", kind)
        span.set_status(Status(StatusCode.ERROR))

    @staticmethod
    def end_by(span: Span, error: BaseException) -> None:
        """Marks a span that an exception ends as failed, or as cancelled after a cancellation."""
        if isinstance(error, _CANCELLATIONS):
            span.set_attribute("workflow_api.cancelled", True)
        else:
            Tracing.fail(span, type(error).__qualname__)

    def close(self, seconds: float) -> None:
        """Exports waiting spans, for at most `seconds`."""
        closing = threading.Thread(target=self._provider.shutdown, name="traces-close", daemon=True)
        closing.start()
        closing.join(seconds)

    @staticmethod
    @contextmanager
    def _within(span: Span) -> Iterator[Span]:
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield span
        except BaseException as error:
            Tracing.end_by(span, error)
            raise
        finally:
            span.end()


def _context_of(carrier: Carrier) -> Context:
    """Returns the context that a carrier names; empty if malformed or absent."""
    state = carrier.get(TRACESTATE)
    if state is not None and len(state) > _TRACESTATE_CHARACTERS:
        carrier = {TRACEPARENT: carrier.get(TRACEPARENT, "")}
    return _PROPAGATOR.extract(carrier, _NO_CONTEXT)


@contextmanager
def _detached() -> Iterator[Span]:
    token = attach(_NO_CONTEXT)
    try:
        yield trace.INVALID_SPAN
    finally:
        detach(token)


class _BoundedProcessor(BatchSpanProcessor):
    """Queue that drops and counts new spans when full; the SDK's own drops the oldest without counting."""

    def __init__(self, exporter: Export, queue_size: int) -> None:
        self._most = queue_size
        super().__init__(exporter, max_queue_size=self._most)
        self._export = exporter
        self._given = 0
        self._counting = threading.Lock()

    def on_end(self, span: ReadableSpan) -> None:
        context = span.context
        if context is None or not context.trace_flags.sampled:
            return
        with self._counting:
            full = self._given - self._export.taken >= self._most
            self._given += not full
        if full:
            SPANS.add("dropped")
        else:
            super().on_end(span)
