"""The export of spans by OTLP over HTTP: what became of them, and why it fails."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from telemetry.trace_context import SPANS

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
