"""The agent on docs/agents.md that makes spans makes them below the step's."""

from types import SimpleNamespace

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.documents.conftest import DOCS
from tests.support.page import blocks_of


def test_a_span_of_an_agent_is_below_the_span_of_its_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    [agent] = [block.body for block in blocks_of(DOCS / "agents.md") if block.title == "prices.py"]
    scope: dict[str, object] = {}
    exec(agent, scope)  # noqa: S102 # the page's own
    run = scope["run"]
    assert callable(run)
    run(SimpleNamespace(traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
    run(SimpleNamespace(traceparent=None))
    below, alone = kept.get_finished_spans()
    assert below.parent is not None
    assert (f"{below.parent.trace_id:x}", f"{below.parent.span_id:x}") == (
        "af7651916cd43dd8448eb211c80319c",
        "b7ad6b7169203331",
    )
    assert alone.parent is None
