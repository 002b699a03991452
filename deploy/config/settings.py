"""All settings with their defaults and checks; docs/settings.md describes each."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from backend.common.deployment_terms import CheckBounds
from backend.common.secrets import Secrets
from backend.settings import (
    BackendSettings,
    IdentityProvider,
    JobLimits,
    ModelPrice,
    ModelProvider,
    NotificationSettings,
    NotificationTarget,
    ObjectSettings,
    OutputLimits,
    PackageSettings,
    RedactionLimits,
    StepDataLimits,
    WebhookSettings,
)
from console.settings import ConsoleSettings
from deploy.config import checks, secret_references
from deploy.config.addresses import (
    DEFAULT_GRPC,
    Address,
    BackendAddress,
    GrpcAddress,
    address,
    backend_address,
    grpc_address,
)
from deploy.config.checks import (
    absolute_path,
    between,
    bucket_name,
    email_domains,
    host_name,
    host_names,
    http_url,
    identity,
    key_prefix,
    log_levels,
    model_price,
    model_provider,
    networks,
    one_edge,
    one_of,
    role_mapping,
    text,
)
from deploy.config.notifications import notification_target
from deploy.config.secret_references import (
    database_url,
    reference,
    resolve_database_url,
    resolve_index_url,
    secret_name,
    secret_source,
)
from edge.settings import NO_DOMAIN, EdgeSettings
from telemetry.log_output import AUTO, FORMATS
from telemetry.logs import DEFAULT as DEFAULT_LEVEL

# Each part states its own defaults.
_EDGE: Final = EdgeSettings()
_CONSOLE: Final = ConsoleSettings()
_BACKEND: Final = BackendSettings(data=Path())
_STEP_DATA: Final = StepDataLimits()
_PACKAGES: Final = PackageSettings()
_OIDC: Final = IdentityProvider(issuer="", client_id="", client_secret="", roles={})

# In a class body, a field hides a function of its name from later fields, so such functions are called by module.
CHECK: Final = "check"
"""Key of a field's metadata: a function that returns the value to keep, or raises ValueError with what is allowed."""

INTERNAL: Final = "internal"
"""Key of the metadata of a field that is no setting."""

TABLE: Final = "table"
"""Key of the metadata of a table with free names: like `CHECK`, for one (name, value) of the table."""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """Certificate of one side of gRPC, and the authorities that must have issued the other side's."""

    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    key_password: str | None = field(default=None, metadata={CHECK: reference})

    @property
    def given(self) -> bool:
        """Returns whether any field is set; settings that were read have all fields or none."""
        return any((self.certificate, self.key, self.key_password, self.ca))


@dataclass(frozen=True, slots=True)
class ClientTls(ServerTls):
    """Certificate of a client, and the name in the backend's certificate if it is not the address's."""

    server_name: str | None = field(default=None, metadata={CHECK: host_name})


@dataclass(frozen=True, slots=True)
class EdgeSection:
    """The HTTP API."""

    http: Address = field(default=Address(_EDGE.host, _EDGE.port), metadata={CHECK: address})
    backend: BackendAddress = field(default=DEFAULT_GRPC, metadata={CHECK: backend_address})
    backend_tls: ClientTls = field(default_factory=ClientTls)
    app_domain: str = _EDGE.app_domain
    client_address: str = field(default=_EDGE.client_address, metadata={CHECK: checks.client_address})
    traceparent: str = field(default=_EDGE.traceparent, metadata={CHECK: one_of("continue", "link")})
    processes: int = field(default=1, metadata={CHECK: one_edge})
    redis_url: str | None = field(default=None, repr=False, metadata={CHECK: secret_references.redis_url})
    connections: int = field(default=_EDGE.connections, metadata={CHECK: between(16, 100_000)})
    buffer_mb: int = field(default=_EDGE.buffer_mb, metadata={CHECK: between(8, 65_536)})
    backend_seconds: float = field(default=_EDGE.backend_seconds, metadata={CHECK: between(0.1, 600)})
    head_seconds: float = field(default=_EDGE.head_seconds, metadata={CHECK: between(0.1, 600)})
    body_seconds: float = field(default=_EDGE.body_seconds, metadata={CHECK: between(0.1, 3600)})
    idle_seconds: float = field(default=_EDGE.idle_seconds, metadata={CHECK: between(0.1, 3600)})
    stall_seconds: float = field(default=_EDGE.stall_seconds, metadata={CHECK: between(0.1, 3600)})
    held_per_key: int = field(default=_EDGE.held_per_key, metadata={CHECK: between(1, 100_000)})
    drain_seconds: float = field(default=_EDGE.drain_seconds, metadata={CHECK: between(0, 3600)})


