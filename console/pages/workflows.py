"""Pages of workflows: readiness, definition, versions, keys that may start them, and activation."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from console.definitions.kinds import AGENT, CONNECTOR, ENVIRONMENT, GRAPH, WORKFLOW
from console.definitions.steps import step_nodes
from console.definitions.versions import NO_VERSION, VersionList, read_versions, shown_variables, version_of
from console.pages.schedules import new_idempotency_key, schedules_of
from console.paging import all_items
from console.rendering import dag, formatting
from console.rendering.dag import step_window
from console.visit import ADMINISTRATORS, ONLOOKERS, PageResult, Redirect, View, Visit
from contract.refusals import Refusal
from workflow_api.v1.keys_pb2 import KeyRecord, ListKeysRequest, WorkflowAccess
from workflow_api.v1.options_pb2 import SCOPE_RUNS_CREATE
from workflow_api.v1.run_lists_pb2 import GetWorkflowFiguresRequest
from workflow_api.v1.workflows_pb2 import (
    WORKFLOW_STATUS_ACTIVE,
    WORKFLOW_STATUS_INACTIVE,
    GetWorkflowDefinitionRequest,
    ListWorkflowsRequest,
    UpdateWorkflowStatusRequest,
    VersionResource,
    Workflow,
    WorkflowStatus,
)

_PAGE: Final = 100
_MOST_DEFINITION_CHARS: Final = 40_000
_MOST_KEYS: Final = 1000
_KEYS_SHOWN: Final = 20
_VERSIONS: Final = 5
_BAND: Final = 4
"""Columns of steps beside each other, whose texts can be read on a wide screen."""
_NOT_THERE: Final = frozenset({"workflow_not_found", "version_not_found"})
_BOUNDS: Final = (
    "enum",
    "minimum",
    "maximum",
    "min_length",
    "max_length",
    "pattern",
    "connector",
    "max_objects",
    "max_bytes",
)

_PAGES: Final = {
    AGENT.kind: (AGENT, ONLOOKERS),
    ENVIRONMENT.kind: (ENVIRONMENT, ADMINISTRATORS),
    CONNECTOR.kind: (CONNECTOR, ADMINISTRATORS),
    GRAPH.kind: (GRAPH, ADMINISTRATORS),
}


async def every_workflow(visit: Visit) -> list[Workflow]:
    """Returns all workflows by name, drafts and inactive ones included."""
    request = ListWorkflowsRequest(page_size=_PAGE, include_inactive=True)
    return await all_items(visit.services, "WorkflowsService/ListWorkflows", request)


async def show_list(visit: Visit) -> PageResult:
    """Lists every workflow."""
    rows = [(workflow, formatting.workflow_badge(workflow.status)) for workflow in await every_workflow(visit)]
    return View("workflows/list.html", {"rows": rows, "administrator": visit.user.role in ADMINISTRATORS})


async def show_one(visit: Visit) -> PageResult:
    """Shows a version of a workflow, by default the active one."""
    asked = visit.query.get("version", "")
    version = version_of(asked)
    if asked and version is None:
        return View("workflows/missing.html", {"message": NO_VERSION}, status=404)
    request = GetWorkflowDefinitionRequest(workflow=visit.path["workflow_id"], version=version)
    try:
        answer = await visit.services.call("WorkflowsService/GetWorkflowDefinition", request)
    except Refusal as refusal:
        if refusal.code not in _NOT_THERE:
            raise
        return View("workflows/missing.html", {"message": refusal.message}, status=404)
    definition = json.loads(answer.definition)
    written = formatting.json_lines(answer.definition)
    window = step_window(
        definition.get("steps") or (), visit.query.get("steps", ""), "", lambda step: str(step["step"])
    )
    versions, keys, schedules, figures = await asyncio.gather(
        _versions_of(visit, answer.workflow),
        _keys_of(visit, answer.workflow),
        schedules_of(visit, answer.workflow.workflow_id),
        visit.services.call(
            "RunListsService/GetWorkflowFigures",
            GetWorkflowFiguresRequest(workflow_id=answer.workflow.workflow_id),
        ),
    )
    deleted = answer.HasField("deleted_at")
    return View(
        "workflows/one.html",
        {
            "workflow": answer.workflow,
            "badge": formatting.workflow_badge(answer.workflow.status),
            "active": answer.workflow.status == WORKFLOW_STATUS_ACTIVE,
            "version": answer.version,
            "parameters": [_parameter(parameter) for parameter in definition.get("parameters") or ()],
            "drawing": dag.draw(step_nodes(window.steps), _BAND),
            "window": window,
            "references": references(visit, definition, answer.resources),
            "variables": shown_variables(answer.variables),
            "definition": written[:_MOST_DEFINITION_CHARS],
            "definition_cut": len(written) > _MOST_DEFINITION_CHARS,
            "deleted_at": answer.deleted_at if deleted else None,
            "owned": answer,
            "can_start": not deleted and visit.may("RunsService/StartRun"),
            "can_switch": not deleted and visit.may("WorkflowsService/UpdateWorkflowStatus"),
            "administrator": visit.user.role in ADMINISTRATORS,
            "figures": figures,
            "succeeded": _share(figures.completed, figures.failed),
            "steps": [(step, _share(step.ended - step.failed, step.failed)) for step in figures.steps],
            "versions": versions,
            "newest": max((each.version for each in versions.versions), default=answer.version),
            "schedules": schedules,
            "can_schedule": not deleted and visit.may("SchedulesService/TriggerSchedule"),
            "once": new_idempotency_key(),
            "keys": keys[:_KEYS_SHOWN],
            "more_keys": len(keys) - _KEYS_SHOWN,
        },
    )


async def activate(visit: Visit) -> PageResult:
    """Activates a workflow."""
    return await _set_status(visit, WORKFLOW_STATUS_ACTIVE, "The workflow can be started now.")


async def deactivate(visit: Visit) -> PageResult:
    """Deactivates a workflow; its runs continue."""
    return await _set_status(visit, WORKFLOW_STATUS_INACTIVE, "The workflow cannot be started. Its runs go on.")


class Reference(NamedTuple):
    """A resource that a workflow refers to, by kind and name.

    Attributes:
        path: Path of the resource's page; empty without a page, or where the person may not see it.
        version: Version in use; "newest" where not pinned, empty where no resource had the name.
    """

    kind: str
    name: str
    path: str
    version: str


def references(visit: Visit, definition: Mapping[str, Any], pinned: Sequence[VersionResource]) -> list[Reference]:
    """Returns a version's pinned agents and environments, then its connectors and knowledge graphs."""
    found = []
    for each in pinned:
        version = str(each.version) if each.HasField("version") else ""
        query = f"?version={version}"
        path = _path(visit, each.kind, each.id) + query if version and _path(visit, each.kind, each.id) else ""
        found.append(Reference(each.kind, each.name, path, version))
    named = dict.fromkeys((*_connectors(definition), *_graphs(definition)))
    return found + [Reference(kind, name, _path(visit, kind, name), "newest") for kind, name in named]


