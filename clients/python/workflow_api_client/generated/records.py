"""Records that the API answers with, as dataclasses. Made from the protos by `make generate`; never edited by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypedDict, Union


HealthStatus = Literal["ok", "disabled"]
"""Whether the API accepts keys on this deployment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health record; nothing else is told without a key."""

    status: HealthStatus
    """`ok` or `disabled`."""
    deployment_id: str
    """The deployment."""
    api_version: str
    """The contract date."""


Scope = Literal["workflows:read", "runs:create", "runs:read", "outputs:read", "runs:delete"]
"""What an API key may do. The spelling is the value on the wire of the JSON API."""

WorkflowAccessMode = Literal["all_active", "explicit"]
"""How the workflows are chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowAccess:
    """Which workflows a key may run."""

    mode: WorkflowAccessMode
    """`all_active` or `explicit`."""
    workflow_ids: list[str]
    """The workflows when `mode` is `explicit`, at most 50; empty for `all_active`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """The calling key and its limits."""

    key_id: str
    """The key id, `ak_` plus 12 hexadecimal characters."""
    name: str
    """Name given by the administrator."""
    deployment_id: str
    """The deployment that the key is bound to."""
    scopes: list[Scope]
    """What the key may do."""
    workflow_access: WorkflowAccess
    """Which workflows it may run."""
    expires_at: datetime
    """When it stops working."""
    rate_limit_rpm: int
    """Requests a minute, all routes together."""
    daily_run_quota: int
    """Runs that may be started in a UTC day."""
    quota_used_today: int
    """Runs started in the present UTC day."""
    max_concurrent_runs: int
    """Runs that may be in flight."""
    active_runs: int
    """Runs in flight: queued, running and waiting for approval."""


WorkflowStatus = Literal["draft", "active", "inactive"]
"""Status of a workflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether a workflow can run, and what keeps it from running."""

    ready: bool
    """True when nothing keeps it from running."""
    reasons: list[str]
    """What keeps it from running, each worded for a person."""


PiiMode = Literal["off", "detect", "redact"]
"""What redaction does, from the loosest to the tightest."""

PiiStage = Literal["inputs", "steps", "outputs"]
"""What a policy covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PiiPolicy:
    """How personal data is found and what becomes of it."""

    mode: PiiMode
    """What redaction does; a tighter policy has a later one of `off`, `detect`, `redact`."""
    categories: list[str] | Literal["all"]
    """`all`, or a list of entity types as `EMAIL_ADDRESS`; a tighter policy has all of these and perhaps more."""
    stages: list[PiiStage]
    """The stages that are swept; a tighter policy has all of these and perhaps more."""
    min_confidence: float
    """Least confidence at which something counts as personal data: 0.5 to 1 in steps of 0.05. A tighter policy has
    no higher one."""
    model: str | None
    """Model that is asked beside the rules: `local`, or a language model as `openai:gpt-5`; null for none."""
    max_model_calls: int
    """Most calls of the model in a run; a tighter policy allows no fewer."""
    parquet_sample_rows: int
    """Rows of a parquet file that are read; a tighter policy reads no fewer."""
    phone_regions: list[str]
    """Countries, by ISO 3166 codes as `ES`, whose national phone numbers are found in every document; a tighter
    policy has all of these and perhaps more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowLinks:
    """Paths of a workflow."""

    self: str
    """The workflow."""
    parameters: str
    """Its parameters."""
    runs: str
    """Where to start a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow as a caller sees it."""

    workflow_id: str
    """The workflow."""
    name: str
    """Name, at most 80 characters."""
    description: str
    """Description, at most 1,000 characters."""
    status: WorkflowStatus
    """`active`, `draft` or `inactive`."""
    version: int
    """Number of the active version; of the newest where none was ever active."""
    readiness: Readiness
    """Whether it can run."""
    max_run_hours: float | None
    """Time limit of a run in hours, time spent waiting for approvals included; null means none."""
    parallel_steps: int
    """Steps that run at once, 1 to 10."""
    pii_policy: PiiPolicy
    """The PII policy."""
    result_schema_version: str | None
    """Version label of the result schema."""
    created_at: datetime
    """When the workflow was first saved."""
    updated_at: datetime
    """When it last changed."""
    links: WorkflowLinks
    """Paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListWorkflowsResponse:
    """A page of workflows."""

    items: list[Workflow]
    """The workflows."""
    next_cursor: str | None
    """Cursor of the next page; null on the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A declared run input."""

    name: str
    """Name, matches `^[a-z][a-z0-9_]{0,63}$`."""
    type: str
    """`string`, `integer`, `number`, `boolean`, `date`, `json` or `s3_prefix`."""
    description: str | None
    """What it is for."""
    required: bool
    """Whether a start must give it."""
    default: Any
    """Value when a start does not give it."""
    enum: list[Any] | None = None
    """Allowed values."""
    minimum: Any = None
    """Least value."""
    maximum: Any = None
    """Greatest value."""
    min_length: int | None = None
    """Fewest characters."""
    max_length: int | None = None
    """Most characters."""
    pattern: str | None = None
    """Regular expression in the syntax of RE2 that the whole value matches, as if it stood between `^` and `$`."""
    connector_id: str | None = None
    """Connector that reads an `s3_prefix`; its value is `s3://bucket/prefix/`."""
    max_objects: int | None = None
    """Most objects of an `s3_prefix`."""
    max_bytes: int | None = None
    """Most bytes of an `s3_prefix`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListParametersResponse:
    """The declared run inputs."""

    workflow_id: str
    """The workflow."""
    version: int
    """The version that declares them."""
    parameters: list[Parameter]
    """The parameters in the order of the declaration."""


RunStatus = Literal["queued", "running", "waiting_for_approval", "completed", "failed", "cancelled"]
"""Status of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts:
    """Counts of a run's parts."""

    steps_total: int
    """Steps of the workflow version."""
    steps_completed: int
    """Steps that completed."""
    steps_failed: int
    """Steps that failed."""
    steps_skipped: int
    """Steps that were skipped."""
    approvals_pending: int
    """Approvals that wait for a person."""
    outputs: int
    """Promoted outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLinks:
    """Paths of a run."""

    self: str
    """The run."""
    steps: str
    """Its steps."""
    events: str
    """Its events."""
    approvals: str
    """Its approvals."""
    outputs: str
    """Its outputs."""
    outputs_zip: str
    """All outputs as one zip."""
    pii_redaction: str
    """The redaction manifest."""
    cancel: str
    """Where to cancel it."""
    data: str
    """Where to erase its data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """A run in short."""

    run_id: str
    """The run."""
    workflow_id: str
    """Its workflow."""
    workflow_name: str
    """The workflow's name when the run was started."""
    version: int
    """The workflow version that runs."""
    status: RunStatus
    """Where it stands."""
    created_at: datetime
    """When it was recorded."""
    started_at: datetime | None
    """When its first segment began; null while it is queued."""
    finished_at: datetime | None
    """When it completed, failed or was cancelled; null before."""
    duration_ms: int | None
    """finished_at - started_at in milliseconds; null before the end, and where it never started."""
    client_reference: str | None
    """The caller's own reference."""
    labels: dict[str, str]
    """The caller's own labels; `{}` when none were given."""
    counts: RunCounts
    """Counts of its parts."""
    warnings: list[str]
    """Each names an optional stage that did not land while the run still completed, or something that was left out:
    files past the bounds of a step, files withheld because they could not be swept for personal data, a summary
    that was too long."""
    completed_with_warnings: bool
    """True only when completed with at least one warning."""
    links: RunLinks
    """Paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputObject:
    """An object that was copied in."""

    key: str
    """Its key in the bucket."""
    size_bytes: int
    """Bytes."""
    etag: str
    """Entity tag of the object, without quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputsManifestEntry:
    """What was copied in for one `s3_prefix` parameter."""

    parameter: str
    """The parameter."""
    connector_id: str
    """The connector that read it."""
    uri: str
    """Its value, `s3://bucket/prefix/`."""
    objects: int
    """Objects copied in."""
    bytes: int
    """Their bytes."""
    items: list[InputObject]
    """The first 1,000 of the objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError:
    """Why a run or a step failed, or why a result is not given."""

    code: str
    """Of a run that failed: `input_materialisation_failed`, `node_failed`, `wall_clock_limit_reached`,
    `invariant_blocked`, `launch_failed`, `orphaned` or `license_unavailable`. Of a step: `node_failed`, also
    where it went past a bound of steps, which the message names, or `invariant_blocked`. Of a result:
    `result_schema_mismatch`."""
    message: str | None
    """For a person; null once the run's data has been erased."""


