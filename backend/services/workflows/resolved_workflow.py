"""Resolves the names in a workflow version to its agents, environments and connectors; caches the result."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from backend.common.caches import RevisionedCache
from backend.common.deployment_terms import NO_CAPABILITIES, Capabilities
from backend.common.errors import ApiError
from backend.common.json_text import JsonMapping
from backend.common.states import DeadlineAction, StepStatus
from backend.services.workflows import sql
from backend.services.workflows.agent_tools import agent_tools
from backend.services.workflows.child_readiness import ChildReadiness
from backend.services.workflows.manifests.names import DEFAULT_ENVIRONMENT
from backend.services.workflows.parameters import validates_quickly
from backend.services.workflows.pii_policy import Policy
from backend.services.workflows.rules import Definition, Resources, readiness
from backend.services.workflows.uses import resources_of_version
from backend.services.workflows.versions_sql import definition_text
from backend.storage.database import Tx
from backend.storage.tables.workflows import WorkflowRow
from workflow_api.v1 import errors_pb2

MOST_ITEMS: Final = 1_000
"""Most items of a fan-out."""
_CLEANUP_SECONDS: Final = 60

AGENT: Final = "agent"
APPROVAL: Final = "approval"
WORKFLOW: Final = "workflow"


class Phase(StrEnum):
    """The part of a run in which a step runs: `steps`, `on_failure` or `always` of the definition."""

    MAIN = "main"
    ON_FAILURE = "on_failure"
    ALWAYS = "always"


class FanOut(NamedTuple):
    """The fan-out of a step: the expression of its items, and its limits.

    `collect` says that the value of a failed item is its error, and the step does not fail.
    """

    items: str
    max_items: int
    max_parallel: int | None
    collect: bool


class ChildWorkflow(NamedTuple):
    """The workflow that runs as a step: its version, None for the active one, and its parameters as given."""

    name: str
    version: int | None
    parameters: Definition


COMPLETED_ALONE: Final = frozenset({StepStatus.COMPLETED.value})


class ApprovalSettings(NamedTuple):
    """Settings of an approval: deadline, reminder, approvers, form, and the expression of its summary.

    Hours count from the request, and are None without a deadline or a reminder. `approvers` has roles and people; None
    allows everybody whose role may decide. `form_schema` is None without a form.
    """

    deadline_hours: float | None
    on_deadline: str
    remind_hours: float | None
    approvers: Definition | None
    form_schema: Definition | None
    summary: str | None


@dataclass(frozen=True, slots=True)
class ResolvedStep:
    """A step of kind `agent`, `approval` or `workflow`, with its names resolved.

    `agent` is the definition of the agent, None if `agent_name` names none. `connectors` maps names to definitions.
    `title`, `instructions` and `approval` belong to an approval. `retry` is None without retries, `timeout_seconds`
    None for the environment's timeout. `outputs` says whether files are promoted.
    `when` is an expression; `accept` are the statuses of needed steps with which the step runs.
    `tools` are the definitions of the agents that its agent has as tools, by name.
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
    timeout_seconds: int | None = None
    outputs: bool = True
    approval: ApprovalSettings | None = None
    when: str | None = None
    accept: frozenset[str] = COMPLETED_ALONE
    fan_out: FanOut | None = None
    child: ChildWorkflow | None = None
    phase: Phase = Phase.MAIN
    tools: Mapping[str, Definition] = field(default_factory=dict)

    @property
    def takes_slot(self) -> bool:
        """Returns whether the step itself takes a slot; in a fan-out, each item of an agent takes one instead."""
        return self.kind == AGENT and self.fan_out is None


class ModelBudget(NamedTuple):
    """Most tokens and cost of the calls to models by a run's own steps; None for no limit."""

    tokens: int | None
    cost_microusd: int | None


@dataclass(frozen=True, slots=True)
class ResolvedInput:
    """An `s3_prefix` parameter; `connector` is the definition of its connector, None if that is missing."""

    parameter: str
    connector_name: str
    connector_id: str | None
    connector: Definition | None
    max_objects: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class ResolvedPublication:
    """An entry of `publish`; `chosen` contains the fields `steps`, `files` and `mapping`."""

    knowledge_graph: str
    wait_seconds: int
    chosen: Definition


