"""A workflow version with its resources resolved, as starts and the runtime use it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from backend.capabilities import NO_CAPABILITIES, Capabilities
from backend.errors import ApiError
from backend.workflows.manifests.defaults import DEFAULT_ENVIRONMENT
from backend.workflows.pii_policy import Policy
from backend.workflows.readiness import Definition, Resources, readiness
from workflow_api.v1 import errors_pb2

AGENT: Final = "agent"
APPROVAL: Final = "approval"


@dataclass(frozen=True, slots=True)
class StepTerms:
    """A step of kind `agent` or `approval`, with its names resolved.

    `agent` is the definition of the agent, None if `agent_name` names none. `connectors` maps names to definitions.
    `title` and `instructions` are those of an approval; `retry` is None for a step without retries. `outputs` says
    whether its files are promoted.
    """

    step: str
    name: str
    kind: str
    needs: tuple[str, ...]
    optional: bool
    agent_name: str | None
    agent_id: str | None
    agent: Definition | None
    environment: Definition
    connectors: Mapping[str, Definition]
    title: str
    instructions: str | None
    retry: Definition | None = None
    outputs: bool = True


@dataclass(frozen=True, slots=True)
class InputTerms:
    """An `s3_prefix` parameter; `connector` is the definition of its connector, None if that does not exist."""

    parameter: str
    connector_name: str
    connector_id: str | None
    connector: Definition | None
    max_objects: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class PublicationTerms:
    """An entry of `publish`; `chosen` has its fields `steps`, `files` and `mapping`."""

    knowledge_graph: str
    wait_seconds: int
    chosen: Definition


@dataclass(frozen=True, slots=True)
class WorkflowTerms:
    """A workflow version with its agents and environments, and the newest version of its other resources.

    Immutable, for it is cached. `version` is None if the requested version does not exist; then all later fields are
    empty. `parameters`
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
    inputs: tuple[InputTerms, ...] = ()
    publish: tuple[PublicationTerms, ...] = ()

    @property
    def result_schema_version(self) -> str | None:
        """Version label of the result schema."""
        return self.result["schema_version"] if self.result else None

    @property
    def result_step(self) -> str | None:
        """The step whose value is the run's result."""
        return self.result["step"] if self.result else None

    @property
    def result_schema(self) -> Any:
        """JSON Schema of the result, or None."""
        return self.result["schema"] if self.result else None

    def refusal(self) -> ApiError | None:
        """Returns why no run can start: not active, no such version or not ready, in this order (contract 12.6)."""
        if self.status != "active":
            return ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_ACTIVE)
        if self.version is None:
            return ApiError(errors_pb2.ERROR_REASON_VERSION_NOT_FOUND)
        if self.reasons:
            return ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_READY, reasons=self.reasons)
        return None


def resolve(
    workflow_id: str,
    name: str,
    status: str,
    version: int,
    definition: Definition,
    resources: Resources,
    capabilities: Capabilities = NO_CAPABILITIES,
) -> WorkflowTerms:
    """Resolves the names in a definition; the reasons list those of resources that do not exist."""
    settings = definition["settings"]
    return WorkflowTerms(
        workflow_id=workflow_id,
        name=name,
        status=status,
        version=version,
        reasons=tuple(readiness(definition, resources, status, capabilities)),
        parameters=tuple(_parameter(declaration, resources) for declaration in definition["parameters"]),
        steps=tuple(_step(step, resources) for step in definition["steps"]),
        pii_policy=definition["pii_policy"],
        parallel_steps=settings["parallel_steps"],
        max_run_hours=settings["max_run_hours"],
        result=definition["result"],
        inputs=tuple(_inputs(definition, resources)),
        publish=tuple(_publication(entry) for entry in definition["publish"]),
    )


def _parameter(declaration: Definition, resources: Resources) -> Definition:
    if declaration["type"] != "s3_prefix":
        return declaration
    connector = resources.get(("connector", declaration["connector"]))
    if connector is None:
        return declaration
    allowed = {name: connector.definition[name] for name in ("bucket", "prefixes")}
    return {**declaration, "connector_id": connector.resource_id, **allowed}


def _inputs(definition: Definition, resources: Resources) -> Iterator[InputTerms]:
    for declaration in definition["parameters"]:
        if declaration["type"] == "s3_prefix":
            connector = resources.get(("connector", declaration["connector"]))
            yield InputTerms(
                parameter=declaration["name"],
                connector_name=declaration["connector"],
                connector_id=connector.resource_id if connector else None,
                connector=connector.definition if connector else None,
                max_objects=declaration["max_objects"],
                max_bytes=declaration["max_bytes"],
            )


def _publication(entry: Definition) -> PublicationTerms:
    # Versions stored by an earlier release have none of these.
    chosen = {name: entry.get(name) for name in ("steps", "files", "mapping")}
    return PublicationTerms(entry["knowledge_graph"], entry["wait_seconds"], chosen)


def _step(step: Definition, resources: Resources) -> StepTerms:
    agent = resources.get(("agent", step["agent"]))
    environment = resources.get(("environment", step["environment"]))
    approval = step["approval"] or {}
    return StepTerms(
        step=step["step"],
        name=step["name"] or approval.get("title") or step["step"],
        kind=APPROVAL if approval else AGENT,
        needs=tuple(step["needs"]),
        optional=step["optional"],
        agent_name=step["agent"],
        agent_id=agent.resource_id if agent else None,
        agent=agent.definition if agent else None,
        environment=environment.definition if environment else DEFAULT_ENVIRONMENT,
        connectors={
            name: resources[("connector", name)].definition
            for name in step["connectors"]
            if ("connector", name) in resources
        },
        title=approval.get("title", ""),
        instructions=approval.get("instructions"),
        retry=step.get("retry"),
        outputs=step.get("outputs", True),
    )
