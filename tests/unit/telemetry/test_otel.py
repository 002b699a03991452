"""Spans of one process, and a collector that fails."""

import asyncio
import socket
from collections.abc import Iterator
from concurrent import futures

import pytest

from telemetry import tracing
from telemetry.otel import Tracing
from telemetry.trace_context import SPANS, TRACEPARENT, TRACESTATE
from tests.support.otlp_receiver import Collector, collecting

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
QUEUE = 8


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", str(QUEUE))
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


def outcomes() -> dict[str, float]:
    return {sample.labels["outcome"]: sample.value for sample in SPANS.collect().samples}


def test_a_span_is_part_of_what_the_carrier_names(collector: Collector) -> None:
    recording = Tracing("edge", "1", collector.url)
    recording.begun_call("call", {TRACEPARENT: PARENT, TRACESTATE: "vendor=1"}, {}).end()
    recording.close(10)
    [span] = collector.spans
    assert (span.trace_id, span.parent_id, span.span.trace_state) == (TRACE, "b7ad6b7169203331", "vendor=1")
    assert (span.service, span.part) == ("workflow-api", "edge")


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "nonsense",
        f"00-{TRACE}-b7ad6b7169203331",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-b7ad6b7169203331-01",
        f"{PARENT}-more",
        PARENT.upper(),
        f"{PARENT}\udce9",
    ],
)
def test_a_malformed_traceparent_is_ignored(collector: Collector, traceparent: str) -> None:
    recording = Tracing("edge", "1", collector.url)
    recording.begun_call("call", {TRACEPARENT: traceparent}, {}).end()
    recording.close(10)
    [span] = collector.spans
    assert span.parent_id == ""
    assert span.trace_id != TRACE


def test_a_tracestate_that_is_too_long_is_left_out(collector: Collector) -> None:
    recording = Tracing("edge", "1", collector.url)
    recording.begun_call("call", {TRACEPARENT: PARENT, TRACESTATE: f"vendor={'x' * 510}"}, {}).end()
    recording.close(10)
    [span] = collector.spans
    assert (span.trace_id, span.span.trace_state) == (TRACE, "")


def test_only_what_belongs_to_a_recorded_span_has_one(collector: Collector) -> None:
    recording = Tracing("worker", "1", collector.url)
    with recording.child("of its own"):
        pass
    unsampled = {TRACEPARENT: f"{PARENT[:-1]}0"}
    with recording.executed("segment", unsampled, {}), recording.child("of an unsampled trace"):
        assert recording.trace_id() == TRACE
    with recording.executed("segment", {}, {}), recording.child("of no trace"):
        assert recording.trace_id() == ""
    with recording.executed("segment", {TRACEPARENT: PARENT}, {}), recording.child("step"):
        assert recording.carrier()[TRACEPARENT].startswith(f"00-{TRACE}-")
    recording.close(10)
    assert {span.name for span in collector.spans} == {"segment", "step"}


def test_an_exception_is_named_and_its_text_left_out(collector: Collector) -> None:
    recording = Tracing("worker", "1", collector.url)
    with (
        pytest.raises(ValueError, match="planted"),
        recording.executed("segment", {TRACEPARENT: PARENT}, {}),
        recording.child("step"),
    ):
        raise ValueError("planted")
    recording.close(10)
    assert [span.attributes["error.type"] for span in collector.spans] == ["ValueError", "ValueError"]
    assert "planted" not in collector.texts()


@pytest.mark.parametrize(
    "cancellation", [asyncio.CancelledError, futures.CancelledError], ids=["of a task", "of a future"]
)
def test_what_is_cancelled_has_not_failed(collector: Collector, cancellation: type[BaseException]) -> None:
    recording = Tracing("worker", "1", collector.url)
    with (
        pytest.raises(cancellation),
        recording.executed("segment", {TRACEPARENT: PARENT}, {}),
        recording.child("step"),
    ):
        raise cancellation
    recording.close(10)
    assert [span.attributes for span in collector.spans] == [{"workflow_api.cancelled": True}] * 2
    assert {span.span.status.code for span in collector.spans} == {0}


def test_a_full_queue_drops_spans_and_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    # One attempt alone.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with socket.socket() as silent:
        # It takes connections, and answers none.
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        recording = Tracing("edge", "1", f"http://127.0.0.1:{silent.getsockname()[1]}", QUEUE)
        before = outcomes()
        for _ in range(5 * QUEUE):
            recording.begun_call("call", {}, {}).end()
        # One batch may be on its way.
        assert outcomes()["dropped"] - before["dropped"] in {3 * QUEUE, 4 * QUEUE}
    # The thread that exports ends with its last attempt.
    recording.close(60)


def export_to(address: str) -> None:
    recording = Tracing("edge", "1", address)
    recording.begun_call("call", {}, {}).end()
    recording.close(60)


def test_traces_that_cannot_be_exported_name_the_collector_and_the_reason(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One attempt alone.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        export_to(f"http://name:geheim@127.0.0.1:{port}")
    to = f"http://127.0.0.1:{port}/v1/traces"
    assert caplog.messages == [f"Traces cannot be exported to {to} and are lost: ConnectionError (Connection refused)"]


def test_a_collector_that_refuses_traces_is_named_with_its_answer(
    caplog: pytest.LogCaptureFixture, collector: Collector
) -> None:
    collector.status = 403
    export_to(collector.url)
    to = f"{collector.url}/v1/traces"
    assert caplog.messages == [f"Traces cannot be exported to {to} and are lost: it answered 403"]


def test_without_anything_that_records_there_is_no_trace() -> None:
    assert tracing.active() is None
    assert (tracing.trace_id(), tracing.carrier(), tracing.recorded()) == ("", {}, None)
    with tracing.child("redaction"):
        pass