@dataclass(frozen=True, slots=True)
class ResolvedWorkflow:
    """A workflow version with its agents and environments, and the newest version of its other resources.

    Immutable, because it is cached. `version` is None if the requested version does not exist; then later fields are
    empty. Declarations in `parameters` of type `s3_prefix` have `connector_id`, `bucket` and `prefixes` added.
    `result` has step, schema and schema_version, or is None.
    """

    workflow_id: str
    name: str
    status: str
    version: int | None
    reasons: tuple[str, ...] = ()
    parameters: tuple[Definition, ...] = ()
    steps: tuple[ResolvedStep, ...] = ()
    pii_policy: Policy | None = None
    parallel_steps: int = 0
    max_run_hours: float | None = None
    result: JsonMapping | None = None
    inputs: tuple[ResolvedInput, ...] = ()
    publish: tuple[ResolvedPublication, ...] = ()
    validates_quickly: bool = True
    """True if an event loop may validate a few kilobytes of parameters."""
    budget: ModelBudget | None = None

    @property
    def has_last_steps(self) -> bool:
        """Returns whether the workflow has steps of `on_failure` or `always`."""
        return any(step.phase is not Phase.MAIN for step in self.steps)

    @property
    def result_schema_version(self) -> str | None:
        """Version label of the result schema."""
        return self.result["schema_version"] if self.result else None

    @property
    def result_step(self) -> str | None:
        """The step whose value is the run's result."""
        return self.result["step"] if self.result else None

    @property
    def result_schema(self) -> object:
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


def cached_workflow(
    cache: RevisionedCache, workflow_id: str, version: int | None, revision: int | None = None
) -> ResolvedWorkflow | None:
    """Returns the cached version at `revision`, by default the newest cached revision, or None."""
    name = (workflow_id, version)
    workflow: ResolvedWorkflow | None = cache.newest(name) if revision is None else cache.get(name, revision)
    return workflow


def load_workflow(
    cache: RevisionedCache,
    tx: Tx,
    capabilities: Capabilities,
    workflow_id: str,
    version: int | None = None,
    *,
    revision: int | None = None,
) -> ResolvedWorkflow | None:
    """Returns a workflow version with its resources resolved; None if there is no such workflow.

    `version` None means the active one. `tx` is a change or a snapshot, so that all reads see the same state.
    `capabilities` are those of this deployment. A cached version costs one statement, which reads the
    revision, or none if `revision` is given. `ResolvedWorkflow.refusal()` says why the version cannot be started.
    """
    if revision is None:
        revision = sql.revision(tx)
    workflow: ResolvedWorkflow | None = cache.get((workflow_id, version), revision)
    if workflow is not None:
        return workflow
    row = sql.get(tx, workflow_id)
    if row is None:
        return None
    workflow, size = _resolve_version(tx, row, capabilities, version)
    if workflow.version is not None:
        cache.put((workflow_id, version), revision, workflow, size)
    return workflow


def load_deleted_workflow(tx: Tx, row: WorkflowRow, capabilities: Capabilities) -> ResolvedWorkflow:
    """Resolves a deleted workflow without caching it, because starts use the cache."""
    workflow, _ = _resolve_version(tx, row._replace(status="deleted"), capabilities, None)
    return workflow


def _resolve_version(
    tx: Tx, row: WorkflowRow, capabilities: Capabilities, version: int | None
) -> tuple[ResolvedWorkflow, int]:
    """Resolves a version, by default the active one; returns it with the number of characters read."""
    wanted = row.active_version or row.newest_version if version is None else version
    text = definition_text(tx, row.workflow_id, wanted)
    if text is None:
        return ResolvedWorkflow(row.workflow_id, row.name, row.status, None), 0
    definition = json.loads(text)
    found = resources_of_version(tx, row.workflow_id, wanted, definition)
    of_children = ChildReadiness(tx, capabilities).reasons(row.workflow_id, wanted, definition)
    workflow = resolve(row.workflow_id, row.name, row.status, wanted, definition, found, capabilities, of_children)
    return workflow, len(text) + sum(resource.size for resource in found.values())


def resolve(
    workflow_id: str,
    name: str,
    status: str,
    version: int,
    definition: Definition,
    resources: Resources,
    capabilities: Capabilities = NO_CAPABILITIES,
    of_children: Sequence[str] = (),
) -> ResolvedWorkflow:
    """Resolves the names in a definition; missing resources become reasons against its readiness.

    `of_children` are the reasons of child workflows.
    """
    settings = definition["settings"]
    return ResolvedWorkflow(
        workflow_id=workflow_id,
        name=name,
        status=status,
        version=version,
        reasons=tuple(readiness(definition, resources, status, capabilities, of_children)),
        parameters=tuple(_parameter(declaration, resources) for declaration in definition["parameters"]),
        steps=tuple(
            _step(step, resources, phase)
            for phase, field in (
                (Phase.MAIN, "steps"),
                (Phase.ON_FAILURE, "on_failure"),
                (Phase.ALWAYS, "always"),
            )
            for step in definition.get(field, ())
        ),
        pii_policy=definition["pii_policy"],
        parallel_steps=settings["parallel_steps"],
        max_run_hours=settings["max_run_hours"],
        result=definition["result"],
        inputs=tuple(_inputs(definition, resources)),
        publish=tuple(_publication(entry) for entry in definition["publish"]),
        validates_quickly=validates_quickly(definition["parameters"]),
        budget=_budget(definition.get("budget")),
    )