TriggeredBy = Literal["api_key", "console", "schedule"]
"""What started a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultDownload:
    """Where to download something."""

    path: str
    """Absolute path on the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultJson:
    """The result as a file."""

    size_bytes: int
    """Bytes."""
    sha256: str
    """SHA-256 in hexadecimal."""
    download: ResultDownload
    """Where to download it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionStage:
    """State of one redaction stage."""

    stage: str
    """`inputs`, `steps` or `outputs`."""
    status: str
    """`pending`, `completed`, `failed`, or `skipped` where the run ended before there was anything to sweep."""
    files: int
    """Files swept."""
    values: int
    """Values found."""
    model_calls: int
    """Calls of a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PiiRedaction:
    """The redaction manifest: counts only, never a value."""

    run_id: str
    """The run."""
    mode: str
    """`detect` or `redact`."""
    model: str | None
    """Model used, where one was."""
    stages: list[RedactionStage]
    """The stages."""
    categories: dict[str, int]
    """Values found by entity type."""
    counts: dict[str, int]
    """Totals by name, as `values`, `files`, `withheld_files`, `model_calls`; sums over the stages, so that a value
    found in two stages counts twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUsage:
    """Use of models by a run's own steps: by every attempt, as far as it is known."""

    model_calls: int
    """Calls that a model answered."""
    input_tokens: int
    """Tokens of their input."""
    output_tokens: int
    """Tokens of their output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(RunSummary):
    """A run in full."""

    parameters: dict[str, Any] | None
    """Effective parameter values by name, defaults included."""
    input_text: str | None
    """Text given at the start."""
    inputs_manifest: list[InputsManifestEntry] | None
    """What was copied in, one entry per `s3_prefix` parameter with a value; null before, and where there is none."""
    error: RunError | None = None
    """Present only when the run failed."""
    max_run_hours: float | None
    """Time limit in hours, time spent waiting for approvals included; null means none."""
    triggered_by: TriggeredBy
    """What started it."""
    key_id: str | None
    """The key that started it; null where none did."""
    summary_markdown: str | None
    """Summary written by the result step, in Markdown, up to 262,144 bytes; a longer one is null, and a warning says
    so. Null until the final redaction sweep is done."""
    result: Any
    """The result step's return value, JSON of any kind up to 262,144 bytes; a larger one, of up to 8 MiB, is fetched
    through `result_json.download.path`. It has at most 100 levels of nesting. Null until the final redaction
    sweep is done."""
    result_error: RunError | None
    """Why `result` is null although there is one: it does not fit the version's schema, or could not be judged by it
    within 5 seconds of processor time and 256 MB of memory, which the message says. The run still completed, and
    the value stays available as the output `result.json`."""
    result_schema_version: str | None
    """Version label of the result schema."""
    result_json: ResultJson | None
    """The result as a file, whenever one exists and the final redaction sweep is done."""
    data_purged_at: datetime | None
    """When the run's data was erased; null before."""
    pii_redaction: PiiRedaction | None
    """The redaction manifest, as `GET /runs/{run_id}/pii-redaction` gives it; null when the policy was off."""
    pii_policy: PiiPolicy
    """The effective PII policy, the override included."""
    resumed_from: str | None
    """The run that it took over from; null for a run that was not resumed."""
    resumed_by: str | None
    """The newest run that took over from it; null where none did."""
    parent_run_id: str | None
    """The run of which a step started it, as a child; null for a run that no other run started."""
    usage: RunUsage
    """Use of models by its own steps, without those of its children; zeros where none called a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRunsResponse:
    """A page of runs."""

    items: list[RunSummary]
    """The runs."""
    next_cursor: str | None
    """Cursor of the next page; null on the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A node parked on a human gate."""

    approval_id: str
    """The approval."""
    step: str
    """Handle of the step."""
    title: str
    """What is asked."""
    instructions: str | None
    """What to look at."""
    segment_id: str
    """The runtime segment in which the run was parked on it."""
    requested_at: datetime
    """When it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRunApprovalsResponse:
    """The parked nodes of a run."""

    items: list[Approval]
    """The nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRunResponse:
    """The run will end, or has ended."""

    run_id: str
    """The run."""
    status: RunStatus
    """Where it stands now."""
    cancel_requested_at: datetime
    """When its end was first asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseRunDataResponse:
    """The data cannot be reached any more."""

    run_id: str
    """The run."""
    data_purged_at: datetime
    """When it was erased."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of the run's durable log; it never changes."""

    id: str
    """Segment and number, `<segment_id>:<seq>`: where `events(after=...)` continues."""
    seq: int
    """1, 2, 3 … within the segment, without gaps."""
    type: str
    """One of `segment.started`, `segment.ended`, `run.started`, `run.completed`, `run.failed`, `run.cancelled`,
    `inputs.materialised`, `step.started`, `step.progress`, `step.completed`, `step.failed`, `step.skipped`,
    `approval.requested`, `approval.reminded`, `approval.expired`, `approval.decided`, `output.promoted`,
    `redaction.started`, `redaction.completed`, `publish.started`, `publish.completed` and `warning`."""
    at: datetime
    """When it happened."""
    step: str | None
    """Handle of the step, where it is about one."""
    data: Mapping[str, Any]
    """Particulars of the type, at most 65,536 bytes with at most 100 levels of nesting."""


