"""The settings of the backend, read once by the entry point and passed down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal

from backend.common.deployment_terms import CheckBounds
from backend.common.secrets import Secrets


@dataclass(frozen=True, slots=True)
class ModelProvider:
    """Defaults for agents that call models of one provider; `api_key` is the name of a secret."""

    api_key: str | None = None
    base_url: str | None = None


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Price of a model in US dollars per million tokens; without `cached`, that input costs as much as the other."""

    input: Decimal
    output: Decimal
    cached: Decimal | None = None


@dataclass(frozen=True, slots=True)
class ObjectSettings:
    """Object store of outputs, results and step logs.

    Attributes:
        store: `folder` is a folder below the data folder, `s3` a bucket of S3 or of a store that speaks as it does.
        folder: The folder where processes share one; otherwise it is below the data folder of a single process.
        bucket: Required with `s3`; this field and the fields below are unused with `folder`.
        prefix: Beginning of every key in the bucket: empty, or a path that ends with `/`.
        endpoint_url: The address of a store other than AWS.
        region: The bucket's region; otherwise the region of the process's own AWS configuration.
        sse: How the store encrypts objects at rest: `none` leaves it to the bucket.
        kms_key_id: The key for `aws:kms`; otherwise the account's own key for S3.
    """

    store: Literal["folder", "s3"] = "folder"
    folder: Path | None = None
    bucket: str | None = None
    prefix: str = ""
    endpoint_url: str | None = None
    region: str | None = None
    sse: Literal["none", "AES256", "aws:kms"] = "none"
    kms_key_id: str | None = None


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """Bounds on the files of one attempt of a step: their number, directories and depth (contract 25.9).

    Attributes:
        files: The most files that become outputs.
        directories: The most directories that a step may leave, with files or without.
        levels: The most directories above a file.
        entry_bytes: What each of those files and directories counts against the workspace beside its bytes.
    """

    files: int = 10_000
    directories: int = 10_000
    levels: int = 32
    entry_bytes: int = 4_096


@dataclass(frozen=True, slots=True)
class StepDataLimits:
    """Bounds on what one attempt of a step returns and reports (contract 25.9).

    Attributes:
        result_bytes: The largest return value, as JSON.
        json_levels: How deep a return value or an event may be nested.
        event_bytes: The most data of one progress event, as JSON.
        events: The most progress events.
        event_data_bytes: The most data of all progress events together.
        log_bytes: The most that its log keeps of the printed text and the traceback of its failure.
    """

    result_bytes: int = 8 * 1024 * 1024
    json_levels: int = 100
    event_bytes: int = 64 * 1024
    events: int = 10_000
    event_data_bytes: int = 8_000_000
    log_bytes: int = 1024 * 1024


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Bounds of one job on untrusted data, in a confined process.

    Attributes:
        seconds: Processor time of a job, beside what its size adds.
        seconds_per_mb: Processor time that each megabyte adds.
        memory_mb: Most megabytes that a job may allocate.
        processes: Jobs that run at once in this process; None is one for each processor.
    """

    seconds: float = 10.0
    seconds_per_mb: float = 10.0
    memory_mb: int = 1_024
    processes: int | None = None

    def cpu_seconds(self, size_bytes: int) -> float:
        """Returns the seconds of processor time of a job on `size_bytes` bytes."""
        return self.seconds + self.seconds_per_mb * size_bytes / 1_000_000

    def in_words(self, size_bytes: int) -> str:
        """Returns the bounds of a job on `size_bytes` bytes, in words."""
        return f"{self.cpu_seconds(size_bytes):.3g} seconds of processor time or {self.memory_mb:,} MB of memory"


@dataclass(frozen=True, slots=True)
class RedactionLimits(JobLimits):
    """Bounds of one sweep for personal data, of a file or of values (contract 25.9).

    Attributes:
        memory_mb: Most megabytes that a sweep may allocate. Arrow's allocator reserves a third at its first use.
        expanded_mb: Most megabytes that a zip or parquet file may expand to.
        model_seconds: Processor time that the local model may take in addition; the rest is swept by the rules alone.
    """

    memory_mb: int = 3_072
    expanded_mb: int = 500
    model_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class PackageSettings:
    """Packages of environments: their index, the folder where they are built, and the bounds of both.

    Attributes:
        index_url: The package index; None for none. It may hold credentials.
        extra_index_url: An index that is asked before `index_url`.
        wheels: A folder of wheels, which need no index.
        folder: Where packages are built; several processes of a machine may share it.
        resolve_seconds: Most seconds of resolving the packages of one environment.
        build_seconds: Most seconds of one build.
        unpacked_mb: Most megabytes of the packages of one environment, while they are built and after.
        memory_mb: Most megabytes of memory of one process that resolves or builds.
        keep_days: How long packages that no environment names any more are kept after their last use.
        lock_seconds: How long the same requirements get the same lock again without a look at the index.
    """

    index_url: str | None = field(default="https://pypi.org/simple", repr=False)
    extra_index_url: str | None = field(default=None, repr=False)
    wheels: Path | None = None
    folder: Path | None = None
    resolve_seconds: float = 60.0
    build_seconds: float = 900.0
    unpacked_mb: int = 4_096
    memory_mb: int = 2_048
    keep_days: float = 7.0
    lock_seconds: float = 0.0

    @property
    def available(self) -> bool:
        """Returns whether packages have any source."""
        return any((self.index_url, self.extra_index_url, self.wheels))

    @property
    def network(self) -> bool:
        """Returns whether packages come over the network."""
        return bool(self.index_url or self.extra_index_url)


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Deliveries to webhooks.

    Attributes:
        private_networks: CIDR ranges of private addresses that messages may be sent to, also unencrypted.
        timeout_seconds: Most seconds of one attempt, from the resolution of the name to the head of the answer.
        concurrent: Attempts that this process has under way at once.
    """

    private_networks: Sequence[str] = ()
    timeout_seconds: float = 10.0
    concurrent: int = 64