@dataclass(frozen=True, slots=True)
class Serve:
    """Settings of `serve`, which starts all parts."""

    edges: int = field(default=0, metadata={CHECK: one_edge})


@dataclass(frozen=True, slots=True)
class ConsoleSection:
    """The web console."""

    listen: Address | None = field(default=None, metadata={CHECK: address})
    https: bool | None = None
    backend: BackendAddress = field(default=DEFAULT_GRPC, metadata={CHECK: backend_address})
    backend_tls: ClientTls = field(default_factory=ClientTls)
    client_address: str = field(default=_CONSOLE.client_address, metadata={CHECK: checks.client_address})
    hosts: tuple[str, ...] | None = field(default=None, metadata={CHECK: host_names})
    design_sheet: bool = _CONSOLE.design_sheet


@dataclass(frozen=True, slots=True)
class BackendSection:
    """The gRPC services."""

    grpc: GrpcAddress = field(default=DEFAULT_GRPC, metadata={CHECK: grpc_address})
    tls: ServerTls = field(default_factory=ServerTls)
    database: str | None = field(default=_BACKEND.database, metadata={CHECK: database_url})
    database_connections: int = field(default=_BACKEND.database_connections, metadata={CHECK: between(2, 1000)})
    watch_poll_seconds: float = field(default=_BACKEND.watch_poll_seconds, metadata={CHECK: between(0.05, 30)})
    users_limit: int = field(default=_BACKEND.users_limit, metadata={CHECK: between(1, 10_000)})
    administrators_need_passkey: bool = _BACKEND.administrators_need_passkey


@dataclass(frozen=True, slots=True)
class Admin:
    """The administrator's commands."""

    backend_tls: ClientTls = field(default_factory=ClientTls)


@dataclass(frozen=True, slots=True)
class RuntimeSection:
    """Limits and layers of the execution of runs."""

    sandbox: Literal["auto", "bwrap", "landlock", "none"] = field(
        default=_BACKEND.sandbox, metadata={CHECK: one_of("auto", "bwrap", "landlock", "none")}
    )
    network: Literal["none", "full"] = field(default=_BACKEND.network, metadata={CHECK: one_of("none", "full")})
    mcp_hosts: tuple[str, ...] | None = field(default=None, metadata={CHECK: host_names})
    mcp_private_networks: tuple[str, ...] | None = field(default=None, metadata={CHECK: networks})
    engine: Literal["local", "dbos"] = field(default=_BACKEND.engine, metadata={CHECK: one_of("local", "dbos")})
    drain_seconds: float = field(default=_BACKEND.drain_seconds, metadata={CHECK: between(0, 86400)})
    step_slots: int = field(default=_BACKEND.step_slots, metadata={CHECK: between(1, 256)})
    memory_mb: int | None = field(default=_BACKEND.memory_mb, metadata={CHECK: between(1_769, 16_777_216)})
    output_files: int = field(default=_BACKEND.outputs.files, metadata={CHECK: between(1, 30_000)})
    output_directories: int = field(default=_BACKEND.outputs.directories, metadata={CHECK: between(1, 100_000)})
    output_levels: int = field(default=_BACKEND.outputs.levels, metadata={CHECK: between(1, 64)})
    output_entry_bytes: int = field(default=_BACKEND.outputs.entry_bytes, metadata={CHECK: between(1_024, 1_048_576)})
    schema_cpu_seconds: float = field(default=_BACKEND.schema_bounds.cpu_seconds, metadata={CHECK: between(0.1, 3600)})
    schema_memory_mb: int = field(default=_BACKEND.schema_bounds.memory_mb, metadata={CHECK: between(16, 65_536)})
    launch_timeout_seconds: float = field(default=_BACKEND.launch_timeout_seconds, metadata={CHECK: between(1, 86400)})
    result_bytes: int = field(default=_STEP_DATA.result_bytes, metadata={CHECK: between(1_024, 31_457_280)})
    json_levels: int = field(default=_STEP_DATA.json_levels, metadata={CHECK: between(1, 1_000)})
    event_bytes: int = field(default=_STEP_DATA.event_bytes, metadata={CHECK: between(256, 1_048_576)})
    events: int = field(default=_STEP_DATA.events, metadata={CHECK: between(0, 1_000_000)})
    event_data_bytes: int = field(default=_STEP_DATA.event_data_bytes, metadata={CHECK: between(0, 1_000_000_000)})
    log_bytes: int = field(default=_STEP_DATA.log_bytes, metadata={CHECK: between(1_024, 67_108_864)})