def _budget(budget: Definition | None) -> ModelBudget | None:
    if budget is None:
        return None
    cost = budget["cost"]
    return ModelBudget(budget["tokens"], None if cost is None else round(cost * 1_000_000))


def _parameter(declaration: Definition, resources: Resources) -> Definition:
    if declaration["type"] != "s3_prefix":
        return declaration
    connector = resources.get(("connector", declaration["connector"]))
    if connector is None:
        return declaration
    allowed = {name: connector.definition[name] for name in ("bucket", "prefixes")}
    return {**declaration, "connector_id": connector.resource_id, **allowed}


def _inputs(definition: Definition, resources: Resources) -> Iterator[ResolvedInput]:
    for declaration in definition["parameters"]:
        if declaration["type"] == "s3_prefix":
            connector = resources.get(("connector", declaration["connector"]))
            yield ResolvedInput(
                parameter=declaration["name"],
                connector_name=declaration["connector"],
                connector_id=connector.resource_id if connector else None,
                connector=connector.definition if connector else None,
                max_objects=declaration["max_objects"],
                max_bytes=declaration["max_bytes"],
            )


def _publication(entry: Definition) -> ResolvedPublication:
    # Versions stored by an earlier release have none of these.
    chosen = {name: entry.get(name) for name in ("steps", "files", "mapping")}
    return ResolvedPublication(entry["knowledge_graph"], entry["wait_seconds"], chosen)


def _step(step: Definition, resources: Resources, phase: Phase) -> ResolvedStep:
    agent = resources.get(("agent", step["agent"]))
    environment = resources.get(("environment", step["environment"]))
    approval = step.get("approval") or {}
    return ResolvedStep(
        step=step["step"],
        name=step["name"] or approval.get("title") or step["step"],
        kind=APPROVAL if approval else WORKFLOW if step.get("workflow") else AGENT,
        needs=tuple(step.get("needs", ())),
        # The failure of a step of `on_failure` or `always` is a warning.
        optional=step.get("optional", phase is not Phase.MAIN),
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
        timeout_seconds=step.get("timeout_seconds") or (None if phase is Phase.MAIN else _CLEANUP_SECONDS),
        outputs=step.get("outputs", True),
        approval=_approval_settings(approval) if approval else None,
        when=step.get("when"),
        accept=frozenset(step.get("accept") or COMPLETED_ALONE),
        fan_out=_fan_out(step),
        child=_child(step),
        phase=phase,
        tools={
            name: resources[("agent", name)].definition
            for name in (agent_tools(agent.definition) if agent else ())
            if ("agent", name) in resources
        },
    )


def _fan_out(step: Definition) -> FanOut | None:
    items = step.get("for_each")
    if items is None:
        return None
    most = step.get("max_items") or MOST_ITEMS
    return FanOut(items, most, step.get("max_parallel"), collect=step.get("on_item_failure") == "collect")


def _child(step: Definition) -> ChildWorkflow | None:
    name = step.get("workflow")
    return None if name is None else ChildWorkflow(name, step.get("version"), step.get("parameters") or {})


def _approval_settings(approval: Definition) -> ApprovalSettings:
    # Versions stored by an earlier release have none of these.
    return ApprovalSettings(
        deadline_hours=approval.get("deadline_hours"),
        on_deadline=approval.get("on_deadline") or DeadlineAction.REJECT,
        remind_hours=approval.get("remind_hours"),
        approvers=approval.get("approvers"),
        form_schema=_form_schema(approval["form"]) if approval.get("form") else None,
        summary=approval.get("summary"),
    )


# Larger integers lose precision in JavaScript and other readers of JSON.
_BOUNDS: Final[Mapping[str, JsonMapping]] = {"integer": {"minimum": -(2**53) + 1, "maximum": 2**53 - 1}}


def _form_schema(form: Definition) -> Definition:
    """Returns the JSON Schema of a form, which allows no further values."""
    properties = {
        name: {**_BOUNDS.get(value["type"], {}), **{rule: bound for rule, bound in value.items() if bound is not None}}
        for name, value in form["properties"].items()
    }
    return {**form, "properties": properties, "additionalProperties": False}