@dataclass(frozen=True, slots=True)
class NotificationTarget:
    """A target that operators are notified at.

    Attributes:
        kind: What the target is, which decides the form of its messages.
        url: The name of the secret with its address.
        events: The events that it gets, as `NotificationEvent` spells them.
        workflows: Names of the workflows whose events it gets; empty for all.
        sender: Address that e-mail comes from.
        to: Addresses that e-mail goes to.
        subject: Template of the first line.
        text: Template of the rest.
    """

    kind: Literal["email", "slack", "teams"]
    url: str
    events: Sequence[str]
    workflows: Sequence[str] = ()
    sender: str = ""
    to: Sequence[str] = ()
    subject: str = "[${deployment}] ${summary}"
    text: str = "${summary}\n${link}"


NOTIFICATION_EVENTS: Final = (
    "run.failed",
    "run.waiting_for_approval",
    "schedule.skipped",
    "schedule.failed",
    "certificate.expiring",
    "disk.low",
    "key.expiring",
)
"""Events that operators may be notified of."""
NOTIFICATION_NAMES: Final = (
    "deployment", "event", "summary", "workflow", "run_id", "schedule", "step", "status", "link",
)  # fmt: skip
"""Names that templates of notifications may use."""


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """Notifications of operators: targets by name, the console's address for links, and bounds as of webhooks."""

    targets: Mapping[str, NotificationTarget] = field(default_factory=dict)
    console_url: str | None = None
    private_networks: Sequence[str] = ()
    timeout_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """The provider that people may sign in with, by OpenID Connect.

    Attributes:
        issuer: Its issuer, an https address; http is for this machine alone.
        client_id: This deployment's id at the provider.
        client_secret: The name of the secret for `client_id`.
        roles: The role of each value that the claim may have; the first that a person has counts.
        role_claim: The claim with a person's groups or roles, by name or by a path with dots.
        email_domains: Domains of e-mail that may enter, in lower case; empty for all.
        label: Text of the button.
        scopes: The scopes to ask for, separated by blanks.
        timeout_seconds: Most seconds of the calls of one sign-in.
        sign_out: Whether people who sign out here are led to the provider, to sign out there as well.
    """

    issuer: str
    client_id: str
    client_secret: str
    roles: Mapping[str, str]
    role_claim: str = "groups"
    email_domains: Sequence[str] = ()
    label: str = "Sign in with your organization"
    scopes: str = "openid profile email"
    timeout_seconds: float = 10.0
    sign_out: bool = True


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """Settings of one backend process.

    Attributes:
        data: Folder of the embedded database and, where no bucket holds them, the stored objects.
        database: Address of a PostgreSQL database, as postgresql://user@host/name; None is the embedded one.
        database_connections: The most connections that this process opens to the database.
        deployment_id: The deployment that this service belongs to, where the data folder is new.
        sandbox: `auto` takes the strongest isolation that works here and refuses to start without one; `bwrap`
            and `landlock` take the named one only; `none` runs steps without isolation, on the operator's word.
        network: The most that an environment may allow its steps: `none`, or `full`, which includes this machine's own
            ports.
        mcp_hosts: Hosts of MCP servers whose tools models may call.
        mcp_private_networks: CIDR ranges of private addresses at which such servers may be, also unencrypted.
        engine: What executes runs: `local` is this process, `dbos` is worker processes on the same PostgreSQL.
        step_slots: Steps that run at once in this process.
        memory_mb: The most memory that environments may give those steps together; None takes a share of what there is.
        outputs: How many files one attempt of a step may leave.
        schema_bounds: Bounds on the validation of one value by its schema.
        drain_seconds: How long steps may go on once the process is to end.
        launch_timeout_seconds: A queued segment fails as `launch_failed` once a live worker with room did not begin it,
            or no worker lived, for so long.
        step_data: What one attempt of a step may return and report.
        watch_poll_seconds: How often a watch stream looks for changes made by other processes.
        users_limit: People who may be able to sign in to the console.
        administrators_need_passkey: Whether administrators with a password must add a passkey before anything else.
        oidc: The provider that people may sign in with, beside passwords.
        objects: Where outputs, results and step logs are stored.
        identities: What callers with a certificate may call, by the name in the certificate; see `Access`.
        secrets: The secrets that manifests may name.
        models: Defaults by provider, the part before the colon of a model's name.
        model_prices: Prices by model, in place of those of genai-prices.
        redaction: Bounds of sweeps for personal data.
        publishing: Bounds of reading a file that is published to a knowledge graph.
        packages: Packages of environments.
        webhooks: Deliveries to webhooks.
        notifications: Notifications of operators.
        workflow_metrics: Whether metrics name workflows and keys.
        schedules: Whether schedules and planned starts start runs; a deployment for one command has none.
    """

    data: Path
    database: str | None = field(default=None, repr=False)
    database_connections: int = 16
    deployment_id: str = "local"
    sandbox: Literal["auto", "bwrap", "landlock", "none"] = "auto"
    network: Literal["none", "full"] = "none"
    mcp_hosts: Sequence[str] = ()
    mcp_private_networks: Sequence[str] = ()
    engine: Literal["local", "dbos"] = "local"
    step_slots: int = 8
    memory_mb: int | None = None
    outputs: OutputLimits = OutputLimits()
    schema_bounds: CheckBounds = field(default_factory=CheckBounds)
    drain_seconds: float = 2.0
    launch_timeout_seconds: float = 300.0
    step_data: StepDataLimits = StepDataLimits()
    watch_poll_seconds: float = 0.5
    users_limit: int = 20
    administrators_need_passkey: bool = False
    oidc: IdentityProvider | None = None
    objects: ObjectSettings = ObjectSettings()
    identities: Mapping[str, Sequence[str]] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=Secrets)
    models: Mapping[str, ModelProvider] = field(default_factory=dict)
    model_prices: Mapping[str, ModelPrice] = field(default_factory=dict)
    redaction: RedactionLimits = RedactionLimits()
    publishing: JobLimits = JobLimits()
    packages: PackageSettings = field(default_factory=PackageSettings)
    webhooks: WebhookSettings = WebhookSettings()
    notifications: NotificationSettings = field(default_factory=NotificationSettings)
    workflow_metrics: bool = False
    schedules: bool = True

    @property
    def launch_timeout_ms(self) -> int:
        """`launch_timeout_seconds` in milliseconds."""
        return round(self.launch_timeout_seconds * 1000)
