"""Every setting with its default and what it may be; docs/settings.md says what each is for."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from backend import secrets
from backend.addresses import HTTP_ADDRESS
from backend.secrets import Secrets
from backend.settings import BackendSettings, ModelProvider, ObjectSettings
from edge.settings import EdgeSettings, viewer_header

# The parts state their own defaults.
_EDGE: Final = EdgeSettings()
_BACKEND: Final = BackendSettings(data=Path())

CHECK: Final = "check"
"""Key of a field's metadata: a function that returns the value to keep, or raises ValueError with what is allowed."""

TABLE: Final = "table"
"""Key of a field's metadata, for a table of the file whose names are free: as `CHECK`, of one (name, value)."""

_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):(?P<port>[0-9]{1,5})")


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
    viewer_header(value)
    return value


def deployment_id(value: str) -> str:
    """Read the name of a deployment."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", value):
        raise ValueError("must be 1 to 128 of A-Z a-z 0-9 . _ -")
    return value


def bucket_name(value: str) -> str:
    """Read the name of a bucket."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", value):
        raise ValueError("must be 3 to 63 of a-z 0-9 . -, with a letter or digit at both ends")
    return value


def key_prefix(value: str) -> str:
    """Read what keys in a bucket begin with."""
    if not re.fullmatch(r"(?:[A-Za-z0-9!_.*'()-]+/)+", value) or len(value) > 512:
        raise ValueError("must be a path that ends with a slash, such as workflows/plant-7/")
    return value


def http_url(value: str) -> str:
    """Read the address of a service."""
    if not re.fullmatch(r"https?://[A-Za-z0-9.:\[\]_-]+/?", value):
        raise ValueError("must be an http or https address, such as https://minio.example.org:9000")
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


def secret_source(name: str, value: object) -> str:
    """Read where a secret is kept; its value is none of the settings."""
    if not secrets.NAME.fullmatch(name):
        raise ValueError("must have a name of 1 to 64 of A-Z a-z 0-9 _ -")
    if isinstance(value, str):
        if value.startswith(secrets.ENVIRONMENT) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value[4:]):
            return value
        if value.startswith(secrets.FILE) and Path(value[5:]).is_absolute() and "\0" not in value:
            return value
    raise ValueError("must be env:VARIABLE or file:/path")


def model_provider(name: str, value: object) -> ModelProvider:
    """Read what agents get for the models of one provider, where they do not say it themselves."""
    if not re.fullmatch(r"[a-z0-9-]{1,64}", name):
        raise ValueError("must be named as models name their provider: openai for openai:gpt-5")
    given: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {"": value}
    checks = {
        "api_key": (secrets.NAME, "the name of a secret"),
        "base_url": (HTTP_ADDRESS, "an http or https address"),
    }
    for field_name, content in given.items():
        if field_name not in checks:
            raise ValueError("must be a table of api_key and base_url")
        pattern, meaning = checks[field_name]
        if not isinstance(content, str) or not pattern.fullmatch(content):
            raise ValueError(f"must have as {field_name} {meaning}")
    return ModelProvider(**given)


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

    sandbox: Literal["auto", "bwrap", "landlock", "none"] = field(
        default=_BACKEND.sandbox, metadata={CHECK: one_of("auto", "bwrap", "landlock", "none")}
    )
    network: Literal["none", "full"] = field(default=_BACKEND.network, metadata={CHECK: one_of("none", "full")})
    step_slots: int = field(default=_BACKEND.step_slots, metadata={CHECK: between(1, 256)})
    launch_timeout_seconds: float = field(default=_BACKEND.launch_timeout_seconds, metadata={CHECK: between(1, 86400)})


@dataclass(frozen=True, slots=True)
class Objects:
    """Where outputs, results and step logs rest."""

    store: Literal["folder", "s3"] = field(default=_BACKEND.objects.store, metadata={CHECK: one_of("folder", "s3")})
    bucket: str | None = field(default=_BACKEND.objects.bucket, metadata={CHECK: bucket_name})
    prefix: str = field(default=_BACKEND.objects.prefix, metadata={CHECK: key_prefix})
    endpoint_url: str | None = field(default=_BACKEND.objects.endpoint_url, metadata={CHECK: http_url})
    region: str | None = _BACKEND.objects.region
    sse: Literal["none", "AES256", "aws:kms"] = field(
        default=_BACKEND.objects.sse, metadata={CHECK: one_of("none", "AES256", "aws:kms")}
    )
    kms_key_id: str | None = _BACKEND.objects.kms_key_id


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one process, read once by the entry point and passed down."""

    data: Path | None = None
    deployment_id: str = field(default=_BACKEND.deployment_id, metadata={CHECK: deployment_id})
    log_level: str = field(default="warning", metadata={CHECK: one_of("debug", "info", "warning", "error")})
    edge: Edge = field(default_factory=Edge)
    backend: Backend = field(default_factory=Backend)
    runtime: Runtime = field(default_factory=Runtime)
    objects: Objects = field(default_factory=Objects)
    secrets: Mapping[str, str] = field(default_factory=dict, metadata={TABLE: secret_source})
    models: Mapping[str, ModelProvider] = field(default_factory=dict, metadata={TABLE: model_provider})


def edge_settings(settings: Settings) -> EdgeSettings:
    """Return what the edge is told."""
    edge = settings.edge
    told = {name: getattr(edge, name) for name in Edge.__slots__ if name not in {"http", "backend"}}
    return EdgeSettings(host=edge.http.host, port=edge.http.port, **told)


def backend_settings(settings: Settings, data: Path) -> BackendSettings:
    """Return what the backend is told; `data` is its folder."""
    runtime = settings.runtime
    return BackendSettings(
        # Steps are started from another folder.
        data=data.absolute(),
        deployment_id=settings.deployment_id,
        sandbox=runtime.sandbox,
        network=runtime.network,
        step_slots=runtime.step_slots,
        launch_timeout_seconds=runtime.launch_timeout_seconds,
        watch_poll_seconds=settings.backend.watch_poll_seconds,
        objects=ObjectSettings(**{name: getattr(settings.objects, name) for name in Objects.__slots__}),
        # A dict, for the process that sweeps for personal data is handed the secrets, and os.environ cannot be.
        secrets=Secrets(settings.secrets, dict(os.environ)),
        models=settings.models,
    )
