"""All that a start and a runtime need to know of one workflow version, with its resources resolved."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backend.errors import ApiError
from backend.workflows.manifests.kinds import ENVIRONMENT
from backend.workflows.pii_policy import Policy
from backend.workflows.readiness import Definition, Resources, readiness
from workflow_api.v1 import errors_pb2

_DEFAULT_ENVIRONMENT = {name: field.default for name, field in ENVIRONMENT.fields.items() if name != "name"}


@dataclass(frozen=True, slots=True)
class StepTerms:
    """One step. `kind` is `agent` or `approval`.

    `agent` is the agent's definition (type, code or model and instructions), `environment` has memory_mb,
    timeout_seconds and workspace_mb, `connectors` maps names to definitions, `approval` has title and instructions.
    """

    step: str
    name: str
    kind: str
    needs: tuple[str, ...]
    optional: bool
    agent_id: str | None
    agent: Definition | None
    environment: Definition
    connectors: Mapping[str, Definition]
    approval: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class PublicationTerms:
    """One optional publish; `knowledge_graph_id` is None where no such graph exists."""

    knowledge_graph: str
    knowledge_graph_id: str | None
    wait_seconds: int


@dataclass(frozen=True, slots=True)
class WorkflowTerms:
    """One version of a workflow, resolved against the newest resources; shared between calls, so never changed.

    `version` is None when the version asked for does not exist; then everything after `reasons` is empty. `parameters`
    are declarations with `connector_id`, `bucket` and `prefixes` in those of type `s3_prefix`. `result` has step,
    schema and schema_version, or is None.
    """

    workflow_id: str
    name: str
    status: str
    version: int | None
    reasons: tuple[str, ...] = ()
    parameters: tuple[Definition, ...] = ()
    steps: tuple[StepTerms, ...] = ()
    pii_policy: Policy | None = None
    parallel_steps: int = 0
    max_run_hours: float | None = None
    result: Mapping[str, Any] | None = None
    publish: tuple[PublicationTerms, ...] = ()

    @property
    def result_schema_version(self) -> str | None:
        """Version label of the result schema."""
        return self.result["schema_version"] if self.result else None

    def refusal(self) -> ApiError | None:
        """Why no run of it can start: not active, no such version or not ready, in this order (DECISIONS.md, 4)."""
        if self.status != "active":
            return ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_ACTIVE)
        if self.version is None:
            return ApiError(errors_pb2.ERROR_REASON_VERSION_NOT_FOUND)
        if self.reasons:
            return ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_READY, reasons=self.reasons)
        return None


def resolve(
    workflow_id: str, name: str, status: str, version: int, definition: Definition, resources: Resources
) -> WorkflowTerms:
    """Resolves a version's names to its resources; what does not exist stays unresolved and is among the reasons."""
    settings = definition["settings"]
    return WorkflowTerms(
        workflow_id=workflow_id,
        name=name,
        status=status,
        version=version,
        reasons=tuple(readiness(definition, resources, status)),
        parameters=tuple(_parameter(declaration, resources) for declaration in definition["parameters"]),
        steps=tuple(_step(step, resources) for step in definition["steps"]),
        pii_policy=definition["pii_policy"],
        parallel_steps=settings["parallel_steps"],
        max_run_hours=settings["max_run_hours"],
        result=definition["result"],
        publish=tuple(_publication(entry, resources) for entry in definition["publish"]),
    )


def _parameter(declaration: Definition, resources: Resources) -> Definition:
    if declaration["type"] != "s3_prefix":
        return declaration
    connector = resources.get(("connector", declaration["connector"]))
    if connector is None:
        return declaration
    allowed = {name: connector.definition[name] for name in ("bucket", "prefixes")}
    return {**declaration, "connector_id": connector.resource_id, **allowed}


def _step(step: Definition, resources: Resources) -> StepTerms:
    agent = resources.get(("agent", step["agent"]))
    environment = resources.get(("environment", step["environment"]))
    approval = step["approval"]
    return StepTerms(
        step=step["step"],
        name=step["name"] or (approval["title"] if approval else step["step"]),
        kind="approval" if approval else "agent",
        needs=tuple(step["needs"]),
        optional=step["optional"],
        agent_id=agent.resource_id if agent else None,
        agent=agent.definition if agent else None,
        environment=environment.definition if environment else _DEFAULT_ENVIRONMENT,
        connectors={
            name: resources[("connector", name)].definition
            for name in step["connectors"]
            if ("connector", name) in resources
        },
        approval=approval,
    )


def _publication(entry: Definition, resources: Resources) -> PublicationTerms:
    graph = resources.get(("knowledge_graph", entry["knowledge_graph"]))
    return PublicationTerms(entry["knowledge_graph"], graph.resource_id if graph else None, entry["wait_seconds"])