class SegmentStartedData(TypedDict):
    """Data of `segment.started`."""

    ordinal: int
    """1 for the first segment of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentStartedEvent(Event):
    """A runtime segment began."""

    type: Literal["segment.started"]
    data: SegmentStartedData


class NoData(TypedDict):
    """Nothing beyond the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentEndedEvent(Event):
    """The runtime segment ended; no event follows in it."""

    type: Literal["segment.ended"]
    data: NoData


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStartedEvent(Event):
    """The run began."""

    type: Literal["run.started"]
    data: NoData


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCompletedEvent(Event):
    """The run completed."""

    type: Literal["run.completed"]
    data: NoData


class RunErrorData(TypedDict):
    """Why a run or a step failed, or why a result is not given."""

    code: str
    """Of a run that failed: `input_materialisation_failed`, `node_failed`, `wall_clock_limit_reached`,
    `invariant_blocked`, `launch_failed`, `orphaned` or `license_unavailable`. Of a step: `node_failed`, also
    where it went past a bound of steps, which the message names, or `invariant_blocked`. Of a result:
    `result_schema_mismatch`."""
    message: str | None
    """For a person; null once the run's data has been erased."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailedEvent(Event):
    """The run failed."""

    type: Literal["run.failed"]
    data: RunErrorData


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCancelledEvent(Event):
    """The run was cancelled."""

    type: Literal["run.cancelled"]
    data: NoData


class InputsMaterialisedData(TypedDict):
    """Data of `inputs.materialised`."""

    objects: int
    """Objects of all parameters together."""
    bytes: int
    """Their bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputsMaterialisedEvent(Event):
    """The objects of all `s3_prefix` parameters have been copied in."""

    type: Literal["inputs.materialised"]
    data: InputsMaterialisedData


