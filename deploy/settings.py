"""Every setting with its default and what it may be; docs/settings.md says what each is for."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from backend.settings import BackendSettings
from edge.settings import EdgeSettings

# The parts state their own defaults.
_EDGE: Final = EdgeSettings()
_BACKEND: Final = BackendSettings(data=Path())

CHECK: Final = "check"
"""Key of a field's metadata: a function that returns the value to keep, or raises ValueError with what is allowed."""

_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):(?P<port>[0-9]{1,5})")
_HEADER: Final = re.compile(r"header:[A-Za-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True, slots=True)
class Address:
    """Where something listens: a host and a port; port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in {"127.0.0.1", "localhost", "::1"}


DEFAULT_GRPC: Final = Address("127.0.0.1", 9090)
"""Where a backend listens, and so where everybody looks for it."""


def address(value: Address | str) -> Address:
    """Read `HOST:PORT`, as `127.0.0.1:8080` or `[::1]:8080`."""
    if isinstance(value, Address):
        return value
    match = _ADDRESS.fullmatch(value)
    if match is None or int(match["port"]) > 65535:
        raise ValueError("must be HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080")
    return Address(match["host"].strip("[]"), int(match["port"]))


def loopback_address(value: Address | str) -> Address:
    """Read `HOST:PORT` that only this machine can reach: gRPC is plain, and a call over it has no limits."""
    read = address(value)
    if not read.is_loopback:
        raise ValueError(f"must be a loopback address, such as 127.0.0.1:9090: gRPC on {read.host} would need mTLS")
    return read


def client_address(value: str) -> str:
    """Read where the caller's address comes from (DECISIONS.md, Source address)."""
    if value not in {"peer", "load_balancer"} and not _HEADER.fullmatch(value):
        raise ValueError("must be peer, load_balancer or header:<Name>")
    return value


def deployment_id(value: str) -> str:
    """Read the name of a deployment."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", value):
        raise ValueError("must be 1 to 128 of A-Z a-z 0-9 . _ -")
    return value


def one_of(*allowed: str) -> Callable[[str], str]:
    """Make a check that takes one of a few words."""

    def check(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"must be {' or '.join(allowed)}")
        return value

    return check


def between(least: float, most: float) -> Callable[[float], float]:
    """Make a check that takes numbers within bounds."""

    def check(value: float) -> float:
        if not least <= value <= most:
            raise ValueError(f"must be from {least} to {most}")
        return value

    return check


@dataclass(frozen=True, slots=True)
class Edge:
    """The HTTP side."""

    http: Address = field(default=Address(_EDGE.host, _EDGE.port), metadata={CHECK: address})
    backend: Address = field(default=DEFAULT_GRPC, metadata={CHECK: address})
    app_domain: str = _EDGE.app_domain
    client_address: str = field(default=_EDGE.client_address, metadata={CHECK: client_address})
    backend_seconds: float = field(default=_EDGE.backend_seconds, metadata={CHECK: between(0.1, 600)})
    head_seconds: float = field(default=_EDGE.head_seconds, metadata={CHECK: between(0.1, 600)})
    body_seconds: float = field(default=_EDGE.body_seconds, metadata={CHECK: between(0.1, 3600)})
    idle_seconds: float = field(default=_EDGE.idle_seconds, metadata={CHECK: between(0.1, 3600)})
    stall_seconds: float = field(default=_EDGE.stall_seconds, metadata={CHECK: between(0.1, 3600)})
    drain_seconds: float = field(default=_EDGE.drain_seconds, metadata={CHECK: between(0, 3600)})


@dataclass(frozen=True, slots=True)
class Backend:
    """The gRPC services."""

    grpc: Address = field(default=DEFAULT_GRPC, metadata={CHECK: loopback_address})
    watch_poll_seconds: float = field(default=_BACKEND.watch_poll_seconds, metadata={CHECK: between(0.05, 30)})


@dataclass(frozen=True, slots=True)
class Runtime:
    """What makes runs go."""

    sandbox: Literal["auto", "none"] = field(default=_BACKEND.sandbox, metadata={CHECK: one_of("auto", "none")})
    step_slots: int = field(default=_BACKEND.step_slots, metadata={CHECK: between(1, 256)})
    launch_timeout_seconds: float = field(default=_BACKEND.launch_timeout_seconds, metadata={CHECK: between(1, 86400)})


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one process, read once by the entry point and passed down."""

    data: Path | None = None
    deployment_id: str = field(default=_BACKEND.deployment_id, metadata={CHECK: deployment_id})
    log_level: str = field(default="warning", metadata={CHECK: one_of("debug", "info", "warning", "error")})
    edge: Edge = field(default_factory=Edge)
    backend: Backend = field(default_factory=Backend)
    runtime: Runtime = field(default_factory=Runtime)


def edge_settings(settings: Settings) -> EdgeSettings:
    """Return what the edge is told."""
    edge = settings.edge
    told = {name: getattr(edge, name) for name in Edge.__slots__ if name not in {"http", "backend"}}
    return EdgeSettings(host=edge.http.host, port=edge.http.port, **told)


def backend_settings(settings: Settings, data: Path) -> BackendSettings:
    """Return what the backend is told; `data` is its folder."""
    runtime = settings.runtime
    return BackendSettings(
        data=data,
        deployment_id=settings.deployment_id,
        sandbox=runtime.sandbox,
        step_slots=runtime.step_slots,
        launch_timeout_seconds=runtime.launch_timeout_seconds,
        watch_poll_seconds=settings.backend.watch_poll_seconds,
    )
