"""Spans of the console's requests."""

from collections.abc import Callable, Iterator

import pytest

from telemetry import tracing
from telemetry.otel import Tracing
from tests.support.otlp_receiver import SERVER, Collector, ReceivedSpan, collecting
from tests.support.poll import until
from tests.unit.console.conftest import Desk
from tests.unit.console.http.test_event_streams import follow, heard


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with collecting() as collector:
        recording = Tracing("console", "1", collector.url)
        tracing.install(recording)
        try:
            yield collector
        finally:
            tracing.uninstall()
            recording.close(10)


def requests(collector: Collector) -> list[ReceivedSpan]:
    return [span for span in tuple(collector.spans) if span.span.kind == SERVER]


def test_the_span_of_live_updates_ends_when_they_begin(start: Callable[..., Desk], collector: Collector) -> None:
    desk = start()
    with follow(desk, desk.channel.begin("bob")) as caller:
        heard(caller, b"retry: ")
        (span,) = until(lambda: requests(collector), "the span")
        desk.end()
        heard(caller, b"event: end\n")
    assert (span.name, span.attributes["http.response.status_code"]) == ("GET /live", 200)


def test_a_page_that_fails_is_marked_and_checks_and_files_have_no_span(
    start: Callable[..., Desk], collector: Collector
) -> None:
    desk = start()
    browser = desk.browser("bob")
    assert browser.get("/healthz").status == 200
    assert browser.get("/static/none.css").status == 404
    assert [browser.get(path).status for path in ("/broken", "/refused")] == [500, 400]
    until(lambda: len(requests(collector)) == 2, "the spans")
    spans = requests(collector)
    assert [(span.name, span.attributes["workflow_api.error_code"]) for span in spans] == [
        ("GET /broken", "internal"),
        ("GET /refused", "invalid_request"),
    ]
    assert [span.attributes.get("error.type") for span in spans] == ["internal", None]
    assert "secret words" not in collector.texts()