class StepStartedData(TypedDict):
    """Data of `step.started`."""

    attempt: int
    """Number of the attempt, from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStartedEvent(Event):
    """An attempt of a step began."""

    type: Literal["step.started"]
    data: StepStartedData


class StepProgressData(TypedDict):
    """Data of `step.progress`: what the agent gave."""

    message: str
    """The agent's message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProgressEvent(Event):
    """A step reports progress."""

    type: Literal["step.progress"]
    data: StepProgressData


class StepCompletedData(TypedDict):
    """Data of `step.completed`."""

    outputs: int
    """Files that the step left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompletedEvent(Event):
    """A step completed."""

    type: Literal["step.completed"]
    data: StepCompletedData


class StepFailedData(TypedDict):
    """Data of `step.failed`."""

    code: str
    """`node_failed`."""
    type: str
    """Kind of failure, as the name of the exception that the agent raised."""
    message: str
    """For a person."""
    attempt: int
    """Number of the attempt, from 1."""
    retry_at: str | None
    """When the next attempt begins; null where this was the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailedEvent(Event):
    """An attempt of a step failed."""

    type: Literal["step.failed"]
    data: StepFailedData


class StepSkippedData(TypedDict):
    """Data of `step.skipped`."""

    reason: str
    """Which step it needs, and where that one stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSkippedEvent(Event):
    """A step will not run: its condition is false, or a step that it needs failed or was skipped."""

    type: Literal["step.skipped"]
    data: StepSkippedData


class ApprovalRequestedData(TypedDict):
    """Data of `approval.requested`."""

    approval_id: str
    """The approval."""
    title: str
    """What is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequestedEvent(Event):
    """A person is asked for an approval."""

    type: Literal["approval.requested"]
    data: ApprovalRequestedData


