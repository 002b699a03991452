"""Settings of the console, read once by the entry point and passed down."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Settings of one console. Times are in seconds.

    Attributes:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one, which `Console.port` names.
        https: Whether browsers reach the console over https; its cookies are then sent over https only.
        client_address: How a browser's address is determined, for limits and the audit: `peer`, `load_balancer` or
            `header:<Name>`.
        hosts: Host names without port of the console; empty allows the address that a connection came to.
        design_sheet: Whether `/design` shows every component of the pages; for development.
        api_url: Address of the HTTP API for callers, used in code samples.
        connections: Most connections at once.
        address_connections: Most connections at once of one address, where `client_address` is `peer`.
        backend_seconds: Longest wait for an answer of the backend, and for the next message of a stream.
        head_seconds: Longest time for the headers of a request.
        idle_seconds: Longest time without a request.
        body_seconds: Longest time for a whole form.
        stall_seconds: Longest time in which a browser may read nothing of a response.
        drain_seconds: How long requests under way may continue while the console stops.
        form_bytes: Most bytes of a form without files.
        streams: Most live updates at once.
        session_streams: Most live updates at once of one session.
        stream_check_seconds: Interval of checks that the session of live updates still exists.
    """

    host: str = "127.0.0.1"
    port: int = 8081
    https: bool = False
    client_address: str = "peer"
    hosts: tuple[str, ...] = ()
    design_sheet: bool = False
    api_url: str = "http://127.0.0.1:8080"
    connections: int = 1_000
    address_connections: int = 200
    backend_seconds: float = 15.0
    head_seconds: float = 5.0
    idle_seconds: float = 30.0
    body_seconds: float = 30.0
    stall_seconds: float = 30.0
    drain_seconds: float = 5.0
    form_bytes: int = 1_048_576
    streams: int = 200
    session_streams: int = 6
    stream_check_seconds: float = 15.0