@dataclass(frozen=True, slots=True)
class Redaction:
    """Bounds of a sweep for personal data."""

    seconds: float = field(default=_BACKEND.redaction.seconds, metadata={CHECK: between(0.1, 86400)})
    seconds_per_mb: float = field(default=_BACKEND.redaction.seconds_per_mb, metadata={CHECK: between(0.1, 3600)})
    memory_mb: int = field(default=_BACKEND.redaction.memory_mb, metadata={CHECK: between(512, 1_048_576)})
    expanded_mb: int = field(default=_BACKEND.redaction.expanded_mb, metadata={CHECK: between(1, 1_048_576)})
    model_seconds: float = field(default=_BACKEND.redaction.model_seconds, metadata={CHECK: between(0, 86400)})
    processes: int | None = field(default=_BACKEND.redaction.processes, metadata={CHECK: between(1, 256)})


@dataclass(frozen=True, slots=True)
class Publishing:
    """Bounds of reading a file that is published to a knowledge graph."""

    seconds: float = field(default=_BACKEND.publishing.seconds, metadata={CHECK: between(0.1, 86400)})
    seconds_per_mb: float = field(default=_BACKEND.publishing.seconds_per_mb, metadata={CHECK: between(0.1, 3600)})
    memory_mb: int = field(default=_BACKEND.publishing.memory_mb, metadata={CHECK: between(128, 1_048_576)})
    processes: int | None = field(default=_BACKEND.publishing.processes, metadata={CHECK: between(1, 256)})


