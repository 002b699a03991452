"""When a process records traces."""

import subprocess
import sys

import pytest

from deploy.config.settings import Settings, Traces
from deploy.failures import CommandError
from deploy.serve.traces import recording_traces
from telemetry import MetricsRegistry, tracing

ENDPOINT = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")


def records(settings: Settings) -> bool:
    metrics = MetricsRegistry()
    with recording_traces(settings, "edge", metrics):
        assert [family.name for family in metrics.collect()] == ["workflow_api_trace_spans_total"]
        return tracing.active() is not None


@pytest.mark.parametrize(
    ("variables", "recorded"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": ENDPOINT}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT, "OTEL_TRACES_EXPORTER": ""}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT, "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False),
    ],
)
def test_the_standard_variables_switch_traces_on(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], recorded: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert records(Settings()) is recorded
    assert tracing.active() is None


def test_nothing_of_opentelemetry_is_imported_where_traces_are_off() -> None:
    parts = "backend.bootstrap, backend.runtime.execution.segment, deploy.serve.embedded, deploy.serve.traces"
    check = f"import sys, {parts}; sys.exit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_an_endpoint_of_the_settings_needs_the_optional_part(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(traces=Traces(endpoint=ENDPOINT))
    assert records(settings)
    monkeypatch.setitem(sys.modules, "telemetry.otel", None)
    with pytest.raises(CommandError, match=r"workflow-api\[otel\]"):
        records(settings)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", ENDPOINT)
    assert not records(Settings())


def test_a_protocol_that_is_not_supported_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    with pytest.raises(CommandError, match="OTEL_EXPORTER_OTLP_TRACES_PROTOCOL must be http/protobuf"):
        records(Settings(traces=Traces(endpoint=ENDPOINT)))
