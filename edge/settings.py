"""Settings of an edge; read once by the entry point and passed down."""

from dataclasses import dataclass
from typing import Final

NO_DOMAIN: Final = "localhost"
"""The `app_domain` of a deployment that has not set one."""


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    """Settings of one edge process. Times are in seconds.

    Attributes:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one, which `Edge.port` names.
        app_domain: The deployment's domain, for the machine-readable description; `NO_DOMAIN` where it has none.
        client_address: Where the source address comes from: `peer`, `load_balancer` or `header:<Name>`.
        deployment_id: The deployment's id in health until the first copy of the keys; empty where unknown.
        traceparent: `continue` to continue the trace that a caller names, `link` for a new trace that links to it.
        connections: Most callers at once; beyond it the callers that have kept the edge waiting longest are evicted.
        buffer_mb: Most memory in megabytes for requests and answers under way; evicts as `connections` does.
        backend_seconds: Longest wait for an answer of the backend, and for the first message of a download.
        head_seconds: Longest time from the first byte of a request to the end of its headers.
        body_seconds: Longest time for a whole request body.
        idle_seconds: How long an idle connection is kept.
        stall_seconds: Longest time in which the reader of an answer may take nothing.
        held_per_key: Most calls of one key that wait or stream at once; one more is answered at once.
        drain_seconds: How long calls under way may go on once the edge was told to stop.
        mirror_first_seconds: How long the start waits for the first copy of the keys before it listens without one.
        mirror_poll_seconds: Pause between polls of the keys while their watch stream is broken.
        mirror_retry_seconds: Longest pause before the watch stream is opened again.
        mirror_renewal_seconds: How long a watch stream lasts before it is opened anew, on the connection of that time.
        mirror_heartbeat_seconds: Longest silence of a living watch stream; a silence of three times as long ends it.
        mirror_limit_seconds: Age at which a copy of the keys admits nobody any more.
        usage_flush_seconds: Pause between batches of usage records.
        usage_buffer_records: Most usage records kept while the backend is unavailable; dropped records are counted.
        usage_anonymous_per_minute: Most usage records a minute of calls without a key, so that such calls cannot fill
            the database.
        key_metrics: Whether requests are counted by key.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    app_domain: str = NO_DOMAIN
    client_address: str = "peer"
    deployment_id: str = ""
    traceparent: str = "continue"
    connections: int = 4_000
    buffer_mb: int = 128
    backend_seconds: float = 15.0
    head_seconds: float = 30.0
    body_seconds: float = 60.0
    idle_seconds: float = 75.0
    stall_seconds: float = 60.0
    held_per_key: int = 20
    drain_seconds: float = 20.0
    mirror_first_seconds: float = 5.0
    mirror_poll_seconds: float = 30.0
    mirror_retry_seconds: float = 5.0
    mirror_renewal_seconds: float = 3600.0
    mirror_heartbeat_seconds: float = 5.0
    mirror_limit_seconds: float = 120.0
    usage_flush_seconds: float = 1.0
    usage_buffer_records: int = 50_000
    usage_anonymous_per_minute: int = 100
    key_metrics: bool = False