@dataclass(frozen=True, slots=True)
class Packages:
    """Python packages of environments."""

    index_url: str | None = field(default=_PACKAGES.index_url, metadata={CHECK: secret_references.index_url})
    extra_index_url: str | None = field(
        default=_PACKAGES.extra_index_url, metadata={CHECK: secret_references.index_url}
    )
    wheels: Path | None = field(default=_PACKAGES.wheels, metadata={CHECK: absolute_path})
    folder: Path | None = field(default=_PACKAGES.folder, metadata={CHECK: absolute_path})
    resolve_seconds: float = field(default=_PACKAGES.resolve_seconds, metadata={CHECK: between(1, 600)})
    build_seconds: float = field(default=_PACKAGES.build_seconds, metadata={CHECK: between(1, 86400)})
    unpacked_mb: int = field(default=_PACKAGES.unpacked_mb, metadata={CHECK: between(16, 1_048_576)})
    memory_mb: int = field(default=_PACKAGES.memory_mb, metadata={CHECK: between(256, 65_536)})
    keep_days: float = field(default=_PACKAGES.keep_days, metadata={CHECK: between(1, 3650)})


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Deliveries to webhooks."""

    private_networks: tuple[str, ...] | None = field(default=None, metadata={CHECK: networks})
    timeout_seconds: float = field(default=_BACKEND.webhooks.timeout_seconds, metadata={CHECK: between(1, 30)})
    concurrent: int = field(default=_BACKEND.webhooks.concurrent, metadata={CHECK: between(1, 1024)})


@dataclass(frozen=True, slots=True)
class Oidc:
    """The identity provider by which people may sign in to the console."""

    issuer: str | None = field(default=None, metadata={CHECK: checks.issuer})
    client_id: str | None = field(default=None, metadata={CHECK: text(256)})
    client_secret: str | None = field(default=None, metadata={CHECK: secret_name})
    roles: Mapping[str, str] | None = field(default=None, metadata={CHECK: role_mapping})
    role_claim: str = field(default=_OIDC.role_claim, metadata={CHECK: text(256)})
    email_domains: tuple[str, ...] | None = field(default=None, metadata={CHECK: email_domains})
    label: str = field(default=_OIDC.label, metadata={CHECK: text(60)})
    scopes: str = field(default=_OIDC.scopes, metadata={CHECK: checks.scopes})
    timeout_seconds: float = field(default=_OIDC.timeout_seconds, metadata={CHECK: between(1, 12)})
    sign_out: bool = _OIDC.sign_out


@dataclass(frozen=True, slots=True)
class Objects:
    """Storage of outputs, results and step logs."""

    store: Literal["folder", "s3"] = field(default=_BACKEND.objects.store, metadata={CHECK: one_of("folder", "s3")})
    folder: Path | None = field(default=_BACKEND.objects.folder, metadata={CHECK: absolute_path})
    bucket: str | None = field(default=_BACKEND.objects.bucket, metadata={CHECK: bucket_name})
    prefix: str = field(default=_BACKEND.objects.prefix, metadata={CHECK: key_prefix})
    endpoint_url: str | None = field(default=_BACKEND.objects.endpoint_url, metadata={CHECK: http_url})
    region: str | None = _BACKEND.objects.region
    sse: Literal["none", "AES256", "aws:kms"] = field(
        default=_BACKEND.objects.sse, metadata={CHECK: one_of("none", "AES256", "aws:kms")}
    )
    kms_key_id: str | None = _BACKEND.objects.kms_key_id


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics endpoint of the process."""

    listen: Address | None = field(default=None, metadata={CHECK: address})
    keys_and_workflows: bool = False


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """Sources of settings: the file, and the options of the command line by setting name."""

    config: Path | None = None
    given: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Traces:
    """The export of traces."""

    endpoint: str | None = field(default=None, metadata={CHECK: http_url})


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one process, read once by the entry point and passed down."""

    data: Path | None = None
    deployment_id: str = field(default=_BACKEND.deployment_id, metadata={CHECK: checks.deployment_id})
    log_level: str = field(default=DEFAULT_LEVEL, metadata={CHECK: log_levels})
    log_format: str = field(default=AUTO, metadata={CHECK: one_of(*FORMATS)})
    serve: Serve = field(default_factory=Serve)
    edge: EdgeSection = field(default_factory=EdgeSection)
    console: ConsoleSection = field(default_factory=ConsoleSection)
    backend: BackendSection = field(default_factory=BackendSection)
    admin: Admin = field(default_factory=Admin)
    runtime: RuntimeSection = field(default_factory=RuntimeSection)
    redaction: Redaction = field(default_factory=Redaction)
    publishing: Publishing = field(default_factory=Publishing)
    packages: Packages = field(default_factory=Packages)
    webhooks: Webhooks = field(default_factory=Webhooks)
    oidc: Oidc = field(default_factory=Oidc)
    objects: Objects = field(default_factory=Objects)
    metrics: Metrics = field(default_factory=Metrics)
    traces: Traces = field(default_factory=Traces)
    identities: Mapping[str, Sequence[str]] = field(default_factory=dict, metadata={TABLE: identity})
    secrets: Mapping[str, str] = field(default_factory=dict, metadata={TABLE: secret_source})
    models: Mapping[str, ModelProvider] = field(default_factory=dict, metadata={TABLE: model_provider})
    model_prices: Mapping[str, ModelPrice] = field(default_factory=dict, metadata={TABLE: model_price})
    notifications: Mapping[str, NotificationTarget] = field(default_factory=dict, metadata={TABLE: notification_target})
    source: SettingsSource = field(default_factory=SettingsSource, repr=False, compare=False, metadata={INTERNAL: True})


def edge_settings(settings: Settings) -> EdgeSettings:
    """Returns the settings of the edge."""
    edge = settings.edge
    same = {name: getattr(edge, name) for name in EdgeSection.__slots__ if name in EdgeSettings.__slots__}
    return EdgeSettings(
        host=edge.http.host,
        port=edge.http.port,
        # The settings of an edge alone may name no limit, and the default may differ from the backend's.
        deployment_id="" if settings.deployment_id == _BACKEND.deployment_id else settings.deployment_id,
        key_metrics=settings.metrics.keys_and_workflows,
        **same,
    )


def console_settings(settings: Settings, listen: Address) -> ConsoleSettings:
    """Returns the settings of a console that listens on `listen`."""
    console = settings.console
    return ConsoleSettings(
        host=listen.host,
        port=listen.port,
        # Only this machine reaches a console on loopback, unless a proxy in front of it speaks https.
        https=not listen.is_local if console.https is None else console.https,
        client_address=console.client_address,
        hosts=console.hosts or (),
        design_sheet=console.design_sheet,
        api_url=_api_url(settings.edge),
    )


def _console_url(console: ConsoleSection) -> str | None:
    """Returns the URL of the console for people, None where the settings do not tell it."""
    if console.hosts and console.https is not False:
        return f"https://{console.hosts[0]}"
    if console.listen is None:
        return None
    https = not console.listen.is_local if console.https is None else console.https
    return f"{'https' if https else 'http'}://{console.listen}"


def _api_url(edge: EdgeSection) -> str:
    """Returns the URL of the HTTP API for callers: its domain, or without one the address that it listens on."""
    return f"http://{edge.http}" if edge.app_domain == NO_DOMAIN else f"https://{edge.app_domain}"


def backend_settings(settings: Settings, data: Path) -> BackendSettings:
    """Returns the settings of a backend with its data in `data`."""
    runtime = settings.runtime
    environment = dict(os.environ)
    return BackendSettings(
        # Absolute, because steps run in another working directory.
        data=data.absolute(),
        database=resolve_database_url(settings.backend.database, environment),
        database_connections=settings.backend.database_connections,
        deployment_id=settings.deployment_id,
        sandbox=runtime.sandbox,
        network=runtime.network,
        mcp_hosts=runtime.mcp_hosts or (),
        mcp_private_networks=runtime.mcp_private_networks or (),
        engine=runtime.engine,
        drain_seconds=runtime.drain_seconds,
        step_slots=runtime.step_slots,
        memory_mb=runtime.memory_mb,
        outputs=OutputLimits(**{name: getattr(runtime, f"output_{name}") for name in OutputLimits.__slots__}),
        schema_bounds=CheckBounds(runtime.schema_cpu_seconds, runtime.schema_memory_mb),
        launch_timeout_seconds=runtime.launch_timeout_seconds,
        step_data=StepDataLimits(**{name: getattr(runtime, name) for name in StepDataLimits.__slots__}),
        watch_poll_seconds=settings.backend.watch_poll_seconds,
        users_limit=settings.backend.users_limit,
        administrators_need_passkey=settings.backend.administrators_need_passkey,
        oidc=identity_provider(settings.oidc),
        objects=ObjectSettings(**{name: getattr(settings.objects, name) for name in Objects.__slots__}),
        identities=settings.identities,
        secrets=Secrets(settings.secrets, environment),
        models=settings.models,
        model_prices=settings.model_prices,
        redaction=RedactionLimits(**{name: getattr(settings.redaction, name) for name in Redaction.__slots__}),
        publishing=JobLimits(**{name: getattr(settings.publishing, name) for name in Publishing.__slots__}),
        packages=_package_settings(settings.packages, environment),
        webhooks=WebhookSettings(
            private_networks=settings.webhooks.private_networks or (),
            timeout_seconds=settings.webhooks.timeout_seconds,
            concurrent=settings.webhooks.concurrent,
        ),
        notifications=NotificationSettings(
            targets=settings.notifications,
            console_url=_console_url(settings.console),
            private_networks=settings.webhooks.private_networks or (),
            timeout_seconds=settings.webhooks.timeout_seconds,
        ),
        workflow_metrics=settings.metrics.keys_and_workflows,
    )


def identity_provider(oidc: Oidc) -> IdentityProvider | None:
    """Returns the identity provider by which people may sign in, None if the settings name none."""
    if oidc.issuer is None or oidc.client_id is None or oidc.client_secret is None or oidc.roles is None:
        return None
    given = {name: getattr(oidc, name) for name in Oidc.__slots__}
    return IdentityProvider(**{**given, "email_domains": oidc.email_domains or ()})


def _package_settings(packages: Packages, environment: Mapping[str, str]) -> PackageSettings:
    given = {name: getattr(packages, name) for name in Packages.__slots__}
    for name in ("index_url", "extra_index_url"):
        given[name] = resolve_index_url(f"packages.{name}", given[name], environment)
    return PackageSettings(**given)