async def _set_status(visit: Visit, status: WorkflowStatus.ValueType, notice: str) -> PageResult:
    request = UpdateWorkflowStatusRequest(workflow=visit.path["workflow_id"], status=status)
    try:
        workflow = await visit.services.call("WorkflowsService/UpdateWorkflowStatus", request)
    except Refusal as refusal:
        if refusal.code not in _NOT_THERE:
            raise
        return View("workflows/missing.html", {"message": refusal.message}, status=404)
    return Redirect(f"/workflows/{quote(workflow.workflow_id, safe='')}", notice)


async def _versions_of(visit: Visit, workflow: Workflow) -> VersionList:
    """Returns the newest versions; none for people who may not see versions."""
    if not visit.may("DefinitionsService/ListDefinitionVersions"):
        return VersionList([], "")
    return await read_versions(visit.services, WORKFLOW, workflow.workflow_id, size=_VERSIONS)


async def _keys_of(visit: Visit, workflow: Workflow) -> list[KeyRecord]:
    """Returns the keys, of the newest thousand, that may start a workflow; none for people who may not see keys."""
    if visit.user.role not in ADMINISTRATORS:
        return []
    answer = await visit.services.call("KeysService/ListKeys", ListKeysRequest(page_size=_MOST_KEYS))
    return [record for record in answer.items if _may_start(record, workflow)]


def _share(completed: int, failed: int) -> str:
    """Returns the share of completed among completed and failed runs in percent; empty where there are none."""
    ended = completed + failed
    return f"{100 * completed / ended:.1f}".removesuffix(".0") + " %" if ended else ""


def _may_start(record: KeyRecord, workflow: Workflow) -> bool:
    access = record.key.workflow_access
    if record.state != "active" or SCOPE_RUNS_CREATE not in record.key.scopes:
        return False
    return access.mode == WorkflowAccess.MODE_ALL_ACTIVE or workflow.workflow_id in access.workflow_ids


def _parameter(declared: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the declaration of a parameter, with its default and bounds as JSON."""
    default = declared.get("default")
    return {
        "name": declared["name"],
        "type": declared["type"],
        "description": declared.get("description") or "",
        "required": bool(declared.get("required")),
        "default": "" if default is None else _json(default),
        "bounds": [(name, _json(declared[name])) for name in _BOUNDS if declared.get(name) is not None],
    }


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _connectors(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for step in definition.get("steps") or ():
        yield from ((CONNECTOR.kind, name) for name in step.get("connectors") or ())
    for parameter in definition.get("parameters") or ():
        if parameter.get("connector"):
            yield CONNECTOR.kind, parameter["connector"]


def _graphs(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for entry in definition.get("publish") or ():
        yield GRAPH.kind, entry["knowledge_graph"]


def _path(visit: Visit, kind: str, id_or_name: str) -> str:
    definition, readers = _PAGES[kind]
    return definition.page_of(id_or_name) if visit.user.role in readers else ""