ApprovalDecision = Literal["approved", "rejected"]
"""What a person decided."""


class _ApprovalDecidedDataAlways(TypedDict):
    approval_id: str
    """The approval."""
    decision: ApprovalDecision
    """What was decided."""


class ApprovalDecidedData(_ApprovalDecidedDataAlways, total=False):
    """Data of `approval.decided`."""

    comment: str | None
    """The comment of the person, null for none, `deadline` where nobody decided it in time; absent where it could
    not be swept for personal data."""
    form: dict[str, Any] | None
    """Values of the form, null for none; absent where the approval has no form, and where they could not be swept
    for personal data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalDecidedEvent(Event):
    """A person decided an approval, or its deadline rejected it."""

    type: Literal["approval.decided"]
    data: ApprovalDecidedData


class _OutputPromotedDataAlways(TypedDict):
    output_id: str
    """The output."""


class OutputPromotedData(_OutputPromotedDataAlways, total=False):
    """Data of `output.promoted`. Of a run that is swept for personal data only the id is given: names may hold some."""

    path: str
    """`<step>/<relative path>`."""
    size_bytes: int
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPromotedEvent(Event):
    """A file of a step became an output of the run."""

    type: Literal["output.promoted"]
    data: OutputPromotedData


class RedactionStartedData(TypedDict):
    """Data of `redaction.started`."""

    stage: PiiStage
    """The stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionStartedEvent(Event):
    """A redaction stage began."""

    type: Literal["redaction.started"]
    data: RedactionStartedData


class RedactionCompletedData(TypedDict):
    """Data of `redaction.completed`."""

    stage: PiiStage
    """The stage."""
    files: int
    """Files swept."""
    values: int
    """Values found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionCompletedEvent(Event):
    """A redaction stage ended."""

    type: Literal["redaction.completed"]
    data: RedactionCompletedData


class PublishStartedData(TypedDict):
    """Data of `publish.started`."""

    knowledge_graph: str
    """Name of the knowledge graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishStartedEvent(Event):
    """A publication began."""

    type: Literal["publish.started"]
    data: PublishStartedData


class PublishCompletedData(TypedDict):
    """Data of `publish.completed`."""

    knowledge_graph: str
    """Name of the knowledge graph."""
    graph: str
    """Name of the graph in it that holds what was published."""
    triples: int
    """Triples in that graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishCompletedEvent(Event):
    """A publication landed."""

    type: Literal["publish.completed"]
    data: PublishCompletedData


class _WarningDataAlways(TypedDict):
    message: str
    """For a person; most of these stand in the run's `warnings` too."""


class WarningData(_WarningDataAlways, total=False):
    """Data of `warning`."""

    knowledge_graph: str
    """Name of the knowledge graph that did not take a publication, where the warning is about one."""
    attempt: int
    """Number of the attempt, where the warning is about one attempt of a step."""
    dropped: int
    """Events of the attempt that were dropped, where the warning is about these."""
    exact: bool
    """Whether `dropped` is final, or what was known when the attempt was ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarningEvent(Event):
    """Something did not land, was cut or was left out; the run goes on."""

    type: Literal["warning"]
    data: WarningData


class StepReusedData(TypedDict):
    """Data of `step.reused`."""

    run_id: str
    """The run in which the step completed."""
    outputs: int
    """Files of the step that were copied from that run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReusedEvent(Event):
    """A resumed run reuses a completed step of an earlier run."""

    type: Literal["step.reused"]
    data: StepReusedData


