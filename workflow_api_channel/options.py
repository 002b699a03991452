"""Options of a channel to the services, with the retries that `make generate` derives from the protos."""

import json
from importlib import resources
from typing import Any

_FILE = "service_config.json"


def service_config(*, health_check: bool = True) -> str:
    """Returns the gRPC service config of the services as JSON: balancing, health, and retries of repeatable RPCs.

    Args:
        health_check: Watch the health of each backend, which needs `grpc.health.v1.Health` over TLS.
    """
    text = resources.files("workflow_api.v1").joinpath(_FILE).read_text(encoding="utf-8")
    if health_check:
        return text
    config: dict[str, Any] = json.loads(text)
    del config["healthCheckConfig"]
    return json.dumps(config)


def channel_options(*, health_check: bool = True) -> list[tuple[str, str | int]]:
    """Returns options for a channel of `grpc` or `grpc.aio`; see `service_config` for `health_check`."""
    return [
        # Pages and events may exceed gRPC's 4 MB.
        ("grpc.max_receive_message_length", -1),
        # An idle channel is pinged, so that nothing between the two closes it and a backend that vanished is noticed.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # A backend that restarts is found within a second; gRPC's own pauses grow to two minutes.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1_000),
        ("grpc.service_config", service_config(health_check=health_check)),
    ]
