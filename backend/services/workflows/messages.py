"""Converts rows and resolved versions of workflows to messages of WorkflowsService."""

from functools import lru_cache
from typing import Final

from google.protobuf.duration_pb2 import Duration

from backend.common import json_text
from backend.common.clock import HOUR_MS
from backend.common.json_text import JsonObject
from backend.services.workflows.manifests.names import MANIFEST_KINDS
from backend.services.workflows.pii_policy import Policy
from backend.services.workflows.resolved_workflow import ResolvedWorkflow
from backend.services.workflows.rules import Definition
from backend.services.workflows.versions_sql import Pin
from backend.storage.tables.workflows import WorkflowRow
from contract.times import to_duration, to_timestamp
from workflow_api.v1 import pii_policy_pb2, workflows_pb2

STATUSES: Final = {
    "draft": workflows_pb2.WORKFLOW_STATUS_DRAFT,
    "active": workflows_pb2.WORKFLOW_STATUS_ACTIVE,
    "inactive": workflows_pb2.WORKFLOW_STATUS_INACTIVE,
}

_JSON_FIELDS: Final = ("default", "enum", "minimum", "maximum")
_PLAIN_FIELDS: Final = (
    "name",
    "type",
    "description",
    "required",
    "min_length",
    "max_length",
    "pattern",
    "connector_id",
    "max_objects",
    "max_bytes",
)

_PII_MODES: Final = {name.removeprefix("PII_MODE_").lower(): number for name, number in pii_policy_pb2.PiiMode.items()}
_PII_STAGES: Final = {
    name.removeprefix("PII_STAGE_").lower(): number for name, number in pii_policy_pb2.PiiStage.items()
}


def workflow_message(row: WorkflowRow, workflow: ResolvedWorkflow) -> workflows_pb2.Workflow:
    """Returns a workflow with readiness and settings of the resolved version `workflow`."""
    return workflows_pb2.Workflow(
        workflow_id=row.workflow_id,
        name=row.name,
        description=row.description,
        status=STATUSES[row.status],
        version=workflow.version or row.newest_version,
        readiness=workflows_pb2.Readiness(ready=not workflow.reasons, reasons=workflow.reasons),
        max_run_time=hours_message(workflow.max_run_hours),
        parallel_steps=workflow.parallel_steps,
        pii_policy=None if workflow.pii_policy is None else policy_message(workflow.pii_policy),
        result_schema_version=workflow.result_schema_version,
        created_at=to_timestamp(row.created_at),
        updated_at=to_timestamp(row.updated_at),
    )


def policy_message(policy: Policy) -> pii_policy_pb2.PiiPolicy:
    """Returns a PII policy as a message; categories `all` become the list `["all"]`."""
    categories = policy["categories"]
    return pii_policy_pb2.PiiPolicy(
        mode=_PII_MODES[policy["mode"]],
        categories=[categories] if isinstance(categories, str) else categories,
        stages=[_PII_STAGES[stage] for stage in policy["stages"]],
        min_confidence=policy["min_confidence"],
        model=policy["model"],
        max_model_calls=policy["max_model_calls"],
        parquet_sample_rows=policy["parquet_sample_rows"],
        # Policies that were stored before this field existed lack it.
        phone_regions=policy.get("phone_regions", ()),
    )


@lru_cache(maxsize=1024)
def hours_message(hours: float | None) -> Duration | None:
    """Returns a time limit in hours as a cached message, which must not be changed."""
    return None if hours is None else to_duration(round(hours * HOUR_MS))


@lru_cache(maxsize=1024)
def stored_policy_message(text: str) -> pii_policy_pb2.PiiPolicy:
    """Returns the cached message of a stored PII policy, which must not be changed."""
    return policy_message(json_text.parse(text))


def version_resource_message(pin: Pin) -> workflows_pb2.VersionResource:
    """Returns an agent or environment that a workflow version is pinned to."""
    kind = MANIFEST_KINDS[pin.kind]
    return workflows_pb2.VersionResource(kind=kind, name=pin.name, id=pin.resource_id, version=pin.version)


def parameter_message(declaration: Definition) -> workflows_pb2.Parameter:
    """Returns a declared parameter as a message; fields that the declaration lacks are not set."""
    fields: JsonObject = {name: declaration[name] for name in _PLAIN_FIELDS if declaration.get(name) is not None}
    fields |= {name: json_text.write(declaration[name]) for name in _JSON_FIELDS if declaration.get(name) is not None}
    return workflows_pb2.Parameter(**fields)