class ApprovalRemindedData(TypedDict):
    """Data of `approval.reminded`."""

    approval_id: str
    """The approval."""
    deadline_at: str | None
    """When it expires; null for never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRemindedEvent(Event):
    """An approval still waits for a person."""

    type: Literal["approval.reminded"]
    data: ApprovalRemindedData


DeadlineAction = Literal["reject", "fail"]
"""How a deadline that passes ends an approval; none approves."""


class ApprovalExpiredData(TypedDict):
    """Data of `approval.expired`."""

    approval_id: str
    """The approval."""
    on_deadline: DeadlineAction
    """How its deadline ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalExpiredEvent(Event):
    """The deadline of an approval passed before anybody decided it."""

    type: Literal["approval.expired"]
    data: ApprovalExpiredData


class StepItemCompletedData(TypedDict):
    """Data of `step.item_completed`."""

    item_index: int
    """Its place in the list, from 0."""
    attempt: int
    """Number of the attempt, from 1; 0 where it completed in the run that this one resumes."""
    outputs: int
    """Files that the item left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepItemCompletedEvent(Event):
    """An item of a fan-out completed."""

    type: Literal["step.item_completed"]
    data: StepItemCompletedData


class StepItemFailedData(TypedDict):
    """Data of `step.item_failed`."""

    item_index: int
    """Its place in the list, from 0."""
    type: str
    """Kind of failure, as the name of the exception that the agent raised."""
    message: str
    """For a person."""
    attempt: int
    """Number of the attempt, from 1."""
    retry_at: str | None
    """When the next attempt of the item begins; null where this was the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepItemFailedEvent(Event):
    """An attempt of an item of a fan-out failed."""

    type: Literal["step.item_failed"]
    data: StepItemFailedData


class StepToolCallData(TypedDict):
    """Data of `step.tool_call`: nothing of what the model sent or got."""

    tool: str
    """Name of the function that the model called."""
    duration_ms: int
    """How long the call took, in milliseconds."""
    input_bytes: int
    """Bytes of the arguments, as JSON."""
    output_bytes: int
    """Bytes of the result, as JSON."""
    ok: bool
    """Whether the call gave a result, rather than an error."""
    attempt: int
    """Number of the attempt of the step, from 1."""
    item_index: int | None
    """Index of the item that the attempt is for, from 0; null where the step has no items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepToolCallEvent(Event):
    """The model of a step called a tool."""

    type: Literal["step.tool_call"]
    data: StepToolCallData


class ChildData(TypedDict):
    """Data of `child.started` and `child.ended`."""

    run_id: str
    """The child."""
    status: RunStatus
    """Its status: `queued` as it starts, its final one as it ends."""
    item_index: int | None
    """Index of the item that it is for, from 0; null where the step has no items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildStartedEvent(Event):
    """A step started a run of another workflow, a child."""

    type: Literal["child.started"]
    data: ChildData


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEndedEvent(Event):
    """A child ended."""

    type: Literal["child.ended"]
    data: ChildData


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A runtime segment of a run."""

    segment_id: str
    """The segment."""
    ordinal: int
    """1 for the first."""
    started_at: datetime | None
    """When it began."""
    ended_at: datetime | None
    """When it ended."""
    last_seq: int
    """Seq of its last event; 0 when none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRunEventsResponse:
    """Events of one segment."""

    run_id: str
    """The run."""
    segment_id: str | None
    """The segment read; null when none has begun."""
    events: list[Event]
    """The events."""
    next_after_seq: int
    """The last seq returned, or `after_seq` when there was none: where to go on. 0 of a segment that began while the
    call waited."""
    segments: list[Segment]
    """All segments that have begun, in order. A new one is read from `after_seq` 0."""


StepKind = Literal["agent", "approval", "workflow"]
"""What a step is."""

