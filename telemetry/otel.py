"""Records spans with OpenTelemetry's SDK and exports them by OTLP over HTTP; imported only where traces are on."""

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
"""Spans that wait where `OTEL_BSP_MAX_QUEUE_SIZE` does not say."""

_SERVICE: Final = "workflow-api"
_TRACESTATE_CHARACTERS: Final = 512
_CANCELLATIONS: Final = (asyncio.CancelledError, futures.CancelledError)
_NO_CONTEXT: Final = Context()
_PROPAGATOR: Final = TraceContextTextMapPropagator()

_LOG = logging.getLogger(__name__)


class Export(SpanExporter):
    """Counts what is exported and lost, and logs once that the collector fails, and once that it answers again."""

    def __init__(self, exporter: OTLPSpanExporter) -> None:
        self._exporter = exporter
        self._endpoint = _address(exporter._endpoint)  # noqa: SLF001 - the variables that it is of are many
        # The exporter itself returns only that it failed.
        self._attempts = _Attempts(exporter._client)  # noqa: SLF001
        exporter._client = self._attempts  # type: ignore[assignment]  # noqa: SLF001 - it has what the exporter calls
        self._fails = False
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Exports spans, and never raises."""
        self.taken += len(spans)
        try:
            result = self._exporter.export(spans)
        except Exception as error:  # noqa: BLE001 - whatever it is, the spans are lost
            self._attempts.reason = _words_of(error)
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
        """Exports what the exporter holds."""
        return self._exporter.force_flush(timeout_millis)


class _Attempts:
    """The exporter's client, which keeps why its last attempt failed."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.shutdown = client.shutdown
        self.reason = "no attempt was made"

    def export(self, data: bytes) -> Any:
        """Sends spans; returns what the exporter reads."""
        result = self._client.export(data)
        if result.error is not None:
            self.reason = _words_of(result.error)
        elif result.status_code is not None:
            self.reason = f"it answered {result.status_code}"
        return result


def _words_of(error: Exception) -> str:
    """Returns the class of an error, and what the system says where it was the reason; other texts quote addresses."""
    said = next((each.strerror for each in _causes(error) if isinstance(each, OSError) and each.strerror), "")
    return f"{type(error).__name__} ({said})" if said else type(error).__name__


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _address(url: str) -> str:
    """Returns an address without what may be a secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class Tracing:
    """Makes the spans of one process.

    A span is made below the present one, or for a call or a segment, which name what they are part of; what this
    process does for itself has none. Texts of exceptions are in no span: they may quote anything.
    """

    CLIENT: Final = SpanKind.CLIENT

    def __init__(
        self, part: str, version: str, endpoint: str | None = None, queue_size: int = DEFAULT_QUEUE_SIZE
    ) -> None:
        """Reads the standard variables `OTEL_…`; `endpoint` is the collector's address in place of theirs.

        At most `queue_size` spans wait to be exported.
        """
        url = None if endpoint is None else f"{endpoint.rstrip('/')}/v1/traces"
        # What it says of failed attempts, the export says once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        resource = Resource({SERVICE_VERSION: version, "workflow_api.part": part}).merge(Resource.create())
        # The SDK's own name for what the variables give none.
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
        """The span of the present work; one of nothing without one."""
        return trace.get_current_span()

    @property
    def recording(self) -> bool:
        """Returns whether the present work has a span that is recorded."""
        return trace.get_current_span().is_recording()

    def carrier(self) -> dict[str, str]:
        """Returns what makes a call part of the present span; empty without one."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return carrier

    def begun_call(self, name: str, carrier: Carrier, attributes: Attributes, *, continues: bool = True) -> Span:
        """Begins the span of a call that was received, to be ended from any thread.

        It is part of what `carrier` names, as far as that is well-formed, and of nothing else; where it does not
        continue that, it begins a trace of its own with a link to it.
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
        """Returns the span of work that an earlier call left; it had waited since `queued_at_ms`, in a span of its own.

        Without a carrier there is none, and what it consists of has none either.
        """
        context = _context_of(carrier)
        if not context:
            return _detached()
        if queued_at_ms is not None:
            began = queued_at_ms * 1_000_000
            queued = self._tracer.start_span(f"{name} queued", context, attributes=attributes, start_time=began)
            # It may be of another machine's clock.
            queued.end(max(time_ns(), began))
        return self._within(self._tracer.start_span(name, context, kind, attributes))

    def child(
        self, name: str, attributes: Attributes | None = None, kind: SpanKind = SpanKind.INTERNAL
    ) -> AbstractContextManager[Span]:
        """Returns a span below the present one, which is a span of nothing where that is not recorded."""
        present = trace.get_current_span()
        if not present.is_recording():
            return nullcontext(present)
        return self._within(self._tracer.start_span(name, None, kind, attributes))

    def begun(self, name: str, attributes: Attributes, kind: SpanKind = SpanKind.CLIENT) -> Span | None:
        """Begins a span below the present one, to be ended from any thread; None where that is not recorded."""
        return self._tracer.start_span(name, None, kind, attributes) if self.recording else None

    def within(self, span: Span) -> AbstractContextManager[object]:
        """Makes the span the present one for as long as the context lasts; it goes on afterwards."""
        return trace.use_span(span, record_exception=False, set_status_on_exception=False)

    def stay_within(self, span: Span | None) -> None:
        """Makes the span, or none, the present one of this task until another is."""
        attach(_NO_CONTEXT if span is None else trace.set_span_in_context(span, _NO_CONTEXT))

    @staticmethod
    def fail(span: Span, kind: str) -> None:
        """Marks a span as failed; the kind is a code of an error, a status, or the name of an exception's class."""
        span.set_attribute("error.type", kind)
        span.set_status(Status(StatusCode.ERROR))

    @staticmethod
    def end_by(span: Span, error: BaseException) -> None:
        """Marks a span that an exception ends: as failed, or as cancelled, which is no failure."""
        if isinstance(error, _CANCELLATIONS):
            span.set_attribute("workflow_api.cancelled", True)
        else:
            Tracing.fail(span, type(error).__qualname__)

    def close(self, seconds: float) -> None:
        """Exports what waits, for so long at most."""
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
    """Returns the context that a carrier names; empty where it is malformed or names none."""
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
    """A queue that drops and counts the newest spans where it is full; the SDK's own replaces the oldest uncounted."""

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
