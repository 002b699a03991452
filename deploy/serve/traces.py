"""Recording of a process's traces, if the settings or the standard variables of OpenTelemetry ask for it."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from backend.common.optional_parts import OTEL
from contract.versions import RELEASE
from deploy.config.settings import Settings
from deploy.failures import CommandError
from telemetry import MetricsRegistry, tracing

if TYPE_CHECKING:
    from telemetry.otel import Tracing

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_QUEUE_SIZE: Final = "OTEL_BSP_MAX_QUEUE_SIZE"
_PROTOCOL: Final = "http/protobuf"
_CLOSE_SECONDS: Final = 5.0

_LOG = logging.getLogger(__name__)


@contextmanager
def recording_traces(settings: Settings, part: str, metrics: MetricsRegistry) -> Iterator[None]:
    """Records traces while the context lasts, if asked to; for entry points, before parts are made.

    Waiting spans are exported at the end, within a few seconds.

    Raises:
        CommandError: `traces.endpoint` is set and traces cannot be recorded; the message says why.
    """
    recording = _new_tracing(settings, part, os.environ)
    with metrics.registered(tracing.measured):
        if recording is None:
            yield
            return
        tracing.install(recording)
        try:
            yield
        finally:
            tracing.uninstall()
            recording.close(_CLOSE_SECONDS)


def _new_tracing(settings: Settings, part: str, environment: Mapping[str, str]) -> "Tracing | None":
    """Returns the recorder of traces; None if neither the settings nor the environment ask for traces.

    It is also None if the environment asks and traces cannot be recorded, which is logged.
    """
    endpoint = settings.traces.endpoint
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    # An empty variable counts as unset.
    exports = (environment.get("OTEL_TRACES_EXPORTER") or "otlp") == "otlp" and any(map(environment.get, _ENDPOINTS))
    if endpoint is None and not exports:
        return None
    variable = next(filter(environment.get, _PROTOCOLS), _PROTOCOLS[0])
    protocol = environment.get(variable) or _PROTOCOL
    try:
        if protocol == _PROTOCOL:
            from telemetry.otel import DEFAULT_QUEUE_SIZE, Tracing

            size = environment.get(_QUEUE_SIZE, "")
            most = int(size) if size.isdecimal() and int(size) > 0 else DEFAULT_QUEUE_SIZE
            return Tracing(part, RELEASE, endpoint, most)
        reason = f"{variable} must be {_PROTOCOL}, which collectors take on port 4318"
    except ImportError:
        reason = OTEL.not_installed
    if endpoint is not None:
        raise CommandError(f"Traces cannot be recorded: {reason}.", code="cannot_start")
    # A platform may set the variables for all of its processes.
    _LOG.warning("Traces are not recorded: %s", reason)
    return None