StepStatus = Literal[
    "pending", "running", "waiting_for_approval", "completed", "failed", "skipped", "cancelled", "blocked"
]
"""Where a step stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepItems:
    """How many items a fan-out has, and how many of them have ended."""

    total: int
    """All items."""
    completed: int
    """Items that completed."""
    failed: int
    """Items that failed, and are not tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a run's board."""

    step: str
    """Handle, unique within the workflow."""
    name: str
    """Name for a person."""
    kind: StepKind
    """Agent or approval."""
    status: StepStatus
    """Where it stands."""
    needs: list[str]
    """Handles of the steps before it."""
    agent_id: str | None
    """Its agent; null for an approval."""
    segment_id: str | None
    """The segment that ran it last."""
    attempt: int
    """Tries so far."""
    optional: bool
    """Whether the run completes without it."""
    started_at: datetime | None
    """When it began."""
    finished_at: datetime | None
    """When it ended."""
    duration_ms: int | None
    """finished_at - started_at in milliseconds."""
    error: RunError | None
    """Why it failed or was blocked."""
    reused_from: str | None
    """The run whose completed step it is, with its value and its files; null for a step that ran in this run."""
    items: StepItems | None
    """The items of a fan-out, once it has listed them; null for any other step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRunStepsResponse:
    """The steps of a run."""

    items: list[Step]
    """The steps in the order of the definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputDownload:
    """Where to download an output."""

    path: str
    """Absolute path on the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A promoted output."""

    output_id: str
    """The output."""
    name: str
    """Last part of the path."""
    path: str
    """`<step>/<relative path>`, also the entry's name in the zip. Backslashes, control characters, drive prefixes,
    and dots and blanks at the end of a part are percent-encoded."""
    step: str | None
    """The step that made it; null for `result.json`."""
    media_type: str
    """Media type."""
    size_bytes: int
    """Bytes."""
    sha256: str
    """SHA-256 in hexadecimal."""
    created_at: datetime
    """When it was promoted."""
    download: OutputDownload
    """Where to download it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputBundle:
    """Where to download all outputs."""

    path: str
    """Absolute path on the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOutputsResponse:
    """The outputs of a run."""

    items: list[Output]
    """The outputs by path."""
    total_bytes: int
    """Bytes of all of them."""
    bundle: OutputBundle
    """All of them as one zip."""


AnyEvent = Union[
    SegmentStartedEvent,
    SegmentEndedEvent,
    RunStartedEvent,
    RunCompletedEvent,
    RunFailedEvent,
    RunCancelledEvent,
    InputsMaterialisedEvent,
    StepStartedEvent,
    StepProgressEvent,
    StepCompletedEvent,
    StepFailedEvent,
    StepSkippedEvent,
    ApprovalRequestedEvent,
    ApprovalDecidedEvent,
    OutputPromotedEvent,
    RedactionStartedEvent,
    RedactionCompletedEvent,
    PublishStartedEvent,
    PublishCompletedEvent,
    WarningEvent,
    StepReusedEvent,
    ApprovalRemindedEvent,
    ApprovalExpiredEvent,
    StepItemCompletedEvent,
    StepItemFailedEvent,
    StepToolCallEvent,
    ChildStartedEvent,
    ChildEndedEvent,
]
"""An event of any type; `event.type` tells which."""

EVENT_TYPES: Final[Mapping[str, type[Event]]] = {
    "segment.started": SegmentStartedEvent,
    "segment.ended": SegmentEndedEvent,
    "run.started": RunStartedEvent,
    "run.completed": RunCompletedEvent,
    "run.failed": RunFailedEvent,
    "run.cancelled": RunCancelledEvent,
    "inputs.materialised": InputsMaterialisedEvent,
    "step.started": StepStartedEvent,
    "step.progress": StepProgressEvent,
    "step.completed": StepCompletedEvent,
    "step.failed": StepFailedEvent,
    "step.skipped": StepSkippedEvent,
    "approval.requested": ApprovalRequestedEvent,
    "approval.decided": ApprovalDecidedEvent,
    "output.promoted": OutputPromotedEvent,
    "redaction.started": RedactionStartedEvent,
    "redaction.completed": RedactionCompletedEvent,
    "publish.started": PublishStartedEvent,
    "publish.completed": PublishCompletedEvent,
    "warning": WarningEvent,
    "step.reused": StepReusedEvent,
    "approval.reminded": ApprovalRemindedEvent,
    "approval.expired": ApprovalExpiredEvent,
    "step.item_completed": StepItemCompletedEvent,
    "step.item_failed": StepItemFailedEvent,
    "step.tool_call": StepToolCallEvent,
    "child.started": ChildStartedEvent,
    "child.ended": ChildEndedEvent,
}
"""The class of every type of event."""
